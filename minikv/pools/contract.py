"""The contract of every pool, and the checks that all of them make before they change anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from minikv.errors import OutOfPages, bounded, whole_number
from minikv.tokens import integers

Pages = npt.NDArray[np.int32]
PAGE_LIMIT = 2**31  # a page is an int32
POOL_LIMIT = 2**28  # a pool keeps one or two int32 for each page: at this size about 2 GiB
INT32 = np.dtype(np.int32).char  # what a memoryview of numpy's calls it: "l" on Windows and in a browser
INT32_CODES = {"i", INT32}
NO_PAGES = np.empty(0, np.int32).data
IN_USE = -1  # marks a page that is not free in a pool's own arrays; never handed out


class SlotPool(Protocol):
    """The contract of every pool; each promise has a test in `tests/test_pools.py`. Our own pools inherit from it."""

    size: int

    @property
    def num_free(self) -> int:
        """Pages that `alloc` could give now."""

    def alloc(self, num_pages: int) -> Pages:
        """Take `num_pages` free pages, or none: `OutOfPages` if there are fewer."""

    def alloc_to(self, row: memoryview) -> None:
        """Take as many pages as `row`, a memoryview of int32, is long, and write them there, or none: `OutOfPages`."""
        row[:0] = NO_PAGES  # refuses a row of another kind before a page is taken
        row[:] = self.alloc(len(row)).data

    def free(self, pages: Any) -> None:
        """Give pages back, all or none: `ValueError` for a page that is already free, foreign, or given twice."""

    def is_free(self, page: int) -> bool:
        """Return whether `page` is free."""

    def check(self) -> None:
        """Recompute everything from scratch; raise `InvariantError` on the first difference."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_free} of {self.size} free)"


def pool_size(size: int) -> int:
    """`size` as an int from 1 to 2**28, or the error that says so."""
    return whole_number("size", size, 1, "a pool holds 1 to 2**28 pages", POOL_LIMIT + 1)


def request(num_pages: int, free: int) -> int:
    """`num_pages` as an int, or `OutOfPages` when only `free` are there."""
    if type(num_pages) is int and 0 <= num_pages <= free:  # the common case costs nothing
        return num_pages
    count = whole_number("num_pages", num_pages, 0, "alloc takes 0 pages or more")
    if count > free:
        raise OutOfPages(needed=count, free=free)
    return count


def page_id(page: int, size: int) -> int:
    """`page` as an int in [0, size), or the error that names it."""
    return whole_number("page", page, 0, f"this pool has pages 0 to {size - 1}", size)


def page_ids(pages: Any, size: int) -> Pages:
    """`pages` as an int32 array of ids in [0, size), or the error that names the first foreign one.

    >>> page_ids([3, 4], 4)
    Traceback (most recent call last):
    ValueError: pages[1] is 4: this pool has pages 0 to 3
    """
    return integers(pages, "pages", f"this pool has pages 0 to {size - 1}", size).astype(np.int32, copy=False)


def pages_to_free(pages: Any, size: int, is_free: Callable[[int], bool]) -> list[int]:
    """`pages` as ints, each in use and given once, or the error that names the first that is not.

    Twin: `minikv.engine.ch01_02_pool.guard`.

    >>> pages_to_free([1, 2], 4, is_free=lambda page: page == 2)
    Traceback (most recent call last):
    ValueError: cannot free pages[1]: page 2 is already free
    """
    numbers: list[int] = page_ids(pages, size).tolist()
    seen: set[int] = set()
    for i, page in enumerate(numbers):
        if page in seen or is_free(page):
            why = "given twice" if page in seen else "already free"
            raise ValueError(f"cannot free pages[{i}]: page {page} is {why}")
        seen.add(page)
    return numbers


class CountedPool(SlotPool):
    """The shared part of the pools that go from page to page: they count their free pages, and give any of them.

    >>> from minikv import QueuePool
    >>> pool = QueuePool(4)
    >>> pool.occupy(3); pool
    QueuePool(3 of 4 free)
    >>> pool.occupy(3)
    Traceback (most recent call last):
    ValueError: cannot occupy page 3: it is in use
    """

    num_free: int = 0  # pages that `alloc` could give now

    def __init__(self, size: int):
        self.size = self.num_free = pool_size(size)

    def _free_page(self, page: int) -> int:
        """`page` as an int, or the `ValueError` that says that it is in use."""
        if not self.is_free(page):
            raise ValueError(f"cannot occupy page {page}: it is in use")
        return int(page)


def require_slots(num_pages: int, page_size: int) -> None:
    """Raise `ValueError` when there are more slots than an int32 can number.

    >>> require_slots(num_pages=2**12, page_size=2**20)
    Traceback (most recent call last):
    ValueError: 4096 pages of 1048576 are 4294967296 slots: a slot is an integer in [0, 2**31)
    """
    if num_pages * page_size > PAGE_LIMIT:
        pages, slots = bounded(num_pages), bounded(num_pages * page_size)
        raise ValueError(f"{pages} pages of {bounded(page_size)} are {slots} slots: a slot is an integer in [0, 2**31)")
