"""The record of marks: none is lost, whatever happens to the file, to the disk, or in another process."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from faults import at_line
from golden_text import replay, sections
from lesson import printed_by

from minikv import check, files, progress
from minikv.course.pieces.piece import find_exercise
from minikv.course.pieces.record import NUMBERING, RIGHT, WRONG, recall, remember

MANY = {f"{chapter}.{number}": RIGHT for chapter in range(9) for number in (1, 2, 3)}
GOLDEN = "record.txt"


@pytest.fixture
def named(tmp_path, monkeypatch):
    """The record that MINIKV_PROGRESS names, in a folder of a folder that is not there yet."""
    path = tmp_path / "new/folder/marks.json"
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


def put(record, text):
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(ODD.get(text, text), "utf-8")


def write(record, marks):
    put(record, json.dumps({"numbering": NUMBERING, **marks}))


# -- what happens to a record, act by act ---------------------------------------------------------------------------

ODD = {"a blank": " ", "100,000 brackets": "[" * 100_000}


def open_yet(lengths, sizes, most_waste):
    raise NotImplementedError


ANSWERS = {"right": find_exercise("1.6").reference, "open": open_yet, "zero": lambda lengths, sizes, most_waste: 0,
           "pages": lambda: (100, 50, 0, 1)}  # fmt: skip


def judge(_, what):
    exercise, answer = what.split()
    check(exercise, ANSWERS[answer])


ACTS = {
    "nowhere": lambda _, variable: os.environ.update({variable: os.devnull}),
    "write": put,
    "remember": lambda _, what: remember(*what.split()),
    "check": judge,
    "progress": lambda _, chapter: progress([int(chapter)]),
}


def files_in(folder):
    return {(path.name, path.stat().st_ino, path.read_text("utf-8")[:99]) for path in folder.glob("*")}


@pytest.mark.parametrize("title", sections(GOLDEN))
def test_what_happens_to_a_record_is_what_the_golden_file_says(title, request):
    """After what is said, each file that was written; why something is not JSON is for Python to say."""
    record = request.getfixturevalue(title.partition(" @ ")[2])
    folder = record.resolve().parent

    def act(words):
        verb, _, what = words.partition(" ")
        before = files_in(folder)
        said = printed_by(ACTS[verb], record, what).replace(repr(str(folder))[1:-1], "…").replace("\\\\", "/")
        said = re.sub(r"(is not JSON): .*?(?=\. It was| \(MINIKV|$)", r"\1", said, flags=re.MULTILINE)
        written = [] if verb == "write" else sorted(files_in(folder) - before)
        return [*said.splitlines(), *(line for name, _, text in written for line in (f"{name}:", *text.splitlines()))]

    replay(GOLDEN, title, act)


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


def not_saved():
    """Judge a right answer; it is said to be right, and in the next line why that was not saved."""
    first, second = printed_by(judge, None, "1.6 right").splitlines()
    assert first.startswith("✓ 1.6 ")
    return second.removeprefix("  This result was not saved: ")


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


# -- a record that cannot be ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["file/marks.json", "", "file/"])
def test_a_place_that_cannot_hold_a_record_is_said_and_does_not_stop_check(place, tmp_path, monkeypatch):
    (tmp_path / "file").mkdir()
    (tmp_path / "file/marks.json").mkdir()
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / place))
    assert not_saved().startswith("[Errno ")
    assert "your progress can't be read" in printed_by(progress, [])


def test_each_folder_has_a_record_of_its_own(here, tmp_path, monkeypatch):
    remember("1.3", RIGHT)
    assert here.exists()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert recall() == {}
    monkeypatch.setenv("MINIKV_MINE", str(tmp_path / "course/ada.py"))
    assert recall() == {"1.3": RIGHT}


def test_a_record_that_another_process_holds_is_not_waited_for_without_end(named, monkeypatch):
    named.parent.mkdir(parents=True)
    monkeypatch.setattr("minikv.course.pieces.record.locked", lambda path: files.locked(path, 0))
    with files.locked(named):
        assert not_saved().startswith("[Errno")
    remember("1.1", RIGHT)
    assert recall() == {"1.1": RIGHT}


# -- progress -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chapters", [[99], [-1], [True], ["1"], b"abc", [2**70]])
def test_progress_names_a_chapter_that_is_not_there(chapters):
    with pytest.raises(
        (TypeError, ValueError),
        match=r"^chapter is .*: chapters 0, 1, 2, 3, 4, 5, 6, 7, 8.* have exercises|less than 2",
    ):
        progress(chapters)
    with pytest.raises(TypeError, match=r"^chapters must be a number or several numbers, not 5\.5"):
        progress(5.5)
