"""The pages of the site from the notebooks: executed again, so that a film is there as data and plays without a kernel.

    python notebooks/site/pages.py FOLDER            every chapter
    python notebooks/site/pages.py FOLDER 03 which   some executed; of the others, the stored outputs

FOLDER becomes what Sphinx builds the site from: these pages, the reference, and copies of what is beside this file and
in `tools/site`. So the course and the tools are one site.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
NOTEBOOKS, ASSETS, TOOLS = HERE.parent, HERE.parent.parent / "assets", HERE.parent.parent / "tools" / "site"
sys.path.insert(0, str(NOTEBOOKS))
from build import TRIAL, project, title, without_views
from films import player_page
from slides import slides

import minikv
import minikv_tools
from minikv import Film, FreeListPool, RadixCache, record

SHOW_FILMS = "from films import show_films\n\nshow_films()"  # the first cell of a page while it is executed
RUN_FOR_YOU = "*This page was run for you. [Start on your machine](start.md) to write the functions yourself.*"
IN_BROWSER = '- <a href="lite/index.html"><strong>Run it in your browser</strong></a>, with nothing to install.\n'
SET_UP = "try:\n    import minikv\nexcept ImportError"
GROUPS = {
    "indexes": ("Indexes", "prefix", "copy_on_write"),
    "pools": ("Pools, pages and tokens", "pools", "tokens", "sizing", "layers"),
    "managers": ("Managers and keys and values", "manager", "store"),
    "serving": ("Serving", "serving", "measure", "break_even"),
    "checking": ("Checking", "testing", "errors"),
    "traffic": ("Traces", "traffic"),
    "course": ("Pictures, films, exercises", "course", "files"),
}
# Where a link leads in the checkout, and on the site.
ELSEWHERE = {"../../assets/readme/": "pictures/", "../../notebooks/site/": "", "../../tools/site/": "", "../": ""}
RUN_IT = re.compile(r"Run the cell (to|and) step")  # here it has been run
HEADING = re.compile(r"^(#+)(?= )", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def page_of(notebook: Path, is_executed: bool = True) -> Any:
    """A notebook as a page: with films that need no kernel, without the set-up cell, no level of heading skipped."""
    page = nbformat.read(notebook, 4)
    if is_executed:
        execute(page)
    page.metadata.pop("widgets", None)
    for at, cell in enumerate(page.cells):
        if SET_UP in cell.source:
            page.cells[at] = nbformat.v4.new_markdown_cell(RUN_FOR_YOU, id=cell.id)
    level = 0
    for cell in page.cells:
        if cell.cell_type == "markdown":
            source = cell.source if not is_executed else RUN_IT.sub("Press play to step", cell.source)
            cell.source, level = without_gaps(source, level)
    return page


def execute(page: Any) -> None:
    """Run every cell as `build.py` does, with films shown as data; an error stops it."""
    for name in ("MINIKV_PROGRESS", "MINIKV_MINE"):
        os.environ[name] = os.devnull
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    page.cells.insert(0, nbformat.v4.new_code_cell(SHOW_FILMS))
    resources = {"metadata": {"path": str(NOTEBOOKS)}}
    NotebookClient(page, timeout=300, resources=resources, store_widget_state=False).execute()
    page.cells.pop(0)
    for cell in page.cells:
        if cell.cell_type == "code":
            cell.outputs = without_views(cell.outputs)


def without_gaps(text: str, level: int) -> tuple[str, int]:
    """Markdown whose headings go down one level at a time, and the level it ends on; code is left alone.

    >>> without_gaps("## More to try\\n\\n#### 3.9 Design", 1)
    ('## More to try\\n\\n### 3.9 Design', 3)
    """
    codes = [found.span() for found in FENCE.finditer(text)]

    def lift(found: re.Match[str]) -> str:
        nonlocal level
        if any(start < found.start() < end for start, end in codes):
            return found[0]
        level = min(len(found[0]), level + 1)
        return "#" * level

    return HEADING.sub(lift, text), level


def chapter_table() -> str:
    """The chapters: a link, the question, and how long each takes."""
    lines = ["| chapter | question | read | build |", "|---|---|---|---|"]
    for notebook in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")):
        text = nbformat.read(notebook, 4).cells[0].source
        ((question, read, build),) = re.findall(
            r"^# \d\d · (.*)$[\s\S]*\*\*Read\*\* (\d+) minutes(?:, \*\*build\*\* (\d+))?", text, re.MULTILINE
        )
        times = " | ".join(f"{minutes} min" if minutes else "" for minutes in (read, build))
        lines.append(f"| [{title(notebook.stem)}]({notebook.name}) | {question} | {times} |")
    return "\n".join(lines)


def chapter_tree() -> str:
    """The chapters and the two other pages of the course, as lines of a table of contents."""
    return "\n".join(f"{title(path.stem)} <{path.stem}>" for path in notebooks())


def notebooks() -> list[Path]:
    """The notebooks that are pages of the site: all but the one in which a visitor types, where Python has to run."""
    return [path for path in sorted(NOTEBOOKS.glob("*.ipynb")) if path.stem != TRIAL.stem]


def write_reference(folder: Path) -> None:
    """Write a page of the reference for each group of names, and one for the tools; docstrings fill them."""
    lines = Path(minikv.__file__).with_suffix(".pyi").read_text("utf-8").splitlines()
    home_of = {line.split()[3]: line.split()[1] for line in lines if line.startswith("from minikv")}
    for page, (heading, *homes) in GROUPS.items():
        names = [name for name, home in home_of.items() if home.split(".")[1] in homes]
        (folder / f"{page}.rst").write_text(reference_page(heading, minikv, names), "utf-8")
    (folder / "tools.rst").write_text(reference_page("minikv-tools", minikv_tools, minikv_tools.__all__), "utf-8")


def reference_page(heading: str, package: ModuleType, names: Sequence[str]) -> str:
    """The source of a page that describes these names of a package; Sphinx fills it from the docstrings."""
    parts = [heading, "=" * len(heading), "", f".. currentmodule:: {package.__name__}", ""]
    for name in names:
        thing = getattr(package, name)
        if isinstance(thing, type):
            foreign = [base.__name__ for base in thing.__mro__ if not base.__module__.startswith("minikv")]
            parts += [f".. autoclass:: {name}", "   :members:", f"   :inherited-members: {', '.join(foreign)}", ""]
        elif callable(thing):
            parts += [f".. autofunction:: {name}", ""]
        else:
            parts += [f".. autodata:: {name}", "   :no-value:", ""]
    return "\n".join(parts)


def film_of_sharing() -> Film:
    """A prompt is cached; one that begins alike splits its edge; a leaf is evicted for a third."""
    cache, pool = RadixCache(), FreeListPool(24)

    def serve(prompt: str) -> None:
        tokens = list(prompt.encode())
        match = cache.match_prefix(tokens)
        cache.insert(tokens, [*match.pages, *pool.alloc(len(tokens) - match.length)])

    serve("the cat sat")
    with record(cache, pool, label=lambda tokens: repr(bytes(tokens).decode())) as film:
        serve("the cat ran")
        pool.free(cache.evict(3))
        serve("the dog sat")
    return film


def main(arguments: Sequence[str]) -> int:
    """Write the pages into the folder that is named first; execute all notebooks, or those that are named."""
    folder, wanted = Path(arguments[0]), tuple(arguments[1:])
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__", "lite"))
    for path in [*TOOLS.glob("*.md"), *TOOLS.glob("*.png")]:
        shutil.copy(path, folder)
    shutil.copytree(ASSETS / "readme", folder / "pictures", ignore=shutil.ignore_patterns("*.py"))
    film = player_page(film_of_sharing().player(still=3))[0]["text/html"]
    browser = IN_BROWSER if project()["in_browser"] else ""
    filled = {"{{browser}}": browser, "{{chapters}}": chapter_table(), "{{tree}}": chapter_tree(), "{{film}}": film,
              "`slides.html`": "[`slides.html`](slides.md)"}  # fmt: skip
    for path in folder.glob("*.md"):
        text = path.read_text("utf-8")
        for mark, words in filled.items():
            text = text.replace(mark, words)
        for there, here in ELSEWHERE.items():
            text = text.replace(f"]({there}", f"]({here}")
        path.write_text(text, "utf-8")
    (folder / "reference").mkdir(exist_ok=True)
    write_reference(folder / "reference")
    pages = {}
    for notebook in notebooks():
        page = pages[notebook.stem] = page_of(notebook, not wanted or notebook.stem.startswith(wanted))
        nbformat.write(page, folder / notebook.name)
        print(notebook.name, flush=True)
    (folder / "slides.md").write_text(slides((HERE / "teachers.md").read_text("utf-8"), pages), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
