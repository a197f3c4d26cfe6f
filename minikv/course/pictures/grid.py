"""Page tables, and other rows of slots, as grids of cells, in SVG and in text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from minikv.course.pictures.cells import cell_box
from minikv.course.pictures.legend import legend_svg
from minikv.course.pictures.looks import LETTERS, text_legend
from minikv.course.pictures.parts import Drawing, Paper, Part
from minikv.course.pictures.svg import markup
from minikv.errors import bounded
from minikv.palette import INK, STATES
from minikv.testing.snapshot import plain

CELL, TITLE, LABEL = 36, 22, 58
MOST_COLUMNS = 24  # of a row; a picture is no wider than can be read
_ORDER = ("locked", "matched", "new", "evicted")


def marks_of(marked: Mapping[str, Any]) -> dict[int, str]:
    """For each page or slot the mark that it is shown with: of several, the first of evicted, new, matched, locked.

    >>> marks_of({"locked": [1, 2], "new": [2]})
    {1: 'locked', 2: 'new'}
    """
    found: dict[int, str] = {}
    for mark in [m for m in _ORDER if marked.get(m) is not None]:
        for number in plain(marked[mark]):
            if not hasattr(number, "__index__"):
                raise TypeError(f"{mark} has {bounded(number)}: expected the numbers of pages or slots")
            found[int(number)] = mark
    return found


class Table:
    """Rows of slots as text and as a picture; `marks` is by slot, or by (row, column) for one cell.

    `states` says what a slot is where it is known; else a slot in a row is in hand. A row that is `None` is closed.

    >>> print(Table([[8, 9], None], 3, {9: "new"}).text)
    row 0   8 9n  -
    row 1  (closed)
    h in hand  n new
    """

    def __init__(
        self,
        rows: list[list[int] | None],
        columns: int,
        marks: Mapping[Any, str] | None = None,
        states: Mapping[int, str] | None = None,
        names: list[str] | None = None,
    ):
        self.rows, self.columns, self._marks, self._states = rows, columns, marks or {}, states or {}
        self._names = names or [f"row {i}" for i in range(len(rows))]

    def _look(self, row: int, column: int, slot: int) -> tuple[str, str]:
        """The state and the event of a cell."""
        mark = self._marks.get((row, column), self._marks.get(slot, ""))
        state = self._states.get(slot, "in hand")
        return (mark, "") if mark in STATES else (state, mark)

    @property
    def words(self) -> set[str]:
        """The states and events that the cells show."""
        cells = [(y, x, slot) for y, row in enumerate(self.rows) for x, slot in enumerate(row or [])]
        return {word for cell in cells for word in self._look(*cell) if word}

    @property
    def text(self) -> str:
        """A line for each row, `-` in a cell that is not used; a slot has the letter of what it is or of its mark."""
        words = [[self._word(y, x, slot) for x, slot in enumerate(row or [])] for y, row in enumerate(self.rows)]
        width = max([2, *(len(word) for row in words for word in row)])
        name, lines = max(map(len, self._names), default=0), []
        for i, row in enumerate(self.rows):
            empty = [*words[i], *["-"] * (self.columns - len(words[i]))]
            cells = " (closed)" if row is None else "".join(f" {word:>{width}}" for word in empty)
            lines.append(f"{self._names[i]:<{name}} {cells}")
        legend = text_legend(self.words)
        return "\n".join(lines + ([legend] if legend else []))

    def _word(self, row: int, column: int, slot: int) -> str:
        state, event = self._look(row, column, slot)
        return f"{slot}{LETTERS[event] if event else '' if state == 'in hand' else LETTERS[state]}"

    def parts(self, labels: int = LABEL) -> list[Part]:
        """The cells below the title; a key is the row times the parts of a row, plus the column."""
        parts = []
        for y, row in enumerate(self.rows):
            key, top = y * (2 * self.columns + 2), y * CELL + TITLE
            parts.append(Part(key, _words(self._names[y]), 4, top + 22))
            if row is None:
                parts.append(Part(key + 1, _words("closed"), labels + 4, top + 22))
                continue
            for x in range(self.columns):
                place = labels + x * CELL + 3, top + 3
                state, event = self._look(y, x, row[x]) if x < len(row) else ("free", "")
                parts.append(Part(key + 1 + 2 * x, cell_box(state, event, CELL - 6), *place))
                if x < len(row):
                    parts.append(Part(key + 2 + 2 * x, _slot(str(row[x]), state == "free"), *place))
        return parts

    def svg(self, title: str) -> str:
        """The whole picture: title, rows and legend."""
        labels = max([LABEL, *(8 * len(name) + 12 for name in self._names)])
        width = max(labels + self.columns * CELL + 4, 8 * len(title) + 12)
        foot = TITLE + len(self.rows) * CELL
        legend, high = legend_svg(self.words, width)
        below = f'<g transform="translate(0 {foot})">{legend}</g>' if legend else ""
        return Paper(width, foot + high + 6, below).svg([title_part(-1, title), *self.parts(labels)])


@cache
def _slot(text: str, free: bool) -> Drawing:
    ink = "" if free else f' fill="{INK}"'
    return Drawing(f'<text x="{(CELL - 6) // 2}" y="{CELL // 2 + 6}" font-size="12"{ink}>{markup(text)}</text>')


@lru_cache(maxsize=4096)
def _words(text: str) -> Drawing:
    return Drawing(f'<text text-anchor="start">{markup(text)}</text>')


def title_part(key: int, title: str) -> Part:
    """The line above a grid."""
    return Part(key, Drawing(f'<text text-anchor="start" font-weight="bold">{markup(title)}</text>'), 4, 15)
