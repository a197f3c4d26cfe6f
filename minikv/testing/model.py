"""The naive prefix cache: a dictionary of all cached prefixes, page by page, and nothing clever.

It keeps the whole contract by looking everything up from scratch, so it is the model that every index is driven
against. A page is the key `(namespace, tokens up to its end)`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from typing import Any

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

PageKey = tuple[Any, tuple[int, ...]]


class ModelPage:
    """One cached page: its number in the pool, and its use."""

    def __init__(self, number: int, created: int):
        self.number, self.created, self.last_used = number, created, created
        self.hits = self.priority = 0


def is_on_the_way(key: PageKey, namespace: Any, tokens: tuple[int, ...]) -> bool:
    """Return whether `tokens` begin with the tokens of this page and those before it.

    >>> is_on_the_way((None, (1, 2)), None, (1, 2, 3)), is_on_the_way((None, (1, 2)), "a", (1, 2, 3))
    (True, False)
    """
    return key == (namespace, tokens[: len(key[1])])


class NaiveCache:
    """Keeps the rules of `PrefixCache` the slow way; `ends` remembers where nodes end, for whole-node eviction.

    The least recently used goes first; `goes_first` and `reads`, which a page is judged by, are for other policies.
    `cuts` are the prefixes at which an edge was split, in the order in which that happened.

    >>> cache = NaiveCache()
    >>> _ = cache.insert([1, 2, 3], [7, 8, 9])
    >>> cache.match_prefix([1, 2, 5]), cache.cuts
    (Match(length=2, pages=[7, 8]), [(None, (1, 2))])
    """

    reads: tuple[str, ...] = ("last_used",)  # pages that differ in it stay apart
    used_by: Collection[str] = ("match_prefix", "insert", "unlock")
    follows = False  # another cache: it evicts nothing of its own accord, and is told by `drop`

    def __init__(self, page_size: int = 1, evict_by: str = "node"):
        self.page_size, self.evict_by = page_size, evict_by
        self.cuts: list[PageKey] = []
        self._clear()

    def _clear(self) -> None:
        self.epoch = object()
        self.pages: dict[PageKey, ModelPage] = {}
        self.ends: set[PageKey] = set()
        self.held = Counter[Handle]()
        self.clock = 0
        self.given: list[int] = []  # the pages of the last insert; before its start, those that are cached

    def path(self, namespace: Any, tokens: tuple[int, ...]) -> list[PageKey]:
        """The keys of the whole pages of `tokens`, the shortest first."""
        return [(namespace, tokens[:end]) for end in range(self.page_size, len(tokens) + 1, self.page_size)]

    def above(self, key: PageKey) -> PageKey:
        """The page before this one."""
        return key[0], key[1][: -self.page_size]

    def locked(self, key: PageKey) -> bool:
        """Return whether a lock protects this page."""
        return any(is_on_the_way(key, handle.namespace, handle.node[0]) for handle in self.held)

    @property
    def evictable_size(self) -> int:
        """Tokens that no lock protects."""
        return self.page_size * sum(not self.locked(key) for key in self.pages)

    @property
    def protected_size(self) -> int:
        """Tokens that locks protect."""
        return self.page_size * sum(self.locked(key) for key in self.pages)

    @property
    def total_size(self) -> int:
        """Tokens cached."""
        return self.page_size * len(self.pages)

    def cached_path(self, namespace: Any, tokens: tuple[int, ...]) -> list[PageKey]:
        """The keys of the longest cached prefix of `tokens`."""
        return [*itertools.takewhile(self.pages.__contains__, self.path(namespace, tokens))]

    def place(self, path: list[PageKey]) -> tuple[Any, int]:
        """Return the node and the length of a handle at the end of `path`."""
        key = path[-1] if path else (None, ())
        if path:
            self.end_at(key)
        return (key[1], self.pages.get(key)), len(key[1])

    def end_at(self, key: PageKey) -> None:
        """A node ends at `key` from now on, where before there may have been the middle of an edge."""
        if key not in self.ends and self.below(key):
            self.cuts.append(key)
        self.ends.add(key)

    def below(self, key: PageKey) -> list[PageKey]:
        """The cached pages that come after `key`."""
        return [other for other in self.pages if other != key and is_on_the_way(key, *other)]

    def touch(self, path: list[PageKey], verb: str, hits: int = 1) -> None:
        """The pages of `path` are used now, if this verb is a use."""
        self.clock += 1
        for key in path if verb in self.used_by else ():
            self.pages[key].last_used = self.clock
            self.pages[key].hits += hits

    def one(self, key: PageKey, below: PageKey, fields: tuple[str, ...]) -> bool:
        """Return whether nothing needs an end at `key`: one page follows, locked as it is, and equal in `fields`."""
        is_held = any((handle.namespace, handle.node[0]) == key for handle in self.held)
        if is_held or not all(is_on_the_way(below, *other) for other in self.below(key)):
            return False
        page, other = self.pages[key], self.pages[below]
        return all(getattr(page, field) == getattr(other, field) for field in fields)

    def join(self, path: list[PageKey]) -> None:
        """Forget the ends in the middle of `path`, just used, that nothing needs."""
        for key, below in itertools.pairwise(path):
            if self.one(key, below, self.reads):
                self.ends.discard(key)

    def join_up(self, path: list[PageKey]) -> None:
        """Forget the ends above the last of `path`, which is locked, up to the first that something needs."""
        fields = tuple(field for field in self.reads if field != "last_used")  # the unlock makes that equal
        for key, below in reversed([*itertools.pairwise(path)]):
            if key in self.ends and not self.one(key, below, fields):
                break
            self.ends.discard(key)

    def match_prefix(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """The longest cached prefix of `tokens`, of at most `limit` tokens."""
        tokens = tuple(pack(tokens).tolist())
        most = require_limit(limit, len(tokens))
        require_hashable(namespace)
        path = self.cached_path(namespace, tokens[:most])
        self.touch(path, "match_prefix")
        self.join(path)
        numbers = np.array([self.pages[key].number for key in path], np.int32)
        return Match(self.epoch, *self.place(path), namespace, None, [numbers.tobytes()])

    def acquire(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """`match_prefix` and `lock` in one act."""
        match = self.match_prefix(tokens, limit=limit, namespace=namespace)
        self.lock(match)
        return match

    def insert(
        self,
        tokens: TokensLike,
        pages: PagesLike,
        *,
        namespace: Hashable = None,
        start: Handle | None = None,
    ) -> Insertion:
        """Cache the whole pages of `tokens`; those that are there keep their pages."""
        tokens = tuple(pack(tokens).tolist())
        require_hashable(namespace)
        if start is not None:
            self.check_start(start, tokens, namespace)
        path, size = self.path(namespace, tokens), self.page_size
        first = start.length // size if start else 0
        new = np.frombuffer(page_bytes(pages, len(tokens), size, first), np.int32)
        self.given = [*(self.pages[key].number for key in path[:first]), *new.tolist()]
        self.join_up(path[:first])
        there = len(self.cached_path(namespace, tokens))
        self.store(path, there, self.given)
        self.touch(path[first:], "insert")
        self.join(path[first:there])
        return Insertion(self.epoch, *self.place(path), namespace, None, there * size)

    def store(self, path: list[PageKey], there: int, numbers: list[int]) -> None:
        """Cache the pages of `path` after the first `there`."""
        if 0 < there < len(path):
            self.end_at(path[there - 1])
        for key, number in list(zip(path, numbers))[there:]:
            self.pages[key] = ModelPage(number, self.clock + 1)

    def check_start(self, start: Handle, tokens: tuple[int, ...], namespace: Any) -> None:
        """`start` must be locked, and a prefix of `tokens`."""
        if start not in self.held:
            raise LockError("start is not locked here")
        if start.namespace != namespace or tokens[: start.length] != start.node[0]:
            raise ValueError("start is not a prefix of the tokens")

    def lock(self, handle: Handle) -> None:
        """Protect every page up to the end of `handle`."""
        tokens, page = handle.node
        key = handle.namespace, tokens
        if handle.epoch is not self.epoch or self.pages.get(key) is not page:
            raise LockError("stale")
        if page is not None:
            self.end_at(key)
        self.held[handle] += 1

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of `handle`."""
        if handle not in self.held:
            raise LockError("not locked")
        self.held[handle] -= 1
        if not self.held[handle]:
            del self.held[handle]
        self.touch(self.path(handle.namespace, handle.node[0]), "unlock", hits=0)

    def evict(self, num_tokens: int) -> Pages:
        """Free unlocked leaves until `num_tokens` tokens are free; their pages, in the order in which they went."""
        wanted, freed = require_wanted(num_tokens) * (not self.follows), list[int]()
        while len(freed) * self.page_size < wanted and (leaves := self.unlocked_leaves()):
            key = min(leaves, key=lambda leaf: self.goes_first(self.pages[leaf]))
            node = [key]
            while self.evict_by == "node" and (key := self.above(key)) in self.pages and key not in self.ends:
                node = [key, *node]
            freed += [self.pages[each].number for each in node]
            self.drop(node)
        return np.array(freed, np.int32)

    def goes_first(self, page: ModelPage) -> Any:
        """Of two leaves, the one for which this is smaller goes first."""
        return page.last_used

    def drop(self, keys: Iterable[PageKey]) -> None:
        """Forget these pages, because another cache evicted them; what they hung on ends there now."""
        gone = set(keys)
        for key in gone:
            del self.pages[key]
        self.ends -= gone
        self.ends |= {*map(self.above, gone)} & self.pages.keys()

    def unlocked_leaves(self) -> list[PageKey]:
        """The pages that nothing follows and nobody locks: those that can be evicted now."""
        inner = {*map(self.above, self.pages)}
        return [key for key in self.pages if key not in inner and not self.locked(key)]

    def reset(self) -> None:
        """Forget everything; `LockError` while anything is locked."""
        if self.held:
            raise LockError("locked")
        self._clear()

    def check(self) -> None:
        """Nothing to check: there is no second copy of any fact."""
