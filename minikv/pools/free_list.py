"""The pool as a stack: what a serving engine wants when nothing cached lives in a free page."""

from __future__ import annotations

from typing import Any

import numpy as np

from minikv.errors import InvariantError, OutOfPages
from minikv.pools.contract import IN_USE, Pages, page_id, page_ids, pool_size, refuse_free, request

_INT32 = np.dtype(np.int32)
_FEW = 8  # up to here, going from page to page costs less than starting numpy
_LONG_RUN = 1024  # from here on, noting a run like memory costs less than going to its pages one by one


class FreeListPool:
    """A stack of free pages that knows of every page whether it is free, and refuses what cannot be.

    `size` is the number of pages. Each page has a place, where it was pushed last, and is free if and only if it still
    stands there (a sparse set, after Briggs and Torczon): so taking pages is a copy off the stack, and only `free` goes
    to each page. No cost depends on `size`. A pool may be used by one thread at a time. After the free lists of SGLang
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
        self._memory = np.arange(self.size, dtype=np.int32)  # [_at:] are free, the next one first; IN_USE before that
        self._where = np.arange(self.size, dtype=np.int32)  # for each page, where on the stack it was pushed last
        self._at = 0

    @property
    def num_free(self) -> int:
        """Pages that `alloc` could give now."""
        return self.size - self._at

    def alloc(self, num_pages: int) -> Pages:
        """Take `num_pages` pages off the stack, or none: `OutOfPages` if there are fewer."""
        end = self._at + request(num_pages, self.size - self._at)
        taken = self._memory[self._at : end]
        pages = taken.copy()
        taken.fill(IN_USE)
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
        taken = self._memory[self._at : end]
        row[:] = taken.data
        taken.fill(IN_USE)
        self._at = end

    def free(self, pages: Any) -> None:
        """Push `pages` back, so that the same `alloc` would give them again in the same order; all or none."""
        ids = np.asarray(pages) if type(pages) is memoryview and pages.format == "i" else pages
        if not (type(ids) is np.ndarray and ids.dtype is _INT32 and ids.ndim == 1):
            ids = page_ids(pages, self.size)
        at = self._at - len(ids)
        if at < 0 or not self._note(ids, at):
            refuse_free(page_ids(pages, self.size), self.is_free)
        self._memory[at : self._at] = ids
        self._at = at

    def is_free(self, page: int) -> bool:
        """Whether `page` is free."""
        number = page_id(page, self.size)
        return bool(self._memory[self._where[number]] == number)

    def check(self) -> None:
        """The stack holds pages of this pool, each once and each at its place; what is before them is in use."""
        free, at = self._memory[self._at :], self._at
        if not 0 <= at <= self.size or (len(free) and not 0 <= free.min() <= free.max() < self.size):
            found = f"{self.num_free} of {self.size} pages on the stack, or a page out of range"
            raise InvariantError(f"FreeListPool: {found}")
        for place in np.flatnonzero(self._memory[:at] != IN_USE).tolist():
            raise InvariantError(
                f"FreeListPool: page {self._memory[place]} is left on the stack at {place}, before {at}"
            )
        times = np.bincount(free, minlength=self.size)
        for page in np.flatnonzero(times > 1).tolist():
            raise InvariantError(f"FreeListPool: page {page} is on the stack {times[page]} times")
        for page in free[self._where[free] != np.arange(at, self.size)].tolist():
            raise InvariantError(f"FreeListPool: page {page} is on the stack, but not at {self._where[page]}")

    # -- where pages stand --------------------------------------------------------------------------------------------

    def _note(self, ids: Pages, at: int) -> bool:
        """Note that `ids` stand from `at` on, or nothing when one of them is foreign, free already, or given twice."""
        if len(ids) <= _FEW:
            return self._note_few(ids.tolist(), at)
        runs = _runs(ids)
        return self._note_runs(runs, at) if runs else self._note_many(ids, at)

    def _note_few(self, pages: list[int], at: int) -> bool:
        for page in pages:
            if not 0 <= page < self.size or self._memory[self._where[page]] == page:
                return False
        if len(set(pages)) < len(pages):
            return False
        for place, page in enumerate(pages, at):
            self._where[page] = place
        return True

    def _note_many(self, ids: Pages, at: int) -> bool:
        where, index = self._where, ids.view(np.uint32).astype(np.int64)  # as unsigned, a negative id is a huge one
        try:
            before = where.take(index)
        except IndexError:
            return False
        if _any_equal(self._memory.take(before), ids):
            return False
        places = np.arange(at, at + len(ids), dtype=np.int32)
        where[index] = places
        if where.take(index).tobytes() != places.tobytes():  # another place was written there: a page is given twice
            where[index] = before
            return False
        return True

    def _note_runs(self, runs: list[slice], at: int) -> bool:
        """Look at runs of neighbours, and note them, as memory, not page by page."""
        reached = 0
        for run in sorted(runs, key=lambda run: run.start):
            if not reached <= run.start < run.stop <= self.size:  # foreign, or it meets the run before it
                return False
            if _any_equal(self._memory.take(self._where[run]), np.arange(run.start, run.stop, dtype=np.int32)):
                return False
            reached = run.stop
        for run in runs:
            self._where[run] = np.arange(at, at := at + run.stop - run.start, dtype=np.int32)
        return True

    def __repr__(self) -> str:
        return f"FreeListPool({self.num_free} of {self.size} free)"


def _any_equal(a: Pages, b: Pages) -> bool:
    return b"\1" in (a == b).tobytes()  # a third of the time of `any`


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
