"""The pieces of chapter 09: finding a path of tokens, the version check, naming a row, and taking one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.designs import path_in_words, trie_in_words
from minikv.course.pieces.hunt import Calls, calls_of, engine_hunt
from minikv.course.pieces.identity import ALL_RIGHT, kept
from minikv.course.pieces.observe import (
    ASKED,
    DEEP,
    PROMPT,
    bracketed,
    came_of,
    kinds,
    links,
    numbers,
    two,
    yes_or_no,
)
from minikv.course.pieces.piece import NOTHING, CaseFrame, Frames, Piece, exercise
from minikv.course.pieces.trial import Played
from minikv.engine import World
from minikv.errors import OutOfPages

_ROWS = 3
_ROW = st.integers(0, _ROWS - 1)
_FILLED = st.lists(st.tuples(PROMPT, _ROW), max_size=5)
_FORK = [("123", 0), ("1245", 1)]
_RECYCLED = [("12", 0), ("123", 1), ("7", 0)]  # the nodes 1 and 2 name row 0, which was taken since


def _named(world: World, root: Any, prompt: str, row: int, pool: Any) -> None:
    """Let the nodes of `prompt` name `row` where they name no current one; independent of the pieces."""
    node = root
    for token in numbers(prompt):
        node = node.children.setdefault(token, world["TokenNode"](token, node))
        if node.row is None or pool.version(node.row) != node.version:
            node.row, node.version = row, pool.version(row)


def _frame(caption: str, root: Any, pool: Any, seen: Mapping[str, Any] = NOTHING) -> CaseFrame:
    """A frame with what is `seen`, and a trie; a picture of it has rows of which only the states are known."""
    thing = SimpleNamespace(root=root, pool=pool, rows=[[] for _ in range(pool.size)])
    trie = {"the trie": trie_in_words(root, pool), "the nodes that were there": kept(root)}
    return CaseFrame(caption, {**seen, **trie}, thing)


def play_trie_find(world: World, case: Any) -> Frames:
    """A trie with `prompts`, in row 0 and row 1 by turns, or a node in none; each of `queries` is looked up."""
    prompts, queries = case
    root, pool = world["TokenNode"](), world["BitmaskPool"](2)
    pool.alloc(2)
    for number, prompt in enumerate(prompts):
        _named(world, root, prompt, number % 2, pool)
    if len(prompts) > 1:
        next(iter(root.children.values()), root).row = None
    yield _frame("before", root, pool)
    for query in queries:
        given = numbers(query)
        path = world["trie_find"](root, given)
        words = "a tuple, not a list" if isinstance(path, tuple) else path_in_words(root, path)
        seen = {"the tokens of the nodes": words, "the caller's prompt, which must not change": given}
        yield _frame(f"find {bracketed(query)}", root, pool, seen)


def _among_others(world: World, row: int, pool: Any, is_below: bool) -> Any:
    """A new node; one of the two below it is stale, or else the one above it. The others are current in `row`."""
    make = world["TokenNode"]
    above = make(5, make())
    node = above.children[7] = make(7, above)
    for token in (8, 9):
        node.children[token] = make(token, node)
    for each in (above, *node.children.values()):
        each.row, each.version = row, pool.version(row)
    (node.children[8] if is_below else above).version = 0
    return node


def play_is_current(world: World, case: Any) -> Frames:
    """A row is given back and taken, in the words of `steps`; before step `at` a new node names it."""
    row, at, steps = case
    pool = world["BitmaskPool"](2)
    pool.alloc(2)
    node = _among_others(world, 1 - row, pool, is_below=len(steps.split()) % 2 == 0)
    node.locks = 1 - row  # a lock says nothing about the row
    before = "a node that names no row yet"
    for number, step in enumerate(["", *steps.split()]):
        if step and (step == "free") == pool.is_free(row):
            continue
        if step == "free":
            pool.free([row])
        elif step:
            pool.occupy(row, renew=step == "take")
        if at - number > 9:
            continue  # a version that is large is what such a case is about
        if number == at:
            node.row, node.version = row, pool.version(row)
            before = f"the node names row {row} with version {node.version}"
        state = "free" if pool.is_free(row) else "in use"
        seen = {
            "is it current": yes_or_no(world["is_current"](node, pool)), "free rows": pool.num_free,
            "the row and the version in the node, which must not change": [node.row, node.version],
        }  # fmt: skip
        yield CaseFrame(f"{before}; the row is {state} and has version {pool.version(row)}", seen)


def play_trie_insert(world: World, case: Any) -> Frames:
    """Requests come one after the other; each takes a given row, frees it, and publishes, as in `RowTrie.finish`."""
    root, pool = world["TokenNode"](), world["BitmaskPool"](_ROWS)
    for prompt, row in case:
        pool.occupy(row, renew=True)
        for node in root.children.values():
            node.locks = 1
        yield _frame(f"row {row} is taken", root, pool)
        pool.free([row])
        given = numbers(prompt)
        path = world["trie_insert"](root, given, row, pool)
        seen = {
            "the tokens of the nodes that are returned": path_in_words(root, path), "the links": links(root),
            "the caller's prompt, which must not change": given, "free rows": pool.num_free,
            "the row of the root": root.row,
        }  # fmt: skip
        yield _frame(f"insert {bracketed(prompt)} in row {row}", root, pool, seen)


def play_take_row(world: World, case: Any) -> Frames:
    """A trie whose rows were filled by requests that left; some rows run; a request comes that shares `query`."""
    (steps, running, query), root, pool = case, world["TokenNode"](), world["BitmaskPool"](_ROWS)
    for prompt, row in steps:
        pool.occupy(row, renew=True)
        _named(world, root, prompt, row, pool)
        pool.free([row])
    for row in set(running):
        pool.occupy(row)
    path: list[Any] = world["trie_find"](root, numbers(query))
    for node in path:
        node.locks = int(2 in running)  # as by a request that copied the prefix into row 2
    while path and not world["is_current"](path[-1], pool):
        path.pop()
    yield _frame(f"rows that run: {sorted(set(running)) or 'none'}", root, pool)
    found, count = [node.token for node in path], len(path)
    error, result = came_of(lambda: world["take_row"](pool, path), OutOfPages)
    row, is_copy = two(result)
    seen = {
        "raised": error, "what is returned": "two values" if two(result) is result else kinds(result),
        "the row": row, "has to be copied": yes_or_no(is_copy),
        "the versions of the rows": [pool.version(each) for each in range(_ROWS)],
        "the rows that are free now": [each for each in range(_ROWS) if pool.is_free(each)],
        "the list of nodes": ALL_RIGHT if len(path) == count else "it has changed; leave it as it was",
    }  # fmt: skip
    yield _frame(f"take a row for a request of which {found} is cached", root, pool, seen)


_STEPS = st.lists(st.sampled_from(["free", "take", "back"]), max_size=6).map(" ".join)

PIECES = (
    Piece(
        "9.1", "trie_find", play_trie_find,
        cases=[(["123"], ["123"]), ([], ["1"]), (["123"], ["129"]), (["123", "124"], ["1245"]), (["12"], ["912"]),
               (["12"], ["192"]), (["111"], ["1111"]), ([[1000, 2000]], [[1000, 2000]]), (["01"], ["01"]),
               (["1" * DEEP], ["1" * DEEP])],
        strategy=ASKED,
    ),
    Piece(
        "9.2", "is_current", play_is_current,
        cases=[(1, 0, ""), (1, 9, ""), (1, 0, "free"), (1, 0, "free take"), (1, 0, "free take free"),
               (1, 2, "free take free"), (0, 0, "free"), (1, 0, "free take free take"),
               (0, 0, "free take"), (1, 600, "free take " * 300)],
        strategy=st.tuples(st.integers(0, 1), st.integers(0, 4), _STEPS),
    ),
    Piece(
        "9.3", "trie_insert", play_trie_insert,
        cases=[[("123", 0)], _FORK, [("", 0)], [("12", 0), ("12", 0)], [("12", 0), ("7", 0), ("123", 1)],
               [*_RECYCLED, ("123", 2)], [*_RECYCLED, ("124", 2)], [("1" * DEEP, 0)]],
        strategy=_FILLED,
    ),
    Piece(
        "9.4", "take_row", play_take_row,
        cases=[([], [], "1"), (_FORK, [], "123"), (_FORK, [0], "123"), (_FORK, [], "12"), (_FORK, [], "1245"),
               (_FORK, [0], "1245"), (_FORK, [2], "123"), (_FORK, [0, 1, 2], "124"), (_RECYCLED, [], "123"),
               (_RECYCLED, [1], "123"), ([("1", 0)], [], "1"),
               ([("1", 0), ("12", 1), ("123", 2), ("7", 0)], [], "123")],
        strategy=st.tuples(_FILLED, st.lists(_ROW, max_size=2), PROMPT),
    ),
)  # fmt: skip


Used = Sequence[int | None]


def pick_row(used: Used, named: Sequence[int]) -> int | None:
    """Return the row for a new request: a free one that no node names, or else the one that was given back first.

    `used[row]` is the time at which it was given back, or `None` while a request runs in it; `named[row]` is the number
    of current nodes that name it. Of several rows, the lowest; `None` if no row is free.

    >>> pick_row([3, 1, None, 2], [4, 2, 5, 0])
    3
    """
    free = [row for row, time in enumerate(used) if time is not None]
    return min(free, key=lambda row: (named[row] > 0, named[row] and used[row]), default=None)


def _advice(right: Played) -> str:
    """A hint for a script that does no harm: what it does not do yet."""
    calls = calls_of(right)
    if not any(call.verb == "finish" for call in calls):
        return "nothing is published before a request finishes"
    if not any(call.verb == "start" and call.result.found and not call.result.is_copy for call in calls):
        return "the careless line runs when a request takes over the free row of its prefix: let one do that"
    return "which nodes still trust the old end of that row? Let a request ask for those tokens"


_TIMES = st.lists(st.tuples(st.none() | st.integers(0, 9), st.integers(0, 3)), max_size=6)


EXERCISES = (
    exercise(
        "9.5", "pick_row", pick_row,
        cases=[([], []), ([2, 1], [1, 1]), ([1, 2], [1, 0]), ([0, 1], [2, 2]), ([5, 3], [0, 0])],
        strategy=_TIMES.map(lambda pairs: ([time for time, _ in pairs], [count for _, count in pairs])),
    ),
    engine_hunt(
        "9.6", "careless_take_row", ("9.4", "keeps the old version"),
        Calls(lambda world: world["RowTrie"](2), ("start", "finish"),
              result=lambda trie, request: trie.rows[request.row][: request.found] if request else None),
        advice=_advice,
    ),
)  # fmt: skip
