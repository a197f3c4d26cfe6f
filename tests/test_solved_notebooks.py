"""A notebook shows the same with any right pieces: none of the learner's, some, all, and answers of other shapes.

Only the cells of `check`, `mine`, `progress`, `hint` and the scoreboard may say something else.
"""

from __future__ import annotations

import os
import re

import build
import pytest
from chapters import NOTEBOOKS, ROOT, WRITTEN, load
from nightly import NIGHTLY

from minikv.course.pieces.mine import kept_sections
from minikv.course.pieces.piece import all_pieces, pieces_of
from minikv.course.pieces.sections import sections

LONG = 7, 8  # whose cells take many seconds
OWN_WORDS = re.compile(r"\b(check|mine|progress|hint|solution|scoreboard)\(")
STUB = re.compile(r'\A.*?(?=^\w+ = check\("([\d.]+) )', re.DOTALL | re.MULTILINE)
OTHERS = {path.stem: sections(path.read_text("utf-8")) for path in sorted((ROOT / "tests" / "right").glob("*.txt"))}
each_written = pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)


def answered(path, answers):
    """The chapter with answers in place of stubs, executed: its cells."""
    notebook = build.assemble(ROOT / "notebooks" / "src" / f"{path.stem}.py")
    for cell in notebook.cells:
        found = STUB.match(cell.source) if cell.cell_type == "code" else None
        if found and found[1] in answers:
            cell.source = f"{answers[found[1]]}\n\n{cell.source[found.end() :]}"
    return build.clean(build.execute(notebook)).cells


def shown(cells):
    """What each cell shows, but for those that speak of the learner's own answers."""
    found = []
    for cell in cells:
        if cell.cell_type == "code" and not OWN_WORDS.search(cell.source):
            outputs = [{**output, "execution_count": None, "metadata": None} for output in cell.outputs]
            found.append((cell.source, outputs))
    return found


def marks(cells):
    """The mark of each piece."""
    text = "".join(output.get("text", "") for cell in cells if cell.cell_type == "code" for output in cell.outputs)
    return {name: mark for mark, name in re.findall(r"^([⬜❌✅]) (\d+\.\d+) ", text, re.MULTILINE)}


def variants(chapter):
    """Answers to the pieces of a chapter: all as printed, every other one, and those of other shapes.

    Every other one of a long chapter waits for the night.
    """
    pieces = pieces_of(chapter)
    if not pieces:
        return
    printed = {piece.id: piece.solution for piece in pieces}
    yield "printed", printed
    if NIGHTLY or chapter not in LONG:
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


@each_written
def test_a_notebook_shows_the_same_with_any_right_pieces(path, tmp_path, monkeypatch):
    keep_environment(monkeypatch)
    stored, chapter = shown(load(path).cells), int(path.stem[:2])
    for name, answers in variants(chapter):
        file = tmp_path / f"{name.replace(' ', '_')}.py"
        monkeypatch.setattr(build, "MINE", str(file))
        cells = answered(path, answers)
        solved = {id for id, mark in marks(cells).items() if mark == "✅"}
        assert solved == set(answers), f"{name}: {marks(cells)}"
        assert set(kept_sections(file.read_text("utf-8"))) == set(answers), name
        assert shown(cells) == stored, name


@pytest.mark.parametrize(
    "text", [None, "", "def split(:", "# %% 3.1 split · mine\ndef split(node, at):\n    return node\n"]
)
def test_a_missing_or_broken_file_changes_nothing(text, tmp_path, monkeypatch):
    keep_environment(monkeypatch)
    path = next(path for path in NOTEBOOKS if path.stem.startswith("03"))
    file = tmp_path / "my_minikv.py"
    if text is not None:
        file.write_text(text, "utf-8")
    monkeypatch.setattr(build, "MINE", str(file))
    cells = answered(path, {})
    setup = next(cell for cell in cells if "begin(" in cell.source)
    assert [cell for cell in shown(cells) if cell[0] != setup.source] == [
        cell for cell in shown(load(path).cells) if cell[0] != setup.source
    ]


def test_right_answers_of_other_shapes_are_of_pieces():
    ids = {piece.id for piece in all_pieces()}
    found = [section for others in OTHERS.values() for section in others]
    assert {section.id for section in found} <= ids
