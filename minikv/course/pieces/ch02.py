"""The pieces of chapter 02: alloc, guard and free, which make a pool, and what a first engine does with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import product, takewhile
from operator import itemgetter
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minikv.course.pieces.cost import Compared
from minikv.course.pieces.hunt import Calls, CallsMade, engine_hunt
from minikv.course.pieces.observer import ALL_RIGHT, RETURNED
from minikv.course.pieces.piece import CALLERS, Cost, Frames, Piece, Play, Shown, called, exercise, result_of
from minikv.course.pieces.props import ASKED, DEEP, bracketed, numbers, up_to, used_pool, with_slots
from minikv.engine import World
from minikv.pools import BitmaskPool

_COUNT = up_to(6)
_PAGES = st.lists(st.integers(-2, 6), max_size=4)
_SLOTS = st.lists(up_to(4), max_size=4)


def _array(pages: list[int]) -> Any:
    return np.array(pages, dtype=int)


KINDS: dict[str, Callable[[Any], Any]] = {"%s": list, "tuple(%s)": tuple, "np.array(%s)": _array}
_DAY = st.lists(st.one_of(_COUNT, _PAGES, _PAGES.map(tuple), _PAGES.map(_array)), max_size=6)
# Prompts with their answers: a prompt may have the end of an earlier answer in it.
ANSWERED = st.lists(
    st.tuples(st.text("0123", min_size=1, max_size=7), st.text("123", max_size=4)), min_size=1, max_size=3
)


def play_pool_day(world: World, case: Any) -> Frames:
    """A pool of `size` pages, and `steps`: a number is taken, and a list of pages is given back."""
    size, steps = case
    pool, done = world["Pool"](size), f"Pool({size})"
    for step in steps:
        verb, given = "alloc" if isinstance(step, int) else "free", copy(step)
        done = f"{done}.{verb}({step if isinstance(step, int) else list(step)})"
        found = result_of(lambda: getattr(pool, verb)(given), MemoryError, ValueError)  # noqa: B023 - called at once
        yield Shown(done, {"pool": pool, CALLERS.format("pages"): given, RETURNED: found})


def play_guard(world: World, case: Any) -> Frames:
    """A pool of `size` of which `count` pages are in use; each of `asked` is looked at."""
    size, count, asked = case
    pool = world["Pool"](size)
    pool.alloc(min(count, size))
    for pages, (name, kind) in product(asked, KINDS.items()):
        given = kind(pages)
        found = world["guard"](pool, given)
        caption = f"pool = Pool({size}); pool.alloc({min(count, size)}); guard(pool, {name % pages})"
        yield Shown(caption, {"pool": pool, CALLERS.format("pages"): given, RETURNED: found})


def play_cached_row(world: World, case: Any) -> Frames:
    """`prompts` are cached, and each of `asked` is looked up; of several rows for one prefix, any will do."""
    prompts, asked = case
    known = list(with_slots(prompts))
    for tokens in map(numbers, asked):
        shown = called(world, "cached_row", known=known, tokens=tokens)
        row, end = shown.result, len(shown.result or ())
        rows = [own[:end] for earlier, own in known if earlier[:end] == tokens[:end]]
        if row in rows and not any(row is own for _, own in known):
            shown = shown._replace(things={**shown.things, RETURNED: rows[0]})
        yield shown


class _ExactCache:
    """A cache with the verbs of a `PromptList`, that needs no piece."""

    def __init__(self, written: Mapping[Any, list[int]]) -> None:
        self.slots, self.kept, self.fault = dict[tuple[int, ...], Any](), list[tuple[Any, Any]](), ALL_RIGHT
        self.written = written  # by slot, the text up to its token

    def find(self, tokens: Any) -> list[Any]:
        prefixes = takewhile(self.slots.__contains__, (tuple(tokens[: end + 1]) for end in range(len(tokens))))
        return [self.slots[prefix] for prefix in prefixes]

    def keep(self, tokens: Any, row: Any) -> None:
        self.kept.append((tokens, row))
        for end, slot in enumerate(row[: len(tokens)]):
            if self.written.get(slot) != list(tokens[: end + 1]):
                self.fault = f"slot {slot} is kept, but its token is not computed yet"
            self.slots.setdefault(tuple(tokens[: end + 1]), slot)


def _left_in(cache: Any, pool: Any, tokens: list[int], _: Any) -> dict[str, Any]:
    """The free pages after an answer, and what the cache keeps and finds again."""
    kept = [(kept, f"in {len(row)} slots") for kept, row in cache.kept]
    found = {"kept sequences": kept, "slots that the cache finds again": cache.find(tokens)}
    return {"free pages": pool.num_free, **found, "kept slots": cache.fault}


class _Number(int):
    """A number that is an object of its own, as large ones are: `is` doesn't find it."""


class _Reader:
    """A model that speaks from a script, and notes a read of a slot that does not hold what the text needs.

    What a slot holds is all of the text up to its token, and None if the slot was in use when it was written.
    """

    end = 0

    def __init__(self) -> None:
        self.slots = dict[Any, Any]()

    def begin(self, text: list[int], prompt: int, free: set[Any]) -> None:
        """From here on the text begins with a prompt, of so many tokens, and these slots are free."""
        self.free = free
        self.text, self.script, self.calls, self.fault = text, iter(text[prompt:]), list[list[int]](), ALL_RIGHT

    def __call__(self, tokens: Any, row: Any) -> int:
        """The next token of the text."""
        start = len(row) - len(tokens)
        if not 0 < len(tokens) <= len(row):
            raise ValueError(
                f"the model got {len(tokens)} tokens and {len(row)} slots: a row has a slot for each token"
            )
        self.calls.append(list(tokens))
        said = [*self.text[:start], *tokens]
        self.slots.update(
            (slot, said[: at + 1] if slot in self.free else None) for at, slot in enumerate(row) if at >= start
        )
        wrong = [slot for at, slot in enumerate(row) if self.slots.get(slot) != self.text[: at + 1]]
        if wrong and self.fault == ALL_RIGHT:
            self.fault = f"slot {wrong[0]} was not free, or does not hold the keys and values of this text"
        return _Number(next(self.script, self.end))


def answering(
    name: str, make: Callable[[World, Any], Any], look: Callable[[Any, Any, list[int], set[int]], Mapping[str, Any]]
) -> Play:
    """A play in which `name` answers prompts, one after the other; a case has pairs of a prompt and its answer.

    `make` makes the cache that goes with a model, and `look` says what can be seen of it, and of the pool, after each
    answer. One answer alone has exactly the slots that it needs.
    """

    def play(world: World, case: Any) -> Frames:
        model, done, sizes = _Reader(), list[str](), [len(prompt + answer) for prompt, answer in case]
        cache, pool = make(world, model), used_pool(world, max(sizes + [30] * (len(sizes) > 1)))
        free = set(pool.stack)
        for prompt, answer in case:
            given, text = numbers(prompt), numbers(prompt + answer)
            model.begin([*text, model.end], len(prompt), set(pool.stack))
            said = world[name](model, pool, cache, given)
            done.append(f"{bracketed(prompt)} (answered by {bracketed([*numbers(answer), model.end])})")
            things = {
                "tokens in each model call": model.calls, "slots that it reads and writes": model.fault,
                CALLERS.format("prompt"): given, **look(cache, pool, text, free), RETURNED: said,
            }  # fmt: skip
            yield Shown(f"{name} to {', then to '.join(done)}", things, cache)

    return play


def play_take_back(world: World, case: Any) -> Frames:
    """A pool of 6 pages in which `counts` pages were handed out and given back; those of the last are still in use."""
    counts, asked = case
    pool = BitmaskPool(6)
    for at, count in enumerate(counts):
        taken = pool.alloc(count)
        if at < len(counts) - 1:
            pool.free(taken)

    def state() -> dict[str, Any]:
        used = [page for page in range(6) if not pool.is_free(page)]
        return {"pages in use": used, "page versions": [pool.version(page) for page in range(6)]}

    before = " and ".join(f"{name} {bracketed(pages)}" for name, pages in state().items())
    pages, versions = [page for page, _ in asked], [version for _, version in asked]
    shown = called(world, "take_back", also=state, hide="pool", pool=pool, pages=pages, versions=versions)
    yield shown._replace(caption=f"{shown.caption} with {before}")


PIECES = (
    Piece(
        "2.1", play_pool_day,
        cases=[(4, [1]), (4, [2]), (4, [0]), (2, [3]), (2, [1, 2, 1]), (4, [2, [1, 0], 2])],
        strategy=st.tuples(st.integers(1, 5), _DAY),
        cost=Cost("steps for 30 of 1,000 pages", [(1000, [1] * 30)],
                  "take pages off the top of the stack itself: the more pages are free, the longer a copy takes"),
    ),
    Piece(
        "2.2", play_guard,
        cases=[(4, 2, [[0]]), (4, 4, [[-1]]), (4, 3, [[2, 1, 2, 1], [2]]), (4, 2, [[1, 1, 3]])],
        strategy=st.tuples(st.integers(1, 5), up_to(5), st.lists(_PAGES, min_size=1, max_size=2)),
        cost=Cost("steps for a list of pages",
                  [(300, 100, [[*range(30, 100), *map(Compared, range(30))]]), (1000, 10, [[*range(10)]])],
                  "don't search or copy lists: a mark tells what is in use, and a set what you have seen", 5),
    ),
    Piece(
        "2.3", play_pool_day,
        cases=[(4, [2, [1]]), (4, [3, [0, 1], 1]), (4, [2, [0], [0]]), (4, [2, [1, 1]]),
               (4, [3, (2, 0)]), (4, [3, _array([0, 1, 2])])],
        strategy=st.tuples(st.integers(1, 5), _DAY),
        cost=Cost("steps for 30 of 1,000 pages", [(1000, [30, *([page] for page in range(30))])],
                  "put pages on top of the stack itself: the more pages are free, the longer a copy takes"),
    ),
    Piece(
        "2.4", play_cached_row,
        cases=[([], ["12"]), (["12", "345"], ["3", "9"]), (["1", "1234", "12"], ["1239"]),
               (["123", "923"], ["9123"]), (["123", "1"], ["123"]), (["12", "123"], ["123"]),
               (["123", "143"], ["143"]), ([["1000", "2000"]], [["1000", "2000"]]),
               (["1" * DEEP], ["1" * DEEP])],
        strategy=ASKED,
        cost=Cost("steps for 300 tokens", [(["1" * 300], ["1" * 300])],
                  "compare token by token: a slice that grows is copied and compared from the start each time"),
    ),
    Piece(
        "2.5", answering("respond", lambda _, model: _ExactCache(model.slots), _left_in),
        cases=[[("12", "")], [("12", "31")], [("123", "45"), ("1239", ""), ("1", "2")], [("12", "3" * 150)]],
        strategy=ANSWERED,
    ),
    Piece(
        "2.6", play_take_back,
        cases=[([2, 0], [(0, 1)]), ([2, 1], [(0, 2)]), ([1, 0], [(5, 0), (0, 1)]),
               ([1] * 257 + [0], [(0, 257)])],
        strategy=st.tuples(
            st.lists(up_to(4), min_size=1, max_size=3),
            st.lists(st.tuples(up_to(5), up_to(2)), max_size=3, unique_by=itemgetter(0)),
        ),
    ),
)  # fmt: skip


def audit(size: int, free: Sequence[int], rows: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """The slots of a pool that are lost, and those that are there more than once; both sorted.

    A slot is there once for each time that it is in `free` or in one of the `rows`.

    >>> audit(4, free=[3], rows=[[0, 1], [1]])
    ([2], [1])
    """
    times = Counter([*free, *(slot for row in rows for slot in row)])
    return [slot for slot in range(size) if not times[slot]], sorted(slot for slot in times if times[slot] > 1)


def _advice(right: CallsMade) -> str:
    """Return a hint for a harmless script: what it does not do yet."""
    if "occupy" not in [call.verb for call, _ in right]:
        return "the careless line is in occupy, so call it"
    return "occupying a slot that is free works: what if somebody has it?"


EXERCISES = (
    exercise(
        "2.7", audit,
        cases=[(2, [0, 1], [])],
        strategy=st.tuples(st.just(5), _SLOTS, st.lists(_SLOTS, max_size=3)),
    ),
    engine_hunt(
        "2.8", "careless_occupy", "2.8 flips the bit, and asks nothing",
        Calls(lambda world: world.get("BitmaskPool", BitmaskPool)(2), ("alloc", "free", "occupy"),
              seen=lambda pool: {"free": pool.num_free}),
        advice=_advice,
    ),
)  # fmt: skip
