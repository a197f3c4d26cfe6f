"""The pool in a film: what each of its cells is, whose, and what just happened to it."""

from __future__ import annotations

from functools import cache

from minikv.course.film.changes import Changes
from minikv.course.film.state import PoolState, State
from minikv.course.pictures.cells import MOST_CELLS, Cell

_cell = cache(Cell)  # a long film has a few cells, over and over


def cells_of(
    pool: PoolState, before: PoolState, state: State, was: State, path: frozenset[int], changes: Changes
) -> list[Cell]:
    """The cells of a pool that a frame shows; `path` are the nodes that a match or an insertion went along.

    A free cell with a name is a mistake: the tree still has what the pool would hand out again.
    """
    owners, held, events = state.owners, state.holders, _events(state, was, path, changes)
    cells = []
    for i, free in enumerate(pool.free[:MOST_CELLS]):
        slots = range(i * pool.page_size, (i + 1) * pool.page_size)
        key = next((owners[slot] for slot in slots if slot in owners), None)
        handed = ("freed" if free else "taken") if before.free[i] != free else ""
        found = {events[slot] for slot in slots if slot in events}
        if key is None:
            event = handed or ("evicted" if found else "")
        else:
            event = "new" if "new" in found else handed or next((e for e in _ORDER if e in found), "")
        if free:
            cells.append(_cell("free", "" if key is None else f"n{key}", event))
        elif key is not None:
            cells.append(_cell("locked" if state.nodes[key].ref_count else "cached", f"n{key}", event))
        else:
            cells.append(_cell("in hand", next((held[slot] for slot in slots if slot in held), ""), event))
    return cells


_ORDER = ("joined", "matched", "split")


def _events(state: State, was: State, path: frozenset[int], changes: Changes) -> dict[int, str]:
    """For each slot that something happened to in the tree, what it was; `new` before the others."""
    owners, old, fresh = state.owners, was.owners, _fresh(state, was, changes)
    cut = {key for pair in changes.splits for key in pair}
    events = {slot: "evicted" for slot in old if slot not in owners}
    for slot, key in owners.items():
        if slot in fresh:
            events[slot] = "new"
        elif old.get(slot) in changes.joined:
            events[slot] = "joined"
        elif key in path or key in cut:
            events[slot] = "matched" if key in path else "split"
    return events


def _fresh(state: State, was: State, changes: Changes) -> set[int]:
    """The slots that came into the tree, or hold another token there than before."""
    old, nothing = was.contents, object()
    fresh = {slot for slot, token in state.contents.items() if old.get(slot, nothing) != token}
    return fresh.union(*(state.nodes[key].slots for key in changes.new if key in state.nodes))


def heading_of(pool: PoolState) -> str:
    """The line above a pool."""
    more = f" (the first {MOST_CELLS} shown)" if len(pool.free) > MOST_CELLS else ""
    return f"{pool.title}: {sum(pool.free)} of {len(pool.free)} free{more}"
