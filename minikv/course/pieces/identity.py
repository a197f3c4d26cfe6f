"""The identity of nodes: is a tree still made of the nodes that were there, and is what a piece returns one of them?

A node that looks the same is not enough: locks are counted on the node itself, and the ring links to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import Any

from minikv.course.pieces.observer import ALL_RIGHT as ALL_RIGHT
from minikv.testing.attempt import type_of
from minikv.testing.snapshot import shorten

DEEPEST = 5000  # nodes on a path: a loop of parents ends here
MOST_LOOKS = 9  # roots: a play has no more
NOT_IN_TREE = "a node that is not in the tree"


# The roots that were looked at last, and all nodes below each of them then.
_looks: list[tuple[Any, dict[int, tuple[Any, list[Any]]]]] = []


def kept(*roots: Any) -> str:
    """Say whether each node below `roots` is the one that was there at the last look, or name the first that isn't.

    A node that is gone with its tokens is nobody's concern here, and one that was cut keeps the end of its edge.

    >>> from types import SimpleNamespace as Node
    >>> root = Node(tokens=[], parent=None, children={1: Node(tokens=[1, 2], children={})})
    >>> before, root.children[1] = kept(root), Node(tokens=[1, 2], children={})
    >>> kept(root)
    'the node of [1 2] is a new one: its locks and its place in the ring are lost'
    """
    said = ALL_RIGHT
    for root in roots:
        now, before = _below(root), next((nodes for known, nodes in _looks if known is root), {})
        lost = [tokens for path, (node, tokens) in before.items() if path in now and now[path][0] is not node]
        if lost:
            said = f"the node of [{shorten(lost[0])}] is a new one: its locks and its place in the ring are lost"
        _looks[:] = [*(look for look in _looks if look[0] is not root), (root, now)][-MOST_LOOKS:]
    return said


def _below(root: Any) -> dict[int, tuple[Any, list[Any]]]:
    """Each node with its tokens, by a hash of all tokens on the path to its end, which stays when an edge is cut."""
    found: dict[int, tuple[Any, list[Any]]] = {}
    ends = [(root, 0)]
    for above, path in ends:  # which grows meanwhile
        for node in list(above.children.values())[: DEEPEST - len(ends)]:
            end = path
            for token in node.tokens:
                end = hash((end, str(token)))
            found.setdefault(end, (node, list(node.tokens)))
            ends.append((node, end))
    return found


def path_tokens(node: Any, root: Any = None) -> Any:
    """All tokens from the root down to `node`; words for one that is not in the tree, `None` for what is no node.

    >>> from types import SimpleNamespace as Node
    >>> root = Node(tokens=[], parent=None, children={})
    >>> root.children[1] = Node(tokens=[1, 2], parent=root)
    >>> path_tokens(root.children[1]), path_tokens(Node(tokens=[1, 2], parent=root))
    ([1, 2], 'a node that is not in the tree')
    """
    edges = list[Any]()
    for _ in range(DEEPEST):
        if not hasattr(node, "tokens") or not hasattr(node, "parent"):
            return None
        above = node.parent
        if above is None:
            is_other = root is not None and node is not root
            return NOT_IN_TREE if is_other else [token for edge in reversed(edges) for token in edge]
        if not len(node.tokens) or above.children.get(node.tokens[0]) is not node:
            return NOT_IN_TREE
        edges.append(node.tokens)
        node = above
    return "a loop of parents"


def named(thing: Any, name: str, among: Iterable[Any]) -> str:
    """The name of a thing that must be one of those `among`; of another one it says that it is a copy.

    >>> named(3.5, "x", [3.5 + 1]), named(first := [1], "first", [first, [1]])
    ('a copy of x', 'first')
    """
    return name if any(thing is each for each in among) else f"a copy of {name}"


def spoil(*values: Any) -> None:
    """Use the lists among `values` for something else, as the caller may: nothing else may change with them.

    >>> spoil(mine := [1, 2]); mine
    [2, 1, -7]
    """
    for value in values:
        if isinstance(value, list):
            value.reverse()
            value.append(-7)
        elif isinstance(value, dict):
            value.clear()


def order_of(ring: Any) -> list[Any]:
    """The slots of the nodes in a ring, the oldest first."""
    node, found = ring.newer, list[Any]()
    while node is not ring and len(found) < DEEPEST // 20:
        found.append(list(node.slots))
        node = node.newer
    return found


def used_slots() -> Iterator[int]:
    """Slots as a pool hands them out that has been in use: in no order, with gaps, 0 among them, none of them twice.

    >>> [*islice(used_slots(), 12)], len({*islice(used_slots(), 5000)})
    ([7, 3, 4, 9, 0, 12, 20, 16, 17, 22, 13, 25], 5000)
    """
    for block in count(0, 13):
        yield from (block + slot for slot in (7, 3, 4, 9, 0, 12))


def shuffle(pool: Any) -> None:
    """Put the free pages of a pool of up to 60 pages into no order, always the same one: as if it had been in use.

    >>> from minikv.engine import engine_world
    >>> shuffle(pool := engine_world()["Pool"](8)); pool.alloc(6)
    [4, 0, 5, 1, 6, 2]
    """
    prime = 17 if pool.size < 17 else 61
    pool.stack.sort(key=lambda page: (page + 1) * 13 % prime)


def used_pool(world: Any, free: int) -> Any:
    """A pool that has been in use: `free` of its pages are free, every other one, in no order.

    >>> from minikv.engine import engine_world
    >>> used_pool(engine_world(), 4).alloc(4)
    [4, 0, 6, 2]
    """
    pool = world["Pool"](2 * free)
    pool.free(pool.alloc(2 * free)[::2])
    shuffle(pool)
    return pool


def as_list(found: Any) -> Any:
    """A copy of a list, or in words what was returned in place of one.

    >>> as_list([1]), as_list((1,)), as_list(None)
    ([1], 'a tuple, not a list', None)
    """
    return None if found is None else found[:] if isinstance(found, list) else f"{type_of(found)}, not a list"


def path_of(kind: Any, length: int) -> Any:
    """The root of a tree that is one path, with `length` nodes of a `kind` for as many ones."""
    root = node = kind([], [])
    for slot in islice(used_slots(), length):
        above, node = node, kind([1], [slot], node)
        above.children[1] = node
    return root
