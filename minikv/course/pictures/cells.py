"""A pool as a grid of cells: each says what it is and whose, by its shape and a word as well as by its colour.

A cell is a dashed square when free, a square when the tree has it, a double one when a lock protects it, and a round
one when it is in hand. What just happened to it is a border and a letter in its corner (`looks.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from minikv.course.pictures.legend import outline, square
from minikv.course.pictures.looks import LETTERS, style, text_legend
from minikv.course.pictures.parts import Drawing, Paper, Part
from minikv.course.pictures.svg import markup
from minikv.palette import INK, STATES

TOP, MOST_CELLS = 26, 512
TEXT_COLUMNS = 16
_BOLD = 'font-weight="bold"'


@dataclass(frozen=True)
class Cell:
    """One id of a pool: its `state`, the `name` of its owner, and the `event` that just happened to it."""

    state: str
    name: str = ""
    event: str = ""


@dataclass(frozen=True)
class Grid:
    """Where `count` cells stand in the picture of a pool; where there are many, they are smaller.

    >>> Grid(12).columns, Grid(100).columns, Grid(16).size
    (8, 16, (360, 122))
    """

    count: int

    @property
    def columns(self) -> int:
        """Cells in a row."""
        return 8 if self.count <= 64 else 16

    @property
    def cell(self) -> int:
        """The side of a cell, with the gap to the next one."""
        return 44 if self.count <= 64 else 32

    @property
    def foot(self) -> int:
        """Where the last row ends."""
        return TOP + -(-self.count // self.columns) * self.cell + 4

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture."""
        return max(self.columns * self.cell + 8, 352), self.foot + 4

    def corner(self, i: int) -> tuple[int, int]:
        """The top left corner of cell `i`."""
        return i % self.columns * self.cell + 6, i // self.columns * self.cell + TOP + 2


def cells_text(heading: str, cells: list[Cell]) -> str:
    """The text twin: the letter of each cell's state or of what just happened to it; 16 a line.

    >>> print(cells_text("pool: 1 of 3 free", [Cell("free"), Cell("cached", "n1"), Cell("in hand", "r1", "taken")]))
    pool: 1 of 3 free
     0  .c+    . free  c cached  + taken
    """
    width, lines = len(str(len(cells) - 1)), []
    for start in range(0, len(cells), TEXT_COLUMNS):
        row = cells[start : start + TEXT_COLUMNS]
        letters = "".join(LETTERS[cell.event or cell.state] for cell in row)
        lines.append(f"{start:>{width + 1}}  {letters}")
    lines[-1] += "    " + text_legend(cell.event or cell.state for cell in cells)
    return "\n".join([heading, *lines])


def words_of(cells: Iterable[Cell]) -> set[str]:
    """The states and events that some cells show.

    >>> sorted(words_of([Cell("free"), Cell("cached", "n1", "new")]))
    ['cached', 'free', 'new']
    """
    return {word for cell in cells for word in (cell.state, cell.event) if word}


def pool_paper(count: int) -> Paper:
    """The paper of a pool of so many cells."""
    return Paper(*Grid(count).size)


def pool_parts(heading: str, cells: list[Cell]) -> list[Part]:
    """The heading, and each cell as a box, a number and a name: few boxes differ, and few names."""
    grid = Grid(len(cells))
    side, parts = grid.cell - 6, [Part(-1, heading_drawing(heading), 4, 17)]
    for i, cell in enumerate(cells):
        corner = grid.corner(i)
        parts.append(Part(3 * i, cell_box(cell.state, cell.event, side), *corner))
        parts.append(Part(3 * i + 1, _number(i, cell.state == "free", side), *corner))
        if cell.name:
            parts.append(Part(3 * i + 2, _name(cell.name, side, cell.state == "free"), *corner))
    return parts


def heading_drawing(words: str) -> Drawing:
    """The line above a pool, or above the requests."""
    return Drawing(f'<text text-anchor="start" font-size="14" {_BOLD}>{markup(words)}</text>')


@cache
def cell_box(state: str, event: str, side: int) -> Drawing:
    """A cell without number and name: double when locked, with a letter in its corner for what just happened."""
    svg = f'<path {style(state, event)} d="{outline(state, side)}"/>'
    svg += f'<path fill="none" stroke="{STATES["locked"].line}" d="{square(3, side - 6)}"/>' * (state == "locked")
    size, right = (13, 9) if side > 32 else (10, 7)
    if event:
        ink = _ink(state == "free" and event != "evicted")
        svg += f'<text x="{side - right}" y="{size}" font-size="{size}" {_BOLD}{ink}>{LETTERS[event]}</text>'
    return Drawing(svg)


def _ink(on_paper: bool) -> str:
    """What stands on a filled cell is dark on any page; what stands on the page itself has the page's ink."""
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
