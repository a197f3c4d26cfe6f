"""What a learner has kept stays readable: a `my_minikv.py` and a `progress.json` as an earlier version wrote them.

Both were written by `check` at commit d861204, with right answers to all pieces but four and to the exercises. Only
`touch` and `block_keys` are not as they were then: they called themselves, which no longer passes.
"""

from __future__ import annotations

import re

import pytest
from project import ROOT

from minikv import mine, progress
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
            assert judge(find_piece(id), world, thorough=False).parting is None, id
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
    assert re.search(r"^52 of \d+ solved\n1 of 2 predictions right; look again at 4.a\n$", said, re.MULTILINE)
