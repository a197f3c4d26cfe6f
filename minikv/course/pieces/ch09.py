"""The pieces of chapter 09: finding a path of tokens, the version check, naming a row, and taking one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, CallsMade, engine_hunt
from minikv.course.pieces.observer import Words
from minikv.course.pieces.piece import Frames, Piece, Shown, called, exercise
from minikv.course.pieces.props import ASKED, DEEP, PROMPT, numbers, steps_of, up_to
from minikv.engine import World, ours
from minikv.errors import OutOfPages

_ROWS = 3
_DAY = st.lists(st.builds("{} {}".format, PROMPT, up_to(_ROWS - 1)), max_size=5).map(", ".join)
_FORK = "123 0, 1245 1"  # each prompt with its row
_RECYCLED = "12 0, 123 1, 7 0"  # the nodes 1 and 2 name row 0, which was taken since


def _requests(day: str) -> list[tuple[list[int], int]]:
    """The tokens and the row of each request."""
    return [(numbers("".join(prompt)), int(row)) for *prompt, row in steps_of(day)]


def play_trie_find(world: World, case: Any) -> Frames:
    """A trie with `prompts`, in row 0 and row 1 by turns, or a node in none; each of `queries` is looked up."""
    prompts, queries = case
    trie = world["RowTrie"](2)
    for number, prompt in enumerate(prompts):
        ours("9.3", world)(trie.root, numbers(prompt), number % 2, trie.pool)
    if len(prompts) > 1:
        next(iter(trie.root.children.values()), trie.root).row = None
    yield Shown("before", {"root": trie.root}, trie)
    for query in queries:
        yield called(world, "trie_find", root=trie.root, tokens=numbers(query), words=_no_tuple)


def _no_tuple(path: Any) -> Any:
    """A tuple in words: the caller takes nodes off the end of the path."""
    return Words("a tuple, not a list") if isinstance(path, tuple) else path


def play_is_current(world: World, case: Any) -> Frames:
    """On a day, a node names the row, which is given back and taken; of the nodes around it one is stale."""
    row, day = case
    pool, make = world["BitmaskPool"](2), world["TokenNode"]
    pool.alloc(2)
    above = make(5, make())
    node = above.children[7] = make(7, above)
    below = node.children[8] = make(8, node)
    above.row = below.row = 1 - row
    (above if len(day) % 2 else below).version = 1
    node.locks = 1 - row  # a lock says nothing about the row
    for step in ["begin", *day.split()]:
        if step == "name":
            node.row, node.version = row, pool.version(row)
        elif step == "free" and not pool.is_free(row):
            pool.free([row])
        elif step in ("take", "back") and pool.is_free(row):
            pool.occupy(row, renew=step == "take")
        if step == "begin" or node.row is not None:
            state = f"row {row} is {'free' if pool.is_free(row) else 'in use'} and has version {pool.version(row)}"
            caption = f"is_current(node, pool) for a node with row={node.row} and version={node.version} while {state}"
            yield called(world, "is_current", node=node, pool=pool)._replace(caption=caption)


def play_trie_insert(world: World, day: str) -> Frames:
    """Requests come one after the other; each takes a given row, frees it, and publishes, as in `RowTrie.finish`."""
    trie = world["RowTrie"](_ROWS)
    for tokens, row in _requests(day):
        trie.pool.occupy(row, renew=True)
        trie.pool.free([row])
        shown = called(world, "trie_insert", root=trie.root, tokens=tokens, row=row, pool=trie.pool)
        yield shown._replace(picture=trie)
        for node in trie.root.children.values():
            node.locks = 1


def play_take_row(world: World, case: Any) -> Frames:
    """A trie whose rows were filled by requests that left; some rows run; a request comes that shares `query`."""
    day, running, query = case
    trie = world["RowTrie"](_ROWS)
    root, pool = trie.root, trie.pool
    for tokens, row in _requests(day):
        pool.occupy(row, renew=True)
        ours("9.3", world)(root, tokens, row, pool)
        pool.free([row])
    for row in set(running):
        pool.occupy(row)
    path = trie.find(numbers(query))
    for node in path:
        node.locks = int(2 in running)  # as by a request that copied the prefix into row 2
    yield Shown("before", {"root": root}, trie)

    def also() -> dict[str, Any]:
        rows = range(_ROWS)
        return {"row versions": [*map(pool.version, rows)], "free rows": [*filter(pool.is_free, rows)]}

    held = f"{[node.token for node in path]} in rows {[node.row for node in path]}"
    caption = f"take_row(pool, path) for {held} with free rows {also()['free rows']}"
    shown = called(world, "take_row", OutOfPages, pool=pool, path=path, also=also, words=_row_and_copy)
    yield Shown(caption, {"root": root, **shown.things}, trie)


def _row_and_copy(found: Any) -> Any:
    """A row and whether to copy, as a pair; any value may say whether."""
    is_pair = isinstance(found, list | tuple) and len(found) == 2
    return (found[0], bool(found[1])) if is_pair else found


_STEPS = st.lists(st.sampled_from(["name", "free", "take", "back"]), max_size=6).map(" ".join)

PIECES = (
    Piece(
        "9.1", play_trie_find,
        cases=[(["123"], ["123"]), ([[1000, 2000]], [[1000, 2000]])],
        strategy=ASKED,
    ),
    Piece(
        "9.2", play_is_current,
        cases=[(1, "name"), (1, "name free take free take"), (1, "free take " * 300 + "name")],
        strategy=st.tuples(up_to(1), _STEPS),
    ),
    Piece(
        "9.3", play_trie_insert,
        cases=["123 0", _FORK, "12 0, 7 0, 123 1", f"{_RECYCLED}, 123 2", f"{_RECYCLED}, 124 2",
               "1" * DEEP + " 0"],
        strategy=_DAY,
    ),
    Piece(
        "9.4", play_take_row,
        cases=[("", [], "1"), (_FORK, [0], "1245"), (_FORK, [0, 1, 2], "124"),
               (_RECYCLED, [], "123"), (_RECYCLED, [1], "123"),
               ("1 0, 12 1, 123 2, 7 0", [], "123")],
        strategy=st.tuples(_DAY, st.lists(up_to(_ROWS - 1), max_size=2), PROMPT),
    ),
)  # fmt: skip


Used = Sequence[int | None]


def pick_row(used: Used, named: Sequence[int]) -> int | None:
    """Return the row for a new request: a free one that no node names, or else the one that was given back first.

    `used[row]` is the time at which it was given back, or `None` while a request runs in it; `named[row]` is the number
    of current nodes that name it. Of several rows, the lowest; `None` if no row is free.

    >>> pick_row([3, 1, None, 2], [4, 2, 5, 0]), pick_row([3, 1, None, 2], [4, 2, 5, 6]), pick_row([3, 1], [0, 0])
    (3, 1, 0)
    """
    free = [row for row, time in enumerate(used) if time is not None]
    return min(free, key=lambda row: (named[row] > 0, named[row] and used[row]), default=None)


def _advice(right: CallsMade) -> str:
    """A hint for a script that does no harm: what it does not do yet."""
    if not any(call.verb == "finish" for call, _ in right):
        return "nothing is published before a request finishes"
    if not any(call.verb == "start" and call.result.found and not call.result.is_copy for call, _ in right):
        return "the careless line runs when a request takes over the free row of its prefix: let one do that"
    return "which nodes still trust the old end of that row? Let a request look for those tokens"


_TIMES = st.lists(st.tuples(st.none() | up_to(9), up_to(3)), max_size=6)


EXERCISES = (
    exercise(
        "9.5", pick_row,
        cases=[([], [])],
        strategy=_TIMES.map(lambda pairs: ([time for time, _ in pairs], [count for _, count in pairs])),
    ),
    engine_hunt(
        "9.6", "careless_take_row", "9.4 keeps the old version",
        Calls(lambda world: world["RowTrie"](2), ("start", "finish"),
              result=lambda trie, request: trie.rows[request.row][: request.found] if request else None),
        advice=_advice,
    ),
)  # fmt: skip
