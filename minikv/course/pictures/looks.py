"""The one visual language: a word, a letter and a look for each state of a slot or a node, and for each event.

A *state* is what a slot or a node is now, an *event* is what the last operation did to it. Trees, pools, page tables,
the bar of sizes, the film's player and the playground all read this table, and so do their legends. A shape or a
letter says all that a color says.
"""

from __future__ import annotations

from collections.abc import Iterable

from minikv.course.pictures.svg import Paper, Part
from minikv.palette import EVENTS, INK, STATES

WORDS = (*STATES, *EVENTS)
LETTERS = {word: (STATES | EVENTS)[word].letter for word in WORDS}
# The state that each size of a cache counts.
SIZES = {"free": "free", "in hand": "in hand", "evictable": "cached", "protected": "locked"}
_SIDE, _LINE, _LETTER = 16, 22, 7.2


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

    >>> size_words("free", 3), size_words("evictable", 4)
    ('free 3', 'cached 4 (evictable)')
    """
    state = SIZES[name]
    return f"{state} {value}" + (f" ({name})" if name != state else "")


def state_css() -> str:
    """The states as classes of a style sheet, for the bar of sizes in a browser.

    >>> ".minikv-is-in-hand { background: #ffe8cc; border: 1px solid #994d00; border-radius: 5px; }" in state_css()
    True
    """
    rules = []
    for state, look in STATES.items():
        line = "3px double" if state == "locked" else "1px dashed" if look.dash else "1px solid"
        fill = "transparent" if look.fill == "none" else look.fill
        round_ = " border-radius: 5px;" if state == "in hand" else ""
        rules.append(
            f".minikv-is-{state.replace(' ', '-')} {{ background: {fill}; border: {line} {look.line};{round_} }}"
        )
    return "\n".join(rules) + "\n"


def legend_svg(words: Iterable[str], width: float) -> tuple[str, float]:
    """The legend as SVG content for a paper of some `width`, and how high it is; nothing where there are no words.

    >>> legend_svg(["free"], 200)[1], legend_svg([], 200)
    (26, ('', 0))
    """
    parts, x, y = [], 4.0, 4
    for word in sorted_words(words):
        wide = _SIDE + 6 + _LETTER * len(word) + 14
        if x > 4 and x + wide > width:
            x, y = 4.0, y + _LINE
        parts.append(f'<g transform="translate({x:g} {y})">{_swatch(word)}')
        parts.append(f'<text x="{_SIDE + 6}" y="13" font-size="12" text-anchor="start">{word}</text></g>')
        x += wide
    return ("".join(parts), y + _LINE) if parts else ("", 0)


def with_legend(paper: Paper, words: Iterable[str], parts: Iterable[Part], margin: float = 0) -> str:
    """A picture with the legend below it, and so much margin below that."""
    legend, high = legend_svg(words, paper.width)
    below = f'<g transform="translate(0 {paper.height:g})">{legend}</g>' if legend else ""
    return paper._replace(height=paper.height + high + margin, over=paper.over + below).svg(parts)


def legend_html(words: Iterable[str]) -> str:
    """The legend as a list in HTML, which wraps where the page is narrow.

    >>> legend_html(["locked"]).count("<li")
    1
    """
    item = "display:inline-flex;gap:5px;align-items:center;margin:0"
    box = f'<svg width="{_SIDE + 2}" height="{_SIDE + 2}" viewBox="-1 -1 {_SIDE + 2} {_SIDE + 2}" aria-hidden="true"'
    font = 'font-size="11" font-weight="bold" text-anchor="middle">'
    items = [f'<li style="{item}">{box} {font}{_swatch(word)}</svg>{word}</li>' for word in sorted_words(words)]
    place = "display:flex;flex-wrap:wrap;gap:2px 16px;list-style:none;margin:4px 0;padding:0"
    return f'<ul class="minikv-legend" aria-label="legend" style="{place}">{"".join(items)}</ul>' if items else ""


def _swatch(word: str) -> str:
    if word in STATES:
        return box_path(word, _SIDE)
    state = {"taken": "in hand", "freed": "free"}.get(word, "cached")
    ink = f'text-anchor="middle" fill="{"currentColor" if word == "freed" else INK}"'
    letter = f'<text x="{_SIDE / 2:g}" y="12.5" font-size="12" font-weight="bold" {ink}>{LETTERS[word]}</text>'
    return box_path(state, _SIDE, word) + letter


def box_path(state: str, side: int, event: str = "") -> str:
    """A square with the look of a state and an event: round for what is in hand, double for what is locked.

    >>> box_path("cached", 10)
    '<path fill="#e9ecef" stroke="#495057" d="M0 0h10v10h-10z"/>'
    """
    outline, inner = f"M0 0h{side}v{side}h-{side}z", ""
    if state == "in hand":
        r = round(side * 0.36)
        straight = side - 2 * r
        arcs = [f"a{r} {r} 0 0 1 {dx} {dy}" for dx, dy in ((r, r), (-r, r), (-r, -r), (r, -r))]
        outline = f"M{r} 0h{straight}{arcs[0]}v{straight}{arcs[1]}h-{straight}{arcs[2]}v-{straight}{arcs[3]}z"
    elif state == "locked":
        high = side - 6
        inner = f'<path fill="none" stroke="{STATES["locked"].line}" d="M3 3h{high}v{high}h-{high}z"/>'
    return f'<path {style(state, event)} d="{outline}"/>{inner}'
