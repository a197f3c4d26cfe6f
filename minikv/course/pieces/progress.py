"""`progress`: what is solved, over the whole course."""

from __future__ import annotations

from collections.abc import Iterable

from minikv.course.pieces.guessing import missed, predictions
from minikv.course.pieces.piece import CHAPTERS, exercises_of, pieces_of
from minikv.course.pieces.record import NOT_ATTEMPTED, RIGHT, recall
from minikv.errors import bounded


def progress(chapters: Iterable[int] = CHAPTERS) -> None:
    """Print for each chapter the pieces and exercises that are solved (✅), tried (❌) and not tried (⬜).

    The best `check` of each counts: what was solved keeps its ✅ when another answer is tried later. The record is the
    file `.minikv/progress.json` in the home folder, or the one that `MINIKV_PROGRESS` names. To begin anew, delete it.
    An unreadable record is reported, and left as it is. Predictions count too, once they have met their answers.

    >>> progress([])
    0 of 0 solved
    """
    if not isinstance(chapters, Iterable):
        raise TypeError(f"chapters are {bounded(chapters)}: expected their numbers")
    marks, solved, total = recall(), 0, 0
    for chapter in chapters:
        ids = dict.fromkeys([*(e.id for e in pieces_of(chapter)), *(e.id for e in exercises_of(chapter))])
        row = [(id, marks.get(id, NOT_ATTEMPTED)) for id in ids]
        solved, total = solved + sum(mark == RIGHT for _, mark in row), total + len(row)
        print(f"chapter {chapter:02d}   " + "   ".join(f"{mark} {id}" for id, mark in row))
    print(f"{solved} of {total} solved")
    made, right = predictions()
    if made:
        again = f"; look again at {', '.join(missed())}" if missed() else ""
        print(f"{right} of {made} predictions right{again}")
