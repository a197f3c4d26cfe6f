"""The pool as a stack: what a serving engine wants when nothing cached lives in a free page."""

from __future__ import annotations

from typing import Any

import numpy as np

from minikv.errors import InvariantError, OutOfPages
from minikv.pools.contract import Pages, page_id, page_ids, pool_size, refuse_free, request

_INT32 = np.dtype(np.int32)
_FEW = 32  # up to here, going from page to page costs less than starting numpy
_FEW_FREE = 2  # with up to so many free pages for each that comes back, looking at all of them costs less
_LONG_RUN = 1024  # from here on, noting a run like memory costs less than going to its pages one by one


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
        if type(pages) is memoryview and pages.format == "i" and pages.ndim == 1:
            ids: Any = pages
        else:
            plain = type(pages) is np.ndarray and pages.dtype is _INT32 and pages.ndim == 1
            ids = pages if plain else page_ids(pages, self.size)
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
        """The same for many, in a few steps of numpy."""
        at, runs = self._at - len(ids), _runs(ids)
        if at < 0:
            return False
        self._memory[at : self._at] = ids  # not on the stack before `_at` says so
        if not (self._note_runs(runs, at) if runs else self._note_many(ids, at)):
            return False
        self._at = at
        return True

    def _note_many(self, ids: Pages, at: int) -> bool:
        """Note that `ids` stand from `at` on, unless one of them cannot be freed: then free pages stand as before.

        No page can stand in two places. So a look at all of the stack finds a page that is given twice or was free
        already. That costs the least when few pages are free, as they are when a full cache evicts; else the pages'
        old places say which of them is free.
        """
        where, top, index = self._where, self._at, ids.view(np.uint32).astype(np.int64)  # a negative id is a huge one
        few_free = self.size - top <= _FEW_FREE * len(ids)
        end = self.size if few_free else top
        places = np.arange(at, end, dtype=np.int32)
        try:
            if not few_free and self._any_stands(ids, where.take(index)):
                return False
            where[index] = places[: len(ids)]
        except IndexError:
            return False
        if where.take(self._memory[at:end]).tobytes() == places.tobytes():
            return True
        where[self._memory[top:end]] = places[len(ids) :]
        return False

    def _note_runs(self, runs: list[slice], at: int) -> bool:
        """Look at runs of neighbours, and note them, as memory, not page by page."""
        reached = 0
        for run in sorted(runs, key=lambda run: run.start):
            if not reached <= run.start < run.stop <= self.size:  # foreign, or it meets the run before it
                return False
            if self._any_stands(np.arange(run.start, run.stop, dtype=np.int32), self._where[run]):
                return False
            reached = run.stop
        for run in runs:
            self._where[run] = np.arange(at, at := at + run.stop - run.start, dtype=np.int32)
        return True

    def _any_stands(self, ids: Pages, places: Pages) -> bool:
        """Whether any of `ids` stands on the stack at its place in `places`, and so is free."""
        same = self._memory.take(places) == ids
        if b"\1" not in same.tobytes():  # as nearly always: what stood there has been written over since
            return False
        return b"\1" in (same & (places >= self._at)).tobytes()  # a third of the time of `any`

    def __repr__(self) -> str:
        return f"FreeListPool({self.num_free} of {self.size} free)"


def _runs(ids: Pages) -> list[slice] | None:
    """`ids` as runs of neighbours, or `None` where they are too few or too scattered for that to pay.

    >>> _runs(np.arange(5, 5000, dtype=np.int32))
    [slice(5, 5000, None)]
    """
    count = len(ids)
    if count < _LONG_RUN or int(ids[_LONG_RUN - 1]) - int(ids[0]) != _LONG_RUN - 1:
        return None
    cuts = (ids[1:] - ids[:-1] != 1).nonzero()[0] + 1
    if len(cuts) * _LONG_RUN >= count:
        return None
    firsts, lasts = ids[[0, *cuts]].tolist(), ids[[*(cuts - 1), -1]].tolist()
    return [slice(first, last + 1) for first, last in zip(firsts, lasts)]
