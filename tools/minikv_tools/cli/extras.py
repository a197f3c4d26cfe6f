"""The first questions of the commands: is a package there, and can a file be written?"""

from __future__ import annotations

import os

from minikv.cli.command import TOOLS, RefusedError, refusing, require_packages, using
from minikv.errors import shown
from minikv.files import destination

EXTRAS = {
    "sweep": ("joblib",),
    "cluster": ("dask", "distributed"),
    "tokenizer": ("tokenizers",),
    "png": ("resvg-py",),
}


def need(what: str, *packages: str) -> None:
    """Raise `RefusedError` unless the `packages` that `what` needs are there; it names the extra of the first.

    >>> need("this line", "json")
    """
    require_packages(what, *packages, extras=EXTRAS, distribution=TOOLS)


def require_apart(path: str, read: str) -> None:
    """Refuse a file that cannot be written, or that is the one which is read.

    >>> require_apart("new.csv", "day.jsonl")
    """
    with using(path, "write"), refusing(ValueError):
        target = destination(path)
        if target.exists() and os.path.exists(read) and os.path.samefile(target, read):
            what = "is read, and would be overwritten: name another file"
            raise RefusedError(f"{shown(path)} {what}")
