"""The chapters as the tests see them: sources, notebooks, exercise cells, and running them in this process."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import nbformat
from project import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))

CHECK = re.compile(r'^check\("([\d.]+) (\w+)", (\w+)\)$', re.MULTILINE)
SOLUTION = re.compile(r"<summary>Solution</summary>\s+```python\n(.*?)```", re.DOTALL)


def load(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def markdown(notebook: Any) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def run_cells(notebook: Any, until: str = "", replace: dict[str, str] | None = None) -> tuple[dict[str, Any], str]:
    """Run the code cells in one namespace, up to the heading `until`; `replace` swaps an exercise's stub by its id."""
    names: dict[str, Any] = {"__name__": "__main__"}
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for cell in notebook.cells:
            if until and cell.cell_type == "markdown" and f"## {until}" in cell.source:
                break
            if cell.cell_type != "code":
                continue
            source, asked = cell.source, CHECK.search(cell.source)
            if asked and replace:
                source = f"{source[: asked.start()]}\n{replace[asked[1]]}\n{asked[0]}"
            exec(compile(source, "<cell>", "exec"), names)
    return names, said.getvalue()


def solutions(notebook: Any) -> dict[str, str]:
    """The printed solution of each exercise, by id: the first one after its check."""
    asked: list[str] = []
    found: dict[str, str] = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            asked += [match[1] for match in CHECK.finditer(cell.source)]
        elif asked and asked[-1] not in found and (shown := SOLUTION.search(cell.source)):
            found[asked[-1]] = shown[1]
    return found
