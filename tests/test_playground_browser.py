"""The playground as a class meets it: JupyterLab in a browser, typed into, pressed, undone; nothing leaves."""

from __future__ import annotations

import nbformat
import pytest
from browser import RUN_ALL, Page, serious_findings

pytestmark = pytest.mark.browser

CELL = "from minikv.course.playground import playground\nplayground(capacity=16)"


@pytest.fixture(scope="module")
def tab(lab, chromium):
    """A notebook of one cell, beside the chapters, open in a tab."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    path = lab.root / "notebooks" / "playground.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)], metadata=kernel), path)
    tab = Page(chromium)
    lab.open(tab, path.name)
    yield tab
    tab.page.evaluate("async () => { await window.jupyterapp.serviceManager.sessions.shutdownAll(); }")
    tab.context.close()


class PlaygroundOnPage:
    """The playground on a page, by what a person sees of it."""

    def __init__(self, page):
        self.box = page.locator(".minikv-playground")
        self.box.wait_for()

    def press(self, name):
        self.box.get_by_role("button", name=name, exact=True).click()

    def type(self, label, text):
        self.box.get_by_label(label, exact=True).fill(text)

    def says(self, words, role="status"):
        self.box.get_by_role(role).filter(has_text=words).wait_for()

    def shows(self, words):
        self.box.locator("svg").first.get_by_text(words, exact=True).wait_for()

    def lacks(self, words):
        self.box.locator("svg").first.get_by_text(words, exact=True).wait_for(state="detached")


@pytest.fixture
def room(tab):
    """A new playground: the cell has just been run again, and in the end nothing has gone wrong in the browser."""
    assert tab.page.evaluate(RUN_ALL)
    yield PlaygroundOnPage(tab.page)
    assert not tab.leaks
    assert not tab.errors


def test_enter_inserts_what_was_typed(room):
    room.type("prompt", "1 2 3 4")
    room.box.get_by_label("prompt", exact=True).press("Enter")
    room.shows("[1 2 3 4]")


def test_a_class_plays(room, tab):
    room.type("prompt", "1 2 3 4")
    room.press("insert")
    room.says("insert [1 2 3 4]: 0 of 4 cached, 4 new in slots 0-3")
    room.shows("[1 2 3 4]")
    room.type("prompt", "1 2 9")
    room.press("lock")
    room.says("lock 1 holds 2 tokens")
    room.shows("locked ×1")
    room.press("unlock")
    room.says("2 tokens of [1 2 9] given back")

    room.type("prompt", "1 -2")
    room.press("insert")
    room.says("tokens[1] is -2: a token is an integer in [0, 2**32)", role="alert")
    room.shows("[1 2]")

    room.press("undo")
    room.press("undo")
    room.says("undone: lock [1 2 9]")
    room.shows("[1 2 3 4]")
    room.press("redo")
    room.says("done again: lock [1 2 9]")
    room.shows("[3 4]")

    room.press("settings")
    size = room.box.get_by_label("page size", exact=True)
    size.fill("0")
    size.press("Enter")
    room.says("page_size is 0: a page holds at least 1 token", role="alert")
    tab.page.wait_for_function("() => document.querySelector('.minikv-playground input[type=number]').value === '1'")

    room.box.get_by_label("scene", exact=True).select_option(label="two prompts share a prefix")
    room.says("Both prompts begin alike")
    room.shows("'ran'")
    room.press("undo")
    room.lacks("'ran'")

    room.type("prompt", "hello world")
    room.press("insert")
    room.says("insert 'hello world': 0 of 11 cached")
    room.shows("'hello world'")


def test_a_click_never_overtakes_what_was_typed(room):
    for i in range(15):
        room.type("prompt", f"{i} 3 3")
        room.press("match")
        room.says(f"match [{i} 3 3]")


@pytest.mark.parametrize("width", [1280, 800])
def test_nothing_is_cut_off_in_a_window(width, room, tab):
    tab.page.set_viewport_size({"width": width, "height": 720})
    room.box.get_by_label("scene", exact=True).select_option(label="full: what may go?")
    room.says("The pool is full")
    cut = """(box, narrow) => {
      const right = box.closest('.jp-OutputArea-output').getBoundingClientRect().right;
      return [...box.querySelectorAll('button, input, select, label, [role], svg')].filter(e => {
        if (narrow && e.closest('[role=img]')) return false;  // a picture scrolls within its own box
        const r = e.getBoundingClientRect();
        return r.right > right + 1 || (e.tagName !== 'INPUT' && e.scrollWidth > e.clientWidth + 1 && e.clientWidth);
      }).map(e => e.outerHTML.slice(0, 90));
    }"""
    assert room.box.evaluate(cut, width <= 800) == []
    room.press("settings")
    size = room.box.get_by_label("capacity", exact=True)
    size.fill("200")
    size.press("Enter")
    room.says("capacity 8 → 200")
    for i in range(7):
        room.type("prompt", f"{i} 3 3 3 3 3 3")
        room.press("insert")
        room.says(f"insert [{i} 3 3 3 3 3 3]")
    scrolls = """narrow => {
      const picture = document.querySelector('.minikv-playground [role=img]');
      const right = e => e.getBoundingClientRect().right;
      return getComputedStyle(picture).overflowX === 'auto' && (!narrow || picture.scrollWidth > picture.clientWidth)
        && right(picture) < right(picture.closest('.jp-OutputArea-output'));
    }"""
    tab.page.wait_for_function(scrolls, arg=width <= 800)  # the words arrive before the picture is drawn again


def test_it_can_be_used_without_a_mouse(room, tab):
    page = tab.page
    room.box.get_by_label("prompt", exact=True).focus()
    page.keyboard.type("1 2 3")
    room.box.get_by_role("button", name="insert", exact=True).focus()
    page.keyboard.press("Space")
    room.says("insert [1 2 3]")
    scenes = room.box.get_by_label("scene", exact=True)
    scenes.focus()
    page.keyboard.press("s")  # a list jumps to what begins with the letter
    assert scenes.evaluate("e => e.value") == "split under a lock"
    room.says("The locked node was cut in two")


def test_axe_finds_nothing_serious(room, tab):
    room.type("prompt", "1 2 3")
    room.press("insert")
    room.says("insert [1 2 3]")
    room.press("settings")
    assert serious_findings(tab.page, ".minikv-playground") == []
    tab.page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    tab.page.wait_for_selector("body[data-jp-theme-light=false]", state="attached")
    room.press("match")
    room.says("match [1 2 3]")
    assert serious_findings(tab.page, ".minikv-playground") == []
    tab.page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})")
