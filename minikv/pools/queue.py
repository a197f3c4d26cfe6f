"""The pool as a linked queue: the order in which pages were freed is the order in which they are reused."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from minikv.errors import InvariantError, require
from minikv.pools.contract import IN_USE, CountedPool, Pages, page_id, pages_to_free, request


class QueuePool(CountedPool):
    """A queue of free pages, linked in place: freed pages wait at the end, and any page can leave from the middle.

    Why not a `deque`: a page in the queue may still hold a cached prefix, and when somebody asks for that prefix,
    `occupy(page)` must pull it out, which a deque does in O(size). So the queue's order is an eviction order: free a
    request's pages last page first, and the end of its prefix is reused before the beginning. After vLLM's
    `FreeKVCacheBlockQueue`; here membership is checked, so a double free cannot bend the links.

    Twin: `minikv.engine.ch09_10_rows_and_blocks.FreeQueue`.

    >>> pool = QueuePool(4)
    >>> pages = pool.alloc(3); pool.free(pages[::-1]); list(pool)
    [3, 2, 1, 0]
    >>> pool.occupy(1); pool.alloc(3).tolist()
    [3, 2, 0]
    """

    def __init__(self, size: int):
        super().__init__(size)
        ring = array("i", np.arange(self.size + 1, dtype=np.int32).tobytes())
        # the last entry is the queue's own mark: its next is the head, its previous the tail
        self._next = ring[1:] + ring[:1]
        self._previous = ring[-1:] + ring[:-1]

    def alloc(self, num_pages: int) -> Pages:
        """Take `num_pages` pages from the head of the queue, or none (`OutOfPages`).

        Twin: `minikv.engine.ch09_10_rows_and_blocks.BlockPool.take`.
        """
        pages = np.empty(request(num_pages, self.num_free), np.int32)
        for i in range(len(pages)):
            pages[i] = head = self._next[self.size]
            self._unlink(head)
        return pages

    def occupy(self, page: int) -> None:
        """Take this page out of the queue, in O(1); `ValueError` if it is in use.

        Twin: `minikv.engine.ch09_10_rows_and_blocks.BlockPool.touch`.
        """
        self._unlink(self._free_page(page))

    def free(self, pages: Any) -> None:
        """Append pages to the end of the queue in the given order, all or none.

        Twin: `minikv.engine.ch09_10_rows_and_blocks.give_back`.
        """
        numbers = pages_to_free(pages, self.size, self.is_free)
        mark = self.size
        for page in numbers:
            tail = self._previous[mark]
            self._next[tail], self._previous[page] = page, tail
            self._next[page], self._previous[mark] = mark, page
        self.num_free += len(numbers)

    def is_free(self, page: int) -> bool:
        """Return whether `page` is in the queue.

        Twin: `minikv.engine.ch09_10_rows_and_blocks.BlockPool.is_free`.
        """
        return bool(self._next[page_id(page, self.size)] != IN_USE)

    def __iter__(self) -> Iterator[int]:
        """The free pages in the order in which `alloc` would hand them out."""
        page = self._next[self.size]
        while page != self.size:
            page, here = self._next[page], page  # the caller may take the page that it was given
            yield here

    def check(self) -> None:
        """Walking forward visits `num_free` pages, each linked back to the one before it."""
        before = self.size
        seen = 0
        while (page := self._next[before]) != self.size:
            inside = 0 <= page < self.size
            if not inside or self._previous[page] != before:  # in a loop, some page is reached from two others
                why = f"whose previous page is {self._previous[page]}" if inside else "which is out of range"
                raise InvariantError(f"QueuePool: after page {before} comes {page}, {why}")
            before = page
            seen += 1
        tail, linked = self._previous[self.size], self.size - self._next.count(IN_USE)
        require(tail == before, f"QueuePool: the queue ends with page {before}, but its tail is page {tail}")
        require(seen == linked, f"QueuePool: {seen} pages are in the queue, but {linked} have a next page")
        require(seen == self.num_free, f"QueuePool: {seen} pages are in the queue, but num_free is {self.num_free}")

    def _unlink(self, page: int) -> None:
        before, after = self._previous[page], self._next[page]
        self._next[before], self._previous[after] = after, before
        self._next[page] = self._previous[page] = IN_USE
        self.num_free -= 1
