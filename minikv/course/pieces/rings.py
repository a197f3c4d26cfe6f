"""The plays of chapter 05 that need only a ring and its nodes, and what can be seen of a ring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

from minikv.course.pieces.identity import ALL_RIGHT, kept, named, path_tokens
from minikv.course.pieces.observe import bracketed, edge, kinds, listed, outline, planted, preorder, state_of_tree
from minikv.course.pieces.piece import CaseFrame, Frames
from minikv.course.pieces.showing import picture_of_ring, way_around
from minikv.engine import World, ours


def seen_of_ring(ring: Any) -> dict[str, Any]:
    """Return what can be seen of a ring: the way around it, and the way back."""
    return {"from the oldest to the newest": _around(ring, "newer"), "and back": _around(ring, "older")}


def _around(ring: Any, way: str) -> str:
    names = " → ".join(way_around(ring, ring, way))
    return "empty" if names == "ring → ring" else names.replace("…", "… and it never comes back to the ring")


def _ring_of(world: World, nodes: Sequence[Any]) -> Any:
    """Return a ring of these nodes, the oldest first, made with the package's `link`."""
    ring, link = world["Ring"](), ours("5.1", world)
    for node in nodes:
        link(ring, node)
    return ring


def ring_and_more(world: World, count: int, more: int) -> tuple[Any, list[Any]]:
    """Return a ring of `count` nodes of one token, and these nodes with `more` others; each has a child."""
    root = world["Node"]([], [])
    for number in range(1, count + more + 1):
        root.children[number] = node = world["Node"]([number], [90 - 7 * number], root)
        node.children[0] = world["Node"]([0], [number], node)
    kept(root)
    nodes = list(root.children.values())
    return _ring_of(world, nodes[:count]), nodes


def play_link(world: World, case: Any) -> Frames:
    """Link `new` nodes to a ring that already has `old`, one after the other."""
    old, new = case
    ring, nodes = ring_and_more(world, old, new)
    root = nodes[0].parent
    for node in nodes[old:]:
        world["link"](ring, node)
        whose = ALL_RIGHT if ring.older is node else "the ring has another node, which only looks like it"
        seen = {**seen_of_ring(ring), **state_of_tree(root), "the node in the ring": whose}
        yield CaseFrame(f"link {bracketed(node.tokens)}", seen, picture_of_ring(ring))


def play_unlink(world: World, case: Any) -> Frames:
    """Unlink the nodes numbered `out` from a ring of `count`; some are unlinked twice, or were never in the ring."""
    count, out = case
    ring, nodes = ring_and_more(world, count, 1)
    root = nodes[0].parent
    for number in out:
        node = nodes[number % len(nodes)]
        node.locks = number % 2  # a node is unlinked when it is locked
        world["unlink"](node)
        own = "itself" if node.older is node and node.newer is node else "others"
        seen = {**seen_of_ring(ring), "the neighbors of what was taken out": own, **state_of_tree(root)}
        yield CaseFrame(f"unlink {bracketed(node.tokens)}", seen, picture_of_ring(ring, node))


def play_touch(world: World, case: Any) -> Frames:
    """Touch some nodes of a tree with `prompts`; its unlocked nodes are in the ring, the deepest first."""
    prompts, locked, touched = case
    root = planted(world, prompts)
    nodes = preorder(root)
    for number in locked:
        node = nodes[number % len(nodes)]
        while node.parent is not None:
            node.locks += 1
            node = node.parent
    ring = _ring_of(world, [node for node in reversed(nodes) if not node.locks])
    yield CaseFrame("before", {**seen_of_ring(ring), **state_of_tree(root)}, picture_of_ring(ring))
    for number in touched:
        node = root if number < 0 else nodes[number % len(nodes)]
        if number % 2:  # as a node is that was made just now
            ours("5.2", world)(node)
        world["touch"](ring, node)
        yield CaseFrame(f"touch {edge(node)}", {**seen_of_ring(ring), **state_of_tree(root)}, picture_of_ring(ring))


def play_in_order(world: World, case: int) -> Frames:
    """List the nodes of a ring of `case` nodes, which are in no order of their tokens."""
    _, nodes = ring_and_more(world, case, 1)
    root, nodes = nodes[0].parent, nodes[:case]
    ring = _ring_of(world, nodes[1::2] + nodes[::2])
    found = world["in_order"](ring)
    seen = {
        "what is returned": listed(found, lambda node: named(node, str(edge(node)), nodes)),
        **seen_of_ring(ring),
        **state_of_tree(root),
    }
    yield CaseFrame(f"in_order of a ring of {case}", seen, picture_of_ring(ring))


def play_out_of_order(world: World, case: Any) -> Frames:
    """Search a ring of the nodes of a tree with `prompts`, in the order of `places`, and then in the opposite order.

    Nodes without a place stay out.
    """
    prompts, places = case
    root = planted(world, prompts)
    nodes = preorder(root)
    inside = [nodes[place] for place in dict.fromkeys(places) if place < len(nodes)]
    for node in nodes:
        node.locks = int(node not in inside)  # what is locked is in no ring
    said = f"out_of_order in the tree {outline(root)}"
    kept(root)
    for order, caption in ((inside, said), (inside[::-1], f"{said}, and then with the ring turned around")):
        ring = _ring_of(world, order)
        found = world["out_of_order"](ring)
        name = path_tokens(found) if hasattr(found, "tokens") else found and kinds(found)
        seen = {"what is returned": "None" if name is None else name, **seen_of_ring(ring), **state_of_tree(root)}
        yield CaseFrame(caption, seen, picture_of_ring(ring))


def looking(make: Callable[[World], tuple[Any, Any]], act: Callable[[World, Any, Any], object]) -> Callable[..., int]:
    """Return a count of the nodes and rings made by `make` that `act` asks for a neighbor, children or locks."""

    def count(world: World) -> int:
        seen = set[int]()

        def counting(kind: type) -> type:
            class Counting(kind):  # type: ignore[misc]
                def __getattribute__(self, name: str) -> Any:
                    if name in ("older", "newer", "children", "locks"):
                        seen.add(id(self))
                    return super().__getattribute__(name)

            return Counting

        with patch.dict(world, {name: counting(world[name]) for name in ("Node", "Ring")}):
            made = make(world)  # which also keeps the nodes alive
            seen.clear()
            act(world, *made)
            return len(seen)

    return count


def hundred(world: World) -> tuple[Any, list[Any]]:
    """Return a ring of a hundred nodes, and these nodes with one more."""
    return ring_and_more(world, 100, 1)
