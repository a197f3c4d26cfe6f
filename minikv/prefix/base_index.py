"""The part that all indexes share: three sizes, the locks that are held, and the steps of a match.

`NoCache` is this part alone, and caches nothing. A handle carries the `epoch` of its index: each reset makes a new one.
Each index decides itself which handles are stale for other reasons, and which nodes a lock protects.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from minikv.errors import InvariantError, LockError, bounded, brief, whole_number
from minikv.pools.contract import Pages
from minikv.pools.page_table import page_slots
from minikv.prefix.contract import (
    RULES,
    Handle,
    Insertion,
    Match,
    PagesLike,
    page_bytes,
    require_hashable,
    require_limit,
    require_wanted,
)
from minikv.tokens import TOKEN_BYTES, PackedTokens, TokensLike, pack


class IndexNode:
    """The tokens of a node of any index, which are packed in `key_bytes`, and their `pages`.

    >>> from minikv import TokenTrie
    >>> TokenTrie(page_size=2).insert([1, 2, 3, 4], [7, 8]).node.slots.tolist()
    [16, 17]
    """

    __slots__ = ("end", "id", "last_used", "newer", "older", "parent", "ref_count")
    newer: Any
    older: Any

    @property
    def tokens(self: Any) -> list[int]:
        """The tokens of this node alone, as a list of ints."""
        return PackedTokens(self.key_bytes).tolist()

    @property
    def slots(self: Any) -> array[int]:
        """The slots of those tokens, one per token, in order."""
        page_size = len(self.tokens) // len(self.pages) if self.pages else 1
        return array("i", page_slots(self.pages, page_size).tobytes())

    def __repr__(self: Any) -> str:
        held = f"tokens={brief(self.tokens)}, pages={brief(self.pages)}"
        return f"{type(self).__name__}(id={self.id}, {held}, ref_count={self.ref_count})"


class BaseIndex:
    """The base of every index here; those below it find (`_find`), use (`_touch`) and protect (`_protect`) a path.

    `page_size` is in tokens. A path is a list of nodes, the deepest first.

    >>> from minikv import RadixCache
    >>> cache = RadixCache()
    >>> match = cache.insert([1, 2, 3], [0, 1, 2]); cache.lock(match); cache.evictable_size, cache.protected_size
    (0, 3)
    >>> cache.reset()
    Traceback (most recent call last):
    minikv.errors.LockError: cannot reset: 1 lock is held, protecting 3 tokens
    """

    def __init__(self, page_size: int = 1):
        self.page_size = whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        self._stride = TOKEN_BYTES * self.page_size  # the bytes of one page of tokens
        self._clear()

    def _clear(self) -> None:
        self._epoch = object()  # handles carry it: a reset, or another index, has another one
        self._held: dict[Handle, int] = {}
        self._evictable = self._protected = self._clock = 0
        self._next_id = 1
        self._roots: dict[Hashable, Any] = {}

    def _find(self, tokens: TokensLike, limit: int | None, namespace: Hashable) -> tuple[Match, list[Any]]:
        """The match, and its path."""
        raise NotImplementedError

    def _touch(self, path: list[Any]) -> None:
        """The nodes of `path` are used now."""

    def _protect(self, handle: Handle, path: list[Any]) -> None:
        """Lock every node of `path`, which leads to the end of `handle`."""
        self._held[handle] = self._held.get(handle, 0) + 1

    @property
    def evictable_size(self) -> int:
        """Tokens that `evict` could free now."""
        return self._evictable

    @property
    def protected_size(self) -> int:
        """Tokens held by locks."""
        return self._protected

    @property
    def total_size(self) -> int:
        """Tokens cached: evictable + protected."""
        return self._evictable + self._protected

    @property
    def roots(self) -> Mapping[Hashable, Any]:
        """The root of every namespace that holds something, and the default one; read only."""
        return MappingProxyType(self._roots)

    def nodes(self) -> list[Any]:
        """Every node but the roots, parents before children, in the order in which they came below each parent."""
        found = []
        stack = [child for root in self._roots.values() for child in root.children.values()][::-1]
        while stack:
            found.append(node := stack.pop())
            stack.extend(reversed(node.children.values()))
        return found

    def match_prefix(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """The longest cached page-aligned prefix of `tokens`, of at most `limit` tokens: its length, pages and handle.

        Refreshes the recency of what it matched. May split or join nodes, which changes no size and no handle.

        Twin: `minikv.engine.ch04_05_cache.RadixCache.match_prefix`.

        >>> from minikv import RadixCache
        >>> cache = RadixCache(page_size=2)
        >>> _ = cache.insert([1, 2, 3, 4], [6, 7])
        >>> cache.match_prefix([1, 2, 3, 4]), cache.match_prefix([1, 2, 3, 4], limit=3)
        (Match(length=4, pages=[6, 7]), Match(length=2, pages=[6]))
        """
        match, path = self._find(tokens, limit, namespace)
        self._touch(path)
        return match

    def acquire(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """`match_prefix` and `lock` in one act: the path is walked once, and nothing can come in between.

        Twin: `minikv.engine.ch04_05_cache.RadixCache.acquire`.

        >>> from minikv import RadixCache
        >>> cache = RadixCache()
        >>> _ = cache.insert([1, 2, 3, 4], [6, 7, 8, 9])
        >>> cache.acquire([1, 2, 5]); cache.evict(4).tolist(), cache.protected_size
        Match(length=2, pages=[6, 7])
        ([8, 9], 2)
        """
        match, path = self._find(tokens, limit, namespace)
        self._protect(match, path)
        return match

    def reset(self) -> None:
        """Forget everything, ids and clock too; all handles become stale. `LockError` while any is locked.

        Twin: `minikv.engine.shells.CacheShell.reset`.
        """
        if self._held:
            locks = sum(self._held.values())
            count = "1 lock is held" if locks == 1 else f"{locks} locks are held"
            raise LockError(f"cannot reset: {count}, protecting {self.protected_size} tokens")
        self._clear()

    def _require(self, handle: Any, verb: str) -> None:
        """`handle` must be one of this index: `TypeError` for another thing, `LockError` for another index's."""
        if not isinstance(handle, Handle) or handle.epoch is not self._epoch:
            self._refuse(handle, verb)

    def _give_back(self, handle: Any) -> None:
        """Note one lock fewer of `handle`, which must hold one here."""
        held = self._held.pop(handle, 0) if isinstance(handle, Handle) else 0
        if held > 1:
            self._held[handle] = held - 1
        elif not held:
            self._refuse(handle, "unlock")

    def _refuse(self, handle: Any, verb: str) -> NoReturn:
        """Say why `handle` is none of this index's, or not locked."""
        if not isinstance(handle, Handle):
            raise TypeError(f"cannot {verb} a {type(handle).__name__}: expected the handle of a match or an insertion")
        own = handle.epoch is self._epoch
        why = "it holds no lock" if own else "another cache made it, or reset() came after"
        raise LockError(f"cannot {verb} {described(handle)}: {why}")

    def _require_start(self, start: Any, tokens: PackedTokens, namespace: Hashable) -> None:
        """`start` must be locked, in this namespace, and a prefix of `tokens`: else wrong pages would be cached.

        Tokens with the same bytes object, or made by appending to it, are not compared: bytes never change.
        """
        if not isinstance(start, Handle) or start not in self._held:
            self._require(start, "start from")
            raise LockError(f"cannot start from {described(start)}: it is not locked, so it may be evicted")
        if start.namespace is not namespace and start.namespace != namespace:
            raise ValueError(f"start is in namespace {bounded(start.namespace)}, the tokens in {bounded(namespace)}")
        if start.source is not None and (start.source is tokens.data or start.source is tokens.head):
            return
        for node in reversed(way_to(end_of(start)) if start.length else ()):
            begin = node.parent.end
            if not tokens.data.startswith(node.key_bytes, begin * TOKEN_BYTES):
                raise ValueError(f"start is not a prefix: it differs in tokens[{begin}:{node.end}]")


class NoCache(BaseIndex):
    """A prefix cache that never matches and never keeps: every insert leaves all pages with the caller.

    After mini-sglang's naive cache: with it, "cache off" is not a second code path through manager and engine, but
    another object in the same place. It may be used by one thread at a time; a `CacheManager` takes care of that.
    `page_size` is in tokens. Of rule 4, all that is left is that `insert` says what it stored, which is nothing.

    >>> cache = NoCache()
    >>> cache.insert([1, 2, 3], [0, 1, 2])
    Insertion(prefix_length=0, length=0)
    >>> cache.match_prefix([1, 2, 3])
    Match(length=0, pages=[])
    """

    claims = frozenset(RULES) - {4}  # of the rules; `minikv verify` asks

    def _find(self, tokens: TokensLike, limit: int | None, namespace: Hashable) -> tuple[Match, list[Any]]:
        require_limit(limit, len(pack(tokens)))
        require_hashable(namespace)
        return Match(self._epoch, None, 0, namespace), []

    def insert(
        self, tokens: TokensLike, pages: PagesLike, *, namespace: Hashable = None, start: Handle | None = None
    ) -> Insertion:
        """Keep nothing of `tokens`: all `pages` stay the caller's."""
        packed = pack(tokens)
        page_bytes(pages, len(packed), self.page_size)
        require_hashable(namespace)
        if start is not None:
            self._require_start(start, packed, namespace)
        return Insertion(self._epoch, None, 0, namespace)

    def lock(self, handle: Handle) -> None:
        """Count a lock; there is nothing to protect."""
        self._require(handle, "lock")
        self._protect(handle, [])

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle; `LockError` when it holds none here."""
        self._give_back(handle)

    def evict(self, num_tokens: int) -> Pages:
        """Nothing, however much is wanted."""
        require_wanted(num_tokens)
        return np.empty(0, np.int32)

    def check(self) -> None:
        """Every locked handle holds a lock, and nothing else is kept."""
        for handle, locks in self._held.items():
            if locks < 1 or handle.length:
                raise InvariantError(f"NoCache: {described(handle)} is kept as holding {locks} locks")

    def __repr__(self) -> str:
        return f"NoCache(page_size={self.page_size})"


def described(handle: Handle) -> str:
    """A handle as errors name it: its length, and the number of its node if it has one.

    >>> described(Handle(None, node=None, length=3))
    'the handle of length 3'
    """
    number = getattr(handle.node, "id", None)
    return f"the handle of length {handle.length}" + (f" (node {number})" if number is not None else "")


def end_of(handle: Handle) -> Any:
    """The node at the end of a locked handle: its own, or the one that it was joined with and cut from again.

    >>> from minikv import TokenTrie
    >>> end_of(TokenTrie().acquire([1, 2])).tokens
    []
    """
    node = handle.node
    while node.parent is not None and (node.ref_count < 0 or node.parent.end >= handle.length):
        node = node.parent
    return node


def way_to(node: Any) -> list[Any]:
    """`node` and all nodes above it but the root, the deepest first.

    >>> from minikv import TokenTrie
    >>> [node.tokens for node in way_to(TokenTrie().insert([1, 2], [0, 1]).node)]
    [[2], [1]]
    """
    path = []
    while (parent := node.parent) is not None:
        path.append(node)
        node = parent
    return path
