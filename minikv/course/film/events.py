"""What happened to each node and to each slot, as the lines of their stories.

An event is words in which `{by}`, `{at}`, `{step}` and `{op}` stand for the step that it belongs to: whether
that is the operation itself or a larger one around it is known later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from minikv.course.film.changes import REMOVED, WENT, Changes, compare
from minikv.course.film.state import State

NumberedEvent = tuple[int, str]


@dataclass(frozen=True)
class Delta:
    """What an operation did: its changes, and what happened to each node (but for its locks) and to each slot."""

    changes: Changes = field(default_factory=Changes)
    nodes: tuple[NumberedEvent, ...] = ()
    slots: tuple[NumberedEvent, ...] = ()

    def then(self, later: Delta) -> Delta:
        """This and then `later`, as one operation."""
        return Delta(self.changes.then(later.changes), self.nodes + later.nodes, self.slots + later.slots)


def delta_of(before: State, after: State, verb: str) -> Delta:
    """What happened from one state to the next, by an operation called `verb`."""
    if before == after:
        return Delta()
    changes = compare(before, after, verb)
    return Delta(
        changes, tuple(_node_events(before, after, changes)), tuple(_slot_events(before, after, changes, verb))
    )


def told(events: Iterable[NumberedEvent], step: int, op: str) -> Iterator[NumberedEvent]:
    """Events as those of a step.

    >>> list(told([(3, "taken {by}")], 1, "alloc 4"))
    [(3, 'taken by step 1 (alloc 4)')]
    """
    by, at = f"by step {step} ({op})", f"at step {step} ({op})"
    return ((which, words.format(by=by, at=at, step=step, op=op)) for which, words in events)


def _node_events(before: State, after: State, changes: Changes) -> list[NumberedEvent]:
    """(node, what happened to it) for every node that something happened to, but for its locks."""
    upper_parts = {upper for upper, _ in changes.splits if upper not in before.nodes}
    events = [(upper, f"split off n{lower} {{at}}") for upper, lower in changes.splits if upper in upper_parts]
    events += [(lower, f"split {{at}}, its beginning is now n{upper}") for upper, lower in changes.splits]
    events += [(key, f"joined into n{lower} {{at}}") for key, lower in changes.joined.items()]
    events += [(lower, f"joined {{at}}, n{key} is a part of it now") for key, lower in changes.joined.items()]
    events += [(key, "inserted {by}") for key in changes.new] + [(key, "grew {at}") for key in changes.grown]
    events += [(key, f"{word} {{by}}") for key, word in changes.gone.items()]
    return events + [(key, f"cut to {len(after.nodes[key].tokens)} tokens {{by}}") for key in changes.trimmed]


def lock_events(before: State, after: State, changes: Changes) -> list[NumberedEvent]:
    """(node, whether it has more or fewer locks than before); the upper part of a split has its lock from below."""
    events = []
    upper_parts = {upper for upper, _ in changes.splits if upper not in before.nodes}
    for key, node in after.nodes.items():
        locks = node.ref_count - (before.nodes[key].ref_count if key in before.nodes else 0)
        if locks and key not in upper_parts:
            now = f", {node.ref_count} locks now" if node.ref_count > 1 else ""
            events.append((key, f"{'locked' if locks > 0 else 'unlocked'} {{by}}{now}"))
    return events


def _slot_events(before: State, after: State, changes: Changes, verb: str) -> list[NumberedEvent]:
    """(slot, what happened to it) for every slot that changed hands, in the order in which it must have happened."""
    taken, freed = _handed(before, after)
    was, now, old_contents, contents = before.owners, after.owners, before.contents, after.contents
    found = [(slot, "taken {by}") for slot in taken]
    for slot in sorted(was.keys() | now.keys()):
        same = slot in was and slot in now and old_contents[slot] == contents[slot]
        if slot in was and not same:
            found.append((slot, f"{WENT.get(verb, REMOVED)} {{by}}"))
        if slot in now and not same:
            found.append((slot, f"cached by step {{step}} in node {now[slot]} ({{op}})"))
        elif same and was[slot] != now[slot]:
            how = "joined into" if was[slot] in changes.joined else "split to"
            found.append((slot, f"{how} node {now[slot]} at step {{step}}"))
    return found + [(slot, "freed by step {step}") for slot in freed]


def _handed(before: State, after: State) -> tuple[list[int], list[int]]:
    """The slots that the first pool handed out, and those that it got back."""
    taken: list[int] = []
    freed: list[int] = []
    for old, new in list(zip(before.pools, after.pools))[:1]:
        for i, (was_free, is_free) in enumerate(zip(old.free, new.free)):
            if was_free != is_free:
                (freed if is_free else taken).extend(range(i * old.page_size, (i + 1) * old.page_size))
    return taken, freed
