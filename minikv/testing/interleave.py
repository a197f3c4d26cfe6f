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
    waiting, tried = [(0, tuple[int, ...]())], 0
    while waiting:
        _, begun = heapq.heappop(waiting)
        tried += 1
        run = _Run(world(), programs, check)
        order = run.complete(begun)
        if order.error is not None:
            return Exploration(tried, order)
        for cost, other in run.others(len(begun)):
            if cost <= most:
                heapq.heappush(waiting, (cost, other))
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


class _Run:
    """Programs in a world, and in which order they have gone so far."""

    def __init__(self, world: Any, programs: Sequence[Program], check: Callable[[Any], object] | None):
        self.world, self.check = world, check
        self.running = [_begin(NAMES[who], program, world) for who, program in enumerate(programs)]
        self.next_words = [_words(NAMES[who], next(steps, _DONE)) for who, steps in enumerate(self.running)]
        self.chosen: list[int] = []
        self.choices: list[list[int]] = []  # before each step, the programs that could go

    def complete(self, begun: tuple[int, ...]) -> Interleaving:
        """Go as `begun` says, and then on without interruptions."""
        said, error = list[str](), None
        while error is None and (ready := [who for who, words in enumerate(self.next_words) if words is not _DONE]):
            at, last = len(said), self.chosen[-1] if said else -1
            self.choices.append(ready)
            self.chosen.append(begun[at] if at < len(begun) else last if last in ready else ready[0])
            said.append(self.next_words[self.chosen[at]])
            error = self.step(self.chosen[at])
        letters = "".join(NAMES[who] for who in self.chosen)
        return Interleaving(letters, tuple(said), self._interruptions(self.chosen), error)

    def step(self, who: int) -> Exception | None:
        """One step of one program, and the error that it or the check ended in."""
        if self.chosen.count(who) > MOST_STEPS:
            raise ValueError(f"program {NAMES[who]} has more than {MOST_STEPS} steps")
        try:
            words = next(self.running[who], _DONE)
            if self.check is not None:
                self.check(self.world)
        except Exception as error:
            return error
        self.next_words[who] = _words(NAMES[who], words)
        return None

    def others(self, decided: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The beginnings that part from this order after `decided` steps, each with its interruptions."""
        for at in range(decided, len(self.chosen)):
            for who in self.choices[at]:
                if who != self.chosen[at]:
                    begun = [*self.chosen[:at], who]
                    yield self._interruptions(begun), tuple(begun)

    def _interruptions(self, chosen: Sequence[int]) -> int:
        pairs = zip(chosen, chosen[1:], self.choices[1:])
        return sum(before != after and before in ready for before, after, ready in pairs)
