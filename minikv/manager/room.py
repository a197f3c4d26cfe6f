"""Room: pages to take, and the two kinds of thing that are given back, pages and locks.

The only place where pages leave the pool for a sequence and where they come back, so each of them does so once. What
cannot be given back because the pool or the cache fails is remembered here, and goes with the next.
"""

from __future__ import annotations

import numpy as np

from minikv.errors import OutOfPages
from minikv.pools import SlotPool, slot_pages
from minikv.pools.contract import Ids
from minikv.prefix import Handle, PrefixCache

NO_PAGES: Ids = np.empty(0, np.int32)


class Room:
    """The free pages of `pool`, and those that `cache` would evict for more.

    All counts are pages of the cache's page size. `leaving` are the pages and `loose` the locks that are still to be
    given back: none, unless something failed.

    >>> from minikv import FreeListPool, RadixCache
    >>> pool, cache = FreeListPool(4), RadixCache()
    >>> room = Room(pool, cache)
    >>> pages = room.take(3); _ = cache.insert([1, 2, 3], pages)
    >>> room.take(2).tolist(), cache.total_size           # one was free, so the whole leaf had to go
    ([0, 1], 0)
    """

    def __init__(self, pool: SlotPool, cache: PrefixCache):
        self.pool, self.cache = pool, cache
        self.leaving: Ids = NO_PAGES
        self.loose: list[Handle] = []

    @property
    def available(self) -> int:
        """Pages that `take` could give now."""
        return self.pool.num_free + len(self.leaving) + self.cache.evictable_size // self.cache.page_size

    def take(self, pages: int, spare: int = 0) -> Ids:
        """Pages from the pool, evicting for them, or none: `OutOfPages`. Lock first what you want to keep.

        `spare` more pages must remain available when these are taken.
        """
        self.give_back()
        size, free = self.cache.page_size, self.pool.num_free
        evictable = self.cache.evictable_size // size
        if pages + spare > free + evictable:
            raise OutOfPages(pages + spare, free, evictable)
        if pages > free:
            self.give_back(slot_pages(self.cache.evict((pages - free) * size), size))
        return self.pool.alloc(pages)

    def give_back(self, pages: Ids = NO_PAGES, handle: Handle | None = None) -> None:
        """Unlock `handle` and free `pages`, and whatever else is still to be given back."""
        if len(pages):
            self.leaving = np.concatenate([self.leaving, pages])
        if handle is not None:
            self.loose.append(handle)
        while self.loose:
            self.cache.unlock(self.loose[0])
            del self.loose[0]
        if len(self.leaving):
            self.pool.free(self.leaving)
            self.leaving = NO_PAGES

    def __repr__(self) -> str:
        evictable = self.cache.evictable_size // self.cache.page_size
        return f"Room({self.pool.num_free} pages free, {evictable} evictable)"
