"""The pool as a stack: what a serving engine wants when nothing cached lives in a free page."""

from __future__ import annotations

from typing import Any

import numpy as np

from minikv.errors import InvariantError, OutOfPages, bounded, require
from minikv.pools.contract import INT32_CODES, Pages, SlotPool, page_id, page_ids, pages_to_free, pool_size, request

_INT32 = np.dtype(np.int32)
_FEW = 32  # up to here, going from page to page costs less than starting numpy


class FreeListPool(SlotPool):
    """A stack of free pages that knows whether each page is free, and refuses to free a page twice.

    `size` is the number of pages. Each page has a place, where it was pushed last, and is free if and only if it is
    still there (a sparse set, after Briggs and Torczon): so taking pages is one copy, and only `free` looks at each
    page, if the caller is not `sure` of them. No cost depends on `size`. A pool may be used by one thread at a time.
    After the free lists of SGLang and mini-sglang, which slice and concatenate a tensor instead, so that theirs cost
    more the larger the pool is, and which do not notice a page that is freed twice.

    Twin: `minikv.engine.ch01_02_pool.Pool`.

    >>> pool = FreeListPool(4)
    >>> pages = pool.alloc(3); pages.tolist(), pool.num_free
    ([0, 1, 2], 1)
    >>> pool.free(pages[1:]); pool.alloc(3).tolist()
    [1, 2, 3]
    >>> pool.free([1, 1])
    Traceback (most recent call last):
    ValueError: cannot free pages[1]: page 1 is given twice
    """

    num_free: int = 0  # pages that `alloc` could give now

    def __init__(self, size: int):
        self.size = self.num_free = pool_size(size)
        self._memory = np.arange(self.size, dtype=np.int32)  # the last `num_free` are free, the next one first
        self._where = self._memory.copy()  # for each page, where on the stack it was pushed last
        self._noted_from = 0  # a free page before here came back unseen: its place is noted when somebody asks

    def alloc(self, num_pages: int) -> Pages:
        """Take `num_pages` pages off the stack, or none: `OutOfPages` if there are fewer.

        Twin: `minikv.engine.ch01_02_pool.alloc`.
        """
        at = self.size - self.num_free
        count = request(num_pages, self.num_free)
        pages = self._memory[at : at + count].copy()
        self.num_free -= count
        return pages

    def alloc_to(self, row: memoryview) -> None:
        """Take as many pages as `row` is long and write them there: `alloc` with no array in between.

        `row` is a memoryview of int32, a piece of a page table's row. Raises `OutOfPages` as `alloc` does.

        >>> pool, row = FreeListPool(4), memoryview(np.array([9, 9, 9], np.int32))
        >>> pool.alloc_to(row[1:]); row.tolist(), pool.num_free
        ([9, 0, 1], 2)
        """
        count, free = len(row), self.num_free
        if count > free:
            raise OutOfPages(needed=count, free=free)
        at = self.size - free
        row[:] = self._memory.data[at : at + count]
        self.num_free = free - count

    def free(self, pages: Any, sure: bool = False) -> None:
        """Push `pages` back, so that the same `alloc` would give them again in the same order; all or none.

        With `sure` the pool does not look at them, and it costs one copy. The caller answers for it that all of them
        are in use and each is given once, as a cache manager does for what its cache evicted. If that is wrong, a page
        is handed out twice, and only `check` finds it.

        Twin: `minikv.engine.ch01_02_pool.free`.
        """
        top = self.size - self.num_free
        if sure and len(pages) <= top:
            if self._noted_from < top:
                self._noted_from = top
            self._memory[top - len(pages) : top] = pages
            self.num_free += len(pages)
            return
        kind = type(pages)
        plain = (kind is np.ndarray and pages.dtype is _INT32) or (kind is memoryview and pages.format in INT32_CODES)
        ids = pages if plain and pages.ndim == 1 else page_ids(pages, self.size)
        if top < self._noted_from:
            self._note()
        if not (self._push_few(ids.tolist(), top) if len(ids) <= _FEW else self._push_many(np.asarray(ids), top)):
            numbers = pages_to_free(pages, self.size, self.is_free)
            raise InvariantError(f"pages {bounded(numbers)} could not be freed, but each of them is in use")
        self._noted_from = top - len(ids)
        self.num_free += len(ids)

    def is_free(self, page: int) -> bool:
        """Return whether `page` is free. Twin: `minikv.engine.ch01_02_pool.Pool.is_free`."""
        number = page_id(page, self.size)
        self._note()
        place = self._where[number]
        return bool(place >= self.size - self.num_free and self._memory[place] == number)

    def check(self) -> None:
        """The stack holds pages of this pool, each once and each at its place; every page has a place."""
        found = f"FreeListPool: {self.num_free} of {self.size} pages are on the stack"
        require(0 <= self.num_free <= self.size, found)
        self._note()
        at = self.size - self.num_free
        free = self._memory[at:]
        for page in free[free.view(np.uint32) >= self.size].tolist():  # a negative number becomes a huge one
            raise InvariantError(f"FreeListPool: page {page} is on the stack: this pool has pages 0 to {self.size - 1}")
        for page in np.flatnonzero(self._where.view(np.uint32) >= self.size).tolist():
            place = self._where[page]
            raise InvariantError(f"FreeListPool: page {page} has place {place}: places are 0 to {self.size - 1}")
        for page in free[self._where[free] != np.arange(at, self.size)].tolist():
            times, place = np.count_nonzero(free == page), self._where[page]
            how = f" {times} times" if times > 1 else f", but not at place {place}"
            raise InvariantError(f"FreeListPool: page {page} is on the stack{how}")

    # -- where pages are ----------------------------------------------------------------------------------------------

    def _note(self) -> None:
        """Note the places of the pages that came back unseen, before anybody looks at one."""
        at = self.size - self.num_free
        if at < self._noted_from:
            places = np.arange(at, self._noted_from, dtype=np.int32)
            self._where.put(self._memory[at : self._noted_from], places, "clip")
        self._noted_from = at

    # What `_push_few` and `_push_many` write has no effect until `num_free` grows to cover it.

    def _push_few(self, pages: list[int], at: int) -> bool:
        """Put a few pages on the stack, before place `at`; `False` if one is foreign, already free or given twice."""
        stack = self._memory.data
        where = self._where.data
        for page in reversed(pages):
            if not 0 <= page < self.size or (where[page] >= at and stack[where[page]] == page):
                return False
            at -= 1
            stack[at], where[page] = page, at
        return True

    def _push_many(self, ids: Pages, top: int) -> bool:
        """The same for many, in a few steps of numpy: no page has two places, so one given twice misses its first."""
        at, index = top - len(ids), ids.view(np.uint32).astype(np.intp)  # a negative number becomes a huge one
        try:
            before = self._where.take(index)
        except IndexError:
            return False
        if at < 0 or ((before >= top) & (self._memory.take(before) == ids)).any():
            return False
        places = np.arange(at, top, dtype=np.int32)
        self._where[index] = places
        if self._where.take(index).tobytes() != places.tobytes():
            return False
        self._memory[at:top] = ids
        return True
