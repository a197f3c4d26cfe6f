"""The content of a picture of one moment: the tree with its marks, the pools, tables, requests and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from minikv.course.film.changes import Changes, lock_events, marked_views
from minikv.course.film.layout import FilmLayout
from minikv.course.film.state import WAITS, RequestView, State
from minikv.course.pictures.boxes import Box, BoxRows
from minikv.course.pictures.cells import MOST_CELLS, marked_box, pool_rows, table_rows
from minikv.course.pictures.palette import LETTERS, size_words, text_legend
from minikv.course.pictures.picture import MimeBundle, Picture
from minikv.course.pictures.tree import tree_text
from minikv.testing.snapshot import Label, NodeView

MOST_COLUMNS, MOST_INNER = 16, 12
MOST_LINES, MOST_LETTERS = 12, 48  # of requests, and of tokens in a line of text
_IN_THE_TREE = ("new", "taken", "freed", "joined", "matched", "split")  # of several events, a cell shows the first
_SLOT_EVENTS = ("cached", "new"), ("handed", "joined"), ("evicted", "evicted")
_cell = cache(Box)  # a long film has a few cells, over and over


@dataclass(frozen=True)
class Frame:
    """A state as it is drawn, with what changed since the one `before`, as plain data; it draws itself in a notebook.

    `path` has the nodes that matches and insertions went along, and `label` turns tokens into what is written on them.
    In a film, `op` is the operation in short, `words` with its outcome, `inner` the watched operations that it called
    itself, `error` the name of what it raised. `began` is the moment at which it was called.
    """

    before: State = field(repr=False)
    state: State = field(repr=False)
    changes: Changes = field(repr=False, default_factory=Changes)
    path: frozenset[int] = frozenset()
    label: Label | None = None
    step: int = 0
    op: str = ""
    words: str = ""
    inner: tuple[str, ...] = ()
    error: str | None = None
    began: int = 0

    @property
    def caption(self) -> str:
        """The step and its words; nothing outside a film."""
        return f"{self.step}. {self.words}" if self.words else ""

    @property
    def inner_words(self) -> list[str]:
        """The operations that it called; of many, the first and the last ones."""
        return first_and_last(self.inner, 2 * MOST_INNER if self.state.shelves else MOST_INNER)  # with its moves

    @property
    def node_events(self) -> list[tuple[int, str]]:
        """(node, what happened to it), in words that name this step."""
        locks = lock_events(self.before, self.state, self.changes)
        return [(event.number, event.words(self.step, self.op)) for event in (*self.changes.nodes, *locks)]

    @property
    def slot_events(self) -> list[tuple[int, str]]:
        """(slot, what happened to it), in words that name this step."""
        return [(event.number, event.words(self.step, self.op)) for event in self.changes.slots]

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the cache and of the pools, in slots."""
        return self.state.sizes

    @cached_property
    def nodes(self) -> list[NodeView]:
        """The nodes of the tree with their marks, and ghosts of those that went."""
        return marked_views(self.state, self.changes, self.path, self.label)

    @cached_property
    def pools(self) -> list[BoxRows]:
        """The heading with its unit and the cells of each pool; the slots of the tree are those of the first one."""
        found, unit = [], " pages" if self.state.page_size > 1 else " slots"
        for i, ((title, free), (_, was_free)) in enumerate(zip(self.state.pools, self.before.pools)):
            cells = [_handed(*page) for page in zip(free[:MOST_CELLS], was_free)]
            found.append(pool_rows(title, free, cells if i else self._with_owners(cells), unit))
        return found

    def _with_owners(self, cells: list[Box]) -> list[Box]:
        """The cells of the first pool, with the node or the request that each belongs to, and what happened there."""
        state, found = self.state, []
        held, holders, marks = state.held, state.holders, {view.id: view.marks for view in self.nodes}
        happened = {(event.number, event.what) for event in self.changes.slots}
        for page, cell in enumerate(cells):
            slots = range(page * state.page_size, (page + 1) * state.page_size)
            events = {cell.event, *(e for what, e in _SLOT_EVENTS for slot in slots if (slot, what) in happened)}
            key = next((held[slot][0] for slot in slots if slot in held), None)
            if key is None:
                name = next((holders[slot] for slot in slots if slot in holders), "")
                event = cell.event or ("evicted" if "evicted" in events else "")
                found.append(_cell(cell.state, "" if cell.state == "free" else name, event))
            else:  # a free cell with a name is a mistake: the tree still has what the pool would hand out again
                events.update(mark for mark in marks[key] if mark in ("matched", "split"))
                now = cell.state if cell.state == "free" else "locked" if state.nodes[key].ref_count else "cached"
                found.append(_cell(now, f"n{key}", next((event for event in _IN_THE_TREE if event in events), "")))
        return found

    @cached_property
    def rows(self) -> list[BoxRows]:
        """Host memory, page tables, the sequences as one table, and the requests; what differs from before is new."""
        old, states = dict(self.before.tables), self.state.cached_states
        found = [shelf.boxes(was) for shelf, was in zip(self.state.shelves, self.before.shelves)]
        for title, rows in self.state.tables:
            longest = max([1, *(len(row or ()) for row in rows)])
            new = {
                (y, x): "new"
                for y, (was, row) in enumerate(zip(old.get(title, rows), rows))
                for x, _ in set(enumerate(row or ())).difference(enumerate(was or ()))
            }
            in_slots = " (slots)" * (self.state.page_size > 1)
            found.append(table_rows(title + in_slots, rows, min(longest, MOST_COLUMNS), new, states))
        if self.state.requests:
            found.append(request_rows(self.state.requests, self.before.requests))
        return found

    @property
    def panels(self) -> list[BoxRows]:
        """The parts beside the tree."""
        return [*self.pools, *self.rows]

    @property
    def shows_something(self) -> bool:
        """Return whether a node is in its tree or, where there is no tree, an id of a pool in use."""
        if self.nodes:
            return any(view.parent is not None for view in self.nodes)
        return any(box.state != "free" for pool in self.pools for box in pool.boxes)

    @property
    def legend(self) -> set[str]:
        """The states and events that its picture shows."""
        nodes = [view for view in self.nodes if view.parent is not None]
        found = {mark for view in nodes for mark in view.marks}
        found |= {"locked" if view.ref_count else "cached" for view in nodes if "evicted" not in view.marks}
        return found.union(*(panel.words for panel in self.panels))

    @property
    def contents(self) -> str:
        """The text twin of all that there is: the tree, the pools, the rows, and the sizes."""
        found = [tree_text(self.nodes)] if self.nodes else []
        found += [panel.text for panel in self.panels]
        if self.sizes:
            found.append(" · ".join(size_words(*size) for size in self.sizes.items()))
        return "\n".join(found)

    @property
    def text(self) -> str:
        """The text twin of the picture, with what the operation called."""
        lines = [self.caption] if self.words else []
        lines += [f"   {words}" for words in self.inner_words]
        if changes := "; ".join(self.changes.words):
            lines.append(f"   ({changes})")
        return "\n".join([*lines, self.contents])

    def __repr__(self) -> str:
        return self.text

    @property
    def picture(self) -> Picture:
        """The frame as a picture on a canvas of its own size."""
        return Picture(self.text, lambda: FilmLayout([self]).svg(self))

    def _repr_mimebundle_(self, **_: Any) -> MimeBundle:
        return self.picture._repr_mimebundle_()


def first_and_last(lines: Sequence[str], most: int) -> list[str]:
    """Lines or, of many, the first and the last ones.

    >>> first_and_last(["a", "b", "c", "d"], 2)
    ['a', '… 2 more …', 'd']
    """
    over = len(lines) - most
    return list(lines) if over <= 0 else [*lines[: most // 2], f"… {over} more …", *lines[-most // 2 :]]


def _handed(is_free: int, was_free: int) -> Box:
    """A page as the pool alone knows it."""
    return _cell("free" if is_free else "in hand", "", "" if is_free == was_free else "freed" if is_free else "taken")


def request_rows(views: Sequence[RequestView], before: Sequence[RequestView] = ()) -> BoxRows:
    """The requests of one frame, with those of the frame before for what was computed in between.

    A box is as wide as it has tokens; in the text each has a letter.

    >>> old, new = RequestView("r1", "reads", 2, 3, 7), RequestView("r1", "reads", 2, 5, 7)
    >>> print(request_rows([new, RequestView("r2", "waits", 0, 0, 3)], [old]).text)
    requests: 1 running, 1 waiting
    r1 reads  mm#nn..
    r2 waits  ...
    # computed  . to compute  n new  m matched
    """
    old = {view.name: view for view in before}
    waiting = sum(view.does == WAITS for view in views)
    heading = f"requests: {len(views) - waiting} running, {waiting} waiting"
    if len(views) > MOST_LINES:
        heading += f", the first {MOST_LINES} shown"
    runs = [(f"{view.name} {view.does}", view.runs(old.get(view.name))) for view in views[:MOST_LINES]]
    wide = max((len(name) for name, _ in runs), default=0)
    longest = max((sum(run.values()) for _, run in runs), default=0)
    size = max(1, -(-longest // MOST_LETTERS))
    lines, rows, words = [heading], [], set[str]()
    for name, run in runs:
        bar = "".join(LETTERS[word] * count for word, count in run.items())
        lines.append(f"{name:<{wide}}  {bar[::size]}")
        boxes = [marked_box(str(n), word, "computed")._replace(wide=16 * n) for word, n in run.items()]
        rows.append((name, boxes))
        words |= run.keys()
    if runs:
        legend = text_legend(words)
        lines.append(f"{legend}  (each letter is {size} tokens)" if size > 1 else legend)
    return BoxRows(heading, rows, "\n".join(lines), high=16, gap=0, room=256)
