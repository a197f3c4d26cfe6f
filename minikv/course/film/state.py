"""What a film looks at: which kinds of things it can follow, which of their calls it hears, and a copy of their state.

Things are told apart by what they can do, so a learner's own cache or pool is filmed as ours are. A `State` is plain
data: what happens to the objects later does not reach it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from minikv.course.film.rows import RequestView, lines_of
from minikv.testing.snapshot import NodeView, label_of, plain, snapshot

VERBS = {
    "cache": ("match_prefix", "acquire", "insert", "lock", "unlock", "evict", "reset"),
    "pool": ("alloc", "alloc_to", "free", "occupy", "take"),
    "table": ("open", "close", "append", "write"),
    "sequence": (),
    "manager": ("start", "advance", "extend", "truncate", "checkpoint", "finish", "abort"),
    "engine": ("submit", "step", "abort"),
}
_PARTS = {"manager": ("cache", "pool", "table"), "engine": ("manager",)}
_READERS = ("check", "nodes", "version", "slots", "length", "request")
_READING = ("_", "is_", "num_", "as_", "can_", "get_")
_PIECES = str(Path(__file__).parents[1] / "pieces")
Label = Callable[[list[Any]], str]


@dataclass(frozen=True)
class PoolState:
    """A pool as it was: `free[i]` is 1 where id `i` is free, else 0; an id stands for `page_size` slots."""

    title: str
    free: bytes  # a byte for an id: a long film has many of these
    page_size: int = 1


@dataclass(frozen=True)
class State:
    """Everything that a frame shows, copied at one moment; `nodes` by id, parents first, children in token order."""

    nodes: dict[int, NodeView] = field(default_factory=dict)
    parents: dict[int, int | None] = field(default_factory=dict)
    pools: tuple[PoolState, ...] = ()
    tables: tuple[tuple[str, tuple[tuple[int, ...] | None, ...]], ...] = ()
    sequences: tuple[tuple[int, ...], ...] = ()
    requests: tuple[RequestView, ...] | None = None  # an engine's or a manager's
    sizes: tuple[tuple[str, int], ...] = ()

    @property
    def owners(self) -> dict[int, int]:
        """For each slot in the tree, the id of the node that holds it."""
        return {slot: key for key, node in self.nodes.items() for slot in node.slots if isinstance(slot, int)}

    @property
    def contents(self) -> dict[int, Any]:
        """For each slot in the tree, the token that it is for; `None` where a node has fewer tokens than slots."""
        pairs = (
            pair for node in self.nodes.values() for pair in zip_longest(node.slots, node.tokens[: len(node.slots)])
        )
        return {slot: token for slot, token in pairs if isinstance(slot, int)}

    @property
    def cached_states(self) -> dict[int, str]:
        """For each slot in the tree, whether it is `cached` or, where a lock protects it, `locked`."""
        owners = self.owners.items()
        return {slot: "locked" if self.nodes[key].ref_count else "cached" for slot, key in owners}

    @property
    def holders(self) -> dict[int, str]:
        """For each slot of a running request, who holds it: `r1` for a request, `row 0` where only its row is known."""
        held = [(line.name, line.slots) for line in self.requests or ()]
        held += [(f"row {i}", row or ()) for _, table in self.tables for i, row in enumerate(table)]
        held += [(f"row {i}", slots) for i, slots in enumerate(self.sequences)]
        return {slot: name for name, slots in reversed(held) for slot in slots}


def kind_of(thing: Any) -> str:
    """Which kind of thing this is for a film; `TypeError` for what it cannot follow.

    >>> from minikv import PageTable, RadixCache
    >>> kind_of(RadixCache()), kind_of(PageTable(1, 1))
    ('cache', 'table')
    >>> kind_of(5)
    Traceback (most recent call last):
    TypeError: cannot record a int: expected a prefix cache, a pool, a page table, a sequence, a manager or an engine
    """
    if hasattr(thing, "match_prefix"):
        return "cache"
    if hasattr(thing, "is_free") and hasattr(thing, "size"):
        return "pool"
    if hasattr(thing, "is_open") and hasattr(thing, "num_rows"):
        return "table"
    if hasattr(thing, "start") and hasattr(thing, "finish"):
        return "manager"
    if hasattr(thing, "step") and hasattr(thing, "scheduler"):
        return "engine"
    if hasattr(thing, "slots"):
        return "sequence"
    what = "expected a prefix cache, a pool, a page table, a sequence, a manager or an engine"
    raise TypeError(f"cannot record a {type(thing).__name__}: {what}")


def with_parts(things: tuple[Any, ...]) -> list[Any]:
    """The things, each once, after an engine its manager, and after a manager the cache, pool and table it keeps."""
    found: list[Any] = []
    for thing in things:
        parts = list(vars(thing).values()) if kind_of(thing) in _PARTS and hasattr(thing, "__dict__") else []
        kept = with_parts(tuple(part for part in parts if _is_part(part, _PARTS[kind_of(thing)])))
        found += [one for one in [thing, *kept] if not any(one is other for other in found)]
    return found


def _is_part(value: Any, kinds: tuple[str, ...]) -> bool:
    try:
        return kind_of(value) in kinds
    except TypeError:
        return False


def verbs_of(thing: Any) -> list[str]:
    """The methods that a film listens to: the verbs of its kind, and any other that might change something.

    Of the learner's engine, the verbs alone: what stands around the pieces is not what a chapter is about.
    """
    kind = kind_of(thing)
    known = [verb for verb in VERBS[kind] if callable(getattr(thing, verb, None))]
    if kind in ("pool", "table", "engine"):
        return known
    own = (name for name, file in _methods(thing) if not file.startswith(_PIECES))
    return known + [n for n in own if n not in known and n not in _READERS and not n.startswith(_READING)]


def _methods(thing: Any) -> list[tuple[str, str]]:
    """The methods of its class, each with the file that it was written in."""
    found = inspect.getmembers(type(thing), inspect.isfunction)
    return [(name, method.__code__.co_filename) for name, method in found]


def heard(things: list[Any]) -> list[Any]:
    """Those of the things that a film listens to: all, but of the learner's manager not the cache and the pool.

    There are many right ways to go about a checkpoint, and the film is to be the same with each.
    """
    kinds = {kind: [thing for thing in things if kind_of(thing) == kind] for kind in ("manager", "engine")}
    own = any(file.startswith(_PIECES) for manager in kinds["manager"] for _, file in _methods(manager))
    return [thing for thing in things if kind_of(thing) == "manager"] if own and not kinds["engine"] else things


class Looker:
    """Copies the state of things, and numbers the nodes: by their own ids or, where they have none, as they appear."""

    def __init__(self, things: list[Any], label: Label | None, page_size: int | None):
        self.label = label
        self._by_kind: dict[str, list[Any]] = {kind: [] for kind in VERBS}
        for thing in things:
            self._by_kind[kind_of(thing)].append(thing)
        caches = self._by_kind["cache"]
        if len(caches) > 1:
            raise ValueError(f"{len(caches)} prefix caches: a film follows one, so make a film of each")
        size = getattr(caches[0], "page_size", 1) if caches else 1
        self.page_size: int = page_size or (size if isinstance(size, int) else 1)
        self._own_ids = True
        self._requests_of: dict[int, tuple[str, Any]] = {}  # by sequence, which is kept: its address stays its own
        self._nodes: dict[int, NodeView] = {}  # as they were when it looked last
        self._numbers: dict[int, tuple[int, Any]] = {}  # the node is kept, so that its address stays its own

    def number(self, node: Any) -> int:
        """The id of a node."""
        own = getattr(node, "id", None)
        if self._own_ids and isinstance(own, int) and own >= 0:
            return own
        return self._numbers.setdefault(id(node), (len(self._numbers), node))[0]

    def name_of(self, sequence: Any) -> str:
        """The name of a running sequence: that of its request, where an engine runs it."""
        return self._requests_of.get(id(sequence), (f"r{sequence.number}", None))[0]

    def name_among(self, thing: Any) -> str:
        """What a thing is called where there are several of its kind; empty where it is the only one."""
        alike = self._by_kind.get(kind_of(thing), [])
        return _title(thing, alike) if len(alike) > 1 and any(one is thing for one in alike) else ""

    def look(self) -> State:
        """A copy of everything, now."""
        nodes, parents = self._tree()
        pools = tuple(self._pools())
        tables = tuple((_title(t, ts), _rows(t)) for ts in [self._by_kind["table"]] for t in ts)
        sequences = tuple(_slots(sequence) for sequence in self._by_kind["sequence"])
        return State(nodes, parents, pools, tables, sequences, self._requests(), tuple(self._sizes(nodes, pools)))

    def _requests(self) -> tuple[RequestView, ...] | None:
        for engine in self._by_kind["engine"]:
            for request in getattr(getattr(engine, "scheduler", None), "running", ()):
                self._requests_of[id(request.sequence)] = f"r{request.number}", request.sequence
        for thing in self._by_kind["engine"] + self._by_kind["manager"]:
            if hasattr(thing, "scheduler") or hasattr(thing, "sequences"):
                return lines_of(thing)
        return None

    def _tree(self) -> tuple[dict[int, NodeView], dict[int, int | None]]:
        nodes: dict[int, NodeView] = {}
        parents: dict[int, int | None] = {}
        for cache in self._by_kind["cache"]:
            views = snapshot(cache, {}, self.label, self.number)
            if self._own_ids and len({view.id for view in views}) < len(views):  # two nodes have one id
                self._own_ids = False
                views = snapshot(cache, {}, self.label, self.number)
            for view in views:
                if view.id is None:  # a child that was seen above already: a film shows it there
                    continue
                view.name = f"n{view.id}" if view.parent is not None else ""
                _spell_out(view, self.label)
                old = self._nodes.get(view.id)
                nodes[view.id] = old if old == view else view  # what did not change is kept once for all frames
                parents[view.id] = None if view.parent is None else views[view.parent].id
        self._nodes = nodes
        return nodes, parents

    def _pools(self) -> Iterator[PoolState]:
        pools = self._by_kind["pool"]
        for pool in pools:
            yield PoolState(_title(pool, pools), bytes(bool(pool.is_free(i)) for i in range(pool.size)), self.page_size)

    def _sizes(self, nodes: dict[int, NodeView], pools: tuple[PoolState, ...]) -> Iterator[tuple[str, int]]:
        if pools:
            size = self.page_size
            cached = {slot // size for node in nodes.values() for slot in node.slots if isinstance(slot, int)}
            yield "free", size * sum(sum(pool.free) for pool in pools)
            taken = [(at, i) for at, pool in enumerate(pools) for i, is_free in enumerate(pool.free) if not is_free]
            yield "in hand", size * sum(at > 0 or i not in cached for at, i in taken)
        for cache in self._by_kind["cache"]:
            for name in ("evictable", "protected"):
                value = getattr(cache, f"{name}_size", None)
                if isinstance(value, int):
                    yield name, value


def _spell_out(view: NodeView, label: Label | None) -> None:
    """In the learner's tree over pages a token is a page: a tuple, with one number. Here each token has its slot."""
    if view.tokens and all(isinstance(page, tuple) for page in view.tokens):
        size = len(view.tokens[0])
        view.slots = [int(page) * size + at for page in view.slots for at in range(size)]
        view.tokens = [token for page in view.tokens for token in page]
        view.label = label_of(view.tokens, label)


def _title(thing: Any, all_of_them: list[Any]) -> str:
    name, alike = type(thing).__name__, [one for one in all_of_them if type(one) is type(thing)]
    return name if len(alike) == 1 else f"{name} {[one is thing for one in alike].index(True)}"


def _rows(table: Any) -> tuple[tuple[int, ...] | None, ...]:
    return tuple(tuple(plain(table.slots(r))) if table.is_open(r) else None for r in range(table.num_rows))


def _slots(sequence: Any) -> tuple[int, ...]:
    slots = sequence.slots() if callable(sequence.slots) else sequence.slots
    return tuple(slot for slot in plain(slots if slots is not None else []) if hasattr(slot, "__index__"))
