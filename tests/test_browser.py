"""The chapters as a learner opens them: JupyterLab in a browser, everything run, the player used, nothing leaving."""

import pytest
from browser import Page
from chapters import NOTEBOOKS
from nightly import by_day

from minikv.cli.lab import OURS

pytestmark = pytest.mark.browser


BY_DAY = "04"  # one chapter


@pytest.mark.parametrize(
    "path", by_day(NOTEBOOKS, lambda path: path.stem.startswith(BY_DAY)), ids=lambda path: path.stem
)
def test_a_chapter_runs_in_a_browser(path, lab, chromium):
    """All of it, and its player goes on when the kernel is gone."""
    tab = Page(chromium)
    page = lab.open(tab, path.name)
    player = page.locator(".minikv-player").first  # of a film; a playground has one, too
    player.wait_for()
    pictures = page.locator(".jp-OutputArea-output img")
    assert pictures.count() >= 1
    for i in range(pictures.count()):
        picture = pictures.nth(i)
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("img => img.complete && img.naturalWidth > 50")
        assert len(picture.get_attribute("alt")) > 10
    _use(player, page)
    assert not page.locator(".jp-mod-error, .jp-RenderedText[data-mime-type='application/vnd.jupyter.stderr']").count()
    assert not tab.leaks
    assert not tab.errors
    page.evaluate("async () => { await window.jupyterapp.shell.currentWidget.sessionContext.shutdown(); }")
    _use(player, page)
    tab.context.close()


def test_a_phone_shows_the_chapter_and_not_the_side_bar(lab, chromium):
    tab = Page(chromium, 390, 800)
    tab.page.goto(f"{lab.base}{OURS}/04_locking.ipynb?token={lab.token}")
    tab.page.wait_for_selector(".jp-Notebook")
    assert tab.page.locator(".jp-Notebook").evaluate("e => e.clientWidth") > 300
    tab.context.close()


def _use(player, page):
    """A button, a key and play, from the first step to the last."""
    player.scroll_into_view_if_needed()
    player.focus()
    page.keyboard.press("Home")
    last = int(player.locator("[data-testid=slider]").get_attribute("max"))
    caption = player.locator(".minikv-caption")
    first = int(caption.text_content().partition(".")[0])
    assert first in (0, 1)  # a film begins with the start, a row of pictures with its first step
    steps = [player.get_attribute("data-step")]
    player.locator("[data-testid=next]").click()
    steps.append(player.get_attribute("data-step"))
    page.keyboard.press("ArrowRight")
    steps.append(player.get_attribute("data-step"))
    assert steps == [str(min(step, last)) for step in range(3)]
    player.locator("[data-testid=speed]").select_option("240")
    player.locator("[data-testid=play]").click()
    page.wait_for_function(f"document.querySelector('.minikv-player').dataset.step === '{last}'")
    assert caption.text_content().startswith(f"{first + last}. ")
    assert player.locator(".minikv-scene svg").count() >= 1
