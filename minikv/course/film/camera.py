"""The camera: it watches things from outside, and takes one frame of each operation.

A call is reported when it ends, after those that it made itself: they are taken out of the film again, and their words
and changes become its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from minikv.course.film.captions import caption, operation, returned, slot_lists
from minikv.course.film.changes import Changes, NodeEvent, compare, lock_events
from minikv.course.film.layout import picture_of
from minikv.course.film.state import (
    VERBS,
    Label,
    State,
    StateReader,
    thing_kind,
    watched_things,
    watched_verbs,
    with_parts,
)
from minikv.course.film.view import StateView
from minikv.course.pictures.picture import Picture
from minikv.testing.snapshot import legible, nodes_of
from minikv.testing.watch import Call, moment, watch

MOST_INNER = 12


@dataclass(frozen=True)
class Frame(StateView):
    """What a film shows at one step, as plain data; it draws itself in a notebook.

    `op` is the operation in short, `words` with its outcome, `inner` the watched operations that it called itself,
    `error` the name of what it raised. `began` is the moment at which it was called.
    """

    step: int = 0
    op: str = ""
    words: str = ""
    inner: tuple[str, ...] = ()
    error: str | None = None
    began: int = 0

    @property
    def caption(self) -> str:
        """The step and its words."""
        return f"{self.step}. {self.words}"

    @property
    def inner_words(self) -> list[str]:
        """What it called itself; of many operations, the first and the last ones."""
        over = len(self.inner) - MOST_INNER
        if over <= 0:
            return list(self.inner)
        return [*self.inner[: MOST_INNER // 2], f"… {over} more …", *self.inner[-MOST_INNER // 2 :]]

    @property
    def node_events(self) -> list[NodeEvent]:
        """(node, what happened to it), in words that name this step."""
        locks = lock_events(self.before, self.state, self.changes)
        return [(key, words.format(step=self.step, op=self.op)) for key, words in (*self.changes.nodes, *locks)]

    @property
    def slot_events(self) -> list[tuple[int, str]]:
        """(slot, what happened to it), in words that name this step."""
        return [(slot, words.format(step=self.step, op=self.op)) for slot, _, words in self.changes.slots]

    @property
    def text(self) -> str:
        """The text twin of the picture, with what the operation called."""
        changes = "; ".join(self.changes.words)
        lines = [self.caption, *(f"   {words}" for words in self.inner_words), *[f"   ({changes})"] * bool(changes)]
        return "\n".join([*lines, self.contents])

    @property
    def picture(self) -> Picture:
        """The frame as a picture on a canvas of its own size."""
        return picture_of(self)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        return self.picture._repr_mimebundle_()


def picture_now(things: tuple[Any, ...], label: Label | None) -> Picture:
    """Things as they are now, as one picture."""
    state = StateReader(with_parts(things), label, None).read()
    return picture_of(StateView(state, state, label=label).without_idle_requests)


class Camera:
    """Takes the `frames` of a film of `things`, from `start` to `finish`."""

    def __init__(self, things: tuple[Any, ...], label: Label | None, page_size: int | None):
        self.things = with_parts(things)
        self._label = label
        self._reader = StateReader(self.things, label, page_size)
        self._stops: list[Callable[[], None]] = []
        self._is_busy = False  # looking at a thing calls its methods too
        self.frames: list[Frame] = []

    def start(self) -> None:
        """Take the first frame and begin to watch; `RuntimeError` if it began before."""
        if self.frames:
            raise RuntimeError("this film has been started already: record a new one")
        state = self._reader.read()
        self.frames.append(Frame(state, state, label=self._label, op="start", words="start", began=moment()))
        try:
            for thing in watched_things(self.things):
                self._stops.append(watch(thing, watched_verbs(thing), self._report))
        except TypeError:
            self.finish()
            raise

    def finish(self) -> None:
        """Watch no more: the objects are as they were, the frames stay."""
        while self._stops:
            self._stops.pop()()

    @contextmanager
    def step(self, words: str) -> Iterator[None]:
        """Take one frame, called `words`, of everything that happens inside; also where that raises."""
        if not self.frames:
            raise RuntimeError("this film has not been started yet")
        began = moment()
        try:
            yield
        finally:
            self._is_busy = True
            try:
                self._take(began, legible(words), legible(words), self._reader.read())
            finally:
                self._is_busy = False

    def _report(self, call: Call) -> None:
        if self._is_busy:
            return
        self._is_busy = True
        try:
            state = self._reader.read()
            known = call.verb in VERBS[thing_kind(call.thing)] or call.error is not None
            if known or self.frames[-1].began > call.began or state != self.frames[-1].state:
                is_pool = thing_kind(call.thing) == "pool"
                unit = "page" if is_pool and self._reader.page_size > 1 else "slot"
                op, name = operation(call, self._label, unit, self._reader.name_of), self._reader.name_among(call.thing)
                op += f" in {name}" if name else ""
                words = caption(op, returned(call, state.sizes, unit), call.error is not None)
                self._take(call.began, op, words, state, call)
        finally:
            self._is_busy = False

    def _take(self, began: int, op: str, words: str, state: State, call: Call | None = None) -> None:
        """One frame, with what changed: in the calls that this one made, one after the other, and then in itself."""
        inner: list[Frame] = []
        while self.frames[-1].began > began:
            inner.insert(0, self.frames.pop())
        before, changes, path = self.frames[-1].state, Changes(), self._path(call, state)
        for frame in inner:
            changes = changes.then(frame.changes)
        changes = changes.then(compare((inner or self.frames)[-1].state, state, call.verb if call else ""))
        said = tuple(line for frame in inner for line in (frame.words, *frame.inner))
        error = type(call.error).__name__ if call and call.error is not None else None
        path = path.union(*(frame.path for frame in inner))
        step = len(self.frames)
        self.frames.append(Frame(before, state, changes, path, self._label, step, op, words, said, error, began))

    def _path(self, call: Call | None, state: State) -> frozenset[int]:
        """The nodes that a match or an insertion went along."""
        if call is None or call.verb not in ("match_prefix", "acquire", "insert"):
            return frozenset()
        return frozenset(path_of(call.result, state, self._reader.number))


def path_of(result: Any, state: State, number: Callable[[Any], int]) -> set[int]:
    """The ids on the path that a call returned; for a learner's result, the nodes whose slots, or pages, are in it."""
    try:
        path = {number(node) for node in nodes_of(result)}
    except TypeError:
        path = set()
    if path:
        return path & set(state.nodes)
    found = slot_lists(getattr(result, "slots", getattr(result, "pages", result)))
    slots = {slot for numbers in found for slot in numbers}
    return {key for key, node in state.nodes.items() if node.slots and slots.issuperset(node.slots)}
