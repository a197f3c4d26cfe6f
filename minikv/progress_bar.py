"""Progress on standard error: a bar on a terminal, a line now and then anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

Tick = Callable[[str], Any]


def quiet(what: str) -> None:
    """The tick of a measurement that shows no progress."""


class Progress:
    """Shows which step begins and how many are done: call it with the name of each step.

    `expect(total)` says how many steps there are, where that is known, and how many of them are done already. Off a
    terminal a line is written at the first step, and then at most every `seconds`. `clock` returns seconds, and
    `command` is the command that works.

    >>> with Progress(sys.stdout, seconds=0) as tick:
    ...     tick.expect(2)
    ...     tick("W1"); tick("W2")
    minikv bench: 0 of 2 steps done, now W1
    minikv bench: 1 of 2 steps done, now W2
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        seconds: float = 10,
        clock: Callable[[], float] = time.monotonic,
        command: str = "bench",
    ):
        self._stream, self._seconds, self._clock, self._command = stream or sys.stderr, seconds, clock, command
        self._begun, self._total, self._told_at = 0, 0, -float("inf")
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if self._stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(desc=self._command, unit=" steps", file=self._stream, leave=False)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def expect(self, total: int, done: int = 0) -> None:
        """There are `total` steps, of which `done` are done."""
        self._total, self._begun = total, done
        if self._bar is not None:
            self._bar.reset(total)
            self._bar.initial = self._bar.n = self._bar.last_print_n = done  # the rate is that of the other steps

    def __call__(self, what: str) -> None:
        """The step `what` begins."""
        done, self._begun = self._begun, self._begun + 1
        if self._bar is not None:
            self._bar.set_description(what, refresh=False)
            self._bar.update(self._begun - 1 - self._bar.n)
            self._bar.refresh()
        elif self._clock() - self._told_at >= self._seconds:
            self._told_at = self._clock()
            of = f"{done} of {self._total}" if self._total else str(done)
            print(f"minikv {self._command}: {of} steps done, now {what}", file=self._stream, flush=True)
