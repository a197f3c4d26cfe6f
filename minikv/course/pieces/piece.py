"""A piece: a part of the engine that the learner writes, and how an answer is compared with ours.

A case is played: a generator makes a structure, calls the piece, and yields a frame after each step, with what can be
seen then. Yours is compared with ours frame by frame, and a frame that differs is shown as a picture. The pieces of a
chapter are in `chNN.py`, their hints in `hints_NN.txt`, and the wrong answers that people give in `wrong_NN.txt`; ours
are in `minikv.engine`.

An exercise, in the part "More to try", is a piece that is no part of the engine: it has a `reference` of its own, and
it is not kept, counted or bound. The last exercise of a chapter is a bug hunt, see `hunt.py`.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.strategies import SearchStrategy

from minikv.course.pieces.observer import RETURNED, Raised, Words
from minikv.course.pieces.props import listed
from minikv.course.pieces.stored import WrongAnswer, hints_for, wrong_answers_to
from minikv.engine import LAST, World, section_of
from minikv.errors import bounded, whole_number
from minikv.files import asset
from minikv.testing.attempt import short_repr
from minikv.testing.snapshot import plain, ranges, shorten

CHAPTERS = tuple(sorted(int(file.stem[2:]) for file in Path(__file__).parent.glob("ch[0-9][0-9].py")))
NOTHING: Mapping[str, Any] = {}
set_hypothesis_home_dir(os.devnull)  # it would leave a folder beside the learner's notebooks


class Shown(NamedTuple):
    """A step of a case: caption, things to look at, by name, a picture instead of theirs, and a call's result."""

    caption: str
    things: Mapping[str, Any]
    picture: Any = None
    result: Any = None


Frames = Iterator[Shown]
Play = Callable[[World, Any], Frames]  # of a case in a world
Also = Mapping[str, Any] | Callable[[], Mapping[str, Any]]
CALLERS = "the caller's {}"  # an argument that is to stay as it was


@dataclass(frozen=True)
class Cost:
    """A limit on the steps in all calls of a piece while large `cases` are played; `unit` names them, and how large.

    More than `most` times the steps of our answer are too many.
    """

    unit: str
    cases: Sequence[Any]
    why: str
    most: float = 4


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of the engine to be written: its `id` as in the notebook, and how to judge an answer.

    `play(world, case)` yields the frames of a case; `strategy` makes more of them than the hand-picked `cases`. An
    exercise has our answer as `reference`.
    """

    id: str
    play: Play
    cases: Sequence[Any]
    strategy: SearchStrategy[Any]
    cost: Cost | None = None
    reference: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        """The name of the function or the class, as in the notebook."""
        return self.reference.__name__ if self.reference else section_of(self.id).name

    @property
    def chapter(self) -> int:
        """The chapter in which it is written."""
        return int(self.id.split(".")[0])

    @property
    def hints(self) -> Sequence[str]:
        """A ladder: each says a little more than the one before. An exercise has one."""
        return hints_for(self.id)

    @property
    def solution(self) -> str:
        """Our code."""
        return section_of(self.id).text

    @property
    def wrong(self) -> list[WrongAnswer]:
        """The wrong answers that people give."""
        return wrong_answers_to(self.id)

    @property
    def places(self) -> str:
        """Return where the package's version is, and the line of a real engine that does the same."""
        section = section_of(self.id)
        line = section.line + section.text[: section.text.index(f"def {self.name}(")].count("\n")
        there = _real_engines().get(self.id)
        real = f"In {there[0]}: {there[1]}" if there else "We know of no equivalent in a real engine."
        return f"The package's version: minikv/engine/{Path(section.file).name}, line {line}. {real}"


@lru_cache
def _real_engines() -> Mapping[str, Sequence[str]]:
    """By piece, an engine's name and the link to its line; written by `notebooks/build.py`."""
    found: Mapping[str, Sequence[str]] = json.loads(asset("where_it_runs.json").read_text("utf-8"))
    return found


def exercise(
    id: str,
    reference: Callable[..., Any],
    cases: Sequence[Any],
    strategy: SearchStrategy[Any],
    *errors: type[Exception],
    play: Play | None = None,
) -> Piece:
    """A function to write, or with a `play` a class, that does what `reference` does; a case is its arguments.

    A tuple is as good as a list.
    """
    if play is None:
        names = " ".join(inspect.signature(reference).parameters)
        play = one_call(reference.__name__, *errors, names=names, words=listed)
    return Piece(id, play, cases, strategy, reference=reference)


def called(
    world: World, name: str, *errors: type[Exception],
    also: Also = NOTHING, hide: str = "", words: Callable[[Any], Any] = lambda found: found, **given: Any,
) -> Shown:  # fmt: skip
    """Call a piece with what is `given`, by name, and show that, what is there `also`, and what it returns.

    One of `errors` that is raised is shown, too. A list or a dictionary that is given is the caller's, and is to stay
    as it was. Where `also` is a function, it is called afterwards. The result may be put into `words`, and what is
    named in `hide` is not shown.

    >>> called({"first": lambda tokens, at: tokens[at]}, "first", tokens=[7, 8], at=0)[:2]
    ('first([7, 8], 0)', {"the caller's tokens": [7, 8], 'what is returned': 7})
    """
    caption = f"{name}({', '.join(_argument(*each) for each in given.items())})"
    found = result_of(lambda: world[name](*given.values()), *errors)
    own = {CALLERS.format(key) if isinstance(value, list | dict) else key: value for key, value in given.items()
           if key not in hide.split() and not isinstance(value, int | str | None)}  # fmt: skip
    returned = new_result(world, found, found if isinstance(found, Raised) else words(found))
    return Shown(caption, {**(also() if callable(also) else also), **own, RETURNED: returned}, None, found)


def new_result(world: World, found: Any, in_words: Any) -> Any:
    """A result `in_words`, unless it is the same list, dictionary or set as the last one: a caller may change it.

    >>> world, found = {}, [7]
    >>> new_result(world, found, 7), new_result(world, found, 7)
    (7, the same list as the call before returned)
    """
    is_old = isinstance(found, list | dict | set) and found is world.get("the last result")
    world["the last result"] = found
    return Words(f"the same {type(found).__name__} as the call before returned") if is_old else in_words


def _argument(name: str, value: Any) -> str:
    """How an argument is written in a caption: a node by its tokens and slots, other objects by name."""
    if hasattr(value, "tokens") and hasattr(value, "slots"):
        return edge(value)
    return name if hasattr(value, "__dict__") and not isinstance(value, str) else short_repr(value)


def edge(node: Any) -> str:
    """A node's tokens and slots, in words.

    >>> from types import SimpleNamespace as Node
    >>> edge(Node(tokens=[1, 2], slots=[5, 6]))
    '[1 2] in slots 5-6'
    """
    slots = plain(node.slots)
    held = f"in slot{'s' * (len(slots) > 1)} {ranges(slots)}" if slots else "without slots"
    return f"[{shorten(list(node.tokens))}] {held}" if node.tokens else "root"


def one_call(name: str, *errors: type[Exception], names: str = "", **more: Any) -> Play:
    """A play of one call of `name`: a case is its arguments, with these `names`; the rest as in `called`.

    >>> next(one_call("double", names="n")({"double": lambda n: 2 * n}, (3,)))[:2]
    ('double(3)', {'what is returned': 6})
    """

    def play(world: World, case: Any) -> Frames:
        given = copy.deepcopy(case)
        keys = names.split() or [f"argument {at}" for at in range(1, len(case) + 1)]
        yield called(world, name, *errors, **more, **dict(zip(keys, given)))

    return play


def result_of(call: Callable[[], Any], *errors: type[Exception]) -> Any:
    """The result of a call, or the one of `errors` that it raises, as `Raised`; any other error is raised.

    >>> result_of(lambda: max([]), ValueError), result_of(lambda: max([3]), ValueError)
    (a ValueError, 3)
    """
    try:
        return call()
    except errors as error:
        if isinstance(error, NotImplementedError | RecursionError):
            raise
        return Raised.of(error, errors)


def pieces_of(chapter: int) -> Sequence[Piece]:
    """The pieces of a chapter, in order.

    >>> [piece.id for piece in pieces_of(3)]
    ['3.1', '3.2', '3.3', '3.4', '3.5', '3.6', '3.7', '3.8']
    """
    found: Sequence[Piece] = getattr(_module(chapter), "PIECES", ()) if chapter in CHAPTERS else ()
    return found


def exercises_of(chapter: int) -> Sequence[Any]:
    """The exercises of a chapter, in order; the last one is a hunt. Raises `ValueError` if there is no such chapter.

    >>> [exercise.id for exercise in exercises_of(1)]
    ['1.6', '1.7']
    """
    rule = f"chapters {', '.join(map(str, CHAPTERS))} have exercises"
    number = whole_number("chapter", chapter, 0, rule)
    if number not in CHAPTERS:
        raise ValueError(f"chapter is {bounded(number)}: {rule}")
    found: Sequence[Any] = _module(number).EXERCISES
    return found


def _module(chapter: int) -> Any:
    return importlib.import_module(f"minikv.course.pieces.ch{chapter:02d}")


def cases_for(piece: Piece) -> list[Any]:
    """The hand-picked cases of a piece, and those of the pieces that share its play, and so its state.

    >>> [len(cases_for(piece)) > len(piece.cases) for piece in pieces_of(2)[:3]]
    [True, False, True]
    """
    others = [each for each in pieces_of(piece.chapter) if each.play is piece.play and each.cases is not piece.cases]
    return [*piece.cases, *(case for other in others for case in other.cases)]


def all_pieces() -> list[Piece]:
    """The pieces of all chapters, in order."""
    return [piece for chapter in CHAPTERS for piece in pieces_of(chapter)]


def pieces_for(chapter: int) -> list[Piece]:
    """The pieces that may run in a chapter, in order: those of the engine up to it, and its own.

    >>> [piece.id for piece in pieces_for(2)]
    ['1.1', '1.2', '1.3', '1.4', '1.5', '2.1', '2.2', '2.3', '2.4', '2.5', '2.6']
    """
    return [piece for each in CHAPTERS if each <= min(chapter, LAST) or each == chapter for piece in pieces_of(each)]


def find_piece(label: str) -> Piece | None:
    """The piece whose id is the first word of `label`, or `None`.

    >>> find_piece("3.3 split").name, find_piece("9.9 nothing")
    ('split', None)
    >>> ". In mini-sglang: https://" in find_piece("3.3").places
    True
    """
    return next((piece for piece in all_pieces() if [piece.id] == label.split()[:1]), None)


def find_exercise(label: str) -> Any:
    """The exercise or the hunt whose id is the first word of `label`; `LookupError` says which there are.

    >>> find_exercise("1.6 best_page_size").name
    'best_page_size'
    """
    known = [each for chapter in CHAPTERS for each in exercises_of(chapter)]
    found = [each for each in known if [each.id] == label.split()[:1]]
    if not found:
        named = (label.split() or [label])[0]
        raise LookupError(f"there is no exercise {named!r}. The exercises are {', '.join(each.id for each in known)}")
    return found[0]
