"""The learner's file on Google Colab: it lies on a machine that is deleted, so it has to be saved and brought back."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from minikv.course.pieces.mine import bring
from minikv.course.pieces.record import WRONG, mine_path, sign
from minikv.course.pieces.worlds import session

ADVICE = '  Colab deletes this machine later. mine("download") saves your {0}; mine("upload") restores it.'


def is_colab() -> bool:
    """Return whether this notebook runs on Google Colab, which imports its own package before the first cell.

    >>> is_colab()
    False
    """
    return "google.colab" in sys.modules


def advice_on_saving() -> list[str]:
    """How to keep the learner's file, once in a session and on Colab only.

    >>> advice_on_saving()
    []
    """
    path = mine_path()
    if not is_colab() or path is None or not path.exists() or session.advised:
        return []
    session.advised.add(ADVICE)
    return [ADVICE.format(path.name)]


def move_file(way: str) -> None:
    """Save the learner's file on their own machine ("download"), or bring it back from there ("upload").

    >>> move_file("sideways")
    ✗ mine("sideways") does not exist. Use mine(), mine("download") or mine("upload").
    """
    path = mine_path()
    if way not in ("download", "upload"):
        print(f'{sign(WRONG)} mine("{way!s:.40}") does not exist. Use mine(), mine("download") or mine("upload").')
    elif path is None:
        print("  Nothing is saved here, because the environment variable MINIKV_MINE turns saving off.")
    elif not is_colab():
        print(f'  mine("{way}") is for Google Colab. Here, {path.name} is in the folder of your notebooks.')
    elif way == "download":
        _download(path)
    else:
        _upload(path)


def _download(path: Path) -> None:
    if path.exists():
        _files().download(str(path))
    else:
        print(f"  You don't have a {path.name} yet. It is created when you check your first piece.")


def _upload(path: Path) -> None:
    """Ask for a file, and put it in the place of the learner's."""
    fresh = f"{path.stem}.minikv-tmp"
    try:
        _files().upload_file(fresh)
        said = bring(path, Path(fresh).read_text("utf-8-sig"))
    except (ValueError, OSError) as error:  # nothing was chosen, or it cannot be read
        print(f"  Nothing has changed: {error}")
        return
    finally:
        Path(fresh).unlink(missing_ok=True)
    print(*said, sep="\n")


def _files() -> Any:
    return importlib.import_module("google.colab.files")
