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

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from minikv.course.film.state import State
from minikv.testing.snapshot import Label, NodeView, label_of, shorten, token_order

WENT, REMOVED = {"evict": "evicted", "reset": "forgotten"}, "removed"
MOST_NAMES = 12
_BY, _AT = "by step {step} ({op})", "at step {step} ({op})"
_WORDS = {  # of nodes, in the order in which they are told; and then of slots
    "upper": f"split off n{{other}} {_AT}",
    "split": f"split {_AT}, and its beginning is now n{{other}}",
    "joins": f"joined into n{{other}} {_AT}",
    "joined": f"joined {_AT}, and n{{other}} is now part of it",
    "gone": f"{{other}} {_BY}",
    "new": f"inserted {_BY}",
    "grown": f"grew {_AT}",
    "cut": f"cut to length {{other}} {_BY}",
    "locked": f"locked {_BY}{{other}}",
    "unlocked": f"unlocked {_BY}{{other}}",
    "taken": f"taken {_BY}",
    "evicted": f"{{other}} {_BY}",
    "cached": "cached by step {step} in node {other} ({op})",
    "handed": "joined into node {other} at step {step}",
    "parted": "split off into node {other} at step {step}",
    "freed": "freed by step {step}",
}
_ORDER = list(_WORDS)


class FilmEvent(NamedTuple):
    """An event of a node or of a slot, by its number; `other` is the node, or the word, that it is about.

    >>> FilmEvent(1, "split", 2).words(3, "match [1 9]")
    'split at step 3 (match [1 9]), and its beginning is now n2'
    """

    number: int
    what: str
    other: Any = None

    def words(self, step: int, op: str) -> str:
        """It in words, as that of a step and its operation."""
        return _WORDS[self.what].format(other=self.other, step=step, op=op)


@dataclass
class Changes:
    """The changes of an operation: the events of `nodes` and of `slots`, in their order, and the `ghosts`.

    A ghost is what left the tree of a node, and where it hangs: on the node itself where that was only cut short.
    """

    nodes: list[FilmEvent] = field(default_factory=list)
    slots: list[FilmEvent] = field(default_factory=list)
    ghosts: dict[int, tuple[NodeView, int | None]] = field(default_factory=dict)

    @property
    def splits(self) -> list[tuple[int, int]]:
        """Pairs of an upper and a lower part."""
        return [(event.other, event.number) for event in self.nodes if event.what == "split"]

    @property
    def gone(self) -> dict[int, str]:
        """A word for each node that went."""
        return {event.number: event.other for event in self.nodes if event.what == "gone"}

    @property
    def joined(self) -> dict[Any, int]:
        """For each node that is a part of another one now, which one."""
        found: dict[int, int] = {}
        for key, _, into in (event for event in self.nodes if event.what == "joins"):
            found = {**{part: into if whole == key else whole for part, whole in found.items()}, key: into}
        return found

    def came(self, what: str) -> list[int]:
        """The nodes that are `new`, or have `grown`, and have not gone since."""
        found: dict[int, None] = {}
        for event in self.nodes:
            if event.what == what:
                found[event.number] = None
            elif event.what in ("gone", "joins"):
                found.pop(event.number, None)
        return list(found)

    @property
    def trimmed(self) -> list[int]:
        """The nodes that lost their end."""
        return [key for key, (_, above) in self.ghosts.items() if above == key]

    @property
    def words(self) -> list[str]:
        """Each change in words; empty when no node came, went or was cut."""
        split = [f"n{lower} split: its beginning is now n{upper}" for upper, lower in self.splits]
        told = [(part, f"joined into n{whole}") for part, whole in self.joined.items()]
        told += self.gone.items()
        told += [(key, "cut short") for key in self.trimmed]
        told += [(key, "new") for key in self.came("new")]
        told += [(key, "grew") for key in self.came("grown")]
        names = defaultdict[str, list[str]](list)
        for key, words in told:
            names[words].append(f"n{key}")
        return [*split, *(f"{shorten(found, MOST_NAMES)} {words}" for words, found in names.items())]

    def then(self, later: Changes) -> Changes:
        """These changes and then `later` ones, as those of one operation."""
        ghosts = {**self.ghosts, **later.ghosts}
        for key in self.trimmed:
            if key in later.ghosts:
                (end, _), (rest, above) = self.ghosts[key], later.ghosts[key]
                ghosts[key] = replace(rest, tokens=rest.tokens + end.tokens, slots=rest.slots + end.slots), above
        return Changes(self.nodes + later.nodes, self.slots + later.slots, ghosts)


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
    changes, old, word = Changes(), before.held, WENT.get(verb, REMOVED)
    if before == after:
        return changes
    stayed = {slot: home for slot, (home, token) in after.held.items() if slot in old and old[slot][1] == token}
    for key, above in before.parents.items():
        if above is not None:
            changes.nodes += _followed(key, before, after, stayed, changes.ghosts, word)
    gone = changes.gone
    if gone:  # a namespace's root goes with the last of its nodes
        roots = (key for key, above in before.parents.items() if above is None and key not in after.nodes)
        changes.ghosts.update({root: (before.nodes[root], None) for root in roots})
    for key, node in after.nodes.items():
        came = not all(slot in stayed for slot in _numbers(node).values())
        if after.parents[key] is not None and (key not in before.nodes or key in gone):
            changes.nodes += [FilmEvent(key, "new")] * (came or not node.slots)
        elif came:
            changes.nodes.append(FilmEvent(key, "grown"))
    changes.nodes.sort(key=lambda event: _ORDER.index(event.what))
    changes.slots += _slot_events(before, after, stayed, changes.joined, word)
    return changes


def _numbers(node: NodeView) -> dict[int, int]:
    """The slots of a node by their place in it; a learner's node may have other things among them."""
    return {i: slot for i, slot in enumerate(node.slots) if isinstance(slot, int)}


def _followed(
    key: int, before: State, after: State, stayed: dict[int, int], ghosts: dict[int, Any], word: str
) -> Iterator[FilmEvent]:
    """Where a node of before is now: whole, in parts, in another node, or gone with what has left the tree of it."""
    old = before.nodes[key]
    homes = {i: stayed.get(slot) for i, slot in _numbers(old).items()}
    parts = list(dict.fromkeys(home for home in homes.values() if home is not None))
    lost = [i for i, home in homes.items() if home is None]
    if key in after.nodes and (parts or not homes):
        if lost:
            ghosts[key] = _part(old, lost, f"end of {old.name}"), key
            yield FilmEvent(key, "cut", len(after.nodes[key].tokens))
    elif lost or not homes:
        yield FilmEvent(key, "gone", word)
        ghost = _part(old, lost, old.name) if parts else old
        ghosts[key] = ghost, parts[-1] if parts else before.parents[key]
        parts.append(key)
    elif len(parts) == 1 and after.nodes[parts[0]].slots != old.slots:
        yield FilmEvent(key, "joins", parts[0])
        yield FilmEvent(parts[0], "joined", key)
    for upper, lower in pairwise(parts):
        if not before.nodes.keys() >= {upper, lower}:
            yield FilmEvent(lower, "split", upper)
            if upper not in before.nodes:
                yield FilmEvent(upper, "upper", lower)


def _part(old: NodeView, places: list[int], name: str) -> NodeView:
    tokens = [old.tokens[i] for i in places if i < len(old.tokens)]
    return replace(old, tokens=tokens, slots=[old.slots[i] for i in places], name=name)


def _slot_events(
    before: State, after: State, stayed: dict[int, int], joined: dict[int, int], word: str
) -> Iterator[FilmEvent]:
    """Yield the events of each slot that changed hands, in their necessary order."""
    handed = list(_handed(before, after))
    yield from (FilmEvent(slot, "taken") for slot, is_free in handed if not is_free)
    old, new = before.held, after.held
    for slot in sorted(old.keys() | new.keys()):
        if slot not in stayed:
            if slot in old:
                yield FilmEvent(slot, "evicted", word)
            if slot in new:
                yield FilmEvent(slot, "cached", new[slot][0])
        elif old[slot][0] != stayed[slot]:
            yield FilmEvent(slot, "handed" if old[slot][0] in joined else "parted", stayed[slot])
    yield from (FilmEvent(slot, "freed") for slot, is_free in handed if is_free)


def _handed(before: State, after: State) -> Iterator[tuple[int, int]]:
    """The slots that the first pool handed out or got back, each with 1 where it is free now."""
    size = after.page_size
    for (_, old), (_, new) in list(zip(before.pools, after.pools))[:1]:
        for page, (was_free, is_free) in enumerate(zip(old, new)):
            if was_free != is_free:
                yield from ((slot, is_free) for slot in range(page * size, (page + 1) * size))


def lock_events(before: State, after: State, changes: Changes) -> Iterator[FilmEvent]:
    """Yield which nodes have more or fewer locks than before; the upper part of a split has its lock from below."""
    upper_parts = {event.number for event in changes.nodes if event.what == "upper"}
    for key, node in after.nodes.items():
        locks = node.ref_count - (before.nodes[key].ref_count if key in before.nodes else 0)
        if locks and key not in upper_parts:
            now = f", {node.ref_count} locks now" if node.ref_count > 1 else ""
            yield FilmEvent(key, "locked" if locks > 0 else "unlocked", now)


def marked_views(after: State, changes: Changes, path: frozenset[int], label: Label | None) -> list[NodeView]:
    """The nodes of `after` with their marks, and the ghosts of what went, parents first, as a picture needs them.

    A ghost keeps its id, unless a node has that now: then it is `-id - 1`.
    """
    joined = changes.joined
    marks = {
        "matched": path.difference(changes.came("new")),
        "new": {*changes.came("new"), *changes.came("grown")},
        "split": {key for pair in changes.splits for key in pair},
        "joined": {*joined.values()},
    }
    views = {
        key: replace(node, marks=[mark for mark in marks if key in marks[mark]]) for key, node in after.nodes.items()
    }
    parents = dict(after.parents)
    names: dict[Any, int] = {key: -key - 1 if key in after.nodes else key for key in changes.ghosts}
    for key, (ghost, above) in changes.ghosts.items():
        words = label_of(ghost.tokens, label) if ghost.tokens else ghost.label
        views[names[key]] = replace(ghost, id=names[key], label=words, marks=["evicted"], ref_count=0)
        hangs_on = above if above == key else names.get(above, above)
        parents[names[key]] = joined.get(hangs_on, hangs_on)
    return _in_order(views, parents)


def _in_order(views: dict[int, NodeView], parents: dict[int, int | None]) -> list[NodeView]:
    """Parents first, children in token order; what hung on a node that cannot be found hangs on the first root."""
    root = next((key for key, parent in parents.items() if parent is None), None)
    below = defaultdict[int | None, list[int]](list)
    for key, parent in parents.items():
        below[parent if parent is None or parent in views else root].append(key)
    ordered = list[NodeView]()
    stack: list[tuple[int, int | None]] = [(key, None) for key in reversed(below[None])]
    while stack:
        key, place = stack.pop()
        children = sorted(below[key], key=lambda child: token_order(views[child].tokens))
        stack += [(child, len(ordered)) for child in reversed(children)]
        ordered.append(replace(views[key], parent=place))
    return ordered
