"""Google Colab: `my_minikv.py` lies on a machine that is deleted, so it has to be saved and brought back."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from minikv.course.pieces.mine import bring, mine_path

_said: set[str] = set()  # the advice that was given in this session
ADVICE = '  Colab deletes this machine later. mine("download") saves {0}, mine("upload") brings it back.'


def is_colab() -> bool:
    """Whether this notebook runs on Google Colab, which imports its own package before the first cell.

    >>> is_colab()
    False
    """
    return "google.colab" in sys.modules


def advice() -> list[str]:
    """How to keep the learner's file, once in a session and on Colab only.

    >>> advice()
    []
    """
    path = mine_path()
    if not is_colab() or path is None or not path.exists() or _said:
        return []
    _said.add(ADVICE)
    return [ADVICE.format(path.name)]


def begin_anew() -> None:
    """Forget that the advice was given."""
    _said.clear()


def move(way: str) -> None:
    """Save the learner's file on their own machine ("download"), or bring it back from there ("upload").

    >>> move("sideways")
    ❌ mine("sideways"): there are mine(), mine("download") and mine("upload")
    """
    path = mine_path()
    if way not in ("download", "upload"):
        print(f'❌ mine("{way!s:.40}"): there are mine(), mine("download") and mine("upload")')
    elif path is None:
        print("  There is no file of your own here: MINIKV_MINE says so.")
    elif not is_colab():
        print(f'  mine("{way}") is for Google Colab. Here {path.name} lies in the folder of your notebooks.')
    elif way == "download":
        _download(path)
    else:
        _upload(path)


def _download(path: Path) -> None:
    if path.exists():
        _files().download(str(path))
    else:
        print(f"  There is no {path.name} yet: it begins with your first piece that is right.")


def _upload(path: Path) -> None:
    """Ask for a file, and put it in the place of the learner's."""
    fresh = f"{path.stem}.minikv-tmp"
    try:
        _files().upload_file(fresh)
        text = Path(fresh).read_text("utf-8-sig")
    except (ValueError, OSError) as error:  # nothing was chosen, or it is no text
        print(f"  Nothing has changed: {error}")
        return
    finally:
        Path(fresh).unlink(missing_ok=True)
    print(bring(path, text))


def _files() -> Any:
    return importlib.import_module("google.colab.files")
