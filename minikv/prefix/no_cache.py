"""The null cache: the same verbs, and nothing is ever kept. It is what an engine without a prefix cache runs on.

After mini-sglang's naive cache: with it, "cache off" is not a second code path through manager and engine that could
differ from the first, but another object in the same place. It counts its locks, so it may be used by one thread at a
time; a `CacheManager` takes care of that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from minikv.errors import InvariantError, whole_number
from minikv.pools.contract import Pages
from minikv.prefix.contract import Handle, Insertion, Match, PagesLike, page_bytes, require_hashable, require_limit
from minikv.prefix.receipts import Receipts, described
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
        self._receipts = Receipts()

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
        return Match(self._receipts.epoch, None, 0, namespace)

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
            self._receipts.require_start(start, namespace)
        return Insertion(self._receipts.epoch, None, 0, namespace)

    def lock(self, handle: Handle) -> None:
        """Count a lock; there is nothing to protect."""
        self._receipts.require(handle, "lock")
        self._receipts.take(handle)

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle; `LockError` when it holds none here."""
        self._receipts.require_lock(handle, "unlock")
        self._receipts.give_back(handle)

    def evict(self, num_tokens: int) -> Pages:
        """Nothing, however much is wanted."""
        whole_number("num_tokens", num_tokens, 0, "evict frees 0 tokens or more")
        return np.empty(0, np.int32)

    def reset(self) -> None:
        """Make all handles stale; `LockError` while any is locked."""
        self._receipts.forget(self.protected_size)

    def check(self) -> None:
        """Every locked handle holds a lock, and nothing else is kept."""
        for handle, locks in self._receipts.held.items():
            if locks < 1 or handle.length:
                raise InvariantError(f"NoCache: {described(handle)} is kept as holding {locks} locks")

    def __repr__(self) -> str:
        return f"NoCache(page_size={self.page_size})"
