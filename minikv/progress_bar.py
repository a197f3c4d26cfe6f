"""Progress on standard error: a bar on a terminal, a line now and then anywhere else."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from tqdm import tqdm

Tick = Callable[[str], Any]
SECONDS = 10


def quiet(what: str) -> None:
    """The tick of a measurement that shows no progress."""


class Progress:
    """Shows which step begins and how many are done: call it with the name of each step; `command` is what works.

    `expect(total)` says how many steps there are, where that is known, and how many of them are done already. Off a
    terminal a line is written at the first step, and then at most every `SECONDS`.

    >>> with Progress(sys.stdout) as tick:
    ...     tick.expect(2)
    ...     tick("W1"); tick("W2")
    minikv bench: 0 of 2 steps done, now W1
    """

    def __init__(self, stream: TextIO | None = None, command: str = "minikv bench"):
        self._stream, self._command = stream or sys.stderr or io.StringIO(), command
        self._begun, self._told_at = 0, -float("inf")
        is_quiet = not self._stream.isatty()
        self._bar: Any = tqdm(desc=command, unit=" steps", file=self._stream, leave=False, disable=is_quiet)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def expect(self, total: int, done: int = 0) -> None:
        """There are `total` steps, of which `done` are done."""
        self._bar.reset(total)
        self._bar.initial = self._begun = done  # the rate is that of the other steps

    def __call__(self, what: str) -> None:
        """The step `what` begins."""
        bar, now = self._bar, time.monotonic()
        bar.n, self._begun = self._begun, self._begun + 1
        bar.set_description(what)
        if bar.disable and now - self._told_at >= SECONDS:
            self._told_at = now
            of = f"{bar.n} of {bar.total}" if bar.total else bar.n
            print(f"{self._command}: {of} steps done, now {what}", file=self._stream, flush=True)
