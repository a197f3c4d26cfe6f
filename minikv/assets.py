"""Where the files in `assets/` are: beside the package in a checkout, inside it when it was installed."""

from __future__ import annotations

from pathlib import Path


def asset(name: str) -> Path:
    """The path of `assets/<name>`; `FileNotFoundError` names what is there instead.

    >>> asset("configs/llama-3.1-8b.json").name
    'llama-3.1-8b.json'
    """
    package = Path(__file__).parent
    roots = [package / "assets", package.parent / "assets"]
    for root in roots:
        if (root / name).exists():
            return root / name
    folder = next((root / name).parent for root in roots if root.is_dir())
    there = ", ".join(sorted(path.name for path in folder.iterdir())) if folder.is_dir() else "nothing"
    raise FileNotFoundError(f"no asset {name!r}; beside it there is: {there}")
