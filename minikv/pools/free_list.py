"""The pool as a stack: what a serving engine wants when nothing cached lives in a free page."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from minikv.errors import InvariantError, OutOfPages
from minikv.pools.contract import IN_USE, Pages, page_id, page_ids, pool_size, refuse_free, request

_INT32 = np.dtype(np.int32)
_IN_USE_BYTES = np.array([IN_USE], np.int32).tobytes()
_LONG_RUN = 1024  # from here on, marking a run like memory costs less than going to its pages one by one


class FreeListPool:
    """A stack of free pages that knows of every page whether it is free, and refuses what cannot be.

    `size` is the number of pages. Both ends of a page's life are one copy of its number, and the cost of `alloc` and
    `free` does not depend on `size`. A pool may be used by one thread at a time. After the free lists of SGLang and
    mini-sglang, which slice and concatenate a tensor instead, so that theirs cost more the larger the pool is, and
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
        # Free pages: [_at:], the next one first. An array, because numpy takes longer to start than these copies take.
        self._memory = array("i", np.arange(self.size, dtype=np.int32).tobytes())
        self._at = 0
        self._mark = np.zeros(self.size, np.int32)  # IN_USE, or for a free page any number >= 0

    @property
    def num_free(self) -> int:
        """Pages that `alloc` could give now."""
        return self.size - self._at

    def alloc(self, num_pages: int) -> Pages:
        """Take `num_pages` pages off the stack, or none: `OutOfPages` if there are fewer."""
        at = self._at
        end = at + request(num_pages, self.size - at)
        pages: Pages = np.frombuffer(self._memory[at:end], _INT32)
        self._mark_used(pages)
        self._at = end
        return pages

    def alloc_to(self, row: memoryview) -> None:
        """Take as many pages as `row` is long and write them there: `alloc` with no array in between.

        `row` is a memoryview of int32, a piece of a page table's row. Raises `OutOfPages` as `alloc` does.

        >>> pool, row = FreeListPool(4), memoryview(array("i", [9, 9, 9]))
        >>> pool.alloc_to(row[1:]); row.tolist(), pool.num_free
        ([9, 0, 1], 2)
        """
        at, num_pages = self._at, len(row)
        if num_pages > self.size - at:
            raise OutOfPages(needed=num_pages, free=self.size - at)
        end = at + num_pages
        row[:] = memoryview(self._memory)[at:end]
        self._mark_used(np.frombuffer(self._memory, _INT32, num_pages, 4 * at) if num_pages else self._mark[:0])
        self._at = end

    def free(self, pages: Any) -> None:
        """Push `pages` back, so that the same `alloc` would give them again in the same order; all or none."""
        ids = np.asarray(pages) if type(pages) is memoryview and pages.format == "i" else pages
        if not (type(ids) is np.ndarray and ids.dtype is _INT32 and ids.ndim == 1):
            ids = page_ids(pages, self.size)
        runs = _runs(ids)
        if not (self._mark_runs_free(runs) if runs else self._mark_free(ids)):
            refuse_free(page_ids(pages, self.size), self.is_free)
        at = self._at - len(ids)
        memoryview(self._memory)[at : self._at] = ids.data
        self._at = at

    def is_free(self, page: int) -> bool:
        """Whether `page` is free."""
        return bool(self._mark[page_id(page, self.size)] != IN_USE)

    def check(self) -> None:
        """The stack holds every page that is marked free, once, and nothing else."""
        stack = np.frombuffer(self._memory, np.int32)[self._at :]
        if not 0 <= self._at <= self.size or (len(stack) and not 0 <= stack.min() <= stack.max() < self.size):
            found = f"{self.num_free} of {self.size} pages on the stack, or a page out of range"
            raise InvariantError(f"FreeListPool: {found}")
        times, marked = np.bincount(stack, minlength=self.size), self._mark != IN_USE
        for page in np.flatnonzero(times != marked).tolist():
            if times[page] > 1:
                raise InvariantError(f"FreeListPool: page {page} is on the stack {times[page]} times")
            if marked[page]:
                raise InvariantError(f"FreeListPool: page {page} is marked free but the stack does not hold it")
            raise InvariantError(f"FreeListPool: page {page} is on the stack but marked in use")

    def _mark_used(self, pages: Pages) -> None:
        runs = _runs(pages)
        if runs is None:
            self._mark[pages.astype(np.intp)] = IN_USE
        else:
            for run in runs:
                self._mark[run] = IN_USE

    def _mark_free(self, ids: Pages) -> bool:
        """Mark pages free, or change nothing when one of them is foreign, free already, or given twice."""
        mark, index = self._mark, ids.view(np.uint32).astype(np.int64)  # as unsigned, a negative id is a huge one
        try:
            marks = mark.take(index)
        except IndexError:
            return False
        if marks.tobytes() != _IN_USE_BYTES * len(ids):
            return False
        order = np.arange(len(ids), dtype=np.int32)
        mark[index] = order
        if mark.take(index).tobytes() != order.tobytes():  # another number was written there: a page is given twice
            mark[index] = IN_USE
            return False
        return True

    def _mark_runs_free(self, runs: list[slice]) -> bool:
        """The same for runs of neighbours, which are looked at and marked as memory, not page by page."""
        for i, run in enumerate(runs):
            inside = 0 <= run.start < run.stop <= self.size  # a run that wraps round int32 has none of this
            if not inside or (self._mark[run] != IN_USE).any():
                for undone in runs[:i]:
                    self._mark[undone] = IN_USE
                return False
            self._mark[run] = 0
        return True

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
