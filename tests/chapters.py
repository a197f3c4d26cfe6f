"""The chapters as the tests see them: sources, notebooks, exercise cells, and running them in this process."""

import contextlib
import io
import re

import nbformat
from project import ROOT

from minikv.course.pieces.piece import pieces_of

PAGE = ROOT / "notebooks" / "map_and_glossary.ipynb"
CHOICE = ROOT / "notebooks" / "which_design.ipynb"  # which is executed, and no chapter
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))

WRITTEN = [path for path in NOTEBOOKS if pieces_of(int(path.stem[:2]))]  # in which the learner writes the pieces

CHECK = re.compile(r'^check\("([\d.]+) (\w+)", (\w+)\)$', re.MULTILINE)
BUILDS = "", "The problem", "The picture", "Build it"  # the parts before the chapter turns to the package
SOLUTION = re.compile(r"<summary>Solution</summary>\s+```python\n(.*?)```", re.DOTALL)


def load(path):
    return nbformat.read(path, as_version=4)


def markdown(notebook):
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def code_under(notebook, *headings):
    """The code cells in the parts with these headings; "" stands for what comes before the first heading."""
    found, part = [], ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            part = next(reversed(re.findall(r"^## (.+)$", cell.source, re.MULTILINE)), part)
        elif part in headings:
            found.append(cell)
    return found


def run_cells(cells, names, replace=None):
    """Run code cells with `names` and give what they print; `replace` swaps an exercise's stub by its id."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for cell in cells:
            source, asked = cell.source, CHECK.search(cell.source)
            if asked and replace:
                source = f"{source[: asked.start()]}\n{replace[asked[1]]}\n{asked[0]}"
            exec(compile(source, "<cell>", "exec"), names)
    return said.getvalue()


def solutions(notebook):
    """The printed solution of each exercise, by id: the first one after its check."""
    asked = []
    found = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            asked += [match[1] for match in CHECK.finditer(cell.source)]
        elif asked and asked[-1] not in found and (shown := SOLUTION.search(cell.source)):
            found[asked[-1]] = shown[1]
    return found


def printed(chapter, words):
    """What the cells of a chapter that have these words print."""
    notebook = load(next(path for path in NOTEBOOKS if path.stem.startswith(f"{chapter:02}")))
    outputs = [output for cell in code_cells(notebook) if words in cell.source for output in cell.outputs]
    return "".join(each.get("text", "") + each.get("data", {}).get("text/plain", "") for each in outputs)
