"""The tree of a frame as a picture needs it: its nodes with their marks, and the ghosts of what went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from minikv.course.film.changes import Changes
from minikv.course.film.state import Label, State
from minikv.testing.snapshot import NodeView, label_of, nodes_of, plain, token_order


def marked_views(after: State, changes: Changes, path: frozenset[int], label: Label | None) -> list[NodeView]:
    """The nodes of `after` with their marks, and the ghosts of what went, parents first, as a picture needs them.

    A ghost keeps its id, unless a later node has it now; the end of a node has the id `-id - 1`.
    """
    marks = {
        "matched": path.difference(changes.new),
        "new": {*changes.new, *changes.grown},
        "split": {key for pair in changes.splits for key in pair},
    }
    views = {
        key: replace(node, marks=[mark for mark in marks if key in marks[mark]]) for key, node in after.nodes.items()
    }
    parents = dict(after.parents)
    names = {key: -key - 1 if key in after.nodes else key for key in changes.ghosts}
    for key, (ghost, parent) in changes.ghosts.items():
        views[names[key]] = _ghost(ghost, names[key], label)
        parents[names[key]] = None if parent is None else names.get(parent, parent)
    for key, end in changes.trimmed.items():
        views[-key - 1], parents[-key - 1] = _ghost(end, -key - 1, label), key
    return _in_order(views, parents)


def _ghost(view: NodeView, name: int, label: Label | None) -> NodeView:
    words = label_of(view.tokens, label) if view.tokens else view.label
    return replace(view, id=name, label=words, marks=["evicted"], ref_count=0)


def _in_order(views: dict[int, NodeView], parents: dict[int, int | None]) -> list[NodeView]:
    """Parents first, children in token order; what hung on a node that cannot be found hangs on the first root."""
    root = next((key for key, parent in parents.items() if parent is None), None)
    below: dict[int | None, list[int]] = {}
    for key, parent in parents.items():
        below.setdefault(parent if parent is None or parent in views else root, []).append(key)
    ordered: list[NodeView] = []
    stack: list[tuple[int, int | None]] = [(key, None) for key in reversed(below.get(None, []))]
    while stack:
        key, place = stack.pop()
        ordered.append(replace(views[key], parent=place, marks=list(views[key].marks)))
        here = len(ordered) - 1
        children = sorted(below.get(key, []), key=lambda child: token_order(views[child].tokens))
        stack.extend((child, here) for child in reversed(children))
    return ordered


def path_of(result: Any, state: State, number: Callable[[Any], int]) -> set[int]:
    """The ids on the path that a call returned; of a learner's result, the nodes whose slots it has."""
    try:
        path = {number(node) for node in nodes_of(result)}
    except TypeError:
        path = set()
    if path or (not hasattr(result, "__iter__") and not hasattr(result, "slots")):
        return path & set(state.nodes)
    found = getattr(result, "slots", result)
    slots: set[int] = set()
    for part in found if isinstance(found, tuple) else (found,):
        values = plain(part) if hasattr(part, "__iter__") else []
        slots.update(value for value in values if isinstance(value, int))
    return {key for key, node in state.nodes.items() if node.slots and slots.issuperset(node.slots)}
