"""The record of a learner's marks: one small JSON file, in which no mark is lost, even if two programs write it.

It holds the mark of each piece, exercise and prediction by its id; of a prediction that was missed, what was asked and
said. It is `progress.json` beside the learner's `my_minikv.py`, and both say which numbering of the pieces they use.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minikv.course.pieces.piece import CHAPTERS, all_pieces, exercises_of, pieces_of
from minikv.course.pieces.worlds import session
from minikv.course.shipped import FOLDER
from minikv.errors import bounded
from minikv.files import destination, locked, read_object, replace, set_aside
from minikv.testing.attempt import short_repr

NOT_ATTEMPTED, WRONG, RIGHT = "⬜", "❌", "✅"  # as they are stored
CORRECTED = "☑"  # a prediction that was missed, and right later
OF_A_TEST = " test"  # after the id of a piece: the test that the learner wrote for it
_A_PREDICTION = re.compile(r"\.[^\W\d_]$")
NUMBERING = 2  # of the pieces, exercises and predictions; a file that does not say is of the first
MOST_SAID = 60  # letters of a guess
_SIGNS = {NOT_ATTEMPTED: "□", WRONG: "✗", RIGHT: "✓"}  # as they are shown: emoji need a font that many machines lack
_STATES = {NOT_ATTEMPTED: "not tried", WRONG: "tried", RIGHT: "solved"}  # in JSON


@dataclass
class Guess:
    """A question, what was guessed, and whether it is correct, once it has met its answer.

    >>> Guess("how many?", 4).miss
    {'question': 'how many?', 'said': '4'}
    """

    question: str
    said: Any = None
    is_right: bool | None = None

    @property
    def miss(self) -> dict[str, str]:
        """The record of one that was wrong."""
        return {"question": self.question, "said": short_repr(self.said)[:MOST_SAID]}


class NotOursError(ValueError):
    """A file that stays as it is: another program's, or one of another numbering of the pieces."""


def mine_path() -> Path | None:
    """Return the path of the learner's own file: `MINIKV_MINE`, or `my_minikv.py` here; `None` for no file."""
    named = os.environ.get("MINIKV_MINE")
    return None if named == os.devnull else Path(named or "my_minikv.py")


def record_path() -> Path | None:
    """Return the path of the record: `MINIKV_PROGRESS`, or beside the learner's file; `None` for no record."""
    if named := os.environ.get("MINIKV_PROGRESS"):
        return None if named == os.devnull else Path(named)
    mine = mine_path()
    return mine and mine.with_name("progress.json")


def require_numbering(said: object, name: str) -> None:
    """Raise `NotOursError` for a file, called `name`, whose ids may mean other pieces than the same ids here.

    >>> require_numbering(1, "the file")
    Traceback (most recent call last):
    minikv.course.pieces.record.NotOursError: the file uses piece numbering 1, but this version of minikv uses 2
    """
    if said != NUMBERING:
        ours = f"but this version of minikv uses {NUMBERING}"
        raise NotOursError(f"{name} uses piece numbering {bounded(said)}, {ours}")


def set_old_aside(numbering_of_pieces: Callable[[str], object]) -> None:
    """Rename the learner's file and record if they are of an older numbering: nothing in them counts any more.

    `numbering_of_pieces` finds the numbering of the learner's file; `None` is said of another program's.

    >>> set_old_aside(len)
    """
    for path, numbering_of in ((mine_path(), numbering_of_pieces), (record_path(), numbering_of_marks)):
        with contextlib.suppress(OSError, ValueError):
            if path is not None and numbering_of(path.read_text("utf-8-sig")) not in (None, NUMBERING):
                with locked(destination(path)):
                    now = set_aside(path).name
                print(f"  {path.name} is from an older course with other piece numbers. It was renamed to {now}.")


def numbering_of_marks(text: str) -> object:
    """The numbering of a record of marks; `None` for another file.

    >>> numbering_of_marks('{"3.1": "✅"}'), numbering_of_marks("{}")
    (1, None)
    """
    entries = json.loads(text)
    return entries.get("numbering", 1) if isinstance(entries, dict) and (_marks(entries) or _missed(entries)) else None


def sign(mark: str) -> str:
    """Return the character that shows a mark.

    >>> sign(RIGHT), sign(WRONG), sign(NOT_ATTEMPTED)
    ('✓', '✗', '□')
    """
    return _SIGNS[mark]


def reached(ids: Iterable[str]) -> list[int]:
    """Return the chapters up to the one that is open, or up to the last with one of these ids; all where there is none.

    >>> reached(["3.3"])[-1] >= 3
    True
    """
    numbers = (id.split(".")[0] for id in ids)
    last = max([*session.opened, *(int(number) for number in numbers if number.isdecimal())], default=CHAPTERS[-1])
    return [chapter for chapter in CHAPTERS if chapter <= last]


def standing(chapters: int | Iterable[int] | None = None) -> dict[int, dict[str, str]]:
    """Return the mark of each piece and exercise of some chapters by its id; by default of those up to the learner's.

    >>> list(standing(0)[0])
    ['0.1', '0.2', '0.3']
    """
    marks = recall()
    if chapters is None:
        chapters = reached(marks)
    elif isinstance(chapters, int):
        chapters = [chapters]
    elif not isinstance(chapters, Iterable):
        raise TypeError(f"chapters must be a number or several numbers, not {bounded(chapters)}")
    ids = {chapter: [each.id for each in (*pieces_of(chapter), *exercises_of(chapter))] for chapter in chapters}
    marks = {id: mark for id, mark in marks.items() if mark in _SIGNS}
    return {chapter: {id: marks.get(id, NOT_ATTEMPTED) for id in found} for chapter, found in ids.items()}


def recall(aloud: bool = True) -> dict[str, str]:
    """The marks of the record, by exercise; an unreadable record is reported, unless not `aloud`, and has none.

    >>> sorted(set(recall().values()) - {RIGHT, WRONG, CORRECTED})
    []
    """
    return _marks(_recalled(aloud))


def missed() -> dict[str, dict[str, str]]:
    """Return the question and the guess of each missed prediction that has not been corrected since, by its label.

    >>> remember("0.0", {"question": "how many?", "said": "4"}); missed()["0.0"]["said"]
    '4'
    >>> remember("0.0", RIGHT); missed().get("0.0"), recall()["0.0"]
    (None, '☑')
    """
    known = {label: miss for label, miss in _missed(_recalled(aloud=False)).items() if label not in session.guesses}
    here = {label: prediction.miss for label, prediction in session.guesses.items() if prediction.is_right is False}
    return dict(sorted({**known, **here}.items()))


def predictions() -> tuple[int, int]:
    """How many predictions have met their answers, in this session or before it, and how many of them were correct.

    >>> session.guesses.clear(); made, right = predictions(); made >= right
    True
    """
    marks = {label for label, mark in recall(aloud=False).items() if mark != WRONG and _A_PREDICTION.search(label)}
    here = sum(prediction.is_right is True for prediction in session.guesses.values())
    right = here + len(marks - set(session.guesses))
    return right + len(missed()), right


def tried_tests(record: Path | None = None) -> dict[str, str]:
    """Return the marks of the tests that the learner wrote, by the ids of their pieces; or those in another `record`.

    >>> remember("3.3 test", RIGHT); tried_tests()["3.3"]
    '✅'
    """
    marks = _marks(_recalled(False, record))
    return {id.removesuffix(OF_A_TEST): marks[id] for id in marks if id.endswith(OF_A_TEST)}


def good_tests(folder: Path) -> list[str]:
    """Return the ids of the pieces of which the record in a folder has a test that catches enough.

    >>> good_tests(Path("no_such_folder"))
    []
    """
    tried = tried_tests(folder / "progress.json")
    return [piece.id for piece in all_pieces() if tried.get(piece.id) == RIGHT]


def corrected() -> list[str]:
    """Return the labels of the predictions that were missed at first, and are right now, by the record.

    >>> "1.a" in corrected()
    False
    """
    return sorted({label for label, mark in recall(aloud=False).items() if mark == CORRECTED} - set(missed()))


def look_in_the_course() -> None:
    """Name the record of the course's folder where this one has none, and no other place is named."""
    is_named = os.environ.get("MINIKV_PROGRESS") or os.environ.get("MINIKV_MINE")
    if not is_named and not Path("progress.json").exists():
        os.environ["MINIKV_PROGRESS"] = f"{FOLDER}/progress.json"


def as_json() -> dict[str, Any]:
    """Return what `progress` shows, as JSON has it, with the names of the pieces and exercises.

    >>> sorted(as_json())
    ['chapters', 'predictions', 'solved', 'tests', 'total']
    """
    found, chapters = standing(), {}
    for chapter, row in found.items():
        solvable = [*pieces_of(chapter), *exercises_of(chapter)]
        chapters[f"{chapter:02d}"] = [
            {"id": each.id, "name": each.name, "state": _STATES[row[each.id]]}
            for each in sorted(solvable, key=lambda each: (len(each.id), each.id))
        ]
    marks = [mark for row in found.values() for mark in row.values()]
    guessed = dict(zip(("made", "right"), predictions())) | {"corrected": corrected(), "look_again": list(missed())}
    own = {id: _STATES[mark] for id, mark in tried_tests().items()}
    solved = {"solved": marks.count(RIGHT), "total": len(marks)}
    return {"chapters": chapters, **solved, "tests": own, "predictions": guessed}


def _recalled(aloud: bool, record: Path | None = None) -> dict[str, Any]:
    try:
        record = record or record_path()
        return _entries(record) if record else {}
    except (OSError, ValueError) as error:
        if aloud:
            print(f"{sign(WRONG)} your progress can't be read: {error}")
        return {}


def remember(exercise: str, mark: str | dict[str, str]) -> None:
    """Put a mark into the record; a failure to do so is reported. A solved exercise stays solved.

    A prediction that was missed has for its mark the "question" and what was "said"; once corrected, `CORRECTED`.
    Several processes may do so at once. A record that cannot be read is kept as `progress.json.bad`, and a new one
    begins. A file that holds something else is left as it is, and so is any that `MINIKV_PROGRESS` names.

    >>> remember("1.1", RIGHT); remember("1.1", WRONG); recall()["1.1"]
    '✅'
    """
    try:
        record = record_path()
        if record is None:
            return
        record.parent.mkdir(parents=True, exist_ok=True)
        with locked(destination(record)):
            entries = _entries_or_new(record)
            before = entries.get(exercise)
            if before not in (RIGHT, CORRECTED, mark):
                kept = CORRECTED if mark == RIGHT and isinstance(before, dict) else mark
                marks = dict(sorted({**entries, "numbering": NUMBERING, exercise: kept}.items()))
                replace(record, json.dumps(marks, ensure_ascii=False, indent=1) + "\n")
    except (OSError, ValueError) as error:
        print(f"  This result was not saved: {error}")


def _marks(entries: dict[str, Any]) -> dict[str, str]:
    return {exercise: mark for exercise, mark in entries.items() if mark in (WRONG, RIGHT, CORRECTED)}


def _missed(entries: dict[str, Any]) -> dict[str, dict[str, str]]:
    found = {label: mark for label, mark in entries.items() if isinstance(mark, dict)}
    return {label: mark for label, mark in found.items() if type(mark.get("question")) is type(mark.get("said")) is str}


def _entries(record: Path) -> dict[str, Any]:
    """All that the record holds, what a newer version wrote as well; `ValueError` where it is something else."""
    entries = read_object(record)
    if entries and not _marks(entries) and not _missed(entries) and "numbering" not in entries:
        raise NotOursError(f"{str(record)!r} is not a record of progress: it holds other data")
    if entries:
        require_numbering(entries.get("numbering", 1), repr(str(record)))
    return entries


def _entries_or_new(record: Path) -> dict[str, Any]:
    try:
        return _entries(record)
    except ValueError as error:
        if os.environ.get("MINIKV_PROGRESS"):
            raise ValueError(f"{error} (MINIKV_PROGRESS names it: name another file, or delete this one)") from None
        if isinstance(error, NotOursError):
            raise
        print(f"  {error}. It was renamed to {str(set_aside(record))!r}, and a new record was started.")
        return {}
