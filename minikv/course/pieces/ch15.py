"""The pieces of chapter 15: what groups of layers need, where all can continue, where to stop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import CallToFind, Hunt
from minikv.course.pieces.piece import (
    CALLERS,
    Cost,
    Frames,
    Piece,
    Shown,
    called,
    exercise,
    one_call,
)
from minikv.course.pieces.props import DEEP, listed, up_to
from minikv.engine import World, given
from minikv.testing.attempt import short_repr

# What a group keeps, its block and its window; of its blocks, those with an x are saved.
Lane = tuple[str, int, int, str]
_Lanes = tuple[Sequence[Any], Sequence[set[int]], int]  # groups, their places, and the limit
_KEEPS = st.sampled_from(["full", "window", "state"])
_BLOCK, _WINDOW = st.sampled_from([1, 2, 4, 6]), st.integers(1, 13)
_MARKS = st.lists(st.sampled_from("xxx."), max_size=9).map("".join)
_LANE = st.tuples(_KEEPS, _BLOCK, _WINDOW, _MARKS)
_COUNTS = st.lists(st.integers(1, 6), min_size=1, max_size=3)
_STOPS = st.lists(up_to(50), max_size=4)
_STEP, _LENGTH, MANY = st.sampled_from([2, 4, 5]), st.integers(1, 40), 500


class Places(set[int]):
    """A set that takes a step for each place that it is asked about: a large case counts these."""

    def issuperset(self, places: Iterable[Any]) -> bool:
        """Return whether all places are saved.

        >>> Places([4, 8]).issuperset([4, 12])
        False
        """
        return all(at in self for at in places)

    __ge__ = issuperset


def lane_of(world: World, lane: Lane) -> tuple[Any, set[int]]:
    """Return a group of the world, and the places whose blocks are saved.

    >>> from minikv.engine.ch15_layers import Group
    >>> lane_of({"Group": Group}, ("state", 4, 0, "x.."))
    (Group(keeps='state', block=4, window=0), {4})
    """
    keeps, block, window, marks = lane
    kind = Places if len(marks) > MANY else set
    group = world["Group"](keeps, block, *[window] * (keeps == "window"))
    return group, kind(block * at for at, mark in enumerate(marks, start=1) if mark == "x")


def written(value: Any) -> str:
    """An argument as somebody would write it in a cell.

    >>> from minikv.engine.ch15_layers import Group
    >>> written([Group("full", 4)]), written([{8, 4}, set()])
    ('[Group("full", 4)]', '[{4, 8}, set()]')
    """
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    if hasattr(value, "keeps"):
        window = f", {value.window}" * (value.keeps == "window")
        return f'Group("{value.keeps}", {value.block}{window})'
    if value and isinstance(value, set):
        return f"{{{', '.join(map(str, sorted(value)))}}}"
    return short_repr(value)


def _asked(world: World, name: str, **own: Any) -> Shown:
    """Call a piece. What it is given is the caller's, and is to stay as it was."""
    caption = f"{name}({', '.join(map(written, own.values()))})"
    saved = {CALLERS.format("saved"): own["saved"]} if "saved" in own else {}
    found = called(world, name, also=saved, hide="group groups saved", words=listed, **own)
    return found._replace(caption=caption)


def play_needs(world: World, case: tuple[str, int, int, Sequence[int]]) -> Frames:
    """Ask one group about several lengths, each of so many blocks."""
    *kind, counts = case
    group, _ = lane_of(world, (*kind, ""))  # type: ignore[arg-type]
    for count in counts:
        yield _asked(world, "needs", group=group, length=count * group.block)


def play_longest(world: World, case: tuple[Lane, int, int]) -> Frames:
    """Ask for the answer of one group, with a step of so many of its blocks."""
    lane, limit, blocks = case
    group, saved = lane_of(world, lane)
    yield _asked(world, "longest", group=group, saved=saved, limit=limit, step=group.block * blocks)


def play_common_hit(world: World, case: tuple[Sequence[Lane], int]) -> Frames:
    """Ask for the answer of all groups together."""
    lanes, limit = case
    groups, saved = map(list, zip(*[lane_of(world, lane) for lane in lanes]))
    step = world["grid"](groups)
    yield _asked(world, "common_hit", groups=groups, saved=saved, limit=limit, step=step)


def play_checkpoints(world: World, case: tuple[int, int, int, int]) -> Frames:
    """Ask twice about a prompt, of which at most all tokens but the last one were found."""
    length, hit, fork, step = case
    hit, fork = min(hit, length - 1) // step * step, min(fork, length - 1)
    for _ in range(2):
        yield _asked(world, "checkpoints", length=length, hit=hit, fork=fork, step=step)


def play_chunks(world: World, case: tuple[int, int, int, Sequence[int]]) -> Frames:
    """Cut what is left of a prompt, of `count` tokens; the stops are in order."""
    start, count, most, stops = case
    end, stops = start + count, sorted({*stops})
    yield _asked(world, "chunks", start=start, end=end, most=most, stops=stops)


_LONG = MANY + 1  # blocks
_ALL, _FIRST = ("full", 1, 0, "x" * _LONG), ("state", 1, 0, "x" + "." * _LONG)
_BLOCKS = f"steps for {_LONG} blocks"

PIECES = (
    Piece(
        "15.1", one_call("block_for_state"),
        cases=[(1, 1), (32, 1, 16), (65, 2, 4), (2**60 + 1, 2**56)],
        strategy=st.tuples(st.integers(1, 400), st.integers(1, 9), st.sampled_from([1, 4, 16])),
    ),
    Piece(
        "15.2", play_needs,
        cases=[("full", 4, 0, [2]), ("state", 4, 0, [2, 2]),
               *[("window", 4, window, [3]) for window in (5, 6, 4, 1)]],
        strategy=st.tuples(_KEEPS, _BLOCK, _WINDOW, _COUNTS),
    ),
    Piece(
        "15.3", play_longest,
        cases=[(("state", 2, 0, "x"), 3, 1), (("window", 4, 2, ""), 7, 1),
               (("state", 1, 0, "x" + "." * DEEP), DEEP, 1)],
        strategy=st.tuples(_LANE, up_to(40), st.integers(1, 3)),
        cost=Cost(_BLOCKS, [(_ALL, _LONG, 1), (_FIRST, _LONG, 1)],
                  "begin at the limit, and stop at the first length that works: each request waits"),
    ),
    Piece(
        "15.4", play_common_hit,
        cases=[([("window", 4, 6, "xx.xx"), ("state", 4, 0, "x..x")], 21),
               ([("window", 4, 6, "xx.xx.xx"), ("state", 4, 0, "x..x..x.x")], 37),
               ([("full", 2, 0, "xxxx"), ("window", 4, 6, "xx"), ("state", 4, 0, "x")], 9)],
        strategy=st.tuples(st.lists(_LANE, min_size=1, max_size=4), up_to(60)),
        cost=Cost(_BLOCKS, [([_ALL, _FIRST], _LONG)],
                  "don't try every length with every group: an answer is the next group's limit",
                  8),
    ),
    Piece(
        "15.5", play_checkpoints,
        cases=[(8, 0, 0, 4), (20, 4, 8, 4), (18, 0, 16, 4), (18, 16, 8, 4), (18, 4, 11, 4),
               (18, 8, 11, 4)],
        strategy=st.tuples(_LENGTH, up_to(40), st.just(0) | up_to(40), _STEP),
    ),
    Piece(
        "15.6", play_chunks,
        cases=[(0, 5, 4, []), (0, 18, 8, [10]), (4, 8, 9, [4, 12, 20]), (4, 0, 4, []),
               (0, 4, 9, [2, 4])],
        strategy=st.tuples(up_to(20), up_to(30), st.integers(1, 9), _STOPS),
    ),
    Piece(
        "15.7", one_call("replay_start"),
        cases=[(60, 4, 3)],
        strategy=st.tuples(up_to(90), st.integers(1, 16), st.integers(1, 5)),
    ),
)  # fmt: skip


def states_to_drop(path: Sequence[int], forks: set[int], cap: int) -> Sequence[int]:
    """Return the places whose states to drop, the shallow ones first, so that `cap` of them stay.

    The last one and the forks always stay, even if they are more.

    >>> states_to_drop([4, 8, 12, 16], {8}, 2)
    [4, 12]
    """
    spare = [at for at in path[:-1] if at not in forks]
    return spare[: max(0, len(path) - cap)]


def play_states_to_drop(world: World, case: tuple[str, int]) -> Frames:
    """A path of states, a letter each: a fork is an f."""
    letters, cap = case
    path = [8 * at for at in range(1, len(letters) + 1)]
    forks = {at for at, letter in zip(path, letters) if letter == "f"}
    yield called(world, "states_to_drop", words=listed, path=path, forks=forks, cap=cap)


def engine() -> World:
    """Return chapter 15's engine, with the correct function in the place of the careless one.

    >>> world = engine()
    >>> world["careless_hit"]([world["Group"]("state", 4)] * 2, [{8}, {4}], 8)
    0
    """
    world: World = {"__name__": __name__}
    given(world, 15)

    def careless_hit(groups: Any, saved: Any, limit: int) -> Any:
        return world["common_hit"](groups, saved, limit, world["grid"](groups))

    return {**world, "careless_hit": careless_hit}


def _nonsense(groups: Sequence[Any], saved: Sequence[set[int]], limit: int) -> str | None:
    """Say why these are no groups with their places."""
    if not groups:
        return "there is no group"
    if len(groups) != len(saved):
        return f"{len(groups)} groups need {len(groups)} sets of saved places"
    return None if limit <= 1000 else f"the limit is at most 1000, not {limit}"


def _advice(case: _Lanes) -> str | None:
    """A hint for groups that do no harm."""
    (groups, saved, limit), world = case, engine()
    step = world["grid"](groups)
    own = [world["longest"](*each, limit, step) for each in zip(groups, saved)]
    if 0 in own:
        return "one of your groups can continue nowhere, so both versions return 0"
    if len({*own}) == 1:
        return "all of your groups give the same answer: there is nothing to lower"
    return "look at the length that both return: take a block that another group needs *there*"


def _praise(case: _Lanes) -> str | None:
    """Ask for less, where there is more than it takes."""
    return "Can you do it with two saved places in all?" if sum(map(len, case[1])) > 2 else None


EXERCISES = (
    exercise(
        "15.8", states_to_drop,
        cases=[("sss", 1), ("fsf", 1), ("ssss", 5)],
        strategy=st.tuples(st.text("sf", max_size=7), st.integers(1, 5)),
        play=play_states_to_drop,
    ),
    Hunt("15.9", "careless_hit", "15.9 takes the minimum", engine,
         CallToFind("careless_hit", ("groups", "saved", "limit"), _nonsense), _advice, _praise),
)  # fmt: skip
