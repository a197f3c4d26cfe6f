"""The packages that each extra of the tools brings, and the line that says which one is missing."""

from __future__ import annotations

from minikv.cli.command import TOOLS, require_packages

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
