"""The record of marks: none is lost, whatever happens to the file, to the disk, or in another process."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults import at_line, fails

from minikv import check, files, progress
from minikv.course.pieces.piece import find_exercise
from minikv.course.pieces.record import NUMBERING, RIGHT, WRONG, missed, recall, remember

MANY = {f"{chapter}.{number}": RIGHT for chapter in range(9) for number in (1, 2, 3)}
BROKEN = '{"1.1": "✅", "1.3": "✅",}'


@pytest.fixture
def named(tmp_path, monkeypatch):
    """The record that MINIKV_PROGRESS names, in a folder that is not there yet."""
    path = tmp_path / "folder" / "marks.json"
    monkeypatch.setenv("MINIKV_PROGRESS", str(path))
    return path


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The record beside `my_minikv.py`, in the working folder."""
    monkeypatch.delenv("MINIKV_PROGRESS")
    monkeypatch.delenv("MINIKV_MINE")
    (tmp_path / "course").mkdir()
    monkeypatch.chdir(tmp_path / "course")
    return Path("progress.json")


def write(path, content):
    path.parent.mkdir(exist_ok=True)
    is_ours = isinstance(content, dict) and any(mark in (RIGHT, WRONG) for mark in content.values())
    content = {"numbering": NUMBERING, **content} if is_ours else content
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def read(path):
    return json.loads(path.read_text("utf-8"))


@pytest.mark.parametrize("content", [None, "", "{}", " "])
def test_marks_are_kept_also_in_an_empty_file_and_a_solved_exercise_stays_solved(content, named, capsys):
    if content is not None:
        write(named, content)
    for mark in (WRONG, RIGHT, WRONG):
        remember("1.1", mark)
    remember("0.1", WRONG)
    assert recall() == {"0.1": WRONG, "1.1": RIGHT}
    assert named.read_text("utf-8") == '{\n "0.1": "❌",\n "1.1": "✅",\n "numbering": 2\n}\n'
    assert os.listdir(named.parent) == ["marks.json"]
    assert capsys.readouterr().out == ""


def test_a_mark_that_is_there_is_not_written_again(named, monkeypatch):
    remember("1.1", RIGHT)
    remember("1.3", WRONG)
    monkeypatch.setattr("minikv.course.pieces.record.replace", lambda *_: pytest.fail("written"))
    remember("1.1", RIGHT)
    remember("1.1", WRONG)
    remember("1.3", WRONG)


def test_what_a_newer_version_wrote_stays(named):
    write(named, {"1.1": "great", "1.3": RIGHT, "seen": [1]})
    remember("1.6", RIGHT)
    assert recall() == {"1.3": RIGHT, "1.6": RIGHT}
    assert read(named) == {"1.1": "great", "1.3": RIGHT, "1.6": RIGHT, "numbering": 2, "seen": [1]}


TWO = """
import sys
from minikv.course.pieces.record import remember
print("ready", flush=True)
sys.stdin.readline()
for exercise in sys.argv[1:]:
    remember(exercise, "✅")
"""


@pytest.mark.parametrize("place", ["named", "here"])
def test_two_processes_that_remember_at_once_lose_no_mark(place, request):
    record = request.getfixturevalue(place)
    shares = sorted(MANY)[::2], sorted(MANY)[1::2]
    runs = [
        subprocess.Popen([sys.executable, "-c", TWO, *share], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for share in shares
    ]
    for run in runs:
        assert run.stdout.readline().strip() == b"ready"
    assert [run.communicate(b"go\n")[0] for run in runs] == [b"", b""]
    assert recall() == MANY
    assert os.listdir(record.parent) == [record.name]


def not_saved(capsys):
    """Judge a right answer; it is said to be right, and in the next line why that was not saved."""
    check("1.6", find_exercise("1.6").reference)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("✓ 1.6 ")
    return second.removeprefix("  This result was not saved: ")


def test_a_full_disk_takes_no_mark_away_and_is_said(named, monkeypatch, capsys):
    write(named, MANY | {"1.6": WRONG})
    monkeypatch.setattr(os, "fsync", fails(errno.ENOSPC))
    assert not_saved(capsys) == f"[Errno {errno.ENOSPC}] No space left on device: {str(named)!r}"
    monkeypatch.undo()
    assert read(named) == MANY | {"1.6": WRONG, "numbering": NUMBERING}


def test_an_interrupt_at_any_line_takes_no_mark_away(named):
    def interrupt():
        raise KeyboardInterrupt

    before = MANY | {"1.1": WRONG}
    write(named, before)
    with at_line(0, interrupt) as lines:
        remember("1.1", RIGHT)
    for n in range(1, len(lines) + 1):
        write(named, before)
        with pytest.raises(KeyboardInterrupt), at_line(n, interrupt):
            remember("1.1", RIGHT)
        assert recall() in (before, MANY)
        remember("1.1", RIGHT)
        assert recall() == MANY
        assert set(os.listdir(named.parent)) <= {"marks.json", "marks.json.lock"}  # a free lock does no harm


# -- a record that cannot be read -------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [BROKEN, "no json", "[1]", "[" * 100_000])
def test_it_is_kept_under_another_name_and_said(content, here, capsys):
    for number, mark in enumerate((WRONG, RIGHT), start=1):
        write(here, content)
        remember("1.6", mark)
        kept = f"{here.resolve()}.bad" + (".2" if number == 2 else "")
        said = capsys.readouterr().out
        assert said.count("\n") == 1
        assert f"It was renamed to {kept!r}, and a new record was started." in said
        assert Path(kept).read_text("utf-8") == content
        assert recall() == {"1.6": mark}


@pytest.mark.parametrize("content", [BROKEN, "Dear diary", "[1]", '{"title": "x"}'])
def test_a_file_that_was_named_and_is_no_record_is_left_alone_and_said(content, named, capsys):
    write(named, content)
    why = not_saved(capsys)
    assert why.startswith(f"{str(named)!r} ")
    assert "MINIKV_PROGRESS names it" in why
    assert named.read_text("utf-8") == content
    assert os.listdir(named.parent) == ["marks.json"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"title": "x"}, "is not a record of progress: it holds other data"),
        ({"1.1": RIGHT, "numbering": 1}, "uses piece numbering 1, but this version of minikv uses 2"),
        ({"numbering": "new"}, "uses piece numbering 'new', but this version of minikv uses 2"),
    ],
)
def test_another_programs_file_and_one_of_another_numbering_stay_as_they_are(content, why, here, capsys):
    """The folder is the learner's: `progress.json` may be anybody's there."""
    write(here, content)
    remember("1.6", RIGHT)
    assert capsys.readouterr().out == f"  This result was not saved: 'progress.json' {why}\n"
    progress([1])
    assert capsys.readouterr().out.startswith(f"✗ your progress can't be read: 'progress.json' {why}\n")
    assert read(here) == content
    assert os.listdir() == ["progress.json"]


def test_progress_says_that_it_cannot_be_read_and_changes_nothing(here, capsys):
    write(here, BROKEN)
    progress([1])
    said, chapter, solved = capsys.readouterr().out.splitlines()
    assert said.startswith(f"✗ your progress can't be read: {str(here)!r} is not JSON: ")
    assert (chapter, solved) == ("chapter 01   □ 1.1   □ 1.2   □ 1.3   □ 1.4   □ 1.5   □ 1.6   □ 1.7", "0 of 7 solved")
    assert here.read_text("utf-8") == BROKEN


# -- a record that cannot be ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["MINIKV_PROGRESS", "MINIKV_MINE"])
def test_where_nothing_is_to_be_kept_no_record_is(variable, here, monkeypatch, capsys):
    monkeypatch.setenv(variable, os.devnull)
    remember("1.1", RIGHT)
    assert (recall(), os.listdir(), capsys.readouterr().out) == ({}, [], "")


@pytest.mark.parametrize("place", ["file/marks.json", "", "file/"])
def test_a_place_that_cannot_hold_a_record_is_said_and_does_not_stop_check(place, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "marks.json").mkdir()
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / place))
    assert not_saved(capsys).startswith("[Errno ")
    progress([])
    assert "your progress can't be read" in capsys.readouterr().out


def test_each_folder_has_a_record_of_its_own_and_nothing_is_read_from_the_home_folder(here, tmp_path, monkeypatch):
    old = tmp_path / ".minikv" / "progress.json"
    write(old, {"1.1": RIGHT, "2.a": {"question": "how many?", "said": "3"}})
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert (recall(), missed()) == ({}, {})
    remember("1.3", RIGHT)
    assert here.exists()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert recall() == {}
    monkeypatch.setenv("MINIKV_MINE", str(tmp_path / "course" / "ada.py"))
    assert recall() == {"1.3": RIGHT}
    assert list(read(old)) == ["numbering", "1.1", "2.a"]


def test_a_record_that_another_process_holds_is_not_waited_for_without_end(named, monkeypatch, capsys):
    named.parent.mkdir()
    monkeypatch.setattr("minikv.course.pieces.record.locked", lambda path: files.locked(path, 0))
    with files.locked(named):
        remember("1.1", RIGHT)
    assert "This result was not saved: [Errno" in capsys.readouterr().out
    remember("1.1", RIGHT)
    assert recall() == {"1.1": RIGHT}


# -- progress -------------------------------------------------------------------------------------------------------


def test_progress_shows_what_was_solved_and_tried_and_what_is_left_alone_keeps_its_mark(capsys, named):
    def stub(lengths, sizes, most_waste):
        raise NotImplementedError

    progress([1])
    check("1.6", stub)
    assert not named.exists(), "nothing was tried, so nothing is written"
    for answer in (find_exercise("1.6").reference, stub, lambda lengths, sizes, most_waste: 0):
        check("1.6", answer)
    check("1.7", lambda: (100, 50, 0, 1))
    assert "✗ 1.6" in capsys.readouterr().out
    progress([1])
    said = capsys.readouterr().out
    assert said == "chapter 01   □ 1.1   □ 1.2   □ 1.3   □ 1.4   □ 1.5   ✓ 1.6   ✗ 1.7\n1 of 7 solved\n"


@pytest.mark.parametrize("chapters", [[99], [-1], [True], ["1"], b"abc", [2**70]])
def test_progress_names_a_chapter_that_is_not_there(chapters):
    with pytest.raises(
        (TypeError, ValueError),
        match=r"^chapter is .*: chapters 0, 1, 2, 3, 4, 5, 6, 7, 8.* have exercises|less than 2",
    ):
        progress(chapters)
    with pytest.raises(TypeError, match=r"^chapters must be a number or several numbers, not 5\.5"):
        progress(5.5)
