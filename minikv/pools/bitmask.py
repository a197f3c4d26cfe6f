"""The pool as a bitmask with versions: a free page that still holds its content can be taken back."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from minikv.errors import InvariantError, bounded, require
from minikv.pools.contract import CountedPool, Pages, page_id, pages_to_free, request

_BITS = 64  # pages in a word


class BitmaskPool(CountedPool):
    """A bit for each page, and a version that counts how often the page was handed out.

    A caller that remembers `(page, version(page))` can tell later whether the page still holds what it held. `occupy`
    takes a particular page back, for reusing what is still in it: without a new version, or with one where its content
    is going to change. The lowest free page goes first. Words of 64 bits carry the bits, and a word of the next level
    says which words have any: O(log64 size) per page, where one long integer costs O(size). After AstrAI's
    `SlotAllocator`.

    >>> pool = BitmaskPool(100)
    >>> pool.alloc(2).tolist(), pool.version(1)
    ([0, 1], 1)
    >>> pool.free([1]); pool.occupy(1); pool.version(1)     # the same content, taken again
    1
    >>> pool.free([1]); pool.alloc(1).tolist(), pool.version(1)     # handed out again
    ([1], 2)
    """

    def __init__(self, size: int):
        super().__init__(size)
        self._versions = array("q", bytes(8 * self.size))
        # the first level has the pages' bits, each level above a bit for each word
        self._levels = _levels(_all_free(self.size))

    def alloc(self, num_pages: int) -> Pages:
        """Take the `num_pages` lowest free pages, or none (`OutOfPages`), and count their versions up.

        Twin: `minikv.engine.ch01_02_pool.alloc`.
        """
        pages = np.empty(request(num_pages, self.num_free), np.int32)
        for i in range(len(pages)):
            page = 0
            for words in reversed(self._levels):
                word = words[page]
                page = page * _BITS + (word & -word).bit_length() - 1  # the number of its lowest bit
            self._flip(page)
            self._versions[page] += 1
            pages[i] = page
        self.num_free -= len(pages)
        return pages

    def occupy(self, page: int, renew: bool = False) -> None:
        """Take this page, keeping its version, or counting it up with `renew`; `ValueError` if it is in use."""
        self._flip(self._free_page(page))
        self.num_free -= 1
        self._versions[page] += bool(renew)

    def free(self, pages: Any) -> None:
        """Give pages back, all or none; their versions stay until they are handed out again.

        Twin: `minikv.engine.ch01_02_pool.free`.
        """
        numbers = pages_to_free(pages, self.size, self.is_free)
        for page in numbers:
            self._flip(page)
        self.num_free += len(numbers)

    def is_free(self, page: int) -> bool:
        """Return whether `page` is free. Twin: `minikv.engine.ch01_02_pool.Pool.is_free`."""
        word, bit = divmod(page_id(page, self.size), _BITS)
        return bool(self._levels[0][word] >> bit & 1)

    def version(self, page: int) -> int:
        """Return how often `page` has been handed out again: by `alloc`, or by `occupy` with `renew`."""
        return self._versions[page_id(page, self.size)]

    def check(self) -> None:
        """Every level has a bit for each word of the one below that has any, and no others; the count is correct."""
        full = _all_free(self.size)
        found, expected = ([len(words) for words in levels] for levels in (self._levels, _levels(full)))
        require(found == expected, f"BitmaskPool: its levels have {bounded(found)} words: expected {expected}")
        right = _levels([word & pages for word, pages in zip(self._levels[0], full)])
        for level, both in enumerate(zip(self._levels, right)):
            for word, (bits, wanted) in enumerate(zip(*both)):
                if bits != wanted:
                    raise InvariantError(
                        f"BitmaskPool: word {word} of level {level} is {bits:#x}: expected {wanted:#x}"
                    )
        free = sum(word.bit_count() for word in self._levels[0])
        require(free == self.num_free, f"BitmaskPool: {free} bits are set, but num_free is {self.num_free}")

    def _flip(self, page: int) -> None:
        """Flip the bit of a page, and the bit above each word that becomes empty or is no longer empty."""
        for words in self._levels:
            page, bit = divmod(page, _BITS)
            before = words[page]
            words[page] ^= 1 << bit
            if before and words[page]:
                break


def _all_free(size: int) -> list[int]:
    """The words of `size` pages that are all free: a bit for each page, and no bit past the last."""
    return [(1 << min(_BITS, size - first)) - 1 for first in range(0, size, _BITS)]


def _levels(words: list[int]) -> list[list[int]]:
    """`words` and the levels above: a bit for each word of the level below that has any, up to a single word.

    >>> _levels([7, 0, 1])
    [[7, 0, 1], [5]]
    """
    if len(words) == 1:
        return [words]
    above = [0] * -(-len(words) // _BITS)
    for at, word in enumerate(words):
        above[at // _BITS] |= bool(word) << at % _BITS
    return [words, *_levels(above)]
