"""The commands `minikv classroom` and `minikv progress`: a class report, whatever the students' files do."""

import io
import json
import os
import re
import sys
from functools import partial

import pytest
import teachers
from golden_text import compare, replay, sections
from lesson import Notebook, few_cases, learner, printed_by
from project import text_of, write
from test_cli import told
from test_house import chapters_that_need_torch
from test_old_files import OLD

from minikv import cli
from minikv.course import classroom
from minikv.course.classroom import judge_class, judge_student, student_files
from minikv.course.pieces import checking
from minikv.course.pieces.guessing import progress
from minikv.course.pieces.mine import _with_failed, assembled
from minikv.course.pieces.piece import all_pieces, find_piece, pieces_of
from minikv.course.pieces.record import RIGHT as SOLVED
from minikv.course.pieces.record import WRONG, remember
from minikv.course.pieces.stored import is_as_printed
from minikv.course.pieces.trial import judge
from minikv.course.pieces.worlds import session
from minikv.course.playground import playground
from minikv.course.playground.lessons import GOALS
from minikv.testing import attempt

STUDENTS = "students.txt"


@pytest.fixture
def judged_here(monkeypatch):
    """Files are judged in this process, on the hand-picked cases: quick, and nothing in these files needs more."""

    def messages(judge, path, most_bytes):
        assert (judge, most_bytes) == ("minikv.course.classroom:judge_file", classroom.MOST_BYTES)
        session.accepted.clear()
        said = []
        classroom.judge_file(lambda **message: said.append(message), path)
        return said

    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(classroom, "messages_apart", messages)
    monkeypatch.setattr(checking, "judge", partial(judge, thorough=False))
    yield
    session.accepted.clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ten students: three with wrong answers, one with printed solutions, one file that does not run, and none."""
    home = tmp_path_factory.mktemp("homework")
    with few_cases():
        teachers.write_class(home)
    return home


def test_the_report_on_ten_students_is_the_one_that_the_guide_shows(judged_here, folder, monkeypatch, capsys):
    found = judge_class(folder)
    assert teachers.blocks()["class report"] == teachers.as_output("minikv classroom homework", str(found))
    monkeypatch.setattr(classroom, "judge_class", lambda folder, tick: found)
    for way in ("json", "csv"):
        report = text_of(f"tests/golden/class_report.{way}")
        assert told(capsys, "classroom", folder, f"--{way}").out == report


@pytest.mark.nightly
def test_the_commands_print_what_the_guide_shows(monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", "")  # which is set there
    shown = teachers.blocks()
    assert teachers.printed() == {name: shown[name] for name in ("class report", "progress", "verify")}


def test_tests_that_catch_enough_are_those_of_the_record_beside_a_file(judged_here, tmp_path, monkeypatch):
    write(tmp_path, {"anna/my_minikv.py": teachers.handed_in({"2.1": 0})})
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / "anna/progress.json"))
    for test, mark in (("3.6", SOLVED), ("2.3", WRONG), ("99.9", SOLVED), ("\x1b[31m\nben", SOLVED)):
        remember(f"{test} test", mark)
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / "ours.json"))
    found = judge_class(tmp_path)
    assert found.as_json()["students"][0]["tests"] == ["3.6"]
    assert str(found).splitlines()[1].endswith("1 of 6  tests: 3.6")


# -- a file that does harm --------------------------------------------------------------------------------------------

ALLOC = teachers.handed_in({"2.1": 0})
DIES = "def guard(pool, pages):\n    import os\n    os._exit(9)\n"
FILLS = "kept = []\nwhile True:\n    kept.append(bytearray(2**28))\n"
PRINTS = "import os\nfor _ in range(100):\n    print('x' * 10**6)\n    os.write(1, b'{}\\n' * 10**4)\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits this memory")
def test_a_file_that_does_harm_costs_only_its_student_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(classroom, "MOST_BYTES", 2**29)
    kept = {"2.1": teachers.other_right("2.1"), "3.4": teachers.other_right("3.4")}
    dies = PRINTS + _with_failed(assembled(kept), {"2.2": DIES})
    write(tmp_path, {"anna.py": dies, "bela.py": FILLS})
    anna, bela = judge_class(tmp_path).students
    assert anna.trouble == "the process ends with status 9 while 2.2 was judged"
    assert (len(anna.pieces), anna.solved) == (2, 2)
    assert bela.trouble == "does not run: MemoryError"


def test_a_failing_answer_that_check_has_kept_is_judged(judged_here, tmp_path):
    """Of the pieces of another design too, of which nothing has passed, so the file has not its classes."""
    pieces = [pieces_of(chapter)[0] for chapter in (1, 3, 4, 9, 10, 11, 12, 13, 14, 15)]
    with learner(tmp_path):
        for piece in pieces:
            text = teachers.without_head(piece.wrong[0].section.text)
            notebook = Notebook(tmp_path, piece.chapter)
            notebook.answer(piece.id, text)
    found = judge_student("my_minikv", notebook.file)
    assert found.trouble == ""
    assert {id: judged[::2] for id, judged in found.pieces.items()} == {
        piece.id: ("wrong", piece.wrong[0].hint) for piece in pieces
    }


def with_piece(id, own):
    """A file with a right answer and this one."""
    return assembled({"2.1": teachers.other_right("2.1"), id: f"{own}\n"})


def with_failed(id, own):
    """A file with a right answer and this failing one, whatever is in it."""
    return _with_failed(ALLOC, {id: own}).replace("\n", "\r\n")


COMMON = "def common(a, b):\n    "
OPEN = f"{COMMON}raise NotImplementedError"
SLOW = """def link(ring, node):
    last = ring
    while last.newer is not ring:
        last = last.newer
    last.newer = ring.older = node
    node.older, node.newer = last, ring
"""
FILES = {
    "no code": "def", "exits": f"import sys\nsys.exit('bye')\n{ALLOC}", "endless": "while True:\n    pass\n",
    "unmarked": "def split(node, at): ...", "large": "#" * (classroom.LARGEST_FILE + 1), "zero": "\0",
    "latin": "# \udcff", "old": OLD,
    "goes on": with_piece("3.1", f"{COMMON}return sum(x == y for x, y in zip(a, b))"),
    "returns 0": with_piece("3.1", f"{COMMON}return 0"),
    "wants more": with_piece("3.1", "def common(a, b, c):\n    return 0"), "open": with_piece("3.1", OPEN),
    "another name": with_piece("3.1", "comm = 7"), "no function": with_piece("3.1", "common = 7"),
    "endless piece": with_piece("3.1", f"{COMMON}while True: pass"), "slow": with_piece("5.1", SLOW),
    "raises still": with_failed("3.1", f"{OPEN}\n    return 0"),
    "right alone": with_failed("3.3", find_piece("3.3").solution),
    "nobody": with_failed("3.3", "def split(node, at):\n    return nobody"),
    "by hand": with_piece("3.1", teachers.BY_HAND),
    "by hand too": with_piece("3.1", teachers.BY_HAND.replace("len(a)", "a and len(b)")),
}  # fmt: skip


def test_each_file_has_the_trouble_or_the_hints_that_the_golden_file_says(judged_here, tmp_path, monkeypatch):
    """A hint is the one that `check` gives, or the first one. What Python says of a file is not for us to say."""
    monkeypatch.setattr(attempt, "MOST_SECONDS", 0.2)
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_bytes(text.encode(errors="surrogateescape"))
    found = judge_class(tmp_path)
    said = re.sub(r"(Syntax|Value)Error \(.*|\d+ (?=steps)|(?<=where )\d+ ", "", str(found))
    marks = {judged.mark for student in found.students for judged in student.pieces.values()}
    assert marks == {"solved", "wrong", "no answer"}
    compare("classroom.txt", "a class", said.splitlines())


def test_what_a_file_writes_into_the_pipe_cannot_stop_the_report(monkeypatch, tmp_path):
    forged = [
        {"judged": {}},
        {"doing": [{}]},
        {"judged": {"mark": "solved", "words": {}}},
        {},
        {"error": "\x1b\n" * 999},
    ]
    monkeypatch.setattr(classroom, "messages_apart", lambda *_, **__: forged)
    (tmp_path / "anna.py").write_text("")
    (student,) = judge_class(tmp_path).students
    assert student == ("anna", {}, "the process sent no verdict while {} was judged", ())


# -- the same as printed ----------------------------------------------------------------------------------------------


def test_a_printed_solution_of_more_than_six_lines_is_recognized_and_nothing_else_is():
    for piece in all_pieces():
        is_long = len([line for line in teachers.bare(piece.solution).splitlines() if line]) > 6
        assert is_as_printed(teachers.with_other_names(piece.id), piece.name, piece.solution) == is_long, piece.id
        assert not is_as_printed(teachers.other_right(piece.id), piece.name, piece.solution), piece.id


@pytest.mark.parametrize(
    ("old", "new"),
    [("node.slots[", "self.slots["), ("at:", ":at"), ("return upper", "return node"), ("upper.parent", "node")],
)
def test_what_differs_by_more_than_names_of_locals_is_not_as_printed(old, new):
    piece = find_piece("3.3")
    assert old in piece.solution
    assert not is_as_printed(piece.solution.replace(old, new), piece.name, piece.solution)


# -- the files of a folder, and wrong calls ---------------------------------------------------------------------------


@pytest.mark.parametrize("title", sections(STUDENTS))
def test_a_student_is_called_by_what_is_left_of_a_files_name(title, judged_here, tmp_path):
    """Of the files of a folder: the students, the file of each, how many pieces are solved in it, and what is odd."""

    def act(names):
        write(tmp_path, dict.fromkeys(names.split(" & "), ALLOC))
        found = zip(student_files(tmp_path).values(), judge_class(tmp_path).students)
        files = [(student, file and file.relative_to(tmp_path).as_posix()) for file, student in found]
        return [f"{student.name} | {file} | {student.solved} | {student.trouble}" for student, file in files]

    replay(STUDENTS, title, act)


@pytest.mark.skipif(sys.platform == "win32", reason="no such names there")
def test_a_name_is_shown_without_control_characters(judged_here, tmp_path):
    (tmp_path / "an\x1bna.py").write_text(ALLOC, "utf-8")
    (student,) = judge_class(tmp_path).students
    assert student[:1] == ("an\N{REPLACEMENT CHARACTER}na",)


def test_a_wrong_call_is_one_line(tmp_path, capsys):
    assert cli.main(["classroom", str(tmp_path / "none")]) == 2
    assert cli.main(["classroom", str(tmp_path)]) == 2
    missing, empty = capsys.readouterr().err.splitlines()
    assert missing.endswith("none: No such file or directory")
    assert empty.endswith("has no student files: expected NAME.py or NAME/my_minikv.py")


def test_progress_is_shown_on_a_terminal_and_nowhere_else(judged_here, tmp_path, monkeypatch, capsys):
    (tmp_path / "anna.py").write_text("x")
    assert told(capsys, "classroom", tmp_path).err == ""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert cli.main(["classroom", str(tmp_path)]) == 0
    assert "anna: " in terminal.getvalue()


@pytest.mark.parametrize("begin", "=+-@")
def test_a_name_is_no_formula_for_a_spreadsheet(begin):
    report = classroom.ClassReport([classroom.Student(f"{begin}SUM", {}, "")])
    assert report.as_csv().splitlines()[1] == f"'{begin}SUM,0,"


# -- progress ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / "progress.json"))
    session.opened.clear(), session.guesses.clear()  # what other tests did in this session
    return tmp_path / "progress.json"


def test_progress_as_json_says_what_progress_shows(record, capsys):
    for id, mark in teachers.RECORD.items():
        remember(id, mark)
    out = told(capsys, "progress", "--json").out
    assert teachers.blocks()["progress"] == teachers.as_output("minikv progress --json", teachers.folded(out))
    shown = text_of("tests/golden/progress.txt")
    assert printed_by(progress) == shown
    assert told(capsys, "progress").out == shown


def test_a_record_that_cannot_be_read_is_reported_and_the_json_is_whole(record, capsys):
    record.write_text("[]")
    out, error = told(capsys, "progress", "--json")
    found = json.loads(out)
    assert found["solved"] == 0
    assert [each["id"] for each in found["chapters"]["03"]] == [f"3.{number}" for number in range(1, 11)]
    assert "your progress can't be read" in error


# -- the guide for teachers -------------------------------------------------------------------------------------------

GUIDE = teachers.GUIDE.read_text("utf-8")
AGAIN = "python tests/teachers.py writes it again"


@pytest.mark.parametrize("name", teachers.MADE_HERE)
def test_the_guide_says_what_the_chapters_and_the_stored_answers_say(name):
    assert teachers.blocks()[name] == teachers.MADE_HERE[name](), AGAIN


def test_the_plans_fit_their_time():
    assert sum(minutes for minutes, *_ in teachers.LECTURE) == 90
    weeks, known = teachers.CHOSEN["weeks"], teachers.times()
    assert len(weeks) == 6
    assert all(sum(known[chapter][0] for chapter in week) <= 90 for week in weeks)
    (hour,) = re.findall(r"\| (\d+):\d\d \|  \| end \|", GUIDE)
    assert int(hour) == 16
    placed = [chapter for week in weeks for chapter in week]
    assert sorted([*placed, *teachers.CHOSEN["projects"]]) == sorted(known)


def test_every_goal_is_in_the_guide_and_can_be_reached_as_it_says():
    assert set(teachers.WAYS) == set(GOALS)
    for goal, (_, steps) in teachers.WAYS.items():
        room = playground(goal=goal)
        for verb, what in steps:
            room.controls["tokens" if isinstance(what, int) else "prompt"].value = what
            room.controls[verb].click()
        assert "reached, your steps" in room.text.splitlines()[0], goal


def test_what_the_guide_names_is_there():
    (chapters,) = re.findall(r"Chapters (.*) need PyTorch", GUIDE)
    assert re.findall(r"\d\d", chapters) == sorted(set(chapters_that_need_torch()))
    (named,) = re.findall(r"guess (3\.\w)", GUIDE)
    assert f'guess("{named}"' in text_of("notebooks/src/03_radix_splitting.py")
    (typed,) = re.findall(r'Run `playground\(goal="(.*)"\)` in a new cell', GUIDE)
    assert f"after {teachers.link(teachers.TYPED)} | `{typed}`" in GUIDE
    assert f"gets {classroom.MOST_BYTES // 2**30} GiB of memory" in GUIDE
    assert len(find_piece("3.3").hints) == 3  # "helps in three steps"


def test_progress_is_looked_for_here_and_then_in_the_folder_of_the_course(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MINIKV_PROGRESS", "")  # as if it were not set; the command may set it
    monkeypatch.delenv("MINIKV_MINE")
    monkeypatch.chdir(tmp_path)
    there = tmp_path / "minikv-course/progress.json"
    there.parent.mkdir()

    def solved():
        monkeypatch.setenv("MINIKV_PROGRESS", "")
        return json.loads(told(capsys, "progress", "--json").out)["solved"]

    assert solved() == 0
    there.write_text('{"1.1": "✅", "1.3": "✅", "numbering": 2}', "utf-8")
    assert solved() == 2
    (tmp_path / "progress.json").write_text('{"1.1": "✅", "numbering": 2}', "utf-8")
    assert solved() == 1
    monkeypatch.setenv("MINIKV_MINE", os.devnull)
    assert solved() == 0
