"""The pool as a stack: what a serving engine wants when nothing cached lives in a free page."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from minikv.errors import InvariantError, OutOfPages
from minikv.pools.contract import Pages, page_id, page_ids, pool_size, refuse_free, request

_INT32 = np.dtype(np.int32)
_FEW = 32  # up to here, going from page to page costs less than starting numpy
_FEW_FREE = 2  # with up to so many free pages for each that comes back, looking at all of them costs less
_LONG_RUN = 512  # runs of neighbors that are at least so long on average are noted as memory, not page by page


class FreeListPool:
    """A stack of free pages that knows whether each page is free, and refuses to free a page twice.

    `size` is the number of pages. Each page has a place, where it was pushed last, and is free if and only if it still
    stands there (a sparse set, after Briggs and Torczon): so taking pages is one copy, and only `free` looks at each
    page. No cost depends on `size`. A pool may be used by one thread at a time. After the free lists of SGLang
    and mini-sglang, which slice and concatenate a tensor instead, so that theirs cost more the larger the pool is, and
    which do not notice a page that is freed twice.

    >>> pool = FreeListPool(4)
    >>> pages = pool.alloc(3); pages.tolist(), pool.num_free
    ([0, 1, 2], 1)
    >>> pool.free(pages[1:]); pool.alloc(3).tolist()
    [1, 2, 3]
    >>> pool.free([1, 1])
    Traceback (most recent call last):
    ValueError: cannot free pages[1]: page 1 is given twice
    """

    def __init__(self, size: int):
        self.size = pool_size(size)
        self._memory = np.arange(self.size, dtype=np.int32)  # [_at:] are free, the next one first
        self._where = self._memory.copy()  # for each page, where on the stack it was pushed last
        self._at = 0

    @property
    def num_free(self) -> int:
        """Pages that `alloc` could give now."""
        return self.size - self._at

    def alloc(self, num_pages: int) -> Pages:
        """Take `num_pages` pages off the stack, or none: `OutOfPages` if there are fewer."""
        end = self._at + request(num_pages, self.size - self._at)
        pages = self._memory[self._at : end].copy()
        self._at = end
        return pages

    def alloc_to(self, row: memoryview) -> None:
        """Take as many pages as `row` is long and write them there: `alloc` with no array in between.

        `row` is a memoryview of int32, a piece of a page table's row. Raises `OutOfPages` as `alloc` does.

        >>> pool, row = FreeListPool(4), memoryview(np.array([9, 9, 9], np.int32))
        >>> pool.alloc_to(row[1:]); row.tolist(), pool.num_free
        ([9, 0, 1], 2)
        """
        end = self._at + len(row)
        if end > self.size:
            raise OutOfPages(needed=len(row), free=self.size - self._at)
        row[:] = self._memory.data[self._at : end]
        self._at = end

    def free(self, pages: Any) -> None:
        """Push `pages` back, so that the same `alloc` would give them again in the same order; all or none."""
        kind = type(pages)
        plain = (kind is memoryview and pages.format == "i") or (kind is np.ndarray and pages.dtype is _INT32)
        ids = pages if plain and pages.ndim == 1 else page_ids(pages, self.size)
        if not (self._free_few(ids.tolist()) if len(ids) <= _FEW else self._free_many(np.asarray(ids))):
            refuse_free(page_ids(pages, self.size), self.is_free)

    def is_free(self, page: int) -> bool:
        """Whether `page` is free."""
        number = page_id(page, self.size)
        place = self._where[number]
        return bool(place >= self._at and self._memory[place] == number)

    def check(self) -> None:
        """The stack holds pages of this pool, each once and each at its place; every page has a place."""
        if not 0 <= self._at <= self.size:
            raise InvariantError(f"FreeListPool: {self.num_free} of {self.size} pages are on the stack")
        free, at = self._memory[self._at :], self._at
        for page in free[(free < 0) | (free >= self.size)].tolist():
            raise InvariantError(f"FreeListPool: page {page} is on the stack: this pool has pages 0 to {self.size - 1}")
        for page in np.flatnonzero((self._where < 0) | (self._where >= self.size)).tolist():
            place = self._where[page]
            raise InvariantError(f"FreeListPool: page {page} has place {place}: places are 0 to {self.size - 1}")
        times = np.bincount(free, minlength=self.size)
        for page in np.flatnonzero(times > 1).tolist():
            raise InvariantError(f"FreeListPool: page {page} is on the stack {times[page]} times")
        for page in free[self._where[free] != np.arange(at, self.size)].tolist():
            raise InvariantError(f"FreeListPool: page {page} is on the stack, but not at {self._where[page]}")

    # -- where pages stand --------------------------------------------------------------------------------------------

    def _free_few(self, pages: list[int]) -> bool:
        """Push a few pages, or none when one of them is foreign, free already, or given twice."""
        stack, where, at = self._memory.data, self._where.data, self._at
        for page in reversed(pages):
            if not 0 <= page < self.size or (where[page] >= at and stack[where[page]] == page):
                return False  # what was pushed before it is not on the stack before `_at` says so
            at -= 1
            stack[at], where[page] = page, at
        self._at = at
        return True

    def _free_many(self, ids: Pages) -> bool:
        """The same for many, in a few steps of numpy.

        No page has two places. So a page that is free already shows when its place is noted anew: the look at all free
        pages that follows misses it. That is quick when few are free, as when a full cache evicts; else look first.
        """
        top, at, few_free = self._at, self._at - len(ids), self.size - self._at <= _FEW_FREE * len(ids)
        if at < 0 or not (few_free or self._all_in_use(ids)):
            return False
        runs, places = _runs(ids), np.arange(at, top, dtype=np.int32)
        noted = self._note_each(ids, places) if runs is None else self._note_runs(runs, places)
        if few_free and top < self.size:
            free, places = self._memory[top:], np.arange(top, self.size, dtype=np.int32)
            noted = noted and self._where.take(free).tobytes() == places.tobytes()
            if not noted:
                self._where[free] = places
        if noted:
            self._memory[at:top] = ids
            self._at = at
        return noted

    def _all_in_use(self, ids: Pages) -> bool:
        """Whether none of `ids` is foreign, or stands on the stack."""
        try:
            places = self._where.take(_index(ids))
        except IndexError:
            return False
        same = self._memory.take(places) == ids
        if b"\1" not in same.tobytes():  # as nearly always: what stood there has been written over since
            return True
        return b"\1" not in (same & (places >= self._at)).tobytes()  # a third of the time of `any`

    def _note_each(self, ids: Pages, places: Pages) -> bool:
        """Give each page its place; whether none is foreign or given twice."""
        index = _index(ids)
        try:
            self._where[index] = places
        except IndexError:
            return False
        return self._where.take(index).tobytes() == places.tobytes()

    def _note_runs(self, runs: list[slice], places: Pages) -> bool:
        """The same for runs of neighbors, which are noted only if none is foreign or meets another."""
        reached = at = 0
        for start, stop in sorted((run.start, run.stop) for run in runs):
            if not reached <= start < stop <= self.size:
                return False
            reached = stop
        for run in runs:
            self._where[run] = places[at : (at := at + run.stop - run.start)]
        return True

    def __repr__(self) -> str:
        return f"FreeListPool({self.num_free} of {self.size} free)"


def _index(ids: Pages) -> npt.NDArray[np.intp]:
    """Pages as numpy takes an index without a copy; a negative one becomes a huge one."""
    return ids.view(np.uint32).astype(np.intp)


def _runs(ids: Pages) -> list[slice] | None:
    """`ids` as runs of neighbors, or `None` where they are too scattered for that to pay.

    >>> _runs(np.arange(5, 5000, dtype=np.int32))
    [slice(5, 5000, None)]
    """
    count, first = len(ids), ids.item(0)
    if ids.item(-1) - first == count - 1:
        run = np.arange(first, first + count, dtype=np.int32)
        if ids.tobytes() == run.tobytes():
            return [slice(first, first + count)]
    middle = count // 2
    if count < 4 * _LONG_RUN or ids.item(middle + _LONG_RUN) - ids.item(middle) != _LONG_RUN:
        return None
    cuts = (ids[1:] - ids[:-1] != 1).nonzero()[0]
    if len(cuts) * _LONG_RUN > count:
        return None
    firsts, lasts = [first, *ids[cuts + 1].tolist()], [*ids[cuts].tolist(), ids.item(-1)]
    return [slice(first, last + 1) for first, last in zip(firsts, lasts)]
