"""The pool in a film: each cell says whose it is, by its shape and a word as well as by its colour.

A cell is a dashed square when free, a square with its node's name when the tree has it, a round one with the
request's name when it is in hand. What just happened to it is a heavier border and a sign in its corner.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from minikv.course.film.changes import Changes
from minikv.course.film.state import PoolState, State
from minikv.course.pictures.dot import LOOKS
from minikv.course.pictures.svg import FONTS, markup

TOP, MOST_CELLS, IN_HAND = 26, 512, "hand"
TEXT_COLUMNS = 16
# What just happened: its sign, its word.
SIGNS = {"taken": "+", "freed": "−", "new": "n", "evicted": "e", "matched": "m"}
OWNERS = {"free": (".", "free"), "tree": ("t", "tree"), "request": ("r", "in hand")}
_LOOK = {
    "free": {"fillcolor": "#ffffff", "color": "#adb5bd"},
    "tree": {"fillcolor": "#e9ecef", "color": "#495057"},
    "request": {"fillcolor": "#ffe8cc", "color": "#994d00"},
    "taken": {"color": "#994d00", "penwidth": "3"},
    "freed": {"color": "#842029", "penwidth": "3"},
}


@dataclass(frozen=True)
class Cell:
    """One id of a pool: its `owner` (free, tree or request), the owner's `name`, what just happened, and a lock."""

    owner: str
    name: str = ""
    sign: str = ""
    locked: bool = False


_cell = cache(Cell)  # a long film has a few cells, over and over


def cells_of(
    pool: PoolState, before: PoolState, state: State, was: State, path: frozenset[int], changes: Changes
) -> list[Cell]:
    """The cells of a pool that a frame shows; `path` are the nodes that a match or an insertion went along.

    A free cell with a name is a mistake: the tree still has what the pool would hand out again.
    """
    owners, held, old, fresh = state.owners, state.holders, was.owners, _fresh(state, was, changes)
    cells = []
    for i, free in enumerate(pool.free[:MOST_CELLS]):
        slots = range(i * pool.page_size, (i + 1) * pool.page_size)
        key = next((owners[slot] for slot in slots if slot in owners), None)
        sign = ""
        if key is not None and not fresh.isdisjoint(slots):
            sign = "new"
        elif before.free[i] != free:
            sign = "freed" if free else "taken"
        elif key is None and any(slot in old for slot in slots):
            sign = "evicted"
        elif key in path:
            sign = "matched"
        if free:
            cells.append(_cell("free", "" if key is None else f"n{key}", sign))
        elif key is not None:
            cells.append(_cell("tree", f"n{key}", sign, bool(state.nodes[key].ref_count)))
        else:
            cells.append(_cell("request", next((held[slot] for slot in slots if slot in held), IN_HAND), sign))
    return cells


def _fresh(state: State, was: State, changes: Changes) -> set[int]:
    """The slots that came into the tree, or hold another token there than before."""
    old, nothing = was.contents, object()
    fresh = {slot for slot, token in state.contents.items() if old.get(slot, nothing) != token}
    return fresh.union(*(state.nodes[key].slots for key in changes.new if key in state.nodes))


@dataclass(frozen=True)
class Grid:
    """Where `count` cells stand in the picture of a pool; where there are many, they are smaller.

    >>> Grid(12).columns, Grid(100).columns, Grid(16).size
    (8, 16, (360, 168))
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
        """Where the legend begins."""
        return TOP + -(-self.count // self.columns) * self.cell + 4

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the picture."""
        return max(self.columns * self.cell + 8, 352), self.foot + 50

    def corner(self, i: int) -> tuple[int, int]:
        """The top left corner of cell `i`."""
        return i % self.columns * self.cell + 6, i // self.columns * self.cell + TOP + 2


def cells_text(heading: str, cells: list[Cell]) -> str:
    """The text twin: `.` free, `t` in the tree, `r` in hand, or the sign of what just happened; 16 a line.

    >>> print(cells_text("pool: 1 of 3 free", [Cell("free"), Cell("tree", "n1"), Cell("request", "hand", "taken")]))
    pool: 1 of 3 free
     0  .t+    . free  t tree  + taken
    """
    width, lines = len(str(len(cells) - 1)), []
    for start in range(0, len(cells), TEXT_COLUMNS):
        row = cells[start : start + TEXT_COLUMNS]
        letters = "".join(SIGNS[cell.sign] if cell.sign else OWNERS[cell.owner][0] for cell in row)
        lines.append(f"{start:>{width + 1}}  {letters}")
    there = {cell.owner for cell in cells if not cell.sign}
    legend = [f"{letter} {word}" for owner, (letter, word) in OWNERS.items() if owner in there]
    legend += [f"{sign} {word}" for word, sign in SIGNS.items() if word in {cell.sign for cell in cells}]
    lines[-1] += "    " + "  ".join(legend)
    return "\n".join([heading, *lines])


def heading_of(pool: PoolState) -> str:
    """The line above a pool."""
    more = f" (the first {MOST_CELLS} shown)" if len(pool.free) > MOST_CELLS else ""
    return f"{pool.title}: {sum(pool.free)} of {len(pool.free)} free{more}"


def cells_svg(heading: str, cells: list[Cell]) -> str:
    """What changes from frame to frame: a path for all cells that look alike, and the names in them."""
    grid, side = Grid(len(cells)), Grid(len(cells)).cell - 6
    size, right, base = (12, 9, 8) if side > 30 else (9, 6, 4)
    paths: dict[str, list[str]] = {}
    names, signs = [], []
    for i, cell in enumerate(cells):
        x, y = grid.corner(i)
        paths.setdefault(_style(cell), []).append(_outline(cell, x, y, side))
        if cell.locked:
            paths.setdefault('fill="none" stroke="#664d03"', []).append(_box(x + 3, y + 3, side - 6))
        if cell.name and (cell.name != IN_HAND or side > 30):  # in a small cell the round shape says it
            names.append(f'<text x="{x + side // 2}" y="{y + side - base}">{markup(cell.name)}</text>')
        if cell.sign:
            signs.append(f'<text x="{x + side - right}" y="{y + size + 1}">{SIGNS[cell.sign]}</text>')
    drawn = "".join(f'<path {style} d="{"".join(parts)}"/>' for style, parts in sorted(paths.items()))
    head = f'<text x="4" y="17" font-size="14" font-weight="bold">{markup(heading)}</text>'
    words = f'<g font-size="{size}">{"".join(names)}</g><g font-size="{size + 1}">{"".join(signs)}</g>'
    return f'{head}{drawn}<g text-anchor="middle" font-weight="bold">{words}</g>'


def numbers_svg(count: int) -> str:
    """What stays: the number of each cell and the legend."""
    grid = Grid(count)
    inset, down, size = (6, 13, 9.5) if grid.cell > 40 else (4, 9, 7)
    numbers = []
    for i in range(grid.count):
        x, y = grid.corner(i)
        numbers.append(f'<text x="{x + inset}" y="{y + down}">{i}</text>')
    return f'<g font-size="{size}" fill="#343a40">{"".join(numbers)}</g>{_legend(grid.foot)}'


def _legend(foot: int) -> str:
    parts, at = [], 6
    for owner, (_, word) in OWNERS.items():
        cell = Cell(owner)
        parts.append(f'<path {_style(cell)} d="{_outline(cell, at, foot, 14)}"/>')
        parts.append(f'<text x="{at + 20}" y="{foot + 12}">{word}</text>')
        at += 32 + 7 * len(word)
    locked = Cell("tree", locked=True)
    parts.append(f'<path {_style(locked)} d="{_outline(locked, at, foot, 14)}{_box(at + 3, foot + 3, 8)}"/>')
    parts.append(f'<text x="{at + 20}" y="{foot + 12}">locked</text>')
    at = 6
    for word, sign in SIGNS.items():
        parts.append(f'<text x="{at}" y="{foot + 34}"><tspan font-weight="bold">{sign}</tspan> {word}</text>')
        at += 28 + 7 * len(word)
    return f'<g font-size="11.5" fill="#212529">{"".join(parts)}</g>'


def pool_picture(inside: str, count: int) -> str:
    """The layers of a pool as one SVG."""
    width, height = Grid(count).size
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'{head} font-family="{FONTS}">{inside}</svg>'


def _style(cell: Cell) -> str:
    look = {**_LOOK[cell.owner], **({"fillcolor": LOOKS["locked"]["fillcolor"]} if cell.locked else {})}
    look |= _LOOK.get(cell.sign) or {
        k: LOOKS[cell.sign][k] for k in ("fillcolor", "color", "penwidth") if cell.sign and k in LOOKS[cell.sign]
    }
    dash = ' stroke-dasharray="4 3"' if cell.owner == "free" or cell.sign == "evicted" else ""
    return f'fill="{look["fillcolor"]}" stroke="{look["color"]}" stroke-width="{look.get("penwidth", "1")}"{dash}'


def _outline(cell: Cell, x: int, y: int, size: int) -> str:
    """A square, or a round one for what is in hand."""
    if cell.owner != "request":
        return _box(x, y, size)
    r = round(size * 0.36)
    side = size - 2 * r
    turns = ((r, r), (-r, r), (-r, -r), (r, -r))
    arcs = [f"a{r} {r} 0 0 1 {dx} {dy}" for dx, dy in turns]
    return f"M{x + r} {y}h{side}{arcs[0]}v{side}{arcs[1]}h-{side}{arcs[2]}v-{side}{arcs[3]}z"


def _box(x: int, y: int, size: int) -> str:
    return f"M{x} {y}h{size}v{size}h-{size}z"
