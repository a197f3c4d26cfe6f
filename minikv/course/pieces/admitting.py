"""Pieces 4.7 to 4.10: the sizes counted again, the pages that a prompt needs, `serve`, and receipts for locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.identity import shuffle, used_pool
from minikv.course.pieces.observe import (
    DEEP,
    FORK,
    PROMPTS,
    bracketed,
    came_of,
    kinds,
    numbers,
    planted,
    preorder,
    state_of_tree,
    two,
)
from minikv.course.pieces.piece import CaseFrame, Frames, Piece
from minikv.course.pieces.replying import owners
from minikv.engine import World
from minikv.errors import LockError, OutOfPages

_NUMBER = st.integers(0, 9)


def play_recount(world: World, case: Any) -> Frames:
    """A tree with `prompts`; each of `locks` is a node, and how many locks pass through it and through those above."""
    prompts, locks = case
    root = planted(world, prompts)
    nodes = preorder(root)
    for which, count in locks if nodes else ():
        node = nodes[which % len(nodes)]
        while node.parent is not None:
            node.locks, node = node.locks + count, node.parent
    result = world["recount"](root)
    seen = {"what is returned": kinds(result), "the two numbers": list(two(result)), **state_of_tree(root)}
    yield CaseFrame("recount", seen, root)


def note_exposed(cache: Any) -> list[list[int]]:
    """A list that grows by the slots of each node for which `cache.expose` is called from now on."""
    found, expose = list[list[int]](), cache.expose

    def noted(node: Any) -> None:
        found.append(list(node.slots))
        expose(node)

    cache.expose = noted
    return found


def play_pages_needed(world: World, case: Any) -> Frames:
    """One call, with a length, how many tokens are cached, and the size of a page."""
    length, pages, size = case
    found = min(pages, length // size) * size
    call = f"pages_needed({length}, {found}, {size})"
    yield CaseFrame(call, {"what is returned": world["pages_needed"](length, found, size)})


def play_serve(world: World, case: Any) -> Frames:
    """Prompts are served by a pool of `size` slots, which has been in use; a number says which of their locks ends."""
    size, steps = case
    cache, pool, running = world["RadixCache"](), used_pool(world, size), list[Any]()
    slots, done = set(pool.stack), list[str]()
    for step in steps:
        shuffle(pool)  # in whichever order they were freed
        if isinstance(step, int):
            if running:
                cache.unlock(running.pop(step % len(running)))
            continue
        given = numbers(step)
        raised, held = came_of(partial(world["serve"], cache, pool, given), OutOfPages)
        running += [held] if hasattr(held, "node") else []
        done.append(bracketed(step))
        seen = {
            "raised": raised, "what is returned": _lock_in_words(held),
            "the slots": owners(cache.roots[None], pool, slots),
            "locks that are held": sum(cache.held.values()), "free slots": pool.num_free,
            "evictable": cache.evictable_size, "protected": cache.protected_size,
            "the prompt, which must not change": given,
        }  # fmt: skip
        yield CaseFrame(f"{size} free slots, serve {', then '.join(done)}", seen, cache)


def _lock_in_words(held: Any) -> str | None:
    if not hasattr(held, "length"):
        return None if held is None else kinds(held)
    return f"{held.length} tokens {'with' if hasattr(held, 'slots') else 'without'} their slots"


class _Handle:
    """A receipt for a prefix of a length, which another may have too."""

    def __init__(self, length: int, said: str):
        self.length, self.said = length, said


def play_return_receipt(world: World, case: Any) -> Frames:
    """Handles hold as many locks as `counts` says; those that `asked` names are given back, one after the other."""
    counts, asked = case
    handles = [_Handle(1, "length 1"), _Handle(2, "length 2"), _Handle(1, "length 1 (another)")]
    handles = handles[: len(counts)]
    held = {handle: count for handle, count in zip(handles, counts) if count}
    for number in asked:
        handle, before = handles[number % len(handles)], _held_in_words(held)
        raised, _ = came_of(partial(_refusing_in_words, world["return_receipt"], held, handle), LockError, _Mute)
        raised = "LockError without a sentence" if raised == "_Mute" else raised
        seen = {"raised": raised, "what is held": _held_in_words(held)}
        yield CaseFrame(f"held: {before}. Return the receipt of the handle of {handle.said}", seen)


class _Mute(Exception):
    """A LockError without a sentence."""


def _refusing_in_words(function: Callable[[Any, Any], Any], *given: Any) -> Any:
    try:
        return function(*given)
    except LockError as error:
        raise error if str(error).strip() else _Mute from None


def _held_in_words(held: Any) -> str:
    said = [f"{handle.said}: {count}" for handle, count in held.items() if hasattr(handle, "said")]
    return ", ".join(sorted(said)) or "nothing"


_TURN: st.SearchStrategy[Any] = st.one_of(st.text("012", min_size=1, max_size=6), _NUMBER)
_ROUNDS: Sequence[Any] = [
    (6, ["123"]), (6, ["123", "123"]), (6, ["123", 0, "123"]), (6, ["123", "12"]), (6, ["12", "123"]),
    (9, ["12345", "12378"]), (6, ["1234", 0, "567"]), (4, ["123", "45"]), (5, ["123", 0, "12367"]),
    (6, ["1234", "5678", 0, "12"]), (3, ["1", "1"]),
]  # fmt: skip

MORE = (
    Piece(
        "4.7", "recount", play_recount,
        cases=[([], []), (["123"], []), (["123"], [(0, 1)]), (FORK, [(1, 1)]), (FORK, [(1, 2), (2, 1)]),
               (["12", "123"], [(1, 1), (0, -2)]), (["1", "12", "123", "45"], [(1, 1)]),
               (["12", "123", "45", "456"], [(0, 1)]), (DEEP, [])],
        strategy=st.tuples(PROMPTS, st.lists(st.tuples(_NUMBER, st.integers(1, 2)), max_size=3)),
    ),
    Piece(
        "4.8", "pages_needed", play_pages_needed,
        cases=[(3, 0, 1), (4, 0, 4), (5, 0, 4), (5, 1, 4), (8, 1, 4), (9, 2, 4), (8, 2, 4), (1, 0, 16),
               (2**60 + 1, 0, 2)],
        strategy=st.tuples(st.integers(1, 40), _NUMBER, st.integers(1, 5)),
    ),
    Piece(
        "4.9", "serve", play_serve, cases=_ROUNDS,
        strategy=st.tuples(st.integers(1, 9), st.lists(_TURN, max_size=5)),
    ),
    Piece(
        "4.10", "return_receipt", play_return_receipt,
        cases=[([1], [0]), ([2], [0]), ([2], [0, 0]), ([1], [0, 0]), ([1, 1], [1]), ([0, 1], [0]),
               ([2, 1], [0, 1, 0, 0]), ([1, 0, 1], [2, 2])],
        strategy=st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=3), st.lists(_NUMBER, max_size=4)),
    ),
)  # fmt: skip
