"""The controls of a playground: fields, buttons and settings, what each is for, and the rows that they are in."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from minikv.course.playground.lessons import SCENES
from minikv.course.playground.steps import NAMES, Settings
from minikv.prefix import INDEXES
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix import EVICT_BY

NONE = 0  # locks and requests are numbered from 1
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
_LABEL = {"style": {"description_width": "initial"}}
# Typed text is sent when its field is left: sent key by key, a click could overtake the last key.
_TYPED = {**_LABEL, "continuous_update": False}


class Controls:
    """Every control of a playground, by name."""

    def __init__(self, settings: Settings):
        self.prompt = widgets.Text(
            description="prompt", placeholder="hello, or 1 2 3", layout=_place("auto", flex="1 1 240px"), **_TYPED
        )
        self.namespace = widgets.Text(description="namespace", placeholder="default", layout=_place("160px"), **_TYPED)
        self.amount = widgets.IntText(value=1, description="tokens", layout=_place("110px"), **_TYPED)
        self.held = widgets.Dropdown(description="held", layout=_place("220px"), **_LABEL)
        self.runs = widgets.Dropdown(description="running", layout=_place("220px"), **_LABEL)
        options = ["(none)", *SCENES]
        self.scene = widgets.Dropdown(options=options, description="scene", layout=_place("260px"), **_LABEL)
        self._fields = self.prompt, self.namespace, self.amount, self.held, self.runs
        self.more = widgets.ToggleButton(description="settings", tooltip="pages, policy", layout=_place("84px"))
        self.buttons = {name: _button(name, tip) for name, tip in _TIPS.items()}
        choices = {"policy": list(POLICIES), "evict_by": list(EVICT_BY), "index": list(INDEXES)}
        self.settings = {name: _setting(name, getattr(settings, name), choices.get(name)) for name in NAMES}
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


def _setting(name: str, value: Any, choices: list[str] | None) -> Any:
    if choices is None:
        return widgets.IntText(value=value, description=NAMES[name], layout=_place("128px"), **_TYPED)
    return widgets.Dropdown(options=choices, value=value, description=NAMES[name], layout=_place("150px"), **_LABEL)


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
    """What can be chosen now; what was chosen stays chosen while it is there."""
    chosen = field.value
    field.options = found or [(nothing, NONE)]
    field.value = chosen if chosen in [number for _, number in found] else field.options[0][1]
