"""The command `minikv lab`: open the course in JupyterLab."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from minikv.cli.command import RefusedError, flush, mention, require_packages, say
from minikv.course.shipped import FOLDER, RECORD, SHIPPED, renew
from minikv.errors import bounded
from minikv.files import asset

FIRST = "00_start_here.ipynb"
WORKSPACE = "minikv"  # of JupyterLab: how its bars and tabs are arranged
OURS = f"/doc/workspaces/{WORKSPACE}/tree"


def add_lab(lab: argparse.ArgumentParser) -> None:
    """Add the options of `minikv lab` to its parser; a chapter and JupyterLab's own options are left over.

    >>> parser = argparse.ArgumentParser(); add_lab(parser)
    >>> parser.parse_known_args(["03", "--port=9999"])[1]
    ['03', '--port=9999']
    """
    lab.usage = "minikv lab [CHAPTER] [--where] [option of JupyterLab ...]"
    lab.epilog = "examples:\n  minikv lab\n  minikv lab 03\n  minikv lab --no-browser --port=9999 03"
    lab.add_argument("--where", action="store_true", help="only print the folder that holds the chapters")


def find_notebooks() -> Path:
    """The folder with the chapters, which come into it from the package unless this is a checkout.

    In a checkout it is `notebooks`, in the current folder or beside the package. Else it is `minikv-course` in the
    current folder, or this one if the chapters are here already.

    >>> find_notebooks().name
    'notebooks'
    """
    for notebooks in (Path("notebooks"), Path(__file__).resolve().parents[2] / "notebooks"):
        if (notebooks / FIRST).exists():
            return notebooks.absolute()
    folder = Path() if Path(RECORD).exists() or Path(FIRST).exists() else Path(FOLDER)
    for line in renew(folder):
        mention(line)
    return folder.absolute()


def find_chapter(notebooks: Path, wanted: str) -> str:
    """The name of the notebook whose number or first letters are `wanted`; `RefusedError` says which there are.

    Of several, the package's own comes first, before one that the learner named alike.

    >>> find_chapter(find_notebooks(), "3")
    '03_radix_splitting.ipynb'
    """
    begins = f"{int(wanted):02}_" if wanted.isdecimal() else wanted
    names = [path.name for path in notebooks.glob("*.ipynb")]
    if found := [name for name in names if name.startswith(begins)]:
        return min(found, key=lambda name: (not (SHIPPED / name).exists(), len(name), name))
    raise RefusedError(f"there is no chapter {bounded(wanted)}; the chapters are {', '.join(sorted(names))}")


def _take_chapter(notebooks: Path, words: list[str]) -> str:
    """Take the first word that names a chapter out of `words`: others are options of JupyterLab, or values of them."""
    for word in [word for word in words if word and not word.startswith("-")]:
        with suppress(*[RefusedError] * (word is not words[0])):
            chapter = find_chapter(notebooks, word)
            words.remove(word)
            return chapter
    return find_chapter(notebooks, "00")


def run_lab(options: argparse.Namespace) -> int:
    """Open JupyterLab at a chapter, with the further options of `options.rest`; returns the exit status."""
    if not options.where:
        require_packages("minikv lab", "jupyterlab")
    notebooks = find_notebooks()
    if options.where:
        say(str(notebooks))
        return 0
    chapter = _take_chapter(notebooks, options.rest)
    # What `assets/jupyter` sets: few log lines, no pop-up that asks for news in the middle of a lesson, no builder's
    # files between the chapters, and the address as the last line. What the learner set in this way goes before it.
    paths = filter(None, [os.environ.get("JUPYTER_CONFIG_PATH"), str(asset("jupyter"))])
    where = [f"--ServerApp.root_dir={notebooks}", f"--LabApp.default_url={OURS}/{quote(chapter)}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        where.append("--allow-root")  # in a container everybody is root, and JupyterLab would refuse
    return _become(
        [sys.executable, "-m", "jupyter", "lab", *where, *options.rest], {"JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}
    )


def _load_jupyter_server_extension(server: Any) -> None:
    """Have JupyterLab's server print the chapter's address once it runs, as the last line.

    JupyterLab opens with the side bar closed, which would take a quarter of the page, and of a phone all; our workspace
    is made once, and from then on it is as the learner left it.
    """
    from jupyterlab.commands import get_workspaces_dir
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    server.io_loop.add_callback(lambda: print(f"\nThe course: {server.public_url}", file=sys.stderr, flush=True))
    with suppress(Exception):  # whatever is wrong with the learner's workspaces: then the bar is open
        manager = WorkspacesManager(get_workspaces_dir())
        if not manager.load(WORKSPACE)["data"]:
            manager.save(WORKSPACE, asset("jupyter/workspace.json").read_text("utf-8"))


def _become(command: list[str], more: dict[str, str]) -> int:
    """Run `command` in place of this process, so that Ctrl-C and a stop signal reach it and not us."""
    os.environ.update(more)
    if os.name == "posix":
        flush()
        os.execv(command[0], command)
    process = subprocess.Popen(command)  # Windows has no exec that waits
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return process.wait()
