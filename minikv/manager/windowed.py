"""The life of a request of a model with windowed layers: the same verbs, two kinds of pages, and windows that move on.

    row     [0, shared)              the tree's: full pages, and windows for the last tokens, which our lock holds
            [.., live_from)          our own full pages; their window pages have been given back already
            [.., length)             our own, both kinds

A request takes both kinds of pages for all its tokens when it starts, and gives window pages back as it advances: the
next token reads the last `window` tokens alone. SGLang takes them chunk by chunk instead, so that a prompt may be
longer than its window pages together; here it may not.
"""

from __future__ import annotations

from typing import Any

from minikv.errors import OutOfPages, require, whole_number
from minikv.interrupts import exclusive
from minikv.manager.manager import CacheManager
from minikv.manager.sequence import Sequence
from minikv.pools.windowed import WindowedPool
from minikv.prefix.sliding_window import SlidingWindowCache


class WindowedManager(CacheManager):
    """A `CacheManager` over two kinds of pages, for a model with layers that see only the last `window` tokens.

    `pool` is new, or kept for this manager alone. `store` is what the model writes to, a `WindowedStore` of the same
    pool. Raises `OutOfPages` where pages of either kind are missing.

    Twin: `minikv.engine.ch11_12_sharing_and_windows.WindowTree`.

    >>> pool = WindowedPool(16, num_window_pages=8)
    >>> manager = WindowedManager(pool, window=2)
    >>> sequence = manager.start([1, 2, 3, 4, 5, 6])
    >>> manager.advance(sequence, 5); pool                       # tokens 1 and 2 are out of sight
    WindowedPool(10 of 16 full pages free, 4 of 8 window pages free)
    >>> manager.finish(sequence)
    >>> [manager.start([*tokens, 9]).cached_length for tokens in ([1, 2, 3, 4, 5], [1, 2, 3, 4], [1, 2])]
    [5, 4, 0]
    """

    cache: SlidingWindowCache
    pool: WindowedPool

    def __init__(self, pool: WindowedPool, window: int, page_size: int = 1, store: Any = None, evict_by: str = "node"):
        cache = SlidingWindowCache(page_size, evict_by=evict_by, window=window, pool=pool)
        super().__init__(pool.size, page_size, cache, pool, store)
        self.num_window_pages = pool.windows.size

    def _kinds(self) -> list[tuple[int, int]]:
        """Of both kinds, how many pages are free, and how many tokens the cache could evict."""
        full, windows = self.pool.full.num_free, self.pool.windows.num_free
        return [(full, self.cache.evictable_size), (windows, self.cache.window_evictable_size)]

    def _make_room(self, num_pages: int, spare: int) -> None:
        """Evict until `num_pages` pages of each kind are free, as `CacheManager` does for its one kind."""
        if self._returns:
            self._give_back(*self._returns.pop())
        needed, short = num_pages + spare, []
        for free, evictable in self._kinds():
            if needed > free + evictable // self.page_size:
                raise OutOfPages(needed, free, evictable // self.page_size)
            short.append(max(0, num_pages - free) * self.page_size)
        if any(short):
            self._give_back(self.cache.evict(*short))

    @exclusive
    def advance(self, sequence: Sequence, num_tokens: int | None = None) -> None:
        """Mark the next `num_tokens` tokens as computed, and give back the window pages that nobody will read.

        What a checkpoint or the end publishes keeps its last window, and a page more: the same prompt, asked again,
        computes its last token again, so it needs the window before that one.
        """
        self._require(sequence, "advance")
        before = sequence.computed
        super().advance(sequence, num_tokens)
        kept = self.cache.windows.span + self.page_size
        begin, end = self.live_from(sequence), sequence.publishable - kept
        if end > begin:
            try:
                self.pool.free_window(sequence.pages[begin // self.page_size : end // self.page_size])
            except BaseException:
                sequence.computed = before  # else an engine would never get the next token
                raise
            sequence._windows_from = end

    @exclusive
    def truncate(self, sequence: Sequence, length: int) -> None:
        """As `CacheManager.truncate`; `ValueError` as well where the window before `length` has been given back."""
        self._require(sequence, "truncate")
        length = whole_number("length", length, 0, "a sequence keeps 0 tokens or more")
        whole = min(length, sequence.computed) // self.page_size * self.page_size
        if self.live_from(sequence) > max(sequence.shared, whole - self.cache.windows.span):
            raise ValueError(f"length is {length}: the window before it has been given back")
        super().truncate(sequence, length)

    def live_from(self, sequence: Sequence) -> int:
        """The first token after the shared ones whose window page the sequence still has."""
        return max(sequence.shared, sequence._windows_from)

    def _windows(self, sequence: Sequence) -> dict[str, int]:
        return {"window_start": self.live_from(sequence)}

    @exclusive
    def check(self) -> None:
        """As `CacheManager.check`; and each token that needs a window page has one, and no other has."""
        super().check()
        for node in self.cache.nodes():
            self._check_windows(node.pages, node.start, node.window.live_from, f"node {node.id} of the cache")
        for sequence in self.sequences:
            own, live_from = sequence.pages[sequence.shared // self.page_size :], self.live_from(sequence)
            self._check_windows(own, sequence.shared, live_from, f"sequence {sequence.number}")

    def _check_windows(self, pages: Any, begin: int, live_from: int, owner: str) -> None:
        """Of `pages`, of which the first begins at token `begin`, those from `live_from` on have a window page."""
        for i, page in enumerate(pages):
            needs = begin + i * self.page_size >= live_from
            has = "has no window page, and needs one" if needs else "has a window page that nobody needs"
            require((self.pool.window_of[page] >= 0) == needs, f"page {page} of {owner} {has}")
