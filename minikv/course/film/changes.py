"""What an operation changed: found by comparing the tree and the pool before and after, not by asking either.

A node is split when a node of before is now two on one path, joined when it is a part of another node's edge now,
gone when its slots left the tree, trimmed when only its end did. Gone nodes stay in the picture for one frame, as
ghosts at their old place.

    before        after a split        after a join       after an eviction      after a trim
    [1 2]         [1]     split        [1 2 3]  joined    [1 2]                  [1]
    └─ [3]        └─ [2]  split                           └─ (ghost of [3])      └─ (ghost of [2])
                     └─ [3]

An operation that makes others which are watched too changed what they changed, one after the other: what a manager
split, evicted and cached again in the same slots cannot be told from the two ends alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from minikv.course.film.state import State
from minikv.testing.snapshot import NodeView, shorten

WENT, REMOVED = {"evict": "evicted", "reset": "forgotten"}, "removed"
MOST_NAMES = 12
Ghost = tuple[NodeView, "int | None"]  # the node, or the part of it, that went, and where it hung


@dataclass
class Changes:
    """Which nodes an operation made, cut, joined, cut short or took away.

    `splits` has (upper, lower) pairs; `joined`, for each node that is a part of another one now, which one; `gone` a
    word for each node that went; `trimmed`, by node, the parts that were cut off. `ghosts` are what a picture shows of
    the gone ones, and of the roots that went with them.
    """

    new: list[int] = field(default_factory=list)
    splits: list[tuple[int, int]] = field(default_factory=list)
    grown: list[int] = field(default_factory=list)
    gone: dict[int, str] = field(default_factory=dict)
    ghosts: dict[int, Ghost] = field(default_factory=dict)
    trimmed: dict[int, NodeView] = field(default_factory=dict)
    joined: dict[int, int] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """Each change in words; empty when no node came, went or was cut."""
        split = [f"n{lower} split: its beginning is now n{upper}" for upper, lower in self.splits]
        joined = [
            f"{_names(key for key in self.joined if self.joined[key] == lower)} joined into n{lower}"
            for lower in dict.fromkeys(self.joined.values())
        ]
        words = [*dict.fromkeys(WENT.values()), REMOVED]
        went = [([key for key in self.gone if self.gone[key] == word], word) for word in words]
        lists = [*went, (list(self.trimmed), "cut short"), (self.new, "new"), (self.grown, "grew")]
        return [*split, *joined, *(f"{_names(keys)} {word}" for keys, word in lists if keys)]

    def then(self, later: Changes) -> Changes:
        """These changes and then `later` ones, as those of one operation."""
        ends = dict(later.trimmed)
        ghosts = {**self.ghosts, **later.ghosts}
        for key, end in self.trimmed.items():
            if key in later.gone:
                ghosts[key] = _joined(ghosts[key][0], end), ghosts[key][1]
            else:
                ends[key] = _joined(ends[key], end) if key in ends else end
        went = later.gone.keys() | later.joined.keys()
        return Changes(
            [key for key in dict.fromkeys([*self.new, *later.new]) if key not in went],
            [*self.splits, *later.splits],
            [key for key in dict.fromkeys([*self.grown, *later.grown]) if key not in went],
            {**self.gone, **later.gone},
            ghosts,
            ends,
            {**{key: later.joined.get(into, into) for key, into in self.joined.items()}, **later.joined},
        )


def _names(keys: Iterable[int]) -> str:
    return shorten([f"n{key}" for key in keys], MOST_NAMES)


def compare(before: State, after: State, verb: str = "") -> Changes:
    """What changed in the tree from one state to the next; what `verb` made go is called as it calls it.

    >>> from minikv import RadixCache
    >>> from minikv.course.film.state import Looker
    >>> cache = RadixCache()
    >>> _, looker = cache.insert([1, 2, 3], [0, 1, 2]), Looker([cache], None, None)
    >>> before = looker.look()
    >>> _ = cache.match_prefix([1, 2, 9])
    >>> compare(before, looker.look()).splits
    [(2, 1)]
    """
    joined, after = _undo_joins(before, after)
    before = replace(before, nodes={key: node for key, node in before.nodes.items() if key not in joined})
    changes = Changes(joined=joined)
    fresh = {key for key in after.nodes if key not in before.nodes}
    for key, node in after.nodes.items():
        if key in before.nodes and node.tokens != before.nodes[key].tokens:
            _compare_edge(key, before, after, fresh, changes)
    known = _compare_gone(before, after, fresh, changes, WENT.get(verb, REMOVED))
    known |= {key for pair in changes.splits for key in pair} | {k for k in fresh if after.parents[k] is None}
    changes.new += [key for key in after.nodes if key in fresh - known]
    return changes


def _undo_joins(before: State, after: State) -> tuple[dict[int, int], State]:
    """For each node that is a part of another one's edge now, that one's id; and `after` without those parts."""
    vanished = before.nodes.keys() - after.nodes.keys()
    joined: dict[int, int] = {}
    if not vanished:
        return joined, after
    was, old, contents, nodes = before.owners, before.contents, after.contents, dict(after.nodes)
    for key, node in after.nodes.items():
        if node == before.nodes.get(key) or len(node.tokens) != len(node.slots):
            continue
        owners = [was[slot] if slot in was and old[slot] == contents[slot] else None for slot in node.slots]
        main = key if key in owners else owners[-1] if owners else None  # what the node was, or grew out of
        parts = {owner for owner in owners if owner in vanished and owner != main}
        whole = {part for part in parts if owners.count(part) == len(before.nodes[part].slots)}
        joined.update(dict.fromkeys(sorted(whole), key))
        kept = [i for i, owner in enumerate(owners) if owner not in whole]
        nodes[key] = replace(node, tokens=[node.tokens[i] for i in kept], slots=[node.slots[i] for i in kept])
    return joined, replace(after, nodes=nodes)


def _compare_edge(key: int, before: State, after: State, fresh: set[int], changes: Changes) -> None:
    """A node of both whose edge is another one now."""
    old, new = before.nodes[key], after.nodes[key]
    above, parts = after.parents[key], [*new.tokens]
    uppers: list[int] = []
    while above in fresh and len(parts) < len(old.tokens):  # the usual split: the lower part keeps the id
        parts = after.nodes[above].tokens + parts
        uppers.append(above)
        above = after.parents[above]
    if uppers and parts == old.tokens[: len(parts)]:
        changes.splits += [(upper, key) for upper in uppers]
        if len(parts) < len(old.tokens):
            changes.trimmed[key] = _end_of(old, len(parts))
    elif old.tokens == new.tokens[: len(old.tokens)]:
        changes.grown.append(key)
    elif new.tokens != old.tokens[: len(new.tokens)]:  # its id was given to another node
        changes.new.append(key)
    else:
        rest = old.tokens[len(new.tokens) :]
        below = [k for k in fresh if after.parents[k] == key and after.nodes[k].tokens == rest]
        if below:  # a split in which the upper part keeps the id
            changes.splits += [(key, lower) for lower in below]
        else:
            changes.trimmed[key] = _end_of(old, len(new.tokens))


def _compare_gone(before: State, after: State, fresh: set[int], changes: Changes, word: str) -> set[int]:
    """The nodes that are no more; of what is left of them in the tree, the fresh nodes that hold it."""
    gone = [key for key in before.nodes if key not in after.nodes and before.parents[key] is not None]
    holders: set[int] = set()
    if gone:
        owners, contents = after.owners, after.contents
        same = {slot for slot, token in before.contents.items() if slot in owners and contents[slot] == token}
    for key in gone:
        old, kept = before.nodes[key], 0
        while kept < len(old.slots) and old.slots[kept] in same:
            kept += 1
        parts = list(dict.fromkeys(owners[slot] for slot in old.slots[:kept]))
        holders.update(parts)
        lower = parts[-1] if parts else key
        if kept < len(old.slots) or not old.slots:
            changes.gone[key] = word
            rest = replace(_end_of(old, kept), id=key, name=old.name) if kept else old
            changes.ghosts[key] = rest, lower if parts else before.parents[key]
            _add_roots(key, before, after, changes)
            lower = key
        changes.splits += [(upper, lower) for upper in parts if upper in fresh and upper != lower]
    return fresh & holders


def _add_roots(key: int, before: State, after: State, changes: Changes) -> None:
    """A root goes with the last of its nodes."""
    above = before.parents[key]
    while above is not None:
        if before.parents[above] is None and above not in after.nodes:
            changes.ghosts[above] = before.nodes[above], None
        above = before.parents[above]


def _end_of(old: NodeView, kept: int) -> NodeView:
    """The part of a node behind its first `kept` tokens."""
    return NodeView(old.label, None, old.tokens[kept:], old.slots[kept:], id=old.id, name=f"end of {old.name}")


def _joined(first: NodeView, second: NodeView) -> NodeView:
    """Two parts of a node that followed each other."""
    return replace(first, tokens=first.tokens + second.tokens, slots=first.slots + second.slots)
