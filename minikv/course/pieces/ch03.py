"""The pieces of chapter 03 that make a radix tree: split, walk, insert and match. The others are in `replying.py`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, engine_hunt
from minikv.course.pieces.identity import as_list, path_tokens, spoil
from minikv.course.pieces.observe import (
    ASKED,
    DEEP,
    FORK,
    PROMPTS,
    bracketed,
    counting,
    edge,
    edge_to_cut,
    kinds,
    numbers,
    planted,
    state_of_tree,
    two,
    with_slots,
)
from minikv.course.pieces.piece import CaseFrame, Cost, Frames, Piece, Play, exercise, framed
from minikv.course.pieces.replying import MORE
from minikv.course.pieces.trial import Played
from minikv.engine import World
from minikv.tokens import common_prefix

_NEAR = ["12345"]
_frame = framed(state_of_tree)


def play_split(world: World, case: Any) -> Frames:
    """A tree with `prompts`; one of its edges, the `which`-th that is long enough, is cut."""
    prompts, which, at = case
    root = planted(world, prompts)
    if (cut := edge_to_cut(root, which, at)) is None:
        return
    node, at = cut
    caption = f"cut {edge(node)} after {at}"
    yield _frame("before", root)
    upper = world["split"](node, at)
    seen = {"what is returned": edge(upper), "the old node": edge(node)}
    yield _frame(caption, root, seen | {"the path to what is returned": path_tokens(upper, root)})


def _called(world: World, verb: str, what: str, root: Any, *given: list[int]) -> tuple[CaseFrame, list[Any]]:
    """The frame of a call with lists of the caller, which returns a node and `what`; and all lists that it has then."""
    caption = f"{verb} {' in slots '.join(map(bracketed, given))}"
    result = world[verb](root, *given)
    node, other = two(result)
    found = as_list(other) if what == "the slots" else copy.copy(other)
    seen = {
        "what is returned": kinds(result), what: found, **state_of_tree(root),
        "the path to the node": path_tokens(node, root), "the node": edge(node),
        "the caller's lists, which must not change": copy.deepcopy(given),
    }  # fmt: skip
    return CaseFrame(caption, seen, root), [*given, other]


def _reused(root: Any, lists: Sequence[Any]) -> CaseFrame:
    """The last frame: the caller uses its lists, and those that it was given, for something else."""
    spoil(*lists)
    return _frame("after the calls, the caller uses its lists for something else", root)


def asking(verb: str, what: str) -> Play:
    """A play of a tree with `prompts`, in which each of `queries` is asked for; `what` is what that finds.

    In a case that has more than these two, the caller then uses its lists for something else.
    """

    def play(world: World, case: Any) -> Frames:
        prompts, queries, *more = case
        root, lists = planted(world, prompts), list[Any]()
        yield _frame("before", root)
        for query in queries:
            frame, held = _called(world, verb, what, root, numbers(query))
            lists += held
            yield frame
        if more:
            yield _reused(root, lists)

    return play


def play_insert(world: World, case: Any) -> Frames:
    """The prompts come one after the other into an empty tree; at `None` the caller uses its lists otherwise."""
    root, lists = world["Node"]([], []), list[Any]()
    for tokens, slots in with_slots([prompt for prompt in case if prompt is not None]):
        frame, held = _called(world, "insert", "what was cached already", root, tokens, slots)
        lists += held
        yield frame
    if None in case:
        yield _reused(root, lists)


def nodes_looked_at(world: World) -> int:
    """How many children are looked at while a prompt is walked in a tree whose root has a hundred."""
    plain_node, (children, tally) = world["Node"], counting(dict)

    class Counting(plain_node):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **named: Any):
            super().__init__(*args, **named)
            self.children = children()

    with patch.dict(world, Node=Counting):
        root, slots = world["Node"]([], []), [0, 0, 0]
        for prompt in [*([first, 200, 201] for first in range(100)), [7, 200, 202]]:
            world["insert"](root, prompt, slots)
        tally[0] = 0
        world["walk"](root, [7, 200, 202, 5])
        return tally[0]


PIECES = (
    Piece(
        "3.1", "split", play_split,
        cases=[(_NEAR, 0, 2), (FORK, 0, 0), (["123", "45"], 1, 0), (FORK, 1, 0), (["1234", "12"], 1, 0)],
        strategy=st.tuples(PROMPTS, st.integers(0, 9), st.integers(0, 9)),
    ),
    Piece(
        "3.2", "walk", asking("walk", "the length"),
        cases=[([], ["1"]), (_NEAR, ["12345"]), (["12"], ["123"]), (_NEAR, ["9"]), (_NEAR, ["129"]),
               (FORK, ["123789", "12346"]), (DEEP, ["1" * DEEP])],
        strategy=ASKED,
        cost=Cost("children looked at", nodes_looked_at, 3,
                  "the dictionary finds the child by its first token: you don't need to look at the others"),
    ),
    Piece(
        "3.3", "insert", play_insert,
        cases=[["123"], FORK, ["123", "123"], ["123", "12"], ["12", "123"], ["123", "45", "45", None]],
        strategy=PROMPTS,
    ),
    Piece(
        "3.4", "match", asking("match", "the slots"),
        cases=[(FORK, ["12378"]), (_NEAR, ["129"]), (_NEAR, ["9"]), ([], [""]),
               (["12", "1234", "123456"], ["1234567"]), (FORK, ["12", "12345", "9"], None), (DEEP, ["1" * DEEP])],
        strategy=ASKED,
    ),
    *MORE,
)  # fmt: skip


def radix_nodes(prompts: Sequence[Sequence[int]]) -> int:
    """How many nodes, not counting the root, a radix tree has after these prompts were inserted.

    >>> radix_nodes([[1, 2, 3], [1, 2, 4]])
    3
    """
    ends = {tuple(prompt) for prompt in prompts}
    forks = {tuple(a[: common_prefix(a, b)]) for a in prompts for b in prompts}
    return len((ends | forks) - {()})


def _advice(right: Played) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    nodes, has_cut, has_branch, is_asked = 0, False, False, False
    for call, count in (frame.thing for frame in right.frames):
        made, nodes = count - nodes, count
        if call.verb == "insert":
            is_new = call.result.length > call.result.prefix_length
            has_cut = has_cut or made > is_new
            has_branch = has_branch or (is_new and made > 1)
        is_asked = is_asked or (has_branch and call.verb == "match_prefix")
    if not has_cut:
        return "no insert splits an edge here: let a prompt part from an earlier one in the middle"
    if not has_branch:
        return "an edge is split, but the new prompt ends at the cut, so nothing new is added there"
    return None if is_asked else "after the split, ask for the new prompt with a match"


EXERCISES = (
    exercise(
        "3.5", "radix_nodes", radix_nodes,
        cases=[([],), ([[1, 2, 3]],), ([[1], [2]],), ([[1, 2], [1, 2]],), ([[1, 2, 3], [1, 2, 4]],),
               ([[1, 2, 3], [1, 2]],)],
        strategy=st.tuples(st.lists(st.lists(st.integers(0, 1), max_size=5), max_size=5)),
    ),
    engine_hunt(
        "3.6", "careless_walk", ("3.2", "splits, and returns the lower part"),
        Calls(lambda world: world["RadixCache"](), ("insert", "match_prefix"),
              note=lambda cache: len(cache.nodes())),
        advice=_advice,
    ),
)  # fmt: skip
