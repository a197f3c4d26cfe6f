"""Running an answer and a reference on the same case, and finding the smallest case on which they differ.

An answer may do anything: raise, return nonsense, change its arguments, loop forever. Nothing of that gets out of
here. A case is a tuple of arguments for a function, or a `Script` of operations for a class.
"""

from __future__ import annotations

import copy
import reprlib
import sys
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import NoSuchExample
from hypothesis.strategies import SearchStrategy

MOST_STEPS = 200_000  # lines of Python that an answer may run on one case
_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxarray = _SHORT.maxdict = 12
_SHORT.maxstring = _SHORT.maxother = 60


@dataclass(frozen=True)
class Script:
    """Operations on a new object of a class: the arguments of its making, then `(method, arguments)` in order.

    >>> Script((4,), (("alloc", (2,)), ("free", ([0],))))
    (4).alloc(2).free([0])
    """

    init: tuple[Any, ...]
    operations: tuple[tuple[str, tuple[Any, ...]], ...]

    def __repr__(self) -> str:
        return "".join([arguments(self.init), *(f".{name}{arguments(args)}" for name, args in self.operations)])


@dataclass(frozen=True)
class Outcome:
    """What one call came to: a value, or the error that it raised; `NotImplementedError` means not attempted."""

    value: Any = None
    error: BaseException | None = None

    @property
    def attempted(self) -> bool:
        """Whether the code was there to run."""
        return not isinstance(self.error, NotImplementedError)

    def agrees(self, expected: Outcome) -> bool:
        """Whether this is what was `expected`: an equal value, or an error of that kind."""
        if expected.error is not None:
            return self.error is not None and isinstance(self.error, type(expected.error))
        return self.error is None and _same(self.value, expected.value)

    def __str__(self) -> str:
        if isinstance(self.error, TooLong):
            return f"no end after {MOST_STEPS:,} lines"
        return _SHORT.repr(_plain(self.value)) if self.error is None else type(self.error).__name__


class TooLong(BaseException):
    """The answer ran for more than `MOST_STEPS` lines; not an `Exception`, so that `except Exception` lets it pass."""


def arguments(args: Iterable[Any]) -> str:
    """Arguments as they are written in a call.

    >>> arguments((3, [1, 2]))
    '(3, [1, 2])'
    """
    return f"({', '.join(_SHORT.repr(_plain(arg)) for arg in args)})"


def run(answer: Callable[..., Any], args: tuple[Any, ...]) -> Outcome:
    """Call `answer` on copies of `args`, with a limit on the lines that it runs; never raises.

    >>> str(run(max, ([3, 5],))), str(run(max, ([],)))
    ('5', 'ValueError')
    """
    lines, before = 0, sys.gettrace()

    def count(frame: Any, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        if lines > MOST_STEPS:
            raise TooLong
        return count

    given = copy.deepcopy(args)
    sys.settrace(count)
    try:
        return Outcome(answer(*given))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, and whatever else a learner raises
        return Outcome(error=error)
    finally:
        sys.settrace(before)


def _plain(value: Any) -> Any:
    """Numbers and sequences as plain Python, so that a tuple, a list and an array of the same numbers agree."""
    if isinstance(value, (np.ndarray, np.generic, array)) or hasattr(value, "detach"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _same(got: Any, expected: Any) -> bool:
    got, expected = _plain(got), _plain(expected)
    if isinstance(got, list) and isinstance(expected, list):
        return len(got) == len(expected) and all(map(_same, got, expected))
    if isinstance(got, float) != isinstance(expected, float):
        return False  # whole numbers are whole
    try:
        return bool(got == expected)
    except Exception:
        return False


@dataclass(frozen=True)
class Difference:
    """Where an answer and the reference part: the call, what it gave, what was expected; the objects, for a class."""

    call: str
    got: Outcome
    expected: Outcome
    yours: Any = None
    reference: Any = None
    then: str = ""

    def __str__(self) -> str:
        return f"{self.call} {'leaves' if self.then else 'gave'} {self.then}{self.got}, expected {self.expected}"


def differ(answer: Any, reference: Any, case: Any, name: str, observe: str | None = None) -> Difference | None:
    """Where `answer` and `reference` part on `case`, or `None`; an answer that is not attempted counts as a difference.

    Of a class, every operation's result is compared, and then the attribute `observe`, if given.

    >>> str(differ(lambda n: n + 1, lambda n: 2 * n, (3,), "double"))
    'double(3) gave 4, expected 6'
    """
    if not isinstance(case, Script):
        got, expected = run(answer, case), run(reference, case)
        return None if got.agrees(expected) else Difference(name + arguments(case), got, expected)
    mine, theirs = run(answer, case.init), run(reference, case.init)
    call = name + arguments(case.init)
    if not mine.agrees(Outcome(mine.value) if theirs.error is None else theirs):
        return Difference(call, mine, theirs)
    if theirs.error is not None:
        return None
    for method, args in case.operations:
        call += f".{method}{arguments(args)}"
        got = run(lambda *a, m=method: getattr(mine.value, m)(*a), args)
        expected = run(lambda *a, m=method: getattr(theirs.value, m)(*a), args)
        if not got.agrees(expected):
            return Difference(call, got, expected, mine.value, theirs.value)
        if observe:
            got, expected = (run(getattr, (side.value, observe)) for side in (mine, theirs))
            if not got.agrees(expected):
                return Difference(call, got, expected, mine.value, theirs.value, f"{observe} ")
    return None


def smallest(differs: Callable[[Any], bool], cases: Iterable[Any], strategy: SearchStrategy[Any] | None) -> Any:
    """The first of `cases` that differs, or else the smallest that Hypothesis finds; `None` if there is none.

    >>> from hypothesis import strategies as st
    >>> smallest(lambda case: case[0] > 10, [(1,), (2,)], st.tuples(st.integers(0, 100)))
    (11,)
    """
    for case in cases:
        if differs(case):
            return case
    if strategy is None:
        return None
    how = settings(
        max_examples=300, database=None, derandomize=True, deadline=None,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    try:
        return find(strategy, differs, settings=how)
    except NoSuchExample:
        return None
