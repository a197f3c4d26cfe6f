"""Faults for tests of what writes files: an act before any line of files.py, a system call that fails."""

import contextlib
import os
import sys

from minikv import files


@contextlib.contextmanager
def at_line(n, act):
    """Call `act` before the n-th line that is run in files.py; yields the lines so far."""
    lines = []

    def on_line(frame, event, argument):
        if event == "line":
            lines.append(frame.f_lineno)
            if len(lines) == n:
                act()
        return on_line

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: on_line if frame.f_code.co_filename == files.__file__ else None)
    try:
        yield lines
    finally:
        sys.settrace(before)


def fails(code):
    """A function that raises the `OSError` of `code`."""

    def call(*_, **__):
        raise OSError(code, os.strerror(code))

    return call
