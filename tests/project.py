"""The checkout as the tests see it: where it is, and what pyproject.toml says."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
TOOLS = tomllib.loads((ROOT / "tools" / "pyproject.toml").read_text("utf-8"))


def text_of(path: str) -> str:
    """The text of a file of the checkout."""
    return (ROOT / path).read_text("utf-8")
