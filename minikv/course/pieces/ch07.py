"""The pieces of chapter 07: start, checkpoint and release."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.desk import Desk
from minikv.course.pieces.hunt import Calls, calls_of, engine_hunt
from minikv.course.pieces.observe import kind_of, steps_of
from minikv.course.pieces.piece import CaseFrame, Frames, Piece, exercise
from minikv.course.pieces.trial import Played
from minikv.engine import World, engine_world
from minikv.engine.shells import name_of

_WHO = st.integers(0, 3)
_TOKENS = st.one_of(st.text("01", min_size=1, max_size=7), st.text("01", max_size=3).map("0011".__add__))
_STEP = st.one_of(
    st.builds("start {} {}".format, _TOKENS, st.sampled_from(["", "", "B"])),
    st.builds("compute {} {}".format, _WHO, st.integers(1, 7)),
    st.builds("compute {}".format, _WHO),
    st.builds("extend {} {}".format, _WHO, _TOKENS),
    st.builds("truncate {} {}".format, _WHO, st.integers(0, 9)),
    st.builds("{} {}".format, st.sampled_from(["checkpoint", "checkpoint", "finish", "abort"]), _WHO),
)
_DAY = st.tuples(st.integers(4, 9), st.integers(1, 3), st.lists(_STEP, min_size=4, max_size=14).map(", ".join))


def play_manager_day(world: World, case: Any) -> Frames:
    """A day of a manager: requests start, are computed, publish, grow and leave.

    A step is a verb, then a prompt and perhaps its namespace, or the place of a request among those that run.
    """
    num_pages, page_size, day = case
    desk = Desk(world, num_pages, page_size)
    for step in steps_of(day):
        done = desk.step(*step)
        if done is not None:
            caption, seen = done
            yield CaseFrame(caption, {**seen, **desk.seen()}, (desk.manager, *desk.manager.sequences))


def play_owners(world: World, case: Any) -> Frames:
    """A day by our own pieces, then perhaps a mistake.

    The pool gets pages that are in use, and may hand one out again, or it loses one, or the cache gets a request's.
    """
    num_pages, page_size, day, mistake = case
    desk = Desk(engine_world(), num_pages, page_size)
    for step in steps_of(day):
        desk.step(*step)
    pool = desk.manager.pool
    if mistake == "lose":
        pool.alloc(min(1, pool.num_free))
    elif mistake == "publish":
        for each in desk.manager.sequences[:1]:
            desk.manager.cache.insert(each.tokens, each.row, namespace=each.namespace)
    elif mistake == "give":
        for each in desk.manager.sequences[:1]:
            pool.free(each.row[-1:])
            desk.step("start", "7")
    else:
        pool.free([page for page in map(int, mistake.split()) if not pool.is_free(page)])
    found = world["owners"](desk.manager)
    rows = found if isinstance(found, (list, tuple)) else ()
    seen = {"what is returned": f"{kind_of(found)} of {len(rows)}"}
    for page, names in enumerate(rows):
        seen[f"the owners of page {page}"] = ", ".join(sorted(map(str, names))) if names else "an empty list"
    after = f" after {day}" if day else ""
    yield CaseFrame(f"owners of {num_pages} pages of {page_size}{after}", seen, (desk.manager, *desk.manager.sequences))


_ANNA = "start 12345, compute 0, finish 0"
_BEN = "start 1234569, compute 0, finish 0"
_TWINS = "start 12345, start 12345, compute 0, compute 1, checkpoint 0, checkpoint 1"
_AHEAD = "start 3142567, start 3142567, compute 0, compute 1, checkpoint 0, checkpoint 1"
_GROWING = "start 123, compute 0, checkpoint 0, extend 0 456, compute 0"
_TENANTS = "start 123 B, compute 0, checkpoint 0, start 123 B, start 123"
# The pieces share a state, so each is judged on the cases of all of them.
_DAYS = (
    (4, 1, "start 123"), (8, 1, f"{_ANNA}, start 129"), (6, 2, f"{_ANNA}, start 12349"),
    (6, 1, "start 1234, start 567"), (6, 1, f"{_ANNA}, start 1234678"), (9, 1, _TENANTS),
    (4, 1, "start 12, compute 0, checkpoint 0"), (6, 2, "start 123, compute 0, checkpoint 0"), (8, 2, _TWINS),
    (8, 1, "start 123, start 145, compute 0, compute 1, checkpoint 0, checkpoint 1"),
    (9, 1, f"{_GROWING}, checkpoint 0, finish 0"),
    (6, 2, "start 12345, compute 0 3, checkpoint 0, compute 0, finish 0"),
    (12, 2, f"start 12, compute 0, finish 0, {_TWINS}, abort 0, finish 0"), (11, 3, f"{_BEN}, {_BEN}, {_TWINS}"),
    (12, 2, f"start 31, compute 0, finish 0, {_AHEAD}"),
    (8, 2, "start 12345, start 12345, compute 0, compute 1 2, checkpoint 0, checkpoint 1, finish 1"),
    (4, 1, "start 123, abort 0"), (4, 1, "start 123, compute 0, finish 0"), (6, 2, "start 123, compute 0, finish 0"),
    (6, 2, f"{_ANNA}, start 12349, abort 0"), (9, 1, f"{_ANNA}, start 67, abort 0, start 12345"),
    (8, 1, "start 123, start 45, abort 0, compute 0, finish 0"), (9, 1, f"{_GROWING}, abort 0"),
    (6, 2, "start 123, extend 0 4, extend 0 5, compute 0, finish 0"), (3, 2, "start 123, extend 0 456, extend 0 4"),
    (6, 1, "start 123, extend 0 45, truncate 0 1, compute 0"),
    (6, 2, "start 123, extend 0 4567, truncate 0 3, finish 0"),
    (6, 2, "start 12345, compute 0 2, checkpoint 0, compute 0, truncate 0 0, extend 0 67, compute 0, finish 0"),
    (9, 3, f"{_ANNA}, start 12345678, truncate 0 2, abort 0"), (4, 2, "start 1234, compute 0, truncate 0 2, finish 0"),
    (8, 1, f"{_ANNA}, start 67, extend 0 89, compute 0"), (5, 2, "start 1, extend 0 23456, extend 0 7, abort 0"),
)  # fmt: skip

PIECES = (
    Piece("7.1", "start", play_manager_day, _DAYS, _DAY),
    Piece("7.2", "checkpoint", play_manager_day, _DAYS, _DAY),
    Piece("7.3", "release", play_manager_day, _DAYS, _DAY),
    Piece("7.6", "extend", play_manager_day, _DAYS, _DAY),
    Piece("7.7", "truncate", play_manager_day, _DAYS, _DAY),
    Piece(
        "7.8", "owners", play_owners,
        cases=[(2, 1, "", ""), (4, 1, "start 12", ""), (6, 2, f"{_ANNA}, start 12349", ""), (8, 2, _TWINS, ""),
               (6, 2, "start 12345, compute 0 3, checkpoint 0", ""), (8, 1, "start 12, start 34, start 5", ""),
               (9, 1, _TENANTS, ""), (6, 1, "start 123", "0 1"), (6, 1, f"{_ANNA}, start 12349", "2 3"),
               (6, 1, "start 12", "lose"), (6, 2, "start 12345", "publish"), (6, 1, "start 12", "give")],
        strategy=st.tuples(st.integers(4, 9), st.integers(1, 3), st.lists(_STEP, max_size=6).map(", ".join),
                           st.sampled_from(["", "", "0 1", "1 2 3", "lose", "publish", "give"])),
    ),
)  # fmt: skip


def orders(a: int, b: int) -> list[str]:
    """Every order of `a` steps A and `b` steps B: fewest changes of letter first, and then alphabetically.

    >>> orders(2, 1)
    ['AAB', 'BAA', 'ABA']
    """
    found = []
    for places in itertools.combinations(range(a + b), a):
        found.append("".join("A" if at in places else "B" for at in range(a + b)))
    return sorted(found, key=lambda order: (_changes(order), order))


def _changes(order: str) -> int:
    return sum(one != other for one, other in itertools.pairwise(order))


def _advice(right: Played) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    calls = calls_of(right)
    aborted = [call.arguments["sequence"] for call in calls if call.verb == "abort"]
    if not aborted:
        return "the careless line runs when a request aborts"
    before = [call.verb for call in calls if call.arguments.get("sequence") in aborted]
    if "checkpoint" not in before:
        return "without a checkpoint, all that was taken at the start is still its own"
    if "advance" not in before[: before.index("checkpoint")]:
        return "a checkpoint publishes what is computed: compute first"
    return "one and the same request must checkpoint and abort, and it must have something new to publish"


def _praise(careless: Played) -> str:
    """Return whether a script that found the bug also made the manager hand out a page that the cache still holds."""
    manager = calls_of(careless)[0].thing
    held = {page for node in manager.cache.nodes() for page in node.slots}
    for sequence in manager.running:
        for page in sequence.row[sequence.shared :]:
            if page in held:
                return f"And {name_of(sequence)} was given slot {page}, which the tree holds!"
    return "Can you make it give somebody a slot that the tree holds?"


EXERCISES = (
    exercise(
        "7.4", "orders", orders,
        cases=[(1, 0), (0, 2), (1, 1), (2, 1), (2, 2), (0, 0)],
        strategy=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    ),
    engine_hunt(
        "7.5", "careless_abort", ("7.5", "an abort goes by what was found at the start"),
        Calls(lambda world: world["CacheManager"](8), ("start", "advance", "checkpoint", "finish", "abort"),
              seen=lambda manager: {"free": manager.pool.num_free}),
        advice=_advice, praise=_praise,
    ),
)  # fmt: skip
