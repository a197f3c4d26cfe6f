"""The pieces of chapter 03: a trie, a radix tree, and a reply that goes through it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.ch02 import ANSWERED, answering
from minikv.course.pieces.hunt import Calls, CallsMade, engine_hunt
from minikv.course.pieces.piece import Cost, Frames, Piece, Play, Shown, called, exercise, one_call
from minikv.course.pieces.props import (
    ASKED,
    DEEP,
    FORK,
    PROMPT,
    PROMPTS,
    edge_to_cut,
    numbers,
    planted,
    preorder,
    up_to,
    with_slots,
)
from minikv.engine import World
from minikv.tokens import common_prefix


def play_common(world: World, case: Any) -> Frames:
    """Two prompts are compared, as they are and in the other order."""
    for one, other in (case, case[::-1]):
        yield called(world, "common", a=numbers(one), b=numbers(other))


def play_trie_add(world: World, case: Any) -> Frames:
    """The prompts come one after the other into an empty trie."""
    root = world["TrieNode"]()
    for prompt in case:
        yield called(world, "trie_add", root=root, tokens=numbers(prompt))


def play_split(world: World, case: Any) -> Frames:
    """A tree with `prompts`; one of its edges, the `which`-th that is long enough, is cut."""
    prompts, which, at = case
    root = planted(world, prompts)
    yield Shown("before", {"root": root})
    if cut := edge_to_cut(root, which, at):
        yield called(world, "split", node=cut[0], at=cut[1], also={"root": root})


def asking(verb: str) -> Play:
    """A play of a tree with `prompts`, in which each of `queries` is asked for."""

    def play(world: World, case: Any) -> Frames:
        prompts, queries = case
        root = planted(world, prompts)
        yield Shown("before", {"root": root})
        for query in queries:
            yield called(world, verb, root=root, tokens=numbers(query))

    return play


def play_insert(world: World, case: Any) -> Frames:
    """The prompts come one after the other into an empty tree."""
    root = world["Node"]([], [])
    for tokens, slots in with_slots(case):
        yield called(world, "insert", root=root, tokens=tokens, slots=slots)


def seen_of_tree(root: Any, pool: Any, _: Any, free: set[int]) -> dict[str, Any]:
    """Describe a tree after an answer, whichever slots were taken, and those that are lost or there twice."""
    edges = sorted((tuple(node.tokens), tuple(node.parent.tokens)) for node in preorder(root))
    strays = [node.tokens for above in [root, *preorder(root)] for node in above.children.values()
              if node.parent is not above]  # fmt: skip
    return {
        "each edge and its parent's edge": edges,
        "edges with the wrong parent": strays,
        **slots_lost_or_twice(root, pool, free),
    }


def slots_lost_or_twice(root: Any, pool: Any, slots: set[int]) -> dict[str, Any]:
    """Those of `slots` that are neither free nor in the tree, and those that are there twice, or should not be."""
    times = Counter([*pool.stack, *(slot for node in preorder(root) for slot in node.slots)])
    return {
        "slots neither free nor in the tree": sorted(slots - set(times)),
        "slots in two places": [slot for slot, count in times.items() if count > 1 or slot not in slots],
    }


_PATH = range(60)
_ASIDE = [[*_PATH[:depth], aside] for depth in _PATH for aside in range(200, 230)]  # each node has the next one last

PIECES = (
    Piece(
        "3.1", play_common,
        cases=[("12", "12"), ("12", "123"), ("1923", "1123"), ([700, 800], [700, 900]),
               ([(1, 2), (3, 4)], [(1, 2), (3, 5)]),
               ("1" * DEEP, "1" * DEEP)],
        strategy=st.tuples(PROMPT, PROMPT),
        cost=Cost("steps for 300 tokens", [([*range(300)], [*range(300)])],
                  "compare token by token: a slice that grows is copied and compared from the start each time"),
    ),
    Piece(
        "3.2", play_trie_add,
        cases=[["1"], ["1" * DEEP]],
        strategy=PROMPTS,
    ),
    Piece(
        "3.3", play_split,
        cases=[(["12345"], 0, 2), (FORK, 0, 0)],
        strategy=st.tuples(PROMPTS, up_to(9), up_to(9)),
    ),
    Piece(
        "3.4", asking("walk"),
        cases=[([], ["1"]), (["12345"], ["129"]), (FORK, ["123789", "12346"]), (DEEP, ["1" * DEEP])],
        strategy=ASKED,
        cost=Cost("steps down a long path", [(_ASIDE, [_PATH]), (300, ["1" * 300])],
                  "the dictionary finds the child; compare no more tokens than the child has", 3),
    ),
    Piece(
        "3.5", play_insert,
        cases=[["123"], FORK],
        strategy=PROMPTS,
    ),
    Piece(
        "3.6", asking("match"),
        cases=[(FORK, ["12378"]), (["12", "1234", "123456"], ["1234567"]), (DEEP, ["1" * DEEP])],
        strategy=ASKED,
        cost=Cost("steps down 300 nodes", [(300, ["1" * 300])],
                  "add each node's slots to one list: a new list for each node copies all earlier slots again"),
    ),
    Piece(
        "3.7", answering("reply", lambda world, _: world["Node"]([], []), seen_of_tree),
        cases=[[("12", "34")], [("12", "")], [("12345", "6"), ("123", "45")],
               [("1", "2"), ("1", "3"), ("12", "4")]],
        strategy=ANSWERED,
    ),
    Piece(
        "3.8", one_call("pages_of", names="tokens size"),
        cases=[([1, 2, 3, 4], 2)],
        strategy=st.tuples(st.lists(up_to(300), max_size=9), st.integers(1, 4)),
        cost=Cost("steps for 500 pages", [([*range(1000)], 2)],
                  "cut each page out of `tokens` itself: don't copy the remaining tokens for each page"),
    ),
)  # fmt: skip


def radix_nodes(prompts: Sequence[Sequence[int]]) -> int:
    """How many nodes, not counting the root, a radix tree has after these prompts were inserted.

    >>> radix_nodes([[1, 2, 3], [1, 2, 4]])
    3
    """
    ends = {tuple(prompt) for prompt in prompts}
    forks = {tuple(a[: common_prefix(a, b)]) for a in prompts for b in prompts}
    return len((ends | forks) - {()})


def _advice(right: CallsMade) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    nodes, has_cut, has_branch, is_asked = 0, False, False, False
    for call, count in right:
        made, nodes = count - nodes, count
        if call.verb == "insert":
            is_new = call.result.length > call.result.prefix_length
            has_cut = has_cut or made > is_new
            has_branch = has_branch or (is_new and made > 1)
        is_asked = is_asked or (has_branch and call.verb == "match_prefix")
    if not has_cut:
        return "no insert splits an edge here: let a prompt diverge from an earlier one in the middle of its edge"
    if not has_branch:
        return "an edge is split, but the new prompt ends at the cut, so nothing new is added there"
    return None if is_asked else "after the split, look up the new prompt"


EXERCISES = (
    exercise(
        "3.9", radix_nodes,
        cases=[([],)],
        strategy=st.tuples(st.lists(st.lists(up_to(1), max_size=5), max_size=5)),
    ),
    engine_hunt(
        "3.10", "careless_walk", "3.4 splits, and returns the lower part",
        Calls(lambda world: world["RadixCache"](), ("insert", "match_prefix"),
              note=lambda cache: len(cache.nodes())),
        advice=_advice,
    ),
)  # fmt: skip
