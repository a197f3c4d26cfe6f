"""The pieces of chapter 12: the valid length, the pins of a window, what can be spared, and healing a tombstone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, CallsMade, engine_hunt
from minikv.course.pieces.piece import Cost, Frames, Piece, called, exercise
from minikv.course.pieces.props import DEEP, in_any_order, listed, up_to, used_slots
from minikv.engine import World

_LIVE = st.text(".x", max_size=9)  # which slots of a path have a window: x has one, a dot has none
_WINDOW = st.integers(1, 4)
_EDGE = st.tuples(st.text("xx.p", min_size=1, max_size=5), st.booleans())  # p: a slot with a window and a pin
_HELD = st.lists(st.lists(up_to(7), unique=True, max_size=6), min_size=1, max_size=4)
_EDGES = [[tens + ones for ones in (1, 0, 4, 2, 3)] for tens in (20, 0, 30, 10)]
_TWICE = [51, 53, 50, 54, 52]
_ELSEWHERE = {40: 60, 41: 61}  # slots of other paths have windows too


def _mapped(slots: Iterable[int], states: str) -> dict[int, int]:
    """A map with a window slot for each slot that has none of a dot: 0 for the first, 1 for the next, and so on."""
    live = [slot for slot, state in zip(slots, states) if state != "."]
    return {slot: number for number, slot in enumerate(live)} | _ELSEWHERE


def play_valid_length(world: World, case: Any) -> Frames:
    """A path of slots, some of which have a window; and so many slots of other paths have one."""
    live, window, *others = case
    slots = [*islice(used_slots(), len(live))]
    window_of = _mapped(slots, live) | {-slot: slot for slot in range(1, sum(others))}
    yield called(world, "valid_length", slots=slots, window_of=window_of, window=window)


def play_hold(world: World, case: Any) -> Frames:
    """Several requests hold the windows of their paths."""
    window, paths = case
    pins = dict[int, int]()
    for path in paths:
        yield called(world, "hold", also={"pins": pins}, words=in_any_order, pins=pins, slots=[*path], window=window)


def play_spare(world: World, case: Any) -> Frames:
    """Edges, oldest first, each with the states of its slots, and whether it is a leaf."""
    states, window = case
    edges = [(own[: len(kinds)], is_leaf) for own, (kinds, is_leaf) in zip(_EDGES, states)]
    slots, kinds = [slot for edge, _ in edges for slot in edge], "".join(kinds for kinds, _ in states)
    pinned = [slot for slot, kind in zip(slots, kinds) if kind == "p"]
    pins = {slot: 2 - at % 2 for at, slot in enumerate(pinned)}
    yield called(world, "spare", words=listed, edges=edges, window_of=_mapped(slots, kinds), pins=pins, window=window)


def play_heal(world: World, case: str) -> Frames:
    """Slots of the tree, then as many duplicates, some of which have a window."""
    count = len(case) // 2
    kept, twice = [*islice(used_slots(), count)], _TWICE[:count]
    window_of = _mapped(kept + twice, case)
    yield called(world, "heal", also={"window_of": window_of}, window_of=window_of, kept=kept, twice=twice)


_BROKEN = ("." + "x" * 59) * 10

PIECES = (
    Piece(
        "12.1", play_valid_length,
        cases=[("..xxxx", 2), ("." * DEEP, 4)],
        strategy=st.tuples(_LIVE, _WINDOW),
        cost=Cost("steps for a long path", [("x" * DEEP, 4), (_BROKEN, 60), ("." * 500, 4), ("xxxx", 4, 1000)],
                  "start at the end, ask the map once about each slot, stop at `window` live ones in a row, and copy "
                  "nothing", 3),
    ),
    Piece(
        "12.2", play_hold,
        cases=[],
        strategy=st.tuples(_WINDOW, _HELD),
    ),
    Piece(
        "12.3", play_spare,
        cases=[([("pxx", True)], 1)],
        strategy=st.tuples(st.lists(_EDGE, max_size=4), _WINDOW),
    ),
    Piece(
        "12.4", play_heal,
        cases=[".x"],
        strategy=st.text(".x", max_size=10),
    ),
)  # fmt: skip


def windows_to_keep(ends: Sequence[int], window: int) -> int:
    """Return how many tokens of one path must keep their window, if matches will end after `ends` tokens of it.

    >>> windows_to_keep([8, 10], window=4)
    6
    """
    kept: set[int] = set()
    for end in ends:
        kept.update(range(max(0, end - window), end))
    return len(kept)


def _advice(right: CallsMade) -> str:
    """A hint for a script that does no harm: what it does not do yet."""
    verbs = [call.verb for call, _ in right]
    if "leave" not in verbs:
        return "locking is correct in both: the careless line runs when somebody unlocks"
    if "free_windows" not in verbs:
        return "every token is live, so the lookup finds the same place again: let one lose its window before the lock"
    return "the tokens that are live have not changed between lock and unlock: what brings one back to life?"


def _tree(world: World) -> Any:
    """A tree with a window of two, in which a request can only leave with what its `find` returned."""
    base: Any = world["WindowTree"]

    class Tree(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(16, 16, 2)
            self.given = list[tuple[Any, Any]]()

        def find(self, tokens: Any) -> Any:
            self.given.append(super().find(tokens))
            return self.given[-1]

        def leave(self, found: Any, receipt: Any) -> None:
            if (found, receipt) not in self.given:
                raise ValueError("a request must leave with exactly what its `find` returned")
            super().leave(found, receipt)

    return Tree()


def _praise(careless: CallsMade) -> str:
    """Return whether a script that found the bug also took the pin of another request."""
    held = list[list[int]]()
    for call, pins in careless:
        if call.verb == "find" and call.result:
            held.append(call.result[1])
        elif call.verb == "leave":
            held = [receipt for receipt in held if receipt is not call.arguments["receipt"]]
        needed = Counter(slot for receipt in held for slot in receipt)
        if any(pins.get(slot, 0) < count for slot, count in needed.items()):
            return "And it took the pin of another request!"
    return "Can you make it take the pin of another request?"


EXERCISES = (
    exercise(
        "12.5", windows_to_keep,
        cases=[],
        strategy=st.tuples(st.lists(up_to(20), max_size=5), st.integers(1, 6)),
    ),
    engine_hunt(
        "12.6", "careless_leave", "12.6 looks for the tokens again",
        Calls(_tree, ("serve", "find", "leave", "free_windows"),
              seen=lambda tree: {"tree.pins": tree.pins}, note=lambda tree: dict(tree.pins)),
        advice=_advice, praise=_praise,
    ),
)  # fmt: skip
