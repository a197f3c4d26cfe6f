"""A pool of pages that takes memory only for pages that were used."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from minikv.errors import InvariantError, whole_number
from minikv.pools.contract import NO_PAGES, PAGE_LIMIT, Pages, page_id, pages_to_free, request


class GrowingPool:
    """A stack of returned pages, and behind it pages that are made when the stack is empty, lowest number first.

    `size` is the number of pages, at most 2**31. It keeps the promises of `SlotPool`; its memory follows the largest
    number of pages that were in use at once.

    >>> pool = GrowingPool(2**31)
    >>> pages = pool.alloc(3); pool.free(pages[1:]); pool.alloc(3).tolist(), pool
    ([1, 2, 3], GrowingPool(2147483644 of 2147483648 free))
    """

    def __init__(self, size: int):
        self.size = whole_number("size", size, 1, "a pool holds at least 1 page")
        if self.size > PAGE_LIMIT:
            raise ValueError(f"size is {self.size}: a page is an integer in [0, 2**31)")
        self._returned = array("i")  # the next page to hand out is the last
        self._in_use = bytearray()  # one byte for each page that was made: 1 or 0

    @property
    def num_free(self) -> int:
        """Pages that `alloc` could give now."""
        return self.size - len(self._in_use) + len(self._returned)

    def alloc(self, num_pages: int) -> Pages:
        """Take `num_pages` pages, or none: `OutOfPages` if there are fewer."""
        count = request(num_pages, self.num_free)
        keep, made = max(0, len(self._returned) - count), len(self._in_use)
        pages = self._returned[keep:][::-1]
        del self._returned[keep:]
        for page in pages:
            self._in_use[page] = 1
        fresh = count - len(pages)
        pages.extend(range(made, made + fresh))
        self._in_use.extend(b"\1" * fresh)
        return np.array(pages, np.int32)

    def alloc_to(self, row: memoryview) -> None:
        """Take as many pages as `row`, a memoryview of int32, is long, and write them there, or none: `OutOfPages`."""
        row[:0] = NO_PAGES  # refuses a row of another kind before a page is taken
        row[:] = self.alloc(len(row)).data

    def free(self, pages: Any) -> None:
        """Give pages back, so that the same `alloc` would give them again in the same order; all or none."""
        numbers = pages_to_free(pages, self.size, self.is_free)
        for page in numbers:
            self._in_use[page] = 0
        self._returned.extend(reversed(numbers))

    def is_free(self, page: int) -> bool:
        """Whether `page` is free."""
        number = page_id(page, self.size)
        return number >= len(self._in_use) or not self._in_use[number]

    def check(self) -> None:
        """The stack holds every page that was made and is not in use, once."""
        on_stack = sorted(self._returned)
        free = [page for page, used in enumerate(self._in_use) if not used]
        if on_stack != free or len(self._in_use) > self.size:
            raise InvariantError(f"GrowingPool: {len(on_stack)} pages are on the stack, {len(free)} are marked free")

    def __repr__(self) -> str:
        return f"GrowingPool({self.num_free} of {self.size} free)"
