"""What an engine needs of a model: one forward step over chunks of many sequences, through slots.

A chunk is a part of one sequence, and all three cases of serving are chunks: a whole prompt starts at 0, the next
piece of a long prompt (or all after a cached prefix) starts later, and decoding is a chunk of length 1.

    sequence   [0, start)                 computed before, by any request: K and V are in slots[:start]
               [start, start + n)         computed now: K and V go to slots[start:], and may be read from there
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from minikv.sizing import KVShape


class Chunk(NamedTuple):
    """Tokens of one sequence to be computed in one step.

    `tokens` are the ids to compute now, at least one; `start` is how many tokens of the sequence come before them;
    `slots` is the row of the whole sequence so far, `start + len(tokens)` slots, one for each token in order.
    `namespace` is the request's: what else its keys and values depend on (a LoRA, an image), if anything. Logits are
    wanted for the last `num_logits` tokens: one, or more where some of them are only guessed.

    >>> chunk = Chunk(tokens=[7, 8], start=1, slots=[40, 12, 13])
    >>> chunk.slots[chunk.start:]
    [12, 13]
    """

    tokens: Sequence[int]
    start: int
    slots: Any
    namespace: Hashable = None
    num_logits: int = 1


@runtime_checkable
class Model(Protocol):
    """A decoder that keeps keys and values in the slots that it is given.

    It has no state of its own between two calls: all that it remembers is in the store.
    """

    @property
    def shape(self) -> KVShape:
        """What a store must hold for it."""

    @property
    def vocab_size(self) -> int:
        """Token ids are below it."""

    @property
    def eos(self) -> Collection[int]:
        """The ids that end a sequence; none, if it never ends."""

    def forward(self, chunks: Sequence[Chunk], store: Any) -> Any:
        """Compute all chunks; the logits, (rows, vocab_size), for the token that follows each of them.

        A chunk has as many rows as its `num_logits`, chunk after chunk, in the order of the tokens: 1 by default.
        For every layer K and V of the new tokens are written to their slots of `store`, and those of the tokens
        before them are read from their slots. `store` is a `KVStore`, or has its `dtype`, `slots`, `write`, `rows` and
        `view`. No slot that one chunk writes may be in another chunk's row.
        """
