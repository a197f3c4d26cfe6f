"""The exercises of chapter 00: counting what prompts share, and what a cache saves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong

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


def careless_saved(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens of all prompts need no computing: compares each prompt with the one before it."""
    return sum(min(shared_prefix(before, prompt), len(prompt) - 1) for before, prompt in pairwise(prompts))


def _first_two(prompts: Sequence[Sequence[int]]) -> int:
    return shared_prefix(*prompts[:2]) if len(prompts) > 1 else sum(map(len, prompts))


def _any_tokens(prompts: Sequence[Sequence[int]]) -> int:
    return len(set.intersection(*map(set, prompts))) if prompts else 0


def _same_places(prompts: Sequence[Sequence[int]]) -> int:
    return sum(len(set(column)) == 1 for column in zip(*prompts))


def _first_alone(prompts: Sequence[Sequence[int]]) -> int:
    return shared_by_all(prompts) if len(prompts) > 1 else 0


def _neighbors(prompts: Sequence[Sequence[int]]) -> int:
    return min(shared_prefix(before, prompt) for before, prompt in pairwise(prompts))


def _no_prompts(prompts: Sequence[Sequence[int]]) -> int:
    length = 0
    while all(length < len(prompt) and prompt[length] == prompts[0][length] for prompt in prompts):
        length += 1
        if length > 1000:
            raise IndexError("of no prompts everything is shared, without end")
    return length


def _full_hits(prompts: Sequence[Sequence[int]], keep: int) -> list[int]:
    return [
        len(prompt) - max((shared_prefix(prompt, p) for p in prompts[max(0, i - keep) : i]), default=0)
        for i, prompt in enumerate(prompts)
    ]


def _keeps_all(prompts: Sequence[Sequence[int]], keep: int) -> list[int]:
    return tokens_computed(prompts, len(prompts))


def _keeps_the_first(prompts: Sequence[Sequence[int]], keep: int) -> list[int]:
    counts = []
    for i, prompt in enumerate(prompts):
        cached = max((shared_prefix(prompt, earlier) for earlier in prompts[: min(i, keep)]), default=0)
        counts.append(len(prompt) - min(cached, len(prompt) - 1))
    return counts


def _negative_slice(prompts: Sequence[Sequence[int]], keep: int) -> list[int]:
    counts = []
    for i, prompt in enumerate(prompts):
        cached = max((shared_prefix(prompt, earlier) for earlier in prompts[:i][-keep:]), default=0)
        counts.append(len(prompt) - min(cached, len(prompt) - 1))
    return counts


def _slice_from_the_end(prompts: Sequence[Sequence[int]], keep: int) -> list[int]:
    counts = []
    for i, prompt in enumerate(prompts):
        cached = max((shared_prefix(prompt, earlier) for earlier in prompts[i - keep : i]), default=0)
        counts.append(len(prompt) - min(cached, len(prompt) - 1))
    return counts


def _full_hits_and_all(prompts: Sequence[Sequence[int]], keep: int) -> list[int]:
    return [
        len(prompt) - max((shared_prefix(prompt, p) for p in prompts[:i][-keep:]), default=0)
        for i, prompt in enumerate(prompts)
    ]


def _sum_of_all(prompts: Sequence[Sequence[int]], keep: int) -> list[int]:
    counts = []
    for i, prompt in enumerate(prompts):
        cached = sum(shared_prefix(prompt, earlier) for earlier in prompts[max(0, i - keep) : i])
        counts.append(len(prompt) - min(cached, len(prompt) - 1))
    return counts


def _no_hunt() -> tuple[list[list[int]]]:
    return ([[1, 2], [1, 2, 3]],)


EXERCISES = (
    Exercise(
        id="0.1",
        name="shared_by_all",
        reference=shared_by_all,
        cases=[([],), ([[1, 2]],), ([[1, 2], [1, 3]],), ([[1, 2], [2, 1]],), ([[1, 2], [3, 2]],), ([[1], [1, 2]],),
               ([[1, 2, 3], [1, 2, 4], [1, 5]],), ([[1, 2], [1, 2], [1, 3]],)],
        strategy=st.tuples(st.lists(_PROMPT, max_size=4)),
        hint="walk all prompts from the start, and stop at the first place where one differs or ends",
        wrong=(
            Wrong(_no_prompts, "an empty list of prompts shares nothing: return 0 for it"),
            Wrong(_neighbors, "one prompt makes no pair, and shares all of itself; an empty list shares nothing"),
            Wrong(_first_alone, "a single prompt shares all of itself"),
            Wrong(_first_two, "all of the prompts must agree, not only the first two"),
            Wrong(_any_tokens, "a token counts only if everything before it is the same too, so a set will not do"),
            Wrong(_same_places, "stop at the first difference: what agrees after it was computed after other tokens"),
        ),
    ),
    Exercise(
        id="0.2",
        name="tokens_computed",
        reference=tokens_computed,
        cases=[([], 2), ([[1, 2, 3]], 2), ([[1, 2, 3], [1, 2, 4]], 1), ([[1, 2], [1, 2]], 1), ([[1, 2], [1, 2]], 0),
               ([[1, 2], [7], [1, 2, 3]], 1), ([[1, 2], [7], [1, 2, 3]], 2), ([[1, 2], [1, 3], [1, 2, 4]], 2),
               ([[7], [1, 2], [1, 2, 3]], 1)],
        strategy=st.tuples(_PROMPTS, st.integers(0, 3)),
        hint="of the last `keep` prompts, find the one with the longest shared prefix, and compute the rest, but at "
        "least the last token",
        wrong=(
            Wrong(_full_hits, "a prompt that is cached whole still computes its last token: the model must answer it"),
            Wrong(_keeps_all, "only the last `keep` prompts are there to help"),
            Wrong(_keeps_the_first, "the last `keep` prompts are kept, not the first ones"),
            Wrong(_negative_slice, "with keep=0, [-0:] is the whole list: nothing at all should be kept"),
            Wrong(_slice_from_the_end, "where i - keep is below 0, the slice counts from the end: begin at 0 there"),
            Wrong(_full_hits_and_all, "a prompt that is cached whole still computes its last token"),
            Wrong(_sum_of_all, "take the longest shared prefix, not the sum over all kept prompts"),
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
