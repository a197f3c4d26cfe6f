"""The interface between engine and model, chunks in and logits out, and the choice of the next token from logits.

A chunk is a part of one sequence, and all three cases of serving are chunks: a whole prompt starts at 0, the next
piece of a long prompt (or all after a cached prefix) starts later, and decoding is a chunk of length 1.

    sequence   [0, start)                 computed before, by any request: K and V are in slots[:start]
               [start, start + n)         computed now: K and V go to slots[start:], and may be read from there

Each request has a generator of its own, so that what is sampled for it depends on its own logits and its own seed, and
not on which other requests are in the batch or in which order.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from minikv.errors import bounded, whole_number
from minikv.sizing import KVShape
from minikv.tokens import Array


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
        """The shape of the keys and values that a store must hold for it."""

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


# -- the next token ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SamplingParams:
    """How the tokens of one request are sampled, validated once.

    At most `max_new_tokens` are generated. `temperature` 0 takes the likeliest token, more gives the others a chance;
    equal seeds give equal answers. After vLLM's class of that name.

    >>> SamplingParams(max_new_tokens=8)
    SamplingParams(max_new_tokens=8, temperature=0.0, seed=0)
    >>> SamplingParams(temperature=-1.0)
    Traceback (most recent call last):
    ValueError: temperature is -1.0: 0 picks the likeliest token, more gives the others a chance
    """

    max_new_tokens: int = 16
    temperature: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        rule = "a request generates at least 1 token"
        vars(self).update(
            max_new_tokens=whole_number("max_new_tokens", self.max_new_tokens, 1, rule),
            seed=whole_number("seed", self.seed, 0, "a seed is 0 or more"),
            temperature=_finite(self.temperature),
        )

    @classmethod
    def of(cls, params: SamplingParams | int) -> SamplingParams:
        """`params` as they are, or a plain number of new tokens as parameters.

        >>> SamplingParams.of(8)
        SamplingParams(max_new_tokens=8, temperature=0.0, seed=0)
        """
        return params if isinstance(params, SamplingParams) else cls(params)


def _finite(warm: Any) -> float:
    """A temperature as a float, if it is one, of whatever library: finite, and at least 0."""
    rule = "0 picks the likeliest token, more gives the others a chance"
    if isinstance(warm, bool) or not isinstance(warm, Real):
        raise TypeError(f"temperature is {bounded(warm)} ({type(warm).__name__}), not a number: {rule}")
    try:
        found = float(warm)
    except OverflowError:  # an integer of 400 digits
        found = math.inf
    if not 0 <= found < math.inf:
        raise ValueError(f"temperature is {bounded(warm)}: {rule}")
    return found


Params = SamplingParams | int  # a plain number is the most new tokens


class Sampler:
    """Picks the next token of one request, by its `params` and its own generator.

    Ties go to the lowest token id. One number is drawn for each token that is sampled.

    >>> import numpy as np
    >>> logits = np.array([0.0, 3.0, 3.0, 1.0])
    >>> Sampler(SamplingParams())(logits)
    1
    >>> warm = Sampler(SamplingParams(temperature=1.0, seed=5))
    >>> [warm(logits) for _ in range(3)]
    [2, 2, 2]
    """

    def __init__(self, params: Params):
        self.params = SamplingParams.of(params)
        self._generator = np.random.default_rng(self.params.seed)

    def __call__(self, logits: Array) -> int:
        """The next token, from the logits of all, (vocab_size,)."""
        logits = require_choice(logits)
        if not self.params.temperature:
            return int(logits.argmax())  # numpy returns the first of equal ones
        with np.errstate(over="ignore"):  # far below the largest logit, at a low temperature: a share of 0
            scaled = (logits.astype(np.float64) - logits.max()) / self.params.temperature
        shares = np.exp(scaled).cumsum()
        return int(np.searchsorted(shares, self._generator.random() * shares[-1], side="right"))

    def __repr__(self) -> str:
        return f"Sampler({self.params})"


def require_choice(logits: Any, whose: str = "") -> Array:
    """`logits` as an array of floats, if the largest of them is a number.

    `TypeError` for anything but a row of numbers, and `ValueError` where there is nothing to choose from; both begin
    with `whose` logits they are.

    >>> require_choice([1, 2])
    array([1., 2.])
    >>> require_choice(np.array([np.nan, 1.0]), "request 3: ")
    Traceback (most recent call last):
    ValueError: request 3: the largest logit is nan: there is nothing to choose from
    """
    found = np.asarray(logits)
    if found.dtype.kind not in "fiu" or found.ndim != 1:
        raise TypeError(f"{whose}logits are {found.dtype} of shape {found.shape}: expected a row of numbers")
    if found.dtype.kind != "f":
        found = found.astype(np.float64)
    largest = found.max(initial=-np.inf)
    if not np.isfinite(largest):
        raise ValueError(f"{whose}the largest logit is {largest}: there is nothing to choose from")
    return found


def as_array(logits: Any) -> Array:
    """Logits as a numpy array, wherever they were computed: one copy for the whole batch.

    >>> as_array([[1.0, 2.0]]).shape
    (1, 2)
    """
    if hasattr(logits, "detach"):  # a torch tensor, without importing torch
        logits = logits.detach().float().cpu().numpy()
    return np.asarray(logits)
