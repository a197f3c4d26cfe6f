"""The playground: one live cache for a classroom, under plain ipywidgets.

Type a prompt, text or token ids, press a button, and see tree, pool and sizes at once in a player,
in which every step since the beginning can be seen again; undo, redo, choose a scene, or ask what
the same steps would have done with other pages or another policy. With a goal it says whether that
is reached, and if not, what is missing. The widgets only read what is typed, pass it to a `History`
and show the outcome. Every error is shown in the message box; none is raised.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import partial
from html import escape
from threading import RLock
from typing import Any

import ipywidgets as widgets

from minikv.course.pictures.picture import Picture
from minikv.course.playground.lessons import GOALS, NO_SCENE, SCENES, Scene, scene_named
from minikv.course.playground.live import History
from minikv.course.playground.steps import FIELDS, USUAL, Settings, Step
from minikv.prefix import INDEXES
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix import EVICT_BY

_BUTTONS = {
    "match": "how much of the prompt is cached?",
    "insert": "serve the prompt: match, lock, make room, insert, unlock",
    "lock": "lock the cached part of the prompt",
    "unlock": "release the chosen lock",
    "evict": "evict at least this many tokens",
    "start": "start a request with the prompt, and keep it running",
    "publish": "compute the prompt of the chosen request, and publish it for others",
    "finish": "finish the chosen request, and cache what it computed",
    "abort": "abort the chosen request, and cache nothing more",
    "reset": "empty the cache",
    "undo": "undo the last step",
    "redo": "redo the step that was undone",
    "start over": "load the scene again; undo goes back",
}
_ROWS = {
    "begin": "scene, undo, redo, reset, start over, settings",
    "settings": "page_size, capacity, policy, evict_by, index, host_pages, namespace",
    "type": "prompt, match, insert, lock",
    "request": "start, publish, finish, abort",
    "act": "held, unlock, evict, tokens",
}
_CHOICES = {
    "scene": [], "held": [], "policy": [*POLICIES], "evict_by": [*EVICT_BY], "index": [*INDEXES],
}  # fmt: skip
_HINTS = {"prompt": "hello, or 1 2 3", "namespace": "default"}
_PLACE = {"width": "auto", "max_width": "100%"}
_ROW = {"flex_flow": "row wrap", "align_items": "center", "overflow": "visible"}
# Each is told apart by its sign; the tint lets the page's own ink be read in any theme.
_TONES = {"good": ("✓", "47 148 103"), "bad": ("✗", "208 74 88"), "hint": ("▸", "59 130 214")}


Said = tuple[str, str]  # good, bad or hint, and words


class Playground:
    """A live cache with buttons; made by `playground`, shown by being the last line of a cell.

    `history` is the history and the live cache (`history.live.cache`), `controls` has every control
    by its name, and `player` shows the film. `text` is the text twin of what is shown, and `said`
    the last message.

    >>> room = Playground(Settings(capacity=4))
    >>> room.controls["prompt"].value = "hello world"
    >>> room.controls["insert"].click(); room.said
    'insert: 11 pages needed, but only 4 free and 0 evictable'
    """

    def __init__(self, settings: Settings = USUAL, scene: Scene = NO_SCENE, requests: bool = False):
        self.history, self._turn, self._is_busy = History(settings), RLock(), False
        self.player = self.history.live.film.player()
        self.message = widgets.HTML()
        self.controls: dict[str, Any] = {}
        rows = {title: self._row(title, names.split(", ")) for title, names in _ROWS.items()}
        self.controls["scene"].options = [*{**SCENES, scene.name: scene}.items()]
        self._more = rows["settings"].layout
        self._more.display = "none"
        if not (requests or scene is GOALS["publish, hit, and abort"]):
            del rows["request"]
        self.box = widgets.VBox([*rows.values(), self.message, self.player])
        self.box.add_class("minikv-playground")
        self._show(*(("hint", scene.hint) if scene is NO_SCENE else self._begin(scene)))
        for name, control in self.controls.items():
            hear = partial(self._hear, name)
            if name in _BUTTONS:
                control.on_click(hear)
            else:
                control.observe(hear, "value")
        self.controls["prompt"].on_msg(self._enter)

    def _row(self, title: str, names: list[str]) -> Any:
        """The controls of a row after what they are for; it wraps where the window is narrow."""
        own = {name: _control(name) for name in names}
        self.controls.update(own)
        heading = widgets.HTML(f"<b>{title}</b>", layout={"width": "72px"})
        return widgets.HBox([heading, *own.values()], layout=_ROW)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> Any:
        if self.box.comm is None:  # it was closed
            return {"text/plain": self.text}
        data, size = self.player._repr_mimebundle_()
        data["application/vnd.jupyter.widget-view+json"]["model_id"] = self.box.model_id
        return data, size

    # -- what a press does -----------------------------------------------------------------------------------------

    def _enter(self, *message: Any) -> None:
        """Enter inserts, a moment later: JupyterLab sends it before what was typed."""
        if message[1].get("event") == "submit":
            asyncio.get_running_loop().call_later(0.1, self._hear, "insert")

    def _hear(self, name: str, _: Any = None) -> None:
        """A button was pressed, or a field was changed; what we change ourselves meanwhile is no news."""
        with self._turn:
            if self._is_busy:
                return
            self._is_busy = True
            try:
                if said := self._act(name):
                    self._show(*said)
            except Exception as error:  # a lesson shows a message, never a traceback
                self._show("bad", f"{name}: {error}")
            finally:
                self._is_busy = False
                # ipykernel 7.4 hears each widget in the thread in which something was last sent to it. Left alone, a
                # field is heard in one thread and a button in another, and a click overtakes what was typed before it.
                for control in self.controls.values():
                    control.send_state("description")

    def _act(self, name: str) -> Said | None:
        """Do what a control says, and return what to say about it."""
        value = getattr(self.controls[name], "value", None)
        match name:
            case "undo" | "redo":
                return "hint", f"{name}: {getattr(self.history, name)()}"
            case "scene" | "start over":
                return self._begin(value or self.scene)
            case "settings":
                self._more.display = "" if value else "none"
        if name in _BUTTONS:
            field = FIELDS.get(name)
            what = str(self.controls[field].value) if field else ""
            step = Step(name, what, self.controls["namespace"].value.strip())
        elif hasattr(USUAL, name):
            step = Step("set", f"{name} {value}")
        else:
            return None  # it waits for a button
        self.history.do(step)
        return "good", self.history.live.film.at(-1).words

    @property
    def scene(self) -> Any:
        """The scene that the history began with last, also after an undo."""
        begun = [step.what for step in self.history.steps if step.verb == "scene"]
        return dict(self.controls["scene"].options)[begun[-1] if begun else NO_SCENE.name]

    def _begin(self, scene: Scene) -> Said:
        self.history.do(*scene.steps)
        self.controls["prompt"].value, self.controls["namespace"].value = scene.then, ""
        return "hint", scene.hint

    def _show(self, tone: str, words: str) -> None:
        live = self.history.live
        tone_of_goal, goal = self.scene.state(self.history)
        self.said = words
        self.message.value = _message_html(tone_of_goal, goal) + _message_html(tone, words)
        frames = live.film.frames
        lines = [goal, str(live.settings), frames[-1].contents, *(frame.caption for frame in frames[1:])]
        self.text = "\n".join(filter(None, lines))
        self.player.still = Picture(self.text, lambda: frames[-1].picture.svg)
        if tone != "bad":
            with self.player.hold_sync():
                self.player.reel, self.player.index = live.film.reel.as_dict(), len(live.done)
        held = self.controls["held"]
        chosen = held.value if held.value in live.held else next(iter(live.held), None)
        held.options = [*live.held]
        for name, value in {**asdict(live.settings), "held": chosen, "scene": self.scene}.items():
            self.controls[name].value = value


def _control(name: str) -> Any:
    """A control by its name: a button, a switch, a list to choose from, or a field for text or a number."""
    look: Any = {"description": name.replace("_", " "), "layout": _PLACE}
    if name in _BUTTONS:
        return widgets.Button(tooltip=_BUTTONS[name], **look)
    if name == "settings":
        return widgets.ToggleButton(**look)
    look["style"] = {"description_width": "initial"}
    if name in _CHOICES:
        return widgets.Dropdown(options=_CHOICES[name], **look)
    # Typed text is sent when its field is left: sent key by key, a click could overtake the last key.
    look["continuous_update"] = False
    if name in _HINTS:
        return widgets.Text(placeholder=_HINTS[name], **look)
    return widgets.IntText(1, **look)


def _message_html(tone: str, words: str) -> str:
    """The message box: "good", "bad" or "hint", told apart by its sign as well as by color."""
    sign, color = _TONES[tone]
    border = f"border:1px solid rgb({color});border-left-width:6px;background:rgb({color} / 14%)"
    style = f"{border};margin:3px 0;padding:3px 10px;border-radius:4px;line-height:1.4;overflow-wrap:anywhere"
    role = "alert" if tone == "bad" else "status"
    return f'<div role="{role}" style="{style}"><b>{sign}</b> {escape(words)}</div>' if words else ""


def playground(
    page_size: int = 1, capacity: int = 32, policy: str = "lru", scene: str | None = None, *, evict_by: str = "node",
    goal: str | None = None, requests: bool = False, index: str = "radix", host_pages: int = 0,
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
    Settings(page_size=1, capacity=32, policy='lru', evict_by='node', index='radix', host_pages=0)
    root
    └─ [1 2 3 4 5 6] · n1 · slots 0-5 · new
    FreeListPool: 26 of 32 slots free
      0  nnnnnn..........
     16  ................    . free  n new
    free slots: 26 · in hand: 0 · cached: 6 (evictable) · locked: 0 (protected)
    1. scene cut an edge in one step: 0 tokens cached
    2. insert [1 2 3 4 5 6]: none of it is cached; 6 tokens are new
    """
    settings = Settings(page_size, capacity, policy, evict_by, index, host_pages)
    if scene is None and settings == USUAL and not requests:
        scene = next(iter(SCENES))
    return Playground(settings, scene_named(goal or scene or NO_SCENE.name), requests)
