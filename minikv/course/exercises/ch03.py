"""The exercises of chapter 03: the shape of a radix tree, and a split that gets lost."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from minikv.course.exercises.ch00 import shared_prefix
from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.course.exercises.judge import Script
from minikv.prefix import RadixCache


def radix_nodes(prompts: Sequence[Sequence[int]]) -> int:
    """How many nodes, not counting the root, a radix tree has after these prompts were inserted.

    >>> radix_nodes([[1, 2, 3], [1, 2, 4]])
    3
    """
    tree = Tree()
    for prompt in prompts:
        tree.insert(list(prompt), list(range(len(prompt))))
    count, stack = -1, [tree.root]
    while stack:
        count += 1
        stack.extend(stack.pop().children.values())
    return count


class Node:
    """A node of `Tree`: a run of tokens, their slots, and the nodes below by first token."""

    def __init__(self, tokens: list[int], slots: list[int]):
        self.tokens, self.slots = tokens, slots
        self.children: dict[int, Node] = {}


class Tree:
    """A radix tree as chapter 03 builds it: `insert` gives the length that was there, `match` the cached slots."""

    def __init__(self) -> None:
        self.root = Node([], [])

    def insert(self, tokens: list[int], slots: list[int]) -> int:
        """Cache `tokens` in `slots`; how many were cached already."""
        node, at = self.root, 0
        while at < len(tokens) and tokens[at] in node.children:
            child = node.children[tokens[at]]
            same = shared_prefix(child.tokens, tokens[at:])
            at += same
            if same < len(child.tokens):
                node = self.after_split(node, child, same)
                break
            node = child
        if at < len(tokens):
            node.children[tokens[at]] = Node(tokens[at:], slots[at:])
        return at

    def after_split(self, parent: Node, child: Node, same: int) -> Node:
        """Cut `child` after `same` tokens; the node that a new branch must hang on: the upper part."""
        return self.split(parent, child, same)

    def split(self, parent: Node, child: Node, same: int) -> Node:
        """Cut `child` after `same` tokens; the upper part, of which `child` is now the only child."""
        upper = Node(child.tokens[:same], child.slots[:same])
        child.tokens, child.slots = child.tokens[same:], child.slots[same:]
        parent.children[upper.tokens[0]] = upper
        upper.children[child.tokens[0]] = child
        return upper

    def match(self, tokens: list[int]) -> list[int]:
        """The slots of the longest cached prefix of `tokens`."""
        node, slots = self.root, list[int]()
        while len(slots) < len(tokens) and tokens[len(slots)] in node.children:
            node = node.children[tokens[len(slots)]]
            same = shared_prefix(node.tokens, tokens[len(slots) :])
            slots += node.slots[:same]
            if same < len(node.tokens):
                break
        return slots


class CarelessTree(Tree):
    """The same, but the new branch hangs on the node that was split, not on what the split returned."""

    def after_split(self, parent: Node, child: Node, same: int) -> Node:
        """Cut `child` after `same` tokens; the node that a new branch must hang on."""
        self.split(parent, child, same)
        return child


def _distinct_prompts(prompts: Sequence[Sequence[int]]) -> int:
    return len({tuple(prompt) for prompt in prompts})


def _with_the_empty_prefix(prompts: Sequence[Sequence[int]]) -> int:
    return len({tuple(a[: shared_prefix(a, b)]) for a in prompts for b in prompts})


def _joined(prompts: Sequence[Sequence[int]]) -> int:
    cache = RadixCache()
    for prompt in prompts:
        cache.insert(prompt, range(len(prompt)))
    return len(list(cache.nodes()))


def _one_a_prompt(prompts: Sequence[Sequence[int]]) -> int:
    return len(prompts)


def _one_a_token(prompts: Sequence[Sequence[int]]) -> int:
    return len({tuple(prompt[: at + 1]) for prompt in prompts for at in range(len(prompt))})


def _with_the_root(prompts: Sequence[Sequence[int]]) -> int:
    return radix_nodes(prompts) + 1


def _merging(prompts: Sequence[Sequence[int]]) -> int:
    """Leaves and forks only: forgets that a prompt which ends inside another leaves a cut there."""
    prefixes = {tuple(prompt[: at + 1]) for prompt in prompts for at in range(len(prompt))}
    children = {prefix: sum(other[:-1] == prefix for other in prefixes) for prefix in prefixes}
    return sum(count != 1 for count in children.values())


class _WatchedTree(Tree):
    """A tree that knows whether an insert has split an edge."""

    was_split = False

    def split(self, parent: Node, child: Node, same: int) -> Node:
        """Cut `child` after `same` tokens, and remember that."""
        self.was_split = True
        return super().split(parent, child, same)


def _advice(script: Script) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    tree, has_cut, has_branch, is_asked = _WatchedTree(), False, False, False
    for verb, given in script.operations:
        tree.was_split = False
        result = getattr(tree, verb)(*given)
        has_cut = has_cut or tree.was_split
        has_branch = has_branch or (tree.was_split and result < len(given[0]))
        is_asked = is_asked or (has_branch and verb == "match")
    if not has_cut:
        return "no insert splits an edge here: let a prompt part from an earlier one in the middle"
    if not has_branch:
        return "an edge is split, but the new prompt ends at the cut, so nothing new hangs there"
    return None if is_asked else "after the split, ask for the new prompt with a match"


def _no_split() -> Script:
    return Script((), (("insert", ([1, 2], [0, 1])), ("insert", ([5, 6], [2, 3])), ("match", ([5, 6],))))


def _only_the_old() -> Script:
    return Script((), (("insert", ([1, 2], [0, 1])), ("insert", ([1, 9], [2, 3])), ("match", ([1, 2],))))


EXERCISES = (
    Exercise(
        id="3.5",
        name="radix_nodes",
        reference=radix_nodes,
        cases=[([],), ([[1, 2, 3]],), ([[1], [2]],), ([[1, 2], [1, 2]],), ([[1, 2, 3], [1, 2, 4]],),
               ([[1, 2, 3], [1, 2]],), ([[1, 2, 3], [1, 2, 4], [1, 5]],), ([[]],)],
        strategy=st.tuples(st.lists(st.lists(st.integers(0, 1), max_size=5), max_size=5)),
        hint="a node ends where a prompt ends and where two prompts part: count those places, each once",
        wrong=(
            Wrong(_one_a_token, "that is the trie: a node ends only where a prompt ends or where two prompts part"),
            Wrong(_merging, "a prompt that ends inside another one cuts its edge, though nothing branches there"),
            Wrong(_with_the_empty_prefix, "prompts that share nothing part at the root, and the root is not counted"),
            Wrong(_distinct_prompts, "where two prompts part, their common beginning is a node too"),
            Wrong(_joined, "RadixCache joins nodes that nothing tells apart: build the chapter's own tree, or count"),
            Wrong(_one_a_prompt, "where two prompts part, their common beginning is a node too; equal prompts share"),
            Wrong(_with_the_root, "the root holds no tokens and is not counted"),
        ),
    ),
    Hunt(
        id="3.6",
        name="CarelessTree",
        careless=CarelessTree,
        reference=Tree,
        example=Script((), (("insert", ([1, 2], [0, 1])), ("insert", ([1, 9], [2, 3])), ("match", ([1, 2, 9],)))),
        hint="make an insert split an edge, think where its new branch hangs now, and walk there",
        advice=_advice,
        wrong=(
            Wrong(_no_split, "these two prompts share nothing, so no edge is split"),
            Wrong(_only_the_old, "the old prompt is still found; what about the new one?"),
        ),
    ),
)  # fmt: skip
