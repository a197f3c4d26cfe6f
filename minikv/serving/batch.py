"""Many chunks as one batch: all their tokens packed in one row, and for attention parts that need no large mask.

Everything in a decoder but attention looks at one token at a time, so the tokens of all chunks run through it in one
long row. What a token attends to is cut into parts (`BatchPart`), each of which is computed without a mask of its size:

    own       a chunk of several tokens attends to itself, causally; what a chunk of one token, decoding, has for itself
              is padded to the length of others like it
    prefix    slots that were computed before: every token of the part sees all of them, and where several chunks share
              a prefix, they share the part

Each token has one own part, and the results of its parts are joined by their log-sum-exp.

    row 0    10 11 12 13 | 40 41 | 70          Shared((0, 1, 2), 0, 4)    read once for all three
    row 1    10 11 12 13 | 40 41 | 80          Shared((0, 1), 4, 6)       read once for these two
    row 2    10 11 12 13 | 90                  what is left of each row is its own

Requests that share a prefix read it from the same slots of the tree, so it is enough to compare the rows themselves.
After the cascade attention of FlashInfer and vLLM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from minikv.errors import whole_number
from minikv.serving.model import Chunk
from minikv.tokens import common_prefix, integers

# Slots: about so many are padded side by side at most, so that the processor's cache holds their keys and values.
GATHERED = 2048
WORTH = 256  # a part of its own costs about as much as reading this many slots


class BatchPart(NamedTuple):
    """The tokens `rows` of the packed row, `size` groups of as many tokens, and what each group attends to.

    Group by group that is an equal part of the slots `batch.reads[slots]`: each token sees them all, unless `mask`,
    (size, 1, 1, length), is -inf there instead of 0. Without `slots` each token sees its group up to itself.
    """

    rows: slice | Tensor
    size: int
    slots: slice | None = None
    mask: Tensor | None = None


@dataclass
class _Row:
    """One chunk: new tokens, all slots of its sequence, how many logits, and from where on no other chunk reads it.

    `first` is where its tokens begin in the packed row.
    """

    tokens: Any
    slots: Any
    num_logits: int
    own: int = 0
    first: int = 0

    @property
    def start(self) -> int:
        return len(self.slots) - len(self.tokens)

    @property
    def span(self) -> range:
        return range(self.first, self.first + len(self.tokens))

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
    own parts first and in the order of their rows, `num_own` of them; `reads` are the slots that they read. A prefix is
    shared where that saves reading `WORTH` slots. `TypeError` and `ValueError` name the chunk and its fault.

    >>> import torch
    >>> batch = Batch([Chunk([1, 2], 0, [8, 9]), Chunk([7], 2, [5, 3, 4])], vocab_size=10, like=torch.zeros(1))
    >>> batch.tokens.tolist(), batch.positions.tolist(), batch.slots.tolist(), batch.last.tolist()
    ([7, 1, 2], [2, 0, 1], [4, 8, 9], [2, 0])
    >>> for part in batch.parts: print(part)
    BatchPart(rows=slice(0, 1, None), size=1, slots=slice(0, 3, None), mask=None)
    BatchPart(rows=slice(1, 3, None), size=1, slots=None, mask=None)
    """

    def __init__(self, chunks: Sequence[Chunk], vocab_size: int, like: Tensor):
        given = [_checked(f"chunks[{i}]", chunk, vocab_size) for i, chunk in enumerate(chunks)]
        if not given:
            raise ValueError("there are no chunks: a forward step computes at least 1")
        self._like = like
        self._reads = [np.empty(0, np.int32)]
        self.parts = list[BatchPart]()
        shared = prefixes_of_rows([row.slots[: row.start] for row in given])
        for members, _, stop in shared:  # of a row that is in several, the last one reaches furthest
            for i in members:
                given[i].own = stop
        self._pack(given)
        self.num_own = len(self.parts)
        for members, start, stop in shared:
            self._add_prefix(given[members[0]].slots[start:stop], [given[i].span for i in members])
        for row in given:
            if len(row.tokens) > 1 and row.own < row.start:
                self._add_prefix(row.slots[row.own : row.start], [row.span])
        self.reads = np.concatenate(self._reads)

    def _pack(self, given: list[_Row]) -> None:
        """Pack the chunks in order of their kind, with their own parts."""
        packed = sorted(given, key=lambda row: row.kind)  # stable: equal kinds keep their order
        first = 0
        for row in packed:
            row.first = first
            first += len(row.tokens)
        self.slots = np.concatenate([row.slots[row.start :] for row in packed])
        self.tokens = self._ids([row.tokens for row in packed])
        self.positions = self._ids([np.arange(row.start, len(row.slots)) for row in packed])
        self._add_own(packed)
        self.last = self._ids([row.span[-row.num_logits :] for row in given])
        self.rows = [(slice(row.first, row.span.stop), row.slots) for row in given]

    def _ids(self, ids: Sequence[Any]) -> Tensor:
        return torch.from_numpy(np.concatenate(ids).astype(np.int64)).to(self._like.device)

    # -- the parts --------------------------------------------------------------------------------------------------

    def _add_own(self, packed: list[_Row]) -> None:
        """Own parts for all rows, which are in order of their kind."""
        first = 0
        for (width, _), alike in groupby(packed, key=lambda row: row.kind):
            rows = [row.slots[row.own :] for row in alike]
            many = len(rows) if width > 1 else max(1, GATHERED // max(map(len, rows)))
            for at in range(0, len(rows), many):
                some = rows[at : at + many]
                places = slice(first, first + width * len(some))
                self.parts.append(BatchPart(places, len(some)) if width > 1 else self._padded(places, some))
                first = places.stop

    def _padded(self, places: slice, rows: list[Any]) -> BatchPart:
        """A part for one token per row of slots: shorter rows repeat their last slot, which a mask hides."""
        mask = None
        lengths = [*map(len, rows)]
        longest = max(lengths)
        filled = [np.concatenate([row, np.full(longest - len(row), row[-1])]) for row in rows]
        slots = self._read(np.concatenate(filled))
        if min(lengths) < longest:
            hidden = torch.arange(longest) >= torch.tensor(lengths)[:, None]
            mask = torch.where(hidden, float("-inf"), 0.0).to(self._like)[:, None, None]
        return BatchPart(places, len(rows), slots, mask)

    def _add_prefix(self, slots: Any, spans: list[range]) -> None:
        """A part in which the tokens of `spans` see all of `slots`."""
        rows: slice | Tensor = slice(spans[0].start, spans[-1].stop)
        if any(a.stop != b.start for a, b in pairwise(spans)):
            rows = self._ids(spans)
        self.parts.append(BatchPart(rows, 1, self._read(slots)))

    def _read(self, slots: Any) -> slice:
        """Return where `slots` are in `reads`."""
        first = sum(map(len, self._reads))
        self._reads.append(slots)
        return slice(first, first + len(slots))


def last_chunks(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The tokens of `chunks` whose logits are wanted, as chunks: all others have keys and values by then.

    >>> last_chunks([Chunk([1, 2], 0, [8, 9])])
    [Chunk(tokens=[2], start=1, slots=[8, 9], namespace=None, num_logits=1)]
    """
    return [
        chunk._replace(
            tokens=chunk.tokens[-chunk.num_logits :],
            start=len(chunk.slots) - chunk.num_logits,
        )
        for chunk in chunks
    ]


def _checked(name: str, chunk: Chunk, vocab_size: int) -> _Row:
    rule = f"the vocabulary has ids 0 to {vocab_size - 1}"
    tokens = integers(chunk.tokens, f"{name}.tokens", rule, vocab_size)
    slots = chunk.slots
    if type(slots) is not np.ndarray or slots.dtype != np.int32 or slots.ndim != 1:  # the store checks their range
        rule = "a slot is an integer in [0, 2**31)"
        slots = integers(slots, f"{name}.slots", rule, 2**31).astype(np.int32)
    start = whole_number(f"{name}.start", chunk.start, 0, "no token comes before the first")
    count = len(tokens)
    if len(slots) != start + count:
        raise ValueError(f"{name} has {len(slots)} slots: it needs one for each of {start} + {count} tokens")
    rule = f"a chunk returns logits for 1 to {count} of its tokens"
    return _Row(tokens, slots, whole_number(f"{name}.num_logits", chunk.num_logits, 1, rule, count + 1))


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
    >>> prefixes_of_rows([rows[0], rows[1], rows[2][:1]], worth=3)   # one slot for three rows would save two
    [Shared(members=(0, 1), start=0, stop=4)]
    """
    found = []
    groups = [(sorted(range(len(rows)), key=lambda i: rows[i].tobytes()), 0)]  # rows that begin alike are neighbours
    while groups:
        members, start = groups.pop()
        if len(members) < 2:
            continue
        stop = common_prefix(rows[members[0]], rows[members[-1]])  # in this order, of all those between them as well
        if (len(members) - 1) * (stop - start) >= worth:
            found.append(Shared(tuple(sorted(members)), start, stop))
            start = stop
        alike = groupby(members, key=lambda i: rows[i][stop : stop + 1].tolist())
        groups += [([*some], start) for longer, some in alike if longer]
    return found
