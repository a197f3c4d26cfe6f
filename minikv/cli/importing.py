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
    press = _Press()
    if not press.install():
        yield
        return
    unraisable = sys.unraisablehook
    sys.unraisablehook = lambda error: None if press.came else unraisable(error)
    try:
        yield
    except BaseException:
        if press.came:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = unraisable
    if press.came:
        raise KeyboardInterrupt


class _Press:
    """A handler of Ctrl-C that raises `KeyboardInterrupt`, as Python's own does, and remembers that it came."""

    def __init__(self) -> None:
        self.came = False

    def install(self) -> bool:
        """Take the place of Python's handler; false, and nothing has changed, where that cannot be done."""
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, or another program's
            return False
        try:
            signal.signal(signal.SIGINT, self)
        except ValueError:  # not the main thread: Ctrl-C never comes here
            return False
        return True

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        raise KeyboardInterrupt
