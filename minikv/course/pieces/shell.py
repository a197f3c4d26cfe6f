"""What stands around the pieces: sizes, handles, checks of the input. None of it is what a chapter is about.

The classes of `engine.py` build on these, and add what the pieces do. So the learner's engine refuses what ours
refuses, hands out the same matches and handles, and serves in the same places.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Any

from minikv.course.pieces.owners import audit
from minikv.errors import InvariantError, LockError, OutOfPages, bounded, whole_number
from minikv.pools import Pages, page_slots
from minikv.prefix.contract import Handle, Insertion, Match, page_bytes, require_hashable, require_limit
from minikv.tokens import PackedTokens, TokensLike, pack


class CacheShell:
    """The part of a prefix cache that no piece is about; the rest is `RadixCache` in `engine.py`.

    It claims the rules of the contract but 14: it joins nothing, since a join may be left out and a split may not.
    """

    claims = (*range(1, 14), 15)
    roots: dict[Hashable, Any]
    evictable: int
    protected: int

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
            raise LockError(f"cannot reset: {len(self.held)} handles are locked, {self.protected_size} tokens")
        self.clear()

    # -- what goes in, and what comes out ---------------------------------------------------------------------------

    def root_of(self, namespace: Hashable, keep: bool = False) -> Any:
        """The root of a namespace; a new one is kept if asked for."""
        require_hashable(namespace)
        root = self.roots[namespace] if namespace in self.roots else type(self.roots[None])([], [])
        if keep:
            self.roots[namespace] = root
        return root

    def pages_of(self, tokens: TokensLike, limit: int | None = None) -> list[Any]:
        """The whole pages of `tokens`, each as a tuple; with pages of one token, the tokens themselves."""
        numbers, size = pack(tokens).tolist(), self.page_size
        count = require_limit(limit, len(numbers)) // size
        if size == 1:
            return numbers[:count]
        return [tuple(numbers[page * size : (page + 1) * size]) for page in range(count)]

    def pages_for(self, num_tokens: int) -> int:
        """How many pages hold `num_tokens` tokens."""
        return -(-whole_number("num_tokens", num_tokens, 0, "evict frees 0 tokens or more") // self.page_size)

    def numbers(self, pages: Any, tokens: TokensLike, start: Handle | None, namespace: Hashable) -> list[int]:
        """The number of each whole page; those before `start` are not looked at, and 0 stands for them."""
        before = 0 if start is None else self._pages_before(start, tokens, namespace)
        packed = page_bytes(pages, len(pack(tokens)), self.page_size, before)
        return [0] * before + array("i", packed).tolist()

    def matched(self, end: Any, pages: list[int], namespace: Hashable) -> Match:
        """A match that ends at the node `end`."""
        return Match(self.epoch, end, len(pages) * self.page_size, namespace, None, [array("i", pages).tobytes()])

    def inserted(self, end: Any, keys: list[Any], there: int, namespace: Hashable) -> Insertion:
        """An insertion that ends at the node `end`, of pages of which the first `there` were cached already."""
        size = self.page_size
        return Insertion(self.epoch, end, len(keys) * size, namespace, prefix_length=there * size)

    # -- handles ----------------------------------------------------------------------------------------------------

    def take_receipt(self, handle: Handle) -> None:
        """Note one more lock on `handle`, which must be of this cache and still be in it."""
        self._require(handle)
        self.held[handle] = self.held.get(handle, 0) + 1

    def give_receipt_back(self, handle: Handle) -> None:
        """Note one lock fewer on `handle`, which must hold one."""
        self._require(handle, held=True)
        self.held[handle] -= 1
        if not self.held[handle]:
            del self.held[handle]

    def _path(self, node: Any) -> list[Any] | None:
        """The nodes down to `node`, without the root; `None` if they no longer hang together."""
        found = []
        while node.parent is not None:
            if node.parent.children.get(node.tokens[0]) is not node:
                return None
            found.append(node)
            node = node.parent
        return found[::-1]

    def _require(self, handle: Handle, held: bool = False) -> None:
        if not isinstance(handle, Handle):
            raise TypeError(f"{bounded(handle)} cannot be locked: expected the handle of a match or an insertion")
        if handle.epoch is not self.epoch or self._path(handle.node) is None:
            raise LockError(f"the handle of length {handle.length} is stale: evicted, reset or of another cache")
        if held and handle not in self.held:
            raise LockError(f"the handle of length {handle.length} holds no lock")

    def _pages_before(self, start: Handle, tokens: TokensLike, namespace: Hashable) -> int:
        """How many pages `start` stands for, if it is a locked prefix of `tokens` in their namespace."""
        self._require(start, held=True)
        path = self._path(start.node) or []
        before = [key for node in path for key in node.tokens]
        if self.pages_of(tokens)[: len(before)] != before or (path and start.namespace != namespace):
            raise ValueError(f"start is {start}: it must be a locked prefix of the tokens, in their namespace")
        return len(before)

    def nodes(self) -> list[Any]:
        """Every node but the roots, parents before their children."""
        found = [child for root in self.roots.values() for child in root.children.values()]
        for node in found:  # which grows meanwhile
            found.extend(node.children.values())
        return found

    def check(self) -> None:
        """Recompute both sizes, every link, lock and owner; raise `InvariantError` at the first difference."""
        owners, counted = dict[int, str](), {True: 0, False: 0}
        for node in self.nodes():
            name = f"node {bounded(node.tokens)}"
            if self._path(node) is None or len(node.tokens) != len(node.slots):
                raise InvariantError(f"{name}: its parent, its key or its slots do not fit")
            for page in node.slots:
                if page in owners:
                    raise InvariantError(f"{name}: page {page} is cached twice, {owners[page]} has it too")
                owners[page] = name
            if node.locks < max((child.locks for child in node.children.values()), default=0):
                raise InvariantError(f"{name}: {node.locks} locks, fewer than on a node below it")
            counted[node.locks > 0] += len(node.tokens)
        if (counted[False], counted[True]) != (self.evictable, self.protected):
            found = f"{counted[False]} evictable and {counted[True]} protected pages are counted"
            raise InvariantError(f"{found}, {self.evictable} and {self.protected} recorded")

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
    def slots(self) -> Pages:
        """The slot of each token, in order."""
        found: Pages = page_slots(array("i", self.row), self.page_size)[: len(self.tokens)]
        return found

    def __repr__(self) -> str:
        lengths = f"{len(self.tokens)} tokens, cached={self.cached_length}, computed={self.computed}"
        return f"Sequence({self.number}, {self.state}, {lengths})"


class ManagerShell:
    """The part of a cache manager that no piece is about; the rest is `CacheManager` in `engine.py`."""

    pool: Any
    cache: Any

    def __init__(self, num_pages: int, page_size: int, store: Any):
        self.num_pages = whole_number("num_pages", num_pages, 1, "a manager has at least 1 page")
        self.page_size = whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        self.store, self.running = store, list[Any]()
        self._count = 0

    @property
    def available_size(self) -> int:
        """Tokens that could be given slots now: whole free pages, and what the cache could evict."""
        return int(self.pool.num_free * self.page_size + self.cache.evictable_size)

    @property
    def sequences(self) -> list[Any]:
        """The running sequences, in the order in which they were started."""
        return list(self.running)

    def pages_for(self, num_tokens: int) -> int:
        """How many pages hold `num_tokens` tokens."""
        return -(-num_tokens // self.page_size)

    def prompt(self, tokens: TokensLike) -> PackedTokens:
        """`tokens`, packed; `ValueError` if there are none."""
        packed = pack(tokens)
        if not len(packed):
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

    def abort(self, sequence: Any) -> None:
        """End the request badly."""
        raise NotImplementedError

    def advance(self, sequence: Any, num_tokens: int | None = None) -> None:
        """Say that the keys and values of the next `num_tokens` tokens (default: all) are in their slots now."""
        self.require(sequence)
        left = len(sequence.tokens) - sequence.computed
        rule = "0 or more tokens are computed, at most those that are left"
        count = left if num_tokens is None else whole_number("num_tokens", num_tokens, 0, rule)
        if count > left:
            raise ValueError(f"num_tokens is {count}: only {left} of sequence {sequence.number} are left to compute")
        sequence.computed += count

    def make_room(self, num_pages: int) -> None:
        """Evict until `num_pages` pages are free; `OutOfPages`, and nothing has changed, if that cannot be."""
        free, evictable = self.pool.num_free, self.cache.evictable_size // self.page_size
        if num_pages > free + evictable:
            raise OutOfPages(num_pages, free, evictable)
        if num_pages > free:
            self.pool.free(self.cache.evict((num_pages - free) * self.page_size))

    def require(self, sequence: Any) -> None:
        """`ValueError` unless `sequence` runs here."""
        if not any(sequence is running for running in self.running):
            raise ValueError(f"{bounded(sequence)} does not run here: it is over, or another manager started it")

    def check(self) -> None:
        """Raise `InvariantError` for the first page that has two owners or none, or is read or locked wrongly."""
        audit(self)
        self.cache.check()
