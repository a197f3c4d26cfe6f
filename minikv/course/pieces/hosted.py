"""The learner's file where it may be lost, on Google Colab and in a browser: saved elsewhere, and brought back."""

from __future__ import annotations

import base64
import importlib
import sys
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

from minikv.course.pieces.mine import bring
from minikv.course.pieces.record import WRONG, mine_path, sign
from minikv.course.pieces.worlds import session
from minikv.files import IN_BROWSER

ADVICE = '  Colab deletes this machine later. mine("download") saves your {0}; mine("upload") restores it.'

HERE = """  Your files are kept in this browser only. mine("download") saves a copy of {0} on your machine.
  If a cell never ends, choose Kernel > Restart Kernel. `check` stops an endless answer for you."""


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


def begin_in_browser() -> None:
    """Say what is different in a browser.

    >>> begin_in_browser()
    """
    path = mine_path()
    if IN_BROWSER and path is not None:
        print(HERE.format(path.name))


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
    elif not is_colab() and not IN_BROWSER:
        print(f'  mine("{way}") is for Colab and browsers. Here, {path.name} is in the folder of your notebooks.')
    elif way == "download" and not path.exists():
        print(f"  You don't have a {path.name} yet. It is created when you check your first piece.")
    elif IN_BROWSER:
        _show(_link(path) if way == "download" else _chooser(path))
    elif way == "download":
        _files().download(str(path))
    else:
        _upload(path)


def _upload(path: Path) -> None:
    """Ask for a file, and put it in the place of the learner's."""
    fresh = Path(f"{path.stem}.minikv-tmp")

    def chosen() -> bytes:
        _files().upload_file(str(fresh))
        return fresh.read_bytes()

    try:
        print(*_brought(path, chosen), sep="\n")
    finally:
        fresh.unlink(missing_ok=True)


def _show(widget: Any) -> None:
    importlib.import_module("IPython.display").display(widget)


def _link(path: Path) -> Any:
    """A link that saves a file on the machine of the browser."""
    import ipywidgets

    where = f"data:text/x-python;base64,{base64.b64encode(path.read_bytes()).decode()}"
    name = escape(path.name)
    return ipywidgets.HTML(f'<a download="{name}" href="{where}"><u>Save {name}</u></a>')


def _chooser(path: Path) -> Any:
    """A button for a file that goes in the place of the learner's, and below it what that did."""
    import ipywidgets

    button, said = ipywidgets.FileUpload(accept=".py", description="Choose a file"), ipywidgets.HTML()

    def put(_: object) -> None:
        if button.value:
            said.value = escape(" ".join(_brought(path, lambda: bytes(button.value[0]["content"]))))
            button.value = ()  # so that the same file can be chosen again

    button.observe(put, "value")
    return ipywidgets.VBox([button, said])


def _brought(path: Path, chosen: Callable[[], bytes]) -> list[str]:
    """Put the file that was chosen in the place of the learner's; what to say about it."""
    try:
        return bring(path, chosen().decode("utf-8-sig"))
    except (ValueError, OSError) as error:  # nothing was chosen, or it cannot be read
        return [f"  Nothing has changed: {error}"]


def _files() -> Any:
    return importlib.import_module("google.colab.files")
