"""Many chunks as one batch: all their tokens packed in one row, and for attention a few rectangles.

Everything in a decoder but attention looks at one token at a time, so the tokens of all chunks run through it in one
long row. Attention looks back along each sequence, and sequences differ in length: chunks that compute equally many
tokens and look back about equally far share a rectangle, in which the shorter ones are padded and masked. "About" is
within a factor of two, so that one long conversation does not make a hundred short ones look back as far.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch

from minikv.errors import whole_number
from minikv.serving.contract import Chunk
from minikv.tokens import integers


class Rectangle(NamedTuple):
    """Chunks whose attention is computed together: `size` chunks of `width` new tokens, padded to `length` slots.

    `rows` are their tokens in the packed row, one chunk after the other. `slots` has size x length entries; a shorter
    sequence repeats its last slot. `mask` is 0 where token i of a chunk may look at slot j, and -inf elsewhere:
    (size, 1, heads to a KV head x width, length).
    """

    size: int
    width: int
    length: int
    rows: slice
    slots: Any
    mask: torch.Tensor


class _Row(NamedTuple):
    """One chunk, checked: its tokens and all slots of its sequence, as arrays."""

    tokens: Any
    slots: Any

    @property
    def start(self) -> int:
        return len(self.slots) - len(self.tokens)

    @property
    def shape(self) -> tuple[int, int]:
        """Chunks of equal shape share a rectangle: equally many new tokens, and lengths within a factor of two."""
        return len(self.tokens), len(self.slots).bit_length()


class Batch:
    """What one forward step needs to know about its chunks, once for all layers.

    The packed row has the chunks of a rectangle side by side. `tokens` and `positions` are int64 tensors, one number
    for each new token, and `slots`, a numpy array, is where their K and V go. `last` is the row of each chunk's last
    token, `order` the rows of all tokens, both in the order in which the chunks were given. `TypeError` and
    `ValueError` name the chunk and what is wrong with it.

    >>> import torch
    >>> batch = Batch([Chunk([1, 2], 0, [8, 9]), Chunk([7], 2, [5, 3, 4])], vocab_size=10, like=torch.zeros(1))
    >>> batch.tokens.tolist(), batch.positions.tolist(), batch.slots.tolist(), batch.last.tolist()
    ([7, 1, 2], [2, 0, 1], [4, 8, 9], [2, 0])
    """

    def __init__(self, chunks: Sequence[Chunk], vocab_size: int, like: torch.Tensor, group: int = 1):
        given = [_checked(i, chunk, vocab_size) for i, chunk in enumerate(chunks)]
        if not given:
            raise ValueError("there are no chunks: a forward step computes at least 1")
        self._like, self._group = like, group
        order = sorted(range(len(given)), key=lambda i: given[i].shape)  # stable: equal shapes keep their order
        packed = [given[i] for i in order]
        ends = np.cumsum([len(row.tokens) for row in packed])
        self.slots = np.concatenate([row.slots[row.start :] for row in packed])
        if len(np.unique(self.slots)) < len(self.slots):
            raise ValueError(f"two of the {len(self.slots)} new tokens have the same slot: each needs one of its own")
        self.tokens = self._ids(np.concatenate([row.tokens for row in packed]))
        self.positions = self._ids(np.concatenate([np.arange(row.start, len(row.slots)) for row in packed]))
        end = dict(zip(order, ends.tolist()))
        self.last = self._ids(np.array([end[i] - 1 for i in range(len(given))]))
        rows = [np.arange(end[i] - len(row.tokens), end[i]) for i, row in enumerate(given)]
        self.order = self._ids(np.concatenate(rows))
        self.rectangles: list[Rectangle] = []
        for _, alike in groupby(packed, key=lambda row: row.shape):
            self.rectangles.append(self._rectangle([*alike]))

    def _ids(self, ids: Any) -> torch.Tensor:
        return torch.from_numpy(ids.astype(np.int64)).to(self._like.device)

    def _rectangle(self, rows: list[_Row]) -> Rectangle:
        """The next rectangle: `rows`, of equal width, padded to the longest."""
        first = self.rectangles[-1].rows.stop if self.rectangles else 0
        size, width, length = len(rows), len(rows[0].tokens), max(len(row.slots) for row in rows)
        slots = np.empty((size, length), np.int64)
        for i, row in enumerate(rows):
            slots[i, : len(row.slots)] = row.slots
            slots[i, len(row.slots) :] = row.slots[-1]
        sees = np.array([row.start for row in rows])[:, None] + np.arange(width)  # the last slot that token i sees
        hidden = torch.from_numpy(np.arange(length) > sees[:, :, None]).to(self._like.device)
        mask = torch.zeros(hidden.shape, dtype=self._like.dtype, device=self._like.device)
        mask = mask.masked_fill_(hidden, float("-inf"))[:, None].repeat(1, 1, self._group, 1)
        return Rectangle(size, width, length, slice(first, first + size * width), slots.reshape(-1), mask)


def _checked(index: int, chunk: Chunk, vocab_size: int) -> _Row:
    name = f"chunks[{index}]"
    start = whole_number(f"{name}.start", chunk.start, 0, "no token comes before the first")
    tokens = integers(chunk.tokens, f"{name}.tokens", f"the vocabulary has ids 0 to {vocab_size - 1}", vocab_size)
    slots = integers(chunk.slots, f"{name}.slots", "a slot is at least 0, and a store has at most 2**31", 2**31)
    if not len(tokens):
        raise ValueError(f"{name} has no tokens: a chunk computes at least 1")
    if len(slots) != start + len(tokens):
        raise ValueError(f"{name} has {len(slots)} slots: it needs one for each of {start} + {len(tokens)} tokens")
    return _Row(tokens, slots)
