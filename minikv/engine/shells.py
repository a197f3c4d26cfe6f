"""The shells around the pieces: sizes, handles and checks of the input for a cache, a request and a manager.

No chapter is about any of it. `RadixCache` of chapter 04 and `CacheManager` of chapter 07 build on it, and add what the
pieces do. So the learner's cache refuses what ours refuses, hands out the same matches and handles, and serves in the
same places.

A page belongs to the pool, to the cache, or to one request. With two owners it will be written by one of them while the
other reads it; with none it is lost. What a request reads from the cache must be there, under a lock of its own.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from minikv.errors import InvariantError, LockError, OutOfPages, bounded, whole_number
from minikv.pools import Pages, page_slots
from minikv.prefix.contract import RULES, Handle, page_bytes, require_hashable, require_limit, require_wanted
from minikv.tokens import PackedTokens, TokensLike, pack


class CacheShell:
    """The part of a prefix cache that no piece is about; the rest is `RadixCache` in `ch04_05_cache.py`.

    It claims every rule of the contract but 14: it never joins nodes, since a join may be left out and a split may not.
    `minikv.prefix.base_index.BaseIndex` does the same for the package's indexes.
    """

    claims = frozenset(RULES) - {14}
    roots: dict[Hashable, Any]
    ring: Any
    evictable: int
    protected: int
    cut: Callable[..., list[Any]]
    recounted: Any

    def __init__(self, page_size: int = 1):
        self.page_size = whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        self.clear()

    def clear(self) -> None:
        """Forget every handle."""
        self.epoch, self.held = object(), dict[Handle, int]()

    @property
    def evictable_size(self) -> int:
        """Tokens that `evict` could free now."""
        return self.evictable * self.page_size

    @property
    def protected_size(self) -> int:
        """Tokens held by locks."""
        return self.protected * self.page_size

    @property
    def total_size(self) -> int:
        """Tokens cached: evictable + protected."""
        return self.evictable_size + self.protected_size

    def reset(self) -> None:
        """Forget everything, or raise `LockError` while anything is locked."""
        if self.held:
            raise LockError(f"cannot reset: locked handles: {len(self.held)}, protected tokens: {self.protected_size}")
        self.clear()

    # -- what goes in, and what comes out ---------------------------------------------------------------------------

    def root_of(self, namespace: Hashable) -> Any:
        """The root of a namespace, or a new one, which is not kept."""
        require_hashable(namespace)
        return self.roots[namespace] if namespace in self.roots else type(self.roots[None])([], [])

    def pages_of(self, tokens: TokensLike, limit: int | None = None) -> list[Any]:
        """The whole pages of the first `limit` of `tokens` (default: all)."""
        numbers = pack(tokens).tolist()
        return self.cut(numbers[: require_limit(limit, len(numbers))])

    def pages_for(self, num_tokens: int) -> int:
        """Return how many pages hold `num_tokens` tokens."""
        return -(-require_wanted(num_tokens) // self.page_size)

    def numbers(self, pages: Any, tokens: TokensLike, start: Handle | None) -> list[int]:
        """The number of each whole page; those before `start`, which must be locked, are not read, and are 0."""
        before = 0
        if start is not None:
            self.require(start)
            if start not in self.held:
                raise LockError(f"the handle of length {start.length} holds no lock")
            before = start.length // self.page_size
        packed = page_bytes(pages, len(pack(tokens)), self.page_size, before)
        return [0] * before + array("i", packed).tolist()

    # -- handles ----------------------------------------------------------------------------------------------------

    def take_receipt(self, handle: Handle) -> None:
        """Note one more lock on `handle`, which must be of this cache and still be in it."""
        self.require(handle)
        self.held[handle] = self.held.get(handle, 0) + 1

    def require(self, handle: Handle) -> None:
        """Raise an error unless `handle` is of this cache and still in it."""
        if not isinstance(handle, Handle):
            raise TypeError(f"{bounded(handle)} cannot be locked: expected the handle of a match or an insertion")
        node, is_here = handle.node, handle.epoch is self.epoch
        while is_here and node.parent is not None:
            is_here = node.parent.children.get(node.tokens[0]) is node
            node = node.parent
        if not is_here:
            raise LockError(f"the handle of length {handle.length} is stale: evicted, reset, or from another cache")

    # -- looking at it ----------------------------------------------------------------------------------------------

    def nodes(self) -> list[Any]:
        """Every node but the roots, parents before their children."""
        found = list(self.roots.values())
        for node in found:  # which grows meanwhile
            found.extend(node.children.values())
        return found[len(self.roots) :]

    def check(self) -> None:
        """Recompute the sizes, links, locks, owners and the ring's order; raise `InvariantError` where one is wrong."""
        owners = dict[int, str]()
        for node in self.nodes():
            name = f"node {bounded(node.tokens)}"
            is_stray = node.parent.children.get(node.tokens[0]) is not node
            if is_stray or len(node.tokens) != len(node.slots):
                raise InvariantError(f"{name}: its parent, its key or its slots do not match")
            for page in node.slots:
                if page in owners:
                    raise InvariantError(f"{name}: page {page} is cached twice: {owners[page]} has it too")
                owners[page] = name
            if node.parent.parent is not None and node.locks > node.parent.locks:
                raise InvariantError(f"{name}: {node.locks} locks, more than on the node above it")
        counted, recorded = self.recounted(), (self.evictable, self.protected)
        if counted != recorded:
            raise InvariantError(f"{counted} evictable and protected pages counted, {recorded} recorded")
        if (early := self.ring.first_wrong()) is not None:
            raise InvariantError(f"node {bounded(early.tokens)} is older in the ring than one of its children")

    def __repr__(self) -> str:
        sizes = f"evictable={self.evictable_size}, protected={self.protected_size}"
        return f"{type(self).__name__}(page_size={self.page_size}, {sizes})"


class SequenceShell:
    """The part of a running request that no piece is about."""

    tokens: PackedTokens
    row: list[int]
    shared: int
    computed: int

    def __init__(self) -> None:
        self.number, self.page_size, self.cached_length, self.state = 0, 1, 0, "running"

    @property
    def length(self) -> int:
        """Return how many tokens it has."""
        return len(self.tokens)

    @property
    def slots(self) -> Pages:
        """The slot of each token, in order."""
        return page_slots(self.row, self.page_size)[: self.length]

    def next_chunk(self, num_tokens: int) -> tuple[PackedTokens, Pages]:
        """The next `num_tokens` tokens to compute, and the slots of all tokens up to their end."""
        end = self.computed + num_tokens
        return self.tokens[self.computed : end], self.slots[:end]

    def __repr__(self) -> str:
        lengths = f"{self.length} tokens, cached={self.cached_length}, computed={self.computed}"
        return f"Sequence({self.number}, {self.state}, {lengths})"


class ManagerShell:
    """The part of a cache manager that no piece is about; the rest is `CacheManager` in `ch06_07_manager.py`."""

    pool: Any
    cache: Any  # which refuses a wrong `page_size`
    abort: Any

    def __init__(self, num_pages: int, page_size: int, store: Any):
        self.num_pages = whole_number("num_pages", num_pages, 1, "a manager has at least 1 page")
        self.page_size, self.store = page_size, store
        self.running, self._count = list[Any](), 0

    @property
    def available_size(self) -> int:
        """Tokens that could be given slots now: whole free pages, and what the cache could evict."""
        return int(self.pool.num_free * self.page_size + self.cache.evictable_size)

    @property
    def sequences(self) -> list[Any]:
        """The running sequences, in the order in which they were started."""
        return list(self.running)

    def pages_for(self, num_tokens: int) -> int:
        """Return how many pages hold `num_tokens` tokens."""
        return -(-num_tokens // self.page_size)

    def prompt(self, tokens: TokensLike) -> PackedTokens:
        """`tokens`, packed; `ValueError` if there are none."""
        packed = pack(tokens)
        if not packed:
            raise ValueError("tokens are empty: a request has at least 1 token")
        return packed

    def started(self, sequence: Any, spare: int) -> Any:
        """Number `sequence`, or end it and raise `OutOfPages` if fewer than `spare` pages remain available."""
        self._count += 1
        sequence.number, sequence.page_size, sequence.cached_length = self._count, self.page_size, sequence.shared
        if spare * self.page_size > self.available_size:
            self.abort(sequence)
            raise OutOfPages(spare, self.pool.num_free, self.cache.evictable_size // self.page_size)
        return sequence

    def advance(self, sequence: Any, num_tokens: int | None = None) -> None:
        """Mark the next `num_tokens` tokens (default: all that are left) as computed."""
        self.require(sequence)
        left = len(sequence.tokens) - sequence.computed
        rule = f"sequence {sequence.number} can compute 0 to {left} more tokens"
        count = left if num_tokens is None else num_tokens
        sequence.computed += whole_number("num_tokens", count, 0, rule, left + 1)

    def allowed(self, sequence: Any, length: int) -> int:
        """`length`, if `sequence` can be cut to it: at least 1 token, and what the cache has, stay."""
        rule = f"sequence {sequence.number} keeps at least 1 token, and at least the {sequence.shared} shared ones"
        return whole_number("length", length, max(1, sequence.shared), rule, sequence.length + 1)

    def require(self, sequence: Any) -> None:
        """`ValueError` unless `sequence` runs here."""
        if sequence not in self.running:
            raise ValueError(f"{bounded(sequence)} does not run here: it is over, or another manager started it")

    def audit(self, owners: Sequence[Sequence[str]]) -> None:
        """Raise `InvariantError` for the first page that has no owner or two, or is read or locked wrongly."""
        for fault in faults(self, owners):
            raise InvariantError(fault)
        self.cache.check()


def name_of(sequence: Any) -> str:
    """Return the name of a request: its number, from 1."""
    return f"request {sequence.number}"


def faults(manager: Any, owners: Sequence[Sequence[str]]) -> Iterator[str]:
    """Say in words what is wrong: a page that has no owner or two, or is read or locked wrongly. Only the first counts.

    `owners` are the names of each page's owners.

    >>> from minikv.engine import engine_world
    >>> world = engine_world()
    >>> manager = world["CacheManager"](4)
    >>> _ = manager.start([1, 2, 3])
    >>> manager.pool.free([2])
    >>> next(faults(manager, world["owners"](manager)))
    'page 2 has two owners: the pool and request 1'
    """
    for page, names in enumerate(owners):
        if len(names) > 1:
            yield f"page {page} has two owners: {names[0]} and {names[1]}"
    for page, names in enumerate(owners):
        if not names:
            yield f"page {page} has no owner: it is lost"
    readers = Counter[int]()
    for sequence in manager.running:
        name, locked = name_of(sequence), getattr(sequence.handle, "length", None)
        shared = sequence.row[: sequence.shared // manager.page_size]
        readers.update(shared)
        for page in shared:
            if (owner := owners[page][0]) != "the cache":
                yield f"{name} reads page {page} from the cache, but {owner} has it"
        if locked != sequence.shared:
            its_lock = "it has no lock" if locked is None else f"its lock covers {locked}"
            yield f"{name} shares {sequence.shared} tokens, but {its_lock}"
    for node in manager.cache.nodes():
        for page in node.slots:
            if node.locks != readers[page]:
                yield f"page {page} has {_count(node.locks, 'lock')} and {_count(readers[page], 'reader')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
