"""The stored wrong answer that a learner's answer is like, whose hint can be given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minikv.course.pieces.piece import Piece, WrongAnswer
from minikv.course.pieces.trial import Played, parted, play, reference_world
from minikv.engine.sections import World, run_section
from minikv.testing.time_limit import TooLong


class Mistake(NamedTuple):
    """A stored wrong answer; and whether the learner's answer does the same in every case, or only begins to."""

    wrong: WrongAnswer
    is_all: bool


class _Side(NamedTuple):
    """How each case was played with an answer, and how it first differs from ours, if it does."""

    played: list[Played]
    differences: list[str | None]

    def is_like(self, other: _Side) -> bool:
        """Whether nothing can be seen that is not the same in the other."""
        return [played.trace for played in self.played] == [played.trace for played in other.played]


def mistake_in(piece: Piece, world: World, case: Any) -> Mistake | None:
    """The stored wrong answer that the one in `world` is like, on `case` and on the hand-picked ones, or `None`.

    It does the same in all of them, or else it may be one of several mistakes. Cases from the first on in which the
    answer does not end are not compared.
    """
    reference, cases = reference_world(piece), [case, *piece.cases]
    expected = [play(piece, reference, each) for each in cases]
    mine = _side(piece, world, cases, expected)
    cases, alike = cases[: len(mine.played)], list[tuple[WrongAnswer, _Side]]()
    for wrong in piece.wrong if cases else ():
        theirs = reference_world(piece)
        theirs.update(run_section(wrong.section, theirs, "<wrong>"))
        if _side(piece, theirs, cases[:1], expected).differences == mine.differences[:1]:
            alike.append((wrong, _side(piece, theirs, cases, expected)))
            if alike[-1][1].is_like(mine):
                return Mistake(wrong, is_all=True)
    likely = _likeliest(mine, alike)
    return Mistake(likely, is_all=False) if likely else None


def _side(piece: Piece, world: World, cases: Sequence[Any], expected: Sequence[Played]) -> _Side:
    """One answer's side, up to the first case in which it does not end: each further one may take as long."""
    side = _Side([], [])
    for case, ours in zip(cases, expected):
        played = play(piece, world, case)
        if isinstance(played.outcome.error, TooLong):
            break
        found = parted(piece, world, case, played, ours)
        side.played.append(played)
        side.differences.append(found.difference if found else None)
    return side


def _likeliest(mine: _Side, others: Sequence[tuple[WrongAnswer, _Side]]) -> WrongAnswer | None:
    """The stored answer that may be one of several mistakes in mine, or `None`.

    Mine must be wrong wherever that one is, and must differ from ours in the same way in 3 of those cases and in half
    of them. The one that differs so most often is taken, then the one with the fewest failures; a tie gives `None`.
    """
    ranked = []
    for number, (_, side) in enumerate(others):
        failures = [pair for pair in zip(side.differences, mine.differences) if pair[0] is not None]
        same = sum(theirs == own for theirs, own in failures)
        is_part = len(side.played) == len(mine.played) and all(own is not None for _, own in failures)
        if is_part and same >= 3 and 2 * same >= len(failures):
            ranked.append((same, -len(failures), number))
    ranked.sort(reverse=True)
    if not ranked or (len(ranked) > 1 and ranked[0][:2] == ranked[1][:2]):
        return None
    return others[ranked[0][2]][0]
