"""A learner's files of a course whose pieces had other numbers are set aside, and nothing in them counts."""

import json

import pytest

from minikv import mine, progress
from minikv.course.pieces import begin
from minikv.course.pieces.mine import assembled
from minikv.course.pieces.piece import find_piece
from minikv.course.pieces.record import remember

OLD = "# %% 3.1 split · mine\ndef split(node, at):\n    raise AssertionError('it ran')\n"
MARKS = {"3.1": "✅", "4.a": {"question": "how many?", "said": "4"}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delenv("MINIKV_PROGRESS", raising=False)
    monkeypatch.setenv("MINIKV_MINE", str(tmp_path / "my_minikv.py"))
    return tmp_path


def test_files_of_other_numbers_are_set_aside_when_a_chapter_begins(folder, capsys):
    (folder / "my_minikv.py").write_text(OLD, "utf-8")
    (folder / "progress.json").write_text(json.dumps(MARKS), "utf-8")
    begin(3, {})
    said = capsys.readouterr().out.splitlines()
    assert [line.split(" is from an older course")[0] for line in said] == ["  my_minikv.py", "  progress.json"]
    assert {path.name for path in folder.iterdir()} == {"my_minikv.py.bad", "progress.json.bad"}
    assert (folder / "my_minikv.py.bad").read_text("utf-8") == OLD
    progress(3)
    mine()
    assert "✓" not in (out := capsys.readouterr().out)
    assert "mine" not in out
    begin(3, {})
    assert not capsys.readouterr().out


def test_files_of_these_numbers_and_of_others_stay(folder, capsys):
    """Also those that a newer minikv wrote would be set aside; another program's are left alone."""
    (folder / "my_minikv.py").write_text(assembled({"3.3": find_piece("3.3").solution}), "utf-8")
    remember("3.3", "✅")
    begin(3, {})
    assert capsys.readouterr().out.startswith("From your my_minikv.py: split.")
    assert {path.name for path in folder.iterdir()} == {"my_minikv.py", "progress.json"}
    (folder / "my_minikv.py").write_text("x = 1\n", "utf-8")
    (folder / "progress.json").write_text('{"theirs": 1}', "utf-8")
    begin(3, {})
    assert {path.name for path in folder.iterdir()} == {"my_minikv.py", "progress.json"}
