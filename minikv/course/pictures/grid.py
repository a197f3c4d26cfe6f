"""Page tables, and other rows of slots, as grids of cells, in SVG and in text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Table:
    """Rows of slots, of which so many `columns` are shown; `marks` is by slot, or by (row, column) for one cell.

    `states` says what a slot is where it is known; else a slot in a row is in hand. A row that is `None` is closed.

    >>> print(Table("PageTable", ((8, 9), None), 3, {9: "new"}).text)
    PageTable: 1 of 2 rows open
    row 0   8 9n  -
    row 1  (closed)
    h in hand  n new
    """

    title: str
    rows: Sequence[Sequence[int] | None]
    columns: int
    marks: Mapping[Any, str] = field(default_factory=dict)
    states: Mapping[int, str] = field(default_factory=dict)

    @property
    def extent(self) -> tuple[int, int]:
        """How many rows there are, and how many cells of a row are shown."""
        return len(self.rows), self.columns

    @property
    def heading(self) -> str:
        """The line above the rows."""
        longest = max([0, *(len(row) for row in self.rows if row is not None)])
        more = f", the first {self.columns} tokens" if longest > self.columns else ""
        return f"{self.title}: {sum(row is not None for row in self.rows)} of {len(self.rows)} rows open{more}"

    def _cells(self, y: int) -> list[tuple[int, str, str]]:
        """The slot, the state and the event of each cell of a row."""
        cells = []
        for x, slot in enumerate((self.rows[y] or ())[: self.columns]):
            mark = self.marks.get((y, x), self.marks.get(slot, ""))
            is_state = mark in STATES
            cells.append((slot, mark if is_state else self.states.get(slot, "in hand"), "" if is_state else mark))
        return cells

    @property
    def words(self) -> set[str]:
        """The states and events that the cells show."""
        return {word for y in range(len(self.rows)) for _, *shown in self._cells(y) for word in shown if word}

    @property
    def text(self) -> str:
        """A line for each row, `-` in a cell that is not used; a slot has the letter of what it is or of its mark."""
        words = [[_word(*cell) for cell in self._cells(y)] for y in range(len(self.rows))]
        width = max([2, *(len(word) for row in words for word in row)])
        name, lines = len(f"row {len(self.rows) - 1}"), [self.heading]
        for y, row in enumerate(words):
            shown = "".join(f" {word:>{width}}" for word in row + ["-"] * (self.columns - len(row)))
            lines.append(f"{f'row {y}':<{name}} {' (closed)' if self.rows[y] is None else shown}")
        legend = text_legend(self.words)
        return "\n".join(lines + ([legend] if legend else []))

    def paper(self, lines: int, columns: int) -> Paper:
        """The paper for so many rows of so many cells, with the longest heading."""
        return Paper(max(LABEL + columns * CELL + 4, 8 * len(self.heading) + 130), TITLE + lines * CELL + 8)

    def parts(self, lines: int, columns: int) -> list[Part]:
        """The title, and the cells below it; a key is the row times the parts of a row, plus the column."""
        parts = [title_part(-1, self.heading)]
        for y, row in enumerate(self.rows):
            key, top = y * (2 * columns + 2), y * CELL + TITLE
            parts.append(Part(key, _words(f"row {y}"), 4, top + 22))
            if row is None:
                parts.append(Part(key + 1, _words("closed"), LABEL + 4, top + 22))
                continue
            empty = [(None, "free", "")] * columns
            for x, (slot, state, event) in enumerate([*self._cells(y), *empty][:columns]):
                place = LABEL + x * CELL + 3, top + 3
                parts.append(Part(key + 1 + 2 * x, cell_box(state, event, CELL - 6), *place))
                if slot is not None:
                    parts.append(Part(key + 2 + 2 * x, _slot(str(slot), state == "free"), *place))
        return parts

    def svg(self) -> str:
        """The whole picture: title, rows and legend."""
        width = max(LABEL + self.columns * CELL + 4, 8 * len(self.heading) + 12)
        foot = TITLE + len(self.rows) * CELL
        legend, high = legend_svg(self.words, width)
        below = f'<g transform="translate(0 {foot})">{legend}</g>' if legend else ""
        return Paper(width, foot + high + 6, below).svg(self.parts(*self.extent))


def _word(slot: int, state: str, event: str) -> str:
    return f"{slot}{LETTERS[event] if event else '' if state == 'in hand' else LETTERS[state]}"


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
