"""Playing a case on both sides, and finding where an answer parts from what is expected."""

from __future__ import annotations

import copy
import linecache
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from hypothesis.strategies import SearchStrategy

from minikv.course.pieces.identity import ALL_RIGHT
from minikv.course.pieces.piece import GAVE, CaseFrame, Piece, cases_for, print_for
from minikv.engine import World, classes_for, engine_world, given, ours, pieces_up_to
from minikv.testing.attempt import MOST_SECONDS, Outcome, TooLong, agree, attempt, held, is_own, short_repr
from minikv.testing.conformance.generate import INCONSTANT, smallest_case

MOST_WORDS = 200  # letters of a tree in a message
NO_END = (
    f"Stopped after {MOST_SECONDS:g} seconds. Does each pass through your loop make progress, "
    "and are there few enough passes?"
)
# The cases of each strategy. Hypothesis would make the same ones again, which takes six times as long as playing them.
_made: WeakKeyDictionary[SearchStrategy[Any], list[Any]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Played:
    """The frames of a case up to its end, or up to the error that ended it."""

    frames: list[CaseFrame]
    outcome: Outcome

    def is_like(self, other: Played) -> bool:
        """Return whether both show the same and end in the same way."""
        seen = [[value for frame in side.frames for value in frame.seen.items()] for side in (self, other)]
        alike = len(seen[0]) == len(seen[1]) and all(map(_looks_like, *seen))
        return alike and _ending(self.outcome) == _ending(other.outcome)


@dataclass(frozen=True)
class Parting:
    """The first frame in which two sides differ: what is seen there, or how yours ended.

    `got` is what the answer came to, and `expected`, in an exercise, what it should come to. Of an error, `place` is
    the line of the answer in which it was raised and what was expected there, in words, and `kind` its kind. Of a value
    that differs, `seen` is its name, what it is, what it should be, and what it was before.
    """

    case: Any
    at: int
    caption: str
    difference: str
    got: Outcome
    expected: Outcome | None = None
    place: str = ""
    kind: str = ""
    seen: tuple[str, Any, Any, Any] = ("", None, None, None)

    @property
    def words(self) -> str:
        """The difference, and where an error was raised."""
        return self.difference + self.place

    @property
    def alike(self) -> str:
        """The part that another answer with the same mistake shares: of an error its kind, not the learner's words."""
        return self.kind or self.difference


def _looks_like(one: tuple[str, Any], other: tuple[str, Any]) -> bool:
    if isinstance(one[1], Outcome) and isinstance(other[1], Outcome):
        return one[1].agrees(other[1]) and other[1].agrees(one[1])
    return one[0] == other[0] and _words(one[1]) == _words(other[1])


def _ending(outcome: Outcome) -> str:
    """The error that ended a case, by its kind; in words only where they are Python's own, or the package's.

    Those of the learner's `raise` may be any, and those of a `RecursionError` depend on where the stack ends.
    """
    is_kind = isinstance(outcome.error, RecursionError | None) or is_own(outcome.error)
    return type(outcome.error).__name__ if is_kind else str(outcome)


def play_case(
    piece: Any, world: World, case: Any, keep: Callable[[CaseFrame], CaseFrame] = lambda frame: frame
) -> Played:
    """Play a case quietly, in limited time; never raises."""
    frames: list[CaseFrame] = []

    def go() -> None:
        for frame in piece.play(world, case):
            frames.append(keep(frame))

    with held([globals(), attempt.__globals__]):
        return Played(frames, attempt(go, ()))


def world_for(piece: Piece, answer: Any, others: World, accepted: World | None = None) -> World:
    """Return the world that an answer is judged in: its notebook's helpers and `Node`, our classes, the other pieces.

    They are the accepted ones, or else ours, so a `walk` that is half done does not make `insert` wrong. An exercise
    needs nothing but the answer.
    """
    if piece.reference is not None:
        return {piece.name: answer}
    world = dict(others)
    for name, value in others.items():
        if type(value) is FunctionType and value.__globals__ is others:
            world[name] = rebound(value, world)
    given(world, *classes_for(piece.chapter))
    if "Node" in others:
        world["Node"] = others["Node"]
    world.setdefault("print", print_for(answer, (accepted or {}).values()))
    for section in pieces_up_to(piece.chapter):
        known = (accepted or {}).get(section.id)
        world[section.name] = ours(section.id, world) if known is None else rebound(known, world)
    world[piece.name] = rebound(answer, world)
    return world


def rebound(answer: Any, world: World) -> Any:
    """A plain function that finds its globals in `world`; anything else as it is."""
    if type(answer) is not FunctionType or answer.__closure__ is not None:
        return answer
    made = FunctionType(answer.__code__, world, answer.__name__, answer.__defaults__)
    made.__kwdefaults__ = answer.__kwdefaults__
    vars(made).update(vars(answer))
    return made


def parting(piece: Piece, world: World, case: Any, expected_world: World | None = None) -> Parting | None:
    """Return the first difference between the answer in `world` and the reference on a case, or `None`."""
    expected = play_case(piece, expected_world or reference_world(piece), case)
    if expected.outcome.error is not None:
        raise expected.outcome.error  # the case itself is broken
    return parted(piece, world, case, play_case(piece, world, case), expected)


def parted(piece: Any, world: World, case: Any, got: Played, expected: Played) -> Parting | None:
    """Return the first difference between a played case and what is expected, or `None`."""
    for at, frame in enumerate(expected.frames):
        if at == len(got.frames):
            return _ended(piece, case, at, frame, got.outcome, world)
        for name, value in frame.seen.items():
            mine = got.frames[at].seen.get(name)
            seen = (name, mine, value, got.frames[at - 1].seen.get(name) if at else None)
            if isinstance(value, Outcome) and isinstance(mine, Outcome):
                if not mine.agrees(value):
                    mine = Outcome(mine.value, mine.error, got.outcome.printed)
                    kind = f"{frame.caption} gave {_ending(mine)}" if mine.error else ""
                    words = _gave(frame.caption, mine, value)
                    seen = ("the result", mine.value, value.value, None)
                    return Parting(case, at, frame.caption, words, mine, value, kind=kind, seen=seen)
            elif not agree(mine, value):
                words = f"{frame.caption}. {name[0].upper()}{name[1:]}: {_words(mine)}; expected: {_words(value)}"
                if value == ALL_RIGHT:
                    words = f"{frame.caption}: {_words(mine)}"
                return Parting(case, at, frame.caption, words, got.outcome, seen=seen)
    return None


def _gave(call: str, got: Outcome, expected: Outcome) -> str:
    """Say in words what a call returned in an exercise, and what was expected."""
    if got.value is None and got.error is None and expected.value is not None:
        forgot = "it printed something; return it" if got.printed else "did you forget to return it?"
        return f"{call} gave nothing ({forgot}), expected {expected}"
    back = "; raise the error, do not return it" if isinstance(got.value, BaseException) else ""
    return f"{call} gave {got}, expected {expected}{back}"


def _words(value: Any) -> str:
    if value is None:
        return "nothing (did you forget to return it?)"
    return value if isinstance(value, str) and len(value) < MOST_WORDS else short_repr(value)


def _ended(piece: Any, case: Any, at: int, frame: CaseFrame, outcome: Outcome, world: World) -> Parting:
    error, place, kind = outcome.error, "", f"{frame.caption} raised {_ending(outcome)}"
    if isinstance(error, NotImplementedError):
        words = f"{frame.caption}: not written yet"
    elif GAVE in frame.seen:
        words = _gave(frame.caption, outcome, frame.seen[GAVE])
    elif isinstance(error, TooLong):
        words = f"{frame.caption}. {NO_END}"
    elif isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
        words = f"{frame.caption}: {error}. If a cell above defines it, run the cells above first"
    else:
        words, place = f"{frame.caption} raised {outcome}", _line_of(error, world[piece.name]) + _instead(frame)
    return Parting(case, at, frame.caption, words, outcome, frame.seen.get(GAVE), place, kind)


def _instead(frame: CaseFrame) -> str:
    """Say what was expected where an answer raised an error: the first part of the frame that says something."""
    for name, value in frame.seen.items():
        if value not in (ALL_RIGHT, "no error", None):
            what = "" if name in ("raised", "what is returned") else f" {name}"
            return f"; expected{what}: {_words(value)}"
    return ""


def _line_of(error: BaseException | None, answer: Any) -> str:
    """The line of the answer in which an error was raised, in words."""
    code, line, trace = getattr(answer, "__code__", None), "", error.__traceback__ if error else None
    while trace is not None:
        if code is not None and trace.tb_frame.f_code is code:
            line = linecache.getline(code.co_filename, trace.tb_lineno).strip()
        trace = trace.tb_next
    return f", in your line `{line}`" if line else ""


def reference_world(piece: Piece) -> World:
    """Our engine, with our own function for this piece, where a later one has the same name.

    For an exercise it is what the exercise's file defines, with our answer also under the name `right`.
    """
    if piece.reference is not None:
        home = vars(sys.modules[piece.reference.__module__])
        return {**home, piece.name: piece.reference, "right": piece.reference}
    world = engine_world(*classes_for(piece.chapter))
    world[piece.name] = ours(piece.id, world)
    return world


@dataclass(frozen=True)
class Judgement:
    """The result of judging an answer: the smallest case that differs from the reference, and the number tried."""

    parting: Parting | None
    cases: int
    is_inconstant: bool = False


def smallest(differs: Callable[[Any], bool], cases: Iterable[Any], strategy: SearchStrategy[Any] | None) -> Any:
    """The first of `cases` that differs, or else the smallest that Hypothesis finds; `None` if there is none.

    >>> from hypothesis import strategies as st
    >>> smallest(lambda case: case[0] > 10, [(1,), (2,)], st.tuples(st.integers(0, 100)))
    (11,)
    """
    for case in cases:
        if differs(case):
            return case
    if strategy is None or not any(differs(copy.deepcopy(case)) for case in _cases_of(strategy)):
        return None
    found = smallest_case(differs, strategy)
    return INCONSTANT if found is None else found


def _cases_of(strategy: SearchStrategy[Any]) -> list[Any]:
    """The cases that Hypothesis makes, in its order."""
    made: list[Any] = []

    def noted(case: Any) -> bool:
        made.append(case)
        return False

    if strategy not in _made:
        smallest_case(noted, strategy)
        _made[strategy] = made
    return _made[strategy]


def judge(piece: Piece, world: World, thorough: bool = True) -> Judgement:
    """Play the hand-picked cases, and if `thorough` those that Hypothesis makes, and shrink the first that differs."""
    expected, found, count = reference_world(piece), dict[str, Parting](), 0

    def differs(case: Any) -> bool:
        nonlocal count
        if any(isinstance(parts.got.error, TooLong) for parts in found.values()):
            return repr(case) in found  # one wait is enough
        count += 1
        if (parts := parting(piece, world, case, expected)) is not None:
            found[repr(case)] = parts
        return parts is not None

    case = smallest(differs, cases_for(piece), piece.strategy if thorough else None)
    if case is INCONSTANT:
        return Judgement(None, count, is_inconstant=True)
    return Judgement(found.get(repr(case)) if case is not None else None, count)
