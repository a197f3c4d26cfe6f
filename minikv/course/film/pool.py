"""The pool in a film: each cell says whose it is, by its shape and a word as well as by its colour.

A cell is a dashed square when free, a square with its node's name when the tree has it, a round one with the
request's name when it is in hand. What just happened to it is a heavier border and a sign in its corner.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from minikv.course.film.changes import Changes
from minikv.course.film.state import PoolState, State
from minikv.course.pictures.parts import Drawing, Paper, Part
from minikv.course.pictures.svg import markup
from minikv.course.pictures.tree import LOOKS, attributes

TOP, MOST_CELLS, IN_HAND = 26, 512, "hand"
TEXT_COLUMNS = 16
# What just happened: its sign, its word.
SIGNS = {"taken": "+", "freed": "−", "new": "n", "evicted": "e", "matched": "m", "joined": "j"}
OWNERS = {"free": (".", "free"), "tree": ("t", "tree"), "request": ("r", "in hand")}
_BOLD = 'font-weight="bold"'
_LOOK = {
    "free": {"fill": "#ffffff", "stroke": "#adb5bd", "stroke-width": "1"},
    "tree": {"fill": "#e9ecef", "stroke": "#495057", "stroke-width": "1"},
    "request": {"fill": "#ffe8cc", "stroke": "#994d00", "stroke-width": "1"},
    "taken": {"stroke": "#994d00", "stroke-width": "3"},
    "freed": {"stroke": "#842029", "stroke-width": "3"},
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
    moved = {slot for slot in owners if old.get(slot) in changes.joined}
    cells = []
    for i, free in enumerate(pool.free[:MOST_CELLS]):
        slots = range(i * pool.page_size, (i + 1) * pool.page_size)
        key = next((owners[slot] for slot in slots if slot in owners), None)
        handed = ("freed" if free else "taken") if before.free[i] != free else ""
        if key is None:
            sign = handed or ("evicted" if any(slot in old for slot in slots) else "")
        elif not fresh.isdisjoint(slots):
            sign = "new"
        else:
            sign = handed or ("joined" if not moved.isdisjoint(slots) else "matched" if key in path else "")
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


def pool_paper(count: int) -> Paper:
    """The paper of a pool of so many cells: the number of each and the legend stand over it."""
    grid = Grid(count)
    inset, down, size = (6, 13, 9.5) if grid.cell > 40 else (4, 9, 7)
    corners = [grid.corner(i) for i in range(count)]
    numbers = "".join(f'<text x="{x + inset}" y="{y + down}">{i}</text>' for i, (x, y) in enumerate(corners))
    over = f'<g font-size="{size}" fill="#343a40" text-anchor="start">{numbers}</g>{_legend(grid.foot)}'
    return Paper(*grid.size, over)


def pool_parts(heading: str, cells: list[Cell]) -> list[Part]:
    """The heading, and each cell as a box and a name: few boxes differ, and few names."""
    grid = Grid(len(cells))
    parts = [Part(-1, Drawing(f'<text text-anchor="start" font-size="14" {_BOLD}>{markup(heading)}</text>'), 4, 17)]
    for i, cell in enumerate(cells):
        side = grid.cell - 6
        parts.append(Part(2 * i, _box(cell.owner, cell.sign, cell.locked, side), *grid.corner(i)))
        if cell.name and (cell.name != IN_HAND or side > 30):  # in a small cell the round shape says it
            parts.append(Part(2 * i + 1, _name(cell.name, side), *grid.corner(i)))
    return parts


@cache
def _box(owner: str, sign: str, locked: bool, side: int) -> Drawing:
    """A cell without its name: double when locked, with a sign in its corner for what just happened."""
    svg = f'<path {_style(owner, sign, locked)} d="{_outline(owner, side)}"/>'
    svg += f'<path fill="none" stroke="#664d03" d="{_square(3, side - 6)}"/>' if locked else ""
    size, right = (13, 9) if side > 30 else (10, 6)
    svg += f'<text x="{side - right}" y="{size}" font-size="{size}" {_BOLD}>{SIGNS[sign]}</text>' if sign else ""
    return Drawing(svg)


@cache
def _name(name: str, side: int) -> Drawing:
    size, base = (12, 8) if side > 30 else (9, 4)
    where = f'x="{side // 2}" y="{side - base}" font-size="{size}"'
    return Drawing(f"<text {where} {_BOLD}>{markup(name)}</text>")


def _legend(foot: int) -> str:
    parts, at = [], 6
    for owner, word, locked in [
        *((owner, word, False) for owner, (_, word) in OWNERS.items()),
        ("tree", "locked", True),
    ]:
        inner = _square(3, 8) if locked else ""
        box = f'<path {_style(owner, "", locked)} d="{_outline(owner, 14)}{inner}"/>'
        parts.append(f'<g transform="translate({at} {foot})">{box}<text x="20" y="12">{word}</text></g>')
        at += 32 + 7 * len(word)
    at = 6
    for word, sign in SIGNS.items():
        parts.append(f'<text x="{at}" y="{foot + 34}"><tspan {_BOLD}>{sign}</tspan> {word}</text>')
        at += 18 + 7 * len(word)
    return f'<g font-size="11.5" fill="#212529" text-anchor="start">{"".join(parts)}</g>'


def _style(owner: str, sign: str, locked: bool) -> str:
    look = _LOOK[owner] | ({"fill": LOOKS["locked"]["fill"]} if locked else {})
    look |= _LOOK.get(sign) or {k: v for k, v in LOOKS.get(sign, {}).items() if k != "stroke-dasharray"}
    return attributes(look | ({"stroke-dasharray": "4 3"} if owner == "free" or sign == "evicted" else {}))


def _outline(owner: str, side: int) -> str:
    """A square, or a round one for what is in hand."""
    if owner != "request":
        return _square(0, side)
    r = round(side * 0.36)
    straight = side - 2 * r
    arcs = [f"a{r} {r} 0 0 1 {dx} {dy}" for dx, dy in ((r, r), (-r, r), (-r, -r), (r, -r))]
    return f"M{r} 0h{straight}{arcs[0]}v{straight}{arcs[1]}h-{straight}{arcs[2]}v-{straight}{arcs[3]}z"


def _square(corner: int, side: int) -> str:
    return f"M{corner} {corner}h{side}v{side}h-{side}z"
