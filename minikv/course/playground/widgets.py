"""The playground: one live cache for a classroom, under plain ipywidgets.

Type a prompt, press a button, and see tree, pool and sizes at once; undo, redo, load a scene, or ask what the same
steps would have done with other pages or another policy. The widgets only read what is typed, pass it to a `History`
and show the outcome. Every error is shown in the message box; none is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import RLock
from typing import Any

import ipywidgets as widgets

from minikv.course.pictures.picture import Picture, beside
from minikv.course.playground.history import History
from minikv.course.playground.page import message_html, page_html, pictures, text_of
from minikv.course.playground.scenes import SCENES
from minikv.course.playground.steps import NAMES, Settings, Step, prompt_step
from minikv.errors import LockError
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix import EVICT_BY

_IDS, _TEXT = "token ids", "text"
_EXAMPLE = {_IDS: "1 2 3", _TEXT: "hello"}
_NO_LOCK = 0  # locks are numbered from 1
_TIPS = {
    "match": "how much of the prompt is cached?",
    "insert": "serve the prompt: match, lock, make room, insert, unlock",
    "lock": "hold what is cached of the prompt",
    "unlock": "give the chosen lock back",
    "evict": "free at least so many tokens",
    "reset": "forget everything that is cached",
    "undo": "take the last step back",
    "redo": "do the undone step again",
    "load": "begin anew with the chosen scene; undo leads back",
}
_WELCOME = "Type a prompt and press insert, or load a scene."


class Playground:
    """A live cache to press buttons at; made by `playground`, shown by being the last line of a cell.

    `history` is the history and the live cache (`history.live.cache`); `text` is the text twin of what is shown.

    >>> room = Playground(Settings(capacity=4))
    >>> room.prompt.value = "1 2 three"
    >>> room.buttons["insert"].click(); room.said
    "insert: tokens[2] is 'three' (str): a token is an integer in [0, 2**32)"
    """

    def __init__(self, settings: Settings | None = None, scene: str | None = None):
        self.history, self.said, self._turn = History(settings), _WELCOME, RLock()
        self._make_inputs()
        self._make_settings()
        self.message, self.view = (widgets.HTML(layout=widgets.Layout(width="auto", margin="3px 0")) for _ in range(2))
        self.box = widgets.VBox(self._rows(), layout=widgets.Layout(overflow="visible"))
        self.box.add_class("minikv-playground")
        if scene is None:
            self._show("hint", _WELCOME)
        else:
            self._load(scene)

    @property
    def text(self) -> str:
        """What is shown, as text."""
        return text_of(self.history, self._reads_text)

    @property
    def picture(self) -> Picture:
        """Tree and pool side by side."""
        return beside(*pictures(self.history, self._reads_text))

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        still, size = self.picture._repr_mimebundle_()
        # Written here because ipywidgets 7 has no method that gives it.
        live = {"version_major": 2, "version_minor": 0, "model_id": self.box.model_id}
        return {**still, "text/plain": self.text, "application/vnd.jupyter.widget-view+json": live}, size

    # -- buttons and fields ---------------------------------------------------------------------

    def _make_inputs(self) -> None:
        # Typed text is sent when its field is left: sent key by key, a click could overtake the last key.
        typed = {"style": _LABEL, "continuous_update": False}
        self.prompt = widgets.Text(
            description="prompt", placeholder=_EXAMPLE[_IDS], layout=_place("auto", flex="1 1 240px"), **typed
        )
        self.kind = widgets.ToggleButtons(options=[_IDS, _TEXT], style={"button_width": "84px"}, layout=_place("auto"))
        self.namespace = widgets.Text(description="namespace", placeholder="default", layout=_place("160px"), **typed)
        self.amount = widgets.IntText(value=1, description="tokens", layout=_place("110px"), **typed)
        self.held = widgets.Dropdown(description="held", layout=_place("220px"), style=_LABEL)
        self.scene = widgets.Dropdown(options=list(SCENES), description="scene", layout=_place("250px"), style=_LABEL)
        self.buttons = {name: self._button(name) for name in _TIPS}
        self.kind.observe(lambda _: self._retype(), "value")
        for field in (self.prompt, self.namespace, self.amount, self.held, self.scene):
            field.observe(lambda _: self._speak_for_all(), "value")

    def _make_settings(self) -> None:
        choices = {"policy": list(POLICIES), "evict_by": list(EVICT_BY)}
        self.settings: dict[str, Any] = {}
        for name, label in NAMES.items():
            what = {"value": getattr(self.history.settings, name), "description": label, "style": _LABEL}
            if name in choices:
                control = widgets.Dropdown(options=choices[name], layout=_place("150px"), **what)
            else:
                control = widgets.IntText(continuous_update=False, layout=_place("128px"), **what)
            control.observe(lambda _, name=name: self._choose(name), "value")
            self.settings[name] = control

    def _rows(self) -> list[Any]:
        act = self.buttons
        return [
            _row(*self.settings.values()),
            _row(_group(self.scene, act["load"]), _group(act["undo"], act["redo"], act["reset"])),
            _row(self.prompt, self.kind, self.namespace),
            _row(
                _group(act["match"], act["insert"], act["lock"]),
                _group(self.held, act["unlock"]),
                _group(self.amount, act["evict"]),
            ),
            self.message,
            self.view,
        ]

    def _button(self, name: str) -> Any:
        style = "primary" if name == "insert" else ""
        button = widgets.Button(description=name, tooltip=_TIPS[name], button_style=style, layout=_place("72px"))
        button.on_click(lambda _: self._press(name))
        return button

    # -- what a press does -----------------------------------------------------------------------------------------

    @property
    def _reads_text(self) -> bool:
        return bool(self.kind.value == _TEXT)

    def _press(self, name: str) -> None:
        special: dict[str, Callable[[], None]] = {
            "undo": lambda: self._show("hint", f"undone: {self.history.undo()}"),
            "redo": lambda: self._show("good", f"done again: {self.history.redo()}"),
            "load": lambda: self._load(self.scene.value),
        }
        self._try(name, special.get(name, lambda: self._do(self._step(name))))

    def _step(self, verb: str) -> Step:
        if verb in ("match", "insert", "lock"):
            namespace = self.namespace.value.strip() or None
            return prompt_step(verb, self.prompt.value, text=self._reads_text, namespace=namespace)
        if verb == "unlock":
            if self.held.value == _NO_LOCK:
                raise LockError("no lock is held")
            return Step(verb, str(self.held.value), number=self.held.value)
        return Step(verb, str(self.amount.value), number=self.amount.value) if verb == "evict" else Step(verb)

    def _do(self, step: Step) -> None:
        self.history.do(step)
        self._show("good", f"{step}: {self.history.outcomes[-1].words}")

    def _load(self, name: str) -> None:
        if name not in SCENES:
            raise ValueError(f"scene is {name!r}: expected one of {', '.join(map(repr, SCENES))}")
        scene = SCENES[name]
        self.history.do(*scene.steps)
        self.scene.value, self.prompt.value, self.namespace.value = name, scene.then, ""
        self.kind.value = _TEXT if scene.text else _IDS
        self._show("hint", scene.hint)

    def _choose(self, name: str) -> None:
        """A setting was changed, by hand or by us: only what differs from the history's is a choice."""
        value = self.settings[name].value
        if value != getattr(self.history.settings, name):
            self._try(NAMES[name], lambda: self._set(replace(self.history.settings, **{name: value})))

    def _set(self, settings: Settings) -> None:
        self.history.set(settings)
        self._show("good", f"{self.history.steps[-1].said}: {self.history.outcomes[-1].words}")

    def _retype(self) -> None:
        self.prompt.placeholder = _EXAMPLE[self.kind.value]
        self.view.value = page_html(self.history, self._reads_text)
        self._speak_for_all()

    def _try(self, what: str, act: Callable[[], None]) -> None:
        with self._turn:
            try:
                act()
            except Exception as error:  # a lesson shows a message, never a traceback
                self._show("bad", f"{what}: {error}")

    def _speak_for_all(self) -> None:
        """Send every control a word that it has already.

        ipykernel 7.4 hears each widget in the thread in which something was last sent to it. Left alone, a field is
        heard in one thread and a button in another, and a click overtakes what was typed before it.
        """
        fields = [self.prompt, self.kind, self.namespace, self.amount, self.held, self.scene]
        for control in [*fields, *self.settings.values(), *self.buttons.values()]:
            control.send_state("description")

    def _show(self, tone: str, words: str) -> None:
        self.said = words
        self.message.value = message_html(tone, words)
        self.view.value = page_html(self.history, self._reads_text)
        for name, control in self.settings.items():
            control.value = getattr(self.history.settings, name)
        chosen = self.held.value
        locks = [(f"{number}: {what}", number) for number, (_, what) in self.history.live.locks.items()]
        self.held.options = locks or [("no lock", _NO_LOCK)]
        self.held.value = chosen if chosen in self.history.live.locks else self.held.options[0][1]
        self._speak_for_all()


def playground(
    page_size: int = 1, capacity: int = 32, policy: str = "lru", scene: str | None = None, *, evict_by: str = "node"
) -> Playground:
    """A live cache over a pool of `capacity` pages, with buttons, undo and scenes; `scene` is loaded at once.

    A scene brings its own settings. Raises `ValueError` or `TypeError` for settings that no cache can have and for
    an unknown scene. Where widgets do not run, the stored picture and text show what was there.

    >>> playground(capacity=8, scene="evict the tail first").history.steps[-1].verb
    'evict'
    >>> playground(capacity=4)
    Playground(page_size=1, capacity=4, policy='lru', evict_by='node')
    tokens: 4 free + 0 evictable + 0 protected = 4
    root
    FreeListPool: 4 of 4 free
     0  ....    . free
    """
    return Playground(Settings(page_size, capacity, policy, evict_by), scene)


_LABEL = {"description_width": "initial"}


def _place(width: str, flex: str = "0 0 auto") -> Any:
    return widgets.Layout(width=width, flex=flex, max_width="100%", margin="2px 6px 2px 0")


def _group(*controls: Any) -> Any:
    """Controls that stay together when the row wraps."""
    layout = widgets.Layout(margin="0 16px 0 0", max_width="100%", overflow="visible")
    return widgets.HBox(list(controls), layout=layout)


def _row(*controls: Any) -> Any:
    layout = widgets.Layout(flex_flow="row wrap", align_items="center", overflow="visible")
    return widgets.HBox(list(controls), layout=layout)
