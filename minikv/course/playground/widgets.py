"""The playground: one live cache for a classroom, under plain ipywidgets.

Type a prompt, text or token ids, press a button, and see tree, pool and sizes at once; undo, redo, choose a scene, or
ask what the same steps would have done with other pages or another policy. With a goal it says whether that is
reached, and if not, what is missing. The widgets only read what is typed, pass it to a `History`
and show the outcome. Every error is shown in the message box; none is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import RLock
from typing import Any

import ipywidgets as widgets

from minikv.course.film import Film
from minikv.course.film.layout import picture_of
from minikv.course.pictures.picture import Picture
from minikv.course.playground.controls import LABEL, NONE, group, offer, place, row, title
from minikv.course.playground.goals import GOALS, Goal, Refusal, goal_of
from minikv.course.playground.history import History
from minikv.course.playground.page import frame_of, message_html, page_html, text_of
from minikv.course.playground.scenes import SCENES, Scene
from minikv.course.playground.steps import NAMES, Settings, Step, prompt_step
from minikv.errors import LockError, OutOfPages
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
_WELCOME = "Type a prompt, text or token ids, and press insert; or choose a scene."
_OF_A_PROMPT, _OF_A_REQUEST = ("match", "insert", "lock", "start"), ("publish", "finish", "abort")


class Playground:
    """A live cache to press buttons at; made by `playground`, shown by being the last line of a cell.

    `history` is the history and the live cache (`history.live.cache`); `text` is the text twin of what is shown.

    >>> room = Playground(Settings(capacity=4))
    >>> room.prompt.value = "hello world"
    >>> room.buttons["insert"].click(); room.said
    'insert: 11 pages needed, but only 4 free and 0 evictable'
    """

    def __init__(
        self, settings: Settings | None = None, scene: str | None = None, goal: str | Goal | None = None,
        requests: bool = False,
    ):  # fmt: skip
        self.history, self.said, self._turn, self._loading = History(settings), _WELCOME, RLock(), False
        self.goal = None if goal is None else goal_of(goal)
        self.refused: Refusal | None = None
        self.requests = requests or self.goal is GOALS["publish, hit, and abort"]
        self._make_inputs()
        self._make_settings()
        wide = {"width": "auto", "margin": "3px 0"}
        self.aim, self.message, self.view = (widgets.HTML(layout=widgets.Layout(**wide)) for _ in range(3))
        self.box = widgets.VBox(self._rows(), layout=widgets.Layout(overflow="visible"))
        self.box.add_class("minikv-playground")
        if self.goal is not None:
            self._begin(self.goal.scene)
        elif scene is not None:
            self._load(scene)
        else:
            self._show("hint", _WELCOME)

    @property
    def text(self) -> str:
        """What is shown, as text."""
        return "\n".join([*([self._aim()[1]] if self.goal else []), text_of(self.history)])

    @property
    def film(self) -> Film:
        """The film of the steps since the scene, or the reset, that it began with."""
        return self.history.live.film

    @property
    def picture(self) -> Picture:
        """The last step's frame: tree, pool and sizes."""
        frame = frame_of(self.history)
        return Picture(self.text, lambda: picture_of(frame).svg)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        still, size = self.picture._repr_mimebundle_()
        # Written here because ipywidgets 7 has no method that gives it.
        live = {"version_major": 2, "version_minor": 0, "model_id": self.box.model_id}
        return {**still, "text/plain": self.text, "application/vnd.jupyter.widget-view+json": live}, size

    def _aim(self) -> tuple[bool, str]:
        """Whether the goal is reached, and in words."""
        assert self.goal is not None
        done, words = self.goal.state(self.history, self.refused)
        return done, f"goal: {self.goal.name} ({words})"

    # -- buttons and fields ---------------------------------------------------------------------

    def _make_inputs(self) -> None:
        # Typed text is sent when its field is left: sent key by key, a click could overtake the last key.
        typed = {"style": LABEL, "continuous_update": False}
        self.prompt = widgets.Text(
            description="prompt", placeholder="hello, or 1 2 3", layout=place("auto", flex="1 1 240px"), **typed
        )
        self.namespace = widgets.Text(description="namespace", placeholder="default", layout=place("160px"), **typed)
        self.amount = widgets.IntText(value=1, description="tokens", layout=place("110px"), **typed)
        self.held = widgets.Dropdown(description="held", layout=place("220px"), style=LABEL)
        self.runs = widgets.Dropdown(description="running", layout=place("220px"), style=LABEL)
        self.scene = widgets.Dropdown(
            options=["(none)", *SCENES], description="scene", layout=place("260px"), style=LABEL
        )
        self.more = widgets.ToggleButton(description="settings", tooltip="pages, policy", layout=place("84px"))
        self.buttons = {name: self._button(name) for name in _TIPS}
        self.scene.observe(lambda _: self._choose_scene(), "value")
        self.more.observe(lambda _: self._reveal(), "value")
        for field in (self.prompt, self.namespace, self.amount, self.held, self.runs):
            field.observe(lambda _: self._speak_for_all(), "value")

    def _make_settings(self) -> None:
        choices = {"policy": list(POLICIES), "evict_by": list(EVICT_BY), "index": list(INDEXES)}
        self.settings: dict[str, Any] = {}
        for name, label in NAMES.items():
            what = {"value": getattr(self.history.settings, name), "description": label, "style": LABEL}
            if name in choices:
                control = widgets.Dropdown(options=choices[name], layout=place("150px"), **what)
            else:
                control = widgets.IntText(continuous_update=False, layout=place("128px"), **what)
            control.observe(lambda _, name=name: self._choose(name), "value")
            self.settings[name] = control

    def _rows(self) -> list[Any]:
        act = self.buttons
        self.adjust = row(title("settings"), *self.settings.values(), self.namespace)
        history = group(act["undo"], act["redo"], act["reset"], act["start over"])
        requests = [act["start"], self.runs, act["publish"], act["finish"], act["abort"]]
        self._reveal()
        return [
            *([self.aim] if self.goal else []),
            row(title("begin"), *([] if self.goal else [self.scene]), history, self.more),
            self.adjust,
            row(title("type"), self.prompt, group(act["match"], act["insert"], act["lock"])),
            *([row(title("request"), *requests)] if self.requests else []),
            row(title("act"), group(self.held, act["unlock"]), group(self.amount, act["evict"])),
            self.message,
            self.view,
        ]

    def _reveal(self) -> None:
        self.adjust.layout.display = "" if self.more.value else "none"

    def _button(self, name: str) -> Any:
        style = "primary" if name == "insert" else ""
        button = widgets.Button(description=name, tooltip=_TIPS[name], button_style=style, layout=place("auto"))
        button.on_click(lambda _: self._press(name))
        return button

    # -- what a press does -----------------------------------------------------------------------------------------

    def _press(self, name: str) -> None:
        special: dict[str, Callable[[], None]] = {
            "undo": lambda: self._show("hint", f"undone: {self.history.undo()}"),
            "redo": lambda: self._show("good", f"done again: {self.history.redo()}"),
            "start over": self._start_over,
        }
        self._try(name, special.get(name, lambda: self._do(self._step(name))))

    def _step(self, verb: str) -> Step:
        if verb in _OF_A_PROMPT:
            return prompt_step(verb, self.prompt.value, namespace=self.namespace.value.strip() or None)
        if verb == "unlock":
            if self.held.value == NONE:
                raise LockError("no lock is held")
            return Step(verb, str(self.held.value), number=self.held.value)
        if verb in _OF_A_REQUEST:
            return Step(verb, f"r{self.runs.value}", number=self.runs.value)
        return Step(verb, str(self.amount.value), number=self.amount.value) if verb == "evict" else Step(verb)

    def _do(self, step: Step) -> None:
        try:
            self.history.do(step)
        except OutOfPages as error:
            self.refused = step, error
            raise
        self._show("good", f"{step}: {self.history.outcomes[-1].words}")

    def _load(self, name: str) -> None:
        if name not in SCENES:
            raise ValueError(f"scene is {name!r}: expected one of {', '.join(map(repr, SCENES))}")
        self._begin(SCENES[name])

    def _begin(self, scene: Scene) -> None:
        self.history.do(*scene.steps)
        self._loading, self.refused = True, None
        self.scene.value = scene.name if scene.name in SCENES else "(none)"
        self._loading = False
        self.prompt.value, self.namespace.value = scene.then, ""
        self._show("hint", scene.hint)

    def _choose_scene(self) -> None:
        if not self._loading and self.scene.value in SCENES:
            self._try("scene", lambda: self._load(self.scene.value))

    def _start_over(self) -> None:
        if self.goal is not None:
            self._begin(self.goal.scene)
        elif self.scene.value in SCENES:
            self._load(self.scene.value)
        else:
            raise ValueError("no scene was chosen: undo, or reset")

    def _choose(self, name: str) -> None:
        """A setting was changed, by hand or by us: only what differs from the history's is a choice."""
        value = self.settings[name].value
        if value != getattr(self.history.settings, name):
            self._try(NAMES[name], lambda: self._set(replace(self.history.settings, **{name: value})))

    def _set(self, settings: Settings) -> None:
        self.history.set(settings)
        self._show("good", f"{self.history.steps[-1].said}: {self.history.outcomes[-1].words}")

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
        fields = [self.prompt, self.namespace, self.amount, self.held, self.runs, self.scene, self.more]
        for control in [*fields, *self.settings.values(), *self.buttons.values()]:
            control.send_state("description")

    def _show(self, tone: str, words: str) -> None:
        self.said = words
        self.message.value = message_html(tone, words)
        self.view.value = page_html(self.history)
        if self.goal is not None:
            done, said = self._aim()
            self.aim.value = message_html("good" if done else "hint", said, "note")
        for name, control in self.settings.items():
            control.value = getattr(self.history.settings, name)
        live = self.history.live
        offer(self.held, [(f"{number}: {what}", number) for number, (_, what) in live.locks.items()], "no lock")
        offer(self.runs, [(f"r{number}: {what}", number) for number, (_, what) in live.running.items()], "none")
        self._speak_for_all()


def playground(
    page_size: int = 1, capacity: int = 32, policy: str = "lru", scene: str | None = None, *, evict_by: str = "node",
    goal: str | Goal | None = None, requests: bool = False, index: str = "radix",
) -> Playground:  # fmt: skip
    """A live cache over a pool of `capacity` pages, with buttons, undo and scenes; `scene` is loaded at once.

    With a `goal` (one of `GOALS`, by its name) it begins with the goal's scene and says whether the goal is reached;
    `requests` adds buttons for requests that run on, and `index` names another design of the cache (one of `INDEXES`).
    A scene brings its own settings; without any it begins with the first scene. Raises `ValueError` or `TypeError` for
    settings that no cache can have and for an unknown scene or goal. Where widgets do not run, the stored picture and
    text show what was there.

    >>> playground(capacity=8, scene="evict the tail first").history.steps[-1].verb
    'evict'
    >>> playground(goal="cut an edge in one step")
    goal: cut an edge in one step (not yet: no edge was cut)
    Playground(page_size=1, capacity=32, policy='lru', evict_by='node')
    root
    └─ [1 2 3 4 5 6] · n1 · slots 0-5 · new
    FreeListPool: 26 of 32 free
      0  nnnnnn..........
     16  ................    . free  n new
    free 26 · in hand 0 · cached 6 (evictable) · locked 0 (protected)
    1. scene 'cut': begins with an empty cache
    2. insert [1 2 3 4 5 6]: 0 of 6 cached, 6 new in slots 0-5
    """
    settings = Settings(page_size, capacity, policy, evict_by, index)
    if scene is None and settings == Settings() and not requests:
        scene = next(iter(SCENES))
    return Playground(settings, scene, goal, requests)
