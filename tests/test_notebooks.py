"""The rules of a chapter: its form, its size, its outputs, its sources, and its bare code against the package's."""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import os
import re
import symtable

import build
import nbformat
import pytest
from chapters import BUILDS, CHOICE, NOTEBOOKS, PAGE, ROOT, built, code_cells, code_under, load, markdown
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import NIGHTLY, by_day

from minikv import RadixCache
from minikv.course.live_chat import QUESTIONS, live_chat
from minikv.course.pieces.piece import pieces_for

LONG = "07", "08"  # whose cells take seconds
# What the few cells of other chapters call that take seconds.
SLOW = {
    "00": ["live_chat(", "in chats.items()"],
    "02": ["chat_through("],
    "03": ["chat_through("],
    "13": ["for policy in", "rates[", "point.blocks"],
    "14": ["[hours(", "= hours(", "through(agents", "through(requests"],
}
SHAPE = ["The problem", "Build it", "The same in `minikv`", "Play", "More to try", "What it cost", "In real engines",
         "Recap"]  # fmt: skip
each_chapter = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
each_notebook = pytest.mark.parametrize("path", [*NOTEBOOKS, CHOICE], ids=lambda path: path.stem)


def headings(notebook):
    return re.findall(r"^(#+) (.+)$", re.sub(r"```.*?```", "", markdown(notebook), flags=re.DOTALL), re.MULTILINE)


def test_every_source_has_its_notebook():
    assert [path.stem for path in build.chapters()] == [path.stem for path in NOTEBOOKS]


@each_notebook
def test_a_notebook_is_not_stale(path):
    """The stored cells are those that the source makes; strict nbval then compares what they print."""
    fresh, stored = (
        [(c.id, c.cell_type, c.source, c.metadata) for c in notebook.cells]
        for notebook in (build.assemble(ROOT / "notebooks" / "src" / f"{path.stem}.py"), load(path))
    )
    assert stored == fresh, "run python notebooks/build.py"


def test_the_page_of_words_is_not_stale_and_has_every_chapter_with_its_question():
    fresh, stored = build.page(build.PAGE), load(PAGE)
    assert [(c.id, c.source) for c in stored.cells] == [(c.id, c.source) for c in fresh.cells]
    rows = re.findall(r"^\| \[(.*?)\]\((\d.*?)\) \| (.*?) \|", markdown(stored), re.MULTILINE)
    chapters = [(build.title(path.stem), path.name, headings(load(path))[0][1]) for path in NOTEBOOKS]
    assert rows[: len(chapters)] == [(title, name, asks.split(" · ")[1]) for title, name, asks in chapters]


@pytest.mark.parametrize("path", [*NOTEBOOKS, CHOICE, PAGE], ids=lambda path: path.stem)
def test_links_between_chapters_lead_somewhere(path):
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", markdown(load(path))):
        assert (path.parent / target).exists(), target
    assert path != PAGE or f"]({CHOICE.name})" in markdown(load(path))


def minutes_to_read(notebook, piece):
    """How long a learner reads until the heading of a piece, as `build.time_needed` counts."""
    minutes = 0
    for cell in notebook.cells:
        before, heading, _ = cell.source.partition(f"#### {piece} You write: ")
        lines = [line for line in before.splitlines() if line.strip()]
        minutes += len(lines) / 6 if cell.cell_type == "code" else len(before.split()) / 200
        if heading:
            return minutes
    raise ValueError(f"no piece {piece}")


def test_a_reader_on_the_fast_track_is_at_its_second_piece_in_about_20_minutes():
    track = markdown(load(PAGE)).partition("## A fast track")[2].partition("## Glossary")[0]
    rows = re.findall(r"^\| (\d\d) \| (\d+\.\d) `(\w+)`, (\d+\.\d) `(\w+)` \|", track, re.MULTILINE)
    assert len(rows) == track.count("\n| ") - 2  # but for the heading and chapter 00
    for chapter, first, name, second, other in rows:
        (path,) = (path for path in NOTEBOOKS if path.stem.startswith(chapter))
        notebook = load(path)
        for piece, function in ((first, name), (second, other)):
            assert f"#### {piece} You write: `{function}`" in markdown(notebook), piece
        assert minutes_to_read(notebook, first) < minutes_to_read(notebook, second) < 25


@each_notebook
def test_a_notebook_was_run_once_without_an_error_and_keeps_nothing_of_a_live_kernel(path):
    notebook, text = load(path), path.read_text("utf-8")
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output.get("name", output.output_type) for cell in cells for output in cell.outputs}
    assert not kinds & {"error", "stderr"}
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.language_info == {"name": "python"}
    assert "widget-view" not in text
    assert len(text.encode()) < 500_000
    nbformat.validate(notebook)


@each_notebook
def test_a_cell_is_short_plain_python_that_is_shown_and_compared(path):
    """But for the set-up and what is folded, which are hidden, and one cell that measures."""
    notebook = load(path)
    for cell in code_cells(notebook):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        assert len(lines) <= 12, cell.source
        assert max(map(len, lines)) <= 88, cell.source
        ast.parse(cell.source)
    assert all(set(cell.metadata) <= {"tags", "jupyter", "transient"} for cell in notebook.cells)
    hidden = [cell.source for cell in notebook.cells if cell.metadata == build.HIDDEN]
    folds = [cell.source for cell in notebook.cells if re.search(r"^fold\(", cell.source, re.MULTILINE)]
    assert hidden == [notebook.cells[2].source, *folds]
    tags = [tag for cell in notebook.cells for tag in cell.metadata.get("tags", [])]
    assert len([tag for tag in tags if tag.startswith("nbval")]) <= 1
    assert "NBVAL" not in path.read_text("utf-8")


@each_notebook
def test_outputs_are_pictures_with_a_text_twin_or_text(path):
    """Both forms of a picture: in nbconvert's HTML a PNG has no alternative text, and its LaTeX shows no HTML."""
    pictures = 0
    for output in (output for cell in code_cells(load(path)) for output in cell.outputs):
        data = {"text/plain": "a stream", "text/markdown": "~~~python", "text/html": "", **output.get("data", {})}
        assert set(data) <= {"text/plain", "image/png", "text/html", "text/markdown"}
        assert data["text/markdown"].startswith("~~~python"), "code, and nothing else"
        pictures += "image/png" in data or "<img" in data["text/html"]
        if "image/png" in data:
            shown = r'<img alt="[^"]{11,}" width="\d+" style="[^"]*" src="data:'
            assert len(re.findall(shown, data["text/html"])) == 1
        assert len(data["text/plain"]) > 1
        text = data["text/plain"] + output.get("text", "")
        assert not re.search(r" at 0x[0-9a-f]+|/home/|/tmp/|/Users/", text), text
    assert pictures >= 2, "the picture, and the player's"


@each_chapter
def test_a_rebuilt_chapter_has_its_parts_in_order(path):
    notebook = load(path)
    found = headings(notebook)
    assert [level for level, _ in found].count("#") == 1
    assert found[0][1].endswith("?"), "the title is a question"
    assert [text for level, text in found if level == "##"] == SHAPE
    deep = [len(level) for level, _ in found]
    assert all(after <= before + 1 or after == 4 for before, after in itertools.pairwise(deep)), "headings in order"
    text = markdown(notebook)
    for needed in (
        "you will be able to",
        "**Read**",
        "**Needs**",
        "**New words**",
        "**Check yourself**",
        "**Read on**",
    ):
        assert needed in text
    questions = text[text.index("**Check yourself**") : text.rindex("<details>")]
    assert len(re.findall(r"^\d\. ", questions, re.MULTILINE)) == 4
    assert 1 <= len(re.findall(r"\]\(http", text[text.index("**Read on**") :])) <= 4


@each_chapter
def test_a_rebuilt_chapter_shows_little_at_once(path):
    notebook = load(path)
    unfolded = re.sub(r"```.*?```|<details>.*?</details>", "", markdown(notebook), flags=re.DOTALL)
    prose = re.sub(r"^\|.*$|\]\(.*?\)", "", unfolded, flags=re.MULTILINE)
    assert "**Check yourself**" in prose, "counted to the end"
    assert len(prose.split()) <= 2400


@each_chapter
def test_no_class_of_a_rebuilt_chapter_is_built_across_cells(path):
    """A class is shown whole, once, and none of the chapter's own classes has another of them for its base."""
    trees = [ast.parse(cell.source) for cell in code_cells(load(path))]
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    names = [node.name for node in classes]
    assert len(names) == len(set(names))
    assert not [node.name for node in classes for base in node.bases if ast.unparse(base) in names]


@each_chapter
def test_new_words_are_in_the_glossary(path):
    glossary = set(re.findall(r"^\| ([\w -]+) \|", markdown(load(PAGE)).split("## Glossary")[1], re.MULTILINE))
    words = re.search(r"\*\*New words\*\* (.+?)\.", markdown(load(path)))[1].split(", ")
    assert 3 <= len(words) <= 5
    assert set(words) <= glossary
    body = markdown(load(path))
    plain = [word for word in words if f"**{word}**" not in body]
    assert not plain, "a new word is bold where it is explained"


@pytest.mark.parametrize("path", by_day(NOTEBOOKS, lambda path: path.stem[1] in "02468"), ids=lambda path: path.stem)
def test_any_cell_can_be_run_twice(path):
    """Running a cell a second time right away prints and shows the same: it builds its own small world first.

    Not so a cell that measures: there it is enough that it runs. By day those with an even number
    are, of a long one only what it builds, and of the others no slow cell.
    """
    number, cells = path.stem[:2], code_cells(load(path))
    if not NIGHTLY and number in LONG:
        cells = code_under(load(path), *BUILDS)
    elif not NIGHTLY and number in SLOW:
        shown = len(cells)
        cells = [cell for cell in cells if not any(word in cell.source for word in SLOW[number])]
        assert len(cells) < shown
    for cell, first, second in run_twice(cells):
        assert first == second or "measured" in cell.metadata.get("tags", []), cell.source


def run_twice(cells):
    """Each cell, with what it prints and shows the first and the second time."""
    names = {"__name__": "__main__"}
    for cell in cells:
        tree = ast.parse(cell.source)
        if not isinstance(tree.body[-1], ast.Expr):
            tree.body += ast.parse("None").body
        last = ast.Expression(tree.body.pop().value)
        both = []
        for _ in range(2):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec(compile(tree, "<cell>", "exec"), names)
                shown = eval(compile(last, "<cell>", "eval"), names)
            both.append((said.getvalue(), repr(shown)))
        yield cell, *both


@each_chapter
def test_no_cell_takes_away_what_the_set_up_cell_gave(path):
    """`mine()` and `walk(...)` still work at the end: only a piece's own cell binds the piece's name again."""
    _, *cells = code_cells(load(path))
    known = {"check", "fold", "guess", "hint", "mine", "progress", "solution", "source"}
    known |= {piece.name for piece in pieces_for(int(path.stem[:2]))}
    for cell in cells:
        own = set(re.findall(r"^(\w+) = check\(", cell.source, re.MULTILINE))
        assert not (bound_by(cell.source) & known) - own, cell.source


def bound_by(source):
    """The names that a cell binds in the notebook, those of its imports aside."""
    symbols = symtable.symtable(source, "<cell>", "exec").get_symbols()
    return {each.get_name() for each in symbols if each.is_assigned() and not each.is_imported()}


def test_in_chapter_00_something_can_be_clicked_in_the_first_two_minutes():
    """At 200 words a minute, and before the first prediction."""
    words = 0
    for cell in load(NOTEBOOKS[0]).cells:
        assert not cell.source.startswith("guess("), "a prediction comes first"
        if any("Player with" in output.get("data", {}).get("text/plain", "") for output in cell.get("outputs", [])):
            break
        words += len(cell.source.split()) if cell.cell_type == "markdown" else 0
    assert 0 < words <= 400


def test_the_first_film_of_chapter_00_ends_in_the_totals_that_the_text_compares(monkeypatch):
    monkeypatch.setattr("minikv.course.live_chat.find_spec", lambda name: None)  # the stored chat
    names = {"live_chat": live_chat, "with_cache": live_chat()}
    for cell in code_cells(load(NOTEBOOKS[0])):
        if re.search("^def strip|^play", cell.source, re.MULTILINE):
            exec(cell.source, names)
        if "steps" in names:
            break
    caption, picture = names["steps"][-1]
    assert caption == QUESTIONS[-1]
    ends = [line.split("  ")[-1].strip() for line in picture.text.splitlines()]
    assert ends[:2] == ["1,036 tokens computed", "298 tokens computed"]


@pytest.mark.nightly  # by day nbval compares what the cells print
def test_building_again_gives_the_same_bytes(monkeypatch):
    monkeypatch.setattr(build, "HERE", ROOT / "notebooks")
    monkeypatch.setenv("MINIKV_PROGRESS", os.devnull)  # to which a build sets it
    source = build.chapters()[1]
    made = nbformat.writes(build.clean(build.execute(build.assemble(source))))
    assert made + "\n" == (ROOT / "notebooks" / f"{source.stem}.ipynb").read_text("utf-8")


def test_links_and_set_up_come_from_one_address():
    address = {"repository": "https://github.com/someone/somewhere", "tag": "v9"}
    notebook = build.assemble(build.chapters()[0], address)
    links, setup = notebook.cells[1].source, notebook.cells[2].source
    assert "colab.research.google.com/github/someone/somewhere/blob/v9/notebooks/00_start_here" in links
    assert '"minikv[colab] @ git+https://github.com/someone/somewhere@v9"' in setup
    ast.parse(setup)
    assert "http" not in build.setup_code({"repository": "", "tag": ""}, 3), "no address is invented"


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
    address = {"repository": repository, "tag": "v9"}
    if is_one:
        assert build.checked(address) == address
    else:
        with pytest.raises(ValueError, match=r"must look like https://github.com/OWNER/NAME, without a slash at the"):
            build.assemble(build.chapters()[0], address)


# -- what a chapter builds and what the package has cannot drift apart ------------------------------------------------

PROMPT = st.lists(st.integers(0, 1), min_size=1, max_size=10)


@settings(max_examples=50)
@given(st.lists(PROMPT, max_size=8), PROMPT)
def test_chapter_00_counts_what_the_cache_saves(prompts, last):
    names = built("00")
    memory, cache = [], RadixCache()
    for prompt in [*prompts, last]:
        computed = names["serve"](prompt, [7], memory)
        assert computed == len(prompt) - cache.match_prefix(prompt[:-1]).length
        cache.insert(prompt, range(len(prompt)))
