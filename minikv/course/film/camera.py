"""The camera: it watches things from outside, and takes one frame of each operation.

A call is told when it ends, so those that it made itself come before it: they are taken out of the film again, and
their words and changes become its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from minikv.course.film.changes import Changes
from minikv.course.film.events import Delta, delta_of, lock_events
from minikv.course.film.frame import Frame
from minikv.course.film.pool import cells_of, heading_of
from minikv.course.film.rows import rows_of
from minikv.course.film.state import VERBS, Label, Looker, State, heard, kind_of, verbs_of, with_parts
from minikv.course.film.words import asked, came_of_it, sentence
from minikv.course.pictures.cells import Cell
from minikv.testing.snapshot import NodeView, label_of, legible, nodes_of, plain, token_order
from minikv.testing.watch import Call, moment, watch


class Camera:
    """Takes the `frames` of a film of `things`, from `start` to `finish`."""

    def __init__(self, things: tuple[Any, ...], label: Label | None, page_size: int | None):
        self.things = with_parts(things)
        self._label = label
        self._looker = Looker(self.things, label, page_size)
        self._unit = "page" if self._looker.page_size > 1 else "slot"
        self._stops: list[Callable[[], None]] = []
        self._looking = False
        self.frames: list[Frame] = []

    def look(self) -> Frame:
        """One frame of the things as they are now, without a word, and without watching."""
        return self._frame("", "", None, [], self._looker.look()).filled

    def start(self) -> None:
        """Take the first frame and begin to watch; `RuntimeError` if it began before."""
        if self.frames:
            raise RuntimeError("this film has been started already: record a new one")
        self.frames.append(self._frame("start", "start", None, [], self._looker.look()))
        try:
            for thing in heard(self.things):
                self._stops.append(watch(thing, verbs_of(thing), self._told))
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
            self._looking = True
            try:
                said = legible(words)
                self.frames.append(self._frame(said, said, None, self._since(began), self._looker.look()))
            finally:
                self._looking = False

    def _since(self, began: int) -> list[Frame]:
        """The frames of what began after a moment: they are taken out of the film."""
        inner = []
        while self.frames[-1].began > began:
            inner.append(self.frames.pop())
        return inner[::-1]

    def note(self, words: str) -> None:
        """Take a frame that only says something."""
        if not self.frames:
            raise RuntimeError("this film has not been started yet")
        self._looking = True
        try:
            said = legible(words)
            self.frames.append(self._frame(said, said, None, [], self._looker.look()))
        finally:
            self._looking = False

    def _told(self, call: Call) -> None:
        if self._looking:  # looking at a thing calls its methods too
            return
        self._looking = True
        try:
            self._shoot(call)
        finally:
            self._looking = False

    def _shoot(self, call: Call) -> None:
        after, last = self._looker.look(), self.frames[-1].state
        inner = self._since(call.began)
        known = call.verb in VERBS[kind_of(call.thing)] or call.error is not None
        if known or inner or after != last:
            unit = self._unit if kind_of(call.thing) == "pool" else "slot"
            op, name = asked(call, self._label, unit, self._looker.name_of), self._looker.name_among(call.thing)
            op += f" in {name}" if name else ""
            words = sentence(op, came_of_it(call, after, unit), call.error is not None)
            self.frames.append(self._frame(op, words, call, inner, after))

    def _frame(self, op: str, words: str, call: Call | None, inner: list[Frame], look: State) -> Frame:
        before = self.frames[-1].state if self.frames else look
        delta = self._delta(call, inner, before, look)
        path = self._path(call, inner, look)
        return Frame(
            step=len(self.frames),
            op=op,
            words=words,
            inner=tuple(line for frame in inner for line in (frame.words, *frame.inner)),
            error=None if call is None or call.error is None else type(call.error).__name__,
            nodes=tuple(marked_views(look, delta.changes, path, self._label)),
            pools=tuple(_pools(before, look, path, delta.changes)),
            rows=tuple(rows_of(before, look)),
            sizes=dict(look.sizes),
            changes=tuple(delta.changes.words),
            state=look,
            began=call.began if call else moment(),
            path=path,
            delta=delta,
            locks=tuple(lock_events(before, look, delta.changes)),
        )

    def _delta(self, call: Call | None, inner: list[Frame], before: State, look: State) -> Delta:
        """What changed: in the calls that this one made, one after the other, and then in itself."""
        found = Delta()
        for frame in inner:
            found, before = found.then(frame.delta), frame.state
        return found.then(delta_of(before, look, call.verb if call else ""))

    def _path(self, call: Call | None, inner: list[Frame], look: State) -> frozenset[int]:
        """The nodes that matches and insertions went along."""
        path = frozenset[int]()
        if call is not None and call.verb in ("match_prefix", "acquire", "insert"):
            path = frozenset(path_of(call.result, look, self._looker.number))
        return path.union(*(frame.path for frame in inner))


def _pools(
    before: State, after: State, path: frozenset[int], changes: Changes
) -> Iterator[tuple[str, tuple[Cell, ...]]]:
    """The heading and the cells of each pool; the tree's slots are ids of the first one."""
    for i, pool in enumerate(after.pools):
        whose = (after, before, path, changes) if i == 0 else (State(), State(), frozenset[int](), Changes())
        yield heading_of(pool), tuple(cells_of(pool, before.pools[i], *whose))


def marked_views(after: State, changes: Changes, path: frozenset[int], label: Label | None) -> list[NodeView]:
    """The nodes of `after` with their marks, and the ghosts of what went, parents first, as a picture needs them.

    A ghost keeps its id, unless a later node has it now; the end of a node has the id `-id - 1`.
    """
    marks = {
        "matched": path.difference(changes.new),
        "new": {*changes.new, *changes.grown},
        "split": {key for pair in changes.splits for key in pair},
        "joined": set(changes.joined.values()),
    }
    views = {
        key: replace(node, marks=[mark for mark in marks if key in marks[mark]]) for key, node in after.nodes.items()
    }
    parents = dict(after.parents)
    names = {key: -key - 1 if key in after.nodes else key for key in changes.ghosts}
    for key, (ghost, parent) in changes.ghosts.items():
        views[names[key]] = _ghost(ghost, names[key], label)
        parents[names[key]] = None if parent is None else names.get(parent, changes.joined.get(parent, parent))
    for key, end in changes.trimmed.items():
        views[-key - 1], parents[-key - 1] = _ghost(end, -key - 1, label), key
    return _in_order(views, parents)


def _ghost(view: NodeView, name: int, label: Label | None) -> NodeView:
    words = label_of(view.tokens, label) if view.tokens else view.label
    return replace(view, id=name, label=words, marks=["evicted"], ref_count=0)


def _in_order(views: dict[int, NodeView], parents: dict[int, int | None]) -> list[NodeView]:
    """Parents first, children in token order; what hung on a node that cannot be found hangs on the first root."""
    root = next((key for key, parent in parents.items() if parent is None), None)
    below: dict[int | None, list[int]] = {}
    for key, parent in parents.items():
        below.setdefault(parent if parent is None or parent in views else root, []).append(key)
    ordered: list[NodeView] = []
    stack: list[tuple[int, int | None]] = [(key, None) for key in reversed(below.get(None, []))]
    while stack:
        key, place = stack.pop()
        ordered.append(replace(views[key], parent=place, marks=list(views[key].marks)))
        here = len(ordered) - 1
        children = sorted(below.get(key, []), key=lambda child: token_order(views[child].tokens))
        stack.extend((child, here) for child in reversed(children))
    return ordered


def path_of(result: Any, state: State, number: Callable[[Any], int]) -> set[int]:
    """The ids on the path that a call returned; for a learner's result, the nodes whose slots, or pages, are in it."""
    try:
        path = {number(node) for node in nodes_of(result)}
    except TypeError:
        path = set()
    found = getattr(result, "slots", getattr(result, "pages", result))
    if path or (found is result and not hasattr(result, "__iter__")):
        return path & set(state.nodes)
    slots: set[int] = set()
    for part in found if isinstance(found, tuple) else (found,):
        values = plain(part) if hasattr(part, "__iter__") else []
        slots.update(value for value in values if isinstance(value, int))
    return {key for key, node in state.nodes.items() if node.slots and slots.issuperset(node.slots)}
