"""The one visual language: a word, a letter and a look for each state and each event, and the colors of the rest.

A *state* is what a slot or a node is now, an *event* is what the last operation did to it. Every command and every
chapter draws with these, on light pages and on dark ones. A shape or a letter says all that a color says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

INK = "#212529"  # of what is written on a filled box
BOTH = "#70767d"  # of lines and words beside the boxes: it can be read on a white page and on a black one
# Of the lines of a plot, in this order; each can be told from a white page and from a black one.
LINES = ("#3b82d6", "#d04a58", "#2f9467", "#b07d12", "#9a62cc", BOTH, "#1c93a4")


class Look(NamedTuple):
    """How one state or event is shown; an event without a `fill` keeps that of the state."""

    letter: str
    fill: str
    line: str
    dash: str = ""
    weight: int = 1


STATES = {
    "free": Look(".", "none", "#868e96", "4 3"),
    "in hand": Look("h", "#ffe8cc", "#994d00"),
    "cached": Look("c", "#e9ecef", "#495057"),
    "locked": Look("l", "#fff3cd", "#664d03"),
    "computed": Look("#", "#ced4da", "#495057"),  # these two are states of a request's tokens
    "to compute": Look(".", "none", "#868e96", "2 2"),
}
# Where several happened, the first one here gives the colour.
EVENTS = {
    "evicted": Look("e", "#f8d7da", "#842029", "6 3", 2),
    "new": Look("n", "#cfe2ff", "#084298", "", 3),
    "joined": Look("j", "#cff4fc", "#055160", "", 2),
    "matched": Look("m", "#d1e7dd", "#0f5132", "", 2),
    "split": Look("s", "#e2d9f3", "#432874", "", 2),
    "taken": Look("+", "", "#994d00", "", 3),
    "freed": Look("−", "", "#c92a2a", "", 3),
}
WORDS = (*STATES, *EVENTS)
LETTERS = {word: look.letter for word, look in (STATES | EVENTS).items()}
# The state that each size of a cache counts.
SIZES = {"free": "free", "in hand": "in hand", "evictable": "cached", "protected": "locked"}


def style(state: str, event: str = "") -> str:
    """A state, and what just happened to it, as attributes of an SVG shape.

    >>> style("cached"), style("free", "freed")
    ('fill="#e9ecef" stroke="#495057"', 'fill="none" stroke="#c92a2a" stroke-width="3" stroke-dasharray="4 3"')
    """
    is_now, happened = STATES[state], EVENTS.get(event)
    look = happened or is_now
    found = f'fill="{look.fill or is_now.fill}" stroke="{look.line}"'
    found += f' stroke-width="{look.weight}"' if look.weight > 1 else ""
    dash = is_now.dash or look.dash
    return found + (f' stroke-dasharray="{dash}"' if dash else "")


def first_of(marks: Iterable[str]) -> str:
    """The event whose color is shown where several happened; empty where there is none.

    >>> first_of(["split", "matched", "locked"]), first_of([])
    ('matched', '')
    """
    there = set(marks)
    return next((event for event in EVENTS if event in there), "")


def sorted_words(words: Iterable[str]) -> tuple[str, ...]:
    """States and events, each once, in the order in which every legend has them.

    >>> sorted_words(["new", "cached", "new", "free"])
    ('free', 'cached', 'new')
    """
    there = set(words)
    return tuple(word for word in WORDS if word in there)


def text_legend(words: Iterable[str]) -> str:
    """The legend of a text twin.

    >>> text_legend(["new", "free"])
    '. free  n new'
    """
    return "  ".join(f"{LETTERS[word]} {word}" for word in sorted_words(words))


def size_words(name: str, value: int) -> str:
    """One of the sizes of a cache in words: the state that it counts, and its own name where that is another.

    The first of them says the unit of all.

    >>> size_words("free", 3), size_words("evictable", 4)
    ('free slots: 3', 'cached: 4 (evictable)')
    """
    state = SIZES[name]
    return f"{state}{' slots' * (name == 'free')}: {value}" + (f" ({name})" if name != state else "")


def state_css() -> str:
    """The states as classes of a style sheet, for the bar of sizes in a browser.

    >>> ".minikv-is-in-hand { background: #ffe8cc; border: 1px solid #994d00; border-radius: 5px; }" in state_css()
    True
    """
    rules = []
    for state in SIZES.values():
        look = STATES[state]
        line = "3px double" if state == "locked" else "1px dashed" if look.dash else "1px solid"
        fill = "transparent" if look.fill == "none" else look.fill
        round_ = " border-radius: 5px;" if state == "in hand" else ""
        rules.append(
            f".minikv-is-{state.replace(' ', '-')} {{ background: {fill}; border: {line} {look.line};{round_} }}"
        )
    return "\n".join(rules) + "\n"
