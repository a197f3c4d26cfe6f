"""What a chapter shows can be read by everybody: axe on its text and its outputs, on a light page and on a dark one."""

import nbformat
import pytest
from browser import Page, serious_findings
from chapters import NOTEBOOKS
from nbconvert import HTMLExporter

pytestmark = [pytest.mark.browser, pytest.mark.nightly]  # by day two pages of the site are looked at
TEXT, OUTPUTS = ".jp-RenderedMarkdown", ".jp-OutputArea-output:not(.jp-RenderedMarkdown)"  # code, too, is text
JUPYTERS = "color-contrast", "link-in-text-block"  # the colors of text are those of Jupyter's style sheet


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_axe_finds_nothing_serious_in_an_exported_chapter(path, theme, chromium, tmp_path):
    html, _ = HTMLExporter(theme=theme).from_notebook_node(nbformat.read(path, as_version=4))
    (tmp_path / "chapter.html").write_text(html, "utf-8")
    tab = Page(chromium, dark=theme == "dark")
    tab.context.unroute_all()
    tab.context.route("http*://**", lambda route: route.abort())  # where mathematics is set, in pages of Jupyter's
    tab.page.goto((tmp_path / "chapter.html").as_uri())
    tab.page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    assert tab.page.locator(OUTPUTS).count() > 10
    assert serious_findings(tab.page, OUTPUTS) == []
    assert [found for found in serious_findings(tab.page, TEXT) if not found.startswith(JUPYTERS)] == []
    tab.context.close()
