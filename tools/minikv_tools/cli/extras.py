"""The first steps of the commands: read the help, look for a package, check that a file can be written."""

from __future__ import annotations

import os
from pathlib import Path

from minikv.cli.command import TOOLS, RefusedError, refusing, require_packages, using
from minikv.errors import shown
from minikv.files import destination

EXTRAS = {
    "sweep": ("joblib",),
    "cluster": ("dask", "distributed"),
    "tokenizer": ("tokenizers",),
    "png": ("resvg-py",),
}


def help_texts(command: str) -> list[str]:
    """The parts of a command's help, which is in a text file with the command's name.

    >>> help_texts("plan")[0].splitlines()[0]
    'examples:'
    """
    return Path(__file__).with_name(f"{command}.txt").read_text("utf-8").rstrip("\n").split("\n----\n")


def need(what: str, *packages: str) -> None:
    """Raise `RefusedError` unless the `packages` that `what` needs are there; it names the extra of the first.

    >>> need("this line", "json")
    """
    require_packages(what, *packages, extras=EXTRAS, distribution=TOOLS)


def require_apart(read: str, *paths: str | None) -> None:
    """Refuse to write to `paths` that cannot be written, or to the file that is read; a path of `None` is skipped.

    >>> require_apart("day.jsonl", "new.csv", None)
    """
    for path in filter(None, paths):
        with using(path, "write"), refusing(ValueError):
            target = destination(path)
            if target.exists() and os.path.exists(read) and os.path.samefile(target, read):
                what = "is read, and would be overwritten: name another file"
                raise RefusedError(f"{shown(path)} {what}")
