"""A sequence: one request while it runs, and which slots its tokens lie in.

    tokens   [0, shared)         the tree's slots: read, locked, never freed by us
             [.., computed)      our own pages, keys and values are in them
             [.., len(tokens))   our own pages, nothing computed into them yet
    row      slots[i] is the slot of token i, for every token; the last page may have room to spare

`shared` is a whole number of pages, so no page is half the tree's and half ours.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from minikv.pools import page_slots
from minikv.pools.contract import Ids
from minikv.prefix.contract import Handle
from minikv.tokens import PackedTokens

RUNNING, FINISHED, ABORTED = "running", "finished", "aborted"


class Sequence:
    """A running request: its `tokens`, the row of `slots` that holds them, and how much of it is cached and computed.

    A `CacheManager` makes it and is the only one to change it. `number` counts the sequences of one manager from 1.
    `cached_length` tokens were found in the cache at the start, and `computed` tokens have keys and values by now, from
    the first on. `shared` tokens lie in slots that the cache owns; the pages behind them are the sequence's own.
    `state` is "running", "finished" or "aborted"; a sequence that is over has no slots.

    >>> from minikv import CacheManager
    >>> sequence = CacheManager(num_pages=8).start([5, 6, 7]); sequence
    Sequence(1, running, 3 tokens, cached=0, computed=0)
    >>> sequence.slots.tolist()
    [0, 1, 2]
    """

    def __init__(self, number: int, tokens: PackedTokens, namespace: Hashable, page_size: int):
        self.number, self.tokens, self.namespace, self.page_size = number, tokens, namespace, page_size
        self.cached_length = self.computed = self.shared = 0
        self.state = RUNNING
        self._handle: Handle | None = None  # locked: it protects [0, shared)
        self._pages: Ids = np.empty(0, np.int32)  # our own, in the order of the row
        self._row: Ids = np.empty(0, np.int32)  # the slots of whole pages, never written in place

    @property
    def slots(self) -> Ids:
        """The slot of each token, int32, in order: the caller's own copy."""
        return self._row[: len(self.tokens)].copy()

    @property
    def pages(self) -> Ids:
        """The pages that are the sequence's own, int32, in the order of the row."""
        return self._pages.copy()

    @property
    def owned(self) -> Ids:
        """Every slot of its own pages, those behind the last token too: what nobody else may have."""
        return page_slots(self._pages, self.page_size)

    @property
    def to_compute(self) -> PackedTokens:
        """The tokens that have no keys and values yet."""
        return self.tokens[self.computed :]

    @property
    def publishable(self) -> int:
        """How many tokens, from the first on, the cache could have by now: the whole pages that are computed."""
        return self.computed // self.page_size * self.page_size

    def _read_from(self, slots: Ids, handle: Handle) -> None:
        """The first tokens lie in `slots` of the cache, which `handle` protects."""
        self._row = np.concatenate([slots, self._row[len(slots) :]])
        self.shared, self._handle = len(slots), handle

    def _grow(self, pages: Ids) -> None:
        """`pages` are ours from now on, behind all that the row has."""
        row = np.concatenate([self._row, page_slots(pages, self.page_size)])
        self._pages, self._row = np.concatenate([self._pages, pages]), row

    def _end(self, state: str) -> tuple[Ids, Handle | None]:
        """Hold nothing from now on; the pages and the lock that were held."""
        pages, handle = self._pages, self._handle
        self._pages, self._handle, self._row, self.state = pages[:0], None, self._row[:0], state
        return pages, handle

    def __repr__(self) -> str:
        progress = f"{len(self.tokens)} tokens, cached={self.cached_length}, computed={self.computed}"
        return f"Sequence({self.number}, {self.state}, {progress})"
