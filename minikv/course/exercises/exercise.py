"""`check` an answer to an exercise and see the smallest case on which it fails.

Each chapter's exercises are in `chNN.py` beside this file: a reference, hand-picked cases, a Hypothesis strategy for
more, and the wrong answers that people give, each with the hint that helps. An exercise's id is the same in the
notebook, here and in the tests.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis.strategies import SearchStrategy

from minikv.course.exercises.judge import (
    INCONSTANT,
    Difference,
    Script,
    class_state,
    differ,
    form_hint,
    refused,
    smallest,
)
from minikv.course.exercises.record import NOT_ATTEMPTED, RIGHT, WRONG, remember
from minikv.errors import bounded, whole_number
from minikv.testing.attempt import Outcome, arguments, attempt
from minikv.testing.time_limit import TooLong

CHAPTERS = tuple(sorted(int(file.stem[2:]) for file in Path(__file__).parent.glob("ch[0-9][0-9].py")))
_FIX_FIRST = "what both refuse does nothing: fix it first"


@dataclass(frozen=True)
class Wrong:
    """A wrong answer that people give, and the `hint` for those who gave it."""

    answer: Any
    hint: str


@dataclass(frozen=True)
class Exercise:
    """A function or a class to write, judged by comparing it with `reference` on cases.

    A case is a tuple of arguments, or for a class a `Script`, after each step of which the attribute `observe` is
    compared as well. `strategy` makes more cases than the hand-picked `cases`.
    """

    id: str
    name: str
    reference: Callable[..., Any]
    cases: Sequence[Any]
    hint: str
    strategy: SearchStrategy[Any] | None = None
    wrong: Sequence[Wrong] = ()
    observe: str | None = None

    def judge(self, answer: Any) -> tuple[str, str, Difference | None]:
        """The mark for `answer`, what to say about it, and where it parts from the reference."""
        differs: dict[str, Difference] = {}
        before, shared = class_state(answer), False

        def parts(case: Any) -> bool:
            nonlocal shared
            found = differ(answer, self.reference, case, self.name, self.observe)
            shared = shared or class_state(answer) != before
            if found is not None:
                differs[repr(case)] = found
            return found is not None

        case = smallest(parts, self.cases, self.strategy)
        if case is None:
            return RIGHT, "right on every case tried", None
        mixed = "is your state shared between objects? Make it in __init__, as self.something"
        if case is INCONSTANT:
            hint = mixed if shared else "keep nothing between two calls"
            return WRONG, f"gives different answers to the same arguments. Hint: {hint}", None
        found = differs[repr(case)]
        if not found.got.attempted and case is self.cases[0]:
            return NOT_ATTEMPTED, "not attempted yet", None
        best = mixed if shared else self._hint_for(answer, case, found)
        return WRONG, f"{found}{f'. Hint: {best}' if best else ''}", found

    def _hint_for(self, answer: Any, case: Any, found: Difference) -> str | None:
        """The hint of the stored wrong answer that does what `answer` does, here and on every hand-picked case.

        Otherwise one for a result of the wrong kind, or the general one; none where nothing is returned at all or a
        name is missing, because the line says that already.
        """
        if isinstance(found.got.error, TooLong):
            return form_hint(found)  # at once: each further case would take as long again
        for wrong in self.wrong:
            if not any(differ(answer, wrong.answer, other, self.name, self.observe) for other in [case, *self.cases]):
                return wrong.hint
        if hint := form_hint(found):
            return hint
        if isinstance(found.got.error, (AttributeError, NameError)) and found.expected.error is None:
            return None
        functions = not isinstance(case, Script) and found.got.error is None
        if functions and all(attempt(answer, other).value is None for other in [case, *self.cases]):
            return None  # "did you forget to return it?" has been asked
        return self.hint


@dataclass(frozen=True)
class Hunt:
    """A bug to find: the answer returns a case (a tuple of arguments, or a `Script`) on which `careless` is wrong.

    `advice`, when given, looks at a case that does no harm and gives a hint that fits it, or `None`; `praise` looks at
    one that does, and has a word to add.
    """

    id: str
    name: str
    careless: Callable[..., Any]
    reference: Callable[..., Any]
    hint: str
    example: Any
    wrong: Sequence[Wrong] = ()
    observe: str | None = None
    advice: Callable[[Any], str | None] | None = None
    praise: Callable[[Any], str] | None = None

    def judge(self, answer: Any) -> tuple[str, str, Difference | None]:
        """The mark for the case that `answer()` returns, and what both sides do on it."""
        given = attempt(answer, ())
        if not given.attempted:
            return NOT_ATTEMPTED, "not attempted yet", None
        if malformed := self._malformed(given):
            return WRONG, f"{self.name}: {malformed}", None
        case = given.value
        call = f"{self.name}{case!r}" if isinstance(case, Script) else self.name + arguments(case)
        right = Outcome() if isinstance(case, Script) else attempt(self.reference, case)
        valid = right.error is None
        found = differ(self.careless, self.reference, case, self.name, self.observe) if valid else None
        if found is not None:
            more = f". {attempt(self.praise, (case,)).value}" if self.praise else ""
            return RIGHT, f"bug found: {found}{more}", None
        hint = next((w.hint for w in self.wrong if _same_case(given, attempt(w.answer, ()))), None)
        if hint is None and isinstance(case, Script) and (error := refused(self.reference, case)):
            return WRONG, f"{self.name}: {error}, on both. Hint: {_FIX_FIRST}", None
        if hint is None and self.advice is not None:
            hint = attempt(self.advice, (case,)).value
        what = f"on {call} the careless one does no harm" if valid else f"{call} is not a valid call, {right}"
        return WRONG, f"{what}. Hint: {hint or (self.hint if valid else _FIX_FIRST)}", None

    def _malformed(self, given: Outcome) -> str | None:
        """Why the answer is not a case at all, in words; `None` if it is one."""
        case = given.value
        if given.error is not None:
            return f"your code ended in {given}"
        if not isinstance(case, type(self.example)):
            wanted = "a Script of operations"
            if isinstance(self.example, tuple):
                wanted = f"a tuple of arguments{', here of one: (argument,)' if len(self.example) == 1 else ''}"
            forgot = "" if case is not None else f": {'you printed; ' if given.printed else ''}return it"
            return f"got {given}, expected {wanted}{forgot}"
        if isinstance(case, Script):
            return case.problem(like=self.example)
        return None


def _same_case(one: Outcome, other: Outcome) -> bool:
    return repr(one.value) == repr(other.value) and type(one.error) is type(other.error)


def check(exercise: str, answer: Any) -> None:
    """Judge `answer` to an exercise, named as in the notebook ("1.3 best_page_size"), and print one line; never raises.

    The line is ⬜ not attempted, ❌ with the smallest failing case and a hint, or ✅. Where a structure went wrong, it
    is drawn beside the expected one, at the step where they part.

    >>> def best_page_size(lengths, sizes, most_waste):
    ...     return max(sizes)
    >>> check("1.3 best_page_size", best_page_size)  # doctest: +ELLIPSIS
    ❌ 1.3 best_page_size([100, 200], [1, 16, 64, 256], 0.1) gave 256, expected 16. Hint: for each size count ...
    """
    try:
        found = find_exercise(str(exercise))
    except LookupError as error:
        print(f"{WRONG} {error}")
        return
    try:
        mark, words, difference = found.judge(answer)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever an answer manages to break, the notebook goes on
        mark, words, difference = WRONG, f"{found.name}: could not be judged, {type(error).__name__}", None
    link = " " if words.startswith((found.name, "on ")) else f" {found.name}: "
    print(f"{mark} {found.id}{link}{words}")
    if mark != NOT_ATTEMPTED:
        remember(found.id, mark)
    if difference is not None and difference.yours is not None:
        _show_both(difference)


def find_exercise(name: str) -> Exercise | Hunt:
    """The exercise whose id is the first word of `name`; `LookupError` says which there are.

    >>> find_exercise("1.3 best_page_size").name
    'best_page_size'
    """
    wanted = name.split()[0] if name.split() else name
    known = [exercise for chapter in CHAPTERS for exercise in exercises_of(chapter)]
    for exercise in known:
        if exercise.id == wanted:
            return exercise
    raise LookupError(f"there is no exercise {wanted!r}; there are {', '.join(e.id for e in known)}")


def exercises_of(chapter: int) -> Sequence[Exercise | Hunt]:
    """The exercises of a chapter, in order.

    >>> [exercise.id for exercise in exercises_of(1)]
    ['1.3', '1.4']
    """
    rule = f"chapters {', '.join(map(str, CHAPTERS))} have exercises"
    number = whole_number("chapter", chapter, 0, rule)
    if number not in CHAPTERS:
        raise ValueError(f"chapter is {bounded(number)}: {rule}")
    found: Sequence[Exercise | Hunt] = importlib.import_module(f"minikv.course.exercises.ch{number:02d}").EXERCISES
    return found


def _show_both(difference: Difference) -> None:
    """Draw what the answer made beside what was expected, if it can be drawn and if that shows a difference."""
    from minikv.course.pictures import beside, draw

    drawn = attempt(lambda: [draw(difference.yours), draw(difference.reference)], ())
    if drawn.error is not None or drawn.value[0].text == drawn.value[1].text:
        return
    print("yours, and beside it what was expected:")
    try:
        from IPython.display import display
    except ImportError:
        print(beside(*drawn.value))
    else:
        display(beside(*drawn.value))  # type: ignore[no-untyped-call]
