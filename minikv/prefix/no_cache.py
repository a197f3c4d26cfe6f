"""The null cache: the same verbs, and nothing is ever kept. It is what an engine without a prefix cache runs on.

After mini-sglang's naive cache: with it, "cache off" is not a second code path through manager and engine that could
differ from the first, but another object in the same place. It counts its locks, so it may be used by one thread at a
time; a `CacheManager` takes care of that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from minikv.errors import InvariantError, LockError, whole_number
from minikv.pools.contract import Pages
from minikv.prefix.contract import Handle, Insertion, Match, PagesLike, page_bytes, require_hashable, require_limit
from minikv.tokens import TokensLike, pack


class NoCache:
    """A prefix cache that never matches and never keeps: every insert leaves all pages with the caller.

    `page_size` is in tokens. It has the verbs, the errors and the locks of `PrefixCache`; all that is left of rule 4
    is that `insert` says what it stored, which is nothing.

    >>> cache = NoCache()
    >>> cache.insert([1, 2, 3], [0, 1, 2])
    Insertion(prefix_length=0, length=0)
    >>> cache.match_prefix([1, 2, 3])
    Match(length=0, pages=[])
    """

    claims = frozenset(range(1, 16)) - {4}  # of the rules; `minikv verify` asks
    evictable_size = protected_size = total_size = 0

    def __init__(self, page_size: int = 1):
        self.page_size = whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        self._clear()

    def _clear(self) -> None:
        self._epoch, self._held = object(), 0
        self._locks: dict[Handle, int] = {}

    @property
    def roots(self) -> Mapping[Hashable, Any]:
        """No namespace has a root."""
        return {}

    def nodes(self) -> Iterator[Any]:
        """No nodes."""
        return iter(())

    def match_prefix(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """A match of length 0."""
        require_limit(limit, len(pack(tokens)))
        require_hashable(namespace)
        return Match(self._epoch, None, 0, namespace)

    def acquire(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """A match of length 0, locked."""
        match = self.match_prefix(tokens, limit=limit, namespace=namespace)
        self.lock(match)
        return match

    def insert(
        self, tokens: TokensLike, pages: PagesLike, *, namespace: Hashable = None, start: Handle | None = None
    ) -> Insertion:
        """Keep nothing of `tokens`: all `pages` stay the caller's."""
        page_bytes(pages, len(pack(tokens)), self.page_size)
        require_hashable(namespace)
        if start is not None:
            self._require_lock(start, "start from")
        return Insertion(self._epoch, None, 0, namespace)

    def lock(self, handle: Handle) -> None:
        """Count a lock; there is nothing to protect."""
        if _handle(handle, "lock").epoch is not self._epoch:
            why = "another cache made it, or reset() came after"
            raise LockError(f"cannot lock the handle of length {handle.length}: {why}")
        self._locks[handle] = self._locks.get(handle, 0) + 1
        self._held += 1

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle; `LockError` when it holds none here."""
        self._require_lock(handle, "unlock")
        self._locks[handle] -= 1
        self._held -= 1
        if not self._locks[handle]:
            del self._locks[handle]

    def evict(self, num_tokens: int) -> Pages:
        """Nothing, however much is wanted."""
        whole_number("num_tokens", num_tokens, 0, "evict frees 0 tokens or more")
        return np.empty(0, np.int32)

    def reset(self) -> None:
        """Make all handles stale; `LockError` while any is locked."""
        if self._held:
            raise LockError(f"cannot reset: {'1 lock is' if self._held == 1 else f'{self._held} locks are'} held")
        self._clear()

    def check(self) -> None:
        """The locks add up."""
        if self._held != (held := sum(self._locks.values())):
            raise InvariantError(f"NoCache: {self._held} locks are counted, the handles hold {held}")

    def _require_lock(self, handle: Handle, verb: str) -> None:
        if _handle(handle, verb) not in self._locks:
            raise LockError(f"cannot {verb} the handle of length {handle.length}: it holds no lock here")

    def __repr__(self) -> str:
        return f"NoCache(page_size={self.page_size})"


def _handle(thing: Any, verb: str) -> Handle:
    if not isinstance(thing, Handle):
        raise TypeError(f"cannot {verb} a {type(thing).__name__}: expected the handle of a match or an insertion")
    return thing
