"""The pieces of chapter 07: start, checkpoint and release."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, calls_of, engine_hunt
from minikv.course.pieces.observe import bracketed
from minikv.course.pieces.piece import CaseFrame, Piece, exercise
from minikv.course.pieces.trial import ALL_RIGHT, Played
from minikv.engine import World
from minikv.engine.manager_shell import SequenceShell, audit, claims, name_of
from minikv.errors import InvariantError, OutOfPages
from minikv.testing.canary import Canary, CanaryError
from minikv.testing.snapshot import plain, ranges

_WHO, _TOKENS = st.integers(0, 3), st.lists(st.integers(0, 1), min_size=1, max_size=7)
_STEP = st.one_of(
    st.tuples(st.just("start"), _TOKENS, st.sampled_from([None, None, "B"])),
    st.tuples(st.just("compute"), _WHO, st.integers(1, 7)),
    st.tuples(st.just("extend"), _WHO, _TOKENS),
    st.tuples(st.sampled_from(["checkpoint", "checkpoint", "finish", "abort"]), _WHO, st.just(0)),
)
_DAY = st.tuples(st.integers(4, 9), st.integers(1, 3), st.lists(_STEP, max_size=12))


class _Desk:
    """A manager of a world and a canary that does what an engine would do, one step after the other."""

    def __init__(self, world: World, num_pages: int, page_size: int):
        self.world, self.canary, self.count = world, Canary(), 0
        self.manager = world["CacheManager"](num_pages, page_size)

    def step(self, verb: str, what: Any, more: Any) -> tuple[str, Any] | None:
        """Do one step; what was done in words, and what came of it. `None` if nobody runs who could do it."""
        if verb == "start":
            return f"start {bracketed(what)}" + (f" in namespace {more!r}" if more else ""), self.start(what, more)
        if not self.manager.sequences:
            return None
        sequence = self.manager.sequences[what % len(self.manager.sequences)]
        name = name_of(sequence)
        if verb == "compute":
            count = min(more, len(sequence.tokens) - sequence.computed)
            self.compute(sequence, count)
            return f"compute {count} token{'s' * (count != 1)} of {name}", None
        if verb == "extend":
            return f"extend {name} by {bracketed(more)}", _refused(self.manager.extend, sequence, more)
        getattr(self.manager, verb)(sequence)
        return f"{verb} {name}", None

    def start(self, tokens: list[int], namespace: Any) -> Any:
        """What the piece returned, in words."""
        before = len(self.manager.sequences)
        made = _refused(self.world["start"], self.manager, self.world["pack"](tokens), namespace)
        for sequence in {id(each): each for each in (*self.manager.sequences, made)}.values():
            if isinstance(sequence, SequenceShell) and not sequence.number:
                self.count += 1
                sequence.number, sequence.page_size = self.count, self.manager.page_size
                sequence.cached_length = sequence.shared
        if isinstance(made, SequenceShell):  # a class that a decorated answer found may be another notebook's
            return "the request"
        if made == "OutOfPages" and len(self.manager.sequences) > before:
            return "OutOfPages, and the request runs all the same"
        return made

    def compute(self, sequence: Any, count: int) -> None:
        """Keys and values of the next tokens come into their slots."""
        upto, slots = sequence.computed + count, plain(sequence.slots)
        if len(slots) >= upto:
            self.canary.write(sequence.tokens[:upto], slots, sequence.computed, sequence.namespace, name_of(sequence))
        self.manager.advance(sequence, count)

    def seen(self) -> dict[str, Any]:
        """Whose each page is, the running requests, and what attention reads through their rows."""
        for sequence in self.manager.sequences:
            _require_list(sequence)
        self.manager.pool.stack.sort(reverse=True)  # in which order pages went back is nobody's business
        return {
            "the audit": self.audited(),
            "who owns what": whose(self.manager),
            "who runs": self.each(lambda sequence: "runs"),
            "the rows, in pages": self.each(lambda sequence: bracketed(sequence.row)),
            "shared and computed tokens": self.each(lambda sequence: f"{sequence.shared} and {sequence.computed}"),
            "the namespaces": self.each(lambda sequence: repr(sequence.namespace)),
            "what attention reads": self.read(),
        }

    def each(self, what: Callable[[Any], str]) -> str:
        """Something of every running request, in words."""
        said = [f"{name_of(sequence)}: {what(sequence)}" for sequence in self.manager.sequences]
        return "; ".join(said) or "nobody runs"

    def audited(self) -> str:
        """The first page that is lost, has two owners, or is read or locked wrongly."""
        try:
            audit(self.manager)
        except InvariantError as error:
            return str(error)
        return ALL_RIGHT

    def read(self) -> str:
        """Whether each running request finds what it computed or was promised."""
        for sequence in self.manager.sequences:
            done = sequence.computed
            try:
                self.canary.read(sequence.tokens[:done], plain(sequence.slots)[:done], sequence.namespace)
            except CanaryError as error:
                return f"{name_of(sequence)}: {' '.join(str(error).split())}"
        return ALL_RIGHT


def _refused(verb: Any, *given: Any) -> Any:
    """What a call returns, or that there is no room for it."""
    try:
        return verb(*given)
    except OutOfPages:
        return "OutOfPages"


def _require_list(sequence: Any) -> None:
    """A `TypeError` that says what is wrong with a row, if it is not a list."""
    if not isinstance(sequence.row, list):
        raise TypeError(f"the row is {sequence.row!r:.60}: expected a list of page numbers")


def play_manager_day(world: World, case: Any) -> Iterator[CaseFrame]:
    """A day of a manager: requests start, are computed, publish, grow and leave."""
    num_pages, page_size, steps = case
    desk = _Desk(world, num_pages, page_size)
    for verb, what, more in steps:
        done = desk.step(verb, what, more)
        if done is not None:
            caption, result = done
            seen = {"what is returned": result} if verb == "start" else {}
            yield CaseFrame(caption, {**seen, **desk.seen()}, (desk.manager, *desk.manager.sequences))


def _start(*tokens: int, namespace: Any = None) -> tuple[str, list[int], Any]:
    return "start", list(tokens), namespace


def _steps(*words: str) -> list[tuple[str, int, Any]]:
    """Steps such as `compute 0`, by the place among those that run."""
    pairs = (word.split() for word in words)
    return [(verb, int(who), 99 if verb == "compute" else 0) for verb, who in pairs]


_ANNA = [_start(1, 2, 3, 4, 5), *_steps("compute 0", "finish 0")]
_TWINS = [_start(1, 2, 3, 4, 5), _start(1, 2, 3, 4, 5), *_steps("compute 0", "compute 1", "checkpoint 0")]
_GROWING = [_start(1, 2, 3), *_steps("compute 0", "checkpoint 0"), ("extend", 0, [4, 5, 6]), *_steps("compute 0")]
_TENANTS = [_start(1, 2, 3, namespace="B"), *_steps("compute 0", "checkpoint 0"), _start(1, 2, 3, namespace="B"),
            _start(1, 2, 3)]  # fmt: skip

PIECES = (
    Piece(
        id="7.1", name="start", play=play_manager_day,
        cases=[(4, 1, [_start(1, 2, 3)]), (8, 1, [*_ANNA, _start(1, 2, 9)]), (6, 2, [*_ANNA, _start(1, 2, 3, 4, 9)]),
               (6, 1, [_start(1, 2, 3, 4), _start(5, 6, 7)]), (9, 1, _TENANTS)],
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
        id="7.2", name="checkpoint", play=play_manager_day,
        cases=[(4, 1, [_start(1, 2), *_steps("compute 0", "checkpoint 0")]),
               (6, 2, [_start(1, 2, 3), *_steps("compute 0", "checkpoint 0")]),
               (8, 2, [*_TWINS, *_steps("checkpoint 1")]), (9, 1, [*_GROWING, *_steps("checkpoint 0", "finish 0")]),
               (6, 2, [_start(1, 2, 3, 4, 5), ("compute", 0, 3), *_steps("checkpoint 0", "compute 0", "finish 0")]),
               (9, 1, _TENANTS)],
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
        id="7.3", name="release", play=play_manager_day,
        cases=[(4, 1, [_start(1, 2, 3), *_steps("abort 0")]),
               (4, 1, [_start(1, 2, 3), *_steps("compute 0", "finish 0")]),
               (6, 2, [_start(1, 2, 3), *_steps("compute 0", "finish 0")]),
               (6, 2, [*_ANNA, _start(1, 2, 3, 4, 9), *_steps("abort 0")]),
               (8, 1, [_start(1, 2, 3), _start(4, 5), *_steps("abort 0", "compute 0", "finish 0")]),
               (9, 1, [*_GROWING, *_steps("abort 0")])],
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
    try:
        audit(manager)
    except InvariantError as error:
        return str(error)
    return "; ".join(f"{name}: {ranges(sorted(pages))}" for name, pages in claims(manager) if pages)
