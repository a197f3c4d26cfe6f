"""Where the parts of a frame are: its caption, the tree, the pools and tables beside it, the sizes and a legend.

All frames of a film share one layout, so that nothing jumps from one to the next; the player's reel is made of it.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from minikv.course.pictures.boxes import Box, BoxRows, legend_html, legend_svg
from minikv.course.pictures.cells import MOST_CELLS
from minikv.course.pictures.palette import SIZES, size_words, sorted_words
from minikv.course.pictures.svg import FONTS, Drawing, Paper, Part, canvas, markup, place, svg_size, words_svg
from minikv.course.pictures.tree import tree_parts, tree_text
from minikv.course.reel import Reel
from minikv.testing.snapshot import NodeView, ranges, shorten

if TYPE_CHECKING:
    from minikv.course.film.frame import Frame

GAP, LINE, BROAD = 24, 22, 1000
MOST_NODES = 400
_FONT = f'font-family="{FONTS}"'
PlacedTree = tuple[list[Part], Paper]
Events = list[tuple[int, str]]  # steps, and what happened in each


class Panel(NamedTuple):
    """One part of the picture: `kind` is tree, pool, other (a second pool) or rows; `grid` says where its cells are."""

    kind: str
    paper: Paper
    parts: Callable[[Frame], list[Part]]
    grid: dict[str, int]


def breadth(frame: Frame) -> float:
    """About how wide the tree would be if it grew downwards: what its leaves need side by side."""
    above = {node.parent for node in frame.nodes}
    leaves = [node for i, node in enumerate(frame.nodes) if i not in above]
    return sum(8 * max(map(len, [node.label, *node.notes]), default=0) + 42 for node in leaves)


class FilmLayout:
    """The `panels` of some frames, the tree first, and the `legend` of all of them.

    >>> from minikv import FreeListPool, PageTable, record
    >>> table = PageTable(1, 4)
    >>> with record(table) as rows, record(FreeListPool(2)) as slots:
    ...     _ = table.open()
    >>> layouts = [FilmLayout(film.frames) for film in (rows, slots)]
    >>> [layout.legend for layout in layouts]  # a bar of the sizes tells what is free in a pool
    [('free',), ()]
    >>> "free slots: 2" in layouts[1].svg(slots.at(0))
    True
    """

    def __init__(self, frames: Sequence[Frame]):
        # a broad tree grows sideways, or nobody could read it on a slide
        self._sideways = max(map(breadth, frames)) > BROAD
        self._trees = {id(frame): self._tree(frame) for frame in frames}
        tree, beside = self._tree_panel(frames), list(_panels(frames))
        self.panels = tree + beside
        widths = [max(panel.paper.width for panel in panels) for panels in (tree, beside) if panels]
        self.width = max(sum(widths) + GAP * (len(widths) - 1), 640)
        words = {word for frame in frames for word in frame.legend}
        if frames[0].sizes:
            words.difference_update(SIZES.values())  # the bar below the pictures explains these
        self.legend = sorted_words(words)
        self._lines = max(len(self._caption_lines(frame)) for frame in frames)

    def _tree(self, frame: Frame) -> PlacedTree | None:
        """The tree alone; `None` where there is none, where it is too large, or without Graphviz."""
        if not frame.nodes or len(frame.nodes) > MOST_NODES:
            return None
        keys = [i if node.id is None else node.id for i, node in enumerate(frame.nodes)]
        return tree_parts(frame.nodes, self._sideways, keys)

    def _tree_panel(self, frames: Sequence[Frame]) -> list[Panel]:
        shown = [self._trees[id(frame)] or _in_words(frame) for frame in frames if frame.nodes]
        if not shown:
            return []
        wide, high = (max(numbers) for numbers in zip(*(paper[:2] for _, paper in shown)))
        return [Panel("tree", Paper(wide, high, self._sideways), partial(self._tree_parts, wide), {})]

    def _tree_parts(self, width: float, frame: Frame) -> list[Part]:
        """The tree at the top in the middle, or on the left; in words where it cannot be drawn."""
        parts, paper = self._trees[id(frame)] or _in_words(frame)
        aside = 0 if paper.sideways else round((width - paper.width) / 2)
        return [part._replace(x=part.x + aside) for part in parts]

    def _caption_lines(self, frame: Frame) -> list[str]:
        """The caption and the changes, wrapped."""
        most = max(20, int((self.width - 8) / 9.1))
        return textwrap.wrap(frame.caption, most) + textwrap.wrap("; ".join(frame.changes.words), most)

    def svg(self, frame: Frame) -> str | None:
        """A whole frame: caption, tree and pool side by side, sizes, legend. `None` without Graphviz."""
        if frame.nodes and self._trees[id(frame)] is None:
            return None
        top = float(LINE * self._lines + 14 * bool(self._lines))
        content, x, y, tree_foot = _caption(self._caption_lines(frame)), 0.0, top, top
        for panel in self.panels:
            svg, (wide, high, *_) = panel.paper.svg(panel.parts(frame)), panel.paper
            content += place(svg, x, y)
            if panel.kind == "tree":
                x, tree_foot = wide + GAP, y + high
            else:
                y += high + 8
        bottom = max(tree_foot, y) + 6
        legends = []
        if frame.sizes:
            content, bottom = content + place(_bar(frame.sizes, self.width - 12), 0, bottom), bottom + 22
            said = {SIZES[name]: size_words(name, value) for name, value in frame.sizes.items()}
            legends.append(legend_svg([], BROAD, said))
        legends.append(legend_svg(self.legend, self.width))
        for legend, high in legends:
            content += f'<g {_FONT} transform="translate(0 {bottom:g})">{legend}</g>'
            bottom += high
        return canvas(content, self.width, bottom)


def _in_words(frame: Frame) -> PlacedTree:
    """The tree as lines of text, which begin on the left like a tree that grows sideways."""
    svg = words_svg(tree_text(frame.nodes))
    return [Part(0, Drawing(place(svg, 0, 0)), 0, 0)], Paper(*svg_size(svg), sideways=True)


def _panels(frames: Sequence[Frame]) -> Iterator[Panel]:
    """The pools and the rows of the frames, each with room for the most rows and the longest of them."""
    for i, panels in enumerate(zip_longest(*(frame.panels for frame in frames))):
        found = [panel for panel in panels if panel]
        extent = tuple(map(max, zip(*(panel.extent for panel in found))))
        paper = max((panel.paper(extent) for panel in found), key=lambda paper: paper.width)
        kind = "other" if i else "pool"
        if i >= len(frames[0].pools):
            kind = "rows"
        yield Panel(kind, paper, partial(_parts, i, extent), found[0].grid)


def _parts(which: int, extent: tuple[int, ...], frame: Frame) -> list[Part]:
    return frame.panels[which].parts(extent) if which < len(frame.panels) else []


def _caption(lines: list[str]) -> str:
    spans = "".join(f'<text x="4" y="{LINE * i + 20}">{markup(line)}</text>' for i, line in enumerate(lines))
    return f'<g {_FONT} font-size="15" font-weight="bold">{spans}</g>'


def _bar(sizes: dict[str, int], width: float) -> str:
    """The sizes as boxes in one row; the legend has their numbers."""
    boxes = [Box(SIZES[name], wide=BROAD * value) for name, value in sizes.items() if value]
    bar = BoxRows("", [("", boxes)], high=16, gap=0, room=round(width))
    return bar.paper(bar.extent).svg(bar.parts(bar.extent))


def reel_of(frames: Sequence[Frame], slot_stories: Mapping[int, Events]) -> Reel:
    """Everything that the player shows, as differences from step to step."""
    layout, reel = FilmLayout(frames), Reel(0, [frame.caption for frame in frames])
    for panel in layout.panels:
        reel.add(panel.kind, panel.paper, map(panel.parts, frames), **panel.grid)
    reel.film = {
        "notes": ["; ".join(frame.changes.words) for frame in frames],
        "legend": legend_html(layout.legend),
        "sizes": {
            "names": list(frames[0].sizes),
            "states": [SIZES[name] for name in frames[0].sizes],
            "values": [list(frame.sizes.values()) for frame in frames],
        },
        "born": [{str(upper): lower for upper, lower in frame.changes.splits} for frame in frames],
        "focus": [[view.id for view in frame.nodes if view.marks] for frame in frames],
        "poster": next((frame.step for frame in frames if frame.shows_something), 0),
        "pageSize": frames[0].state.page_size if frames[0].pools else 1,
        **_stories(frames, slot_stories),
    }
    return reel


def _stories(frames: Sequence[Frame], slot_stories: Mapping[int, Events]) -> dict[str, Any]:
    """The sentences about operations, nodes and slots, as numbers, because many are used several times."""
    sentences: dict[str, int] = {}

    def sentence(words: str) -> int:
        return sentences.setdefault(words, len(sentences))

    return {
        "inner": [[sentence(words) for words in frame.inner_words] for frame in frames],
        "nodes": _nodes(frames, sentence),
        "slots": {
            str(slot): [[step, sentence(words)] for step, words in story] for slot, story in slot_stories.items()
        },
        "words": list(sentences),
    }


def _nodes(frames: Sequence[Frame], sentence: Callable[[str], int]) -> dict[str, dict[str, list[Any]]]:
    """For every node, the facts about it that changed, with the step, and the events of its story."""
    nodes: dict[str, dict[str, list[Any]]] = defaultdict(lambda: {"was": [], "events": []})
    known: dict[int, dict[str, Any]] = {}
    for frame in frames:
        for key, view in frame.state.nodes.items():
            old = known.get(key, {})
            touched = key in frame.path or not old or old["touched"] != view.last_used
            facts = _facts(view, frame.step if touched else old["used"])
            if changed := {name: fact for name, fact in facts.items() if old.get(name) != fact}:
                nodes[str(key)]["was"].append([frame.step, changed])
            known[key] = {**facts, "touched": view.last_used}
        for gone in known.keys() - frame.state.nodes.keys():
            nodes[str(gone)]["was"].append([frame.step, None])
            del known[gone]
        for key, words in frame.node_events:
            nodes[str(key)]["events"].append([frame.step, sentence(words)])
    return nodes


def _facts(view: NodeView, used: int) -> dict[str, Any]:
    """The player's facts about a node."""
    return {
        "label": view.label,
        "count": len(view.tokens),
        "tokens": shorten(view.tokens, 24) or "none",
        "slots": ranges(view.slots, 12) if view.slots else "none",
        "held": view.slots[:MOST_CELLS],
        "locks": view.ref_count,
        "used": used,
    }
