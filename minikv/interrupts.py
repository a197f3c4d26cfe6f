"""Ctrl-C between two acts, and never in the middle of one.

Python lets an interrupt in between any two instructions, so also between taking a page and writing down whose it is.
No `try` closes that gap, for an interrupt comes just as well before the `try` or inside the `except`. So an act that
must be whole holds Ctrl-C back until it is done; it takes microseconds, and nobody will notice. What takes long, a
model's forward step, is not held back: there an interrupt does no harm.
"""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class _Held:
    """A handler of SIGINT that remembers the call for later."""

    def __init__(self) -> None:
        self.call: tuple[int, FrameType | None] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.call = number, frame


def whole(act: Callable[P, R]) -> Callable[P, R]:
    """Decorate `act` so that Ctrl-C waits until it is done, and is raised then.

    Within another such act it waits for the outer one. It changes nothing where Ctrl-C cannot come (another thread than
    the main one) or where Python does not handle it.

    >>> done = []
    >>> @whole
    ... def both():
    ...     done.append(1); signal.raise_signal(signal.SIGINT); done.append(2)
    >>> try:
    ...     both()
    ... except KeyboardInterrupt:
    ...     print(done)
    [1, 2]
    """

    @functools.wraps(act)
    def held_back(*args: P.args, **kwargs: P.kwargs) -> R:
        before = signal.getsignal(signal.SIGINT)
        elsewhere = threading.current_thread() is not threading.main_thread()
        if elsewhere or isinstance(before, (_Held, int)) or before is None:  # an int: Python does not handle it
            return act(*args, **kwargs)
        held = _Held()
        signal.signal(signal.SIGINT, held)
        try:
            return act(*args, **kwargs)
        finally:
            signal.signal(signal.SIGINT, before)
            if held.call is not None:
                before(*held.call)

    return held_back
