"""Pools and page tables as grids of cells, in SVG and in text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from minikv.course.pictures.parts import Drawing, Paper, Part
from minikv.course.pictures.svg import markup
from minikv.course.pictures.tree import LOOKS, attributes
from minikv.errors import bounded
from minikv.testing.snapshot import MARKS, plain

CELL, COLUMNS, TITLE = 34, 16, 22
_LETTER = {"matched": "m", "locked": "l", "new": "n", "split": "s", "joined": "j", "evicted": "e"}


def marks_of(marked: Mapping[str, Any]) -> dict[int, str]:
    """For each page or slot the mark that it is shown with: of several, the first of evicted, new, matched, locked.

    >>> marks_of({"locked": [1, 2], "new": [2]})
    {1: 'locked', 2: 'new'}
    """
    found: dict[int, str] = {}
    for mark in [m for m in ("locked", "matched", "new", "evicted") if marked.get(m) is not None]:
        for number in plain(marked[mark]):
            if not hasattr(number, "__index__"):
                raise TypeError(f"{mark} has {bounded(number)}: expected the numbers of pages or slots")
            found[int(number)] = mark
    return found


def pool_text(free: list[bool], marks: Mapping[int, str]) -> str:
    """The text twin of a pool: a row of 16 pages a line, `.` free, `#` in use, or the letter of its mark.

    >>> print(pool_text([False, False, True], {1: "new"}))
     0  #n.    # in use  . free  n new
    """
    width = len(str(len(free) - 1))
    rows = []
    for start in range(0, len(free), COLUMNS):
        cells = [
            _LETTER.get(marks.get(i, ""), "." if free[i] else "#")
            for i in range(start, min(start + COLUMNS, len(free)))
        ]
        rows.append(f"{start:>{width + 1}}  {''.join(cells)}")
    legend = "  ".join(["# in use", ". free", *(f"{_LETTER[m]} {m}" for m in MARKS if m in marks.values())])
    rows[-1] += f"    {legend}"
    return "\n".join(rows)


def pool_svg(free: list[bool], marks: Mapping[int, str], title: str) -> str:
    """A pool as numbered cells: free ones are white with a thin border, those in use are grey, marked ones say so."""
    parts = [
        Part(i, cell_drawing(str(i), marks.get(i), not is_free), i % COLUMNS * CELL, i // COLUMNS * CELL + TITLE)
        for i, is_free in enumerate(free)
    ]
    rows = -(-len(free) // COLUMNS)
    legend = _legend(["free", "in use", *(mark for mark in MARKS if mark in marks.values())])
    return _grid_svg(parts, legend, min(len(free), COLUMNS), rows, title)


def table_text(rows: list[list[int] | None], columns: int, marks: Mapping[Any, str]) -> str:
    """The text twin of a page table: a line for each row, `-` in a cell that is not used.

    `marks` is by slot, or by (row, column) for one cell.

    >>> print(table_text([[8, 9], None], 3, {9: "new"}))
    row 0   8 9n  -
    row 1  (closed)
    n new
    """
    words = [
        [f"{s}{_LETTER.get(_mark(marks, y, x, s), '')}" for x, s in enumerate(row or [])] for y, row in enumerate(rows)
    ]
    width = max([2, *(len(word) for row in words for word in row)])
    name = len(str(len(rows) - 1))
    lines = []
    for i, row in enumerate(rows):
        cells = (
            " (closed)"
            if row is None
            else "".join(f" {w:>{width}}" for w in [*words[i], *["-"] * (columns - len(row))])
        )
        lines.append(f"row {i:>{name}} {cells}")
    legend = "  ".join(f"{_LETTER[mark]} {mark}" for mark in MARKS if mark in marks.values())
    return "\n".join(lines + ([legend] if legend else []))


def _mark(marks: Mapping[Any, str], row: int, column: int, slot: int) -> str:
    return marks.get((row, column), marks.get(slot, ""))


def table_svg(rows: list[list[int] | None], columns: int, marks: Mapping[Any, str], title: str) -> str:
    """A page table: a line of cells for each row, with its slots; empty cells are dashed."""
    legend = _legend([mark for mark in MARKS if mark in marks.values()])
    return _grid_svg(table_parts(rows, columns, marks), legend, columns + 1, len(rows), title)


def table_parts(rows: list[list[int] | None], columns: int, marks: Mapping[Any, str]) -> list[Part]:
    """The cells of a page table below its title; a key is the row times the parts of a row, plus the column.

    >>> [part.key for part in table_parts([[8], None], 2, {})]
    [0, 1, 2, 4, 5]
    """
    parts = []
    for y, row in enumerate(rows):
        key, top = y * (columns + 2), y * CELL + TITLE
        parts.append(Part(key, _words(str(y), bold=True), CELL // 2, top + 22))
        if row is None:
            parts.append(Part(key + 1, _words("closed"), CELL + 28, top + 22))
            continue
        for x in range(columns):
            slot = row[x] if x < len(row) else None
            words, mark = ("", None) if slot is None else (str(slot), _mark(marks, y, x, slot) or None)
            parts.append(Part(key + 1 + x, cell_drawing(words, mark, slot is not None), (x + 1) * CELL, top))
    return parts


@lru_cache(maxsize=4096)
def cell_drawing(text: str, mark: str | None, used: bool) -> Drawing:
    """A cell: grey with a firm border when it is used, white and dashed when not; a mark has a letter in its corner."""
    look = {"fill": "#dee2e6" if used else "#ffffff", "stroke": "#495057" if used else "#adb5bd", "stroke-width": "1"}
    look |= LOOKS.get(mark or "", {}) | ({"stroke-width": "3" if mark == "new" else "2"} if mark else {})
    look |= {"stroke-dasharray": "4 2"} if not used or mark == "evicted" else {}
    size = CELL - 6
    svg = f'<path {attributes(look)} d="M3 3h{size}v{size}h-{size}z"/>'
    svg += f'<text x="{3 + size // 2}" y="21" font-size="11">{markup(text)}</text>' if text else ""
    svg += f'<text x="{size - 1}" y="11" font-size="8">{_LETTER[mark]}</text>' if mark else ""
    return Drawing(svg)


def _words(text: str, bold: bool = False) -> Drawing:
    return Drawing(f"<text{' font-weight=' + chr(34) + 'bold' + chr(34) if bold else ''}>{markup(text)}</text>")


def title_part(key: int, title: str) -> Part:
    """The line above a grid."""
    return Part(key, Drawing(f'<text text-anchor="start">{markup(title)}</text>'), 4, 15)


def legend_drawing(names: tuple[str, ...]) -> Drawing:
    """The line that explains the cells: "free", "in use" and marks, each with a cell of its look."""
    return Drawing(_legend(names)[0])


def _legend(names: Sequence[str]) -> tuple[str, int]:
    """The line that explains the cells, and how wide it is."""
    cells, x = [], 0
    for name in names:
        mark = name if name in LOOKS else None
        cells.append(f'<g transform="translate({x} 4)">{cell_drawing("", mark, name != "free").svg}</g>')
        cells.append(f'<text x="{x + CELL}" y="26" font-size="12" text-anchor="start">{name}</text>')
        x += CELL + 8 * len(name) + 12
    return "".join(cells), x


def _grid_svg(parts: list[Part], legend: tuple[str, int], columns: int, rows: int, title: str) -> str:
    words, wide = legend
    width = max(columns * CELL + 4, wide, 8 * len(title) + 12)
    height = TITLE + (rows + bool(wide)) * CELL + 8
    below = f'<g transform="translate(0 {TITLE + rows * CELL})">{words}</g>' if wide else ""
    return Paper(width, height, below).svg([title_part(-1, title), *parts])
