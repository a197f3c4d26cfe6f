"""Where the parts of a view are: its caption, the tree, the pools and tables beside it, the sizes and a legend.

All frames of a film share one layout, so that nothing jumps from one to the next; the player's reel is made of it.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from minikv.course.film.view import View
from minikv.course.pictures.boxes import Box, BoxRows, legend_html, legend_svg
from minikv.course.pictures.cells import MOST_CELLS
from minikv.course.pictures.palette import SIZES, size_words, sorted_words
from minikv.course.pictures.picture import MimeBundle, Picture
from minikv.course.pictures.svg import FONTS, Drawing, Paper, Part, canvas, markup, place, svg_size, words_svg
from minikv.course.pictures.tree import tree_parts, tree_text
from minikv.course.reel import Reel
from minikv.testing.snapshot import NodeView, ranges, shorten

GAP, LINE, BROAD = 24, 22, 1000
MOST_NODES = 400
_FONT = f'font-family="{FONTS}"'
PlacedTree = tuple[list[Part], Paper]
Events = list[tuple[int, str]]  # steps, and what happened in each


class Panel(NamedTuple):
    """One part of the picture: `kind` is tree, pool, other (a second pool) or rows; `grid` says where its cells are."""

    kind: str
    paper: Paper
    parts: Callable[[View], list[Part]]
    grid: dict[str, int]


def breadth(view: View) -> float:
    """About how wide the tree would be if it grew downwards: what its leaves need side by side."""
    above = {node.parent for node in view.nodes}
    leaves = [node for i, node in enumerate(view.nodes) if i not in above]
    return sum(8 * max(map(len, [node.label, *node.notes]), default=0) + 42 for node in leaves)


class FilmLayout:
    """The `panels` of some views, the tree first, and the `legend` of all of them."""

    def __init__(self, views: Sequence[View]):
        # a broad tree grows sideways, or nobody could read it on a slide
        self._sideways = max(map(breadth, views)) > BROAD
        self._trees = {id(view): self._tree(view) for view in views}
        self.panels = [*self._tree_panel(views), *_panels(views)]
        trees = [panel.paper.width for panel in self.panels if panel.kind == "tree"]
        beside = [panel.paper.width for panel in self.panels if panel.kind != "tree"]
        gap = GAP if trees and beside else 0
        self.width = max(sum(trees) + max(beside, default=0) + gap, 640)
        words = {word for view in views for word in view.legend}
        if views[0].sizes:
            words.difference_update(SIZES.values())  # the bar below the pictures explains these
        self.legend = sorted_words(words)
        self._lines = max(len(self._caption_lines(view)) for view in views)

    def _tree(self, view: View) -> PlacedTree | None:
        """The tree alone; `None` where there is none, where it is too large, or without Graphviz."""
        if not view.nodes or len(view.nodes) > MOST_NODES:
            return None
        keys = [i if node.id is None else node.id for i, node in enumerate(view.nodes)]
        return tree_parts(view.nodes, self._sideways, keys)

    def _tree_panel(self, views: Sequence[View]) -> list[Panel]:
        sizes = [found[1][:2] for found in self._trees.values() if found]
        sizes += [svg_size(_words(view)) for view in views if view.nodes and not self._trees[id(view)]]
        if not sizes:
            return []
        wide, high = (max(numbers) for numbers in zip(*sizes))
        return [Panel("tree", Paper(wide, high, sideways=self._sideways), partial(self._tree_parts, wide), {})]

    def _tree_parts(self, width: float, view: View) -> list[Part]:
        """The tree at the top in the middle, or on the left; in words where it cannot be drawn."""
        found = self._trees[id(view)]
        if found is None:
            return [Part(0, Drawing(place(_words(view), 0, 0)), 0, 0)]
        parts, paper = found
        aside = 0 if self._sideways else round((width - paper.width) / 2)
        return [part._replace(x=part.x + aside) for part in parts]

    def _caption_lines(self, view: View) -> list[str]:
        """The caption and the changes, wrapped."""
        most = max(20, int((self.width - 8) / 9.1))
        return textwrap.wrap(view.caption, most) + textwrap.wrap("; ".join(view.changes.words), most)

    def svg(self, view: View) -> str | None:
        """A whole view: caption, tree and pool side by side, sizes, legend. `None` without Graphviz."""
        if view.nodes and self._trees[id(view)] is None:
            return None
        top = float(LINE * self._lines + 14 * bool(self._lines))
        content, x, y, tree_foot = _caption(self._caption_lines(view)), 0.0, top, top
        for panel in self.panels:
            svg, (wide, high, *_) = panel.paper.svg(panel.parts(view)), panel.paper
            if panel.kind == "tree":
                content, x, tree_foot = content + place(svg, 0, top), wide + GAP, top + high
            else:
                content, y = content + place(svg, x, y), y + high + 8
        bottom = max(tree_foot, y) + 6
        legends = [legend_svg(self.legend, self.width)]
        if view.sizes:
            content, bottom = content + place(_bar(view.sizes, self.width - 12), 0, bottom), bottom + 22
            legends.insert(
                0, legend_svg([], BROAD, {SIZES[name]: size_words(name, n) for name, n in view.sizes.items()})
            )
        for legend, high in legends:
            content += f'<g {_FONT} transform="translate(0 {bottom:g})">{legend}</g>'
            bottom += high
        return canvas(content, self.width, bottom)


def _words(view: View) -> str:
    return words_svg(tree_text(view.nodes))


def _panels(views: Sequence[View]) -> Iterator[Panel]:
    """The pools and the rows of the views, each with room for the most rows and the longest of them."""
    for i in range(max(len(view.panels) for view in views)):
        found = [view.panels[i] for view in views if i < len(view.panels)]
        extents = [panel.extent for panel in found]
        extent = tuple(map(max, zip(*extents)))
        papers = [panel.paper(extent) for panel in found]
        paper = max(papers, key=lambda paper: paper.width)
        kind = "other" if i else "pool"
        if i >= len(views[0].pools):
            kind = "rows"
        yield Panel(kind, paper, partial(_parts, i, extent), found[0].grid)


def _parts(which: int, extent: tuple[int, ...], view: View) -> list[Part]:
    return view.panels[which].parts(extent) if which < len(view.panels) else []


def _caption(lines: list[str]) -> str:
    spans = "".join(f'<text x="4" y="{LINE * i + 20}">{markup(line)}</text>' for i, line in enumerate(lines))
    return f'<g {_FONT} font-size="15" font-weight="bold">{spans}</g>'


def _bar(sizes: dict[str, int], width: float) -> str:
    """The sizes as boxes in one row; the legend has their numbers."""
    boxes = [Box(SIZES[name], wide=BROAD * value) for name, value in sizes.items() if value]
    bar = BoxRows("", [("", boxes)], high=16, gap=0, room=round(width))
    return bar.paper(bar.extent).svg(bar.parts(bar.extent))


class Frame(View):
    """A view that draws itself, also in a notebook."""

    @property
    def without_idle_requests(self) -> Frame:
        """The same, but where no request runs or waits, nothing is said of requests."""
        return replace(self, state=replace(self.state, requests=self.state.requests or None))

    @property
    def picture(self) -> Picture:
        """The frame as a picture on a canvas of its own size."""
        return Picture(self.text, lambda: FilmLayout([self]).svg(self))

    def _repr_mimebundle_(self, **_: Any) -> MimeBundle:
        return self.picture._repr_mimebundle_()


def reel_of(frames: Sequence[View], slot_stories: Mapping[int, Events]) -> Reel:
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


def _stories(frames: Sequence[View], slot_stories: Mapping[int, Events]) -> dict[str, Any]:
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


def _nodes(frames: Sequence[View], sentence: Callable[[str], int]) -> dict[str, dict[str, list[Any]]]:
    """For every node, the facts about it that changed, with the step, and the events of its story."""
    nodes: dict[str, dict[str, list[Any]]] = defaultdict(lambda: {"was": [], "events": []})
    known: dict[int, dict[str, Any]] = {}
    for frame in frames:
        for key, view in frame.state.nodes.items():
            old = known.get(key, {})
            touched = key in frame.path or not old or old["touched"] != view.last_used
            facts = _facts(view, frame.step if touched else old["used"])
            if changed := {name: fact for name, fact in facts.items() if not old or old[name] != fact}:
                nodes[str(key)]["was"].append([frame.step, changed])
            known[key] = {**facts, "touched": view.last_used}
        for gone in [key for key in known if key not in frame.state.nodes]:
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
