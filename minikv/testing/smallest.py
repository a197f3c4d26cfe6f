"""The smallest case on which something goes wrong: Hypothesis makes cases, and shrinks the first that shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import Flaky, NoSuchExample
from hypothesis.strategies import SearchStrategy

INCONSTANT = object()  # in place of a case on which something goes wrong at one time and not at another


def smallest_case(is_wrong: Callable[[Any], bool], strategy: SearchStrategy[Any], examples: int = 300) -> Any:
    """The smallest case found among so many `examples`, the same in every process; `None` if all of them are right.

    >>> from hypothesis import strategies as st
    >>> smallest_case(lambda number: number > 10, st.integers(0, 100))
    11
    """
    how = settings(
        max_examples=examples, database=None, derandomize=True, deadline=None,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    try:
        return find(strategy, is_wrong, settings=how)
    except NoSuchExample:
        return None
    except Flaky:
        return INCONSTANT


def fewest_lines(lines: Sequence[str], shown_by: Callable[[list[str]], list[str] | None]) -> list[str]:
    """The lines without those that are not needed: Hypothesis shrinks what it makes, but not to the last line.

    `shown_by` returns the lines up to the one that goes wrong, or `None` if none does.

    >>> fewest_lines(["a = 1", "b = 2", "a / 0"], lambda lines: lines if "a = 1" in lines else None)
    ['a = 1', 'a / 0']
    """
    kept = list(lines)
    for line in kept[-2::-1]:
        kept = shown_by([each for each in kept if each is not line]) or kept
    return kept
