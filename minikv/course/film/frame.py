"""One frame of a film: an operation, everything as it was after it, and what it changed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

from minikv.course.film.events import Delta, NumberedEvent, told
from minikv.course.film.rows import Requests, Rows
from minikv.course.film.state import State
from minikv.course.pictures.cells import TOP, Cell, Grid, cells_text, pool_paper, pool_parts, words_of
from minikv.course.pictures.legend import legend_svg
from minikv.course.pictures.looks import SIZES, size_words, sorted_words, style
from minikv.course.pictures.parts import Drawing, Paper, Part
from minikv.course.pictures.picture import Picture
from minikv.course.pictures.svg import FONTS, canvas, markup, place, svg_size, words_svg
from minikv.course.pictures.tree import tree_parts
from minikv.palette import STATES
from minikv.testing.snapshot import NodeView, tree_text

GAP, LINE, BROAD = 24, 22, 1000
MOST_INNER, MOST_NODES = 12, 400
_FONT = f'font-family="{FONTS}"'


@dataclass(frozen=True)
class Frame:
    """What a film shows at one step, as plain data; it draws itself in a notebook.

    `op` is the operation in short, `words` with its outcome, `inner` the watched operations that it made itself.
    `nodes` are the tree's with their marks and ghosts, `pools` (heading, cells), `rows` the tables and requests,
    `sizes` in slots, `changes` in words.
    """

    step: int
    op: str
    words: str
    inner: tuple[str, ...]
    error: str | None
    nodes: tuple[NodeView, ...]
    pools: tuple[tuple[str, tuple[Cell, ...]], ...]
    rows: tuple[Rows | Requests, ...]
    sizes: dict[str, int]
    changes: tuple[str, ...]
    state: State = field(repr=False, compare=False)
    began: int = field(repr=False, compare=False)
    path: frozenset[int] = field(repr=False)
    delta: Delta = field(repr=False)
    locks: tuple[NumberedEvent, ...] = field(repr=False)

    @property
    def node_events(self) -> list[NumberedEvent]:
        """(node, what happened to it), in words that name this step."""
        return list(told(self.delta.nodes + self.locks, self.step, self.op))

    @property
    def slot_events(self) -> list[NumberedEvent]:
        """(slot, what happened to it), in words that name this step."""
        return list(told(self.delta.slots, self.step, self.op))

    @property
    def caption(self) -> str:
        """The step and its words; nothing where it is no step, but things as they are."""
        return f"{self.step}. {self.words}" if self.words else ""

    @property
    def inner_words(self) -> list[str]:
        """What it did itself; of many operations, the first and the last ones."""
        over = len(self.inner) - MOST_INNER
        if over <= 0:
            return list(self.inner)
        return [*self.inner[: MOST_INNER // 2], f"… {over} more …", *self.inner[-MOST_INNER // 2 :]]

    @property
    def shows_something(self) -> bool:
        """Whether a node is in its tree or, where there is no tree, an id of a pool in use."""
        if self.nodes:
            return any(view.parent is not None for view in self.nodes)
        return any(cell.state != "free" for _, cells in self.pools for cell in cells)

    @property
    def filled(self) -> Frame:
        """The same without rows that are empty: where no request runs or waits, nothing is said of requests."""
        return replace(self, rows=tuple(rows for rows in self.rows if not rows.is_empty))

    @property
    def shown_words(self) -> set[str]:
        """The states and events that its picture shows: what its legend explains."""
        nodes = [view for view in self.nodes if view.parent is not None]
        found = {mark for view in nodes for mark in view.marks if mark != "locked"}
        found |= {"locked" if view.ref_count else "cached" for view in nodes if "evicted" not in view.marks}
        return found.union(*(words_of(cells) for _, cells in self.pools), *(rows.words for rows in self.rows))

    @property
    def text(self) -> str:
        """The text twin of the picture."""
        parts = [self.caption] * bool(self.caption) + [f"   {words}" for words in self.inner_words]
        parts += [f"   ({'; '.join(self.changes)})"] if self.changes else []
        parts += [tree_text(list(self.nodes))] if self.nodes else []
        parts += [cells_text(title, list(cells)) for title, cells in self.pools]
        parts += [rows.text for rows in self.rows]
        if self.sizes:
            parts.append(" · ".join(size_words(name, value) for name, value in self.sizes.items()))
        return "\n".join(parts)

    @property
    def picture(self) -> Picture:
        """The frame as a picture on a canvas of its own size."""
        return Picture(self.text, lambda: paint(self))

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        return self.picture._repr_mimebundle_()

    @property
    def breadth(self) -> float:
        """About how wide the tree would be if it grew downwards: what its leaves need side by side."""
        above = {view.parent for view in self.nodes}
        leaves = [view for i, view in enumerate(self.nodes) if i not in above]
        return sum(8 * max(map(len, [view.label, *view.notes]), default=0) + 42 for view in leaves)

    def tree(self, sideways: bool = False) -> tuple[list[Part], Paper] | None:
        """The tree alone; `None` where there is none, where it is too large, or without Graphviz."""
        if not self.nodes or len(self.nodes) > MOST_NODES:
            return None
        if sideways not in self._trees:
            keys = [i if view.id is None else view.id for i, view in enumerate(self.nodes)]
            self._trees[sideways] = tree_parts(list(self.nodes), sideways, keys)
        return self._trees[sideways]

    @cached_property
    def _trees(self) -> dict[bool, tuple[list[Part], Paper] | None]:
        """The tree growing down (`False`) and to the right, once it was asked for."""
        return {}


@dataclass(frozen=True)
class Room:
    """What all frames of a film have in common, so that none of them jumps: the room for each of their parts.

    `sideways` trees grow to the right; `tree` is width and height, `lines` how many the caption has, `extents` what
    each table needs, `words` what the legend explains.
    """

    sideways: bool = False
    tree: tuple[float, float] = (0, 0)
    extents: tuple[tuple[int, int], ...] = ()
    lines: int = 0
    words: tuple[str, ...] = ()


def room_of(frames: Sequence[Frame]) -> Room:
    """The room that these frames need; a tree too broad to be read on a slide grows sideways."""
    sideways = max(frame.breadth for frame in frames) > BROAD
    papers = [found[1] for found in (frame.tree(sideways) for frame in frames) if found]
    tree = max((paper.width for paper in papers), default=0.0), max((paper.height for paper in papers), default=0.0)
    extents = []
    for i in range(max(len(frame.rows) for frame in frames)):
        each = [frame.rows[i].extent for frame in frames if i < len(frame.rows)]
        extents.append((max(lines for lines, _ in each), max(longest for _, longest in each)))
    states = STATES if frames[0].sizes else ()  # which the bar below the pictures explains
    words = sorted_words({word for frame in frames for word in frame.shown_words}.difference(states))
    room = Room(sideways, tree, tuple(extents), words=words)
    width = _width(panels_of(frames, room))
    return replace(room, lines=max(len(caption_lines(frame, width)) for frame in frames))


class Panel(NamedTuple):
    """One part of the picture: `kind` is tree, pool, other (a second pool) or rows; `grid` says where its cells are."""

    kind: str
    paper: Paper
    parts: Callable[[Frame], list[Part]]
    grid: dict[str, int]


def panels_of(frames: Sequence[Frame], room: Room) -> list[Panel]:
    """The panels that these frames need, the tree first."""
    panels = []
    if any(frame.nodes for frame in frames):
        words = [svg_size(words_svg(tree_text(list(frame.nodes)))) for frame in frames if not frame.tree(room.sideways)]
        wide, high = (max(sizes) for sizes in zip(room.tree, *words))
        panels.append(Panel("tree", Paper(wide, high, sideways=room.sideways), partial(_tree_parts, wide, room), {}))
    for i, (_, cells) in enumerate(frames[0].pools):
        grid = Grid(len(cells))
        about = {"cell": grid.cell, "columns": grid.columns, "top": TOP, "count": grid.count}
        kind = "pool" if i == 0 else "other"
        panels.append(Panel(kind, pool_paper(len(cells)), partial(_pool_parts, i), about))
    for i, extent in enumerate(room.extents):
        papers = [frame.rows[i].paper(*extent) for frame in frames if i < len(frame.rows)]
        panels.append(Panel("rows", max(papers, key=lambda paper: paper.width), partial(_rows_parts, i, extent), {}))
    return panels


def _tree_parts(width: float, room: Room, frame: Frame) -> list[Part]:
    """The tree at the top in the middle, or on the left; in words where it cannot be drawn."""
    found = frame.tree(room.sideways)
    if found is None:
        return [Part(0, Drawing(place(words_svg(tree_text(list(frame.nodes))), 0, 0)), 0, 0)]
    parts, paper = found
    aside = 0 if room.sideways else round((width - paper.width) / 2)
    return [part._replace(x=part.x + aside) for part in parts]


def _pool_parts(which: int, frame: Frame) -> list[Part]:
    heading, cells = frame.pools[which]
    return pool_parts(heading, list(cells))


def _rows_parts(which: int, extent: tuple[int, int], frame: Frame) -> list[Part]:
    return frame.rows[which].parts(*extent) if which < len(frame.rows) else []


def paint(frame: Frame, room: Room | None = None) -> str | None:
    """A whole frame as one SVG: caption, tree and pool side by side, sizes, legend. `None` without Graphviz."""
    room = room or room_of([frame])
    if frame.nodes and frame.tree(room.sideways) is None:
        return None
    panels = panels_of([frame], room)
    width = _width(panels)
    words = caption_lines(frame, width)
    top = LINE * max(len(words), room.lines) + 14 * bool(words or room.lines)
    content, x, y = _text(words), 0.0, float(top)
    for panel in panels:
        svg = panel.paper.svg(panel.parts(frame))
        if panel.kind == "tree":
            content, x = content + place(svg, 0, top), panel.paper.width + GAP
        else:
            content, y = content + place(svg, x, y), y + panel.paper.height + 8
    bottom = max(top + room.tree[1], y) + 6
    if frame.sizes:
        content, bottom = content + place(bar_svg(frame.sizes, width - 8), 4, bottom), bottom + 54
    legend, high = legend_svg(room.words, width)
    return canvas(f'{content}<g {_FONT} transform="translate(0 {bottom:g})">{legend}</g>', width, bottom + high)


def _width(panels: list[Panel]) -> float:
    tree = sum(panel.paper.width for panel in panels if panel.kind == "tree")
    beside = max([0.0, *(panel.paper.width for panel in panels if panel.kind != "tree")])
    return max(tree + (GAP + beside if beside and tree else beside), 600)


def caption_lines(frame: Frame, width: float) -> list[str]:
    """The caption and the changes, wrapped to `width`."""
    most = max(20, int((width - 8) / 9.1))
    words = textwrap.wrap(frame.caption, most)
    return words + textwrap.wrap("; ".join(frame.changes), most)


def _text(lines: list[str]) -> str:
    spans = "".join(f'<text x="4" y="{LINE * i + 20}">{markup(line)}</text>' for i, line in enumerate(lines))
    return f'<g {_FONT} font-size="15" font-weight="bold">{spans}</g>'


def bar_svg(sizes: dict[str, int], width: float) -> str:
    """The sizes as one bar, and below it each with its number.

    >>> bar_svg({"free": 1}, 100).count("<rect")
    2
    """
    total, x, at, parts = sum(sizes.values()) or 1, 1.0, 1.0, []
    for name, value in sizes.items():
        part = value / total * (width - 2)
        shapes = [(x, 1.0, part, 16)] * bool(value) + [(at, 29.0, 12, 12)]
        parts += [_piece(SIZES[name], *shape) for shape in shapes]
        x += part
        words = size_words(name, value)
        parts.append(f'<text x="{at + 18}" y="40">{words}</text>')
        at += 34 + 7.3 * len(words)
    wide = max(width, at)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:g} 48" {_FONT} font-size="12">'
    return f"{head}{''.join(parts)}</svg>"


def _piece(state: str, x: float, y: float, width: float, height: float) -> str:
    """A part of the bar: round for what is in hand, with a double border for what is locked, as the cells are."""
    box = f'<rect x="{x:.1f}" y="{y:g}" width="{width:.1f}" height="{height:g}" {style(state)}'
    inner = (
        f'<rect x="{x + 3:.1f}" y="{y + 3:g}" width="{max(width - 6, 0):.1f}" height="{height - 6:g}" {style(state)}/>'
    )
    return f"{box}{' rx=' + chr(34) + '5' + chr(34) if state == 'in hand' else ''}/>{inner * (state == 'locked')}"
