"""The pieces of chapter 07: checkpoint, truncate, and the owners of each page."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, CallsMade, engine_hunt
from minikv.course.pieces.observer import ALL_RIGHT, RETURNED, Raised
from minikv.course.pieces.piece import Cost, Frames, Piece, Shown, called, exercise, result_of
from minikv.course.pieces.props import each_in, numbers, shuffle, steps_of, up_to
from minikv.engine import World, engine_world, ours
from minikv.engine.shells import SequenceShell, faults, name_of
from minikv.errors import OutOfPages
from minikv.testing.attempt import type_of
from minikv.testing.canary import Canary

_STEPS = "advance", "advance", "truncate", "checkpoint", "checkpoint", "finish", "abort"
_WHO = up_to(3)
_TOKENS = st.one_of(st.text("01", min_size=1, max_size=7), st.text("01", max_size=3).map("0011".__add__))
_STEP = st.one_of(
    st.builds("start {} {}".format, _TOKENS, st.sampled_from(["", "", "B"])),
    st.builds("extend {} {}".format, _WHO, _TOKENS),
    st.builds("{} {} {}".format, st.sampled_from(_STEPS), _WHO, up_to(9)),
)
_SIZES = st.integers(4, 9), st.integers(1, 3)
_DAY = st.tuples(*_SIZES, st.lists(_STEP, min_size=4, max_size=14).map(", ".join))
_MISTAKE = st.sampled_from(["", "free pages 0 1", "free pages 1 2 3", "lose a page", "publish a row"])
SEEN = "row", "shared", "computed", "tokens", "namespace"


def act(manager: Any, verb: str, what: str, more: str = "") -> tuple[str, Any]:
    """Do a step of a day; return it as a call, and the result. Where no request runs, most steps do nothing.

    A step is a verb, then a prompt and perhaps its namespace, or the place of a request among those that run.
    """
    if verb == "start":
        tokens, space = numbers(what), f", namespace={more!r}" if more else ""
        return f"manager.start({tokens}{space})", _came_of(lambda: manager.start(tokens, namespace=more or None))
    if not manager.running:
        return "", None
    sequence = manager.running[int(what) % len(manager.running)]
    given, least = list[Any](), max(1, sequence.shared)
    if verb == "extend":
        given = [numbers(more)]
    elif verb == "advance":
        given = [min(int(more or 99), sequence.length - sequence.computed)]
    elif verb == "truncate":
        given = [least + int(more) % (sequence.length - least + 1)]
    call = f"manager.{verb}({', '.join([name_of(sequence), *map(str, given)])})"
    return call, _came_of(lambda: getattr(manager, verb)(sequence, *given))


def _came_of(call: Callable[[], Any]) -> Any:
    """The result, or that there was no room: whatever it says of the pages."""
    found = result_of(call, OutOfPages)
    return Raised("an OutOfPages") if isinstance(found, Raised) else found


def play_manager_day(world: World, case: Any) -> Frames:
    """A day of a manager: requests start, are computed, publish, grow and leave."""
    *sizes, day = case
    manager = world["CacheManager"](*sizes)
    shuffle(manager.pool)
    for step in steps_of(day):
        caption, found = act(manager, *step)
        if not caption:
            continue
        shuffle(manager.pool)  # in which order pages went back makes no difference
        cache, running = manager.cache, manager.running
        things = {
            RETURNED: name_of(found) if isinstance(found, SequenceShell) else found,
            "running requests": [name_of(each) for each in running],
            "the audit": _audit(manager),
            **{f"{name_of(each)}.{name}": getattr(each, name) for each in running for name in SEEN},
            "types of the rows": [type_of(each.row) for each in running],
            "pages in the pool": sorted(manager.pool.stack),
            "locks held": sum(cache.held.values()),
            "manager.cache.evictable": cache.evictable,
            "manager.cache.roots": cache.roots,
        }
        yield Shown(caption, things, (manager, *running))


def _audit(manager: Any) -> str:
    """The first fault; none where rows hold what is no page, which they show."""
    with suppress(IndexError, TypeError):
        return fault_in(manager) or ALL_RIGHT
    return ALL_RIGHT


def fault_in(manager: Any) -> str:
    """The first page that is lost, has two owners, or is read or locked wrongly; empty if there is none."""
    return next(faults(manager, ours("7.3", {})(manager)), "")


def play_owners(world: World, case: Any) -> Frames:
    """A day by our own pieces, with mistakes: pages get lost, or are freed in use, or the cache gets a request's."""
    num_pages, page_size, day = case
    manager = engine_world()["CacheManager"](num_pages, page_size)
    shuffle(pool := manager.pool)
    for verb, *what in steps_of(day):
        if verb == "lose":
            pool.alloc(min(1, pool.num_free))
        elif verb == "free":
            pool.free([page for page in map(int, what[1:]) if not pool.is_free(page)])
        elif verb == "publish":
            for each in manager.running[:1]:
                manager.cache.insert(each.tokens, each.row, namespace=each.namespace)
        else:
            act(manager, verb, *what)
    shown = called(world, "owners", manager=manager, words=each_in(_sorted))
    caption = f"with {num_pages} pages of size {page_size}: {f'{day}, then ' if day else ''}owners(manager)"
    yield Shown(caption, {RETURNED: shown.things[RETURNED]}, (manager, *manager.running))


def _sorted(names: Any) -> Any:
    return sorted(map(str, names)) if isinstance(names, list | tuple) else names


_ANNA = "start 12345, advance 0, finish 0"
_TWINS = "start 12345, start 12345, advance 0, advance 1, checkpoint 0, checkpoint 1"
_GROWING = "start 123, advance 0, checkpoint 0, extend 0 456, advance 0"
_TENANTS = "start 123 B, advance 0, checkpoint 0, start 123 B, start 123"
# The pieces share a state, so each is judged on the cases of all of them.
_DAYS = (
    (4, 1, "start 123"), (8, 1, f"{_ANNA}, start 129"), (6, 2, f"{_ANNA}, start 12349"),
    (6, 1, "start 1234, start 567"), (6, 1, f"{_ANNA}, start 1234678"), (9, 1, _TENANTS),
    (6, 2, "start 123, advance 0, checkpoint 0"), (8, 2, _TWINS),
    (8, 1, "start 123, start 145, advance 0, advance 1, checkpoint 0, checkpoint 1"),
    (9, 1, f"{_GROWING}, checkpoint 0, finish 0"),
    (6, 2, "start 12345, advance 0 3, checkpoint 0, advance 0, finish 0"),
    (12, 2, f"start 12, advance 0, finish 0, {_TWINS}, abort 0, finish 0"),
    (8, 2, "start 12345, start 12345, advance 0, advance 1 2, checkpoint 0, checkpoint 1, finish 1"),
    (4, 1, "start 123, abort 0"), (9, 1, f"{_ANNA}, start 67, abort 0, start 12345"), (9, 1, f"{_GROWING}, abort 0"),
    (6, 2, "start 123, extend 0 4, extend 0 5, advance 0, finish 0"), (3, 2, "start 123, extend 0 456, extend 0 4"),
    (6, 1, "start 123, extend 0 45, truncate 0 1, advance 0"),
    (6, 2, "start 123, extend 0 4567, truncate 0 3, finish 0"),
    (6, 2, "start 12345, advance 0 2, checkpoint 0, advance 0, truncate 0 0, extend 0 67, advance 0, finish 0"),
    (9, 3, f"{_ANNA}, start 12345678, truncate 0 2, abort 0"), (4, 2, "start 1234, advance 0, truncate 0 2, finish 0"),
    (8, 1, f"{_ANNA}, start 67, extend 0 89, advance 0"),
)  # fmt: skip

_CROWD = "".join(f"start {number}, advance 0, finish 0, " for number in range(10, 99))
_LONG, _ROWS = f"start {'1' * 150}", "steps for rows of 150 pages"

PIECES = (
    Piece("7.1", play_manager_day, _DAYS, _DAY,
          Cost(_ROWS, [
              (300, 1, f"{_LONG}, {_LONG}, advance 0 150, advance 1 150, checkpoint 0, checkpoint 1"),
              (300, 1, f"{_CROWD}start 999, advance 0, checkpoint 0")],
               "a duplicate and the page that stays are at the same index in two rows: don't search", 1.6)),
    Piece("7.2", play_manager_day, _DAYS, _DAY,
          Cost(_ROWS, [(150, 1, f"{_LONG}, truncate 0 50")],
               "the pages that go are at the end of the row: two slices are enough, so don't search")),
    Piece(
        "7.3", play_owners,
        cases=[(2, 1, ""), (4, 1, "start 12"), (6, 2, f"{_ANNA}, start 12349"), (8, 2, _TWINS),
               (6, 2, "start 12345, advance 0 3, checkpoint 0"),
               (8, 1, "start 12, start 34, start 5"), (9, 1, _TENANTS),
               (6, 1, "start 123, free pages 0 1"),
               (6, 1, f"{_ANNA}, start 12349, free pages 2 3"), (6, 1, "start 12, lose a page"),
               (6, 2, "start 12345, publish a row"), (6, 1, "start 12, free page 0, start 7")],
        strategy=st.tuples(*_SIZES, st.builds("{}, {}".format, st.lists(_STEP, max_size=6).map(", ".join), _MISTAKE)),
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


def _advice(right: CallsMade) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    aborted = [call.arguments["sequence"] for call, _ in right if call.verb == "abort"]
    if not aborted:
        return "the careless line runs when a request aborts"
    before = [call.verb for call, _ in right if call.arguments.get("sequence") in aborted]
    if "checkpoint" not in before:
        return "without a checkpoint, the request still owns every page that it took at the start"
    if "advance" not in before[: before.index("checkpoint")]:
        return "a checkpoint publishes only computed tokens: compute some first"
    return "the same request must checkpoint and abort, and the checkpoint must publish something new"


def _praise(careless: CallsMade) -> str:
    """Return whether a script that found the bug also made the manager hand out a page that the cache still holds."""
    manager = careless[0][0].thing
    held = {page for node in manager.cache.nodes() for page in node.slots}
    for sequence in manager.running:
        for page in sequence.row[sequence.shared :]:
            if page in held:
                return f"And {name_of(sequence)} was given slot {page}, which the tree holds!"
    return "Can you make it hand out a slot that the tree holds?"


EXERCISES = (
    exercise(
        "7.4", orders,
        cases=[(1, 0), (0, 2), (1, 1), (2, 1), (2, 2), (0, 0)],
        strategy=st.tuples(up_to(4), up_to(4)),
    ),
    engine_hunt(
        "7.5", "careless_abort", "7.5 an abort goes by what was found at the start",
        Calls(lambda world: world["CacheManager"](8), ("start", "advance", "checkpoint", "finish", "abort"),
              seen=lambda manager: {"free": manager.pool.num_free}),
        advice=_advice, praise=_praise,
    ),
)  # fmt: skip


# -- what chapter 07 uses in its cells --------------------------------------------------------------------------------


def watched(kind: Callable[[int], Any]) -> Any:
    """A manager of 12 pages with a canary, which complains when a slot is read that holds something else.

    >>> from minikv import CacheManager
    >>> watched(CacheManager).pool.num_free
    12
    """
    manager = kind(12)
    manager.canary = Canary()
    return manager


def compute(manager: Any, sequence: Any) -> None:
    """Do what an engine does: read everything that is computed through the row, compute the rest, and advance.

    >>> from minikv import CacheManager
    >>> manager = watched(CacheManager)
    >>> sequence = manager.start([1, 2, 3])
    >>> compute(manager, sequence); sequence.computed
    3
    """
    done, slots = sequence.computed, sequence.slots
    manager.canary.read(sequence.tokens[:done], slots[:done])
    manager.canary.write(sequence.tokens, slots, done)
    manager.advance(sequence)


_VERBS = "advance", "checkpoint", "extend", "truncate", "finish", "abort"


def same_days(yours: Any, ours: Any, steps: int) -> int:
    """Let two managers live through the same random steps; return how many tokens both have in their caches.

    `AssertionError` names the first step after which they differ.

    >>> from minikv import CacheManager
    >>> same_days(CacheManager(100, 2), CacheManager(100, 2), steps=20) > 0
    True
    """
    chance, pairs = random.Random(7), list[tuple[Any, Any]]()
    for step in range(1, steps + 1):
        tokens = chance.choices([1, 2], k=chance.randint(1, 8))
        if len(pairs) < 3:
            pairs.append((yours.start(tokens), ours.start(tokens)))
        pair, verb = chance.choice(pairs), chance.choice(_VERBS)
        given = {"extend": [tokens], "truncate": [max(1, pair[1].shared)]}.get(verb, [])
        try:
            for manager, sequence in zip((yours, ours), pair):
                getattr(manager, verb)(sequence, *given)
            yours.check()
        except Exception as error:
            raise AssertionError(f"step {step}, {verb}: {type(error).__name__}: {error}") from error
        free = yours.pool.num_free, ours.pool.num_free
        assert free[0] == free[1], f"step {step}, {verb}: yours has {free[0]} free pages, the package's {free[1]}"
        pairs = [each for each in pairs if each[1].state == "running"]
    return int(yours.cache.total_size)
