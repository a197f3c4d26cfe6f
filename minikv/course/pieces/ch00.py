"""The exercises of chapter 00: counting what prompts share, and what a cache saves; and a tiny transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from minikv.course.pieces.hunt import call_hunt
from minikv.course.pieces.piece import exercise
from minikv.course.pieces.props import DEEP, up_to

_PROMPT = st.lists(up_to(2), max_size=5)
_SAME = [[1000, 2], [int("1000"), 3]]  # two objects are the same token
_PROMPTS = st.lists(st.lists(up_to(2), min_size=1, max_size=5), max_size=5)


def keys_and_values(tokens: Sequence[int], layers: int = 2, size: int = 8) -> npt.NDArray[Any]:
    """The keys and values that a tiny transformer with random weights computes: (layer, key or value, token, number).

    >>> keys_and_values([1, 2, 3]).shape
    (2, 2, 3, 8)
    """
    chance, found = np.random.default_rng(0), []
    x = chance.normal(size=(10, size))[list(tokens)]
    for _ in range(layers):
        q, k, v = (x @ chance.normal(size=(size, size)) for _ in range(3))
        found.append((k, v))
        scores = np.where(np.tri(len(x)) == 1, q @ k.T, -np.inf)  # a token sees only itself and earlier tokens
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        x = x + (weights / weights.sum(axis=1, keepdims=True)) @ v
    return np.array(found)


def shared_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading tokens `a` and `b` have in common.

    >>> shared_prefix([1, 2, 3], [1, 2, 9])
    2
    """
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return length


def shared_by_all(prompts: Sequence[Sequence[int]]) -> int:
    """How many leading tokens all of `prompts` have in common; 0 for no prompts.

    >>> shared_by_all([[1, 2, 3], [1, 2, 4], [1, 2]])
    2
    """
    return min((shared_prefix(prompts[0], other) for other in prompts), default=0) if prompts else 0


def tokens_computed(prompts: Sequence[Sequence[int]], keep: int) -> list[int]:
    """For prompts served in order, how many tokens of each must be computed by an engine that keeps the last `keep`.

    The last token of a prompt is always computed, because the engine needs the model's answer to it.

    >>> tokens_computed([[1, 2, 3], [1, 2, 4], [1, 2, 3]], keep=1)
    [3, 1, 1]
    >>> tokens_computed([[1, 2, 3], [7], [1, 2, 3]], keep=1)
    [3, 1, 3]
    """
    counts = []
    for i, prompt in enumerate(prompts):
        kept = prompts[max(0, i - keep) : i]
        cached = max((shared_prefix(prompt, earlier) for earlier in kept), default=0)
        counts.append(len(prompt) - min(cached, len(prompt) - 1))
    return counts


def saved(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens of all prompts need no computing, if nothing is ever forgotten.

    >>> saved([[1, 2], [7], [1, 2, 3]])
    2
    """
    return sum(len(prompt) for prompt in prompts) - sum(tokens_computed(prompts, keep=len(prompts)))


def _nonsense(prompts: Sequence[Sequence[int]]) -> str | None:
    return "every prompt must have at least one token" if not all(map(len, prompts)) else None


EXERCISES = (
    exercise(
        "0.1", shared_by_all,
        cases=[([],), (_SAME,), ([[12], [13]],), ([[1] * DEEP] * 2,)],
        strategy=st.tuples(st.lists(_PROMPT, max_size=4)),
    ),
    exercise(
        "0.2", tokens_computed,
        cases=[([[1, 2], [1, 2]], 1), ([[2, 2], [1], [1], [2, 2]], 2),
               ([[1, 2], [7], [1, 2, 3]], 2)],
        strategy=st.tuples(_PROMPTS, up_to(3)),
    ),
    call_hunt(
        "0.3", "saved", "compares each prompt with the one before it", saved, nonsense=_nonsense,
    ),
)  # fmt: skip
