"""No answer to a prediction can be read before the guess: in JupyterLab, trusted or not, and in exported HTML."""

from __future__ import annotations

import nbformat
import pytest
from browser import RUN_ALL, Page, chromium, lab  # noqa: F401 - fixtures
from chapters import REBUILT, load
from nbconvert import HTMLExporter

pytestmark = pytest.mark.browser
CHAPTER = next(path for path in REBUILT if path.stem.startswith("03"))
READABLE = """() => [...document.querySelectorAll('.jp-OutputArea-output details')].map(fold => [
    fold.querySelector('summary').innerText.split(':')[0],
    [...fold.children].some(child => child.tagName !== 'SUMMARY' && child.checkVisibility()),
])"""


def folds(path):
    """How many outputs of a chapter are folded."""
    html = [
        output.get("data", {}).get("text/html", "") for cell in load(path).cells for output in cell.get("outputs", [])
    ]
    return sum(text.startswith("<details>") for text in html)


def readable(page):
    """The predictions whose answer can be read."""
    found = [name for name, is_open in page.evaluate(READABLE) if is_open and name.count(".") == 1]
    return sorted({name for name in found if name[0].isdigit()})


def labels(page):
    return {name for name, _ in page.evaluate(READABLE) if name[:1].isdigit()}


def test_no_answer_is_visible_in_jupyterlab_before_a_guess(lab, chromium):  # noqa: F811
    """Fresh from a clone, where a notebook is not trusted, and after Run All, where it is."""
    tab = Page(chromium, height=20_000)  # so that every cell is there
    page = tab.page
    page.goto(f"{lab.base}/lab/tree/{CHAPTER.name}?reset&token={lab.token}")
    page.wait_for_selector(".jp-OutputArea-output details")
    page.wait_for_function(f"document.querySelectorAll('.jp-OutputArea-output details').length >= {folds(CHAPTER)}")
    assert len(labels(page)) == folds(CHAPTER)
    assert not readable(page)
    assert page.evaluate(RUN_ALL)
    page.wait_for_timeout(500)
    assert len(labels(page)) == folds(CHAPTER)
    assert not readable(page)
    page.locator(".jp-OutputArea-output summary", has_text="3.a").first.click()
    assert readable(page) == ["3.a"]
    tab.context.close()


def test_no_answer_is_visible_in_exported_html(chromium, tmp_path):  # noqa: F811
    html, _ = HTMLExporter().from_notebook_node(nbformat.read(CHAPTER, as_version=4))
    (tmp_path / "chapter.html").write_text(html, "utf-8")
    page = chromium.new_page()
    page.goto((tmp_path / "chapter.html").as_uri())
    assert len(labels(page)) == folds(CHAPTER)
    assert not readable(page)
    page.close()
