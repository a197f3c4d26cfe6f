"""The pieces of chapter 07: start, checkpoint and release."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, calls_of, engine_hunt
from minikv.course.pieces.identity import ALL_RIGHT, kept, shuffle
from minikv.course.pieces.observe import bracketed, came_of, numbers, outline, steps_of
from minikv.course.pieces.piece import CaseFrame, Piece, exercise
from minikv.course.pieces.trial import Played
from minikv.engine import World
from minikv.engine.manager_shell import SequenceShell, audit, claims, name_of
from minikv.errors import InvariantError, OutOfPages
from minikv.testing.canary import Canary, CanaryError
from minikv.testing.snapshot import plain, ranges

_WHO, _TOKENS = st.integers(0, 3), st.text("01", min_size=1, max_size=7)
_STEP = st.one_of(
    st.builds("start {} {}".format, _TOKENS, st.sampled_from(["", "", "B"])),
    st.builds("compute {} {}".format, _WHO, st.integers(1, 7)),
    st.builds("extend {} {}".format, _WHO, _TOKENS),
    st.builds("{} {}".format, st.sampled_from(["checkpoint", "checkpoint", "finish", "abort"]), _WHO),
)
_DAY = st.tuples(st.integers(4, 9), st.integers(1, 3), st.lists(_STEP, max_size=12).map(", ".join))


class _Desk:
    """A manager of a world and a canary that does what an engine would do, one step after the other."""

    def __init__(self, world: World, num_pages: int, page_size: int):
        self.world, self.canary, self.count = world, Canary(), 0
        self.manager = world["CacheManager"](num_pages, page_size)
        shuffle(self.manager.pool)

    def step(self, verb: str, what: str, more: str = "") -> tuple[str, Mapping[str, Any]] | None:
        """Do one step; what was done in words, and the result. `None` if no running request could do it."""
        if verb == "start":
            return f"start {bracketed(what)}" + (f" in namespace {more!r}" if more else ""), self.start(what, more)
        if not self.manager.sequences:
            return None
        sequence = self.manager.sequences[int(what) % len(self.manager.sequences)]
        name = name_of(sequence)
        if verb == "compute":
            count = min(int(more or 99), len(sequence.tokens) - sequence.computed)
            self.compute(sequence, count)
            return f"compute {count} token{'s' * (count != 1)} of {name}", {}
        if verb == "extend":
            error, _ = came_of(lambda: self.manager.extend(sequence, numbers(more)), OutOfPages)
            return f"extend {name} by {bracketed(more)}", {"raised": error}
        getattr(self.manager, verb)(sequence)
        return f"{verb} {name}", {}

    def start(self, prompt: str, namespace: str) -> Mapping[str, Any]:
        """What the piece raised or returned."""
        tokens, start, running = self.world["pack"](numbers(prompt)), self.world["start"], len(self.manager.sequences)
        error, made = came_of(lambda: start(self.manager, tokens, namespace or None), OutOfPages)
        for sequence in (*self.manager.sequences, made):
            if isinstance(sequence, SequenceShell) and not sequence.number:
                self.count += 1
                sequence.number, sequence.page_size = self.count, self.manager.page_size
                sequence.cached_length = sequence.shared
        if error != "no error" and len(self.manager.sequences) > running:
            error += ", and the request runs all the same"
        # A class that a decorated answer found may be another notebook's.
        return {"raised": error, "what is returned": "the request" if isinstance(made, SequenceShell) else made}

    def compute(self, sequence: Any, count: int) -> None:
        """Keys and values of the next tokens come into their slots."""
        upto, slots = sequence.computed + count, plain(sequence.slots)
        if len(slots) >= upto:
            self.canary.write(sequence.tokens[:upto], slots, sequence.computed, sequence.namespace, name_of(sequence))
        self.manager.advance(sequence, count)

    def seen(self) -> dict[str, Any]:
        """Whose each page is, the running requests, and what attention reads through their rows."""
        for sequence in self.manager.sequences:
            if not isinstance(sequence.row, list):
                raise TypeError(f"the row is {sequence.row!r:.60}: expected a list of page numbers")
        shuffle(self.manager.pool)  # in which order pages went back makes no difference
        return {
            "the audit": _fault_in(self.manager) or ALL_RIGHT,
            "who owns what": whose(self.manager),
            "what is cached": self.cached(),
            "the nodes that were there": kept(*self.manager.cache.roots.values()),
            "who runs": self.each(lambda sequence: "runs"),
            "the rows, in pages": self.each(lambda sequence: bracketed(sequence.row)),
            "shared and computed tokens": self.each(lambda sequence: f"{sequence.shared} and {sequence.computed}"),
            "the namespaces": self.each(lambda sequence: repr(sequence.namespace)),
            "what attention reads": self.read(),
        }

    def cached(self) -> str:
        """The trees by their namespaces, and the sizes."""
        trees = [f"{outline(root)} for {name!r}" for name, root in self.manager.cache.roots.items()]
        cache = self.manager.cache
        return f"{'; '.join(trees)}; {cache.evictable_size} evictable, {cache.protected_size} protected"

    def each(self, what: Callable[[Any], str]) -> str:
        """Something of every running request, in words."""
        said = [f"{name_of(sequence)}: {what(sequence)}" for sequence in self.manager.sequences]
        return "; ".join(said) or "nobody runs"

    def read(self) -> str:
        """Whether each running request finds what it computed or was promised."""
        for sequence in self.manager.sequences:
            done = sequence.computed
            try:
                self.canary.read(sequence.tokens[:done], plain(sequence.slots)[:done], sequence.namespace)
            except CanaryError as error:
                return f"{name_of(sequence)}: {' '.join(str(error).split())}"
        return ALL_RIGHT


def play_manager_day(world: World, case: Any) -> Iterator[CaseFrame]:
    """A day of a manager: requests start, are computed, publish, grow and leave.

    A step is a verb, then a prompt and perhaps its namespace, or the place of a request among those that run.
    """
    num_pages, page_size, day = case
    desk = _Desk(world, num_pages, page_size)
    for step in steps_of(day):
        done = desk.step(*step)
        if done is not None:
            caption, seen = done
            yield CaseFrame(caption, {**seen, **desk.seen()}, (desk.manager, *desk.manager.sequences))


_ANNA = "start 12345, compute 0, finish 0"
_TWINS = "start 12345, start 12345, compute 0, compute 1, checkpoint 0, checkpoint 1"
_GROWING = "start 123, compute 0, checkpoint 0, extend 0 456, compute 0"
_AHEAD = "start 31, compute 0, finish 0, start 3142567, start 3142567, compute 0, compute 1, checkpoint 0, checkpoint 1"
_TENANTS = "start 123 B, compute 0, checkpoint 0, start 123 B, start 123"

PIECES = (
    Piece(
        "7.1", "start", play_manager_day,
        cases=[(4, 1, "start 123"), (8, 1, f"{_ANNA}, start 129"), (6, 2, f"{_ANNA}, start 12349"),
               (6, 1, "start 1234, start 567"), (9, 1, _TENANTS)],
        strategy=_DAY,
        hints=(
            "`admit` does the hard part: it returns the locked match, and the pages that it took for all the rest.",
            "The row has first the pages that were found, `found.pages`, and then the new ones. `found.length` says "
            "how many tokens lie in the first part.",
            "The request needs its handle to give the lock back one day, and the manager needs to know that it runs: "
            "append it to `manager.running` once nothing can fail any more.",
        ),
    ),
    Piece(
        "7.2", "checkpoint", play_manager_day,
        cases=[(4, 1, "start 12, compute 0, checkpoint 0"), (6, 2, "start 123, compute 0, checkpoint 0"),
               (8, 2, _TWINS), (9, 1, f"{_GROWING}, checkpoint 0, finish 0"),
               (6, 2, "start 12345, compute 0 3, checkpoint 0, compute 0, finish 0"), (9, 1, _TENANTS),
               (12, 2, _AHEAD)],
        strategy=_DAY,
        hints=(
            "Count in pages: `pages = sequence.computed // manager.page_size`. Only so many pages, and the tokens in "
            "them, may be published: the rest is not computed, or does not fill a page.",
            "`insert` returns how many tokens were there already, `prefix_length`. The pages of the row from `shared` "
            "up to there are duplicates. Remember them: the row is about to change.",
            "`acquire` the same tokens: you get the cache's pages, locked. Write them into the row, free the "
            "duplicates, and give the old lock back. The new match becomes the request's handle, and `shared` moves.",
        ),
    ),
    Piece(
        "7.3", "release", play_manager_day,
        cases=[(4, 1, "start 123, abort 0"), (4, 1, "start 123, compute 0, finish 0"),
               (6, 2, "start 123, compute 0, finish 0"), (6, 2, f"{_ANNA}, start 12349, abort 0"),
               (8, 1, "start 123, start 45, abort 0, compute 0, finish 0"), (9, 1, f"{_GROWING}, abort 0")],
        strategy=_DAY,
        hints=(
            "Three things leave: the request leaves `manager.running`, its own pages go back to the pool, and its "
            "lock goes back to the cache.",
            "The first `shared` tokens of the row lie in the cache's pages. Only what stands behind them is its own; "
            "a row counts in pages, and `shared` in tokens.",
        ),
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
    """Whether a script that found the bug also made the careless manager hand out a page that the cache still holds."""
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
        hint="an order is known when you know which of its a + b places have an A: choose them in every way, then sort",
    ),
    engine_hunt(
        "7.5", "careless_abort", ("7.5", "an abort goes by what was found at the start"),
        Calls(lambda world: world["CacheManager"](8), ("start", "advance", "checkpoint", "finish", "abort"),
              seen=lambda manager: {"free": manager.pool.num_free}),
        hint="compare cached_length with shared: which verb makes them differ, and who looks at the wrong one "
        "afterwards?",
        advice=_advice, praise=_praise,
    ),
)  # fmt: skip


def whose(manager: Any) -> str:
    """Everybody's pages on one line, or what is wrong with them.

    >>> from minikv.engine import engine_world
    >>> manager = engine_world()["CacheManager"](8)
    >>> _ = manager.start([1, 2, 3])
    >>> whose(manager)
    'the pool: 3-7; request 1: 0-2'
    """
    owned = "; ".join(f"{name}: {ranges(sorted(pages))}" for name, pages in claims(manager) if pages)
    return _fault_in(manager) or owned


def _fault_in(manager: Any) -> str:
    """The first page that is lost, has two owners, or is read or locked wrongly, if there is one."""
    try:
        audit(manager)
    except InvariantError as error:
        return str(error)
    return ""
