"""The results of a measurement: on which machine, over how many rounds, and whether it keeps the project's promises."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple, TypeVar

import numpy as np

One = TypeVar("One")


@dataclass
class Measured:
    """Figures, and what they were measured on: each measurement adds its own. `dataclasses.asdict` makes them JSON.

    >>> print(Measured("CPython 3.11, 2 cores", "2026-11-21", 3, quick=True).report())
    2026-11-21, CPython 3.11, 2 cores; medians of 3 rounds (smallest to largest)
    """

    machine: str
    date: str
    rounds: int
    quick: bool

    def lines(self) -> Iterable[str]:
        """The figures as text."""
        return ()

    def promises(self) -> Iterable[Promise]:
        """The promises that these figures are enough to judge; a quick run is too short to ask."""
        return ()

    def report(self) -> str:
        """Everything as text; ratios first, since they are what travels from one machine to another."""
        lines = [f"{self.date}, {self.machine}; medians of {self.rounds} rounds (smallest to largest)"]
        lines += self.lines()
        kept = [] if self.quick else [f"  {promise}" for promise in self.promises()]
        if kept:
            lines += "", "promised:", *kept
        return "\n".join(lines)


def today(rounds: int, quick: bool = False, machine: str = "") -> tuple[str, str, int, bool]:
    """The fields of `Measured`, here and now: the interpreter, the processor's kind, its cores, and more of `machine`.

    >>> today(3)[0].endswith("cores")
    True
    """
    python = f"{platform.python_implementation()} {platform.python_version()}"
    here = f"{python}, {platform.machine()}, {os.cpu_count()} cores{machine}"
    return here, date.today().isoformat(), rounds, quick


def turns(sides: Sequence[One], rounds: int) -> Iterator[tuple[int, One]]:
    """Whose turn it is in which round: another of `sides` goes first each time.

    >>> list(turns("ab", 2))
    [(0, 'a'), (0, 'b'), (1, 'b'), (1, 'a')]
    """
    for turn in range(rounds):
        for place in range(turn, turn + len(sides)):
            yield turn, sides[place % len(sides)]


@dataclass
class Spread:
    """A figure over the rounds: its median, the smallest and the largest.

    >>> print(Spread.of([3.0, 1.0, 2.0]))
    2.0 (1.0 to 3.0)
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Any) -> Spread:
        """The spread of some measurements."""
        return cls(*np.quantile(values, (0.5, 0, 1)).round(3).tolist())

    def __str__(self) -> str:
        return f"{self.median:.1f} ({self.low:.1f} to {self.high:.1f})"


class Promise(NamedTuple):
    """A figure that the project promises to hold: its name, what was measured, and the bar on which side.

    >>> print(Promise("requests per second", 90.0, 100, at_most=False))
    ✗ requests per second: 90.00 (>= 100)
    """

    name: str
    found: float
    bar: float
    at_most: bool = True

    @property
    def kept(self) -> bool:
        """Return whether what was measured is on the right side of the bar."""
        return self.found <= self.bar if self.at_most else self.found >= self.bar

    def __str__(self) -> str:
        sign = "<=" if self.at_most else ">="
        mark = "✓" if self.kept else "✗"
        return f"{mark} {self.name}: {self.found:.2f} ({sign} {self.bar:g})"
