"""Pools, page tables and other rows of slots as cells: each says what it is and whose, by shape, word and color.

A cell is a dashed square when free, a square when the tree has it, a double one when a lock protects it, and a round
one when it is in hand. What just happened to it is a border and a letter in its corner (`looks.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from minikv.course.pictures.looks import LETTERS, box_path, text_legend, with_legend
from minikv.course.pictures.svg import Drawing, Paper, Part, markup, words_drawing
from minikv.errors import bounded
from minikv.palette import INK, STATES
from minikv.testing.snapshot import plain

TOP, MOST_CELLS = 26, 512
TEXT_COLUMNS, MOST_COLUMNS = 16, 24  # of a line of text, and of a row of a picture
_SIDE, _TITLE, _LABEL = 36, 22, 58  # of a table
_ORDER = ("locked", "matched", "new", "evicted")
_BOLD = 'font-weight="bold"'


class Cell(NamedTuple):
    """One id of a pool: its `state`, the `name` of its owner, and the `event` that just happened to it."""

    state: str
    name: str = ""
    event: str = ""


class Pool(NamedTuple):
    """The cells of a pool below its `heading`: 8 in a row of the picture or, of many, 16 smaller ones.

    >>> pool = Pool("pool: 1 of 3 free", [Cell("free"), Cell("cached", "n1"), Cell("in hand", "r1", "taken")])
    >>> print(pool.text)
    pool: 1 of 3 free
     0  .c+    . free  c cached  + taken
    >>> pool.grid, sorted(pool.words)
    ({'cell': 44, 'columns': 8, 'top': 26, 'count': 3}, ['cached', 'free', 'in hand', 'taken'])
    """

    heading: str
    cells: Sequence[Cell]

    @property
    def grid(self) -> dict[str, int]:
        """Where the cells are: the side of one with the gap to the next, cells in a row, the top, and how many."""
        cell, columns = (44, 8) if len(self.cells) <= 64 else (32, 16)
        return {"cell": cell, "columns": columns, "top": TOP, "count": len(self.cells)}

    @property
    def extent(self) -> tuple[int, int]:
        """How many rows of cells there are, and how many cells are in one."""
        columns = self.grid["columns"]
        return -(-len(self.cells) // columns), columns

    @property
    def words(self) -> set[str]:
        """The states and events that the cells show."""
        return {word for cell in self.cells for word in (cell.state, cell.event) if word}

    @property
    def text(self) -> str:
        """The text twin: the letter of each cell's state or of what just happened to it; 16 per line."""
        shown = [cell.event or cell.state for cell in self.cells]
        letters, width = "".join(LETTERS[word] for word in shown), len(str(len(shown) - 1)) + 1
        starts = range(0, len(shown), TEXT_COLUMNS)
        lines = [f"{start:>{width}}  {letters[start : start + TEXT_COLUMNS]}" for start in starts]
        return "\n".join([self.heading, *lines]) + f"    {text_legend(shown)}"

    def paper(self, lines: int, columns: int) -> Paper:
        """The paper for so many rows of so many cells."""
        side = self.grid["cell"]
        return Paper(max(columns * side + 8, 352), TOP + lines * side + 8)

    def parts(self, lines: int, columns: int) -> list[Part]:
        """The heading, and each cell as a box, a number and a name: few boxes differ, and few names."""
        step, parts = self.grid["cell"], [Part(-1, words_drawing(self.heading, "14", bold=True), 4, 17)]
        for i, (state, name, event) in enumerate(self.cells):
            side, corner = step - 6, (i % columns * step + 6, i // columns * step + TOP + 2)
            parts.append(Part(3 * i, cell_box(state, event, side), *corner))
            parts.append(Part(3 * i + 1, _number(i, state == "free", side), *corner))
            if name:
                parts.append(Part(3 * i + 2, _name(name, side, state == "free"), *corner))
        return parts


def pool_heading(name: str, free: Sequence[int]) -> str:
    """The line above the cells of a pool, by what is 1 for each free page.

    >>> pool_heading("pool", [1, 0, 1])
    'pool: 2 of 3 free'
    """
    more = f" (the first {MOST_CELLS} shown)" if len(free) > MOST_CELLS else ""
    return f"{name}: {sum(free)} of {len(free)} free{more}"


@cache
def cell_box(state: str, event: str, side: int) -> Drawing:
    """A cell without number and name: double when locked, with a letter in its corner for what just happened."""
    svg = box_path(state, side, event)
    size, right = (13, 9) if side > 32 else (10, 7)
    if event:
        ink = _ink(state == "free" and event != "evicted")
        svg += f'<text x="{side - right}" y="{size}" font-size="{size}" {_BOLD}{ink}>{LETTERS[event]}</text>'
    return Drawing(svg)


def _ink(on_paper: bool) -> str:
    """Words on a filled cell are dark on any page; words on the page itself have the page's ink."""
    return "" if on_paper else f' fill="{INK}"'


@cache
def _number(i: int, free: bool, side: int) -> Drawing:
    x, y, size = (6, 12, 9.5) if side > 30 else (4, 9, 7.5)
    return Drawing(f'<text x="{x - 1}" y="{y}" font-size="{size}" text-anchor="start"{_ink(free)}>{i}</text>')


@cache
def _name(name: str, side: int, free: bool) -> Drawing:
    size, base = (12.0, 8) if side > 30 else (9.0, 4)
    size = min(size, 1.6 * (side - 4) / max(len(name), 1))
    where = f'x="{side // 2}" y="{side - base}" font-size="{size:.3g}"'
    return Drawing(f"<text {where} {_BOLD}{_ink(free)}>{markup(name)}</text>")


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
        return Paper(max(_LABEL + columns * _SIDE + 4, 8 * len(self.heading) + 130), _TITLE + lines * _SIDE + 8)

    def parts(self, lines: int, columns: int) -> list[Part]:
        """The title, and the cells below it; a key is the row times the parts of a row, plus the column."""
        parts = [Part(-1, words_drawing(self.heading, bold=True), 4, 15)]
        for y, row in enumerate(self.rows):
            key, top = y * (2 * columns + 2), y * _SIDE + _TITLE
            parts.append(Part(key, words_drawing(f"row {y}"), 4, top + 22))
            if row is None:
                parts.append(Part(key + 1, words_drawing("closed"), _LABEL + 4, top + 22))
                continue
            empty = [(None, "free", "")] * columns
            for x, (slot, state, event) in enumerate([*self._cells(y), *empty][:columns]):
                place = _LABEL + x * _SIDE + 3, top + 3
                parts.append(Part(key + 1 + 2 * x, cell_box(state, event, _SIDE - 6), *place))
                if slot is not None:
                    parts.append(Part(key + 2 + 2 * x, _slot(str(slot), state == "free"), *place))
        return parts

    def svg(self) -> str:
        """The whole picture: title, rows and legend."""
        width = max(_LABEL + self.columns * _SIDE + 4, 8 * len(self.heading) + 12)
        paper = Paper(width, _TITLE + len(self.rows) * _SIDE)
        return with_legend(paper, self.words, self.parts(*self.extent), 6)


def _word(slot: int, state: str, event: str) -> str:
    return f"{slot}{LETTERS[event] if event else '' if state == 'in hand' else LETTERS[state]}"


@cache
def _slot(text: str, free: bool) -> Drawing:
    where = f'x="{(_SIDE - 6) // 2}" y="{_SIDE // 2 + 6}"'
    return Drawing(f'<text {where} font-size="12"{_ink(free)}>{markup(text)}</text>')
