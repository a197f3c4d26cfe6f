"""Ctrl-C during an import, which may take seconds: it ends the import, whatever the imported code does about it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def importing() -> Iterator[None]:
    """While it is open, a Ctrl-C leaves it as `KeyboardInterrupt`, even where imported code swallows exceptions.

    An import runs code of other packages. Some of it turns every exception into an `ImportError`; and Python itself
    drops an exception that comes during the cleanup of an import, after it has printed a traceback.

    >>> _ = signal.signal(signal.SIGINT, signal.default_int_handler)      # as it is when a command begins
    >>> try:
    ...     with importing():
    ...         try:
    ...             signal.raise_signal(signal.SIGINT)
    ...         except BaseException:
    ...             raise ImportError("something is missing")
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    interrupted
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, or somebody else's
        yield
        return
    pressed = False

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    unraisable = sys.unraisablehook
    try:
        signal.signal(signal.SIGINT, press)
    except ValueError:  # not the main thread: Ctrl-C never comes here
        yield
        return
    sys.unraisablehook = lambda error: None if pressed else unraisable(error)
    try:
        yield
    except BaseException:
        if pressed:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = unraisable
    if pressed:
        raise KeyboardInterrupt
