"""The exercises of chapter 01: pages, bytes, and tensor parallelism."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.sizing import kv_heads_per_rank, page_waste


def pages_needed(num_tokens: int, page_size: int) -> int:
    """How many pages of `page_size` tokens hold `num_tokens`.

    >>> pages_needed(17, 16)
    2
    """
    return -(-num_tokens // page_size)


def best_page_size(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    """The largest of `sizes` at which sequences of these `lengths` waste at most the share `most_waste` of all slots.

    Larger pages need less bookkeeping. Raises `ValueError` if every size wastes more.

    >>> best_page_size([100, 200], [1, 16, 64, 256], most_waste=0.1)
    16
    """
    fitting = [size for size in sizes if page_waste(lengths, size).fraction <= most_waste]
    if not fitting:
        raise ValueError("every page size wastes more")
    return max(fitting)


def careless_heads(num_kv_heads: int, tp: int) -> float:
    """KV heads on each rank, for sizing the cache: just a division."""
    return num_kv_heads / tp


def _round_down(num_tokens: int, page_size: int) -> int:
    return num_tokens // page_size


def _one_more(num_tokens: int, page_size: int) -> int:
    return num_tokens // page_size + 1


def _a_float(num_tokens: int, page_size: int) -> float:
    return float(-(-num_tokens // page_size))


def _float_division(num_tokens: int, page_size: int) -> int:
    return math.ceil(num_tokens / page_size)


def _each_alone(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    fitting = [size for size in sizes if all(page_waste([n], size).fraction <= most_waste for n in lengths)]
    if not fitting:
        raise ValueError
    return max(fitting)


def _average(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    shares = {size: [page_waste([n], size).fraction for n in lengths] for size in sizes}
    fitting = [size for size in sizes if sum(shares[size]) <= most_waste * len(lengths)]
    if not fitting:
        raise ValueError
    return max(fitting)


def _stops_early(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    best = None
    for size in sorted(sizes):
        if page_waste(lengths, size).fraction > most_waste:
            break
        best = size
    if best is None:
        raise ValueError
    return best


def _smallest(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    fitting = [size for size in sizes if page_waste(lengths, size).fraction <= most_waste]
    if not fitting:
        raise ValueError
    return min(fitting)


def _of_the_tokens(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    fitting = [size for size in sizes if page_waste(lengths, size).wasted <= most_waste * sum(lengths)]
    if not fitting:
        raise ValueError
    return max(fitting)


def _all_in_one_row(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    fitting = [size for size in sizes if page_waste([sum(lengths)], size).fraction <= most_waste]
    if not fitting:
        raise ValueError
    return max(fitting)


def _nothing_fits(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    return max((size for size in sizes if page_waste(lengths, size).fraction <= most_waste), default=1)


def _evenly() -> tuple[int, int]:
    return (8, 4)


def _never() -> tuple[int, int]:
    return (8, 3)


EXERCISES = (
    Exercise(
        id="1.1",
        name="pages_needed",
        reference=pages_needed,
        cases=[(0, 16), (1, 16), (16, 16), (17, 16), (5, 1), (2**60 + 1, 2)],
        strategy=st.tuples(st.integers(0, 300), st.integers(1, 64)),
        hint="the last page may be only partly filled, and still it is a page",
        wrong=(
            Wrong(_round_down, "a page that is begun is a whole page: round up, not down"),
            Wrong(_one_more, "when the tokens fill their pages exactly, there is no extra page"),
            Wrong(_float_division, "the division went through a float, which has no room for so many digits: use //"),
            Wrong(_a_float, "pages are whole numbers: use //, because a float cannot count them all"),
        ),
    ),
    Exercise(
        id="1.2",
        name="best_page_size",
        reference=best_page_size,
        cases=[([16], [1, 16], 0.0), ([100, 200], [1, 16, 64, 256], 0.1), ([3, 3, 3], [1, 2, 4, 8], 0.3),
               ([1, 1], [4, 8], 0.5), ([], [1, 4], 0.0), ([3], [1, 2, 3], 0.0), ([1, 7], [1, 4], 0.5),
               ([1, 2, 3, 90], [1, 8], 0.2)],
        strategy=st.tuples(
            st.lists(st.integers(1, 40), max_size=4),
            st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 16, 32]), min_size=1, max_size=4, unique=True),
            st.sampled_from([0.0, 0.125, 0.25, 0.5]),
        ),
        hint="for each size count pages, slots in them and slots without a token; then take the largest that passes",
        wrong=(
            Wrong(_smallest, "of the sizes that pass, take the largest: fewer pages need less bookkeeping"),
            Wrong(_of_the_tokens, "the waste is a share of all slots taken, not of the tokens"),
            Wrong(_all_in_one_row, "each sequence has pages of its own, so each may waste the end of its last page"),
            Wrong(_each_alone, "the share is over all sequences together: one may waste more if others waste less"),
            Wrong(_average, "add up slots first and divide once: an average of shares counts short sequences too much"),
            Wrong(_stops_early, "a larger size may waste less again: 3 tokens fill a page of 3, and not pages of 2"),
            Wrong(_nothing_fits, "when every size wastes more, say so with a ValueError"),
        ),
    ),
    Hunt(
        id="1.3",
        name="kv_heads_per_rank",
        careless=careless_heads,
        reference=lambda num_kv_heads, tp: float(kv_heads_per_rank(num_kv_heads, tp)),
        example=(8, 16),
        hint="what does a rank hold when there are more ranks than KV heads?",
        wrong=(
            Wrong(_evenly, "where the heads divide evenly, a division is right; have more ranks than heads"),
            Wrong(_never, "8 heads cannot be put on 3 ranks at all; find a set-up that works, sized wrongly"),
        ),
    ),
)  # fmt: skip
