"""What a learner has kept stays readable: a `my_minikv.py` and a `progress.json` as an earlier version wrote them.

Both were written by `check` at commit d861204, with right answers to all pieces but four and to the exercises. Only
`touch` and `block_keys` are not as they were then: they called themselves, which no longer passes.
"""

from __future__ import annotations

import re

import pytest
from project import ROOT
from test_pieces import Notebook

from minikv import mine, progress
from minikv.course.classroom import judge_student
from minikv.course.pieces import begin
from minikv.course.pieces.mine import kept_sections, load
from minikv.course.pieces.piece import CHAPTERS, all_pieces, find_piece
from minikv.course.pieces.trial import judge

OLD = ROOT / "tests" / "old"
TEXT = (OLD / "my_minikv.txt").read_text("utf-8")
MISSING = {piece.id for piece in all_pieces()} - set(kept_sections(TEXT))  # four of then, and all that came later


@pytest.fixture
def old_file(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIKV_MINE", str(tmp_path / "my_minikv.py"))
    (tmp_path / "my_minikv.py").write_text(TEXT, "utf-8")


def test_every_piece_of_an_old_file_still_runs_and_is_right_there():
    world = load(TEXT)
    for id in kept_sections(TEXT):
        if id != "3.1":  # whose name is now that of 4.3
            assert judge(find_piece(id), world, thorough=False).found is None, id
    cache = world["RadixCache"](page_size=2)
    cache.insert([1, 2, 3, 4], [7, 9])
    assert cache.match_prefix([1, 2, 3, 4]).pages.tolist() == [7, 9]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_begins_with_the_pieces_of_an_old_file(chapter, old_file, capsys):
    begin(chapter, {})
    assert "no longer passes" not in capsys.readouterr().out
    mine()
    said = capsys.readouterr().out
    assert "no longer passes" not in said
    shown = {piece.id for piece in all_pieces() if piece.chapter <= max(12, chapter)}  # the file's last chapter is 12
    assert {line.split()[0] for line in said.splitlines()[1:] if line.endswith("the package's")} == MISSING & shown
    assert len(said.splitlines()) == 1 + len(shown)


def test_an_old_record_still_counts(monkeypatch, capsys):
    monkeypatch.setenv("MINIKV_PROGRESS", str(OLD / "progress.json"))
    progress()
    said = capsys.readouterr().out
    solved = {word for line in said.splitlines()[:13] for word in line.split("   ")[1:] if word.startswith("✓")}
    assert solved >= {f"✓ {piece.id}" for piece in all_pieces() if piece.id not in MISSING}
    assert solved >= {"✓ 0.1", "✓ 3.5", "✓ 5.5", "✓ 12.5"}
    assert "✗ 4.6" in said
    assert re.search(r"^51 of \d+ solved\n1 of 2 predictions right; look again at 4.a\n$", said, re.MULTILINE)


NUMBERED = "# numbering of the pieces: {}\n"


def test_an_old_file_says_its_numbering_as_soon_as_something_is_kept_in_it(old_file, tmp_path, capsys):
    assert NUMBERED.format(1) not in TEXT
    Notebook(tmp_path, chapter=3).answer(find_piece("3.3"), find_piece("3.3").solution)
    said = capsys.readouterr().out
    assert "Not saved" not in said
    assert said.count("Your previous version is saved") == 1  # with the old answer to 3.3
    text = (tmp_path / "my_minikv.py").read_text("utf-8")
    assert text.count(NUMBERED.format(1)) == 1
    assert set(kept_sections(text)) >= set(kept_sections(TEXT)) - {"3.3"}


def test_a_file_of_another_numbering_is_neither_used_nor_changed(tmp_path, monkeypatch, capsys):
    file = tmp_path / "my_minikv.py"
    text = NUMBERED.format(2) + TEXT
    file.write_text(text, "utf-8")
    monkeypatch.setenv("MINIKV_MINE", str(file))
    notebook = Notebook(tmp_path, chapter=3)
    said = capsys.readouterr().out
    why = "the file has numbering 2 of the pieces; this version of minikv has 1"
    assert f"my_minikv.py can't be read, so the package's versions are used: {why}" in said
    assert "From your my_minikv.py" not in said
    notebook.answer(find_piece("3.1"), find_piece("3.1").solution)
    assert f"Not saved yet: {why}." in capsys.readouterr().out
    assert file.read_text("utf-8") == text
    assert why in judge_student("ada", file).trouble
