"""A film as the player gets it: each picture once, and for every frame which of them to show.

Pictures that do not change from frame to frame are sent once, and so is what a node was: only the steps at which
something about it became different are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikv.course.film.cells import MOST_CELLS, TOP, Grid, cells_svg, numbers_svg
from minikv.course.film.frame import Frame, Room, room_of
from minikv.course.pictures.svg import markup, svg_size
from minikv.course.player import Player, Reel, fit, slim
from minikv.testing.snapshot import ranges, shorten, tree_text

if TYPE_CHECKING:
    from minikv.course.film.film import Film


def player_of(film: Film) -> Player:
    """The player of a film, with its still."""
    return Player(reel_of(film), film.still)


def reel_of(film: Film) -> Reel:
    """Everything that the player shows."""
    frames = film.frames
    reel = Reel(first=0, captions=[frame.caption for frame in frames])
    room = room_of(frames)
    if any(frame.nodes for frame in frames):
        _trees(reel, frames, room)
    for i, (_, cells) in enumerate(frames[0].pools):
        _pool(reel, frames, i, len(cells))
    for i, extent in enumerate(room.extents):
        _rows(reel, frames, i, extent)
    reel.film = {
        "notes": [" · ".join(["; ".join(f.changes)] * bool(f.changes) + f.inner_words) for f in frames],
        "sizes": [list(frame.sizes.items()) for frame in frames],
        "born": [{str(upper): lower for upper, lower in frame.delta.changes.splits} for frame in frames],
        "focus": [[view.id for view in frame.nodes if view.marks] for frame in frames],
        "nodes": _nodes(frames),
        "slots": {str(slot): story for slot, story in film.slot_stories().items()},
        "pageSize": film.at(0).state.pools[0].page_size if film.at(0).state.pools else 1,
    }
    return reel


def _trees(reel: Reel, frames: list[Frame], room: Room) -> None:
    panel = reel.panel("tree", *room.tree)
    for i, frame in enumerate(frames):
        svg = frame.tree_svg(room.sideways)
        words = f"<pre>{chr(10).join(map(markup, tree_text(list(frame.nodes)).splitlines()))}</pre>"
        reel.show(i, panel, fit(slim(svg), *room.tree, left=room.sideways) if svg else words)


def _pool(reel: Reel, frames: list[Frame], which: int, count: int) -> None:
    grid = Grid(count)
    about = {"cell": grid.cell, "columns": grid.columns, "top": TOP, "count": grid.count}
    panel = reel.panel("pool" if which == 0 else "other", *grid.size, over=numbers_svg(count), **about)
    for i, frame in enumerate(frames):
        heading, cells = frame.pools[which]
        reel.show(i, panel, cells_svg(heading, list(cells)))


def _rows(reel: Reel, frames: list[Frame], which: int, extent: tuple[int, ...]) -> None:
    svgs = [frame.rows[which].svg(*extent) for frame in frames]
    sizes = [svg_size(svg) for svg in svgs]
    width, height = max(w for w, _ in sizes), max(h for _, h in sizes)
    panel = reel.panel("rows", width, height)
    for i, svg in enumerate(svgs):
        reel.show(i, panel, fit(slim(svg), width, height, left=True))


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
                "count": len(view.tokens),
                "tokens": shorten(view.tokens, 24) or "none",
                "slots": ranges(view.slots, 12) if view.slots else "none",
                "held": view.slots[:MOST_CELLS],
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
