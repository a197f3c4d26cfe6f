"""The pool in a film: each cell says whose it is, by its shape and a word as well as by its colour.

A cell is a dashed square when free, a square with its node's name when the tree has it, a round one with the
request's name when it is in hand. What just happened to it is a heavier border and a sign in its corner.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from minikv.show.dot import LOOKS
from minikv.show.film_state import PoolState, State
from minikv.show.render import FONTS

CELL, TOP, FOOT, MOST_CELLS = 40, 26, 46, 512
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


def cells_of(pool: PoolState, before: PoolState | None, state: State, was: State, path: set[int]) -> list[Cell]:
    """The cells of a pool in one frame; `path` are the nodes that a match or an insertion went along."""
    owners, held, old = state.owners, state.holders, was.owners
    cells = []
    for i, free in enumerate(pool.free):
        slots = range(i * pool.page_size, (i + 1) * pool.page_size)
        key = next((owners[slot] for slot in slots if slot in owners), None)
        sign = ""
        if before is not None and before.free[i] != free:
            sign = "freed" if free else "taken"
        elif (key is None) != (not any(slot in old for slot in slots)):
            sign = "evicted" if key is None else "new"
        elif key in path:
            sign = "matched"
        if free:
            cells.append(Cell("free", "", sign))
        elif key is not None:
            cells.append(Cell("tree", f"n{key}", sign, bool(state.nodes[key].ref_count)))
        else:
            cells.append(Cell("request", next((held[slot] for slot in slots if slot in held), "req"), sign))
    return cells


def pool_columns(size: int) -> int:
    """How many cells a row of the picture has.

    >>> pool_columns(12), pool_columns(64), pool_columns(300)
    (8, 8, 16)
    """
    return 8 if size <= 64 else 16


def cells_text(title: str, cells: list[Cell]) -> str:
    """The text twin: `.` free, `t` in the tree, `r` in hand, or the sign of what just happened; 16 a line.

    >>> print(cells_text("pool", [Cell("free"), Cell("tree", "n1"), Cell("request", "req", "taken")]))
    pool: 1 of 3 free
     0  .t+    . free  t tree  + taken
    """
    shown = cells[:MOST_CELLS]
    width, lines = len(str(len(shown) - 1)), []
    for start in range(0, len(shown), TEXT_COLUMNS):
        row = shown[start : start + TEXT_COLUMNS]
        letters = "".join(SIGNS[cell.sign] if cell.sign else OWNERS[cell.owner][0] for cell in row)
        lines.append(f"{start:>{width + 1}}  {letters}")
    there = {cell.owner for cell in shown if not cell.sign}
    legend = [f"{letter} {word}" for owner, (letter, word) in OWNERS.items() if owner in there]
    legend += [f"{sign} {word}" for word, sign in SIGNS.items() if word in {cell.sign for cell in shown}]
    lines[-1] += "    " + "  ".join(legend)
    more = [f"… {len(cells)} in all"] if len(cells) > MOST_CELLS else []
    return "\n".join([title_of(title, cells), *lines, *more])


def title_of(title: str, cells: list[Cell]) -> str:
    """The line above a pool."""
    return f"{title}: {sum(cell.owner == 'free' for cell in cells)} of {len(cells)} free"


def pool_size_of(cells: int) -> tuple[int, int]:
    """Width and height of a pool's picture with so many cells.

    >>> pool_size_of(16)
    (328, 160)
    """
    columns, shown = pool_columns(cells), min(cells, MOST_CELLS)
    return columns * CELL + 8, TOP + -(-shown // columns) * CELL + FOOT + 8


def cells_svg(title: str, cells: list[Cell]) -> str:
    """What changes from frame to frame: a path for all cells that look alike, and the names in them."""
    shown, columns = cells[:MOST_CELLS], pool_columns(len(cells))
    paths: dict[str, list[str]] = {}
    words = []
    for i, cell in enumerate(shown):
        x, y = _corner(i, columns)
        paths.setdefault(_style(cell), []).append(_outline(cell, x, y))
        if cell.locked:
            paths.setdefault('fill="none" stroke="#664d03"', []).append(_box(x + 3, y + 3, CELL - 12))
        if cell.name:
            words.append(f'<text x="{x + 17}" y="{y + 27}">{escape(cell.name)}</text>')
        if cell.sign:
            words.append(f'<text x="{x + 27}" y="{y + 12}" class="sign">{SIGNS[cell.sign]}</text>')
    drawn = "".join(f'<path {style} d="{"".join(parts)}"/>' for style, parts in sorted(paths.items()))
    more = f" (the first {MOST_CELLS} shown)" if len(cells) > MOST_CELLS else ""
    head = f'<text x="4" y="17" font-size="14" font-weight="bold">{escape(title_of(title, cells) + more)}</text>'
    return f'{head}{drawn}<g text-anchor="middle" font-size="12" font-weight="bold">{"".join(words)}</g>'


def numbers_svg(count: int) -> str:
    """What stays: the number of each cell and the legend."""
    shown, columns = min(count, MOST_CELLS), pool_columns(count)
    numbers = []
    for i in range(shown):
        x, y = _corner(i, columns)
        numbers.append(f'<text x="{x + 3}" y="{y + 11}">{i}</text>')
    foot = TOP + -(-shown // columns) * CELL + 4
    legend, at = [], 4
    for owner, (_, word) in OWNERS.items():
        cell = Cell(owner)
        legend.append(f'<path {_style(cell)} d="{_outline(cell, at, foot, 14)}"/>')
        legend.append(f'<text x="{at + 20}" y="{foot + 12}">{word}</text>')
        at += 28 + 8 * len(word)
    legend.append(f'<text x="{at}" y="{foot + 12}">▣ locked</text>')
    signs = "  ".join(f"{sign} {word}" for word, sign in SIGNS.items())
    legend.append(f'<text x="4" y="{foot + 32}" xml:space="preserve">{signs}</text>')
    return (
        f'<g font-size="9" fill="#495057">{"".join(numbers)}</g><g font-size="11" fill="#212529">{"".join(legend)}</g>'
    )


def pool_picture(inside: str, count: int) -> str:
    """The layers of a pool as one SVG."""
    width, height = pool_size_of(count)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'{head} font-family="{FONTS}">{inside}</svg>'


def _corner(i: int, columns: int) -> tuple[int, int]:
    return i % columns * CELL + 7, i // columns * CELL + TOP + 3


def _style(cell: Cell) -> str:
    look = {**_LOOK[cell.owner], **({"fillcolor": LOOKS["locked"]["fillcolor"]} if cell.locked else {})}
    look |= _LOOK.get(cell.sign) or {
        k: LOOKS[cell.sign][k] for k in ("fillcolor", "color", "penwidth") if cell.sign and k in LOOKS[cell.sign]
    }
    dash = ' stroke-dasharray="4 3"' if cell.owner == "free" or cell.sign == "evicted" else ""
    return f'fill="{look["fillcolor"]}" stroke="{look["color"]}" stroke-width="{look.get("penwidth", "1")}"{dash}'


def _outline(cell: Cell, x: int, y: int, size: int = CELL - 6) -> str:
    """A square, or a round one for what is in hand."""
    if cell.owner != "request":
        return _box(x, y, size)
    r, side = size // 3, size - 2 * (size // 3)
    turns = ((r, r), (-r, r), (-r, -r), (r, -r))
    arcs = [f"a{r} {r} 0 0 1 {dx} {dy}" for dx, dy in turns]
    return f"M{x + r} {y}h{side}{arcs[0]}v{side}{arcs[1]}h-{side}{arcs[2]}v-{side}{arcs[3]}z"


def _box(x: int, y: int, size: int) -> str:
    return f"M{x} {y}h{size}v{size}h-{size}z"
