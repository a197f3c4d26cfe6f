"""What a picture of one moment shows: the tree with its marks, the cells of the pools, tables, requests and sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from minikv.course.film.changes import Changes, NodeEvent, lock_events, marked_views
from minikv.course.film.requests import Requests
from minikv.course.film.state import Label, Row, State
from minikv.course.pictures.cells import MOST_CELLS, Cell, Pool, Table, pool_heading
from minikv.course.pictures.looks import size_words
from minikv.course.pictures.picture import Picture
from minikv.course.pictures.tree import tree_text
from minikv.testing.snapshot import NodeView

MOST_COLUMNS, MOST_INNER = 16, 12
_IN_THE_TREE = ("new", "taken", "freed", "joined", "matched", "split")  # of several events, a cell shows the first
_cell = cache(Cell)  # a long film has a few cells, over and over


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
        """What it called itself; of many operations, the first and the last ones."""
        return first_and_last(self.inner, MOST_INNER)

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
    def sizes(self) -> dict[str, int]:
        """The sizes of the cache and of the pools, in slots."""
        return self.state.sizes

    @cached_property
    def nodes(self) -> list[NodeView]:
        """The nodes of the tree with their marks, and ghosts of those that went."""
        return marked_views(self.state, self.changes, self.path, self.label)

    @cached_property
    def pools(self) -> list[Pool]:
        """The heading and the cells of each pool; the slots of the tree are those of the first one."""
        found = []
        for i, ((title, free), (_, was_free)) in enumerate(zip(self.state.pools, self.before.pools)):
            cells = [_handed(*page) for page in zip(free[:MOST_CELLS], was_free)]
            found.append(Pool(pool_heading(title, free), cells if i else self._with_owners(cells)))
        return found

    def _with_owners(self, cells: list[Cell]) -> list[Cell]:
        """The cells of the first pool, with the node or the request that each belongs to, and what happened there."""
        state, found = self.state, []
        held, holders, marks = state.held, state.holders, {view.id: view.marks for view in self.nodes}
        happened = {(slot, event) for slot, event, _ in self.changes.slots}
        for page, cell in enumerate(cells):
            slots = range(page * state.page_size, (page + 1) * state.page_size)
            events = {cell.event, *(e for e in ("new", "joined", "evicted") for slot in slots if (slot, e) in happened)}
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
    def rows(self) -> list[Table | Requests]:
        """The page tables, the sequences as one table, and the requests; cells that differ from before are new."""
        old, states = dict(self.before.tables), self.state.cached_states
        found: list[Table | Requests] = []
        for title, rows in self.state.tables:
            longest = max([1, *(len(row) for row in rows if row is not None)])
            new = dict.fromkeys(_new_cells(old.get(title, rows), rows), "new")
            found.append(Table(title, rows, min(longest, MOST_COLUMNS), new, states))
        if self.state.requests is not None:
            found.append(Requests(self.state.requests, self.before.requests or ()))
        return found

    @property
    def panels(self) -> list[Pool | Table | Requests]:
        """What is beside the tree."""
        return [*self.pools, *self.rows]

    @property
    def without_idle_requests(self) -> Frame:
        """The same, but where no request runs or waits, nothing is said of requests."""
        return replace(self, state=replace(self.state, requests=self.state.requests or None))

    @property
    def shows_something(self) -> bool:
        """Whether a node is in its tree or, where there is no tree, an id of a pool in use."""
        if self.nodes:
            return any(view.parent is not None for view in self.nodes)
        return any(cell.state != "free" for _, cells in self.pools for cell in cells)

    @property
    def legend(self) -> set[str]:
        """The states and events that its picture shows."""
        nodes = [view for view in self.nodes if view.parent is not None]
        found = {mark for view in nodes for mark in view.marks if mark != "locked"}
        found |= {"locked" if view.ref_count else "cached" for view in nodes if "evicted" not in view.marks}
        return found.union(*(panel.words for panel in self.panels))

    @property
    def texts(self) -> list[str]:
        """The text twin of each panel of the picture: the tree, the pools, and the rows."""
        tree = [tree_text(self.nodes)] * bool(self.nodes)
        return [*tree, *(panel.text for panel in self.panels)]

    @property
    def contents(self) -> str:
        """The text twin of all that there is."""
        sizes = " · ".join(size_words(name, value) for name, value in self.sizes.items())
        return "\n".join([*self.texts, *[sizes] * bool(sizes)])

    @property
    def text(self) -> str:
        """The text twin of the picture, with what the operation called."""
        lines, changes = [self.caption] * bool(self.words), "; ".join(self.changes.words)
        lines += [*(f"   {words}" for words in self.inner_words), *[f"   ({changes})"] * bool(changes)]
        return "\n".join([*lines, self.contents])

    @property
    def picture(self) -> Picture:
        """The frame as a picture on a canvas of its own size."""
        from minikv.course.film.layout import FilmLayout

        return Picture(self.text, lambda: FilmLayout([self]).svg(self))

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        return self.picture._repr_mimebundle_()


def first_and_last(lines: Sequence[str], most: int) -> list[str]:
    """Lines or, of many, the first and the last ones.

    >>> first_and_last(["a", "b", "c", "d"], 2)
    ['a', '… 2 more …', 'd']
    """
    over = len(lines) - most
    return list(lines) if over <= 0 else [*lines[: most // 2], f"… {over} more …", *lines[-most // 2 :]]


def _handed(is_free: int, was_free: int) -> Cell:
    """A page as the pool alone knows it."""
    return _cell("free" if is_free else "in hand", "", "" if is_free == was_free else "freed" if is_free else "taken")


def _new_cells(before: tuple[Row | None, ...], after: tuple[Row | None, ...]) -> Iterator[tuple[int, int]]:
    for y, (was, row) in enumerate(zip(before, after)):
        was = was or ()
        yield from ((y, x) for x, slot in enumerate(row or ()) if was[x : x + 1] != (slot,))
