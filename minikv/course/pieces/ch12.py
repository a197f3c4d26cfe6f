"""The pieces of chapter 12: the valid length, the pins of a window, what can be spared, and healing a tombstone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, calls_of, engine_hunt
from minikv.course.pieces.identity import spoil
from minikv.course.pieces.observe import counting, listed
from minikv.course.pieces.piece import CaseFrame, Cost, Frames, Piece, exercise
from minikv.course.pieces.trial import Played
from minikv.engine import World

_LIVE = st.text(".x", max_size=9)  # which slots of a path have a window: x has one, a dot has none
_WINDOW = st.integers(1, 4)
_EDGE = st.tuples(st.text("xx.p", min_size=1, max_size=5), st.booleans())  # p: a slot with a window and a pin
_HELD = st.lists(st.lists(st.integers(0, 7), unique=True, max_size=6), min_size=1, max_size=4)
# Slots in no order, with 0 among them: an answer that sorts them, counts on from the first, or takes 0 for none, fails.
_PATH = (15, 0, 17, 12, 18, 13, 11, 16, 14)
_TENS, _ONES = (20, 0, 30, 10), (1, 0, 4, 2, 3)
_TWICE = (51, 53, 50, 54, 52)
_ELSEWHERE = {40: 60, 41: 61}  # slots of other paths have windows too


def _mapped(slots: list[int], live: str) -> dict[int, int]:
    """A map with a window slot for each slot that has none of a dot: 0 for the first, 1 for the next, and so on."""
    return {slot: number for number, slot in enumerate(slot for slot, has in zip(slots, live) if has != ".")}


def _edge_in_words(slots: list[int], is_leaf: bool, states: str) -> str:
    """An edge in a caption; a slot that is live and not pinned stands for itself."""
    words = {"x": "", ".": " dead", "p": " pinned"}
    parts = [f"{slot}{words[state]}" for slot, state in zip(slots, states)]
    return f"{'leaf' if is_leaf else 'inner'} [{', '.join(parts)}]"


def play_valid_length(world: World, case: Any) -> Frames:
    """A path of slots, some of which have a window."""
    live, window = case
    slots = list(_PATH[: len(live)])
    window_of = _ELSEWHERE | _mapped(slots, live)
    seen = {
        "what is returned": world["valid_length"](slots, window_of, window),
        "the caller's slots and the map, which must not change": [slots, window_of],
    }  # fmt: skip
    said = f"the path {live or 'nothing'} with a window of {window} (x: has a window slot, a dot: has none)"
    yield CaseFrame(said, seen)


def play_hold(world: World, case: Any) -> Frames:
    """Several requests hold the windows of their paths, and then leave in order."""
    window, paths = case
    pins, receipts = dict[int, int](), list[Any]()
    for path in paths:
        given = list(path)
        receipt = world["hold"](pins, given, window)
        receipts.append(receipt)
        seen = {
            "the receipt": _receipt(receipt), "the pins": dict(sorted(pins.items())),
            "the caller's slots, which must not change": list(given),
        }  # fmt: skip
        spoil(given)
        after = {"the receipt after the caller has used its list for something else": _receipt(receipt)}
        yield CaseFrame(f"hold the last {window} of the slots {path}", {**seen, **after})
    for receipt in receipts:
        for slot in receipt:
            pins[slot] -= 1
            if not pins[slot]:
                del pins[slot]
    yield CaseFrame("all leave", {"the pins": dict(sorted(pins.items()))})


def _receipt(receipt: Any) -> Any:
    return sorted(receipt) if isinstance(receipt, (list, tuple)) else listed(receipt)


def play_spare(world: World, case: Any) -> Frames:
    """Edges, oldest first, each with the states of its slots, and whether it is a leaf."""
    states, window = case
    edges, live = list[tuple[list[int], bool]](), ""
    for tens, (kinds, is_leaf) in zip(_TENS, states):
        edges.append(([tens + ones for ones, _ in zip(_ONES, kinds)], is_leaf))
        live += kinds
    slots = [slot for edge, _ in edges for slot in edge]
    window_of = dict(sorted((_mapped(slots, live) | _ELSEWHERE).items()))
    pins = {slot: 1 + at // 2 for edge, (kinds, _) in zip(edges, states) for at, slot in enumerate(edge[0])
            if kinds[at] == "p"}  # fmt: skip
    drawn = ", ".join(_edge_in_words(*edge, states[at][0]) for at, edge in enumerate(edges)) or "no edges"
    seen = {
        "what is returned": listed(world["spare"](edges, window_of, pins, window)),
        "the edges, the map and the pins, which must not change": [edges, window_of, pins],
    }  # fmt: skip
    yield CaseFrame(f"a window of {window}, and the edges, the least recently used first: {drawn}", seen)


def play_heal(world: World, case: Any) -> Frames:
    """Slots of the tree, and as many duplicates; for each pair, which of them have a window."""
    pairs = case.split()
    kept, twice = list(_PATH[: len(pairs)]), list(_TWICE[: len(pairs)])
    window_of = _mapped(kept + twice, "".join(a for a, _ in pairs) + "".join(b for _, b in pairs)) | _ELSEWHERE
    caption = f"the tree keeps {kept}, computed twice: {twice}, the map is {window_of}"
    seen = {
        "what is returned": world["heal"](window_of, kept, twice), "the map": dict(sorted(window_of.items())),
        "the caller's lists, which must not change": [kept, twice],
    }  # fmt: skip
    yield CaseFrame(caption, seen)


def _looks_into_map(world: World) -> int:
    """How often the map is looked into for a long path that is all live, and one whose runs are all too short.

    Before that comes a long path without any window: an answer that calls itself for each slot does not get to its end.
    """
    world["valid_length"](list(range(20_000)), {}, 4)
    window_of, tally = counting(dict)
    world["valid_length"](list(range(20_000)), window_of(zip(range(20_000), range(20_000))), 4)
    world["valid_length"](list(range(2000)), window_of((slot, slot) for slot in range(2000) if slot % 90), 100)
    return tally[0]


PIECES = (
    Piece(
        "12.1", "valid_length", play_valid_length,
        cases=[("xxxx", 2), ("..xx", 2), ("...x", 2), ("xx..", 2),
               ("x.x.", 2), ("x", 3), (".xxx.x", 2), ("xxx.x", 2), (".", 2), ("..x..", 3),
               ("..xx.", 3), ("..xxxx", 2)],
        strategy=st.tuples(_LIVE, _WINDOW),
        cost=Cost("looks into the map", _looks_into_map, 3,
                  "start at the end of the path, ask the map once about each slot, and count live ones in a row"),
    ),
    Piece(
        "12.2", "hold", play_hold,
        cases=[(2, [[0, 1, 2, 3]]), (2, [[0, 1, 2], [0, 1, 5]]), (3, [[4]]), (2, [[]]), (1, [[0, 1], [1, 0]])],
        strategy=st.tuples(_WINDOW, _HELD),
    ),
    Piece(
        "12.3", "spare", play_spare,
        cases=[([("xxx", False)], 1), ([("xxxx", True)], 2), ([("xx", True)], 3), ([("x.px", False)], 1),
               ([("xx", False), ("xxx", True)], 1), ([("xxx", True), ("xx", False)], 2), ([], 2),
               ([("px.px", False)], 1), ([("x", True), ("x", False)], 1), ([("xx", False), ("xp", False)], 1),
               ([("pxx", True)], 1)],
        strategy=st.tuples(st.lists(_EDGE, max_size=4), _WINDOW),
    ),
    Piece(
        "12.4", "heal", play_heal,
        cases=[".x", "xx", "..", "", ".x xx .. .x", ".x .x"],
        strategy=st.lists(st.sampled_from(["..", ".x", "x.", "xx"]), max_size=5).map(" ".join),
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


def _advice(right: Played) -> str:
    """A hint for a script that does no harm: what it does not do yet."""
    verbs = [call.verb for call in calls_of(right)]
    if "leave" not in verbs:
        return "locking is correct in both: the careless line runs when somebody unlocks"
    if "free_windows" not in verbs:
        return "every token is live, so the place looks the same again: let one lose its window before the lock"
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
                raise ValueError("a request leaves with exactly what its `find` returned")
            super().leave(found, receipt)

    return Tree()


def _praise(careless: Played) -> str:
    """Return whether a script that found the bug also took the pin of another request."""
    held = list[list[int]]()
    for frame in careless.frames:
        call = frame.picture[0]
        if call.verb == "find" and call.result:
            held.append(call.result[1])
        elif call.verb == "leave":
            held = [receipt for receipt in held if receipt is not call.arguments["receipt"]]
        needed = Counter(slot for receipt in held for slot in receipt)
        if any(frame.seen["the pins"].get(slot, 0) < count for slot, count in needed.items()):
            return "And it took the pin of another request!"
    return "Can you make it take the pin of another request?"


EXERCISES = (
    exercise(
        "12.5", "windows_to_keep", windows_to_keep,
        cases=[([8], 4), ([8, 10], 4), ([2], 4), ([10, 20], 4), ([], 4), ([10, 8], 4)],
        strategy=st.tuples(st.lists(st.integers(0, 20), max_size=5), st.integers(1, 6)),
    ),
    engine_hunt(
        "12.6", "careless_leave", ("12.6", "looks for the tokens again"),
        Calls(_tree, ("serve", "find", "leave", "free_windows"),
              seen=lambda tree: {"the pins": dict(tree.pins)}),
        advice=_advice, praise=_praise,
    ),
)  # fmt: skip
