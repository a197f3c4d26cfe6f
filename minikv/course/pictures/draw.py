"""`draw`: any tree, pool, page table, store or manager as a picture, with its text twin.

A picture is made from a snapshot at the moment of the call, so it does not change when the object does. What each
color, letter and word means is said in one place, `palette.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from minikv.course.pictures.boxes import Box
from minikv.course.pictures.cells import (
    MOST_CELLS,
    MOST_COLUMNS,
    marked_box,
    marks_of,
    memory_picture,
    pool_rows,
    shared_pages_picture,
    table_rows,
    table_slots,
    word_rows,
)
from minikv.course.pictures.picture import Picture, beside
from minikv.course.pictures.shelves import shelves
from minikv.course.pictures.tree import readable, tree_svg, tree_text
from minikv.testing.snapshot import Label, NodeView, legible, plain, snapshot, walk

MOST_ROWS, MOST_TOKENS = 32, 16
_LOOKS = {"running": "in hand", "free, cached": "cached", "free": "free"}  # of a row: a word, and how its boxes look


def draw(
    *things: Any, matched: Any = None, locked: Any = None, new: Any = None, evicted: Any = None,
    owners: Mapping[str, Any] | None = None, label: Label | None = None,
) -> Picture:  # fmt: skip
    """Draw a prefix cache, a tree of your own nodes, a pool, a page table, a store or shared pages, as it is now.

    In a tree, the marks take nodes, or a match, an insertion or a handle for the whole path to it; locked nodes are
    marked by themselves. In a pool, a page table or a store they take page or slot numbers, and so does `owners`
    (`{"Anna": pages}`), which says whose the pages of a pool are. `label` turns the tokens of a node into what is
    written on it. Of a large tree a part is drawn. Your own nodes need `children`, and may have `tokens`, `slots`,
    `ref_count` (or `locks`), and words in `note`.

    What is kept beside a tree or a pool is drawn beside it: host memory and what moves, the dictionary and the queue of
    blocks, window slots. A cache of rows is drawn with what is in them. A manager, an engine, or several things at once
    are drawn whole, without marks: tree, pool, and what runs. Raises `TypeError` for what is none of these.

    >>> from minikv import RadixCache
    >>> cache = RadixCache()
    >>> _ = cache.insert([1, 2, 3], [0, 1, 2])
    >>> draw(cache, matched=cache.match_prefix([1, 2, 9]))
    root
    └─ [1 2] · slots 0-1 · matched
       └─ [3] · slot 2
    """
    marked = {"matched": matched, "locked": locked, "new": new, "evicted": evicted}
    if len(things) == 1 and (found := _own_picture(things[0], marked, label, owners)) is not None:
        return found
    if len(things) != 1 or hasattr(things[0], "finish") or hasattr(things[0], "scheduler"):
        return _draw_all(things, label, {**marked, "owners": owners})
    (thing,) = things
    shown = [shelf.boxes(shelf).picture for shelf in shelves(thing, label)]
    if not (shown and _has(thing, "queue", "is_free")):  # of the learner's pool of blocks, these are all that there is
        shown.insert(0, _draw_one(thing, marked, label, owners))
    return beside(*shown) if shown[1:] else shown[0]


def _draw_one(thing: Any, marked: Mapping[str, Any], label: Any, owners: Any) -> Picture:
    name = type(thing).__name__
    if _has(thing, "is_free", "size"):
        return _draw_pool(thing, marked, owners or {})
    if _has(thing, "is_open", "num_rows"):
        return table_rows(name, table_slots(thing), min(thing.max_length, MOST_COLUMNS), marks_of(marked), {}).picture
    if _has(thing, "pieces", "layout"):
        return memory_picture(f"{name}, {thing.layout} layout: the memory", thing.pieces(), marks_of(marked))
    return _tree_picture(snapshot(thing, marked, label))


def _own_picture(thing: Any, marked: Mapping[str, Any], label: Any, owners: Any) -> Picture | None:
    """The picture of shared pages, also of those that chapter 11 builds, or of a cache of rows; else `None`."""
    if _has(thing, "settle", "fork", "pool") and all(mark is None for mark in (*marked.values(), owners)):
        return shared_pages_picture(thing)
    has_rows = _has(thing, "root", "pool", "rows") and hasattr(thing.pool, "version")
    return _draw_rows(thing, marked, label) if has_rows else None


def _has(thing: Any, *names: str) -> bool:
    return all(hasattr(thing, name) for name in names)


def _draw_all(things: tuple[Any, ...], label: Any, marked: Mapping[str, Any]) -> Picture:
    """One frame of a film of everything."""
    given = [name for name, what in marked.items() if what is not None]
    if given or not things:
        what = f"{given[0]}= marks one tree, pool, table or store" if given else "there is nothing to draw"
        raise TypeError(f"{what}: give draw() one of these, or a manager or an engine as it is")
    from minikv.course.film.camera import picture_now

    return picture_now(things, label)


def _tree_picture(views: list[NodeView]) -> Picture:
    shown = readable(views)
    return Picture(tree_text(shown), lambda: tree_svg(shown))


def _draw_pool(pool: Any, marked: Mapping[str, Any], owners: Mapping[str, Any]) -> Picture:
    marks, names, whose = marks_of(marked), dict[int, str](), []
    for name, pages in owners.items():
        names.update(dict.fromkeys(marks_of({"matched": pages}), legible(str(name))))
        whose.append(f"{name}: {' '.join(map(str, plain(pages))) or 'nothing'}")
    all_free = [bool(pool.is_free(page)) for page in range(pool.size)]
    cells = list[Box]()
    for page, free in enumerate(all_free[:MOST_CELLS]):
        cell = marked_box(names.get(page, ""), marks.get(page, ""), "in hand")
        cells.append(cell._replace(state="free") if free else cell)
    shown = pool_rows(type(pool).__name__, all_free, cells)
    return replace(shown, said="\n".join([shown.text, *whose])).picture


def _draw_rows(cache: Any, marked: Mapping[str, Any], label: Label | None) -> Picture:
    """The trie and the rows of `cache`, as they are now.

    >>> from minikv.engine.ch09_10_rows_and_blocks import RowTrie
    >>> cache = RowTrie(2)
    >>> cache.finish(cache.start([1, 2]))
    >>> _draw_rows(cache, {}, None)
    root
    └─ [1] · row 0
       └─ [2] · row 0
    row 0, free, cached  1  2
    row 1, free
    """
    views, named = snapshot(cache.root, marked, label), set()
    for view, visit in zip(views, walk(cache.root)):
        node = visit.node
        if node is None or visit.parent is None:
            continue
        is_current = node.row is not None and cache.pool.version(node.row) == node.version
        view.slots, view.name = [], f"row {node.row}" if is_current else "stale"
        if is_current:
            named.add(node.row)
    return beside(_tree_picture(views), _row_words(cache, named))


def _row_words(cache: Any, named: set[Any]) -> Picture:
    """The first rows, and of each the first tokens."""
    rows, states = [], []
    for row, tokens in enumerate(cache.rows[:MOST_ROWS]):
        state = ("free, cached" if row in named else "free") if cache.pool.is_free(row) else "running"
        words = [str(token) for token in tokens[:MOST_TOKENS]] + ["…"] * (len(tokens) > MOST_TOKENS)
        rows.append((f"row {row}, {state}", words))
        states.append(_LOOKS[state])
    return word_rows(rows, states=states)
