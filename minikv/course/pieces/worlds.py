"""A session, and the worlds of pieces: the learner's names with the package's classes, or the package's alone."""

from __future__ import annotations

import inspect
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from minikv.course.pieces.piece import Piece
from minikv.engine import World, classes_for, engine_world, given, last_for, ours, pieces_up_to
from minikv.testing.attempt import attempt


class Session:
    """The state of a notebook's session; `begin` starts another one."""

    def __init__(self, *opened: int):
        self.opened = {*opened}  # the chapter that has begun
        self.accepted = dict[str, Any]()  # by piece, the learner's newest right answer
        self.aside = set[str]()  # pieces of the learner's file that no longer pass
        self.waiting = dict[str, dict[str, str]]()  # right pieces that do not fit the file yet
        self.guesses = dict[str, Any]()  # by label
        self.votes = defaultdict[str, Counter[str]](Counter)  # pressed, by label
        self.hints_given = Counter[str]()  # by piece, how many
        self.advised = set[str]()  # the advice that was given

    def begin(self, chapter: int) -> None:
        """Forget everything, and open a chapter."""
        vars(self).update(vars(Session(chapter)))


session = Session()


def ipython() -> Any:
    """Return the IPython that runs this; `None` outside of one.

    >>> ipython() is None
    True
    """
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


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
    for each in classes_for(piece.chapter):
        if each <= last_for(piece.chapter):  # a helper may have the name of what a later chapter gives
            given(world, each)
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


def node_of(world: World) -> Any:
    """The `Node` of chapter 03's notebook, which has no locks yet; `None` where there is another, or none.

    Ours is played with it, too: then both have the same attributes.
    """
    has = set(attempt(lambda: vars(world["Node"]([], []))).value or ())
    return world["Node"] if has >= {"tokens", "slots", "parent", "children"} and "locks" not in has else None


def reference_world(piece: Piece, node: Any = None) -> World:
    """Our engine, with our own function for this piece, where a later one has the same name; with a `node` of its own.

    For an exercise it is what the exercise's file defines, with our answer also under the name `right`.
    """
    if piece.reference is not None:
        home = vars(sys.modules[piece.reference.__module__])
        return {**home, piece.name: piece.reference, "right": piece.reference}
    world = engine_world(*classes_for(piece.chapter))
    if node is not None:
        world["Node"] = node
        world.update({section.name: ours(section.id, world) for section in pieces_up_to(piece.chapter)})
    world[piece.name] = ours(piece.id, world)
    return world


def print_for(answer: Any, others: Iterable[Any]) -> Callable[..., None]:
    """A `print` that prints nothing where it runs on behalf of one of the `others`: that is not about the answer.

    >>> print_for(None, [])("as ever")
    as ever
    """
    codes = [getattr(each, "__code__", None) for each in others if each is not answer]
    own = getattr(answer, "__code__", None)

    def print_of_answer(*args: Any, **more: Any) -> None:
        frame = inspect.currentframe()
        while frame is not None and frame.f_code is not own:
            if frame.f_code in codes:
                return
            frame = frame.f_back
        print(*args, **more)

    return print_of_answer
