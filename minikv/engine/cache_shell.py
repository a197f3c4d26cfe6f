"""The shell around the pieces of a prefix cache: sizes, handles, checks of the input.

No chapter is about any of it. `RadixCache` of chapter 04 builds on it, and adds what the pieces do. So the learner's
cache refuses what ours refuses, hands out the same matches and handles, and serves in the same places.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable
from typing import Any

from minikv.errors import InvariantError, LockError, bounded, whole_number
from minikv.prefix.contract import Handle, page_bytes, require_hashable, require_limit, require_wanted
from minikv.tokens import TokensLike, pack


class CacheShell:
    """The part of a prefix cache that no piece is about; the rest is `RadixCache` in `ch04_05_cache.py`.

    It claims every rule of the contract but 14: it never joins nodes, since a join may be left out and a split may not.
    """

    claims = (*range(1, 14), 15)
    roots: dict[Hashable, Any]
    ring: Any
    evictable: int
    protected: int
    cut: Callable[[list[int]], list[Any]]
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
            raise LockError(f"cannot reset: {len(self.held)} handles are locked, {self.protected_size} tokens")
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
        """The number of each whole page; those before `start`, which must hold a lock, are not read, and are 0."""
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
            raise LockError(f"the handle of length {handle.length} is stale: evicted, reset or of another cache")

    # -- looking at it ----------------------------------------------------------------------------------------------

    def nodes(self) -> list[Any]:
        """Every node but the roots, parents before their children."""
        found = list(self.roots.values())
        for node in found:  # which grows meanwhile
            found.extend(node.children.values())
        return found[len(self.roots) :]

    def check(self) -> None:
        """Recompute the sizes, links, locks, owners and the ring's order; raise `InvariantError` where one is wrong."""
        owners, counted = dict[int, str](), self.recounted()
        for node in self.nodes():
            name = f"node {bounded(node.tokens)}"
            is_linked = node.parent.children.get(node.tokens[0]) is node
            if not is_linked or len(node.tokens) != len(node.slots):
                raise InvariantError(f"{name}: its parent, its key or its slots do not fit")
            for page in node.slots:
                if page in owners:
                    raise InvariantError(f"{name}: page {page} is cached twice, {owners[page]} has it too")
                owners[page] = name
            if node.parent.parent is not None and node.locks > node.parent.locks:
                raise InvariantError(f"{name}: {node.locks} locks, more than on the node above it")
        recorded = self.evictable, self.protected
        if counted != recorded:
            raise InvariantError(f"{counted} evictable and protected pages are counted, {recorded} recorded")
        if (early := self.ring.first_wrong()) is not None:
            raise InvariantError(f"node {bounded(early.tokens)} is older in the ring than one of its children")

    def __repr__(self) -> str:
        sizes = f"evictable={self.evictable_size}, protected={self.protected_size}"
        return f"{type(self).__name__}(page_size={self.page_size}, {sizes})"
