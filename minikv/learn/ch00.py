"""The exercises of chapter 00: counting what two prompts share, and what a cache saves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import strategies as st

from minikv.learn.exercises import Exercise, Hunt, Wrong

_PROMPT = st.lists(st.integers(0, 2), max_size=5)
_PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), max_size=5)


def shared_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading tokens `a` and `b` have in common.

    >>> shared_prefix([1, 2, 3], [1, 2, 9])
    2
    """
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return length


def tokens_computed(prompts: Sequence[Sequence[int]]) -> list[int]:
    """For prompts served in order, how many tokens of each an engine that forgets nothing must compute.

    Everything served stays cached, and the last token of a prompt is always computed, because the engine needs the
    model's answer to it.

    >>> tokens_computed([[1, 2, 3], [1, 2, 4], [1, 2, 3]])
    [3, 1, 1]
    """
    counts = []
    for i, prompt in enumerate(prompts):
        cached = max((shared_prefix(prompt, earlier) for earlier in prompts[:i]), default=0)
        counts.append(len(prompt) - min(cached, len(prompt) - 1))
    return counts


def careless_saved(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens of all prompts were cached when they came: compares each prompt with the one before it."""
    return sum(shared_prefix(before, prompt) for before, prompt in pairwise(prompts))


def saved(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens of all prompts were cached when they came, if nothing is ever forgotten.

    >>> saved([[1, 2], [7], [1, 2, 3]])
    2
    """
    return sum(
        max((shared_prefix(prompt, earlier) for earlier in prompts[:i]), default=0) for i, prompt in enumerate(prompts)
    )


def _any_tokens(a: Sequence[int], b: Sequence[int]) -> int:
    return len(set(a) & set(b))


def _same_places(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x == y for x, y in zip(a, b))


def _past_the_end(a: Sequence[int], b: Sequence[int]) -> int:
    length = 0
    while a[length] == b[length]:
        length += 1
    return length


def _full_hits(prompts: Sequence[Sequence[int]]) -> list[int]:
    return [
        len(prompt) - max((shared_prefix(prompt, earlier) for earlier in prompts[:i]), default=0)
        for i, prompt in enumerate(prompts)
    ]


def _only_the_last(prompts: Sequence[Sequence[int]]) -> list[int]:
    pairs = zip([[], *prompts], prompts)
    return [len(prompt) - min(shared_prefix(before, prompt), len(prompt) - 1) for before, prompt in pairs]


def _sum_of_all(prompts: Sequence[Sequence[int]]) -> list[int]:
    counts = []
    for i, prompt in enumerate(prompts):
        cached = sum(shared_prefix(prompt, earlier) for earlier in prompts[:i])
        counts.append(len(prompt) - min(cached, len(prompt) - 1))
    return counts


def _no_hunt() -> tuple[list[list[int]]]:
    return ([[1, 2], [1, 2, 3]],)


EXERCISES = (
    Exercise(
        id="0.1",
        name="shared_prefix",
        reference=shared_prefix,
        cases=[([], []), ([1], [1]), ([1, 2], [1, 3]), ([1, 2], [2, 1]), ([1, 2, 3], [9, 2, 3]), ([1, 2], [1, 2, 3])],
        strategy=st.tuples(_PROMPT, _PROMPT),
        hint="walk both lists from the start and stop at the first place where they differ or one of them ends",
        wrong=(
            Wrong(_any_tokens, "a token counts only if everything before it is the same too, so a set will not do"),
            Wrong(_same_places, "stop at the first difference: what agrees after it was computed after other tokens"),
            Wrong(_past_the_end, "stop when the shorter list ends, or you read past it"),
        ),
    ),
    Exercise(
        id="0.2",
        name="tokens_computed",
        reference=tokens_computed,
        cases=[([],), ([[1, 2, 3]],), ([[1, 2, 3], [1, 2, 4]],), ([[1, 2], [1, 2]],), ([[1, 2], [7], [1, 2, 3]],),
               ([[1, 2], [1, 3], [1, 2, 4]],)],
        strategy=st.tuples(_PROMPTS),
        hint="for each prompt, find the longest prefix it shares with any earlier one, and compute the rest",
        wrong=(
            Wrong(_full_hits, "a prompt that is cached whole still computes its last token: the model must answer it"),
            Wrong(_only_the_last, "any earlier prompt may help, not only the one just before"),
            Wrong(_sum_of_all, "take the longest shared prefix, not the sum over all earlier prompts"),
        ),
    ),
    Hunt(
        id="0.3",
        name="saved",
        careless=careless_saved,
        reference=saved,
        example=([[1, 2], [7], [1, 2, 3]],),
        hint="the careless one looks at one earlier prompt only: which one, and when is that not the best one?",
        wrong=(Wrong(_no_hunt, "two prompts are too few: with two, the one before is all there is"),),
    ),
)  # fmt: skip
