"""Shelves beside a tree, page by page: host memory, a dictionary and its queue, window slots.

They are recognized by their attributes, so a learner's are drawn too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from minikv.course.pictures.boxes import Box, BoxRows
from minikv.testing.snapshot import Label, Visit, ends, label_of, walk

MOST_CELLS = 512  # of a shelf, as of a pool
_COLUMNS, _MOST_LETTERS, _LETTERS_OF_A_KEY = 8, 5, 3


class KeptCell(NamedTuple):
    """A cell of a shelf: its `state`, what is written in it, and a `key` that changes when its content does."""

    state: str
    word: str
    key: Any
    number: str = ""


Line = tuple[str, tuple[KeptCell, ...]]  # a row, after its name


class KeptBeside(NamedTuple):
    """Named rows of cells below a `title`, as plain data."""

    title: str
    rows: tuple[Line, ...]

    def boxes(self, before: KeptBeside) -> BoxRows:
        """The shelf as boxes, each with what changed since `before`.

        >>> old, new = (KeptBeside("queue", (("", (KeptCell("cached", str(page), page),)),)) for page in (3, 4))
        >>> print(new.boxes(old).text)
        queue
        4n
        c cached  n new
        """
        known = {cell.key for _, cells in before.rows for cell in cells}
        rows = [(name, [_box(cell, cell.key in known) for cell in cells]) for name, cells in self.rows]
        more = f" (the first {MOST_CELLS} shown)" * (sum(len(cells) for _, cells in rows) >= MOST_CELLS)
        return BoxRows(self.title + more, rows, wide=44, high=38)


def _box(cell: KeptCell, is_known: bool) -> Box:
    event = {"": "", "free": "freed", "in hand": "taken"}.get(cell.state, "new")
    return Box(cell.state, cell.word, "" if is_known else event, cell.number)


def shelves(thing: Any, label: Label | None = None) -> tuple[KeptBeside, ...]:
    """The shelves of a cache or a pool, as they are now; none where it keeps nothing beside its tree.

    >>> from minikv import HashBlockCache, TieredCache, WindowedPool
    >>> cache = HashBlockCache()
    >>> _ = cache.insert([1, 2], [5, 6])
    >>> [shelf.title for shelf in shelves(cache)]
    ['dictionary: key and page of each block', 'queue: the leftmost page goes next']
    >>> [shelf.title for shelf in (*shelves(TieredCache(host_pages=3)), *shelves(WindowedPool(4, 2)))]
    ['host memory: 3 of 3 pages free', 'window slots: 2 of 2 free']
    """
    host = getattr(thing, "host", None)
    if hasattr(host, "index") and hasattr(host, "moves"):
        return (_host_memory(host, label),)
    if hasattr(thing, "blocks") and hasattr(host, "is_free"):
        return (_two_memories(thing),)
    if hasattr(thing, "window_of"):
        return (_window_slots(thing),)
    if hasattr(thing, "queue"):
        with suppress(AttributeError, TypeError):  # a queue of something else
            return tuple(_dictionary_and_queue(thing))
    return ()


def _in_lines(cells: Sequence[KeptCell], name: str = "") -> tuple[Line, ...]:
    """Cells in rows, which have this name."""
    starts = range(0, min(len(cells), MOST_CELLS), _COLUMNS)
    return tuple((name, tuple(cells[at : at + _COLUMNS])) for at in starts)


def _dictionary_and_queue(thing: Any) -> Iterator[KeptBeside]:
    """Of a `HashBlockCache`, or of the learner's pool of blocks."""
    table, queue = getattr(thing, "table", None), thing.queue
    blocks: Iterable[Any] = thing.nodes() if table is None else table.values()
    cells = []
    for block in blocks:
        page = _page_of(block)
        is_used = getattr(block, "users", 0) or getattr(block, "ref_count", 0)
        key = block.key.hex() if isinstance(block.key, bytes) else str(block.key)
        state = "locked" if is_used else "cached"
        cells.append(KeptCell(state, str(page), (key, page), key[:_LETTERS_OF_A_KEY]))
    yield KeptBeside("dictionary: key and page of each block", _in_lines(cells))
    queued = [(_page_of(block), str(block.key)) for block in (queue() if callable(queue) else queue)]
    found = [KeptCell("free" if key == "None" else "cached", str(page), (page, key)) for page, key in queued]
    yield KeptBeside("queue: the leftmost page goes next", _in_lines(found))


def _page_of(block: Any) -> int:
    return int(block.pages[0] if hasattr(block, "pages") else block.page)


def _window_slots(pool: Any) -> KeptBeside:
    """Each slot in use above its window slot, if it still has one."""
    used = [slot for slot in range(min(pool.size, MOST_CELLS)) if not pool.is_free(slot)]
    slots, windows = [KeptCell("", str(slot), slot) for slot in used], []
    for slot in used:
        window = int(pool.window_of[slot])
        state, word = ("free", "") if window < 0 else ("computed", str(window))
        windows.append(KeptCell(state, word, (slot, window)))
    pairs = zip(_in_lines(slots, "slot"), _in_lines(windows, "window slot"))
    free = pool.windows
    return KeptBeside(
        f"window slots: {free.num_free} of {free.size} free", tuple(line for pair in pairs for line in pair)
    )


def _host_memory(host: Any, label: Label | None) -> KeptBeside:
    """Its pages, each with the tokens in it: in hand while a move brings them, locked while one reads them."""
    free = [bool(host.pool.is_free(page)) for page in range(host.num_pages)]
    states = ["free" if is_free else "in hand" for is_free in free]
    cells = [KeptCell(state, "", (page, state), f"{page}") for page, state in enumerate(states)]
    for visit, path in _visits(host):
        state = "locked" if visit.node.ref_count else "cached"
        for end, page in zip(range(len(path), 0, -host.page_size), reversed(visit.node.pages)):
            words = label_of(list(path[end - host.page_size : end]), label).strip("[]")
            key = page, visit.namespace, path[:end]
            cells[page] = KeptCell(state, ends(words, _MOST_LETTERS), key, f"{page}")
    rows = _in_lines(cells, "pages")
    for move in host.moves:
        rows += _in_lines([*_moving(move)], _way(move))
    return KeptBeside(f"host memory: {sum(free)} of {len(free)} pages free", rows)


def _two_memories(tiers: Any) -> KeptBeside:
    """The pages of the device and of host memory in the learner's tiers, each with the key of its block."""
    rows = list[Line]()
    for name in ("device", "host"):
        pages = [KeptCell("free", "", (name, page), f"{page}") for page in range(getattr(tiers, name).size)]
        for key, block in tiers.blocks.items():
            if (page := getattr(block, name)) is not None:
                pages[page] = KeptCell("cached", ends(str(key), _MOST_LETTERS), (name, page, key), f"{page}")
        rows += _in_lines(pages, name)
    return KeptBeside("both memories, page by page", tuple(rows))


def _way(move: Any) -> str:
    return "to host" if move.to_host else "from host"


def _moving(move: Any) -> Iterator[KeptCell]:
    """From which page to which one each page of a move goes."""
    for source, target in zip(move.src, move.dst):
        yield KeptCell("in hand", f"{target}", (_way(move), int(source), int(target)), f"{source}→")


def _visits(host: Any) -> list[tuple[Visit, tuple[int, ...]]]:
    """Every node of host memory's tree, with all tokens up to its end."""
    found: list[tuple[Visit, tuple[int, ...]]] = []
    for visit in walk(host.index):
        found.append((visit, (*(() if visit.parent is None else found[visit.parent][1]), *visit.tokens)))
    return found
