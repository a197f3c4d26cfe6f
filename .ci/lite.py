"""What must hold of the course in the browser before it is published: chapters of the built site, in a real browser.

    python .ci/lite.py SITE                           serve the folder of the site; its first page and chapter 03
    python .ci/lite.py SITE 00 05                     other chapters, or all
    python .ci/lite.py SITE --pyodide FOLDER          Pyodide and numpy from a folder that CONTRIBUTING says how to fill

Of each chapter: it opens, runs unsolved without an error; three wrong answers are told their smallest case; the printed
solutions pass; the film steps; the kernel answers; after a reload the files are there. Nothing is asked of any host
but this machine and Pyodide's CDN. It prints what it saw, and ends with status 1 where something does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import http.server
import json
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "notebooks")]
from browser import Page, launch
from build import WITHOUT_BROWSER
from chapters import NOTEBOOKS, load, solutions

from minikv.course.pieces.checking import CANNOT
from minikv.course.pieces.piece import find_exercise, find_piece
from minikv.course.pieces.stored import wrong_answers_to

CDN = "https://cdn.jsdelivr.net/pyodide/"
TRIAL = NOTEBOOKS[0].with_name("try_it.ipynb")
RUNS = [TRIAL, *(path for path in NOTEBOOKS if not path.stem.startswith(WITHOUT_BROWSER))]
ASKED = re.compile(r'^(?:\w+ = )?check\("([\d.]+) .*$', re.MULTILINE)  # in a cell with a stub
MOST_SECONDS = 240  # for all cells of a chapter, or until Python is ready
STUB = "raise NotImplementedError"
PANEL = "window.jupyterapp.shell.currentWidget"
OPENED = f"""async () => {{ const panel = {PANEL}; await panel.context.ready; await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info; }}"""
FILL = f"""answers => {{ for (const cell of {PANEL}.content.widgets) {{ const shared = cell.model.sharedModel;
    const source = shared.getSource(), asked = /^(?:\\w+ = )?check\\("([\\d.]+) .*$/m.exec(source);
    const answer = asked && answers[asked[1]];
    if (answer) shared.setSource(answer + "\\n" + asked[0]); }} }}"""
RUN_ALL = "async () => await window.jupyterapp.commands.execute('notebook:run-all-cells')"
CELLS = f"""() => {PANEL}.content.widgets.filter(cell => cell.model.type === 'code')
    .map(cell => [cell.model.sharedModel.getSource(), cell.model.outputs.toJSON(), cell.model.executionCount])"""
ASK = f"""async code => {{ let said = '';
    const asked = {PANEL}.sessionContext.session.kernel.requestExecute({{code}});
    asked.onIOPub = ({{content}}) => {{ said += content.text ?? content.ename ?? ''; }};
    await asked.done; return said; }}"""


# -- the site, and a copy of it that asks nobody ----------------------------------------------------------------------


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder on this machine, while it is open."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def log_error(self, *_: Any) -> None:
            print(f"nothing is at {self.path}")

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        server.handle_error = lambda *_: None  # a page that is left does not wait for what it asked for
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def with_pyodide(site: Path, pyodide: Path) -> None:
    """Let a built site take Pyodide and its packages from its own folder, into which they are copied."""
    shutil.copytree(pyodide / "node_modules" / "pyodide", site / "lite" / "pyodide")
    settings = site / "lite" / "jupyter-lite.json"
    found = json.loads(settings.read_text("utf-8"))
    kernel = found["jupyter-config-data"]["litePluginSettings"]["@jupyterlite/pyodide-kernel-extension:kernel"]
    kernel["pyodideUrl"] = "./pyodide/pyodide.mjs"  # relative to the settings
    settings.write_text(json.dumps(found), "utf-8")
    lock = site / "lite" / "wheels" / "pyodide-lock.json"
    found = json.loads(lock.read_text("utf-8"))
    for name, package in found["packages"].items():
        if package["file_name"].startswith(CDN):
            (wheel,) = pyodide.glob(f"{name.replace('-', '_')}-*.whl")
            shutil.copy(wheel, site / "lite" / "wheels")
            package.update(file_name=wheel.name, sha256=hashlib.sha256(wheel.read_bytes()).hexdigest())
    lock.write_text(json.dumps(found), "utf-8")


# -- a visitor --------------------------------------------------------------------------------------------------------


class Visitor:
    """Somebody with the site in a browser of their own."""

    def __init__(self, browser: Any, address: str, **look: Any) -> None:
        self.address = address
        self.tab = Page(browser, local=(address, "data:", "blob:", CDN), **look)
        self.page = self.tab.page

    def open(self, notebook: str) -> float:
        """Open a notebook and wait for Python; returns how many seconds that took."""
        began = time.monotonic()
        self.page.goto(f"{self.address}lite/notebooks/index.html?path={notebook}")
        self.page.wait_for_function(f"() => {PANEL.replace('.shell', '?.shell')}", timeout=120_000)
        self.evaluate(OPENED)
        return time.monotonic() - began

    def run(self, answers: dict[str, str] | None = None) -> list[tuple[str, list[Any]]]:
        """Write answers into the cells that ask for them, and run all; the source and the outputs of each code cell."""
        self.evaluate(FILL, answers or {})
        self.evaluate(RUN_ALL)
        cells = self.evaluate(CELLS)
        expect(all(count for *_, count in cells), "a cell did not run")
        return [(source, outputs) for source, outputs, _ in cells]

    def evaluate(self, act: str, about: Any = None) -> Any:
        """Call a function of JavaScript; `Error` where it takes more than `MOST_SECONDS`, as when Python has ended."""
        late = f"new Promise((_, no) => setTimeout(() => no(new Error('no answer')), {MOST_SECONDS}_000))"
        return self.page.evaluate(f"about => Promise.race([({act})(about), {late}])", about)

    def ask(self, code: str) -> str:
        """Run code in the kernel beside the notebook; what it printed, or the name of its error."""
        return str(self.evaluate(ASK, code))


def text_of(outputs: list[Any]) -> str:
    """All that a cell printed or raised."""
    return "".join("".join(each.get("text", each.get("ename", ""))) for each in outputs)


# -- a chapter --------------------------------------------------------------------------------------------------------


def answers_of(notebook: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The printed solution of each piece and exercise of a chapter, and a wrong answer to three of its pieces."""
    source = load(notebook)
    printed = solutions(source)
    cells = (cell.source for cell in source.cells if cell.cell_type == "code")
    asked = [found[1] for text in cells if STUB in text and (found := ASKED.search(text))]
    right = {id: printed.get(id) or (find_piece(id) or find_exercise(id)).solution for id in asked}
    wrong = {id: wrong_answers_to(id)[0].section.text for id in asked if find_piece(id)}
    return right, dict(list(wrong.items())[:3])


def go_through(visitor: Visitor, notebook: Path) -> Iterator[str]:
    """Do all that a learner does in a chapter; yields in words what was seen, and raises where something is wrong."""
    right, wrong = answers_of(notebook)
    yield f"{notebook.name}: Python is ready {visitor.open(notebook.name):.0f} s after the address was opened"
    yield f"unsolved: {expect_no_error(visitor.run())} cells ran"
    told = {}
    for source, outputs in visitor.run(wrong):
        if (asked := ASKED.search(source)) and asked[1] in wrong:
            told[asked[1]] = text_of(outputs)
    for id, said in told.items():
        case, _, rest = said.partition("\n")
        expect(case.startswith(f"✗ {id} ") and CANNOT not in case, f"a wrong {id} is told {said!r}")
        expect("Hint: " in rest, f"a wrong {id} gets no hint: {said!r}")
    expect(len(told) == len(wrong), f"of {len(wrong)} wrong answers, {len(told)} were judged")
    if wrong:
        yield f"wrong: {len(told)} answers were told their case and a hint"
    began = time.monotonic()
    solved = visitor.run(right)
    count = expect_no_error(solved)
    text = "".join(text_of(outputs) for _, outputs in solved)
    passed = {id for id in right if re.search(rf"^✓ {re.escape(id)} ", text, re.MULTILINE)}
    expect(passed == {*right}, f"of the printed solutions, {sorted({*right} - passed)} did not pass")
    yield f"solved: {count} cells ran in {time.monotonic() - began:.0f} s, {len(passed)} answers passed"
    code = "".join(source for source, _ in solved)
    if ".player(" in code:
        yield step_the_film(visitor)
    if "playground(" in code:
        yield type_into_the_playground(visitor)
    expect(visitor.ask("print(6 * 7)") == "42\n", "the kernel does not answer any more")
    visitor.open(notebook.name)
    files = visitor.ask("import os; print(*sorted(os.listdir()))").split()
    kept = {"progress.json"} if right else set()
    kept |= {"my_minikv.py"} if wrong else set()
    expect(kept <= {*files}, f"after a reload there are {files}")
    expect(not any(file.endswith(".lock") for file in files), f"locks lie among the files: {files}")
    if wrong:
        said = visitor.ask(f"from minikv.course.pieces import begin; begin({int(notebook.stem[:2])}, {{}})")
        expect("From your my_minikv.py" in said, f"after a reload, no piece is the learner's: {said!r}")
    yield f"after a reload there are {', '.join(sorted(kept)) or 'no files, and none was made'}"


def step_the_film(visitor: Visitor) -> str:
    """Go to the first step of the first film of the page, and to the next."""
    film = visitor.page.locator(".minikv-player").first
    film.scroll_into_view_if_needed()
    film.locator("[data-testid=first]").click()
    before = film.get_attribute("data-step")
    film.locator("[data-testid=next]").click()
    after = film.get_attribute("data-step")
    expect((before, after) == ("0", "1"), f"the film steps from {before} to {after}")
    return "the film steps"


def type_into_the_playground(visitor: Visitor) -> str:
    """Insert a prompt in the first playground of the page."""
    box = visitor.page.locator(".minikv-playground").first
    box.scroll_into_view_if_needed()
    box.get_by_label("prompt", exact=True).fill("1 2 3 4")
    box.get_by_role("button", name="insert", exact=True).click()
    box.get_by_role("status").filter(has_text="insert [1 2 3 4]").wait_for()
    return "a prompt went into the playground"


def expect_no_error(cells: list[tuple[str, list[Any]]]) -> int:
    """The number of the cells, none of which raised an error or wrote one."""
    for source, outputs in cells:
        bad = [each for each in outputs if each["output_type"] == "error" or each.get("name") == "stderr"]
        expect(not bad, f"a cell failed: {source[:80]!r}: {text_of(bad)[-500:]!r}")
    return len(cells)


def expect(is_right: bool, words: str) -> None:
    """Raise an `AssertionError` with these words unless it is right."""
    if not is_right:
        raise AssertionError(words)


def check(site: Path, notebooks: list[Path]) -> None:
    """Go through chapters of a site that is served on this machine."""
    from playwright.sync_api import sync_playwright

    with served(site) as address, sync_playwright() as playwright:
        browser = launch(playwright)
        visitor = Visitor(browser, address)
        for notebook in notebooks:
            for line in go_through(visitor, notebook):
                print(line, flush=True)
        version = visitor.ask("import numpy; print(numpy._core._multiarray_umath.__file__, numpy.__version__)").split()
        expect(version[0].endswith(".so"), "numpy is a stand-in")
        expect(not visitor.tab.leaks, f"other hosts were asked: {visitor.tab.leaks[:5]}")
        expect(not visitor.tab.errors, f"the console has errors: {visitor.tab.errors[:5]}")
        print(f"numpy {version[1]}; nothing but {address} and {CDN} was asked; no error in the console")
        browser.close()


def main() -> int:
    """Check the site that is named, or a copy of it that takes Pyodide from a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("chapters", nargs="*", default=["try", "03"])
    parser.add_argument("--pyodide", type=Path)
    options = parser.parse_args()
    chosen = tuple("" if chapter == "all" else chapter for chapter in options.chapters)
    with tempfile.TemporaryDirectory() as name:
        site = options.site
        if options.pyodide:
            site = Path(name) / "site"
            shutil.copytree(options.site / "lite", site / "lite")
            with_pyodide(site, options.pyodide)
        try:
            check(site, [path for path in RUNS if path.stem.startswith(chosen)])
        except Exception as error:
            print(f"The course does not run in the browser: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
