"""What the commands share: how an option is read, what is missing, and how a complaint is said."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
from collections.abc import Iterator

from minikv.errors import bounded, one_line


def whole(text: str) -> int:
    """`text` as a whole number; the error that argparse expects says what is wrong.

    >>> whole("-7")
    -7
    """
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{bounded(text)} is not a whole number") from None


def positive(text: str) -> int:
    """`text` as a whole number of at least 1; the error that argparse expects says what is wrong.

    >>> positive("7")
    7
    """
    if (number := whole(text)) < 1:
        raise argparse.ArgumentTypeError(f"{bounded(number)} is less than 1")
    return number


def complain(what: str, status: int) -> int:
    """Say what is wrong on standard error, in one line, if there is one; returns `status`.

    >>> complain("no such file", 2)
    2
    """
    if sys.stderr is not None:
        print(f"minikv: {one_line(what)}", file=sys.stderr)
    return status


class OutputError(Exception):
    """Standard output cannot be written: its reader has gone, or the disk is full; the cause is the `OSError`."""


@contextlib.contextmanager
def writing(failure: str = "cannot write the result") -> Iterator[None]:
    """While it is open, an `OSError` is one of standard output: it becomes an `OutputError` that says `failure`.

    >>> with writing():
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    minikv.cli.console.OutputError: cannot write the result: No space left on device
    """
    try:
        yield
    except OSError as error:
        raise OutputError(f"{failure}: {error.strerror}") from error


def say(text: str) -> None:
    """Print a line of the result, or raise `OutputError`.

    >>> say("done")
    done
    """
    with writing():
        print(text)


def lacking(what: str, *packages: str) -> str | None:
    """The line that says which of `packages` `what` needs and does not find, and how to install it.

    >>> lacking("this example", "json"), lacking("this example", "no_such_package")
    (None, 'this example needs no_such_package, which is not installed: pip install no_such_package')
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            from minikv.doctor import remedy

            name = "PyTorch" if package == "torch" else package
            return f"{what} needs {name}, which is not installed: {remedy(package)}"
    return None
