"""The playground: one live cache for a classroom, under plain ipywidgets.

Type a prompt, text or token ids, press a button, and see tree, pool and sizes at once; undo, redo, choose a scene, or
ask what the same steps would have done with other pages or another policy. With a goal it says whether that is
reached, and if not, what is missing. The widgets only read what is typed, pass it to a `History`
and show the outcome. Every error is shown in the message box; none is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from threading import RLock
from typing import Any

from minikv.course.pictures.picture import MimeBundle, Picture
from minikv.course.playground.lessons import GOALS, SCENES, Goal, Scene, goal_of
from minikv.course.playground.live import History
from minikv.course.playground.page import Controls, message_html, page_html, playground_text, view_of
from minikv.course.playground.steps import NAMES, Settings, Step, prompt_step

_WELCOME = "Type a prompt, text or token ids, and press Enter, which inserts it; or choose a scene."
_OF_A_PROMPT, _OF_A_REQUEST = ("match", "insert", "lock", "start"), ("publish", "finish", "abort")


class Playground(Controls):
    """A live cache to press buttons at; made by `playground`, shown by being the last line of a cell.

    `history` is the history and the live cache (`history.live.cache`), `text` is the text twin of what is shown, and
    `said` the last message.

    >>> room = Playground(Settings(capacity=4))
    >>> room.prompt.value = "hello world"
    >>> room.buttons["insert"].click(); room.said
    'insert: 11 pages needed, but only 4 free and 0 evictable'
    """

    def __init__(
        self, settings: Settings | None = None, scene: str | None = None, goal: str | Goal | None = None,
        requests: bool = False,
    ):  # fmt: skip
        self.history, self.said, self._turn, self._is_loading = History(settings), _WELCOME, RLock(), False
        self.goal: Any = None if goal is None else goal_of(goal)
        super().__init__(self.history.settings)
        self._listen()
        self.box = self._rows(self.goal is not None, requests or self.goal is GOALS["publish, hit, and abort"])
        if self.goal is not None:
            self._begin(self.goal.scene)
        elif scene is None:
            self._show("hint", _WELCOME)
        elif scene in SCENES:
            self._begin(SCENES[scene])
        else:
            raise ValueError(f"scene is {scene!r}: expected one of {', '.join(map(repr, SCENES))}")

    @property
    def text(self) -> str:
        """The page as text."""
        return "\n".join([*([self._aim()[1]] if self.goal else []), playground_text(self.history)])

    @property
    def picture(self) -> Picture:
        """The last step's frame: tree, pool and sizes."""
        view = view_of(self.history)
        return Picture(self.text, lambda: view.picture.svg)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> MimeBundle:
        still, size = self.picture._repr_mimebundle_()
        if "text/html" in still:
            still["text/html"] += "<p>Run the cell to play with it.</p>"
        # Written here because ipywidgets 7 has no method that gives it.
        live = {"version_major": 2, "version_minor": 0, "model_id": self.box.model_id}
        return {**still, "text/plain": self.text, "application/vnd.jupyter.widget-view+json": live}, size

    def _aim(self) -> tuple[bool, str]:
        """Return whether the goal is reached, and in words."""
        done, words = self.goal.state(self.history)
        return done, f"goal: {self.goal.name} ({words})"

    # -- what a press does -----------------------------------------------------------------------------------------

    def _listen(self) -> None:
        for name, button in self.buttons.items():
            button.on_click(lambda _, name=name: self._press(name))
        for name, control in self.settings.items():
            control.observe(lambda _, name=name: self._choose(name), "value")
        self.scene.observe(lambda _: self._choose_scene(), "value")
        for field in self._fields:
            field.observe(lambda _: self._refresh(), "value")
        self.prompt.on_msg(self._enter)

    def _enter(self, _: Any, said: dict[str, Any], __: Any) -> None:
        """Enter inserts, a moment later: JupyterLab sends it before what was typed."""
        if said.get("event") == "submit":
            asyncio.get_running_loop().call_later(0.1, self._press, "insert")

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
        if verb in _OF_A_REQUEST:
            return Step(verb, f"r{self.runs.value}", number=self.runs.value)
        numbers = {"unlock": self.held.value, "evict": self.amount.value}
        return Step(verb, str(numbers[verb]), number=numbers[verb]) if verb in numbers else Step(verb)

    def _do(self, step: Step) -> None:
        self.history.do(step)
        self._show("good", f"{step}: {self.history.outcomes[-1].words}")

    def _begin(self, scene: Scene) -> None:
        self.history.do(*scene.steps)
        self._is_loading = True
        self.scene.value = scene.name if scene.name in SCENES else "(none)"
        self._is_loading = False
        self.prompt.value, self.namespace.value = scene.then, ""
        self._show("hint", scene.hint)

    def _choose_scene(self) -> None:
        scene = SCENES.get(self.scene.value)
        if scene and not self._is_loading:
            self._try("scene", lambda: self._begin(scene))

    def _start_over(self) -> None:
        scene = self.goal.scene if self.goal else SCENES.get(self.scene.value)
        if scene is None:
            raise ValueError("no scene was chosen: undo, or reset")
        self._begin(scene)

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

    def _show(self, tone: str, words: str) -> None:
        self.said, live = words, self.history.live
        self.message.value = message_html(tone, words)
        self.view.value = page_html(self.history)
        if self.goal is not None:
            done, said = self._aim()
            self.aim.value = message_html("good" if done else "hint", said, "note")
        locks, running = ({number: what for number, (_, what) in found.items()} for found in (live.locks, live.running))
        self._offer(self.history.settings, locks, running)


def playground(
    page_size: int = 1, capacity: int = 32, policy: str = "lru", scene: str | None = None, *, evict_by: str = "node",
    goal: str | Goal | None = None, requests: bool = False, index: str = "radix", host_pages: int = 0,
) -> Playground:  # fmt: skip
    """A live cache over a pool of `capacity` pages, with buttons, undo and scenes; `scene` is loaded at once.

    With a `goal` (one of `GOALS`, by its name) it begins with the goal's scene and says whether the goal is reached;
    `requests` adds buttons for requests that keep running, and `index` names another design of the cache (one of
    `INDEXES`). With `host_pages`, what is evicted goes to host memory, and comes back when a prompt asks for it. A
    scene brings its own settings; without any it begins with the first scene. Raises `ValueError` or `TypeError` for
    settings that no cache can have and for an unknown scene or goal. Where widgets do not run, the stored picture and
    text show what was there.

    >>> playground(capacity=8, scene="evict the tail first").history.steps[-1].verb
    'evict'
    >>> playground(goal="cut an edge in one step")
    goal: cut an edge in one step (not yet: no edge was cut)
    Playground(page_size=1, capacity=32, policy='lru', evict_by='node')
    root
    └─ [1 2 3 4 5 6] · n1 · slots 0-5 · new
    FreeListPool: 26 of 32 slots free
      0  nnnnnn..........
     16  ................    . free  n new
    free slots 26 · in hand 0 · cached 6 (evictable) · locked 0 (protected)
    1. scene 'cut': begins with an empty cache
    2. insert [1 2 3 4 5 6]: 0 of 6 cached, 6 new in slots 0-5
    """
    settings = Settings(page_size, capacity, policy, evict_by, index, host_pages)
    if scene is None and settings == Settings() and not requests:
        scene = next(iter(SCENES))
    return Playground(settings, scene, goal, requests)
