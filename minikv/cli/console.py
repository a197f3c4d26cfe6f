"""What the commands share: how an option is read, what is missing, and how a complaint is said."""

from __future__ import annotations

import argparse
import importlib.util
import sys

from minikv.errors import bounded


def positive(text: str) -> int:
    """`text` as a whole number of at least 1; the error that argparse expects says what is wrong.

    >>> positive("7")
    7
    """
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{bounded(text)} is not a whole number") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"{bounded(number)} is less than 1")
    return number


def complain(what: str, status: int) -> int:
    """Say what is wrong on standard error, if there is one; returns `status`.

    >>> complain("no such file", 2)
    2
    """
    if sys.stderr is not None:
        print(f"minikv: {what}", file=sys.stderr)
    return status


def lacking(what: str, *packages: str) -> str | None:
    """The line that says which of `packages`, all of the extra serving, `what` needs and does not find.

    >>> lacking("this example", "json"), lacking("this example", "no_such_package")
    (None, "this example needs no_such_package, which is not installed: pip install 'minikv[serving]'")
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            name = "PyTorch" if package == "torch" else package
            return f"{what} needs {name}, which is not installed: pip install 'minikv[serving]'"
    return None


def shown(name: str) -> str:
    r"""The name of a file as a line of text: spelled out where it holds control characters, cut where it is long.

    >>> print(shown("day.jsonl"), shown("day\0.jsonl"))
    day.jsonl 'day\x00.jsonl'
    """
    return name if name.isprintable() and len(name) <= 300 else bounded(name, 300)
