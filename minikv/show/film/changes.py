"""What an operation changed: found by comparing the tree and the pool before and after, not by asking either.

A node is split when a node of before is now two on one path, gone when its slots left the tree, trimmed when only
its end did. Gone nodes stay in the picture for one frame, as ghosts at their old place.

    before        after a split        after an eviction      after a trim
    [1 2 3]       [1 2]   split        (ghost of [1 2 3])     [1 2]
                  └─ [3]  split                               └─ (ghost of [3])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from minikv.show.film.state import Label, State
from minikv.show.snapshot import NodeView, label_of, nodes_of, plain, token_order

WENT = {"evict": "evicted", "reset": "forgotten"}


@dataclass
class Changes:
    """Which nodes an operation made, cut, cut short or took away; `splits` has (upper, lower) pairs."""

    new: list[int] = field(default_factory=list)
    splits: list[tuple[int, int]] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    trimmed: dict[int, NodeView] = field(default_factory=dict)  # by node, the part that went
    grown: list[int] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        """Each change in words; empty when no node came, went or was cut."""
        split = [f"n{lower} split: its beginning is now n{upper}" for upper, lower in self.splits]
        lists = [(self.new, "new"), (self.grown, "grew"), (self.gone, "evicted"), (list(self.trimmed), "cut short")]
        return split + [f"{' '.join(f'n{key}' for key in keys)} {word}" for keys, word in lists if keys]


def compare(before: State, after: State, label: Label | None) -> Changes:
    """What changed in the tree.

    >>> from minikv import RadixCache
    >>> from minikv.show.film.state import Looker
    >>> cache = RadixCache()
    >>> _, looker = cache.insert([1, 2, 3], [0, 1, 2]), Looker([cache], None, None)
    >>> before = looker.look()
    >>> _ = cache.match_prefix([1, 2, 9])
    >>> compare(before, looker.look(), None).splits
    [(2, 1)]
    """
    changes = Changes()
    fresh = {key for key in after.nodes if key not in before.nodes}
    for key, node in after.nodes.items():
        if key in before.nodes and node.tokens != before.nodes[key].tokens:
            _compare_edge(key, before, after, fresh, changes, label)
    uppers = {key for pair in changes.splits for key in pair} & fresh
    roots = {key for key, parent in after.parents.items() if parent is None}
    changes.new = [key for key in after.nodes if key in fresh - uppers - roots]
    kept = after.owners
    for key, node in before.nodes.items():
        moved = bool(node.slots) and all(slot in kept for slot in node.slots)
        if key not in after.nodes and before.parents[key] is not None and not moved:
            changes.gone.append(key)
    return changes


def _compare_edge(
    key: int, before: State, after: State, fresh: set[int], changes: Changes, label: Label | None
) -> None:
    old, new = before.nodes[key], after.nodes[key]
    cut = len(old.tokens) - len(new.tokens)
    if cut <= 0:
        changes.grown.append(key)
        return
    above, parts = after.parents[key], [*new.tokens]
    uppers: list[int] = []
    while above in fresh and len(parts) < len(old.tokens):  # the usual split: the lower part keeps the id
        parts = after.nodes[above].tokens + parts
        uppers.append(above)
        above = after.parents[above]
    if uppers and parts == old.tokens:
        changes.splits += [(upper, key) for upper in uppers]
        return
    rest = old.tokens[len(new.tokens) :]
    below = [k for k in fresh if after.parents[k] == key and after.nodes[k].tokens == rest]
    if below:  # a split in which the upper part keeps the id
        changes.splits += [(key, lower) for lower in below]
        return
    tail = old.slots[len(new.slots) :]
    changes.trimmed[key] = NodeView(label_of(rest, label), None, rest, tail, id=-key - 1, name=f"end of n{key}")


def marked_views(before: State, after: State, changes: Changes, path: set[int]) -> list[NodeView]:
    """The nodes of `after` with their marks, and the ghosts of what went, parents first, as a picture needs them."""
    split = {key for pair in changes.splits for key in pair}
    marks = {
        "matched": path - set(changes.new),
        "new": {*changes.new, *changes.grown},
        "split": split,
    }
    views: dict[int, NodeView] = {}
    parents: dict[int, int | None] = {}
    for key, node in after.nodes.items():
        views[key] = replace(node, marks=[mark for mark in marks if key in marks[mark]])
        parents[key] = after.parents[key]
    for key in _ghosts(before, after, changes):
        views[key] = replace(before.nodes[key], marks=["evicted"], ref_count=0)
        parents[key] = before.parents[key]
    for key, end in changes.trimmed.items():
        views[-key - 1], parents[-key - 1] = replace(end, marks=["evicted"]), key
    return _in_order(views, parents)


def _ghosts(before: State, after: State, changes: Changes) -> list[int]:
    """What went, and the roots that went with it."""
    wanted = set(changes.gone)
    for key in changes.gone:
        above = before.parents[key]
        while above is not None and above not in after.nodes and above not in wanted:
            wanted.add(above)
            above = before.parents[above]
    return [key for key in before.nodes if key in wanted]


def _in_order(views: dict[int, NodeView], parents: dict[int, int | None]) -> list[NodeView]:
    below: dict[int | None, list[int]] = {}
    for key, parent in parents.items():
        below.setdefault(parent, []).append(key)
    ordered: list[NodeView] = []
    stack: list[tuple[int, int | None]] = [(key, None) for key in reversed(below.get(None, []))]
    while stack:
        key, place = stack.pop()
        ordered.append(replace(views[key], parent=place, marks=list(views[key].marks)))
        here = len(ordered) - 1
        children = sorted(below.get(key, []), key=lambda child: token_order(views[child].tokens))
        stack.extend((child, here) for child in reversed(children))
    return ordered


# -- what happened to each node and to each slot, for their stories ------------------------------------------------


def node_events(before: State, after: State, changes: Changes, op: str, verb: str, step: int) -> list[tuple[int, str]]:
    """(node, what happened to it) for every node that something happened to."""
    by, at = f"by step {step} ({op})", f"at step {step} ({op})"
    off = {upper for upper, _ in changes.splits if upper not in before.nodes}
    events = [(upper, f"split off n{lower} {at}") for upper, lower in changes.splits if upper in off]
    events += [(lower, f"split {at}, its beginning is now n{upper}") for upper, lower in changes.splits]
    events += [(key, f"inserted {by}") for key in changes.new] + [(key, f"grew {at}") for key in changes.grown]
    events += [(key, f"{WENT.get(verb, 'removed')} {by}") for key in changes.gone]
    events += [(key, f"cut to {len(after.nodes[key].tokens)} tokens {by}") for key in changes.trimmed]
    for key, node in after.nodes.items():
        locks = node.ref_count - (before.nodes[key].ref_count if key in before.nodes else 0)
        if locks and key not in off:
            now = f", {node.ref_count} locks now" if node.ref_count > 1 else ""
            events.append((key, f"{'locked' if locks > 0 else 'unlocked'} {by}{now}"))
    return events


def slot_events(before: State, after: State, op: str, verb: str, step: int) -> list[tuple[int, str]]:
    """(slot, what happened to it) for every slot that changed hands, in the order in which it must have happened."""
    taken, freed = _handed(before, after)
    was, now = before.owners, after.owners
    found = [(slot, f"taken by step {step} ({op})") for slot in taken]
    for slot in sorted(was.keys() | now.keys()):
        old, new = was.get(slot), now.get(slot)
        if old is None and new is not None:
            found.append((slot, f"cached by step {step} in node {new} ({op})"))
        elif new is None:
            found.append((slot, f"{WENT.get(verb, 'removed')} by step {step} ({op})"))
        elif old != new:
            found.append((slot, f"split to node {new} at step {step}"))
    return found + [(slot, f"freed by step {step}") for slot in freed]


def _handed(before: State, after: State) -> tuple[list[int], list[int]]:
    """The slots that the first pool handed out, and those that it got back."""
    taken: list[int] = []
    freed: list[int] = []
    for old, new in list(zip(before.pools, after.pools))[:1]:
        for i, (was_free, is_free) in enumerate(zip(old.free, new.free)):
            if was_free != is_free:
                (freed if is_free else taken).extend(range(i * old.page_size, (i + 1) * old.page_size))
    return taken, freed


def path_of(result: Any, state: State, number: Callable[[Any], int]) -> set[int]:
    """The ids on the path that a call returned; of a learner's result, the nodes whose slots it has."""
    try:
        path = {number(node) for node in nodes_of(result)}
    except TypeError:
        path = set()
    if path or (not hasattr(result, "__iter__") and not hasattr(result, "slots")):
        return path & set(state.nodes)
    try:
        found = getattr(result, "slots", result)
        parts = found if isinstance(found, tuple) else (found,)
        slots = {int(slot) for part in parts if not isinstance(part, int) for slot in plain(part)}
    except (TypeError, ValueError):
        return set()
    return {key for key, node in state.nodes.items() if node.slots and slots.issuperset(node.slots)}
