"""A film as the player gets it: each picture once, and for every frame which of them to show.

Pictures that do not change from frame to frame are sent once, and so is what a node was: only the steps at which
something about it became different are kept.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from minikv.show.draw import svg_size
from minikv.show.film_cells import CELL, MOST_CELLS, TOP, cells_svg, numbers_svg, pool_columns, pool_size_of
from minikv.show.film_frame import Frame
from minikv.show.player import Player, Reel, fit, slim
from minikv.show.render import FONTS
from minikv.show.snapshot import ranges, shorten, tree_text

if TYPE_CHECKING:
    from minikv.show.film import Film


def player_of(film: Film) -> Player:
    """The player of a film, with its still."""
    return Player(reel_of(film), film.still)


def reel_of(film: Film) -> Reel:
    """Everything that the player shows."""
    frames = film.frames
    reel = Reel(first=0, captions=[frame.caption for frame in frames])
    if any(frame.nodes for frame in frames):
        _trees(reel, frames)
    for i, (title, cells) in enumerate(frames[0].pools):
        _pool(reel, frames, i, title, len(cells))
    for i in range(max(len(frame.rows) for frame in frames)):
        _rows(reel, frames, i)
    reel.film = {
        "notes": [" · ".join(["; ".join(f.changes)] * bool(f.changes) + list(f.inner)) for f in frames],
        "sizes": [list(frame.sizes.items()) for frame in frames],
        "born": [{str(upper): lower for upper, lower in frame.splits} for frame in frames],
        "nodes": _nodes(frames),
        "slots": {str(slot): story for slot, story in film.slot_stories().items()},
        "pageSize": film.at(0).state.pools[0].page_size if film.at(0).state.pools else 1,
    }
    return reel


def _trees(reel: Reel, frames: list[Frame]) -> None:
    svgs = [frame.tree_svg for frame in frames]
    sizes = [svg_size(svg) for svg in svgs if svg]
    width, height = max((w for w, _ in sizes), default=0), max((h for _, h in sizes), default=0)
    panel = reel.panel("tree", width, height)
    for i, (frame, svg) in enumerate(zip(frames, svgs)):
        words = f"<pre>{escape(tree_text(list(frame.nodes)))}</pre>"
        reel.show(i, panel, fit(slim(svg), width, height) if svg else words)


def _pool(reel: Reel, frames: list[Frame], which: int, title: str, count: int) -> None:
    width, height = pool_size_of(count)
    grid = {"cell": CELL, "columns": pool_columns(count), "top": TOP, "count": min(count, MOST_CELLS)}
    panel = reel.panel("pool" if which == 0 else "other", width, height, over=numbers_svg(count), font=FONTS, **grid)
    for i, frame in enumerate(frames):
        reel.show(i, panel, cells_svg(title, list(frame.pools[which][1])))


def _rows(reel: Reel, frames: list[Frame], which: int) -> None:
    shown = [frame.rows[which] if which < len(frame.rows) else None for frame in frames]
    columns = max(Frame.columns(one[1]) for one in shown if one)
    svgs = [frame.rows_svg(*one, columns=columns) if one else "" for frame, one in zip(frames, shown)]
    sizes = [svg_size(svg) for svg in svgs if svg]
    width, height = max(w for w, _ in sizes), max(h for _, h in sizes)
    panel = reel.panel("rows", width, height)
    for i, svg in enumerate(svgs):
        reel.show(i, panel, fit(slim(svg), width, height, left=True) if svg else "")


def _nodes(frames: list[Frame]) -> dict[str, dict[str, list[Any]]]:
    """For every node what it was, from which step on, and what happened to it when."""
    nodes: dict[str, dict[str, list[Any]]] = {}
    used: dict[int, tuple[int | None, int]] = {}
    for frame in frames:
        for key, view in frame.state.nodes.items():
            touched = key in frame.path or key not in used or used[key][0] != view.last_used
            if touched:
                used[key] = (view.last_used, frame.step)
            last = used[key][1]
            facts = {
                "label": view.label,
                "tokens": f"{len(view.tokens)}: {shorten(view.tokens, 24)}" if view.tokens else "none",
                "slots": ranges(view.slots, 12) if view.slots else "none",
                "first": view.slots[0] if view.slots else None,
                "locks": view.ref_count,
                "used": last,
            }
            _keep(nodes, key, frame.step, facts)
        for gone in [int(name) for name in nodes if int(name) not in frame.state.nodes]:
            _keep(nodes, gone, frame.step, None)
        for key, words in frame.node_events:
            nodes.setdefault(str(key), {"was": [], "events": []})["events"].append([frame.step, words])
    return nodes


def _keep(nodes: dict[str, dict[str, list[Any]]], key: int, step: int, facts: dict[str, Any] | None) -> None:
    was = nodes.setdefault(str(key), {"was": [], "events": []})["was"]
    if not was or was[-1][1] != facts:
        was.append([step, facts])
