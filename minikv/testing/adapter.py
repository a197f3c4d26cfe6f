"""A base class for judging an engine's prefix cache: seven short methods to fill in, and the rest of the contract."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from minikv.errors import LockError
from minikv.pools.contract import Pages
from minikv.prefix.contract import (
    Handle,
    Insertion,
    Match,
    PagesLike,
    page_bytes,
    require_hashable,
    require_limit,
    require_wanted,
)
from minikv.tokens import TokensLike, pack

_End = tuple[object, tuple[Any, ...], int, Hashable, None]  # what a handle is made of


class Adapter:
    """A prefix cache for `minikv verify` made of an engine's own: fill in `open` and what follows it.

    It checks all input, keeps count of locks and handles, and gives the engine lists of whole numbers, so that what is
    judged is the engine's behavior. It claims the rules that an engine decides: not 1, 2 and 11, which are kept here,
    nor 12 and 14, which need `check` and joined nodes. An engine without namespaces claims `Adapter.claims - {10}`,
    and one that has pages of a single size calls `super().__init__(size)` in an `__init__` without arguments.

    Raises `ValueError`, `TypeError` and `LockError` as the contract says.

    >>> class OnePrompt(Adapter):
    ...     def open(self):
    ...         self.tokens, self.pages = [], []
    ...     def find(self, tokens, namespace):
    ...         same = [a == b for a, b in zip(self.tokens, tokens)] + [False]
    ...         return self.pages[:same.index(False)], None
    ...     def store(self, tokens, pages, namespace):
    ...         self.tokens, self.pages = tokens, pages
    ...         return 0, None
    >>> cache = OnePrompt()
    >>> cache.insert([1, 2, 3], [7, 8, 9]), cache.match_prefix([1, 2, 5])
    (Insertion(prefix_length=0, length=3), Match(length=2, pages=[7, 8]))
    """

    claims: ClassVar[frozenset[int]] = frozenset({3, 4, 5, 6, 7, 8, 9, 10, 13, 15})

    def __init__(self, page_size: int = 1):
        self.page_size = page_size
        self._cached: dict[Any, list[int]] = {}  # the page of each prefix, in a new list each time that it is stored
        self._prefix_of: dict[int, Any] = {}  # and of each page, the prefix
        self._held: dict[Handle, int] = {}
        self.open()

    # -- to be filled in ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Make the engine's cache, empty, for pages of `self.page_size` tokens."""
        raise NotImplementedError("open makes the engine's cache")

    def find(self, tokens: list[int], namespace: Hashable) -> tuple[Sequence[int], Any]:
        """The pages of the longest cached prefix of `tokens`, and what `hold` and `release` take for it."""
        raise NotImplementedError("find looks tokens up")

    def store(self, tokens: list[int], pages: list[int], namespace: Hashable) -> tuple[int, Any]:
        """Cache whole pages of `tokens`: how many tokens were there before, and what `hold` takes for all of them."""
        raise NotImplementedError("store caches tokens")

    def hold(self, place: Any) -> None:
        """Protect the path to a place that `find` or `store` gave."""
        raise NotImplementedError("hold protects a prefix")

    def release(self, place: Any) -> None:
        """Take back one `hold`."""
        raise NotImplementedError("release takes back a hold")

    def free(self, num_tokens: int) -> Sequence[int]:
        """Evict at least so many tokens, or all that can be, and return their pages."""
        raise NotImplementedError("free evicts")

    def sizes(self) -> tuple[int, int]:
        """How many tokens could be evicted now, and how many are protected."""
        raise NotImplementedError("sizes counts tokens")

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
        source = pack(tokens)
        prompt = source.tolist()[: require_limit(limit, len(source))]
        require_hashable(namespace)
        pages, place = self.find(prompt, namespace)
        packed = np.array([int(page) for page in pages], np.int32).tobytes()
        return Match(*self._end(prompt, namespace, place, len(pages)), (packed,))

    def acquire(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """`match_prefix` and `lock` in one act."""
        match = self.match_prefix(tokens, limit=limit, namespace=namespace)
        self.lock(match)
        return match

    def insert(
        self, tokens: TokensLike, pages: PagesLike, *, namespace: Hashable = None, start: Handle | None = None
    ) -> Insertion:
        """Cache the whole pages of `tokens`; before a locked `start`, the pages are those that are cached."""
        prompt, size = pack(tokens).tolist(), self.page_size
        require_hashable(namespace)
        before = [] if start is None else self._before(start, prompt, namespace)
        numbers = before + np.frombuffer(page_bytes(pages, len(prompt), size, len(before)), np.int32).tolist()
        keys = self._keys(prompt, namespace)
        there, place = self.store(prompt[: len(keys) * size], list(numbers), namespace)
        for key, page in [*zip(keys, numbers)][int(there) // size :]:
            self._cached[key], self._prefix_of[page] = [page], key
        return Insertion(*self._end(prompt, namespace, place, len(keys)), prefix_length=int(there))

    def lock(self, handle: Handle) -> None:
        """Protect everything up to `handle` from eviction."""
        if handle.epoch is not self or self._cached.get(handle.node[1]) is not handle.node[2]:
            raise LockError("the handle is stale: its end was evicted, or it is another cache's")
        if handle.length:
            self.hold(handle.node[0])
        self._held[handle] = self._held.get(handle, 0) + 1

    def unlock(self, handle: Handle) -> None:
        """Take back one lock on this handle."""
        if not self._held.get(handle):
            raise LockError("the handle is not locked")
        self._held[handle] -= 1
        if handle.length:
            self.release(handle.node[0])

    def evict(self, num_tokens: int) -> Pages:
        """Free at least `num_tokens` tokens, or all that can be, and return their pages."""
        pages = [int(page) for page in self.free(require_wanted(num_tokens))]
        for page in pages:
            self._cached.pop(self._prefix_of.pop(page, None), None)
        return np.array(pages, np.int32)

    # -- handles ------------------------------------------------------------------------------------------------------

    def _keys(self, prompt: list[int], namespace: Hashable) -> list[Any]:
        size = self.page_size
        return [(namespace, tuple(prompt[:end])) for end in range(size, len(prompt) + 1, size)]

    def _end(self, prompt: list[int], namespace: Hashable, place: Any, num_pages: int) -> _End:
        """The parts of a handle, which knows the engine's place, its prefix, and that prefix as it is cached now."""
        length = num_pages * self.page_size
        key = namespace, tuple(prompt[:length])
        return self, (place, key, self._cached.get(key)), length, namespace, None

    def _before(self, start: Handle, prompt: list[int], namespace: Hashable) -> list[int]:
        """The cached pages before a locked handle, which must be a prefix of the prompt."""
        if not self._held.get(start):
            raise LockError("start is not locked")
        if start.node[1] != (namespace, tuple(prompt[: start.length])):
            raise ValueError("start is not a prefix of the tokens")
        return [self._cached[key][0] for key in self._keys(prompt[: start.length], namespace)]
