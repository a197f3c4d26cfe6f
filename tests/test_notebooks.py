"""The rules of a chapter: its form, its size, its outputs, its sources, and its bare code against the package's."""

import ast
import contextlib
import io
import itertools
import re

import build
import nbformat
import pytest
from chapters import (
    BUILDS,
    CHOICE,
    NOTEBOOKS,
    PAGE,
    ROOT,
    code_cells,
    code_under,
    load,
    markdown,
)
from nightly import NIGHTLY
from refusals import said
from test_house import chapters_that_need_torch

SLOW = {"00": ["live_chat(", "in chats.items()"]}  # what the few cells of a chapter call that take seconds
SHAPE = ["The problem", "Build it", "The same in `minikv`", "Play", "More to try", "What it cost", "In real engines",
         "Recap"]  # fmt: skip
HAS = [
    "you will be able to",
    "**Read**",
    "**Needs**",
    "**New words**",
    "**Check yourself**",
    "**Read on**",
]
WORDS, MAP = load(PAGE), markdown(load(PAGE))


class Page:
    """A stored notebook: its cells, those with code, its text without the code that it shows, and its headings."""

    def __init__(self, path):
        self.path, self.stored = path, load(path)
        self.name, self.number = path.stem, path.stem[:2]
        self.cells, self.code, self.text = (
            self.stored.cells,
            code_cells(self.stored),
            markdown(self.stored),
        )
        self.prose = re.sub(r"```.*?```", "", self.text, flags=re.DOTALL)
        self.headings = re.findall(r"^(#+) (.+)$", self.prose, re.MULTILINE)


@pytest.fixture(scope="module", params=NOTEBOOKS, ids=lambda path: path.stem)
def chapter(request):
    return Page(request.param)


@pytest.fixture(scope="module", params=[*NOTEBOOKS, CHOICE], ids=lambda path: path.stem)
def page(request):
    return Page(request.param)


def test_a_notebook_is_not_stale(page):
    """The stored cells are those that the source makes; strict nbval then compares what they print."""
    fresh, stored = (
        [(cell.id, cell.cell_type, cell.source, cell.metadata) for cell in notebook.cells]
        for notebook in (
            build.assemble(ROOT / "notebooks" / "src" / f"{page.name}.py"),
            page.stored,
        )
    )
    assert stored == fresh, "run python notebooks/build.py"


def test_the_page_of_words_is_not_stale_and_has_every_chapter_with_its_question():
    fresh, stored = ([(cell.id, cell.source) for cell in page.cells] for page in (build.page(build.PAGE), WORDS))
    assert stored == fresh
    assert [path.stem for path in build.chapters()] == [path.stem for path in NOTEBOOKS]
    rows = re.findall(r"^\| \[(.*?)\]\((\d.*?)\) \| (.*?) \|", MAP, re.MULTILINE)
    titles = [(path, Page(path).headings[0][1].split(" · ")[1]) for path in NOTEBOOKS]
    assert rows[: len(titles)] == [(build.title(path.stem), path.name, asks) for path, asks in titles]
    assert f"]({CHOICE.name})" in MAP


def minutes_to_read(page, piece):
    """How long a learner reads until the heading of a piece, as `build.time_needed` counts."""
    minutes = 0
    for cell in page.cells:
        before, heading, _ = cell.source.partition(f"#### {piece} You write: ")
        lines = [line for line in before.splitlines() if line.strip()]
        minutes += len(lines) / 6 if cell.cell_type == "code" else len(before.split()) / 200
        if heading:
            return minutes
    raise ValueError(f"no piece {piece}")


def test_a_reader_on_the_fast_track_is_at_its_second_piece_in_about_20_minutes():
    track = MAP.partition("## A fast track")[2].partition("## Glossary")[0]
    rows = re.findall(r"^\| (\d\d) \| (\d+\.\d) (`\w+`), (\d+\.\d) (`\w+`) \|", track, re.MULTILINE)
    assert len(rows) == track.count("\n| ") - 2  # but for the heading and chapter 00
    for number, first, name, second, other in rows:
        (page,) = (Page(path) for path in NOTEBOOKS if path.stem.startswith(number))
        assert f"#### {first} You write: {name}" in page.text
        assert f"#### {second} You write: {other}" in page.text
        assert minutes_to_read(page, first) < minutes_to_read(page, second) < 25


def test_a_notebook_was_run_once_without_an_error_and_keeps_nothing_of_a_live_kernel(page):
    text = page.path.read_text("utf-8")
    assert [cell.execution_count for cell in page.code] == list(range(1, len(page.code) + 1))
    kinds = {output.get("name", output.output_type) for cell in page.code for output in cell.outputs}
    assert not kinds & {"error", "stderr"}
    assert set(page.stored.metadata) == {"kernelspec", "language_info"}
    assert page.stored.metadata.language_info == {"name": "python"}
    assert "widget-view" not in text
    assert len(text.encode()) < 500_000
    nbformat.validate(page.stored)


def test_a_cell_is_short_plain_python_that_is_shown_and_compared(page):
    """But for the set-up and what is folded, which are hidden, and one cell that measures."""
    for cell in page.code:
        lines = [line for line in cell.source.splitlines() if line.strip()]
        assert len(lines) <= 12, cell.source
        assert max(map(len, lines)) <= 88, cell.source
        ast.parse(cell.source)
    assert {key for cell in page.cells for key in cell.metadata} <= {"tags", "jupyter", "transient"}
    hidden = [cell.source for cell in page.cells if cell.metadata == build.HIDDEN]
    folds = [cell.source for cell in page.cells if re.search(r"^fold\(", cell.source, re.MULTILINE)]
    assert hidden == [page.cells[2].source, *folds]
    tags = [tag for cell in page.cells for tag in cell.metadata.get("tags", [])]
    assert str(tags).count("nbval") <= 1
    assert "NBVAL" not in page.text


def test_outputs_are_pictures_with_a_text_twin_or_text(page):
    """Both forms of a picture: in nbconvert's HTML a PNG has no alternative text, and its LaTeX shows no HTML."""
    pictures = 0
    for output in (output for cell in page.code for output in cell.outputs):
        data = {
            "text/plain": "a stream",
            "text/markdown": "~~~python",
            "text/html": "",
            **output.get("data", {}),
        }
        assert set(data) <= {"text/plain", "image/png", "text/html", "text/markdown"}
        assert data["text/markdown"].startswith("~~~python"), "code, and nothing else"
        pictures += "image/png" in data or "<img" in data["text/html"]
        shown = re.findall(r'<img alt="[^"]{11,}" width="\d+" style="[^"]*" src="data:', data["text/html"])
        assert "image/png" not in data or len(shown) == 1
        assert len(data["text/plain"]) > 1
        text = data["text/plain"] + output.get("text", "")
        assert not re.search(r" at 0x[0-9a-f]+|/home/|/tmp/|/Users/", text), text
    assert pictures >= 2, "the picture, and the player's"


def test_a_chapter_has_its_parts_in_order_and_shows_little_at_once(chapter):
    text, levels = chapter.text, [len(level) for level, _ in chapter.headings]
    assert levels.count(1) == 1
    assert chapter.headings[0][1].endswith("?"), "the title is a question"
    assert [words for level, words in chapter.headings if level == "##"] == SHAPE
    assert all(after <= before + 1 or after == 4 for before, after in itertools.pairwise(levels)), "headings in order"
    assert [words for words in HAS if words not in text] == []
    questions = text[text.index("**Check yourself**") : text.rindex("<details>")]
    assert len(re.findall(r"^\d\. ", questions, re.MULTILINE)) == 4
    assert 1 <= len(re.findall(r"\]\(http", text[text.index("**Read on**") :])) <= 4
    unfolded = re.sub("<details>.*?</details>", "", chapter.prose, flags=re.DOTALL)
    prose = re.sub(r"^\|.*$|\]\(.*?\)", "", unfolded, flags=re.MULTILINE)
    assert "**Check yourself**" in prose, "counted to the end"
    assert len(prose.split()) <= 2400


def test_no_class_of_a_chapter_is_built_across_cells(chapter):
    """A class is shown whole, once, and none of the chapter's own classes has another of them for its base."""
    nodes = [node for cell in chapter.code for node in ast.parse(cell.source).body]
    bases = {node: node.bases for node in nodes if isinstance(node, ast.ClassDef)}
    names = [node.name for node in bases]
    assert len(names) == len({*names})
    assert not {*names} & {ast.unparse(base) for each in bases.values() for base in each}


def test_new_words_are_in_the_glossary_and_bold_where_they_are_explained(chapter):
    words = re.search(r"\*\*New words\*\* (.+?)\.", chapter.text)[1].split(", ")
    assert 3 <= len(words) <= 5
    assert {*words} <= {*re.findall(r"^\| ([\w -]+) \|", MAP.partition("## Glossary")[2], re.MULTILINE)}
    assert [word for word in words if f"**{word}**" not in chapter.text] == []


def test_any_cell_can_be_run_twice(chapter):
    """Running a cell a second time right away prints and shows the same: it builds its own small world first.

    Not so a cell that measures: there it is enough that it runs. By day those of every fourth chapter are, without
    those that take seconds: in chapter 08 that is all but what it builds.
    """
    cells, slow = chapter.code, SLOW.get(chapter.number, ())
    if not NIGHTLY and int(chapter.number) % 4:
        pytest.skip("waits for the night: HYPOTHESIS_PROFILE=nightly")
    if not NIGHTLY and chapter.number == "08":
        cells = code_under(chapter.stored, *BUILDS)
    elif not NIGHTLY:
        cells = [cell for cell in cells if not any(word in cell.source for word in slow)]
        assert len(cells) < len(chapter.code) or not slow
    for cell, first, second in run_twice(cells):
        assert first == second or "measured" in cell.metadata.get("tags", []), cell.source


def run_twice(cells):
    """Each cell, with what it prints and shows the first and the second time."""
    names = {"__name__": "__main__"}
    for cell in cells:
        tree, both = ast.parse(cell.source), []
        if not isinstance(tree.body[-1], ast.Expr):
            tree.body += ast.parse("None").body
        last = ast.Expression(tree.body.pop().value)
        for _ in range(2):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec(compile(tree, "<cell>", "exec"), names)
                shown = eval(compile(last, "<cell>", "eval"), names)
            both.append((said.getvalue(), repr(shown)))
        yield cell, *both


def test_in_chapter_00_something_can_be_clicked_in_the_first_two_minutes():
    """At 200 words a minute, and before the first prediction."""
    cells = Page(NOTEBOOKS[0]).cells
    first = next(at for at, cell in enumerate(cells) if "Player with" in str(cell.get("outputs")))
    assert not [cell.source for cell in cells[: first + 1] if cell.source.startswith("guess(")]
    assert 0 < sum(len(cell.source.split()) for cell in cells[:first] if cell.cell_type == "markdown") <= 400


def test_links_and_set_up_come_from_one_address():
    address = {"repository": "https://github.com/someone/somewhere", "tag": "v9"}
    notebook = build.assemble(build.chapters()[0], address)
    links, setup = notebook.cells[1].source, notebook.cells[2].source
    assert "colab.research.google.com/github/someone/somewhere/blob/v9/notebooks/00_start_here" in links
    assert '"minikv[colab] @ git+https://github.com/someone/somewhere@v9"' in setup
    ast.parse(setup)
    assert "http" not in build.setup_code({"repository": "", "tag": ""}, 3), "no address is invented"


def test_the_link_to_the_browser_is_first_where_the_site_has_it_and_not_where_torch_is_needed():
    address = {"repository": "https://github.com/someone/somewhere", "tag": "v9", "in_browser": True}
    place = "https://someone.github.io/somewhere/lite/notebooks/index.html?path="
    for path in build.chapters():
        first = build.navigation(path, address).split(" · ")[0]
        needs_torch = path.stem[:2] in chapters_that_need_torch()
        assert first.endswith(f"]({place}{path.stem}.ipynb)") != needs_torch
        assert first.startswith("PyTorch has no build for browsers") == needs_torch
    text = build.README.read_text("utf-8")
    assert build.readme(text, build.project()) == text, "run python notebooks/build.py"
    assert f"({place}try_it.ipynb)" in build.readme(text, address)
    nowhere = said(build.assemble, build.chapters()[0], {**address, "repository": ""})
    assert "in_browser is true: it needs a repository at github.com, not ''" in nowhere


ADDRESSES = {
    "https://github.com/someone/somewhere": True,
    "https://git.example:8443/a/b.c.git": True,
    "": True,
    "https://github.com/someone/somewhere/": False,
    "git@github.com:someone/somewhere.git": False,
    "http://github.com/someone/somewhere": False,
    "github.com/someone/somewhere": False,
    "https://github.com": False,
    'https://github.com/someone/some"where': False,
}


@pytest.mark.parametrize(("repository", "is_one"), ADDRESSES.items())
def test_an_address_that_pip_cannot_install_from_is_refused_before_a_notebook_is_made(repository, is_one):
    refused = said(build.assemble, build.chapters()[0], {"repository": repository, "tag": "v9"})
    words = "must look like https://github.com/OWNER/NAME, without a slash at the"
    assert (words in refused) != is_one
