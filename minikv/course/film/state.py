"""The objects that a film follows: their kinds, and copies of their state.

Things are told apart by what they can do, so a learner's own cache or pool is filmed as ours are. A `State` is plain
data: what happens to the objects later does not reach it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import zip_longest
from typing import Any

from minikv.course.pictures.cells import Row, table_slots
from minikv.course.pictures.shelves import KeptBeside, shelves
from minikv.testing.ledger import CACHE_VERBS, POOL_VERBS
from minikv.testing.snapshot import Label, NodeView, label_of, plain, snapshot

VERBS = {
    "cache": CACHE_VERBS,
    "pool": (*POOL_VERBS, "take"),
    "table": ("open", "close", "append"),
    "sequence": (),
    "manager": ("start", "advance", "extend", "truncate", "checkpoint", "finish", "abort"),
    "engine": ("submit", "step", "abort"),
}
_ATTRIBUTES = {  # a thing is of the first kind of which it has all attributes
    "cache": ("match_prefix",),
    "pool": ("is_free", "size"),
    "table": ("is_open", "num_rows"),
    "manager": ("start", "finish"),
    "engine": ("step", "scheduler"),
    "sequence": ("slots",),
}
_PARTS = {"manager": ("cache", "pool", "table"), "engine": ("manager",)}
WAITS, READS, ANSWERS, RUNS = "waits", "reads", "answers", "runs"


@dataclass(frozen=True)
class RequestView:
    """One request as it was: its `name`, what it does, and of its `length` tokens how many are cached and computed.

    `computed` counts from the first token on, those in the cache among them; `slots` are what it holds.
    """

    name: str
    does: str
    cached: int
    computed: int
    length: int
    slots: tuple[int, ...] = ()

    def runs(self, before: RequestView | None) -> dict[str, int]:
        """Return how many of its tokens were matched, computed before, computed now, and are still to be computed.

        A kind of which there are none is left out.

        >>> RequestView("r1", "reads", 2, 5, 7).runs(RequestView("r1", "reads", 2, 3, 7))
        {'matched': 2, 'computed': 1, 'new': 2, 'to compute': 2}
        """
        known = self.cached
        if before and before.does != WAITS and before.computed <= self.computed:
            known = max(known, before.computed)
        ends = self.cached, known, self.computed, self.length
        counts = [end - start for start, end in zip((0, *ends), ends)]
        named = zip(("matched", "computed", "new", "to compute"), counts)
        return {word: count for word, count in named if count > 0}


def request_views(thing: Any) -> tuple[RequestView, ...]:
    """The requests of an engine, or the sequences of a manager.

    >>> from minikv import CacheManager
    >>> manager = CacheManager(8)
    >>> _ = manager.start([1, 2, 3])
    >>> request_views(manager)
    (RequestView(name='r1', does='runs', cached=0, computed=0, length=3, slots=(0, 1, 2)),)
    """
    if not hasattr(thing, "scheduler"):
        return tuple(_running(sequence.number, RUNS, sequence) for sequence in thing.sequences)
    found = sorted([*thing.scheduler.running, *thing.scheduler.waiting], key=lambda request: request.number)
    return tuple(map(_request, found))


def _request(request: Any) -> RequestView:
    sequence = request.sequence
    if sequence is None:
        return RequestView(f"r{request.number}", WAITS, 0, 0, len(request.tokens))
    return _running(request.number, READS if sequence.computed < len(sequence.tokens) else ANSWERS, sequence)


def _running(number: int, does: str, sequence: Any) -> RequestView:
    slots = tuple(int(slot) for slot in sequence.slots)
    return RequestView(f"r{number}", does, sequence.cached_length, sequence.computed, len(sequence.tokens), slots)


@dataclass(frozen=True)
class State:
    """Everything that a frame shows, copied at one moment; `nodes` by id, parents first, children in token order.

    Of each pool there is a title and a byte for each page, 1 where it is free; a page is `page_size` slots. Of each
    page table there is a title and its rows, `None` where one is closed; sequences are one table. `requests` are those
    of an engine or a manager, `sizes` are in slots. `shelves` are what is kept beside the tree.
    """

    nodes: dict[int, NodeView] = field(default_factory=dict)
    parents: dict[int, int | None] = field(default_factory=dict)
    pools: tuple[tuple[str, bytes], ...] = ()
    tables: tuple[tuple[str, tuple[Row | None, ...]], ...] = ()
    requests: tuple[RequestView, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    page_size: int = 1
    shelves: tuple[KeptBeside, ...] = ()

    @cached_property
    def held(self) -> dict[int, tuple[int, Any]]:
        """For each slot in the tree, the node that has it, and its token (`None` where a node has too few tokens)."""
        found = {}
        for key, node in self.nodes.items():
            pairs = zip_longest(node.slots, node.tokens[: len(node.slots)])
            found.update({slot: (key, token) for slot, token in pairs if isinstance(slot, int)})
        return found

    @property
    def cached_states(self) -> dict[int, str]:
        """For each slot in the tree, whether it is `cached` or, where a lock protects it, `locked`."""
        return {slot: "locked" if self.nodes[key].ref_count else "cached" for slot, (key, _) in self.held.items()}

    @property
    def holders(self) -> dict[int, str]:
        """For each slot of a running request, who holds it: `r1` for a request, `row 0` where only its row is known."""
        found = [(f"row {i}", row or ()) for _, table in self.tables for i, row in enumerate(table)]
        found = [(request.name, request.slots) for request in self.requests] + found
        return {slot: name for name, slots in reversed(found) for slot in slots}


def thing_kind(thing: Any) -> str:
    """Return which kind of thing this is for a film; `TypeError` for what it cannot follow.

    >>> from minikv import PageTable, RadixCache
    >>> thing_kind(RadixCache()), thing_kind(PageTable(1, 1))
    ('cache', 'table')
    >>> thing_kind(5)
    Traceback (most recent call last):
    TypeError: cannot record a int: expected a prefix cache, a pool, a page table, a sequence, a manager or an engine
    """
    if kind := _kind(thing):
        return kind
    what = "expected a prefix cache, a pool, a page table, a sequence, a manager or an engine"
    raise TypeError(f"cannot record a {type(thing).__name__}: {what}")


def with_parts(things: tuple[Any, ...]) -> list[Any]:
    """The things, each once, after an engine its manager, and after a manager the cache, pool and table it keeps."""
    found: list[Any] = []
    for thing in things:
        kinds = _PARTS.get(thing_kind(thing), ())
        parts = tuple(part for part in getattr(thing, "__dict__", {}).values() if _kind(part) in kinds)
        found += [one for one in [thing, *with_parts(parts)] if not any(one is other for other in found)]
    return found


def _kind(thing: Any) -> str:
    """Empty for what a film cannot follow."""
    kinds = (kind for kind, attributes in _ATTRIBUTES.items() if all(hasattr(thing, name) for name in attributes))
    return next(kinds, "")


class StateReader:
    """Copies the state of things, and numbers the nodes: by their own ids or, where they have none, as they appear."""

    def __init__(self, things: list[Any], label: Label | None, page_size: int | None):
        self._label = label
        self._things: dict[str, list[Any]] = {kind: [] for kind in VERBS}
        for thing in things:
            self._things[thing_kind(thing)].append(thing)
        caches = self._things["cache"]
        if len(caches) > 1:
            raise ValueError(f"{len(caches)} prefix caches: a film follows one, so make a film of each")
        size = getattr(caches[0], "page_size", 1) if caches else 1
        self.page_size: int = page_size or (size if isinstance(size, int) else 1)
        self._own_ids = True
        # Nodes and sequences are kept with their numbers and names, so that the address of each stays its own.
        self._numbers: dict[int, tuple[int, Any]] = {}
        self._requests_of: dict[int, tuple[str, Any]] = {}
        self._nodes: dict[int, NodeView] = {}  # as they were when it looked last

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
        """The name of a thing if there are several of its kind; empty if it is the only one."""
        alike = self._things[thing_kind(thing)]
        return _title(thing, alike) if len(alike) > 1 else ""

    def read(self) -> State:
        """A copy of everything, now."""
        nodes, parents = self._tree()
        pools, tables = self._things["pool"], self._things["table"]
        rows = [(_title(table, tables), table_slots(table)) for table in tables]
        if sequences := self._things["sequence"]:
            rows.append(("sequences", tuple(map(_slots, sequences))))
        free = tuple((_title(pool, pools), bytes(bool(pool.is_free(i)) for i in range(pool.size))) for pool in pools)
        sizes = dict(self._sizes(nodes, [pool for _, pool in free]))
        beside = tuple(shelf for thing in self._things["cache"] + pools for shelf in shelves(thing, self._label))
        return State(nodes, parents, free, tuple(rows), self._requests(), sizes, self.page_size, beside)

    def _requests(self) -> tuple[RequestView, ...]:
        for engine in self._things["engine"]:
            for request in engine.scheduler.running:
                self._requests_of[id(request.sequence)] = f"r{request.number}", request.sequence
        for thing in self._things["engine"] + self._things["manager"]:
            if hasattr(thing, "scheduler") or hasattr(thing, "sequences"):
                return request_views(thing)
        return ()

    def _tree(self) -> tuple[dict[int, NodeView], dict[int, int | None]]:
        nodes: dict[int, NodeView] = {}
        parents = {}
        for cache in self._things["cache"]:
            views = snapshot(cache, {}, self._label, self.number)
            if self._own_ids and len({view.id for view in views}) < len(views):  # two nodes have one id
                self._own_ids = False
                return self._tree()
            for view in views:
                if view.id is None:  # a child that was seen above already: a film shows it there
                    continue
                view.name = f"n{view.id}" if view.parent is not None else ""
                _spell_out(view, self._label)
                old = self._nodes.get(view.id)
                nodes[view.id] = old if old == view else view  # what did not change is kept once for all frames
                parents[view.id] = None if view.parent is None else views[view.parent].id
        self._nodes = nodes
        return nodes, parents

    def _sizes(self, nodes: dict[int, NodeView], pools: list[bytes]) -> Iterator[tuple[str, int]]:
        if pools:
            size = self.page_size
            cached = {slot // size for node in nodes.values() for slot in node.slots if isinstance(slot, int)}
            yield "free", size * sum(map(sum, pools))
            taken = [(at, page) for at, pool in enumerate(pools) for page, is_free in enumerate(pool) if not is_free]
            yield "in hand", size * sum(at > 0 or page not in cached for at, page in taken)
        for cache in self._things["cache"]:
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


def _slots(sequence: Any) -> Row:
    slots = sequence.slots() if callable(sequence.slots) else sequence.slots
    return tuple(slot for slot in plain(slots if slots is not None else []) if hasattr(slot, "__index__"))
