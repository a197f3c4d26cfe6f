"""Pools and page tables as grids of cells, in SVG and in text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minikv.course.pictures.dot import LOOKS
from minikv.course.pictures.svg import FONTS, markup
from minikv.testing.snapshot import MARKS, plain

CELL, COLUMNS, TITLE = 34, 16, 22
_LETTER = {"matched": "m", "locked": "l", "new": "n", "split": "s", "evicted": "e"}


def marks_of(marked: Mapping[str, Any]) -> dict[int, str]:
    """For each page or slot the mark that it is shown with: of several, the first of evicted, new, matched, locked.

    >>> marks_of({"locked": [1, 2], "new": [2]})
    {1: 'locked', 2: 'new'}
    """
    found: dict[int, str] = {}
    for mark in [m for m in ("locked", "matched", "new", "evicted") if marked.get(m) is not None]:
        found.update({int(number): mark for number in plain(marked[mark])})
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
    cells = [
        _cell(i % COLUMNS, i // COLUMNS, str(i), marks.get(i), "#ffffff" if free[i] else "#dee2e6", not free[i])
        for i in range(len(free))
    ]
    rows = -(-len(free) // COLUMNS)
    legend: list[tuple[str, str, str | None]] = [("free", "#ffffff", None), ("in use", "#dee2e6", None)]
    legend += [(mark, "", mark) for mark in MARKS if mark in marks.values()]
    return _frame(cells, _legend(legend, rows), min(len(free), COLUMNS), rows, title)


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
    cells = []
    for y, row in enumerate(rows):
        cells.append(f'<text x="{CELL * 0.5}" y="{y * CELL + 22}" text-anchor="middle" font-weight="bold">{y}</text>')
        if row is None:
            cells.append(f'<text x="{CELL + 4}" y="{y * CELL + 22}" fill="#495057">closed</text>')
            continue
        for x in range(columns):
            slot = row[x] if x < len(row) else None
            if slot is None:
                cells.append(_cell(x + 1, y, "", None, "#ffffff", False))
            else:
                cells.append(_cell(x + 1, y, str(slot), _mark(marks, y, x, slot) or None, "#dee2e6", True))
    legend = [(mark, "", mark) for mark in MARKS if mark in marks.values()]
    return _frame(cells, _legend(legend, len(rows)), columns + 1, len(rows), title)


def _cell(x: int, y: int, text: str, mark: str | None, fill: str, used: bool) -> str:
    look = LOOKS.get(mark or "", {})
    fill, line = look.get("fillcolor", fill), look.get("color", "#495057" if used else "#adb5bd")
    dash = ' stroke-dasharray="4 2"' if not used or mark == "evicted" else ""
    width = 3 if mark == "new" else 2 if mark else 1
    left, top, size = x * CELL + 3, y * CELL + 3, CELL - 6
    where = f'x="{left}" y="{top}" width="{size}" height="{size}"'
    box = f'<rect {where} fill="{fill}" stroke="{line}" stroke-width="{width}"{dash}/>'
    label = f'<text x="{left + size / 2}" y="{top + 18}" text-anchor="middle" font-size="11">{markup(text)}</text>'
    sign = (
        f'<text x="{left + size - 1}" y="{top + 8}" text-anchor="end" font-size="8">{_LETTER[mark]}</text>'
        if mark
        else ""
    )
    return box + label + sign


def _legend(entries: Sequence[tuple[str, str, str | None]], row: int) -> tuple[str, int]:
    """The line that explains the cells, below `row` lines of them, and how wide it is."""
    cells, x = [], 0
    for name, fill, mark in entries:
        cells.append(f'<g transform="translate({x} 4)">{_cell(0, row, "", mark, fill, name != "free")}</g>')
        cells.append(f'<text x="{x + CELL}" y="{row * CELL + 26}" font-size="12">{name}</text>')
        x += CELL + 8 * len(name) + 12
    return "".join(cells), x


def _frame(cells: list[str], legend: tuple[str, int], columns: int, rows: int, title: str) -> str:
    width = max(columns * CELL + 4, legend[1], 8 * len(title) + 12)
    height = TITLE + (rows + bool(legend[1])) * CELL + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="{FONTS}" font-size="13" role="img"><title>{markup(title)}</title>'
        f'<text x="4" y="15">{markup(title)}</text>'
        f'<g transform="translate(0 {TITLE})">{"".join(cells)}{legend[0]}</g></svg>'
    )
