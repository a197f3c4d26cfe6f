"""The commands `minikv classroom` and `minikv progress`: a class report, whatever the students' files do."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from functools import partial

import pytest
import teachers
from test_house import chapters_that_need_torch

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


@pytest.fixture
def one(judged_here, tmp_path):
    """Judge the text of one file."""

    def judge(text):
        (tmp_path / "anna.py").write_text(text, "utf-8")
        return judge_student("anna", tmp_path / "anna.py")

    return judge


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Ten students: three with wrong answers, one with printed solutions, one file that does not run, and none."""
    home = tmp_path_factory.mktemp("homework")
    teachers.write_class(home)
    return home


def test_the_report_on_ten_students_is_the_one_that_the_guide_shows(judged_here, folder, monkeypatch, capsys):
    found = judge_class(folder)
    assert teachers.blocks()["class report"] == teachers.as_output("minikv classroom homework", str(found))
    assert {each.name for each in found.students if classroom.WRONG in marks(each)} == {"bela", "cem", "dana"}
    assert {each.name for each in found.students if classroom.PRINTED in marks(each)} == {"eli"}
    assert [len(names) for _, _, names in found.mistakes] == [2, 1, 1, 1]

    monkeypatch.setattr(classroom, "judge_class", lambda folder, tick: found)
    assert cli.main(["classroom", str(folder), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    split = report["mistakes"][0]
    assert (split["piece"], split["students"]) == ("3.3", ["bela", "dana"])
    assert split["hint"] == teachers.stored_wrong("3.3", "the old node becomes the upper half").hint
    fay = report["students"][5]
    assert (fay["student"], fay["pieces"]) == ("fay", {})
    assert fay["trouble"] == "does not run: NameError (name 'Counter' is not defined)"

    assert cli.main(["classroom", str(folder), "--csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["student"] for row in rows] == [each.name for each in found.students]
    assert (rows[3]["3.3"], rows[3]["3.5"], rows[4]["3.3"], rows[4]["solved"]) == (
        "wrong", "no answer", "same as printed", "5",
    )  # fmt: skip


def marks(student):
    return {judged.mark for judged in student.pieces.values()}


@pytest.mark.nightly
def test_the_commands_print_what_the_guide_shows(monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", "")  # which is set there
    shown = teachers.blocks()
    assert teachers.printed() == {name: shown[name] for name in ("class report", "progress", "verify")}


def test_tests_that_catch_enough_are_those_of_the_record_beside_a_file(judged_here, tmp_path, monkeypatch):
    (home := tmp_path / "anna").mkdir()
    (home / "my_minikv.py").write_text(teachers.handed_in({"2.1": 0}), "utf-8")
    monkeypatch.setenv("MINIKV_PROGRESS", str(home / "progress.json"))
    for test, mark in (("3.6", SOLVED), ("2.3", WRONG), ("99.9", SOLVED), ("\x1b[31m\nben", SOLVED)):
        remember(f"{test} test", mark)
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
    for name, text in {"anna": dies, "bela": FILLS}.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    anna, bela = judge_class(tmp_path).students
    assert anna.trouble == "the process ends with status 9 while 2.2 was judged"
    assert (marks(anna), anna.solved) == ({"solved"}, 2)
    assert bela.trouble == "does not run: MemoryError"


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("def", "does not run: SyntaxError ("),
        ("import sys\nsys.exit('bye')\n" + ALLOC, "does not run: SystemExit (bye)"),
        ("while True:\n    pass\n", "does not run: no result within 0.2 seconds"),
        ("def split(node, at): ...", classroom.NOT_MARKED),
        ("#" * (classroom.LARGEST_FILE + 1), "cannot be read: has more than 1048576 bytes, "),
        ("\0", "does not run: "),
    ],
)  # fmt: skip
def test_a_file_that_does_not_run_says_why(one, monkeypatch, text, trouble):
    monkeypatch.setattr(attempt, "MOST_SECONDS", 0.2)
    student = one(text)
    assert student.trouble.startswith(trouble)
    assert (student.solved, student.pieces) == (0, {})


def test_a_file_that_is_no_text_says_so(judged_here, tmp_path):
    (tmp_path / "anna.py").write_bytes(b"# \xff")
    assert (
        judge_student("anna", tmp_path / "anna.py").trouble
        == "cannot be read: is not UTF-8: invalid start byte at byte 3"
    )


def test_a_failing_answer_that_check_has_kept_is_judged(judged_here, tmp_path, monkeypatch):
    """Of the pieces of another design too, of which nothing has passed, so the file has not its classes."""
    monkeypatch.setenv("MINIKV_MINE", str(tmp_path / "anna.py"))
    pieces = [pieces_of(chapter)[0] for chapter in (1, 3, 4, 9, 10, 11, 12, 13, 14)]
    for piece in pieces:
        teachers.answer(piece.id, teachers.without_head(piece.wrong[0].section.text))
    monkeypatch.setenv("MINIKV_MINE", os.devnull)
    found = judge_student("anna", tmp_path / "anna.py")
    assert found.trouble == ""
    assert {id: judged[::2] for id, judged in found.pieces.items()} == {
        piece.id: ("wrong", piece.wrong[0].hint) for piece in pieces
    }


BEFORE = "def common(a, b):\n    raise NotImplementedError\n    return 0\n"
RIGHT = find_piece("3.3").solution


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("id", "text", "words", "hint"),
    [
        ("3.1", BEFORE, "delete the line `raise NotImplementedError`; ", "matches no stored mistake; "),
        ("3.3", RIGHT, "", classroom.ALONE),
        ("3.3", "def split(node, at):\n    return nobody", "split(", ""),
    ],
)  # fmt: skip
def test_a_failing_answer_is_wrong_whatever_is_in_it(one, id, text, words, hint, end):
    found = one(_with_failed(ALLOC, {id: text}).replace("\n", end)).pieces
    assert found["2.1"].mark == "solved"
    assert found[id].mark == "wrong"
    assert found[id].words.startswith(words)
    assert found[id].hint.startswith(hint)
    report = str(classroom.ClassReport([classroom.Student("anna", found)]))
    assert not [line for line in report.splitlines() if line.endswith("for example:")]


def test_unknown_mistakes_are_all_shown(judged_here, tmp_path):
    for name, text in {"anna": teachers.BY_HAND, "bela": teachers.BY_HAND.replace("len(a)", "a and len(b)")}.items():
        (tmp_path / f"{name}.py").write_text(assembled({"3.1": text}), "utf-8")
    report = str(judge_class(tmp_path))
    assert "2 × 3.1 common: matches no stored mistake" in report
    assert "\n    anna: common(" in report
    assert "\n    bela: common(" in report


def test_a_piece_that_does_not_end_is_one_mistake(one, monkeypatch):
    monkeypatch.setattr(attempt, "MOST_SECONDS", 0.2)
    student = one(assembled({"2.1": teachers.other_right("2.1"), "3.1": "def common(a, b):\n    while True: pass\n"}))
    assert student.trouble == ""
    assert student.pieces["2.1"].mark == "solved"
    assert student.pieces["3.1"].mark == "wrong"
    assert student.pieces["3.1"].hint.startswith("Stopped after ")


@pytest.mark.parametrize(
    ("own", "hint"),
    [
        ("def common(a, b):\n    return sum(x == y for x, y in zip(a, b))\n", "stop at the first difference: "),
        ("def common(a, b):\n    return 0\n", ""),
        ("def common(a, b, c):\n    return 0\n", ""),
        ("def common(a, b):\n    raise NotImplementedError\n", None),
        ("comm = 7\n", "matches no stored mistake; the first hint is: "),
        ("common = 7\n", "matches no stored mistake; the first hint is: "),
    ],
)  # fmt: skip
def test_a_wrong_piece_has_the_hint_that_check_gives_or_the_first_one(one, own, hint):
    found = one(assembled({"3.1": own})).pieces["3.1"]
    assert found.mark == ("no answer" if hint is None else "wrong")
    assert found.hint.startswith(hint or "")
    assert bool(found.hint) == (hint is not None)


SLOW = """def link(ring, node):
    last = ring
    while last.newer is not ring:
        last = last.newer
    last.newer = ring.older = node
    node.older, node.newer = last, ring
"""


def test_what_is_too_slow_has_the_hint_about_its_cost(one):
    found = one(assembled({"5.1": SLOW})).pieces["5.1"]
    assert found.words.startswith("correct, but too slow: ")
    assert found.hint == find_piece("5.1").cost.why


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


def test_two_students_of_one_name_are_both_in_the_report(tmp_path):
    for name in ("anna.py", "anna_my_minikv.py", "my_minikv.py", "my_minikv_bela.py", ".hidden.py"):
        (tmp_path / name).write_text("")
    older = tmp_path / "cem" / "my_minikv_older"
    older.mkdir(parents=True)
    (older / "my_minikv_1.py").write_text("")
    assert list(student_files(tmp_path)) == ["anna", "anna_my_minikv.py", "cem", "my_minikv.py", "bela"]
    assert student_files(tmp_path)["cem"] is None


def test_names_as_course_systems_give_them(tmp_path):
    names = [
        "bela_1234_5678_my_minikv-1.py",
        "ana_12_my_minikv-2.py",
        "HW3 - Cem - my_minikv (1).py",
        "my_minikv_dana.py",
    ]
    for name in (*names, "eli.zip", "fay.ipynb"):
        (tmp_path / name).write_text("")
    (tmp_path / "gus").mkdir()
    for name in ("my_minikv (1).py", "my_minikv.py"):
        (tmp_path / "gus" / name).write_text("")
    found = student_files(tmp_path)
    assert list(found) == ["ana_12", "bela_1234_5678", "eli.zip", "fay.ipynb", "gus", "HW3 - Cem", "dana"]
    assert found["gus"].name == "my_minikv.py"
    assert judge_student("eli.zip", found["eli.zip"]).trouble == "no my_minikv.py was handed in; is one in this file?"


def test_moodles_folders_and_files_are_shown_as_the_name(tmp_path):
    added = "_98765_assignsubmission_file"
    (tmp_path / f"Müller_Jürgen{added}_").mkdir()
    for name in (f"Ana Ray{added}_my_minikv.py", f"Bo Yi{added}_my_minikv (1).py", "profile.py", "my_file_.py"):
        (tmp_path / name).write_text("")
    assert set(student_files(tmp_path)) == {"Müller_Jürgen", "Ana Ray", "Bo Yi", "profile", "my_file_"}


def test_students_are_sorted_whether_or_not_they_write_capitals(tmp_path):
    for name in ("bela", "Anna", "cem", "Dana", "anna"):
        (tmp_path / name).mkdir()
    assert list(student_files(tmp_path)) == ["Anna", "anna", "bela", "cem", "Dana"]


def test_a_second_copy_of_a_students_file_is_asked_about(judged_here, tmp_path):
    for name in ("alice.py", "alice (2).py", "bo (2).py", "cem (1)/my_minikv.py", "cem/my_minikv.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(ALLOC, "utf-8")
    found = {each.name: each.trouble for each in judge_class(tmp_path).students}
    copy = classroom.TWICE
    assert found == {"alice": "", "alice (2)": copy, "bo (2)": "", "cem": "", "cem (1)": copy}


def test_the_table_says_of_how_many_functions(judged_here, tmp_path):
    (tmp_path / "anna.py").write_text(ALLOC, "utf-8")
    head, anna = str(judge_class(tmp_path)).splitlines()[:2]
    assert (head.split(), anna.split()[-3:]) == (["student", "02", "solved"], ["1", "of", str(len(pieces_of(2)))])


@pytest.mark.parametrize("name", ["my_minikv", "my_minikv (1)", "my_minikv-2", "03_my_minikv"])
def test_a_file_that_names_nobody_is_judged_and_its_line_says_what_to_do(judged_here, tmp_path, name):
    for each in (name, "20261234_my_minikv", "Ünal"):
        (tmp_path / f"{each}.py").write_text(ALLOC, "utf-8")
    found = {each.name: (each.solved, each.trouble) for each in judge_class(tmp_path).students}
    assert found == {"20261234": (1, ""), f"{name}.py": (1, classroom.NAMELESS), "Ünal": (1, "")}


def test_a_wrong_call_is_one_line(tmp_path, capsys):
    assert cli.main(["classroom", str(tmp_path / "none")]) == 2
    assert cli.main(["classroom", str(tmp_path)]) == 2
    missing, empty = capsys.readouterr().err.splitlines()
    assert missing.endswith("none: No such file or directory")
    assert empty.endswith("has no student files: expected NAME.py or NAME/my_minikv.py")


@pytest.mark.skipif(sys.platform == "win32", reason="no such names there")
def test_a_name_is_shown_without_control_characters(judged_here, tmp_path):
    (tmp_path / "an\x1bna.py").write_text("x")
    assert [each.name for each in judge_class(tmp_path).students] == ["an\N{REPLACEMENT CHARACTER}na"]


def test_progress_is_shown_on_a_terminal_and_nowhere_else(judged_here, tmp_path, monkeypatch, capsys):
    (tmp_path / "anna.py").write_text("x")
    assert cli.main(["classroom", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert cli.main(["classroom", str(tmp_path)]) == 0
    assert "anna: " in terminal.getvalue()


def test_a_name_is_no_formula_for_a_spreadsheet():
    report = classroom.ClassReport([classroom.Student("=1+1", {}, "")])
    assert report.as_csv().splitlines()[1] == "'=1+1,0,"


# -- progress ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / "progress.json"))
    session.opened.clear(), session.guesses.clear()  # what other tests did in this session
    return tmp_path / "progress.json"


def test_progress_as_json_says_what_progress_shows(record, capsys):
    for id, mark in teachers.RECORD.items():
        remember(id, mark)
    assert cli.main(["progress", "--json"]) == 0
    out = capsys.readouterr().out
    assert teachers.blocks()["progress"] == teachers.as_output("minikv progress --json", teachers.folded(out))
    found = json.loads(out)
    progress()
    shown = capsys.readouterr().out
    assert cli.main(["progress"]) == 0
    assert capsys.readouterr().out == shown
    assert f"{found['solved']} of {found['total']} solved" in shown
    signs = {"solved": "✓", "tried": "✗", "not tried": "□"}
    for (chapter, row), line in zip(found["chapters"].items(), shown.splitlines()):
        assert {f"chapter {chapter}", *(f"{signs[each['state']]} {each['id']}" for each in row)} == {*line.split("   ")}
        assert [each["id"] for each in row] == [f"{int(chapter)}.{number}" for number in range(1, len(row) + 1)]
    assert [each["name"] for each in found["chapters"]["01"][1:6:4]] == [find_piece("1.2").name, "best_page_size"]
    guessed = found["predictions"]
    assert f"predictions correct: {guessed['right']} of {guessed['made']}; look again at 2.a" in shown


def test_a_record_that_cannot_be_read_is_reported_and_the_json_is_whole(record, capsys):
    record.write_text("[]")
    assert cli.main(["progress", "--json"]) == 0
    out, error = capsys.readouterr()
    assert json.loads(out)["solved"] == 0
    assert "your progress can't be read" in error


# -- the guide for teachers -------------------------------------------------------------------------------------------

GUIDE = teachers.GUIDE.read_text("utf-8")
AGAIN = "python tests/teachers.py writes it again"


@pytest.mark.parametrize("name", teachers.MADE_HERE)
def test_the_guide_says_what_the_chapters_and_the_stored_answers_say(name):
    assert teachers.blocks()[name] == teachers.MADE_HERE[name](), AGAIN


def test_the_plans_fit_their_time():
    assert sum(minutes for minutes, *_ in teachers.LECTURE) == 90
    assert len(teachers.WEEKS) == 6
    known = teachers.times()
    assert all(sum(known[chapter][0] for chapter in week) <= 90 for week in teachers.WEEKS)
    (hour,) = re.findall(r"\| (\d+):\d\d \|  \| end \|", GUIDE)
    assert int(hour) == 16
    placed = [chapter for week in teachers.WEEKS for chapter in week]
    assert sorted([*placed, *teachers.PROJECTS]) == sorted(known)


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
    assert f'guess("{named}"' in (teachers.ROOT / "notebooks" / "src" / "03_radix_splitting.py").read_text("utf-8")
    (typed,) = re.findall(r'Run `playground\(goal="(.*)"\)` in a new cell', GUIDE)
    assert f"after {teachers.link(teachers.TYPED)} | `{typed}`" in GUIDE
    assert f"gets {classroom.MOST_BYTES // 2**30} GiB of memory" in GUIDE
    assert len(find_piece("3.3").hints) == 3  # "helps in three steps"


def test_progress_is_looked_for_here_and_then_in_the_folder_of_the_course(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MINIKV_PROGRESS", "")  # as if it were not set; the command may set it
    monkeypatch.delenv("MINIKV_MINE")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "minikv-course").mkdir()

    def solved():
        monkeypatch.setenv("MINIKV_PROGRESS", "")
        assert cli.main(["progress", "--json"]) == 0
        return json.loads(capsys.readouterr().out)["solved"]

    assert solved() == 0
    (tmp_path / "minikv-course" / "progress.json").write_text('{"1.1": "✅", "1.3": "✅", "numbering": 2}', "utf-8")
    assert solved() == 2
    (tmp_path / "progress.json").write_text('{"1.1": "✅", "numbering": 2}', "utf-8")
    assert solved() == 1
    monkeypatch.setenv("MINIKV_MINE", os.devnull)
    assert solved() == 0
