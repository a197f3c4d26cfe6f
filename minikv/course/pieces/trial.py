"""Playing a case with an answer and with ours, and finding the first thing that differs."""

from __future__ import annotations

import copy
import linecache
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

from hypothesis.strategies import SearchStrategy

from minikv.course.pieces.observer import ALL_RIGHT, RETURNED, Observer, Raised, Seen, Words, same
from minikv.course.pieces.piece import CALLERS, Piece, cases_for
from minikv.course.pieces.worlds import node_of, reference_world
from minikv.engine import World
from minikv.testing.attempt import MOST_SECONDS, Outcome, TooLong, attempt, held, is_own, short_repr
from minikv.testing.scenarios import INCONSTANT, smallest_case

_FORGOT = "did you forget to return it?"
MADE, FEW = 300, 30  # cases
MOST_WORDS = 200  # letters of a description in a message
NO_END = (
    f"Stopped after {MOST_SECONDS:g} seconds. Does each pass through your loop make progress, "
    "and are there few enough passes?"
)


class PlayedFrame(NamedTuple):
    """A step of a case that was played: what was done, what is seen, by path; a picture, or what to draw."""

    caption: str
    seen: Seen
    picture: Any


@dataclass(frozen=True)
class Played:
    """The frames of a case up to its end, or up to the error that ended it."""

    frames: list[PlayedFrame]
    outcome: Outcome

    @property
    def shown(self) -> list[Any]:
        """Return what was seen, and how it ended, which another answer that does the same has, too."""
        return [*(list(frame.seen.items()) for frame in self.frames), _ending(self.outcome)]

    def is_like(self, other: Played) -> bool:
        """Return whether both show the same and end in the same way."""
        return same(self.shown, other.shown)


@dataclass(frozen=True)
class Difference:
    """The first difference of an answer from ours: after `caption`, in what is seen at `path`.

    There is `mine`, `right` is expected, and in the frame `before` there was that. Where the answer ended in an error,
    `error` is it, and `path` and `right` are what was expected first. Where it returned nothing, it may have `forgot`.
    """

    case: Any
    at: int
    caption: str
    path: str
    mine: Any
    right: Any
    before: Any = None
    error: BaseException | None = None
    printed: str = ""
    forgot: str = ""
    answer: Any = None
    is_constant: bool = True

    @property
    def attempted(self) -> bool:
        """Return whether the code was there to run."""
        return not isinstance(self.error, NotImplementedError)

    @property
    def alike(self) -> str:
        """The part that another answer with the same mistake shares: of an error its kind, not the learner's words."""
        return f"{self.caption} raised {_ending(Outcome(error=self.error))}" if self.error else self._differs

    @property
    def words(self) -> str:
        """The difference in words; of an error, the line of the answer in which it was raised.

        What is expected is named, unless only its outline is known.

        >>> for right in ([1], Words("2 values")):
        ...     print(Difference((), 0, "f()", RETURNED, None, right, error=ValueError("no")).words)
        f() raised ValueError (no); expected: [1]
        f() raised ValueError (no)
        """
        error, caption = self.error, self.caption
        if not self.is_constant:
            return "gives different answers to the same input"
        if error is None:
            return self._differs
        if isinstance(error, NotImplementedError):
            return f"{caption}: not written yet"
        if isinstance(error, TooLong):
            return f"{caption}. {NO_END}"
        if isinstance(error, NameError) and not isinstance(error, UnboundLocalError):
            return f"{caption}: {error}. If a cell above defines it, run the cells above first"
        is_outline = self.right is None or (isinstance(self.right, Words) and self.right[0].isdigit())
        instead = "" if is_outline else f"; expected: {seen_in_words(self.right)}"
        return f"{caption} raised {Outcome(error=error)}{_line_of(error, self.answer)}{instead}"

    @property
    def _differs(self) -> str:
        is_result = self.path.startswith(RETURNED)
        mine, right = (seen_in_words(value, is_quoted=is_result) for value in (self.mine, self.right))
        if self.right == ALL_RIGHT:
            return f"{self.caption}: {mine}"
        if self.path != RETURNED:
            mine = f"{mine}; expected: {right}"
            if is_result:
                return f"{self.caption}{self.path.removeprefix(RETURNED)} is {mine}"
            owner = CALLERS.format("") if self.path.startswith(CALLERS.format("")) else ""
            path = self.path.removeprefix(owner)
            return f"after {self.caption}, {owner}" + (f"`{path}` is {mine}" if is_code(path) else f"{path}: {mine}")
        said = f"raises {mine}" if isinstance(self.mine, Raised) else f"returns {mine}"
        if self.mine is None and (self.forgot or isinstance(self.right, Raised)):
            said = "raises no error" if isinstance(self.right, Raised) else f"returns nothing ({self.forgot})"
        return f"{self.caption} {said}; expected: {'a new one, ' * mine.startswith('the same ')}{right}"


class Verdict(NamedTuple):
    """The output of `check`: the mark, the words after it, further lines, and a film; `hint` is the one among them."""

    mark: str
    words: str
    notes: Sequence[str] = ()
    film: Any = None
    hint: str = ""


def is_code(path: str) -> bool:
    """Return whether a path is written as code; what is no code has a name in words.

    >>> is_code("pool.stack"), is_code("free pages")
    (True, False)
    """
    return " " not in path.split("[")[0]


def seen_in_words(value: Any, is_quoted: bool = False) -> str:
    """A value that was seen, in a message; what is returned `is_quoted`, if it is text.

    >>> seen_in_words([1, 2]), seen_in_words("a" * 99) == "a" * 99, seen_in_words("a", is_quoted=True)
    ('[1, 2]', True, "'a'")
    """
    is_said = isinstance(value, Words) or (isinstance(value, str) and not is_quoted)
    return value if is_said and len(value) < MOST_WORDS else short_repr(value)


def _ending(outcome: Outcome) -> str:
    """The error that ended a case, by its kind; in words only where they are Python's own, or the package's.

    Those of the learner's `raise` may be any, and those of a `RecursionError` depend on where the stack ends.
    """
    is_kind = isinstance(outcome.error, RecursionError | None) or is_own(outcome.error)
    return type(outcome.error).__name__ if is_kind else str(outcome)


def _line_of(error: BaseException, answer: Any) -> str:
    """The line of the answer in which an error was raised, in words."""
    code, line, trace = getattr(answer, "__code__", None), "", error.__traceback__
    while trace is not None:
        if code is not None and trace.tb_frame.f_code is code:
            line = linecache.getline(code.co_filename, trace.tb_lineno).strip()
        trace = trace.tb_next
    return f", in your line `{line}`" if line else ""


def play_case(
    piece: Any, world: World, case: Any, keep: Callable[[PlayedFrame], PlayedFrame] = lambda frame: frame
) -> Played:
    """Play a case quietly, in limited time; never raises. `keep` may make pictures of the things in a frame."""
    frames, observer = list[PlayedFrame](), Observer()

    def go() -> None:
        for caption, things, picture, _ in piece.play(world, case):
            frames.append(keep(PlayedFrame(caption, observer.look(things), picture or [*things.values()])))

    with held([globals(), attempt.__globals__, same.__globals__]):
        return Played(frames, attempt(go))


def difference(piece: Any, world: World, case: Any, got: Played, expected: Played) -> Difference | None:
    """Return the first difference between a played case and what is expected, or `None`."""
    if expected.outcome.error is not None:
        raise expected.outcome.error  # the case itself is broken
    more: dict[str, Any] = {"printed": got.outcome.printed, "answer": world.get(piece.name)}
    for at, (own, frame) in enumerate(zip(got.frames, expected.frames)):
        for path, right in frame.seen.items():
            mine = own.seen.get(path, Words("not there"))
            if not same(mine, right):
                if (path, mine) == (RETURNED, None) and not _may_be_none(piece):
                    more["forgot"] = "it printed something; return it" if more["printed"] else _FORGOT
                before = got.frames[at - 1].seen.get(path) if at else None
                return Difference(case, at, frame.caption, path, mine, right, before, **more)
    is_whole = got.outcome.error is None and len(got.frames) == len(expected.frames)
    if is_whole or not expected.frames:  # a case without a frame asks for nothing
        return None
    at = min(len(got.frames), len(expected.frames) - 1)
    caption, seen, _ = expected.frames[at]
    return Difference(case, at, caption, RETURNED, None, seen.get(RETURNED), error=got.outcome.error, **more)


@cache
def _may_be_none(piece: Any) -> bool:
    """Return whether our code returns `None` in some case: then nobody has forgotten to return anything."""
    if not isinstance(piece, Piece):
        return True
    frames = [frame for case in cases_for(piece) for frame in played_by_us(piece, case).frames]
    own = [frame for frame in frames if re.findall(r"(\w+)\(", frame.caption)[-1:] == [piece.name]]
    return any(frame.seen.get(RETURNED, "") is None for frame in own)


def played_by_us(piece: Piece, case: Any, node: Any = None) -> Played:
    """How a case is played with our code, and a `node` of its own, without pictures; known for the last pieces."""
    known, world = _known(piece, node)
    if (words := repr(case)) not in known:
        known[words] = play_case(piece, world, case, lambda frame: frame._replace(picture=None))
    return known[words]


@lru_cache(maxsize=2)
def _known(piece: Piece, node: Any) -> tuple[dict[str, Played], World]:
    return {}, reference_world(piece, node)


def smallest(differs: Callable[[Any], bool], cases: Iterable[Any], strategy: SearchStrategy[Any] | None) -> Any:
    """The first of `cases` that differs, or else the smallest that Hypothesis finds; `None` if there is none.

    >>> from hypothesis import strategies as st
    >>> smallest(lambda case: case[0] > 10, [(1,), (2,)], st.tuples(st.integers(0, 100)))
    (11,)
    """
    for case in cases:
        if differs(case):
            return case
    if strategy is None or not any(differs(copy.deepcopy(case)) for case in made_cases(strategy, MADE)):
        return None
    found = smallest_case(differs, strategy)
    return INCONSTANT if found is None else found


@cache
def made_cases(strategy: SearchStrategy[Any], most: int) -> list[Any]:
    """The cases that Hypothesis makes, in its order; to make them takes six times as long as to play them."""
    made: list[Any] = []

    def noted(case: Any) -> bool:
        made.append(case)
        return False

    smallest_case(noted, strategy, examples=most)
    return made


def judge(piece: Piece, world: World, thorough: bool = True) -> Difference | None:
    """The first hand-picked case in which an answer differs from ours, or the smallest that is made for it.

    If it is not `thorough`, few are made.
    """
    node, found = node_of(world), dict[str, Difference]()

    def differs(case: Any) -> bool:
        if any(isinstance(each.error, TooLong) for each in found.values()):
            return repr(case) in found  # one wait is enough
        played = play_case(piece, world, case)
        if (each := difference(piece, world, case, played, played_by_us(piece, case, node))) is not None:
            found[repr(case)] = each
        return each is not None

    few = [] if thorough else made_cases(piece.strategy, FEW)
    case = smallest(differs, [*cases_for(piece), *copy.deepcopy(few)], piece.strategy if thorough else None)
    if case is INCONSTANT:
        return Difference(None, 0, "", "", None, None, is_constant=False)
    return found.get(repr(case)) if case is not None else None


def cases_tried(piece: Piece) -> int:
    """How many cases a right answer is tried on: the picked ones of all pieces that share its play, and the made ones.

    >>> from minikv.course.pieces.piece import pieces_of
    >>> [cases_tried(piece) for piece in pieces_of(2)[:3]]   # 2.1 and 2.3 share one
    [312, 304, 312]
    """
    return len(cases_for(piece)) + len(made_cases(piece.strategy, MADE))
