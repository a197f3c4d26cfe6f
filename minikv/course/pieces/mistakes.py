"""Hints: the ladder of a piece, and the one that fits a wrong answer, because a stored one does the same."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice, takewhile
from typing import Any, NamedTuple
from unittest.mock import patch

from minikv.course.pieces.observe import DEEP
from minikv.course.pieces.piece import Piece, all_pieces, find_exercise, find_piece
from minikv.course.pieces.record import WRONG, sign
from minikv.course.pieces.showing import Code
from minikv.course.pieces.stored import ABOUT_ERRORS, WrongAnswer
from minikv.course.pieces.trial import Parting, Played, parted, play_case, reference_world
from minikv.engine import World, run_section
from minikv.testing.attempt import Outcome, TooLong, attempt, is_own, type_in_words

hints_given: dict[str, int] = {}  # by piece, how many hints were given in this session


class Mistake(NamedTuple):
    """A stored wrong answer; and whether the learner's answer does the same in every case, or only begins to."""

    wrong: WrongAnswer
    is_all: bool


class _Play(NamedTuple):
    """How a case was played with an answer, and how it first differs from ours, if it does."""

    played: Played
    found: Parting | None

    @property
    def difference(self) -> str | None:
        """The part of the difference that another answer with the same mistake shares."""
        return self.found.alike if self.found else None


def mistake_in(piece: Piece, world: World, case: Any) -> Mistake | None:
    """The stored wrong answer that the one in `world` is like, on `case` and on the hand-picked ones, or `None`.

    It does the same in all of them, or else it may be one of several mistakes. Both run among the learner's own pieces.
    Cases from the first on in which the answer does not end are not compared, nor the large ones, whose paths take as
    long as all others together and tell only whether an answer calls itself.
    """
    hand_picked, expected = _expected(piece)
    cases, expected = [case, *hand_picked], [play_case(piece, reference_world(piece), case), *expected]
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
        if side and side[0].difference == mine[0].difference:
            alike.append((wrong, side, plays))
    others = [(wrong, [*side, *islice(plays, len(mine) - len(side))]) for wrong, side, plays in alike]
    likely = _likeliest(mine, others)
    return Mistake(likely, is_all=False) if likely else None


@cache
def _expected(piece: Piece) -> tuple[list[Any], list[Played]]:
    """The hand-picked cases of a piece but for the large ones, and how each is played with ours, without pictures."""
    reference, cases = reference_world(piece), [case for case in piece.cases if not _is_deep(case)]
    return cases, [play_case(piece, reference, case, lambda frame: frame._replace(thing=None)) for case in cases]


def _plays(
    piece: Piece, world: World, names: World, cases: Iterable[Any], expected: Iterable[Played]
) -> Iterator[_Play]:
    """The cases as they are asked for, with `names` in the world, up to the first in which the answer does not end."""
    for case, ours in zip(cases, expected):
        with patch.dict(world, names):
            played = play_case(piece, world, case)
            found = parted(piece, world, case, played, ours)
        if isinstance(played.outcome.error, TooLong):
            break
        yield _Play(played, found)


def _likeliest(mine: Sequence[_Play], others: Sequence[tuple[WrongAnswer, list[_Play]]]) -> WrongAnswer | None:
    """The stored answer that may be one of several mistakes in mine, or `None`.

    Mine must be wrong wherever that one is, and must differ from ours in the same way in 3 of those cases and in half
    of them. The one that differs so most often is taken, then the one with the fewest failures; a tie gives `None`.
    """
    ranked = []
    for number, (_, side) in enumerate(others):
        pairs = [(theirs.difference, own.difference) for theirs, own in zip(side, mine)]
        failures = [pair for pair in pairs if pair[0] is not None]
        same = sum(theirs == own for theirs, own in failures)
        is_part = len(side) == len(mine) and all(own is not None for _, own in failures)
        if is_part and same >= 3 and 2 * same >= len(failures):
            ranked.append((same, -len(failures), number))
    ranked.sort(reverse=True)
    if not ranked or (len(ranked) > 1 and ranked[0][:2] == ranked[1][:2]):
        return None
    return others[ranked[0][2]][0]


def hint_for(exercise: Piece, world: World, found: Parting) -> str | None:
    """The hint for an answer to an exercise: that of a stored wrong answer that does what this one does in every case.

    Otherwise it is one for a result of the wrong kind or an error, or the general one; or none if the line says all.
    """
    if isinstance(found.got.error, TooLong):  # each further case would take as long again
        return "does each pass through your loop make progress, and are there few enough passes?"
    if (mistake := mistake_in(exercise, world, found.case)) is not None and mistake.is_all:
        return mistake.wrong.hint
    if found.expected is None:
        return None  # the line says it: what is wrong is not what the call gave
    if found.got.error and found.expected.error and not is_own(found.got.error):
        return f"ask for this case before it comes to that error, and raise a {type(found.expected.error).__name__}"
    form = about_form(found.got, found.expected)
    if form or (found.got.value is None and not found.expected.error):  # there is an error, or the line says it all
        return form or _about_error(found.got)
    fact = about_difference(exercise, world, found)
    return f"{fact[2:]}; {exercise.hints[0]}" if fact else exercise.hints[0]


# What lasts from one call to the next.
_STATE = r"tree|trie|ring\b|table|stack|oldest|pages (in|marked)|protected|free|cached tokens|is (held|cached)|blocks\b"


def about_difference(piece: Piece, world: World, found: Parting) -> str | None:
    """A hint with what is so wherever an answer differs in this place, or what an error of Python's is often about.

    >>> about_difference(find_piece("3.1"), {}, Parting((), 0, "", "", Outcome(error=KeyError(7))))
    ' (perhaps): that key is not in the dictionary: ask with `in` before you look it up, or use `get`'
    """
    if not (name := found.seen[0]):
        return (hint := _about_error(found.got)) and f" (perhaps): {hint}"
    wrong = [play.found for play in _plays(piece, world, {}, *_expected(piece))]
    before = takewhile(lambda case: case is not found.case, piece.cases)  # all of these passed
    if any(wrong[: sum(not _is_deep(case) for case in before)]):
        return ": a case that passed before fails now: something is left from one call to the next"
    others = [_facts(*parts.seen) for parts in wrong if parts and parts.seen[0] == name]
    facts = [fact for fact in _facts(*found.seen) if all(fact in other for other in others)]
    return f": {facts[0]} ({name})" if facts else None


def _about_error(got: Outcome) -> str | None:
    """Return what an error of Python's is often about; `None` where there is none, or it is the answer's own."""
    said = "" if got.error is None or is_own(got.error) else str(got)
    return next((hint for pattern, hint in ABOUT_ERRORS.items() if re.search(pattern, said)), None)


def _facts(*seen: Any) -> list[str]:
    """Return what is so of a value, and of what is expected: the most telling comes first."""
    facts: dict[str, bool] = attempt(lambda: _facts_of_state(*seen) | _facts_of_value(*seen[1:3])).value or {}
    return [fact for fact, is_so in facts.items() if is_so]


def _facts_of_state(name: str, mine: Any, right: Any, before: Any) -> dict[str, bool]:
    if "must not change" in name:
        more = len(re.findall(r"\w+", str(mine))) - len(re.findall(r"\w+", str(right)))
        facts = {"your code takes items out, as `pop` does": more < 0, "your code adds to it, as `+=` does": more > 0}
        return facts | {"that is what the caller passed in: work on a copy of it": True}
    if name in ("from the oldest to the newest", "and back"):  # the way back is seen last
        said = "the `newer` links are correct, and an `older` is not"
        return {"a node points at itself": bool(re.search(r"(\[[^]]*\]) → \1 → …", str(mine))), said: name[0] == "a"}
    if before is None or not re.search(_STATE, name):
        return {}
    return {"the call leaves it as it was": mine == before, "it should stay as it was": right == before}


def _facts_of_value(mine: Any, right: Any) -> dict[str, bool]:
    if type(mine) is int and type(right) is int:
        return {"too large by 1": mine == right + 1, "too small by 1": mine == right - 1}
    one, other = (re.split(r" (?:→|\|) ", value) if isinstance(value, str) else value for value in (mine, right))
    if not isinstance(one, list) or not isinstance(other, list):
        return {}
    given, wanted = Counter(map(repr, one)), Counter(map(repr, other))
    return {
        "nothing is there": not one,
        "nothing should be there": not other,
        "the right items, in the opposite order": one == other[::-1],
        "the right items, in another order": given == wanted,
        "the last item is missing": one == other[:-1],
        "it stops too early": one == other[: len(one)],
        "it begins too late": one == other[-len(one) :],
        "there is too much at its end": one[: len(other)] == other,
        "some items are missing, and none is wrong": given < wanted,
        "nothing is missing, but there is too much": given > wanted,
    }


def about_depth(found: Parting) -> str | None:
    """A hint for an answer that calls itself for each node of a path, where that is all that is wrong with it.

    >>> about_depth(Parting(("1",), 0, "", "", Outcome(error=RecursionError())))
    """
    if not _is_deep(found.case) or not isinstance(found.got.error, RecursionError):
        return None
    return f"use a loop: Python allows about 1,000 calls inside one another, and {DEEP:,} are needed here"


def _is_deep(case: Any) -> bool:
    return len(said := str(case)) > DEEP or re.match(rf"\W*(1, )?{DEEP}\b", said) is not None


def about_form(got: Outcome, expected: Outcome) -> str | None:
    """A hint for a result of the wrong kind, to which what an exercise has to say about values does not fit.

    >>> about_form(Outcome({1}), Outcome([1]))
    'return a list, not a set'
    >>> about_form(Outcome([1]), Outcome([2]))
    """
    if got.value is None and got.printed:
        return "print only shows a value; return gives it to the caller"
    if got.error is not None or expected.error is not None:
        return None
    kinds = [type_in_words(outcome.value) for outcome in (got, expected)]
    if kinds[0] != kinds[1] and got.value is not None and expected.value is not None:
        return f"return {kinds[1]}, not {kinds[0]}"
    if isinstance(got.value, float) and not isinstance(expected.value, float) and got.value == expected.value:
        return "return a whole number. `/` gives a float; `//` divides whole numbers"
    return None


def hint(label: object = "") -> None:
    """Print a hint about a piece, named by its number or its name; each further call says a little more.

    >>> hint("3.1")
    Hint 1 of 3: Make the upper node first: it gets the first `at` tokens, the first `at` slots, and the old parent.
    """
    if (piece := _named(label)) is None:
        return
    step = hints_given.get(piece.id, 0)
    if step < len(piece.hints):
        print(f"Hint {step + 1} of {len(piece.hints)}: {piece.hints[step]}")
    else:
        print(f'That was the last hint. solution("{piece.id}") shows the package\'s version.')
    hints_given[piece.id] = min(step + 1, len(piece.hints))


def solution(label: object = "") -> Code | None:
    """Our code for a piece, named by its number or its name.

    >>> print(solution("3.3"))
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
        said = f"there is no piece {name!r:.60}" if name else "no piece is named"
        print(f'{sign(WRONG)} {said}. Give its number, as in hint("3.1"); progress() lists them.')
    else:
        ids = " or ".join(piece.id for piece in pieces)
        print(f"{sign(WRONG)} {name} is a piece in several chapters. Ask for {ids}.")
    return None
