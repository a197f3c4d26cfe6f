"""The camera: it watches things from outside, and takes one frame of each operation.

A call is reported when it ends, after those that it made itself: they are taken out of the film again, and their words
and changes become its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from minikv.course.film.captions import caption, operation, slot_lists
from minikv.course.film.changes import Changes, compare
from minikv.course.film.frame import Frame
from minikv.course.film.state import (
    VERBS,
    State,
    StateReader,
    thing_kind,
    with_parts,
)
from minikv.course.pictures.picture import Picture
from minikv.errors import bounded
from minikv.testing.snapshot import Label, legible, nodes_of
from minikv.testing.watch import Call, moment, watch

_READERS = ("check", "nodes", "version", "slots", "length", "request")
_NOTHING = {"0", "None", "[]", "()"}
_READING = ("_", "is_", "num_", "as_", "can_", "get_")
_ENGINE = str(Path(__file__).parents[2] / "engine")  # what learners build
_Self = TypeVar("_Self", bound="Recording")


def picture_now(things: tuple[Any, ...], label: Label | None) -> Picture:
    """Things as they are now, as one picture."""
    state = StateReader(with_parts(things), label, None).read()
    return Frame(state, state, label=label).picture


def watched_things(things: list[Any]) -> list[Any]:
    """Those of the things whose calls are frames: all, but of the learner's manager not the cache and the pool.

    There are many right ways to go about a checkpoint, and the film is to be the same with each.
    """
    kinds = [thing_kind(thing) for thing in things]
    managers = [thing for thing, kind in zip(things, kinds) if kind == "manager"]
    own = any(file.startswith(_ENGINE) for manager in managers for _, file in _methods(manager))
    return managers if own and "engine" not in kinds else things


def watched_verbs(thing: Any) -> tuple[str, ...]:
    """The methods whose calls are frames: the verbs of its kind, and any other that might change something.

    Of the learner's engine, only the verbs: a chapter is not about the shell around the pieces.
    """
    kind = thing_kind(thing)
    known = VERBS[kind]
    if kind in ("pool", "table", "engine"):
        return known
    own = (name for name, file in _methods(thing) if not file.startswith(_ENGINE))
    return *known, *(n for n in own if n not in known and n not in _READERS and not n.startswith(_READING))


def _methods(thing: Any) -> list[tuple[str, str]]:
    """The methods of its class, each with the file that it was written in."""
    found = inspect.getmembers(type(thing), inspect.isfunction)
    return [(name, method.__code__.co_filename) for name, method in found]


class Recording:
    """The `frames` of `things`, taken from `start` to `finish`; made by `record`."""

    def __init__(self, things: tuple[Any, ...], label: Label | None = None, page_size: int | None = None):
        if not isinstance(things, tuple):
            raise TypeError(f"things is {bounded(things)}: expected a tuple; record(cache, pool) makes it")
        if not things:
            raise TypeError("nothing to record: pass a prefix cache, a pool, a page table or a sequence")
        self.things = with_parts(things)
        self._label = label
        self._reader = StateReader(self.things, label, page_size)
        self._stops: list[Callable[[], None]] = []
        self._is_busy = False
        self.frames: list[Frame] = []

    def start(self: _Self) -> _Self:
        """Take the first frame and begin to watch; `RuntimeError` if it began before. `with` does this for you."""
        if self.frames:
            raise RuntimeError("this film has already started. Record a new one")
        state = self._reader.read()
        self.frames.append(Frame(state, state, label=self._label, op="start", words="start", began=moment()))
        try:
            for thing in watched_things(self.things):
                self._stops.append(watch(thing, watched_verbs(thing), self._report))
        except TypeError:
            self.finish()
            raise
        return self

    def finish(self) -> None:
        """Watch no more: the objects are as they were, the frames stay."""
        while self._stops:
            self._stops.pop()()

    def __enter__(self: _Self) -> _Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.finish()

    @contextmanager
    def step(self, words: str) -> Iterator[None]:
        """Take one frame, called `words`, of everything that happens in a `with` of it; also where that raises.

        >>> from minikv import FreeListPool, record
        >>> pool = FreeListPool(4)
        >>> with record(pool) as film, film.step("Anna asks"):
        ...     slots = [pool.alloc(1), pool.alloc(2)]
        >>> [frame.words for frame in film], film.at(1).inner
        (['start', 'Anna asks'], ('alloc 1: slot 0', 'alloc 2: slots 1-2'))
        """
        if not self.frames:
            raise RuntimeError("this film has not been started yet")
        began = moment()
        try:
            yield
        finally:
            with self._looking():
                self._take(began, legible(words), legible(words), self._reader.read())

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """No frame is taken meanwhile: looking at a thing calls its methods too."""
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False

    def _report(self, call: Call) -> None:
        if self._is_busy:
            return
        with self._looking():
            state = self._reader.read()
            is_changed = self.frames[-1].began > call.began or state != self.frames[-1].state
            is_nothing = {*map(str, call.arguments.values())} <= _NOTHING  # as in `pool.free([])`
            is_asked = call.verb in VERBS[thing_kind(call.thing)] and not is_nothing
            if is_changed or is_asked or call.error:
                unit = "page" if self._reader.page_size > 1 else "slot"
                before = next(frame.state for frame in reversed(self.frames) if frame.began <= call.began)
                op, name = operation(call, self._label, unit, self._reader.name_of), self._reader.name_among(call.thing)
                op += f" in {name}" if name else ""
                self._take(call.began, op, caption(op, call, before, state, unit), state, call)

    def _take(self, began: int, op: str, words: str, state: State, call: Call | None = None) -> None:
        """One frame, with what changed: in the calls that this one made, one after the other, and then in itself."""
        inner: list[Frame] = []
        while self.frames[-1].began > began:
            inner.insert(0, self.frames.pop())
        before, changes = self.frames[-1].state, Changes()
        for frame in inner:
            changes = changes.then(frame.changes)
        changes = changes.then(compare((inner or self.frames)[-1].state, state, call.verb if call else ""))
        said = tuple(line for frame in inner for line in (frame.words, *frame.inner))
        path = frozenset(self._path(call, state)).union(*(frame.path for frame in inner))
        error = type(call.error).__name__ if call and call.error is not None else None
        step = len(self.frames)
        self.frames.append(Frame(before, state, changes, path, self._label, step, op, words, said, error, began))

    def _path(self, call: Call | None, state: State) -> set[int]:
        """The nodes that a match or an insertion went along; for a learner's result, those whose slots are in it."""
        if call is None or call.verb not in ("match_prefix", "acquire", "insert"):
            return set()
        with suppress(TypeError):
            if path := {self._reader.number(node) for node in nodes_of(call.result)}:
                return path & state.nodes.keys()
        found = slot_lists(getattr(call.result, "slots", getattr(call.result, "pages", call.result)))
        slots = {slot for numbers in found for slot in numbers}
        return {key for key, node in state.nodes.items() if node.slots and slots.issuperset(node.slots)}
