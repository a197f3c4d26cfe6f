"""A cache of rows as a picture: its trie, where each node names a row or is stale, and beside it what each row holds.

It works on anything that has a `root`, a `pool` with versions, and `rows`, the tokens that are in each row: on a
`RowCache`, and on the one that a learner builds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from minikv.course.pictures.boxes import BoxRow, rows_picture
from minikv.course.pictures.picture import Picture, beside
from minikv.course.pictures.prune import readable
from minikv.course.pictures.tree import tree_picture
from minikv.testing.snapshot import NodeView, snapshot, tree_text

MOST_ROWS, MOST_TOKENS = 32, 16
_LOOKS = {"running": "in hand", "free, cached": "cached", "free": "free"}  # the word, and how its boxes look


def has_rows(thing: Any) -> bool:
    """Whether `thing` is a cache of rows."""
    return all(hasattr(thing, name) for name in ("root", "pool", "rows")) and hasattr(thing.pool, "version")


def draw_rows(cache: Any, marked: Mapping[str, Any], label: Callable[[list[Any]], str] | None) -> Picture:
    """The trie and the rows of `cache`, as they are now.

    >>> from minikv import RowCache
    >>> cache = RowCache(2)
    >>> cache.finish(cache.start([1, 2]))
    >>> draw_rows(cache, {}, None)
    root
    └─ [1] · row 0
       └─ [2] · row 0
    row 0, free, cached  1  2
    row 1, free
    """
    nodes: list[Any] = []

    def number(node: Any) -> int:
        nodes.append(node)
        return len(nodes) - 1

    views = snapshot(cache.root, marked, label, number)
    named = set()
    for view in views:
        node = None if view.id is None or view.parent is None else nodes[view.id]
        if node is not None:
            named.add(_say_row(view, node, cache.pool))
    shown = readable(views)
    return beside(Picture(tree_text(shown), lambda: tree_picture(shown)), rows_picture(_boxes(cache, named)))


def _say_row(view: NodeView, node: Any, pool: Any) -> int | None:
    """Write on a node which row it names, or that it is stale; the row, if the node is current."""
    is_current = node.row is not None and node.row >= 0 and pool.version(node.row) == node.version
    view.slots, view.name = [], f"row {node.row}" if is_current else "stale"
    return node.row if is_current else None


def _boxes(cache: Any, named: set[Any]) -> list[BoxRow]:
    """The first rows, and of each the first tokens."""
    boxes = []
    for row, tokens in enumerate(cache.rows[:MOST_ROWS]):
        state = ("free, cached" if row in named else "free") if cache.pool.is_free(row) else "running"
        words = [str(token) for token in tokens[:MOST_TOKENS]] + ["…"] * (len(tokens) > MOST_TOKENS)
        boxes.append(BoxRow(f"row {row}, {state}", words, _LOOKS[state]))
    return boxes
