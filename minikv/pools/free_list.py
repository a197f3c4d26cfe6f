"""The pool as a stack: what a serving engine wants when nothing cached lives in a free page."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from minikv.errors import InvariantError, OutOfPages
from minikv.pools.contract import IN_USE, Ids, page_id, page_ids, pool_size, refuse_free, request

_INT32 = np.dtype(np.int32)
_IN_USE_BYTES = np.array([IN_USE], np.int32).tobytes()
_LONG_RUN = 1024  # from here on, marking a run like memory costs less than going to its pages one by one


class TrustingPool:
    """A stack of free pages that believes its caller: both ends of a page's life are one copy of its number.

    `size` is the number of pages. This is what an engine runs once its bookkeeping has been proven (with
    `FreeListPool`, or a ledger beside it): a page freed twice is not noticed here, and later belongs to two. Of what
    `free` is given it checks only that it could be true at all: no more pages than are out.
    After the free lists of SGLang and mini-sglang, which slice and concatenate a tensor instead, so that theirs cost
    more the larger the pool is.

    >>> pool = TrustingPool(4)
    >>> pages = pool.alloc(3); pool.free(pages[1:]); pool.alloc(3).tolist()
    [1, 2, 3]
    """

    def __init__(self, size: int):
        self.size = pool_size(size)
        # Free pages: [_at:], the next one first. An array, for numpy takes longer to get going than these copies take.
        self._memory = array("i", np.arange(self.size, dtype=np.int32).tobytes())
        self._at = 0

    @property
    def _stack(self) -> Ids:
        return np.frombuffer(self._memory, np.int32)[self._at :]

    @property
    def num_free(self) -> int:
        """Pages that `alloc` could give now."""
        return self.size - self._at

    def alloc(self, num_pages: int) -> Ids:
        """Take `num_pages` pages off the stack, or none: `OutOfPages` if there are fewer."""
        at = self._at
        if type(num_pages) is not int or not 0 <= num_pages <= self.size - at:
            num_pages = request(num_pages, self.size - at)
        self._at = end = at + num_pages
        return np.frombuffer(self._memory[at:end], _INT32)

    def alloc_to(self, row: memoryview) -> None:
        """Take as many pages as `row` is long and write them there: `alloc` with no array in between.

        `row` is a memoryview of int32, a piece of a page table's row. Raises `OutOfPages` as `alloc` does.

        >>> pool, row = TrustingPool(4), memoryview(array("i", [9, 9, 9]))
        >>> pool.alloc_to(row[1:]); row.tolist(), pool.num_free
        ([9, 0, 1], 2)
        """
        at, num_pages = self._at, len(row)
        if num_pages > self.size - at:
            raise OutOfPages(needed=num_pages, free=self.size - at)
        row[:] = memoryview(self._memory)[at : at + num_pages]
        self._at = at + num_pages

    def free(self, pages: Any) -> None:
        """Push `pages` back, so that the same `alloc` would give them again in the same order."""
        if type(pages) is memoryview and pages.format == "i" and pages.ndim == 1:
            view = pages
        else:
            view = (pages if _is_ids(pages) else page_ids(pages, self.size)).data
        at = self._at - len(view)
        if at < 0:
            raise ValueError(f"cannot free {len(view)} pages: only {self._at} of {self.size} are in use")
        memoryview(self._memory)[at : self._at] = view
        self._at = at

    def is_free(self, page: int) -> bool:
        """Whether `page` is free; looks through the whole stack."""
        return bool((self._stack == page_id(page, self.size)).any())

    def check(self) -> None:
        """The stack holds pages of this pool, each once."""
        stack = self._stack
        name = type(self).__name__
        if not 0 <= self._at <= self.size or (len(stack) and not 0 <= stack.min() <= stack.max() < self.size):
            raise InvariantError(f"{name}: {self.num_free} of {self.size} pages on the stack, or a page out of range")
        times = np.bincount(stack, minlength=self.size)
        if times.max(initial=0) > 1:
            page = int(times.argmax())
            raise InvariantError(f"{name}: page {page} is on the stack {times[page]} times")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_free} of {self.size} free)"


class FreeListPool(TrustingPool):
    """A stack of free pages that knows of every page whether it is free, and refuses what cannot be.

    `size` is the number of pages. `alloc` and `free` are vectorised and their cost does not depend on `size`.

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
        super().__init__(size)
        self._mark = np.zeros(self.size, np.int32)  # IN_USE, or for a free page any number >= 0

    def alloc(self, num_pages: int) -> Ids:
        """Take `num_pages` pages off the stack, or none: `OutOfPages` if there are fewer."""
        pages = super().alloc(num_pages)
        self._mark_used(pages)
        return pages

    def alloc_to(self, row: memoryview) -> None:
        """Take as many pages as `row` is long and write them there: `alloc` with no array in between."""
        super().alloc_to(row)
        self._mark_used(np.asarray(row, np.int32))  # a row may have gaps

    def _mark_used(self, pages: Ids) -> None:
        runs = _runs(pages)
        if runs is None:
            self._mark[pages.astype(np.intp)] = IN_USE
        else:
            for run in runs:
                self._mark[run] = IN_USE

    def free(self, pages: Any) -> None:
        """Push `pages` back, so that the same `alloc` would give them again in the same order; all or none."""
        if type(pages) is memoryview and pages.format == "i":
            pages = np.asarray(pages)
        ids = pages if _is_ids(pages) else page_ids(pages, self.size)
        runs = _runs(ids)
        if not (self._mark_runs_free(runs) if runs else self._mark_free(ids)):
            refuse_free(page_ids(pages, self.size), self.is_free)
        super().free(ids)

    def _mark_free(self, ids: Ids) -> bool:
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
        if mark.take(index).tobytes() != order.tobytes():  # somebody else wrote there: a page is given twice
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

    def is_free(self, page: int) -> bool:
        """Whether `page` is free."""
        return bool(self._mark[page_id(page, self.size)] != IN_USE)

    def check(self) -> None:
        """The stack holds every page marked free, once."""
        super().check()
        on_stack = np.bincount(self._stack, minlength=self.size)
        marked = self._mark != IN_USE
        for page in np.flatnonzero(marked != (on_stack > 0)).tolist():
            if marked[page]:
                raise InvariantError(f"FreeListPool: page {page} is marked free but the stack does not hold it")
            raise InvariantError(f"FreeListPool: page {page} is on the stack but marked in use")


def _is_ids(pages: Any) -> bool:
    """Whether `pages` are in the pools' own form, which needs no conversion."""
    return type(pages) is np.ndarray and pages.dtype is _INT32 and pages.ndim == 1


def _runs(ids: Ids) -> list[slice] | None:
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
