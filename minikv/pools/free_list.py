"""The pool as a stack: what a serving engine wants when nothing cached lives in a free page."""

from __future__ import annotations

from typing import Any

import numpy as np

from minikv.errors import InvariantError
from minikv.pools.contract import IN_USE, Ids, page_id, page_ids, pool_size, refuse_free, request


class FreeListPool:
    """A stack of free pages: both ends of a page's life are O(1), and a page freed last is reused first.

    `size` is the number of pages. `alloc` and `free` are vectorised and their cost does not depend on `size`.
    After the free lists of SGLang and mini-sglang, which slice and concatenate a tensor instead, so that theirs does.

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
        self._stack = np.arange(self.size - 1, -1, -1, dtype=np.int32)  # free pages: _stack[:_top], next one last
        self._top = self.size
        self._mark = np.zeros(self.size, np.int32)  # IN_USE, or for a free page any number >= 0

    @property
    def num_free(self) -> int:
        """Pages that `alloc` could give now."""
        return self._top

    def alloc(self, num_pages: int) -> Ids:
        """Take `num_pages` pages off the stack, or none: `OutOfPages` if there are fewer."""
        count = request(num_pages, self._top)
        top = self._top - count
        pages = self._stack[top : self._top][::-1].copy()
        self._mark[pages] = IN_USE
        self._top = top
        return pages

    def free(self, pages: Any) -> None:
        """Push `pages` back, so that the same `alloc` would give them again in the same order."""
        ids = page_ids(pages, self.size)
        if (self._mark[ids] != IN_USE).any():
            refuse_free(ids, self.is_free)
        order = np.arange(len(ids), dtype=np.int32)
        self._mark[ids] = order
        if (self._mark[ids] != order).any():  # somebody else wrote there: a page is in `ids` twice
            self._mark[ids] = IN_USE
            refuse_free(ids, self.is_free)
        self._stack[self._top : self._top + len(ids)] = ids[::-1]
        self._top += len(ids)

    def is_free(self, page: int) -> bool:
        """Whether `page` is free."""
        return bool(self._mark[page_id(page, self.size)] != IN_USE)

    def check(self) -> None:
        """The stack holds every page marked free, once."""
        stack = self._stack[: self._top]
        if not 0 <= self._top <= self.size or (len(stack) and not 0 <= stack.min() <= stack.max() < self.size):
            raise InvariantError(f"FreeListPool: {self._top} of {self.size} pages on the stack, or a page out of range")
        on_stack = np.bincount(self._stack[: self._top], minlength=self.size)
        for page in range(self.size):
            marked = bool(self._mark[page] != IN_USE)
            if on_stack[page] > 1:
                raise InvariantError(f"FreeListPool: page {page} is on the stack {on_stack[page]} times")
            if marked and not on_stack[page]:
                raise InvariantError(f"FreeListPool: page {page} is marked free but the stack does not hold it")
            if on_stack[page] and not marked:
                raise InvariantError(f"FreeListPool: page {page} is on the stack but marked in use")

    def __repr__(self) -> str:
        return f"FreeListPool({self.num_free} of {self.size} free)"
