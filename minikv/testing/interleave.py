"""Interleavings: every order in which the steps of several requests can be mixed.

A request is written as a generator. Each `yield "words"` begins a step, and the words describe it; between
two steps any other request may run. `explore` runs the requests in every order, each time in a new world, and stops at
the first order that breaks something. It begins with the orders without interruptions, continues
to those with one, and so on: a bug that needs few interruptions is found early, and shown in its shortest form.

After CHESS (Musuvathi and Qadeer, PLDI 2007), which bounds the interruptions in the same way.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from minikv.errors import bounded, whole_number

Steps = Iterator[str]
Program = Callable[[Any], Steps]
Beginning = tuple[int, ...]  # which program makes each of the first steps
NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_STEPS = 1000
_DONE: Final = object()  # what a program that is done yields


@dataclass(frozen=True)
class Interleaving:
    """An order in which requests took turns, as far as it went: each step's letter, its words, and how it ended.

    `interruptions` counts how often a request had to stop for another although it
    could have continued. Its text has a column for each request, and time goes down.

    >>> print(Interleaving("AB", ("match", "evict"), 0, LookupError("slot 3 is gone")))
    A       B
    match
            evict
    LookupError: slot 3 is gone
    >>> str(Interleaving("BA", ("evict", "match"), 0)).splitlines()[0]   # the columns stand as before
    'A       B'
    """

    letters: str
    words: tuple[str, ...]
    interruptions: int
    error: Exception | None = None

    def __str__(self) -> str:
        width = max(map(len, self.words), default=0) + 3
        columns = sorted(set(self.letters))
        lines = ["".join(f"{name:{width}}" for name in columns)]
        for name, words in zip(self.letters, self.words):
            lines.append(" " * width * columns.index(name) + words)
        if self.error is not None:
            lines.append(f"{type(self.error).__name__}: {self.error}")
        return "\n".join(line.rstrip() for line in lines)

    __repr__ = __str__


@dataclass(frozen=True)
class Exploration:
    """The result of `explore`: how many orders it `tried`, and the first that is `broken`, `None` if none is."""

    tried: int
    broken: Interleaving | None = None

    def __repr__(self) -> str:
        if self.broken is None:
            one = self.tried == 1
            return "1 order, and it breaks nothing" if one else f"{self.tried} orders, and none breaks anything"
        many = f"{self.broken.interruptions} interruption{'' if self.broken.interruptions == 1 else 's'}"
        return f"order {self.tried} breaks it, with {many}:\n{self.broken}"


def explore(
    world: Callable[[], Any],
    *programs: Program,
    check: Callable[[Any], object] | None = None,
    interruptions: int | None = None,
) -> Exploration:
    """Run `programs` in every order, fewest interruptions first and then alphabetically, until one breaks.

    `world` makes what they share, once for each order; it must be the same each time. A program takes the world and
    yields the words of each of its steps; they are called A, B, C and so on. An order is broken when a step raises, or
    when `check`, called with the world after each step, does. With `interruptions`, orders with more than these are
    left out. Raises `ValueError` for no program or too many, or one of more than 1000 steps, and `TypeError` for a
    `yield` without words.

    >>> def add_one(world):
    ...     yield "read"
    ...     seen = world["count"]
    ...     yield "write"
    ...     world["count"] = seen + 1
    ...     world["added"] += 1
    >>> def check(world):
    ...     assert world["count"] == world["added"], f"{world['added']} were added, and the count is {world['count']}"
    >>> explore(lambda: {"count": 0, "added": 0}, add_one, add_one, check=check)
    order 3 breaks it, with 1 interruption:
    A       B
    read
            read
            write
    write
    AssertionError: 2 were added, and the count is 1
    """
    if not 0 < len(programs) <= len(NAMES):
        raise ValueError(f"{len(programs)} programs: expected 1 to {len(NAMES)}")
    for name, function in (("world", world), ("check", bool if check is None else check)):
        if not callable(function):
            raise TypeError(f"{name} is {bounded(function)}: expected a function")
    many = "0 or more are allowed"
    most = math.inf if interruptions is None else whole_number("interruptions", interruptions, 0, many)
    waiting, tried = [(0, Beginning())], 0
    while waiting:
        _, begun = heapq.heappop(waiting)
        tried += 1
        order, others = _run(world(), programs, check, begun)
        if order.error is not None:
            return Exploration(tried, order)
        for other in others:
            if other[0] <= most:
                heapq.heappush(waiting, other)
    return Exploration(tried)


def _begin(name: str, program: Program, world: Any) -> Steps:
    steps = program(world)
    if not isinstance(steps, Iterator):
        raise TypeError(f"program {name} gave {bounded(steps)}: write a generator, with a yield before each step")
    return steps


def _words(name: str, words: Any) -> Any:
    """Return the words of a program's next step, or `_DONE`."""
    if words is not _DONE and not isinstance(words, str):
        raise TypeError(f'program {name} yields {bounded(words)}: write `yield "words"`, what its next step does')
    return words


def _run(
    world: Any, programs: Sequence[Program], check: Callable[[Any], object] | None, begun: Beginning
) -> tuple[Interleaving, list[tuple[int, Beginning]]]:
    """Go as `begun` says, and then on without interruptions.

    Returns the order, and the beginnings that part from it later, each after its interruptions.
    """
    running = [_begin(name, program, world) for name, program in zip(NAMES, programs)]
    words = [_words(name, next(steps, _DONE)) for name, steps in zip(NAMES, running)]
    chosen, said, others, interruptions, error = Beginning(), list[str](), list[Any](), 0, None
    while error is None and (ready := [who for who in range(len(words)) if words[who] is not _DONE]):
        last = [who for who in chosen[-1:] if who in ready]  # if it could continue
        who = begun[len(chosen)] if len(chosen) < len(begun) else (last or ready)[0]
        costs = {each: interruptions + (last not in ([], [each])) for each in ready}
        if len(chosen) >= len(begun):
            others += [(costs[other], (*chosen, other)) for other in ready if other != who]
        chosen, interruptions = (*chosen, who), costs[who]
        if chosen.count(who) > MOST_STEPS:
            raise ValueError(f"program {NAMES[who]} has more than {MOST_STEPS} steps")
        said.append(words[who])
        words[who], error = _step(running[who], world, check)
        _words(NAMES[who], words[who])
    letters = "".join(NAMES[who] for who in chosen)
    return Interleaving(letters, tuple(said), interruptions, error), others


def _step(steps: Steps, world: Any, check: Callable[[Any], object] | None) -> tuple[Any, Exception | None]:
    """One step of a program: the words of its next one, and the error that it or the check ended in."""
    try:
        words = next(steps, _DONE)
        if check is not None:
            check(world)
    except Exception as error:
        return _DONE, error
    return words, None
