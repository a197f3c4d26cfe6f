"""A sequence: one request while it runs, and which pages its tokens lie in.

    tokens   [0, shared)         in the tree's pages: read, locked, never freed by us
             [.., computed)      in our own pages, keys and values are there
             [.., length)        in our own pages, nothing computed into them yet
    row      one page after the other; the last page may have room to spare, and so may the row's memory

`shared` is a whole number of pages, so no page is half the tree's and half ours. The row is int32 memory that is
written in place, and grows by half of itself: a generated token costs the same after 100 tokens and after 100,000.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from minikv.pools import Pages, page_slots
from minikv.prefix.contract import Handle
from minikv.tokens import TOKEN_BYTES, PackedTokens

RUNNING, FINISHED, ABORTED = "running", "finished", "aborted"
NO_ROW = np.empty(0, np.int32), np.empty((0, 1), np.int32)  # the memory of an empty row: pages, and their slots


class Sequence:
    """A running request: its `tokens`, the row of `pages` that holds them, and how much of it is cached and computed.

    A `CacheManager` makes it and is the only one to change it. `number` counts the sequences of one manager from 1.
    `cached_length` tokens were found in the cache at the start, `loaded` of them in host memory, and `computed` tokens
    have keys and values by now, from the first on. `shared` tokens lie in pages that the cache owns; the pages after
    them are the sequence's own. `state` is "running", "finished" or "aborted"; a sequence that is over has no pages.

    Twin: `minikv.engine.ch06_07_manager.Sequence`.

    >>> from minikv import CacheManager
    >>> sequence = CacheManager(num_pages=8).start([5, 6, 7]); sequence
    Sequence(1, running, 3 tokens, cached=0, computed=0)
    >>> sequence.slots.tolist()
    [0, 1, 2]
    """

    page_size: int
    _row: Pages
    _slots: Pages
    state = RUNNING
    cached_length = computed = shared = loaded = 0
    _manager: Any = None  # while it runs
    _handle: Handle | None = None  # locked: it protects [0, shared)
    _first_own = 0  # its own pages begin here in the row: after `shared`, or after the part being published
    _num_expanded = 0  # pages of the row whose slots are in `_slots`; pages of 1 token need none
    _num_pages = 0  # in the row
    _windows_from = 0  # the first token whose window page a `WindowedManager` has not given back
    _stops: list[int] | tuple[()] = ()  # where a `LayeredManager` wants a state
    _state: int | None = None  # the slot of the state from which it continues
    _generated: bytes | bytearray = b""  # the tokens after the prompt

    def __init__(self, manager: Any, prompt: PackedTokens, namespace: Hashable):
        self.number, self.namespace, self.page_size = manager._started + 1, namespace, manager.page_size
        self._tokens: PackedTokens | None = prompt  # all of them, until another is appended
        self._prompt = prompt
        self.length = len(prompt.data) // TOKEN_BYTES
        self._row, self._slots = manager._rows.pop() if manager._rows else NO_ROW  # memory that an earlier row had
        self._every_slot = manager._every_slot  # of the whole pool, page by page; empty for a huge pool

    @property
    def tokens(self) -> PackedTokens:
        """All tokens: the prompt's and those after it."""
        if self._tokens is None:
            self._tokens = self._prompt.followed_by(self._generated)
        return self._tokens

    @property
    def pages(self) -> Pages:
        """The page of each run of `page_size` tokens, int32, in order: the caller's own copy."""
        return self._row[: self._num_pages].copy()

    @property
    def slots(self) -> Pages:
        """The slot of each token, int32, in order: the caller's own copy."""
        return self._slots_of(min(self.length, self._num_pages * self.page_size)).copy()

    @property
    def owned(self) -> Pages:
        """Every slot of its own pages, including those after the last token. No other sequence may have them."""
        return page_slots(self.pages[self._first_own :], self.page_size)

    def next_chunk(self, num_tokens: int) -> tuple[PackedTokens, Pages]:
        """The next `num_tokens` tokens to compute, and the slots of all tokens up to their end.

        The slots are a view, for reading, until the sequence changes: it costs the same however long the sequence is.

        >>> from minikv import CacheManager
        >>> sequence = CacheManager(num_pages=8).start([5, 6, 7, 8])
        >>> tokens, slots = sequence.next_chunk(2); tokens, slots.tolist()
        (PackedTokens([5, 6]), [0, 1])
        """
        end = self.computed + num_tokens
        slots = self._slots_of(end)
        slots.setflags(False)  # type: ignore[call-arg]  # by place: half the time of `write=False`
        return PackedTokens(self._packed(self.computed, end)), slots

    def _packed(self, begin: int, end: int) -> bytes:
        """The tokens [begin, end), packed."""
        prompt = self._prompt.data
        first, last = begin * TOKEN_BYTES, end * TOKEN_BYTES
        more = last - len(prompt)
        if more <= 0:
            return prompt[first:last]
        return prompt[first:] + self._generated[max(0, first - len(prompt)) : more]

    @property
    def next_stop(self) -> int:
        """Where the next chunk should end, at the latest: `length`, or before that, where a state is to be kept."""
        stops = [stop for stop in self._stops if stop > self.computed] if self._stops else ()
        return min(stops, default=self.length)

    @property
    def publishable(self) -> int:
        """Return how many tokens, from the first on, the cache could have by now: the whole pages that are computed."""
        return self.computed // self.page_size * self.page_size

    def _slots_of(self, length: int) -> Pages:
        """The slots of the first `length` tokens; those of each page are worked out once."""
        if self.page_size == 1:
            return self._row[:length]
        num_pages, first = min(-(-length // self.page_size), self._num_pages), self._num_expanded
        if num_pages > first:
            pages, slots = self._row[first:num_pages], self._slots[first:num_pages]
            if len(self._every_slot):
                self._every_slot.take(pages, 0, slots, "clip")
            else:
                slots[:] = page_slots(pages, self.page_size).reshape(-1, self.page_size)
            self._num_expanded = num_pages
        return self._slots.reshape(-1)[:length]

    def _reserve(self, num_pages: int) -> Pages:
        """Give the row memory for `num_pages` pages, which are more than it has room for, and some more."""
        many = num_pages + num_pages // 2
        row = np.empty(many, np.int32)
        row[: len(self._row)] = self._row
        self._slots = np.empty((many if self.page_size > 1 else 0, self.page_size), np.int32)
        self._row, self._num_expanded = row, 0
        return row

    def _cut(self, length: int) -> Pages:
        """Only the first `length` tokens stay; the pages after them, which the row no longer has."""
        keep = len(self._prompt) * TOKEN_BYTES
        self._prompt = self._prompt[:length]
        self._generated = self._generated[: max(0, length * TOKEN_BYTES - keep)]
        self._tokens, self.length, self.computed = None, length, min(self.computed, length)
        end, self._num_pages = self._num_pages, -(-length // self.page_size)
        self._num_expanded = min(self._num_expanded, self._num_pages)
        return self._row[self._num_pages : end].copy()

    def __repr__(self) -> str:
        progress = f"{self.length} tokens, cached={self.cached_length}, computed={self.computed}"
        return f"Sequence({self.number}, {self.state}, {progress})"
