"""No answer to a prediction can be read before the guess: in JupyterLab and Notebook 7, trusted or not, and in HTML."""

import nbformat
import pytest
from browser import RUN_ALL, Page, serious_findings
from chapters import NOTEBOOKS, load
from nbconvert import HTMLExporter
from nightly import by_day

pytestmark = pytest.mark.browser
PROGRAMS = [("jupyterlab", "lab/tree"), ("notebook", "notebooks")]
CHAPTER = next(path for path in NOTEBOOKS if path.stem.startswith("03"))
FOLDS = CHAPTER.read_text("utf-8").count('"fold(')
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


def predictions(page):
    """How many there are on a page, and those whose answer can be read."""
    found = [(name, is_open) for name, is_open in page.evaluate(READABLE) if name[:1].isdigit()]
    return len(dict(found)), {name for name, is_open in found if is_open}


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
    all_folds = f"document.querySelectorAll('.jp-OutputArea-output details').length >= {FOLDS}"
    for act in (None, TRUST, RUN_ALL):
        assert act is None or page.evaluate(act)
        page.wait_for_function(all_folds)
        page.wait_for_timeout(500)
        assert predictions(page) == (FOLDS, set())
    page.locator(".jp-OutputArea-output summary", has_text="3.a").first.click()
    assert predictions(page) == (FOLDS, {"3.a"})


def test_no_answer_is_visible_in_exported_html(chromium, tmp_path):
    html, _ = HTMLExporter().from_notebook_node(nbformat.read(CHAPTER, as_version=4))
    (tmp_path / "chapter.html").write_text(html, "utf-8")
    page = chromium.new_page()
    page.goto((tmp_path / "chapter.html").as_uri())
    assert predictions(page) == (FOLDS, set())
    page.close()


# -- guesses without typing into a cell ------------------------------------------------------------------------------

GUESSES = [
    "from minikv import fold, guess",
    'guess("9.y", "how many nodes?", None)',
    'fold("9.y", 4)',
    'guess("9.z", "is it \\"more\\" or \\"less\\"?", None)',
    'fold("9.z", "more")',
]
RUN_CELL = """async (at) => {
    const app = window.jupyterapp, notebook = app.shell.currentWidget.content;
    notebook.deselectAll(); notebook.activeCellIndex = at;
    return await app.commands.execute('notebook:run-cell');
}"""


class Room:
    """A notebook with two predictions, after Run All."""

    def __init__(self, lab, page):
        self.page, self.path = page, lab.root / "notebooks/played.ipynb"

    def cell(self, at):
        return self.page.locator(".jp-CodeCell").nth(at)

    def says(self, at, words):
        self.cell(at).locator(".jp-OutputArea-output").filter(has_text=words).first.wait_for()

    def press(self, at, name):
        self.cell(at).get_by_role("button", name=name, exact=True).click()

    def run(self, at):
        assert self.page.evaluate(RUN_CELL, at)

    def saved(self, at):
        """What the file holds of a cell's output, in words, once the notebook is saved."""
        self.page.evaluate("async () => { await window.jupyterapp.shell.currentWidget.context.save(); }")
        return [output["data"].get("text/plain") for output in load(self.path).cells[at].outputs]


@pytest.fixture
def room(lab, chromium):
    with lab.playing(chromium, GUESSES, height=1500) as tab:
        yield Room(lab, tab.page)
        assert serious_findings(tab.page, ".jp-CodeCell:nth-of-type(2) .jp-OutputArea") == []


def test_a_class_votes_in_a_field_and_the_next_cell_compares_the_last_guess(room):
    field = room.cell(1).get_by_label("your guess", exact=True)
    field.fill("5")
    room.press(1, "guess")
    room.says(1, "◆ 9.y: your guess is 5. Now run the next cell.")
    field.fill("4")
    field.press("Enter")
    room.says(1, "◆ 9.y: your guess is 4. Votes: 5 ×1, 4 ×1. Now run the next cell.")
    field.press("Shift+Enter")  # which is no second vote
    room.press(1, "guess")
    room.says(1, "Votes: 5 ×1, 4 ×2.")
    room.run(1)  # as Shift and Enter do after a click in the output
    room.says(1, "◆ 9.y: your guess is 4. Votes: 5 ×1, 4 ×2. Now run the next cell.")
    room.run(2)
    room.says(2, "Your guess, 4, is correct.")
    assert room.saved(1)[0] == "◆ 9.y: your guess is 4. Votes: 5 ×1, 4 ×2. Now run the next cell."


@pytest.mark.nightly  # by day in a field alone
def test_an_answer_that_a_question_offers_is_a_button(room):
    assert room.saved(3)[0].startswith('◇ 9.z: no guess yet. Answer below, or replace None with "more" or "less"')
    for name in ("less", "more"):
        room.press(3, name)
        room.says(3, f"◆ 9.z: your guess is {name!r}")
    room.run(4)
    room.says(4, "Your guess, 'more', is correct.")


@pytest.mark.nightly
def test_a_click_never_overtakes_what_was_typed_as_a_guess(room):
    for number in range(6):
        room.cell(1).get_by_label("your guess", exact=True).fill(str(number))
        room.press(1, "guess")
        room.says(1, f"your guess is {number}.")
