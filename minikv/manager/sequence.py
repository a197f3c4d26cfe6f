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
_NO_PAGES, _NO_SLOTS = np.empty(0, np.int32), np.empty((0, 1), np.int32)


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

    state = RUNNING
    cached_length = computed = shared = loaded = 0
    _manager: Any = None  # while it runs
    _handle: Handle | None = None  # locked: it protects [0, shared)
    _first_own = 0  # its own pages begin here in the row: after `shared`, or after the part being published
    _slots = _NO_SLOTS  # of the first pages of the row; for pages of one token the row says it all
    _num_expanded = 0  # how many they are
    _num_pages = 0  # in the row
    _generated: bytes | bytearray = b""  # the tokens after the prompt

    def __init__(
        self,
        number: int,
        prompt: PackedTokens,
        namespace: Hashable,
        page_size: int,
        rows: list[Pages],
        every_slot: Pages = _NO_SLOTS,
    ):
        self.number, self.namespace, self.page_size = number, namespace, page_size
        self._tokens: PackedTokens | None = prompt  # all of them, until another is appended
        self._prompt = prompt
        self.length = length = len(prompt.data) // TOKEN_BYTES
        num_pages = -(-length // page_size)
        row = rows.pop() if rows else _NO_PAGES  # memory that an earlier request left
        if len(row) < num_pages:
            row = np.empty(num_pages + num_pages // 8 + 8, np.int32)
        self._row = row
        self._every_slot = every_slot  # page by page, of the whole pool; of a huge pool none

    @property
    def tokens(self) -> PackedTokens:
        """All tokens: the prompt's and those after it."""
        if self._tokens is None:
            self._tokens = PackedTokens(self._prompt.data + self._generated)
            self._tokens.head = self._prompt.data
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
        slots = self._row[:end] if self.page_size == 1 else self._slots_of(end)
        slots.setflags(write=False)
        begin_byte, end_byte, prompt = self.computed * TOKEN_BYTES, end * TOKEN_BYTES, self._prompt.data
        if begin_byte >= len(prompt):
            data = bytes(self._generated[begin_byte - len(prompt) : end_byte - len(prompt)])
        else:
            data = (prompt if end_byte <= len(prompt) else self.tokens.data)[begin_byte:end_byte]
        return PackedTokens(data), slots

    @property
    def publishable(self) -> int:
        """Return how many tokens, from the first on, the cache could have by now: the whole pages that are computed."""
        return self.computed // self.page_size * self.page_size

    def _slots_of(self, length: int) -> Pages:
        """The slots of the first `length` tokens; those of each page are worked out once."""
        if self.page_size == 1:
            return self._row[:length]
        num_pages = -(-length // self.page_size)
        if num_pages > self._num_expanded:
            self._expand(num_pages)
        return self._slots.reshape(-1)[:length]

    def _expand(self, num_pages: int) -> None:
        """Work out the slots of the row's first `num_pages` pages."""
        row, first = self._row, self._num_expanded
        if num_pages > len(self._slots):  # for all of the row's memory, so that this is rare
            longer = np.empty((len(row), self.page_size), np.int32)
            longer[:first] = self._slots[:first]
            self._slots = longer
        if len(self._every_slot):
            self._every_slot.take(row[first:num_pages], 0, self._slots[first:num_pages], "clip")
        else:
            slots = page_slots(row[first:num_pages], self.page_size)
            self._slots[first:num_pages] = slots.reshape(-1, self.page_size)
        self._num_expanded = num_pages

    def _reserve(self, num_pages: int) -> None:
        """Make the row's memory hold `num_pages` pages, which are more than it holds."""
        longer = np.empty(num_pages + num_pages // 2, np.int32)
        longer[: len(self._row)] = self._row
        self._row = longer

    def _read(self, length: int, handle: Handle) -> None:
        """The first `length` tokens lie in pages of the cache, which `handle` protects."""
        self.shared, self._handle, self._first_own = length, handle, length // self.page_size
        self._num_expanded = 0  # its pages may be others than before

    def _append(self, tokens: bytes, num_pages: int) -> None:
        """Append packed `tokens`, in a row that now has `num_pages` pages."""
        if self._generated:
            self._generated += tokens
        else:
            self._generated = bytearray(tokens)
        self._tokens = None
        self.length += len(tokens) // TOKEN_BYTES
        self._num_pages = num_pages

    def _cut(self, length: int) -> Pages:
        """Only the first `length` tokens stay; the pages after them, which the row no longer has."""
        keep = len(self._prompt) * TOKEN_BYTES
        self._prompt = self._prompt[:length]
        self._generated = bytearray(self._generated[: max(0, length * TOKEN_BYTES - keep)])
        self._tokens, self.length, self.computed = None, length, min(self.computed, length)
        end, self._num_pages = self._num_pages, -(-length // self.page_size)
        self._num_expanded = min(self._num_expanded, self._num_pages)
        return self._row[self._num_pages : end].copy()

    def _end(self, state: str) -> None:
        """Hold nothing from now on."""
        self._manager = self._handle = None
        self._row, self._num_pages, self.state = _NO_PAGES, 0, state
        self._slots = _NO_SLOTS

    def __repr__(self) -> str:
        progress = f"{self.length} tokens, cached={self.cached_length}, computed={self.computed}"
        return f"Sequence({self.number}, {self.state}, {progress})"
