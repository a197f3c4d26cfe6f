"""No answer to a prediction can be read before the guess: in JupyterLab and Notebook 7, trusted or not, and in HTML."""

from __future__ import annotations

import nbformat
import pytest
from browser import RUN_ALL, Page
from chapters import NOTEBOOKS, load
from nbconvert import HTMLExporter
from nightly import by_day

pytestmark = pytest.mark.browser
PROGRAMS = [("jupyterlab", "lab/tree"), ("notebook", "notebooks")]
CHAPTER = next(path for path in NOTEBOOKS if path.stem.startswith("03"))
READABLE = """() => [...document.querySelectorAll('.jp-OutputArea-output details')].map(fold => [
    fold.querySelector('summary').innerText.split(':')[0],
    [...fold.children].some(child => child.tagName !== 'SUMMARY' && child.checkVisibility()),
])"""

TRUST = """async () => {
    const panel = window.jupyterapp.shell.currentWidget;
    await panel.context.ready;
    const cells = [...panel.content.model.cells].filter(cell => cell.type === 'code');
    const before = cells.some(cell => cell.trusted);
    cells.forEach(cell => cell.trusted = true);
    return !before;
}"""


def folds(path):
    """How many outputs of a chapter are folded."""
    html = [
        output.get("data", {}).get("text/html", "") for cell in load(path).cells for output in cell.get("outputs", [])
    ]
    return sum(text.startswith("<details") for text in html)


def readable(page):
    """The predictions whose answer can be read."""
    found = [name for name, is_open in page.evaluate(READABLE) if is_open and name.count(".") == 1]
    return sorted({name for name in found if name[0].isdigit()})


def labels(page):
    return {name for name, _ in page.evaluate(READABLE) if name[:1].isdigit()}


@pytest.fixture
def tab(chromium):
    tab = Page(chromium, height=20_000)  # so that every cell is there
    yield tab
    tab.context.close()


@pytest.mark.parametrize(("program", "address"), by_day(PROGRAMS, lambda one: one[0] == "jupyterlab"))
def test_no_answer_is_visible_before_a_guess(program, address, lab, tab):
    """Fresh from a clone, where nothing is trusted; once it is trusted; and after Run All."""
    pytest.importorskip(program)
    page = tab.page
    page.goto(f"{lab.base}/{address}/{CHAPTER.name}?reset&token={lab.token}")
    page.wait_for_selector(".jp-OutputArea-output details")
    all_folds = f"document.querySelectorAll('.jp-OutputArea-output details').length >= {folds(CHAPTER)}"
    for act in (None, TRUST, RUN_ALL):
        assert act is None or page.evaluate(act)
        page.wait_for_function(all_folds)
        page.wait_for_timeout(500)
        assert len(labels(page)) == folds(CHAPTER)
        assert not readable(page)
    page.locator(".jp-OutputArea-output summary", has_text="3.a").first.click()
    assert readable(page) == ["3.a"]


def test_no_answer_is_visible_in_exported_html(chromium, tmp_path):
    html, _ = HTMLExporter().from_notebook_node(nbformat.read(CHAPTER, as_version=4))
    (tmp_path / "chapter.html").write_text(html, "utf-8")
    page = chromium.new_page()
    page.goto((tmp_path / "chapter.html").as_uri())
    assert len(labels(page)) == folds(CHAPTER)
    assert not readable(page)
    page.close()
