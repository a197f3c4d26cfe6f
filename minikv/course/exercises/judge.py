"""Comparing an answer with a reference: the smallest case on which they differ, and what can be said about it.

A case is a tuple of arguments for a function, or a `Script` of operations for a class. Each is run as `outcome.py`
says, so whatever an answer does ends there.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import Flaky, NoSuchExample
from hypothesis.strategies import SearchStrategy

from minikv.testing.attempt import Outcome, arguments, attempt, short_repr, type_in_words
from minikv.testing.time_limit import TooLong

_CONTAINERS = (list, dict, set, deque, bytearray)
# The cases of a strategy on which some answer was right. Hypothesis would make the same ones again, which takes it six
# times as long as playing them does.
_made: WeakKeyDictionary[SearchStrategy[Any], list[Any]] = WeakKeyDictionary()
INCONSTANT = object()  # what `smallest` gives for an answer that is right on a case at one time and wrong at another


@dataclass(frozen=True)
class Script:
    """Operations on a new object of a class: the arguments of its making, then `(method, arguments)` in order.

    >>> Script((4,), (("alloc", (2,)), ("free", ([0],))))
    (4).alloc(2).free([0])
    """

    init: tuple[Any, ...]
    operations: tuple[tuple[str, tuple[Any, ...]], ...]

    def problem(self, like: Script | None = None) -> str | None:
        """What is wrong with the form of this script, in words, with a piece of `like`; `None` if nothing is.

        >>> print(Script((4,), (("alloc", 2),)).problem(like=Script((2,), (("free", ([0],)),))))
        operation 1 is ('alloc', 2): expected (name, (arguments,)), as in ('free', ([0],))
        """
        if not isinstance(self.init, tuple):
            as_in = f", as in {like.init}" if like else ""
            return f"the first part is {short_repr(self.init)}: expected the constructor's arguments{as_in}"
        if not isinstance(self.operations, (tuple, list)):
            return f"the second part is {short_repr(self.operations)}: expected operations, one after the other"
        for number, operation in enumerate(self.operations, start=1):
            pair = isinstance(operation, (tuple, list)) and len(operation) == 2
            if not (pair and isinstance(operation[0], str) and isinstance(operation[1], tuple)):
                as_in = f", as in {like.operations[0]}" if like else ""
                return f"operation {number} is {short_repr(operation)}: expected (name, (arguments,)){as_in}"
        return None

    def __repr__(self) -> str:
        if self.problem():
            return f"Script({short_repr(self.init)}, {short_repr(self.operations)})"
        return "".join([arguments(self.init), *(f".{name}{arguments(args)}" for name, args in self.operations)])


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
        if not self.got.attempted:
            return f"{self.call} is not written yet"
        forgot = ""
        if self.got.value is None and self.got.error is None:
            forgot = f" ({'it printed something: return it' if self.got.printed else 'did you forget to return it?'})"
        got = "nothing" if forgot and self.expected.value is not None else str(self.got)
        verb = "gave"
        if self.then:
            verb = f"leaves {self.then}at" if self.got.error is None else f"and then {self.then}gave"
        return f"{self.call} {verb} {got}{forgot if got == 'nothing' else ''}, expected {self.expected}"


class _Said:
    """Words in the place of a value that has no short form."""

    def __init__(self, words: str):
        self.words = words

    def __repr__(self) -> str:
        return self.words


def differ(answer: Any, reference: Any, case: Any, name: str, observe: str | None = None) -> Difference | None:
    """Where `answer` and `reference` part on `case`, or `None`; an answer that is not attempted counts as a difference.

    Of a class, every operation's result is compared, and then the attribute `observe`, if given.

    >>> str(differ(lambda n: n + 1, lambda n: 2 * n, (3,), "double"))
    'double(3) gave 4, expected 6'
    """
    if not isinstance(case, Script):
        got, expected = attempt(answer, case), attempt(reference, case)
        return None if got.agrees(expected) else Difference(name + arguments(case), got, expected)
    mine, theirs = attempt(answer, case.init), attempt(reference, case.init)
    call = name + arguments(case.init)
    if not mine.agrees(Outcome(mine.value) if theirs.error is None else theirs):
        return Difference(call, mine, theirs if theirs.error is not None else Outcome(_Said(f"a {name}")))
    if theirs.error is not None:
        return None
    for method, args in case.operations:
        call += f".{method}{arguments(args)}"
        got = attempt(lambda *a, m=method: getattr(mine.value, m)(*a), args)
        expected = attempt(lambda *a, m=method: getattr(theirs.value, m)(*a), args)
        if not got.agrees(expected):
            return Difference(call, got, expected, mine.value, theirs.value)
        if observe:
            got, expected = (attempt(lambda s=side.value: getattr(s, observe), ()) for side in (mine, theirs))
            if not got.agrees(expected):
                return Difference(call, got, expected, mine.value, theirs.value, f"{observe} ")
    return None


def refused(reference: Any, script: Script) -> str | None:
    """The first operation of `script` that the `reference` refuses, with its error, in words; `None` if none.

    >>> refused(list, Script((), (("append", (1,)), ("push", (2,)))))
    "operation 2, push(2): AttributeError ('list' object has no attribute 'push')"
    """
    made = attempt(reference, script.init)
    if made.error is not None:
        return f"making it with {arguments(script.init)}: {made}"
    for number, (method, args) in enumerate(script.operations, start=1):
        outcome = attempt(lambda *a, m=method: getattr(made.value, m)(*a), args)
        if outcome.error is not None:
            return f"operation {number}, {method}{arguments(args)}: {outcome}"
    return None


def form_hint(difference: Difference) -> str | None:
    """A hint for a result of the wrong kind, to which what an exercise has to say about values does not fit.

    >>> form_hint(Difference("f()", Outcome({1}), Outcome([1])))
    'return a list; this is a set'
    >>> form_hint(Difference("f()", Outcome([1]), Outcome([2])))
    """
    got, expected = difference.got, difference.expected
    if isinstance(got.error, TooLong):
        return "look at the loop: does every round bring it nearer to its end?"
    if got.error is not None or expected.error is not None or difference.yours is not None:
        return "print shows a value, return hands it back" if got.printed and got.value is None else None
    if got.value is None and got.printed:
        return "print shows a value, return hands it back"
    kinds = [type_in_words(outcome.value) for outcome in (got, expected)]
    if kinds[0] != kinds[1] and got.value is not None and expected.value is not None:
        return f"return {kinds[1]}; this is {kinds[0]}"
    if isinstance(got.value, float) and not isinstance(expected.value, float) and got.value == expected.value:
        return "return a whole number; this has a decimal point: // divides without one"
    return None


def class_state(answer: Any) -> str:
    """What all objects of a class share: its attributes that can change, and the defaults of its `__init__`.

    >>> class Shared:
    ...     items = [3]
    >>> class_state(Shared), class_state(len)
    ("[('items', [3])]", '[]')
    """
    if not isinstance(answer, type):
        return "[]"
    found = [(name, value) for name, value in vars(answer).items() if isinstance(value, _CONTAINERS)]
    defaults = getattr(vars(answer).get("__init__"), "__defaults__", None) or ()
    found += [("default", value) for value in defaults if isinstance(value, _CONTAINERS)]
    return str(attempt(repr, (found,)).value)


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
    known = _made.get(strategy, ())
    if known and not any(differs(copy.deepcopy(case)) for case in known):
        return None
    found = _searched(differs, strategy)
    return INCONSTANT if known and found is None else found


def _searched(differs: Callable[[Any], bool], strategy: SearchStrategy[Any]) -> Any:
    """What Hypothesis finds; where that is nothing, the cases that it made are kept."""
    made: list[Any] = []

    def noted(case: Any) -> bool:
        made.append(copy.deepcopy(case))  # an answer may change what it is given
        return differs(case)

    how = settings(
        max_examples=300, database=None, derandomize=True, deadline=None,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    try:
        return find(strategy, noted, settings=how)
    except NoSuchExample:
        _made[strategy] = made
        return None
    except Flaky:
        return INCONSTANT
