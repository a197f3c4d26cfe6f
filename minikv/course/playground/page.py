"""The page of a playground: its controls, tree, pool, sizes, locks and history, as HTML and as text."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import ipywidgets as widgets

from minikv.course.film import Frame
from minikv.course.pictures.svg import svg_size, words_svg
from minikv.course.playground.lessons import SCENES
from minikv.course.playground.live import History
from minikv.course.playground.steps import NAMES, Settings
from minikv.prefix import INDEXES
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix import EVICT_BY

_TIPS = {
    "match": "how much of the prompt is cached?",
    "insert": "serve the prompt: match, lock, make room, insert, unlock",
    "lock": "hold what is cached of the prompt",
    "unlock": "give the chosen lock back",
    "evict": "free at least so many tokens",
    "start": "begin a request with the prompt, and let it run",
    "publish": "compute the prompt of the chosen request, and let others find it",
    "finish": "end the chosen request, and keep what it computed",
    "abort": "end the chosen request at once",
    "reset": "forget everything that is cached",
    "undo": "take the last step back",
    "redo": "do the undone step again",
    "start over": "load the scene again; undo leads back",
}
# Typed text is sent when its field is left: sent key by key, a click could overtake the last key.
_TYPED: Any = {"continuous_update": False}


class Controls:
    """Every control of a playground, by name."""

    def __init__(self, settings: Settings):
        typed = {"placeholder": "hello, or 1 2 3", **_TYPED}
        self.prompt = _field(widgets.Text, "prompt", "auto", "1 1 240px", **typed)
        self.namespace = _field(widgets.Text, "namespace", "160px", placeholder="default", **_TYPED)
        self.amount = _field(widgets.IntText, "tokens", "110px", value=1, **_TYPED)
        self.held = _field(widgets.Dropdown, "held", "220px")
        self.runs = _field(widgets.Dropdown, "running", "220px")
        self.scene = _field(widgets.Dropdown, "scene", "260px", options=["(none)", *SCENES])
        self._fields = self.prompt, self.namespace, self.amount, self.held, self.runs
        self.more = widgets.ToggleButton(description="settings", layout=_place("84px"))
        self.buttons = {name: _button(name, tip) for name, tip in _TIPS.items()}
        choices = {"policy": [*POLICIES], "evict_by": [*EVICT_BY], "index": [*INDEXES]}
        self.settings = {}
        for name in NAMES:
            value = getattr(settings, name)
            self.settings[name] = _setting(name, value, choices.get(name))
        self.aim, self.message, self.view = (
            widgets.HTML(layout=widgets.Layout(width="auto", margin="3px 0")) for _ in range(3)
        )

    def _rows(self, has_goal: bool, has_requests: bool) -> Any:
        """All of them in a box, row by row."""
        act = self.buttons
        adjust = _row("settings", *self.settings.values(), self.namespace)
        adjust.layout.display = "none"
        self.more.observe(lambda _: setattr(adjust.layout, "display", "" if self.more.value else "none"), "value")
        history = _group(act["undo"], act["redo"], act["reset"], act["start over"])
        request = _row("request", act["start"], self.runs, act["publish"], act["finish"], act["abort"])
        found = [
            *[self.aim] * has_goal,
            _row("begin", *[self.scene] * (not has_goal), history, self.more),
            adjust,
            _row("type", self.prompt, _group(act["match"], act["insert"], act["lock"])),
            *[request] * has_requests,
            _row("act", _group(self.held, act["unlock"]), _group(self.amount, act["evict"])),
            self.message,
            self.view,
        ]
        box = widgets.VBox(found, layout=widgets.Layout(overflow="visible"))
        box.add_class("minikv-playground")
        return box

    def _offer(self, settings: Settings, locks: dict[int, str], running: dict[int, str]) -> None:
        """Show the settings in force, and offer the locks and the requests that there are."""
        for name, control in self.settings.items():
            control.value = getattr(settings, name)
        _choices(self.held, [(f"{number}: {what}", number) for number, what in locks.items()], "no lock")
        _choices(self.runs, [(f"r{number}: {what}", number) for number, what in running.items()], "none")
        self._refresh()

    def _refresh(self) -> None:
        """Send every control a word that it has already.

        ipykernel 7.4 hears each widget in the thread in which something was last sent to it. Left alone, a field is
        heard in one thread and a button in another, and a click overtakes what was typed before it.
        """
        for control in [*self._fields, self.scene, self.more, *self.settings.values(), *self.buttons.values()]:
            control.send_state("description")


def _place(width: str, flex: str = "0 0 auto") -> Any:
    return widgets.Layout(width=width, flex=flex, max_width="100%", margin="2px 6px 2px 0")


def _button(name: str, tip: str) -> Any:
    style = "primary" if name == "insert" else ""
    return widgets.Button(description=name, tooltip=tip, button_style=style, layout=_place("auto"))


def _field(kind: Any, words: str, width: str, flex: str = "0 0 auto", **more: Any) -> Any:
    return kind(description=words, layout=_place(width, flex), style={"description_width": "initial"}, **more)


def _setting(name: str, value: Any, choices: list[str] | None) -> Any:
    if choices is None:
        return _field(widgets.IntText, NAMES[name], "128px", value=value, **_TYPED)
    return _field(widgets.Dropdown, NAMES[name], "150px", options=choices, value=value)


def _group(*controls: Any) -> Any:
    """Controls that stay together when the row wraps."""
    layout = widgets.Layout(flex_flow="row wrap", margin="0 16px 0 0", max_width="100%", overflow="visible")
    return widgets.HBox(controls, layout=layout)


def _row(words: str, *controls: Any) -> Any:
    """Controls in one line after what they are for; it wraps where the window is narrow."""
    title = widgets.HTML(f"<b>{words}</b>", layout=widgets.Layout(width="64px", margin="2px 0"))
    layout = widgets.Layout(flex_flow="row wrap", align_items="center", overflow="visible")
    return widgets.HBox([title, *controls], layout=layout)


def _choices(field: Any, found: list[tuple[str, int]], nothing: str) -> None:
    """Set the options of a field; the chosen one stays chosen while it is there."""
    chosen = field.value
    field.options = found or [(nothing, 0)]  # locks and requests are numbered from 1
    field.value = chosen if chosen in [number for _, number in found] else field.options[0][1]


SHOWN = 8  # lines of history
_PANEL = "line-height:1.4;font-size:13px;padding:8px;border:1px solid #8888;border-radius:4px"
_SMALLEST = 0.65  # of its size: shrunk further the picture could not be read
_NO_WIDER = "display:grid;grid-template-columns:minmax(0,1fr)"  # a wide picture scrolls instead of widening the page
# Each is told apart by its sign and its border; the tint lets the page's own ink be read in any theme.
_TONES = {
    "good": ("✓", "#2f9467", "rgb(47 148 103 / 14%)", "status"),
    "bad": ("✗", "#d04a58", "rgb(208 74 88 / 14%)", "alert"),
    "hint": ("▸", "#3b82d6", "rgb(59 130 214 / 12%)", "status"),
}


def message_html(tone: str, words: str, role: str = "") -> str:
    """The message box: "good", "bad" or "hint", told apart by sign and border as well as by color.

    >>> "✗" in message_html("bad", "1 < 2"), "1 &lt; 2" in message_html("bad", "1 < 2")
    (True, True)
    """
    sign, line, fill, usual = _TONES[tone]
    style = f"border:{2 if tone == 'bad' else 1}px solid {line};border-left-width:6px;background:{fill}"
    box = f"{style};padding:3px 10px;border-radius:4px;line-height:1.4;font-size:13px;overflow-wrap:anywhere"
    return f'<div role="{role or usual}" style="{box}"><b>{sign}</b> {escape(words)}</div>'


def view_of(history: History) -> Frame:
    """The present state, marked with the changes of the last step, and requests only while one runs."""
    return history.live.film.at(-1)


def playground_text(history: History) -> str:
    """The text twin: settings, tree, pool, what runs, sizes, locks and the last steps.

    >>> print(playground_text(History()))
    Playground(page_size=1, capacity=32, policy='lru', evict_by='node')
    root
    FreeListPool: 32 of 32 slots free
      0  ................
     16  ................    . free
    free slots 32 · in hand 0 · cached 0 (evictable) · locked 0 (protected)
    """
    return "\n".join([f"Playground({history.settings})", view_of(history).contents, *_log(history)])


def page_html(history: History) -> str:
    """The same as HTML in the page's own ink; in a narrow window the picture shrinks, and then scrolls.

    >>> "free slots 32" in page_html(History())
    True
    """
    view = view_of(history)
    svg = view.picture.svg or words_svg(view.text)
    style = f"height:auto;min-width:{_SMALLEST * svg_size(svg)[0]:g}px;display:block;color:inherit"
    drawn = svg.replace("<svg", '<svg aria-hidden="true"', 1).replace("height:auto", style, 1)
    picture = f'<div role="img" aria-label="{escape(view.contents)}" tabindex="0" style="overflow-x:auto">{drawn}</div>'
    said = escape("\n".join([str(history.settings), *_log(history)]))
    lines = f'<div style="white-space:pre-wrap;overflow-wrap:anywhere">{said}</div>'
    return f'<div style="{_NO_WIDER}"><div style="{_PANEL}">{picture}{lines}</div></div>'


def _log(history: History) -> Iterator[str]:
    """The locks, and the lines of history near the present: each step with its result, or that it is undone."""
    yield from (f"lock {number}: {what}" for number, (_, what) in history.live.locks.items())
    end = min(len(history.steps), max(history.at + SHOWN // 2, SHOWN))
    start = max(0, end - SHOWN)
    if start:
        yield f"… {start} earlier"
    for i in range(start, end):
        yield f"{i + 1}. {history.steps[i]}" + (f": {history.outcomes[i].words}" if i < history.at else " (undone)")
    if end < len(history.steps):
        yield f"… {len(history.steps) - end} more (undone)"
