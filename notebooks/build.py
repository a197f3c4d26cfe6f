"""Build the notebooks from their sources: `notebooks/src/NN_name.py` becomes the executed `notebooks/NN_name.ipynb`.

Building twice gives the same bytes. Cell ids come from the content and a count of its repeats; timings, widget views
and widget state are left out; text that a cell printed in several pieces is joined; a cell tagged "measured" shows the
times of this machine, so none of its output is stored. Each chapter gets the same navigation and the
same set-up cell, made from the repository's address in `pyproject.toml`. The code of a cell with a `fold` is hidden
like that of the set-up cell, because it would give the answer away. In markdown `{{engines 03}}` becomes the table
of chapter 03 from `engines.toml`, and `{{engines NAME}}` a sentence or a link from there.

    python notebooks/build.py              build every chapter
    python notebooks/build.py 01 03        build some
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import engines
import jupytext
import nbformat
from nbclient import NotebookClient

from minikv.course.pieces.piece import pieces_of
from minikv.course.pieces.pressing import WIDGET_VIEW
from minikv.files import replace

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "src"
PAGE = SOURCES / "map_and_glossary.py"
README = HERE.parent / "README.md"
PLACES = HERE.parent / "assets" / "where_it_runs.json"  # what `check` says of a piece that passes
CHOICE = SOURCES / "which_design.py"  # a page that is executed, and no chapter
TRIAL = SOURCES / "try_it.py"  # the first page in a browser, which needs nothing from the others
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
WITHOUT_BROWSER = ("06", "08", "12")  # chapters that need PyTorch, which has no build for browsers
MINE = os.devnull  # nobody's own work shows in a built notebook
# The code of a cell is hidden: by Jupyter, by MyST-NB, and by nbconvert in a page that it exports.
HIDDEN = {"jupyter": {"source_hidden": True}, "tags": ["hide-input"], "transient": {"remove_source": True}}
KEPT = "tags", "jupyter", "transient"  # of a cell's metadata
FIRST = "# set-up: run this cell first, and then each cell from the top (Shift+Enter)"  # all that a folded cell shows
FOLD = re.compile(r"^fold\(", re.MULTILINE)  # a cell that shows the answer to a prediction


def chapters() -> list[Path]:
    """The sources of all chapters, in order."""
    return sorted(SOURCES.glob("[0-9][0-9]_*.py"))


def project() -> dict[str, Any]:
    """The repository's address and tag, which may be empty, and whether its site has the course in the browser."""
    settings = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))["tool"]
    return checked({**settings["minikv"], **settings["minikv-site"]})


def checked(address: dict[str, Any]) -> dict[str, Any]:
    """The address as it was given; a repository that pip and Colab could not open is a `ValueError`."""
    repository = address["repository"]
    if repository and not re.fullmatch(r"https://[\w.-]+(:\d+)?(/[\w.~-]+)+", repository):
        raise ValueError(
            f"[tool.minikv] repository is {repository!r:.100}: it must look like https://github.com/OWNER/NAME, "
            "without a slash at the end, or be empty"
        )
    if address.get("in_browser") and not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", repository):
        raise ValueError(
            f"[tool.minikv-site] in_browser is true: it needs a repository at github.com, not {repository!r}"
        )
    return address


def assemble(source: Path, address: dict[str, Any] | None = None) -> Any:
    """The notebook of one chapter, not yet executed: navigation, set-up, the source's cells, navigation."""
    address = project() if address is None else checked(address)
    notebook = jupytext.read(source, fmt="py:percent")
    links = navigation(source, address)
    number = int(source.stem[:2]) if source.stem[:2].isdigit() else None
    code = nbformat.v4.new_code_cell(setup_code(address, source.stem if number is None else number))
    code.metadata.update(HIDDEN)
    first, last = nbformat.v4.new_markdown_cell(links), nbformat.v4.new_markdown_cell(links)
    title, *rest = notebook.cells
    pieces = [] if number is None else pieces_of(number)
    title.source = title.source.replace("{{time}}", time_needed(notebook, len(pieces)))
    notebook.cells = [title, first, code, *rest, last]
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = engines.fill(cell.source)
        elif FOLD.search(cell.source):
            cell.metadata.update(HIDDEN)
        name = f"{cell.cell_type}:{cell.source}"
        seen[name] = seen.get(name, 0) + 1  # a repeated cell gets another id the second time
        cell.id = hashlib.sha256(f"{seen[name]}:{name}".encode()).hexdigest()[:12]
        cell.metadata = nbformat.from_dict({key: cell.metadata[key] for key in KEPT if key in cell.metadata})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def time_needed(notebook: Any, pieces: int) -> str:
    """How long a chapter takes, in words: 200 words or 6 lines of code a minute, and what the pieces' headings say.

    A heading says "#### 5.1 You write: `link` (10 minutes)". Until all do: 150 words a minute, and 8 minutes a piece.
    """
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    shown = [line for cell in notebook.cells if cell.cell_type == "code" for line in cell.source.splitlines()]
    said = [
        int(minutes) for minutes in re.findall(r"^#### \d+\.\d+ You write: .*\((\d+) minutes\)$", text, re.MULTILINE)
    ]
    honest = len(said) == pieces
    minutes = len(text.split()) / (200 if honest else 150) + len([line for line in shown if line.strip()]) / 6
    build = f", **build** {sum(said) if honest else 8 * pieces}" if pieces else ""
    return f"**Read** {5 * round(minutes / 5)} minutes{build}."


def navigation(source: Path, address: dict[str, Any]) -> str:
    """The line of links at the top and the bottom of a chapter."""
    names = [TRIAL.stem, *(path.stem for path in [*chapters(), CHOICE])]
    at = names.index(source.stem)
    parts = [in_browser(source.stem, address)] if address.get("in_browser") else []
    if at > 1:
        parts.append(f"[← previous: {title(names[at - 1])}]({names[at - 1]}.ipynb)")
    if at + 1 < len(names):
        parts.append(f"[next: {title(names[at + 1])} →]({names[at + 1]}.ipynb)")
    parts.append(f"[map and glossary]({PAGE.stem}.ipynb)")
    if address["repository"].startswith("https://github.com/"):  # Colab opens notebooks from there
        owner_and_name = address["repository"].removeprefix("https://github.com/").removesuffix(".git")
        link = f"https://colab.research.google.com/github/{owner_and_name}/blob/{address['tag']}/notebooks/{source.stem}.ipynb"
        parts.append(f"[open in Colab]({link})")
    return " · ".join(parts)


def in_browser(name: str, address: dict[str, Any]) -> str:
    """The link that opens a page of the course in the browser, on the site that GitHub publishes for the repository.

    >>> in_browser("06_gpu_kv_copying", {"repository": "https://github.com/me/minikv"})
    'PyTorch has no build for browsers: use your machine, or Colab'
    """
    if name.startswith(WITHOUT_BROWSER):
        return "PyTorch has no build for browsers: use your machine, or Colab"
    owner, repository = address["repository"].removesuffix(".git").split("/")[-2:]
    folder = "" if repository.lower() == f"{owner}.github.io".lower() else f"{repository}/"
    place = f"https://{owner}.github.io/{folder}lite/notebooks/index.html?path={name}.ipynb"
    return f"[**run in your browser, nothing to install**]({place})"


def readme(text: str, address: dict[str, Any]) -> str:
    """The README, with a line that opens the first page in the browser where the site has it.

    >>> address = {"in_browser": True, "repository": "https://github.com/me/minikv"}
    >>> readme("## Start\\n\\n| you", address) == readme(readme("## Start\\n\\n| you", address), address)
    True
    >>> readme(readme("## Start\\n\\n| you", address), {})
    '## Start\\n\\n| you'
    """
    line = f"{in_browser(TRIAL.stem, address)}\n\n" if address.get("in_browser") else ""
    return re.sub(r"(?<=^## Start\n\n)(\[\*\*run in .*\n\n)?", line, text, flags=re.MULTILINE)


def title(name: str) -> str:
    """`05_lru_eviction` as it is written in a link: `05 LRU eviction`."""
    number, *words = name.split("_")
    return " ".join([number, *(word.upper() if word in ("lru", "gpu", "kv") else word for word in words)])


def setup_code(address: dict[str, Any], page: int | str) -> str:
    """The set-up cell: silent when the package is there; else it installs it, or says how to. Then the pieces begin.

    A page is the number of a chapter, or the name of another one.
    """
    if isinstance(page, str):
        return f"{FIRST}\n{install_code(address)}" + "\nfrom minikv import fold, guess" * (page == CHOICE.stem)
    verbs = "from minikv import catch, check, fold, guess, hint, mine, progress, solution, source"
    more = "from minikv.course.pieces import begin, careless"
    return f"{FIRST}\n{install_code(address)}\n{verbs}\n{more}\n\nbegin({page}, globals())"


def install_code(address: dict[str, Any]) -> str:
    """The part of the set-up cell that looks for the package."""
    if not address["repository"]:
        return (
            "try:\n"
            "    import minikv\n"
            "except ImportError:\n"
            "    raise SystemExit(\n"
            "        \"minikv is not installed in this kernel: run 'minikv lab', in a checkout \"\n"
            "        \"'make lab', or: pip install 'minikv[course,serving]'\"\n"
            "    ) from None\n"
        )
    source = f"minikv[colab] @ git+{address['repository']}@{address['tag']}"
    return (
        "try:\n"
        "    import minikv\n"
        "except ImportError:  # a hosted service: its own torch stays\n"
        "    import subprocess, sys\n"
        "\n"
        '    pip = [sys.executable, "-m", "pip", "install", "--quiet"]\n'
        f'    subprocess.check_call([*pip, "{source}"])'
    )


def execute(notebook: Any) -> Any:
    """Run every cell from top to bottom in a fresh kernel; an error stops the build."""
    os.environ["MINIKV_PROGRESS"], os.environ["MINIKV_MINE"] = os.devnull, MINE
    NotebookClient(
        notebook, timeout=300, kernel_name=KERNEL["name"], resources={"metadata": {"path": str(HERE)}}
    ).execute()
    return notebook


def clean(notebook: Any) -> Any:
    """Leave out all that differs from run to run, or that belongs to a live kernel."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [] if "measured" in cell.metadata.get("tags", []) else _joined(cell.outputs)
            cell.outputs = without_views(cell.outputs)
    return notebook


def without_views(outputs: Sequence[Any]) -> list[Any]:
    """The outputs without what only a live kernel shows, and none that was nothing else."""
    for output in outputs:
        output.get("data", {}).pop(WIDGET_VIEW, None)
    return [output for output in outputs if output.get("data") != {}]


def _joined(outputs: Sequence[Any]) -> list[Any]:
    """Streams that came in pieces, each as one."""
    found: list[Any] = []
    for output in outputs:
        if output.output_type == "stream" and found and found[-1].get("name") == output.name:
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def page(source: Path) -> Any:
    """A notebook of text alone, which is not a chapter: it has no set-up cell, and nothing of it is executed."""
    notebook = jupytext.read(source, fmt="py:percent")
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    for number, cell in enumerate(notebook.cells):
        cell.id = hashlib.sha256(f"{number}:{cell.source}".encode()).hexdigest()[:12]
        cell.metadata = nbformat.from_dict({})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def build(source: Path) -> Path:
    """Build one chapter and write it beside the others; returns where."""
    target = HERE / f"{source.stem}.ipynb"
    made = page(source) if source == PAGE else clean(execute(assemble(source)))
    text = nbformat.writes(made, version=nbformat.NO_CONVERT)
    replace(target, text + "\n")
    return target


def main(names: Sequence[str]) -> int:
    """Build the chapters whose names begin with one of `names`, or all."""
    wanted = [
        source for source in [*chapters(), CHOICE, PAGE, TRIAL] if not names or source.stem.startswith(tuple(names))
    ]
    if not wanted:
        print(f"no chapter begins with {' or '.join(names)}; there are {', '.join(s.stem for s in chapters())}")
        return 2
    replace(PLACES, engines.places())
    replace(README, readme(README.read_text("utf-8"), project()))
    for source in wanted:
        print(build(source).name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
