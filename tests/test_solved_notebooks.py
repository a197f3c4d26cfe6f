"""A notebook shows the same with any right pieces: none of the learner's, some, all, and answers of other shapes.

Only the cells of `check`, `mine`, `progress`, `hint` and the scoreboard may say something else.
"""

from __future__ import annotations

import os
import re

import build
import nbformat
from chapters import NOTEBOOKS, ROOT, WRITTEN, load
from nightly import NIGHTLY

from minikv.course.pieces.mine import kept_sections
from minikv.course.pieces.piece import CHAPTERS, all_pieces, exercises_of, find_piece, pieces_of
from minikv.engine import LAST, sections

OWN_WORDS = re.compile(r"\b(check|mine|progress|hint|solution|scoreboard)\(")
STUB = re.compile(r'\A.*?(?=^\w+ = check\("([\d.]+) )', re.DOTALL | re.MULTILINE)
OTHERS = {path.stem: sections(path.read_text("utf-8")) for path in sorted((ROOT / "tests" / "right").glob("*.txt"))}


def answered(tried, folder):
    """The chapters of `tried`, executed with answers in place of their stubs: the cells of each, by its name.

    They run one after the other in one kernel, where `begin` and an empty namespace start each of them afresh: what a
    kernel imports and what a judge makes up is the same for all.
    """
    cells = {name: with_answers(path, answers) for name, (path, answers) in tried.items()}
    whole = build.assemble(ROOT / "notebooks" / "src" / f"{WRITTEN[0].stem}.py")
    whole.cells = [cell for name in cells for cell in [afresh(folder / f"{name}.py"), *cells[name]]]
    build.clean(build.execute(whole))
    return cells


def with_answers(path, answers):
    """The cells of the chapter, not yet executed, with answers in place of stubs."""
    cells = build.assemble(ROOT / "notebooks" / "src" / f"{path.stem}.py").cells
    for cell in cells:
        found = STUB.match(cell.source) if cell.cell_type == "code" else None
        if found and found[1] in answers:
            cell.source = f"{answers[found[1]]}\n\n{cell.source[found.end() :]}"
    return cells


# By day `check` makes up 10 cases instead of 300: the answers are printed from the code that it compares them with.
FEW_CASES = (
    "from minikv.course.pieces import trial",
    "trial.MADE = trial.FEW = 10",
)


def afresh(mine):
    """A cell that forgets the names of the session before, and says where the learner's work of the next one is."""
    lines = "import os", f'os.environ["MINIKV_MINE"] = {str(mine)!r}', *(() if NIGHTLY else FEW_CASES), "%reset -f"
    return nbformat.v4.new_code_cell("\n".join(lines))


def shown(cells):
    """What each cell shows, but for those that speak of the learner's own answers."""
    found = []
    for cell in cells:
        if cell.cell_type == "code" and not OWN_WORDS.search(cell.source):
            outputs = [{**output, "execution_count": None, "metadata": None} for output in cell.outputs]
            found.append((cell.source, outputs))
    return found


def verdicts(cells):
    """What is said of each piece, by its number and name."""
    text = "".join(output.get("text", "") for cell in cells if cell.cell_type == "code" for output in cell.outputs)
    return dict(re.findall(r"^[□✗✓] ([\d.]+ \w+): (.*)", text, re.MULTILINE))


def variants(chapter):
    """Answers to the pieces of a chapter, all as printed; at night also every other one, and those of other shapes.

    By day of each with an odd number that builds the engine: of the even ones, `test_any_cell_can_be_run_twice` runs
    the cells, and the pieces after the engine's are used in their own chapter alone.
    """
    pieces = pieces_of(chapter)
    printed = {piece.id: piece.solution for piece in pieces}
    if NIGHTLY or (chapter <= LAST and chapter % 2):
        yield "printed", printed
    if not NIGHTLY:
        return
    yield "half", {piece.id: piece.solution for piece in pieces[::2]}
    others = [section for section in OTHERS.get(f"{chapter:02d}", []) if section.id in printed]
    first = {section.id: section.text for section in reversed(others)}
    last = {section.id: section.text for section in others}
    if others:
        yield "of other shapes", {**printed, **first}
    if last != first:
        yield "of further shapes", {**printed, **last}


def keep_environment(monkeypatch):
    """A build says where the learner's work is; what it said before comes back after the test."""
    for name in ("MINIKV_MINE", "MINIKV_PROGRESS"):
        monkeypatch.setenv(name, os.environ.get(name, os.devnull))


def test_a_notebook_shows_the_same_with_any_right_pieces(tmp_path, monkeypatch):
    keep_environment(monkeypatch)
    found = [(path, variant) for path in WRITTEN for variant in variants(int(path.stem[:2]))]
    tried = {f"{path.stem} {name}": (path, answers) for path, (name, answers) in found}
    for name, cells in answered(tried, tmp_path).items():
        path, answers = tried[name]
        right = {piece for piece, said in verdicts(cells).items() if re.match(r"correct in \d+ cases", said)}
        assert right == {f"{id} {find_piece(id).name}" for id in answers}, f"{name}: {verdicts(cells)}"
        assert set(kept_sections((tmp_path / f"{name}.py").read_text("utf-8"))) == set(answers), name
        assert shown(cells) == shown(load(path).cells), name


FILES = {
    "missing": None,
    "empty": "",
    "broken": "def split(:",
    "unfit": "# %% 3.3 split · mine\ndef split(node, at):\n    return node\n",
}


def test_a_missing_or_broken_file_changes_nothing(tmp_path, monkeypatch):
    keep_environment(monkeypatch)
    path = next(path for path in NOTEBOOKS if path.stem.startswith("03"))
    files = FILES if NIGHTLY else {name: FILES[name] for name in ("unfit",)}
    for name, text in files.items():
        if text is not None:
            (tmp_path / f"{name}.py").write_text(text, "utf-8")
    stored = load(path).cells
    for name, cells in answered({name: (path, {}) for name in files}, tmp_path).items():
        setup = next(cell for cell in cells if "begin(" in cell.source)
        others = [[cell for cell in shown(run) if cell[0] != setup.source] for run in (cells, stored)]
        assert others[0] == others[1], name


def test_right_answers_of_other_shapes_are_of_pieces():
    ids = {each.id for each in (*all_pieces(), *(each for chapter in CHAPTERS for each in exercises_of(chapter)))}
    found = [section for others in OTHERS.values() for section in others]
    assert {section.id for section in found} <= ids
