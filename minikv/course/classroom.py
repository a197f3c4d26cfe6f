"""The class report: every student's `my_minikv.py` is judged as `check` does, and the mistakes of all are counted.

Each file runs in a process of its own with limits of memory and time, and what it starts is ended with it, as far as
the system allows (see `apart`): a file that hangs, crashes or forks costs only its student a line. It runs beside its
judge, though: a file that is made to cheat can. That a piece equals the printed solution says nothing about how it came
about.
"""

from __future__ import annotations

import csv
import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from minikv.course.pieces.checking import CANNOT, verdict_on
from minikv.course.pieces.mine import failed_sections, kept_sections, load, world_with
from minikv.course.pieces.piece import CHAPTERS, Piece, all_pieces, find_piece, pieces_of
from minikv.course.pieces.record import RIGHT, good_tests
from minikv.course.pieces.record import WRONG as FAILED
from minikv.course.pieces.stored import is_as_printed
from minikv.course.pieces.trial import NO_END
from minikv.engine import World, engine_world
from minikv.errors import one_line
from minikv.progress_bar import Tick, quiet
from minikv.testing.apart import Say, messages_apart
from minikv.testing.attempt import attempt
from minikv.testing.rules import NothingToJudgeError
from minikv.untrusted import read_text

MOST_BYTES = 2 * 2**30  # of memory, for one file
LARGEST_FILE = 2**20  # bytes
WIDTH = 88  # columns of text
SOLVED, PRINTED, WRONG, MISSING = "solved", "same as printed", "wrong", "no answer"
NO_HINT = "matches no stored mistake; the first hint is: {}"
NOT_MARKED = "has no answer: hand in the file that `check` writes"
ALONE = "it failed in the notebook but passes on its own: did another cell change something?"
PACKED = (".zip", ".ipynb")
TWICE = "looks like a copy: keep only one"
NAMELESS = "its name doesn't say whose it is: call it NAME.py"
_SIGNS = {SOLVED: "✓", PRINTED: "=", WRONG: "✗", MISSING: "□"}
_SOMEBODY = re.compile(r"[^\W\d_]|\d{4}")  # in a name: a letter or a student number, not the (1) of a second copy
_FILE = re.compile(  # what Moodle adds to a name, and our own, with the number of an attempt or a copy
    r"_\d+_assignsubmission_file_?(?=my_minikv|$)|"
    r"[\s_.-]*my_minikv(?!\.[a-z])[\s_.-]*(\(?\d{1,2}\)?$)?"
)


class Judged(NamedTuple):
    """The verdict on a piece: how it is marked; of a wrong one, a small failing case in words, and a hint."""

    mark: str
    words: str = ""
    hint: str = ""


class Student(NamedTuple):
    """A student, the pieces in their file by id, and `trouble`: why some or all of it could not be judged.

    Of their `tests`, those that catch enough are named by their pieces, as the record beside the file has it.
    """

    name: str
    pieces: Mapping[str, Judged]
    trouble: str = ""
    tests: Sequence[str] = ()

    def at(self, piece: Piece) -> Judged:
        """The verdict on a piece."""
        return self.pieces.get(piece.id, Judged(MISSING))

    @property
    def solved(self) -> int:
        """The number of pieces that pass."""
        return sum(each.mark in (SOLVED, PRINTED) for each in self.pieces.values())


# -- the files --------------------------------------------------------------------------------------------------------


def student_files(folder: Path) -> dict[str, Path | None]:
    """Return each student's file by name: a Python file in `folder`, or a my_minikv.py somewhere in a folder there.

    Of several in a student's folder it is the one that lies highest, then the first by name. `None`: there is none.

    >>> import tempfile
    >>> home = Path(tempfile.mkdtemp())
    >>> for name in ("anna", "bela/course", "cem"):
    ...     (home / name).mkdir(parents=True)
    >>> for name in ("anna/my_minikv.py", "bela/course/my_minikv (1).py", "dana_my_minikv.py", "eli.py", "notes.txt"):
    ...     _ = (home / name).write_text("")
    >>> {name: file and file.relative_to(home).as_posix() for name, file in student_files(home).items()}
    {'anna': 'anna/my_minikv.py', 'bela': 'bela/course/my_minikv (1).py', 'cem': None, \
'dana': 'dana_my_minikv.py', 'eli': 'eli.py'}
    """
    found: dict[str, Path | None] = {}
    for entry in sorted(folder.iterdir(), key=lambda path: (path.name.casefold(), path)):
        name = _FILE.sub("", entry.name.removesuffix(".py"))
        if entry.name.startswith((".", "__")):
            continue
        inside = [path for path in entry.rglob("*my_minikv*.py") if not path.parent.name.endswith("_older")]
        first = min(inside, key=lambda path: (len(path.parts), path.stem != "my_minikv", path), default=None)
        file = first if entry.is_dir() else entry
        if file is None or file.suffix in (".py", *PACKED):
            found[name if _SOMEBODY.search(name) and name not in found else entry.name] = file
    return found


# -- one file ---------------------------------------------------------------------------------------------------------


def judge_student(name: str, file: Path | None) -> Student:
    """Judge the pieces of a student's file in another process, whatever it does there.

    >>> judge_student("cem", None)
    Student(name='cem', pieces={}, trouble='no my_minikv.py was handed in', tests=())
    """
    if file is None or file.suffix in PACKED:
        return Student(name, {}, "no my_minikv.py was handed in" + ("; is one in this file?" if file else ""))
    pieces = {}
    now = trouble = ""
    for message in messages_apart(f"{__name__}:judge_file", str(file.absolute()), most_bytes=MOST_BYTES):
        if "judged" in message:
            said = [one_line(str(message["judged"].get(part, ""))) for part in Judged._fields]
            if said[0] in _SIGNS and find_piece(now):
                pieces[now] = Judged(*said)
        elif "doing" in message:
            now = one_line(" ".join(map(str, message["doing"])))
        else:
            doing = f"{now} was judged" if now else "the file ran"
            ended = f"the process {message.get('end', 'sent no verdict')} while {doing}"
            trouble = trouble or one_line(message.get("error", ended), 200)
    nameless = NAMELESS * (name.endswith(".py") and not _SOMEBODY.search(_FILE.sub("", name[:-3])))
    tests = () if _FILE.sub("", file.stem) else good_tests(file.parent)
    return Student(name, pieces, trouble or nameless, tests)


def judge_file(say: Say, path: str) -> None:
    """Judge the student's own sections of the file `path`: in the other process.

    >>> judge_file(lambda **message: print(message), "no_such_file.py")
    {'error': 'cannot be read: No such file or directory'}
    """
    sys.path.append(os.path.dirname(path))  # at the end: a student's module replaces none that the judge needs
    try:
        kept, failed, world = _loaded(Path(path))
    except NothingToJudgeError as error:
        say(error=str(error))
        return
    for answers in (kept, failed):  # whatever a failing one does, those that passed are judged already
        for piece in all_pieces():
            if piece.id in answers:
                say(doing=[piece.id])
                judged = _judged(piece, answers[piece.id], world)
                solves = judged.mark in (SOLVED, PRINTED)
                say(judged=(Judged(WRONG, "", ALONE) if answers is failed and solves else judged)._asdict())


def _loaded(path: Path) -> tuple[dict[str, str], dict[str, str], World]:
    """The student's answers, those that failed, and what the file defines; `NothingToJudgeError` if there are none."""
    try:
        text = read_text(path, LARGEST_FILE)
        kept, failed = kept_sections(text), failed_sections(text)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error).removeprefix(f"{path} ")
        raise NothingToJudgeError(f"cannot be read: {said}") from None
    with suppress(ImportError):
        engine_world(
            *{int(id.split(".")[0]) for id in (*kept, *failed)}
        )  # imports torch if that is needed, which may take long
    loaded = attempt(lambda: load(text))
    if loaded.error is not None:
        raise NothingToJudgeError(f"does not run: {loaded}")
    if not kept and not failed:
        raise NothingToJudgeError(NOT_MARKED)
    return kept, failed, loaded.value


def _judged(piece: Piece, own: str, world: World) -> Judged:
    unknown = NO_HINT.format(piece.hints[0])
    made = attempt(lambda: world_with(piece.name, own, world))
    if made.error is not None:
        return Judged(WRONG, f"its section fails alone: {made}", unknown)
    found = verdict_on(piece, made.value[piece.name], made.value)
    if found.mark == FAILED:
        hint = NO_END if found.words.endswith(NO_END) else found.hint.partition(": ")[2]
        return Judged(WRONG, found.words, hint or unknown)
    if found.mark != RIGHT:
        return Judged(MISSING, found.words * found.words.startswith(CANNOT))
    return Judged(PRINTED if is_as_printed(own, piece.name, piece.solution) else SOLVED)


# -- the class --------------------------------------------------------------------------------------------------------


def judge_class(folder: Path, tick: Tick = quiet) -> ClassReport:
    """Judge each student's file in `folder`, one after the other; `tick` is called with each name.

    >>> import tempfile
    >>> home = Path(tempfile.mkdtemp())
    >>> (home / "anna").mkdir()
    >>> print(judge_class(home))
    student  solved
    anna      0 of 0  no my_minikv.py was handed in
    """
    students, files = [], student_files(folder)
    for name, file in files.items():
        tick(name)
        student, is_copy = judge_student(one_line(name), file), name.rpartition(" (")[0] in files
        students.append(student._replace(trouble=student.trouble or TWICE * is_copy))
    return ClassReport(students)


@dataclass(frozen=True)
class ClassReport:
    """Who solved what, and which mistakes were made; `str()` is a table, and below it the mistakes."""

    students: Sequence[Student]

    @property
    def mistakes(self) -> list[tuple[Piece, str, list[Student]]]:
        """Each piece and hint, with the students whose answers get it: the most frequent first."""
        found: dict[tuple[Piece, str], list[Student]] = {}
        for piece in all_pieces():
            for student in self.students:
                if (judged := student.at(piece)).mark == WRONG:
                    found.setdefault((piece, judged.hint), []).append(student)
        return sorted(((*key, students) for key, students in found.items()), key=lambda each: -len(each[2]))

    @property
    def begun(self) -> list[Sequence[Piece]]:
        """The pieces of each chapter in which somebody has one."""
        ids = {id for each in self.students for id in each.pieces}
        return [pieces for pieces in map(pieces_of, CHAPTERS) if ids & {piece.id for piece in pieces}]

    def as_json(self) -> dict[str, Any]:
        """Return the whole report as plain data."""
        students = [
            {"student": each.name, "solved": each.solved, "tests": each.tests,
             "pieces": {id: judged._asdict() for id, judged in each.pieces.items()}, "trouble": each.trouble}
            for each in self.students
        ]  # fmt: skip
        mistakes = [
            {"piece": piece.id, "hint": hint, "students": [each.name for each in students]}
            for piece, hint, students in self.mistakes
        ]
        return {"students": students, "mistakes": mistakes}

    def as_csv(self) -> str:
        """Return a line for each student, with a column for each piece of the chapters that somebody has begun."""
        pieces = [piece for pieces in self.begun for piece in pieces]
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(["student", *(piece.id for piece in pieces), "solved", "trouble"])
        for each in self.students:
            name = re.sub(r"^(?=[=+@-])", "'", each.name)  # or a spreadsheet takes it for a formula
            lines.writerow([name, *(each.at(piece).mark for piece in pieces), each.solved, each.trouble])
        return text.getvalue().rstrip("\n")

    def __str__(self) -> str:
        begun = self.begun
        rows = [["student", *(f"{own[0].chapter:02d}" for own in begun), "solved"]]
        for each in self.students:
            signs = ["".join(_SIGNS[each.at(piece).mark] for piece in own) for own in begun]
            tests = f"  tests: {', '.join(each.tests)}" if each.tests else ""
            rows.append([each.name, *signs, f"{each.solved:2} of {sum(map(len, begun))}{tests}  {each.trouble}"])
        wide = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(map(str.ljust, row, wide)).rstrip() for row in rows]
        if begun:
            lines += ["", ", ".join(f"{sign} {mark}" for mark, sign in _SIGNS.items())]
        for piece, hint, students in self.mistakes:
            names = "    " + ", ".join(each.name for each in students)
            said = f"{len(students)} × {piece.id} {piece.name}: {hint}"
            shown = students if hint.startswith(NO_HINT[:9]) else students[:1]  # each may be another mistake
            cases = [f"    {each.name}: {each.at(piece).words}" for each in shown if each.at(piece).words]
            lines += ["", *(fill(line, WIDTH, subsequent_indent="    ") for line in (said, names, *cases))]
        return "\n".join(lines)
