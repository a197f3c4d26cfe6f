"""The commands `minikv lab` and `minikv doctor`: open the course, and say what is installed."""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

from minikv.cli.command import complain, say, writing
from minikv.files import asset


def add_lab(lab: argparse.ArgumentParser) -> None:
    """Add the options of `minikv lab` to its parser.

    >>> parser = argparse.ArgumentParser(); add_lab(parser)
    >>> parser.parse_known_args(["--port=9999"])[1]
    ['--port=9999']
    """
    lab.epilog = "example: minikv lab --no-browser --port=9999"


def find_notebooks() -> Path | None:
    """The folder with the chapters: in the current folder, or beside the package in a checkout; `None` if neither.

    >>> find_notebooks().name
    'notebooks'
    """
    for root in (Path(), Path(__file__).resolve().parents[2]):
        if (root / "notebooks" / "00_start_here.ipynb").exists():
            return (root / "notebooks").absolute()
    return None


def run_lab(options: argparse.Namespace) -> int:
    """Open JupyterLab at the first chapter, with the further options of `options.rest`; returns the exit status."""
    notebooks = find_notebooks()
    if notebooks is None:
        return complain("there is no notebooks/00_start_here.ipynb here: run it in a checkout of the course", 2)
    if importlib.util.find_spec("jupyterlab") is None:
        return complain("JupyterLab is not installed: pip install 'minikv[course]', or use `make lab`", 2)
    # No pop-up that asks for news in the middle of a lesson, and no request for it.
    paths = [str(asset("jupyter")), *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
    quiet = {**os.environ, "JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}
    where = [f"--ServerApp.root_dir={notebooks}", "--LabApp.default_url=/lab/tree/00_start_here.ipynb"]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in options.rest:
        where.append("--allow-root")  # in a container everybody is root, and JupyterLab would refuse
    return _become([sys.executable, "-m", "jupyter", "lab", *where, *options.rest], quiet)


def _become(command: list[str], environment: dict[str, str]) -> int:
    """Run `command` in place of this process, so that Ctrl-C and a stop signal reach it and not us."""
    if os.name == "posix":
        if sys.stdout is not None:
            with writing():
                sys.stdout.flush()
        os.execve(command[0], command, environment)
    process = subprocess.Popen(command, env=environment)  # Windows has no exec that waits
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return process.wait()


def run_doctor(options: argparse.Namespace) -> int:
    """Print what is installed and what is missing; returns 1 where an installed extra lacks something."""
    from minikv.doctor import EXTRAS, FOR_THE_COURSE, examine, seems_installed

    findings = examine()  # imports torch to see the GPU
    width = max(len(finding.name) for finding in findings)
    for finding, after in zip(findings, [*findings[1:], None]):
        say(f"{finding.mark} {finding.name:<{width}}  {finding.found}")
        if finding.advice and (after is None or after.advice != finding.advice):  # one advice for several in a row
            say(f"  {'':<{width}}  -> {finding.advice}")
    broken = [finding.name for finding in findings if finding.mark == "✗"]
    absent = [extra for extra in EXTRAS if not seems_installed(extra)]
    if broken:
        say(f"\nMissing: {', '.join(broken)}")
    else:
        lacks = [extra for extra in FOR_THE_COURSE if extra in absent]
        here = "The core is complete." if lacks else "Everything that the course needs is here."
        say(f"\n{here}" + (f" Extras that are not installed: {', '.join(absent)}" if absent else ""))
    return 1 if broken else 0
