"""A base class for judging an engine's prefix cache: seven short methods to fill in, and the rest of the contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from minikv.pools.contract import Pages
from minikv.prefix.contract import RULES, Handle, Insertion, Match, PagesLike, require_wanted
from minikv.testing.model import NaiveCache
from minikv.tokens import TokensLike, pack


class Adapter(ABC):
    """A prefix cache for `minikv verify` made of an engine's own: fill in `open` and what follows it.

    It checks all input and keeps track of handles, with a naive cache beside the engine's, and gives the engine lists
    of whole numbers, so that what is judged is the engine's behavior. It claims the rules that an engine decides: not
    1, 2 and 11, which are kept here, nor 12 and 14, which need `check` and joined nodes. An engine without namespaces
    claims `Adapter.claims - {10}`, and one that has pages of a single size calls `super().__init__(size)` in an
    `__init__` without arguments.

    Raises `ValueError`, `TypeError` and `LockError` as the contract says.

    >>> class OnePrompt(Adapter):
    ...     def open(self): self.tokens, self.pages = [], []
    ...     def find(self, tokens, namespace):
    ...         same = [a == b for a, b in zip(self.tokens, tokens)] + [False]
    ...         return self.pages[:same.index(False)], None
    ...     def store(self, tokens, pages, namespace):
    ...         self.tokens, self.pages = tokens, pages
    ...         return 0, None
    ...     def hold(self, place): pass
    ...     def release(self, place): pass
    ...     def free(self, num_tokens): return []
    ...     def sizes(self): return len(self.tokens), 0
    >>> cache = OnePrompt()
    >>> cache.insert([1, 2, 3], [7, 8, 9]), cache.match_prefix([1, 2, 5])
    (Insertion(prefix_length=0, length=3), Match(length=2, pages=[7, 8]))
    """

    claims: ClassVar[frozenset[int]] = frozenset(RULES) - {1, 2, 11, 12, 14}

    def __init__(self, page_size: int = 1):
        self.page_size, self._places = page_size, dict[Handle, Any]()
        self._known = NaiveCache(page_size)
        self.open()

    # -- to be filled in ----------------------------------------------------------------------------------------------

    @abstractmethod
    def open(self) -> None:
        """Make the engine's cache, empty, for pages of `self.page_size` tokens."""

    @abstractmethod
    def find(self, tokens: list[int], namespace: Hashable) -> tuple[Sequence[int], Any]:
        """The pages of the longest cached prefix of `tokens`, and what `hold` and `release` take for it."""

    @abstractmethod
    def store(self, tokens: list[int], pages: list[int], namespace: Hashable) -> tuple[int, Any]:
        """Cache whole pages of `tokens`: how many tokens were there before, and what `hold` takes for all of them."""

    @abstractmethod
    def hold(self, place: Any) -> None:
        """Protect the path to a place that `find` or `store` gave."""

    @abstractmethod
    def release(self, place: Any) -> None:
        """Take back one `hold`."""

    @abstractmethod
    def free(self, num_tokens: int) -> Sequence[int]:
        """Evict at least so many tokens, or all that can be, and return their pages."""

    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """How many tokens could be evicted now, and how many are protected."""

    # -- the contract -------------------------------------------------------------------------------------------------

    @property
    def evictable_size(self) -> int:
        """Tokens that could be evicted now."""
        return self.sizes()[0]

    @property
    def protected_size(self) -> int:
        """Tokens held by locks."""
        return self.sizes()[1]

    @property
    def total_size(self) -> int:
        """Tokens cached."""
        return sum(self.sizes())

    def match_prefix(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """The longest cached prefix of `tokens`, of at most `limit` tokens."""
        match = self._known.match_prefix(tokens, limit=limit, namespace=namespace)
        prompt = pack(tokens).tolist()
        pages, self._places[match] = self.find(prompt[:limit], namespace)
        match.length = len(pages) * self.page_size
        match.parts = [np.array(pages, np.int32).tobytes()]
        return match

    acquire = NaiveCache.acquire

    def insert(
        self, tokens: TokensLike, pages: PagesLike, *, namespace: Hashable = None, start: Handle | None = None
    ) -> Insertion:
        """Cache the whole pages of `tokens`; before a locked `start`, the pages are those that are cached."""
        done = self._known.insert(tokens, pages, namespace=namespace, start=start)
        prompt = pack(tokens).tolist()[: done.length]
        done.prefix_length, self._places[done] = self.store(prompt, self._known.given, namespace)
        return done

    def lock(self, handle: Handle) -> None:
        """Protect everything up to `handle` from eviction."""
        self._known.lock(handle)
        if handle.length:
            self.hold(self._places[handle])

    def unlock(self, handle: Handle) -> None:
        """Take back one lock on this handle."""
        self._known.unlock(handle)
        if handle.length:
            self.release(self._places[handle])

    def evict(self, num_tokens: int) -> Pages:
        """Free at least `num_tokens` tokens, or all that can be, and return their pages."""
        pages = [int(page) for page in self.free(require_wanted(num_tokens))]
        self._known.drop([key for key, page in self._known.pages.items() if page.number in pages])
        return np.array(pages, np.int32)
