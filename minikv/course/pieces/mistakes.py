"""Hints: the ladder of a piece, and the one that fits a wrong answer, because a stored one does the same."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile
from operator import itemgetter
from typing import Any, NamedTuple
from unittest.mock import patch

from minikv.course.pieces.facts import about_depth, about_error, about_form, facts_of, is_deep
from minikv.course.pieces.observer import RETURNED, Raised
from minikv.course.pieces.piece import Piece, all_pieces, find_exercise, find_piece
from minikv.course.pieces.record import WRONG, sign
from minikv.course.pieces.showing import Code
from minikv.course.pieces.stored import WrongAnswer
from minikv.course.pieces.trial import FEW, Difference, Played, difference, made_cases, play_case, played_by_us
from minikv.course.pieces.worlds import node_of, reference_world, session
from minikv.engine import World, run_section
from minikv.testing.attempt import TooLong, is_own


class Mistake(NamedTuple):
    """A stored wrong answer; and whether the learner's answer does the same in every case, or only begins to."""

    wrong: WrongAnswer
    is_all: bool


class _Play(NamedTuple):
    """How a case was played with an answer, and how it first differs from ours, if it does."""

    played: Played
    found: Difference | None

    @property
    def alike(self) -> str | None:
        """The part of the difference that another answer with the same mistake shares."""
        return self.found.alike if self.found else None


def mistake_in(piece: Piece, world: World, case: Any) -> Mistake | None:
    """The stored wrong answer that the one in `world` is like, on `case` and on the hand-picked ones, or `None`.

    It does the same in all of them, or else it may be one of several mistakes. Both run among the learner's own pieces.
    Cases from the first on in which the answer does not end are not compared, nor the large ones, whose paths take as
    long as all others together: if `case` is one, it is the last, for those that did the same before it.
    """
    cases = [*_small_cases(piece), case] if is_deep(case) else [case, *_small_cases(piece)]
    expected = [played_by_us(piece, each, node_of(world)) for each in cases]
    mine, alike = [*_plays(piece, world, {}, cases, expected)], list[tuple[WrongAnswer, list[_Play], Iterator[_Play]]]()
    for wrong in piece.wrong if mine else ():
        theirs = world if piece.reference is None else reference_world(piece)  # an exercise's own helpers are there
        plays = _plays(piece, theirs, run_section(wrong.section, theirs, "<wrong>"), cases, expected)
        side = list[_Play]()
        for own, each in zip(mine, plays):
            side.append(each)
            if not own.played.is_like(each.played):
                break
        else:
            if len(side) == len(mine):
                return Mistake(wrong, is_all=True)
        if mine[0].found and side and side[0].alike == mine[0].alike:
            alike.append((wrong, side, plays))
    others = [(wrong, [*side, *islice(plays, len(mine) - len(side))]) for wrong, side, plays in alike]
    likely = _likeliest(mine, others)
    return Mistake(likely, is_all=False) if likely else None


def _small_cases(piece: Piece) -> list[Any]:
    """The hand-picked cases of a piece but for the large ones, and a few that are made."""
    return [*(case for case in piece.cases if not is_deep(case)), *copy.deepcopy(made_cases(piece.strategy, FEW))]


def _plays(
    piece: Piece, world: World, names: World, cases: Iterable[Any], expected: Iterable[Played]
) -> Iterator[_Play]:
    """The cases as they are asked for, with `names` in the world, up to the first in which the answer does not end."""
    for case, ours in zip(cases, expected):
        with patch.dict(world, names):
            played = play_case(piece, world, case)
            found = difference(piece, world, case, played, ours)
        if isinstance(played.outcome.error, TooLong):
            break
        yield _Play(played, found)


def _likeliest(mine: Sequence[_Play], others: Sequence[tuple[WrongAnswer, list[_Play]]]) -> WrongAnswer | None:
    """The stored answer that may be one of several mistakes in mine, or `None`.

    Mine must be wrong wherever that one is, and must differ from ours in the same way in 3 of those cases and in half
    of them. The one that differs so most often is taken, then the one with the fewest failures; a tie gives `None`.
    """
    ranked = []
    for wrong, side in others:
        pairs = [(theirs.alike, own.alike) for theirs, own in zip(side, mine)]
        failures = [pair for pair in pairs if pair[0] is not None]
        same = sum(theirs == own for theirs, own in failures)
        is_part = len(side) == len(mine) and all(own is not None for _, own in failures)
        if is_part and same >= 3 and 2 * same >= len(failures):
            ranked.append(((same, -len(failures)), wrong))
    best = [wrong for rank, wrong in ranked if rank == max(ranked, key=itemgetter(0))[0]]
    return best[0] if len(best) == 1 else None


def hint_for_exercise(exercise: Piece, world: World, found: Difference) -> str | None:
    """The hint for an answer to an exercise: that of a stored wrong answer that does what this one does in every case.

    Otherwise it is one for a result of the wrong kind or an error, or the general one; or none if the line says all.
    """
    if isinstance(found.error, TooLong):  # the line says it; each further case would take as long again
        return None
    if (mistake := mistake_in(exercise, world, found.case)) is not None and mistake.is_all:
        return mistake.wrong.hint
    if found.error and isinstance(found.right, Raised) and not is_own(found.error):
        return f"check for this case before that error occurs, and raise {found.right}"
    if form := about_form(found):
        return form
    general = exercise.hints[0] if found.path.startswith(RETURNED) else None
    if found.error or found.forgot:
        return about_error(found.error)  # or the line says it
    fact = about_difference(exercise, world, found)
    return "; ".join(filter(None, [fact and fact[2:], general])) or None


def hint_for(piece: Piece, world: World, found: Difference) -> tuple[str, bool]:
    """The hint for an answer to a piece, as it follows "Hint", and whether it names all that is wrong."""
    if depth := about_depth(found):
        return f": {depth}", False
    if isinstance(found.error, TooLong):  # each further look would take as long again
        return "", False
    if (mistake := mistake_in(piece, world, found.case)) is not None:
        return f"{' (perhaps)' * (not mistake.is_all)}: {mistake.wrong.hint}", mistake.is_all
    return about_difference(piece, world, found) or "", False


def about_difference(piece: Piece, world: World, found: Difference) -> str | None:
    """A hint with what is so wherever an answer differs in this place, or what an error of Python's is often about.

    >>> about_difference(find_piece("3.3"), {}, Difference((), 0, "", "", None, None, error=KeyError(7)))
    ' (perhaps): that key is not in the dictionary: check with `in` before you look it up, or use `get`'
    """
    if found.error is not None:
        return (hint := about_error(found.error)) and f" (perhaps): {hint}"
    cases, node = _small_cases(piece), node_of(world)
    ours = [played_by_us(piece, case, node) for case in cases]
    wrong = [play.found for play in _plays(piece, world, {}, cases, ours)]
    before = takewhile(lambda case: case is not found.case, piece.cases)  # all of these passed
    if any(wrong[: sum(not is_deep(case) for case in before)]):
        return ": a case that passed before fails now, so your code keeps state between calls"
    others = [facts_of(each) for each in wrong if each and each.path == found.path]
    facts = [fact for fact in facts_of(found) if all(fact in other for other in others)]
    return f": {facts[0]}" if facts else None


def hint(label: object = "") -> None:
    """Print a hint about a piece, named by its number or its name; each further call says a little more.

    >>> hint("3.3")
    Hint 1 of 3: Make the upper node first: it gets the first `at` tokens, the first `at` slots, and the old parent.
    """
    if (piece := _named(label)) is None:
        return
    step = session.hints_given[piece.id]
    if step < len(piece.hints):
        print(f"Hint {step + 1} of {len(piece.hints)}: {piece.hints[step]}")
    else:
        print(f'That was the last hint. solution("{piece.id}") shows the package\'s version.')
    session.hints_given[piece.id] = min(step + 1, len(piece.hints))


def solution(label: object = "") -> Code | None:
    """Our code for a piece, named by its number or its name.

    >>> print(solution("3.5"))
    def insert(root, tokens, slots):
        \"\"\"Cache `tokens`; return the node where they end, and how many were there.\"\"\"
        node, there = walk(root, tokens)
        if there < len(tokens):
            leaf = Node(tokens[there:], slots[there:], node)
            node.children[tokens[there]] = leaf
            node = leaf
        return node, there
    """
    piece = _named(label)
    return None if piece is None else Code(piece.solution)


def _named(label: object) -> Piece | None:
    """The piece with this number, or the only one with this name; else it says what there is."""
    name = str(getattr(label, "__name__", label)).strip()
    pieces = [piece] if (piece := find_piece(name)) else [piece for piece in all_pieces() if piece.name == name]
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        with contextlib.suppress(LookupError):
            print(f"{find_exercise(name).id} is an exercise. Its hint and solution are folded below it.")
            return None
        said = f"there is no piece {name!r:.60}." if name else "which piece?"
        print(f'{sign(WRONG)} {said} Give a number, as in hint("3.3"); progress() lists them.')
    else:
        ids = " or ".join(piece.id for piece in pieces)
        print(f"{sign(WRONG)} {name} is a piece in several chapters. Use {ids}.")
    return None
