"""Many chunks as one batch: all their tokens packed in one row, and for attention three kinds of parts.

Everything in a decoder but attention looks at one token at a time, so the tokens of all chunks run through it in one
long row. What a token attends to is cut into parts, each of which is computed without a mask of its size:

    prefix    slots that were computed before: every token of the part sees all of them (`SharedPrefix`), and where
              several chunks share a prefix, they share the part
    own       a chunk of several tokens attends to itself, causally (`Causal`); what a chunk of one token, decoding,
              has for itself is padded to the length of others like it (`Padded`)

Each token has one own part, and the results of its parts are joined by their log-sum-exp.

    row 0    10 11 12 13 | 40 41 | 70          Shared((0, 1, 2), 0, 4)    read once for all three
    row 1    10 11 12 13 | 40 41 | 80          Shared((0, 1), 4, 6)       read once for these two
    row 2    10 11 12 13 | 90                  what is left of each row is its own

Requests that share a prefix read it from the same slots of the tree, so it is enough to compare the rows themselves.
After the cascade attention of FlashInfer and vLLM.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from minikv.errors import bounded, whole_number
from minikv.serving.model import Chunk
from minikv.tokens import PackedTokens, integers, refuse_values

# Slots: about so many are padded side by side at most, so that the processor's cache holds their keys and values.
GATHERED = 2048
WORTH = 256  # a part of its own costs about as much as reading this many slots


class SharedPrefix(NamedTuple):
    """The tokens `rows` of the packed row all see the slots `batch.reads[slots]`."""

    rows: slice | Tensor
    slots: slice


class Causal(NamedTuple):
    """`size` chunks of `width` new tokens each, the tokens `rows`: each sees those of its chunk up to itself."""

    rows: slice
    size: int
    width: int


class Padded(NamedTuple):
    """`size` chunks of one token, the tokens `rows`; each sees its own `length` slots of `batch.reads[slots]`.

    A shorter row repeats its last slot, and `mask`, (size, 1, 1, length), is -inf there and 0 elsewhere; it is `None`
    where all are equally long.
    """

    rows: slice
    size: int
    length: int
    slots: slice
    mask: Tensor | None


class _Row(NamedTuple):
    """One chunk: new tokens, all slots of its sequence, how many logits, and from where on no other chunk reads it."""

    tokens: Any
    slots: Any
    num_logits: int = 1
    own: int = 0

    @property
    def start(self) -> int:
        return len(self.slots) - len(self.tokens)

    @property
    def kind(self) -> tuple[int, int]:
        """Chunks of one kind share an own part: as many new tokens, and when decoding, lengths within a factor of 2."""
        width = len(self.tokens)
        return width, (len(self.slots) - self.own).bit_length() if width == 1 else 0


class Batch:
    """The data that one forward step needs about its chunks, once for all layers.

    The packed row has chunks of one kind side by side. `tokens` and `positions` are int64 tensors, one number for each
    new token, and `slots`, a numpy array, is where their K and V go. `last` are the rows whose logits are wanted,
    of each chunk its last token's at least, in the order in which the chunks were given. So are `rows`: for
    each chunk the rows of its new tokens, and all slots of its sequence. `parts` are what the tokens attend to, the
    own parts first and in the order of their rows; `reads` are the slots that they read. A prefix is shared
    where that saves reading `WORTH` slots. `TypeError` and `ValueError` name the chunk and what is wrong with it.

    >>> import torch
    >>> batch = Batch([Chunk([1, 2], 0, [8, 9]), Chunk([7], 2, [5, 3, 4])], vocab_size=10, like=torch.zeros(1))
    >>> batch.tokens.tolist(), batch.positions.tolist(), batch.slots.tolist(), batch.last.tolist()
    ([7, 1, 2], [2, 0, 1], [4, 8, 9], [2, 0])
    >>> for part in batch.parts: print(part)
    Padded(rows=slice(0, 1, None), size=1, length=3, slots=slice(0, 3, None), mask=None)
    Causal(rows=slice(1, 3, None), size=1, width=2)
    """

    def __init__(self, chunks: Sequence[Chunk], vocab_size: int, like: Tensor):
        given = [_checked(i, chunk, vocab_size) for i, chunk in enumerate(chunks)]
        if not given:
            raise ValueError("there are no chunks: a forward step computes at least 1")
        self._like, self._reads = like, list[Any]()
        shared = prefixes_of_rows([row.slots[: row.start] for row in given])
        for members, _, stop in shared:
            for i in members:
                given[i] = given[i]._replace(own=max(given[i].own, stop))
        order = sorted(range(len(given)), key=lambda i: given[i].kind)  # stable: equal kinds keep their order
        packed = [given[i] for i in order]
        self._pack(packed)
        ends = dict(zip(order, np.cumsum([len(row.tokens) for row in packed]).tolist()))
        spans = [range(ends[i] - len(row.tokens), ends[i]) for i, row in enumerate(given)]
        self.last = self._ids(np.concatenate([span[-row.num_logits :] for span, row in zip(spans, given)]))
        self.rows = [(slice(span.start, span.stop), row.slots) for span, row in zip(spans, given)]
        self.parts = list[Causal | Padded | SharedPrefix]()
        self._add_own(packed)
        for members, start, stop in shared:
            self._add_prefix(given[members[0]].slots[start:stop], [spans[i] for i in members])
        for row, span in zip(given, spans):
            if len(row.tokens) > 1 and row.own < row.start:
                self._add_prefix(row.slots[row.own : row.start], [span])
        self.reads = np.concatenate([np.empty(0, np.int32), *self._reads])

    def _ids(self, ids: Any) -> Tensor:
        return torch.from_numpy(np.asarray(ids, np.int64)).to(self._like.device)

    def _pack(self, packed: list[_Row]) -> None:
        self.slots = np.concatenate([row.slots[row.start :] for row in packed])
        self.tokens = self._ids(np.concatenate([row.tokens for row in packed]))
        self.positions = self._ids(np.concatenate([np.arange(row.start, len(row.slots)) for row in packed]))

    # -- the parts --------------------------------------------------------------------------------------------------

    def _add_own(self, packed: list[_Row]) -> None:
        """Own parts for all rows, which are in order of their kind."""
        first = 0
        for (width, _), alike in groupby(packed, key=lambda row: row.kind):
            rows = [*alike]
            if width > 1:
                self.parts.append(Causal(slice(first, first + width * len(rows)), len(rows), width))
                first += width * len(rows)
                continue
            many = max(1, GATHERED // max(len(row.slots) - row.own for row in rows))
            for at in range(0, len(rows), many):
                self._add_padded(first, [row.slots[row.own :] for row in rows[at : at + many]])
                first += len(rows[at : at + many])

    def _add_padded(self, first: int, rows: list[Any]) -> None:
        """A part for the slots in `rows`, one chunk each, padded to the longest."""
        lengths = np.array([len(row) for row in rows])
        size, length = len(rows), int(lengths.max())
        slots = np.empty((size, length), np.int32)
        for i, row in enumerate(rows):
            slots[i, : len(row)] = row
            slots[i, len(row) :] = row[-1]
        mask = None
        if lengths.min() < length:
            hidden = torch.from_numpy(np.arange(length) >= lengths[:, None]).to(self._like.device)
            mask = torch.zeros(hidden.shape, dtype=self._like.dtype, device=self._like.device)
            mask = mask.masked_fill_(hidden, float("-inf"))[:, None, None]
        self.parts.append(Padded(slice(first, first + size), size, length, self._read(slots.reshape(-1)), mask))

    def _add_prefix(self, slots: Any, spans: list[range]) -> None:
        """A part in which the tokens of `spans` see all of `slots`."""
        rows: slice | Tensor = slice(spans[0].start, spans[-1].stop)
        if any(a.stop != b.start for a, b in pairwise(spans)):
            rows = self._ids(np.concatenate(spans))
        self.parts.append(SharedPrefix(rows, self._read(slots)))

    def _read(self, slots: Any) -> slice:
        """Return where `slots` are in `reads`."""
        first = sum(len(before) for before in self._reads)
        self._reads.append(slots)
        return slice(first, first + len(slots))


def last_chunks(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The tokens of `chunks` whose logits are wanted, as chunks: all others have keys and values by then.

    >>> last_chunks([Chunk([1, 2], 0, [8, 9])])
    [Chunk(tokens=[2], start=1, slots=[8, 9], namespace=None, num_logits=1)]
    """
    counts = [chunk.num_logits for chunk in chunks]
    return [
        chunk._replace(tokens=chunk.tokens[-count:], start=len(chunk.slots) - count)
        for chunk, count in zip(chunks, counts)
    ]


def _checked(index: int, chunk: Chunk, vocab_size: int) -> _Row:
    name = f"chunks[{index}]"
    start = whole_number(f"{name}.start", chunk.start, 0, "no token comes before the first")
    tokens, slots = cast("Any", chunk.tokens), chunk.slots
    if isinstance(tokens, PackedTokens):
        tokens = np.frombuffer(tokens.data, np.uint32)
    else:
        tokens = integers(tokens, f"{name}.tokens", "a token is an integer in [0, 2**32)", 2**32)
    if type(slots) is not np.ndarray or slots.dtype != np.int32 or slots.ndim != 1:  # the store checks their range
        rule = "a slot is an integer in [0, 2**31)"
        slots = integers(slots, f"{name}.slots", rule, 2**31).astype(np.int32)
    if not len(tokens):
        raise ValueError(f"{name} has no tokens: a chunk computes at least 1")
    if len(slots) != start + len(tokens):
        raise ValueError(f"{name} has {len(slots)} slots: it needs one for each of {start} + {len(tokens)} tokens")
    num_logits = whole_number(f"{name}.num_logits", chunk.num_logits, 1, "the last token's logits are always wanted")
    if num_logits > len(tokens):
        raise ValueError(f"{name}.num_logits is {bounded(num_logits)}: it computes {len(tokens)} tokens")
    if int(tokens.max()) >= vocab_size:
        refuse_values(tokens.tolist(), f"{name}.tokens", f"the vocabulary has ids 0 to {vocab_size - 1}", vocab_size)
    return _Row(tokens, slots, num_logits)


# -- which rows begin alike -------------------------------------------------------------------------------------------


class Shared(NamedTuple):
    """Places [start, stop) of the rows numbered `members`: the same slots in all of them."""

    members: tuple[int, ...]
    start: int
    stop: int


def prefixes_of_rows(rows: Sequence[Any], worth: int = WORTH) -> list[Shared]:
    """The prefixes that `rows`, int32 arrays of slots, share with each other, each run of slots once.

    The parts that a row is a member of follow one another, from 0 on. A part that would save fewer than `worth`
    slots from being read is left out, and belongs to the rows that it would have served.

    >>> import numpy as np
    >>> rows = [np.array(row, np.int32) for row in ([1, 2, 3, 4, 5], [1, 2, 3, 4, 6], [1, 2, 9], [7])]
    >>> prefixes_of_rows(rows, worth=1)
    [Shared(members=(0, 1, 2), start=0, stop=2), Shared(members=(0, 1), start=2, stop=4)]
    """
    keys = [row.tobytes() for row in rows]
    order = sorted(range(len(rows)), key=keys.__getitem__)  # rows that begin alike are neighbours now
    common = [0, *(_common(rows[a], rows[b]) for a, b in pairwise(order))]
    found, groups = [], [(0, len(order), 0)]  # neighbours [first, last), and where their next part begins
    while groups:
        first, last, start = groups.pop()
        if last - first < 2:
            continue
        stop = min(common[first + 1 : last])
        if (last - first - 1) * (stop - start) >= worth:
            found.append(Shared(tuple(sorted(order[first:last])), start, stop))
            start = stop
        cuts = [first, *(at for at in range(first + 1, last) if common[at] == stop), last]
        groups += [(a, b, start) for a, b in pairwise(cuts)]
    return found


def _common(a: Any, b: Any) -> int:
    """Return how many leading numbers of two arrays are equal."""
    length = min(len(a), len(b))
    differs = a[:length] != b[:length]
    first = int(differs.argmax()) if length else 0
    return first if length and differs[first] else length
