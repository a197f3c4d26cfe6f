"""The checkout as the tests see it: where it is, and what pyproject.toml says."""

import os
import subprocess
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


def python(*words, cwd=None, **settings):
    """Run Python in a process of its own, with these `settings` in its environment."""
    return subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=cwd,
        env={**os.environ, **settings},
    )


def write(folder, texts):
    """Write files, by their paths in a folder."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def text_of(path):
    """The text of a file of the checkout."""
    return (ROOT / path).read_text("utf-8")
