"""The exercises of chapter 01: which page size to choose, and a share of the memory that went through a float."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.sizing import page_waste


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


def pages(memory: int, percent: int, taken: int, page_bytes: int) -> int:
    """How many pages fit in `percent` hundredths of the memory, less what is taken."""
    usable = memory * percent // 100
    return (usable - taken) // page_bytes


def careless_pages(memory: int, percent: int, taken: int, page_bytes: int) -> int:
    """The same, with a float in between."""
    usable = int(memory * (percent / 100))
    return (usable - taken) // page_bytes


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


def _less_than(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    fitting = [size for size in sizes if page_waste(lengths, size).fraction < most_waste]
    if not fitting:
        raise ValueError
    return max(fitting)


def _one_page_more(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    fitting = []
    for size in sizes:
        slots = sum((length // size + 1) * size for length in lengths)
        if slots - sum(lengths) <= most_waste * slots:
            fitting.append(size)
    if not fitting:
        raise ValueError
    return max(fitting)


def _a_page_for_nothing(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    fitting = []
    for size in sizes:
        slots = sum(max(1, -(-length // size)) * size for length in lengths)
        if slots - sum(lengths) <= most_waste * slots:
            fitting.append(size)
    if not fitting:
        raise ValueError
    return max(fitting)


def _none_fits(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int | None:
    return max((size for size in sizes if page_waste(lengths, size).fraction <= most_waste), default=None)


def _another_error(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    fitting = [size for size in sizes if page_waste(lengths, size).fraction <= most_waste]
    if not fitting:
        raise RuntimeError
    return max(fitting)


def _divides_by_nothing(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    fitting = []
    for size in sizes:
        slots = sum(-(-length // size) * size for length in lengths)
        if (slots - sum(lengths)) / slots <= most_waste:
            fitting.append(size)
    if not fitting:
        raise ValueError
    return max(fitting)


def _rounded(lengths: Sequence[int], sizes: Sequence[int], most_waste: float) -> int:
    fitting = [size for size in sizes if round(page_waste(lengths, size).fraction, 2) <= most_waste]
    if not fitting:
        raise ValueError
    return max(fitting)


def _no_trouble() -> tuple[int, int, int, int]:
    return (80 * 2**30, 90, 0, 16)


def _half() -> tuple[int, int, int, int]:
    return (100, 50, 0, 1)


def _praise(case: tuple[int, int, int, int]) -> str:
    if careless_pages(*case) > pages(*case):
        return "It promises a page that is not there!"
    return "Can you make it promise one page too many?"


EXERCISES = (
    Exercise(
        id="1.3",
        name="best_page_size",
        reference=best_page_size,
        cases=[([16], [1, 16], 0.0), ([100, 200], [1, 16, 64, 256], 0.1), ([3, 3, 3], [1, 2, 4, 8], 0.3),
               ([1, 1], [4, 8], 0.5), ([], [1, 4], 0.0), ([3], [1, 2, 3], 0.0), ([1, 7], [1, 4], 0.5),
               ([1, 2, 3, 90], [1, 8], 0.2), ([0, 16], [1, 16], 0.1), ([239], [1, 244], 0.02), ([0], [1, 8], 0.0)],
        strategy=st.tuples(
            st.lists(st.integers(0, 40), max_size=4),
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
            Wrong(_none_fits, "when every size wastes more, raise a ValueError; nobody looks for a None"),
            Wrong(_another_error, "when every size wastes more, the error is a ValueError"),
            Wrong(_less_than, "exactly as much as `most_waste` is still allowed: compare with <="),
            Wrong(_one_page_more, "when the tokens fill their pages exactly, there is no extra page"),
            Wrong(_a_page_for_nothing, "a sequence of no tokens takes no page"),
            Wrong(_divides_by_nothing, "without tokens there are no slots to divide by, and nothing is wasted"),
            Wrong(_rounded, "compare the share as it is: rounded to two digits, 2.05 % passes for 2 %"),
        ),
    ),
    Hunt(
        id="1.4",
        name="careless_pages",
        careless=careless_pages,
        reference=pages,
        example=(100, 29, 0, 1),
        hint="a small memory and an odd percentage will do; and the larger the page, the less one byte matters",
        praise=_praise,
        wrong=(
            Wrong(_no_trouble, "a page of 16 bytes hides a byte that is missing: let a page have 1 byte"),
            Wrong(_half, "one half is exact in a float: which hundredths are not?"),
        ),
    ),
)  # fmt: skip
