"""The shell around the pieces of a prefix cache: sizes, handles, checks of the input.

No chapter is about any of it. `RadixCache` of chapter 04 builds on it, and adds what the pieces do. So the learner's
cache refuses what ours refuses, hands out the same matches and handles, and serves in the same places.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable
from typing import Any

from minikv.errors import InvariantError, LockError, bounded, whole_number
from minikv.prefix.contract import Handle, Insertion, Match, page_bytes, require_hashable, require_limit, require_wanted
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
    recounted: Callable[[], tuple[int, int]]

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
        """The whole pages of the first `limit` of `tokens` (default: all)."""
        numbers = pack(tokens).tolist()
        return self.cut(numbers[: require_limit(limit, len(numbers))])

    def pages_for(self, num_tokens: int) -> int:
        """Return how many pages hold `num_tokens` tokens."""
        return -(-require_wanted(num_tokens) // self.page_size)

    def numbers(self, pages: Any, tokens: TokensLike, start: Handle | None, namespace: Hashable) -> list[int]:
        """The number of each whole page; those before `start` are not read, and are 0."""
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
        self.require(handle)
        self.held[handle] = self.held.get(handle, 0) + 1

    def _path(self, node: Any) -> list[Any] | None:
        """The nodes down to `node`, without the root; `None` if they no longer hang together."""
        found = []
        while node.parent is not None:
            if node.parent.children.get(node.tokens[0]) is not node:
                return None
            found.append(node)
            node = node.parent
        return found[::-1]

    def require(self, handle: Handle, held: bool = False) -> None:
        """Raise an error unless `handle` is of this cache and still in it; if `held`, it must also hold a lock."""
        if not isinstance(handle, Handle):
            raise TypeError(f"{bounded(handle)} cannot be locked: expected the handle of a match or an insertion")
        if handle.epoch is not self.epoch or self._path(handle.node) is None:
            raise LockError(f"the handle of length {handle.length} is stale: evicted, reset or of another cache")
        if held and handle not in self.held:
            raise LockError(f"the handle of length {handle.length} holds no lock")

    def _pages_before(self, start: Handle, tokens: TokensLike, namespace: Hashable) -> int:
        """Return how many pages `start` covers, if it is a locked prefix of `tokens` in their namespace."""
        self.require(start, held=True)
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
        """Recompute the sizes, links, locks, owners and the ring's order; raise `InvariantError` where one is wrong."""
        owners, counted = dict[int, str](), self.recounted()
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
        if counted != (self.evictable, self.protected):
            found = f"{counted[0]} evictable and {counted[1]} protected pages are counted"
            raise InvariantError(f"{found}, {self.evictable} and {self.protected} recorded")
        if (early := self.ring.first_wrong()) is not None:
            raise InvariantError(f"node {bounded(early.tokens)} is older in the ring than one of its children")

    def __repr__(self) -> str:
        sizes = f"evictable={self.evictable_size}, protected={self.protected_size}"
        return f"{type(self).__name__}(page_size={self.page_size}, {sizes})"
