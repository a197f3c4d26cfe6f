"""`catch`: a learner's test of a piece, tried on the package's version and on the stored wrong answers.

A test is a function with asserts that gets the function under test. The package's version must pass it; then each of
the wrong answers takes its place, also where the test, or a helper of it, calls the piece by its name.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import math
import random
import textwrap
from collections import Counter
from collections.abc import Callable
from traceback import walk_tb
from types import FunctionType
from typing import Any
from unittest.mock import patch

import numpy as np

from minikv.course.pieces.piece import Piece, find_piece
from minikv.course.pieces.record import NOT_ATTEMPTED, OF_A_TEST, RIGHT, WRONG, remember, sign
from minikv.course.pieces.showing import both_films, display_film
from minikv.course.pieces.stored import WrongAnswer
from minikv.course.pieces.trial import Verdict, judge
from minikv.course.pieces.worlds import rebound, reference_world
from minikv.engine import World, run_section
from minikv.testing.attempt import Outcome, TooLong, attempt

ENOUGH = 0.8  # of the wrong answers
LONGEST = 0.5  # seconds for one run of a test
_Test = Callable[..., Any]
_FAILS = "the package's version does not pass your test."


def catch(label: str, test: _Test, more: bool = False) -> None:
    """Say how many of the stored wrong answers to a piece a test catches, and name one that gets through.

    The test is a function with asserts, which gets the function under test; the package's version has to pass it. Four
    of five are enough; with `more` one that still gets through is named then, too, with a case that shows it.

    >>> def test_split(split):
    ...     raise NotImplementedError
    >>> catch("3.3 split", test_split)
    □ 3.3 split: no test yet
    """
    piece = find_piece(str(label))
    if piece is None or not isinstance(test, FunctionType):
        print(f'{sign(WRONG)} pass the label of a piece and your test: catch("3.3 split", test_split)')
        return
    mark, words, _, film, _ = _verdict(piece, test, more)
    print(f"{sign(mark)} {piece.id} {piece.name}: {words}")
    if film is not None:
        display_film(film)
    if mark != NOT_ATTEMPTED:
        remember(piece.id + OF_A_TEST, mark)


def _verdict(piece: Piece, test: _Test, more: bool) -> Verdict:
    """The mark, what to say about a test, and with `more` the film of a case that it should try."""
    world = _world(piece, test)
    first = _run(piece, world, test)
    if isinstance(first.error, NotImplementedError):
        return Verdict(NOT_ATTEMPTED, "no test yet")
    if first.error is not None:
        printed = f"\n  It printed: {first.printed.strip()[:200]}" if first.printed.strip() else ""
        return Verdict(WRONG, f"{_FAILS} {_why(piece, first, test, world)}{printed}")
    if first.value is not None:
        return Verdict(WRONG, "your test returns a value. It should only `assert` what must be true.")
    ended = {wrong: _run(piece, world, test, wrong).error for wrong in piece.wrong}
    if _run(piece, world, test).error is not None:
        return Verdict(WRONG, "your test passes once and then fails: it keeps state from one run to the next.")
    return _score(piece, test, ended, more)


def _score(piece: Piece, test: _Test, ended: dict[WrongAnswer, BaseException | None], more: bool) -> Verdict:
    """The mark of a test, and what to say, from how it ended with each wrong answer."""
    through = [wrong for wrong, error in ended.items() if error is None]
    caught, enough = len(ended) - len(through), math.ceil(ENOUGH * len(ended))
    mark = RIGHT if caught >= enough else WRONG
    if mark == RIGHT and not more:
        others = " With more=True, `catch` shows one that gets through." if through else ""
        return Verdict(mark, f"your test catches enough of the wrong answers.{others}")
    lines = Counter(_line_of(error, test) for error in ended.values() if error is not None)
    said = [f"your test catches {caught} of {len(ended)} wrong answers. It must catch {enough}."]
    for (_, line), count in sorted(lines.items()):
        said.append(f"  this line caught {count}{' more' * (len(said) > 1)}: {line}")
    if not lines:
        said.append("  It never fails. What would be different if the answer were wrong? Check that with `assert`.")
    words, film = _example(piece, through[0], more) if through else ("", None)
    return Verdict(mark, "\n".join([*said, words] if words else said), film=film)


def _world(piece: Piece, test: _Test) -> World:
    """The globals of the test, with the package's classes and pieces in the place of the learner's."""
    others, world = test.__globals__, reference_world(piece)
    for name, value in others.items():
        is_own = type(value) is FunctionType and value.__globals__ is others
        world.setdefault(name, rebound(value, world) if is_own else value)
    return world


def _run(piece: Piece, world: World, test: _Test, wrong: WrongAnswer | None = None) -> Outcome:
    """Run a test on the package's version, or on a wrong answer; random numbers are the same each time."""
    kept = random.getstate(), np.random.get_state()
    try:
        random.seed(0)
        np.random.seed(0)
        with patch.dict(world, run_section(wrong.section, world, "<wrong>") if wrong else {}):
            return attempt(lambda: rebound(test, world)(world[piece.name]), seconds=LONGEST)
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])


def _line_of(error: BaseException, test: _Test) -> tuple[int, str]:
    """The line of the test in which an error was raised: its number and its text."""
    code = test.__code__
    found = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code is code]
    return (found[-1], linecache.getline(code.co_filename, found[-1]).strip()) if found else (0, "")


def _example(piece: Piece, wrong: WrongAnswer, more: bool) -> tuple[str, Any]:
    """The mistake in a wrong answer; with `more` the smallest case that shows it, in words and as a film."""
    words = f"  One that gets through: {wrong.mistake}"
    if not more:
        return f"{words}. Which case shows it? Use `catch` with more=True.", None
    world = reference_world(piece)
    world.update(run_section(wrong.section, world, "<wrong>"))
    found = judge(piece, world)
    return (f"{words}: {found.words}", both_films(piece, world, found)) if found else (words, None)


class _Noting(ast.NodeTransformer):
    """Note the left side of each comparison that is asserted, under the name `left`."""

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        if isinstance(node.test, ast.Compare):
            node.test.left = ast.NamedExpr(ast.Name("_left", ast.Store()), node.test.left)
        return node


def _why(piece: Piece, found: Outcome, test: _Test, world: World) -> str:
    """Say which line of a test the package's version fails; a second run notes what it gives there."""
    if isinstance(found.error, TooLong):
        return f"Your test takes more than {LONGEST:g} seconds."
    line = _line_of(found.error, test)[1] if found.error else ""
    if not line or not isinstance(found.error, AssertionError):
        return f"Your line `{line}` ends in {found}." if line else f"It ends in {found}."
    made = dict(world)
    try:
        tree = _Noting().visit(ast.parse(textwrap.dedent(inspect.getsource(test))))
        assert isinstance(tree.body[0], ast.FunctionDef)  # of a lambda it is the line that calls `catch`
        exec(compile(ast.fix_missing_locations(tree), "<test>", "exec"), made)
    except Exception:  # its defaults may be names of another function
        return f"Your line `{line}` fails."
    again = _run(piece, made, made[test.__name__]).error
    frames = [frame for frame, _ in walk_tb(again.__traceback__ if again else None)]
    noted = [frame.f_locals["_left"] for frame in frames if "_left" in frame.f_locals]
    left = f": the left side is {Outcome(noted[-1])}" if noted and line.startswith("assert") else ""
    return f"Your line `{line}` fails{left}. Read the exercise again: the test is wrong, not the code."
