"""The null cache: the same verbs, and nothing is ever kept. It is what an engine without a prefix cache runs on.

After mini-sglang's naive cache: with it, "cache off" is not a second code path through manager and engine that could
differ from the first, but another object in the same place. It counts its locks, so it may be used by one thread at a
time; a `CacheManager` takes care of that.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from minikv.errors import InvariantError, whole_number
from minikv.pools.contract import Pages
from minikv.prefix.base_index import BaseIndex, described
from minikv.prefix.contract import Handle, Insertion, Match, PagesLike, page_bytes, require_hashable, require_limit
from minikv.tokens import TokensLike, pack


class NoCache(BaseIndex):
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
        whole_number("num_tokens", num_tokens, 0, "evict frees 0 tokens or more")
        return np.empty(0, np.int32)

    def check(self) -> None:
        """Every locked handle holds a lock, and nothing else is kept."""
        for handle, locks in self._held.items():
            if locks < 1 or handle.length:
                raise InvariantError(f"NoCache: {described(handle)} is kept as holding {locks} locks")

    def __repr__(self) -> str:
        return f"NoCache(page_size={self.page_size})"
