"""The changes of an operation in the tree and in the pool: new nodes, removed nodes, and moved slots.

A node is followed by its slots. Those that have left the tree take their node, or the end of it, along; it stays in
the picture for one frame, as a ghost at its old place. Slots that are in another node now were split off, where that
node is new, or joined to it.

    before        after a split        after a join       after an eviction      after a trim
    [1 2]         [1]     split        [1 2 3]  joined    [1 2]                  [1]
    └─ [3]        └─ [2]  split                           └─ (ghost of [3])      └─ (ghost of [2])
                     └─ [3]

An operation that called others changed what they changed, one after the other: what a manager split, evicted and
cached again in the same slots cannot be seen from the two ends alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from minikv.course.film.state import State
from minikv.testing.snapshot import Label, NodeView, label_of, shorten, token_order

WENT, REMOVED = {"evict": "evicted", "reset": "forgotten"}, "removed"
MOST_NAMES = 12
# Events name their step, which is known later: it may be that of a larger operation.
BY, AT = "by step {step} ({op})", "at step {step} ({op})"
NodeEvent = tuple[int, str]
SlotEvent = tuple[int, str, str]  # the slot, an event of the palette, and words


@dataclass
class Changes:
    """The nodes that an operation made, cut, joined, shortened or removed, and the events of nodes and slots.

    `splits` has (upper, lower) pairs; `joined`, for each node that is a part of another one now, which one; `gone` a
    word for each node that went. A ghost is what left the tree of a node, and where it hangs: on the node itself where
    that was only cut short.
    """

    new: list[int] = field(default_factory=list)
    splits: list[tuple[int, int]] = field(default_factory=list)
    grown: list[int] = field(default_factory=list)
    gone: dict[int, str] = field(default_factory=dict)
    joined: dict[int, int] = field(default_factory=dict)
    ghosts: dict[int, tuple[NodeView, int | None]] = field(default_factory=dict)
    nodes: list[NodeEvent] = field(default_factory=list)
    slots: list[SlotEvent] = field(default_factory=list)

    @property
    def trimmed(self) -> list[int]:
        """The nodes that lost their end."""
        return [key for key, (_, above) in self.ghosts.items() if above == key]

    @property
    def words(self) -> list[str]:
        """Each change in words; empty when no node came, went or was cut."""
        split = [f"n{lower} split: its beginning is now n{upper}" for upper, lower in self.splits]
        joined = [
            f"{_names(key for key in self.joined if self.joined[key] == lower)} joined into n{lower}"
            for lower in dict.fromkeys(self.joined.values())
        ]
        went = [([key for key in self.gone if self.gone[key] == word], word) for word in (*WENT.values(), REMOVED)]
        lists = [*went, (self.trimmed, "cut short"), (self.new, "new"), (self.grown, "grew")]
        return [*split, *joined, *(f"{_names(keys)} {word}" for keys, word in lists if keys)]

    def then(self, later: Changes) -> Changes:
        """These changes and then `later` ones, as those of one operation."""
        went, ghosts = later.gone.keys() | later.joined.keys(), {**self.ghosts, **later.ghosts}
        for key in self.trimmed:
            if key in later.ghosts:
                (end, _), (rest, above) = self.ghosts[key], later.ghosts[key]
                ghosts[key] = replace(rest, tokens=rest.tokens + end.tokens, slots=rest.slots + end.slots), above
        return Changes(
            [key for key in dict.fromkeys([*self.new, *later.new]) if key not in went],
            [*self.splits, *later.splits],
            [key for key in dict.fromkeys([*self.grown, *later.grown]) if key not in went],
            {**self.gone, **later.gone},
            {**{key: later.joined.get(into, into) for key, into in self.joined.items()}, **later.joined},
            ghosts,
            self.nodes + later.nodes,
            self.slots + later.slots,
        )


def _names(keys: Iterable[int]) -> str:
    return shorten([f"n{key}" for key in keys], MOST_NAMES)


def compare(before: State, after: State, verb: str = "") -> Changes:
    """Return the changes from one state to the next; removals are named after `verb`.

    >>> from minikv import RadixCache
    >>> from minikv.course.film.state import StateReader
    >>> cache = RadixCache()
    >>> _, reader = cache.insert([1, 2, 3], [0, 1, 2]), StateReader([cache], None, None)
    >>> before = reader.read()
    >>> _ = cache.match_prefix([1, 2, 9])
    >>> compare(before, reader.read()).splits
    [(2, 1)]
    """
    changes, old = Changes(), before.held
    if before == after:
        return changes
    stayed = {slot: home for slot, (home, token) in after.held.items() if slot in old and old[slot][1] == token}
    for key, above in before.parents.items():
        if above is not None:
            _follow(key, before, after, stayed, changes, WENT.get(verb, REMOVED))
    if changes.gone:  # a namespace's root goes with the last of its nodes
        roots = (key for key, above in before.parents.items() if above is None and key not in after.nodes)
        changes.ghosts.update({root: (before.nodes[root], None) for root in roots})
    for key, node in after.nodes.items():
        came = not all(slot in stayed for slot in _numbers(node).values())
        if after.parents[key] is not None and (key not in before.nodes or key in changes.gone):
            changes.new += [key] * (came or not node.slots)
        elif came:
            changes.grown.append(key)
    changes.nodes += _node_events(before, after, changes)
    changes.slots += _slot_events(before, after, stayed, changes, WENT.get(verb, REMOVED))
    return changes


def _numbers(node: NodeView) -> dict[int, int]:
    """The slots of a node by their place in it; a learner's node may have other things among them."""
    return {i: slot for i, slot in enumerate(node.slots) if isinstance(slot, int)}


def _follow(key: int, before: State, after: State, stayed: dict[int, int], changes: Changes, word: str) -> None:
    """Where a node of before is now: whole, in parts, in another node, or gone with what has left the tree of it."""
    old = before.nodes[key]
    homes = {i: stayed.get(slot) for i, slot in _numbers(old).items()}
    parts = list(dict.fromkeys(home for home in homes.values() if home is not None))
    lost = [i for i, home in homes.items() if home is None]
    if key in after.nodes and (parts or not homes):
        if lost:
            changes.ghosts[key] = _part(old, lost, f"end of {old.name}"), key
    elif lost or not homes:
        changes.gone[key] = word
        ghost = _part(old, lost, old.name) if parts else old
        changes.ghosts[key] = ghost, parts[-1] if parts else before.parents[key]
        parts.append(key)
    elif len(parts) == 1 and after.nodes[parts[0]].slots != old.slots:
        changes.joined[key] = parts[0]
    pairs = pairwise(parts)
    changes.splits += [(upper, lower) for upper, lower in pairs if not before.nodes.keys() >= {upper, lower}]


def _part(old: NodeView, places: list[int], name: str) -> NodeView:
    tokens = [old.tokens[i] for i in places if i < len(old.tokens)]
    return replace(old, tokens=tokens, slots=[old.slots[i] for i in places], name=name)


def _node_events(before: State, after: State, changes: Changes) -> Iterator[NodeEvent]:
    """Yield the events of each node, except for its locks."""
    for upper, lower in changes.splits:
        if upper not in before.nodes:
            yield upper, f"split off n{lower} {AT}"
    yield from ((lower, f"split {AT}, its beginning is now n{upper}") for upper, lower in changes.splits)
    for key, lower in changes.joined.items():
        yield key, f"joined into n{lower} {AT}"
        yield lower, f"joined {AT}, n{key} is a part of it now"
    yield from ((key, f"{word} {BY}") for key, word in changes.gone.items())
    yield from ((key, f"inserted {BY}") for key in changes.new)
    yield from ((key, f"grew {AT}") for key in changes.grown)
    yield from ((key, f"cut to {len(after.nodes[key].tokens)} tokens {BY}") for key in changes.trimmed)


def _slot_events(
    before: State, after: State, stayed: dict[int, int], changes: Changes, word: str
) -> Iterator[SlotEvent]:
    """Yield the events of each slot that changed hands, in their necessary order."""
    handed = list(_handed(before, after))
    yield from ((slot, "taken", f"taken {BY}") for slot, is_free in handed if not is_free)
    old, new = before.held, after.held
    for slot in sorted(old.keys() | new.keys()):
        if slot not in stayed:
            if slot in old:
                yield slot, "evicted", f"{word} {BY}"
            if slot in new:
                yield slot, "new", f"cached by step {{step}} in node {new[slot][0]} ({{op}})"
        elif old[slot][0] != stayed[slot]:
            event, how = ("joined", "joined into") if old[slot][0] in changes.joined else ("split", "split to")
            yield slot, event, f"{how} node {stayed[slot]} at step {{step}}"
    yield from ((slot, "freed", "freed by step {step}") for slot, is_free in handed if is_free)


def _handed(before: State, after: State) -> Iterator[tuple[int, int]]:
    """The slots that the first pool handed out or got back, each with 1 where it is free now."""
    size = after.page_size
    for (_, old), (_, new) in list(zip(before.pools, after.pools))[:1]:
        for page, (was_free, is_free) in enumerate(zip(old, new)):
            if was_free != is_free:
                yield from ((slot, is_free) for slot in range(page * size, (page + 1) * size))


def lock_events(before: State, after: State, changes: Changes) -> Iterator[NodeEvent]:
    """Return which nodes have more or fewer locks than before; the upper part of a split has its lock from below."""
    upper_parts = {upper for upper, _ in changes.splits if upper not in before.nodes}
    for key, node in after.nodes.items():
        locks = node.ref_count - (before.nodes[key].ref_count if key in before.nodes else 0)
        if locks and key not in upper_parts:
            now = f", {node.ref_count} locks now" if node.ref_count > 1 else ""
            yield key, f"{'locked' if locks > 0 else 'unlocked'} {BY}{now}"


def marked_views(after: State, changes: Changes, path: frozenset[int], label: Label | None) -> list[NodeView]:
    """The nodes of `after` with their marks, and the ghosts of what went, parents first, as a picture needs them.

    A ghost keeps its id, unless a node has that now: then it is `-id - 1`.
    """
    marks = {
        "matched": path.difference(changes.new),
        "new": {*changes.new, *changes.grown},
        "split": {key for pair in changes.splits for key in pair},
        "joined": set(changes.joined.values()),
    }
    views = {
        key: replace(node, marks=[mark for mark in marks if key in marks[mark]]) for key, node in after.nodes.items()
    }
    parents = dict(after.parents)
    names = {key: -key - 1 if key in after.nodes else key for key in changes.ghosts}
    for key, (ghost, above) in changes.ghosts.items():
        words = label_of(ghost.tokens, label) if ghost.tokens else ghost.label
        views[names[key]] = replace(ghost, id=names[key], label=words, marks=["evicted"], ref_count=0)
        hangs_on = above if above is None or above == key else names.get(above, above)
        parents[names[key]] = None if hangs_on is None else changes.joined.get(hangs_on, hangs_on)
    return _in_order(views, parents)


def _in_order(views: dict[int, NodeView], parents: dict[int, int | None]) -> list[NodeView]:
    """Parents first, children in token order; what hung on a node that cannot be found hangs on the first root."""
    root = next((key for key, parent in parents.items() if parent is None), None)
    below: dict[int | None, list[int]] = {}
    for key, parent in parents.items():
        below.setdefault(parent if parent is None or parent in views else root, []).append(key)
    ordered = []
    stack: list[tuple[int, int | None]] = [(key, None) for key in reversed(below.get(None, []))]
    while stack:
        key, place = stack.pop()
        ordered.append(replace(views[key], parent=place, marks=list(views[key].marks)))
        here = len(ordered) - 1
        children = sorted(below.get(key, []), key=lambda child: token_order(views[child].tokens))
        stack.extend((child, here) for child in reversed(children))
    return ordered
