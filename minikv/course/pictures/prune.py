"""Large trees: what is left out of a picture so that the rest can be read, each time with how much it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from minikv.testing.snapshot import NodeView

MOST_NODES, READABLE = 200, 60
_WIDEST, _DEEPEST = 8, 12


def pruned(views: Sequence[NodeView], depth: int | None = None, top: int | None = None) -> list[NodeView]:
    """The nodes down to `depth` levels below the root, and of each node's children the `top` ones that have most.

    What is left out is one node that says how many nodes it stands for. Children with a mark below them are kept
    first, then those with the most nodes.

    >>> tree = [NodeView("root", None), NodeView("[1]", 0), NodeView("[2]", 1), NodeView("[3]", 0)]
    >>> [view.label for view in pruned(tree, depth=1)], [view.label for view in pruned(tree, top=1)]
    (['root', '[1]', '+1 more', '[3]'], ['root', '[1]', '[2]', '+1 more'])
    """
    counts, marks, children = _below(views)
    kept: list[NodeView] = []
    stack: list[tuple[int, int | None, int]] = [(i, None, 0) for i in reversed(children[-1])]
    while stack:
        at, parent, level = stack.pop()
        if at < 0:
            kept.append(NodeView(f"+{-at} more", parent, more=-at))
            continue
        kept.append(replace(views[at], parent=parent))
        best = sorted(children[at], key=lambda child: (not marks[child], -counts[child], child))
        shown = set() if depth is not None and level >= depth else set(best[:top])
        hidden = sum(counts[child] for child in children[at] if child not in shown)
        here = len(kept) - 1
        stack += [(-hidden, here, level + 1)] * bool(hidden)
        stack += [(child, here, level + 1) for child in reversed(children[at]) if child in shown]
    return kept


def _below(views: Sequence[NodeView]) -> tuple[list[int], list[bool], list[list[int]]]:
    """For each node how many there are from it down, whether one is marked, and its children; -1 has the roots."""
    counts, marks = [1] * len(views), [bool(view.marks) for view in views]
    children: list[list[int]] = [[] for _ in range(len(views) + 1)]
    for i in range(len(views) - 1, -1, -1):
        parent = views[i].parent
        if parent is not None:
            counts[parent] += counts[i]
            marks[parent] = marks[parent] or marks[i]
        children[-1 if parent is None else parent].insert(0, i)
    return counts, marks, children


def readable(views: Sequence[NodeView]) -> list[NodeView]:
    """A tree as it is where it has at most `MOST_NODES` nodes; else so much of it that one can read it.

    >>> tree = [NodeView("root", None), *(NodeView(f"[{i}]", 0) for i in range(1000))]
    >>> len(readable(tree)), readable(tree)[-1].label
    (10, '+992 more')
    """
    if len(views) <= MOST_NODES:
        return list(views)
    found = pruned(views, 1, _WIDEST)
    for depth in range(2, _DEEPEST + 1):
        more = pruned(views, depth, _WIDEST)
        if len(more) > READABLE:
            break
        found = more
    return found
