"""`draw`: any tree, pool or page table as a picture, with its text twin.

A picture is made from a snapshot at the moment of the call, so it does not change when the object does. In a
notebook it is a PNG with the text twin behind it: that is what shows on code-hosting sites, in an untrusted clone
and in print, and the text is what the strict comparison of notebooks compares.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from minikv.course.pictures.grid import COLUMNS, marks_of, pool_svg, pool_text, table_svg, table_text
from minikv.course.pictures.render import HOW_TO_GET_PICTURES, graphviz_way, svg_to_png
from minikv.course.pictures.svg import canvas, place, svg_size
from minikv.course.pictures.tree import tree_picture
from minikv.testing.snapshot import plain, snapshot, tree_text

MOST_NODES = 400


class Picture:
    """A picture and its text twin: `text` says in words and lines all that `svg` shows; `str()` is the text."""

    def __init__(self, text: str, make_svg: Callable[[], str | None]):
        self.text, self._make_svg = text, make_svg

    @property
    def svg(self) -> str | None:
        """The SVG, or `None` where neither way to run Graphviz is installed."""
        return self._make_svg()

    @property
    def png(self) -> bytes | None:
        """The PNG, or `None` where it cannot be made."""
        svg = self.svg
        return svg_to_png(svg) if svg else None

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        svg, png = self.svg, self.png
        if svg is None or png is None:
            missing = graphviz_way() is None or (svg is not None and png is None)
            return {"text/plain": f"{self.text}\n{HOW_TO_GET_PICTURES}" if missing else self.text}, {}
        width, height = svg_size(svg)
        data = {"image/png": base64.b64encode(png).decode(), "text/plain": self.text}
        return data, {"image/png": {"width": round(width), "height": round(height)}}


def draw(
    thing: Any,
    *,
    matched: Any = None,
    locked: Any = None,
    new: Any = None,
    evicted: Any = None,
    label: Callable[[list[Any]], str] | None = None,
) -> Picture:
    """Draw a prefix cache, a tree of your own nodes, a pool, a page table or a store, as it is now.

    In a tree, the four marks take nodes, or a match, an insertion or a handle for the whole path to it; locked nodes
    are marked by themselves. In a pool, a page table or a store they take page or slot numbers. `label` turns the
    tokens of a node into what is written on it. Your own nodes need `children`, and may have `tokens`, `slots` and
    `ref_count` (or `locks`). Raises `TypeError` for what is none of these.

    >>> from minikv import RadixCache
    >>> cache = RadixCache()
    >>> _ = cache.insert([1, 2, 3], [0, 1, 2])
    >>> draw(cache, matched=cache.match_prefix([1, 2, 9]))
    root
    └─ [1 2] · slots 0-1 · matched
       └─ [3] · slot 2
    """
    marked = {"matched": matched, "locked": locked, "new": new, "evicted": evicted}
    if hasattr(thing, "is_free") and hasattr(thing, "size"):
        return _draw_pool(thing, marked)
    if hasattr(thing, "is_open") and hasattr(thing, "num_rows"):
        return _draw_table(thing, marked)
    if hasattr(thing, "pieces") and hasattr(thing, "layout"):
        return _draw_store(thing, marked)
    views = snapshot(thing, marked, label)
    if len(views) > MOST_NODES:  # Graphviz would take minutes, and nobody could read it
        return Picture(
            f"{tree_text(views[:MOST_NODES])}\n… {len(views)} nodes in all, too many for a picture", lambda: None
        )
    return Picture(tree_text(views), lambda: tree_picture(views))


def beside(*pictures: Picture) -> Picture:
    """Several pictures as one, from left to right; their texts stand one below the other.

    >>> from minikv import FreeListPool, PageTable
    >>> print(beside(draw(FreeListPool(2)), draw(PageTable(1, 2))).text.splitlines()[0])
    FreeListPool: 2 of 2 free
    """
    return Picture("\n".join(picture.text for picture in pictures), lambda: _side_by_side([p.svg for p in pictures]))


def _side_by_side(svgs: list[str | None], gap: float = 24) -> str | None:
    placed, x, height = [], 0.0, 0.0
    for svg in svgs:
        if svg is None:
            return None
        wide, high = svg_size(svg)
        placed.append(place(svg, x, 0))
        x, height = x + wide + gap, max(height, high)
    return canvas("".join(placed), x - gap, height)


def _draw_pool(pool: Any, marked: dict[str, Any]) -> Picture:
    free, marks = [bool(pool.is_free(page)) for page in range(pool.size)], marks_of(marked)
    title = f"{type(pool).__name__}: {sum(free)} of {pool.size} free"
    return Picture(f"{title}\n{pool_text(free, marks)}", lambda: pool_svg(free, marks, title))


def _draw_table(table: Any, marked: dict[str, Any]) -> Picture:
    rows = [plain(table.slots(row)) if table.is_open(row) else None for row in range(table.num_rows)]
    marks, columns = marks_of(marked), table.max_length
    title = f"{type(table).__name__}: {sum(row is not None for row in rows)} of {len(rows)} rows open"
    text = f"{title}\n{table_text(rows, columns, marks)}"
    return Picture(text, lambda: table_svg(rows, columns, marks, title))


def _draw_store(store: Any, marked: dict[str, Any]) -> Picture:
    """The memory from its first byte on: a cell for the keys, or the values, of one slot in one layer."""
    pieces, marks, columns = (
        store.pieces(),
        marks_of(marked),
        COLUMNS // 2,
    )  # so that two stores stand beside each other
    rows: list[list[int] | None] = [pieces[at : at + columns] for at in range(0, min(len(pieces), MOST_NODES), columns)]
    more = f", the first {MOST_NODES} shown" if len(pieces) > MOST_NODES else ""
    title = f"{type(store).__name__}, {store.layout} layout: slots in memory{more}"
    text = f"{title}\n{table_text(rows, columns, marks)}"
    return Picture(text, lambda: table_svg(rows, columns, marks, title))
