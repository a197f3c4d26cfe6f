"""The pieces of chapter 02: alloc, guard and free, which make a pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, calls_of, engine_hunt
from minikv.course.pieces.observe import came_of, counting
from minikv.course.pieces.piece import CaseFrame, Cost, Piece, exercise, framed
from minikv.course.pieces.trial import Played
from minikv.engine import World
from minikv.pools import BitmaskPool
from minikv.testing.attempt import short_repr

_COUNT = st.integers(0, 6)
_PAGES = st.lists(st.integers(-2, 6), max_size=4)
_SLOTS = st.lists(st.integers(0, 4), max_size=4)
_DAY = st.lists(st.one_of(_COUNT, _PAGES, _PAGES.map(tuple)), max_size=6)


@framed
def _frame(pool: Any) -> dict[str, Any]:
    """What can be seen of a pool: its stack from the top down, and the pages with a mark."""
    marked = [page for page, mark in enumerate(pool.in_use) if mark]
    return {"the stack, from the top": list(pool.stack)[::-1], "pages marked in use": marked}


def play_pool_day(world: World, case: Any) -> Iterator[CaseFrame]:
    """A pool of `size` pages, and `steps`: a number is taken, and a list of pages is given back."""
    size, steps = case
    pool, done = world["Pool"](size), f"Pool({size})"
    yield _frame(done, pool)
    for step in steps:
        if isinstance(step, int):
            done += f".alloc({step})"
            error, pages = came_of(partial(pool.alloc, step), MemoryError)
            is_list = pages is None or isinstance(pages, list)
            seen = {"raised": error, "what is returned": pages if is_list else f"{short_repr(pages)}, not a list"}
        else:
            done, given = f"{done}.free({list(step)})", step[:]
            error, _ = came_of(partial(pool.free, given), ValueError)
            seen = {"raised": error, "the pages, which must not change": given}
        yield _frame(done, pool, seen)


def play_guard(world: World, case: Any) -> Iterator[CaseFrame]:
    """A pool of `size` of which `count` pages are in use; each of `asked` is looked at."""
    size, count, asked = case
    pool = world["Pool"](size)
    pool.alloc(min(count, size))
    start = f"Pool({size}).alloc({min(count, size)})"
    yield _frame(start, pool)
    for pages in asked:
        given = pages[:]
        wrong = world["guard"](pool, given)
        seen = {"what is returned": "None" if wrong is None else wrong, "the pages, which must not change": given}
        yield _frame(f"{start}, then guard(pool, {list(pages)})", pool, seen)


def entries_looked_at(world: World) -> int:
    """How many entries of the stack and of the marks are looked at while three pages of a large pool are guarded."""
    pool, (counted, tally) = world["Pool"](1000), counting(list)
    pages = pool.alloc(3)
    pool.stack, pool.in_use = counted(pool.stack), counted(pool.in_use)
    world["guard"](pool, pages)
    return tally[0]


PIECES = (
    Piece(
        "2.1", "alloc", play_pool_day,
        cases=[(4, [1]), (4, [2]), (4, [0]), (2, [3]), (2, [1, 2, 1]), (4, [2, [1, 0], 2])],
        strategy=st.tuples(st.integers(1, 5), _DAY),
        hints=(
            "Compare `count` with the length of `pool.stack` before you change anything. That is what makes it all "
            "or nothing.",
            "`pool.stack.pop()` takes the page that lies on top. Take that many of them, one after the other, into a "
            "new list.",
            "Each page that you took gets its mark: `pool.in_use[page] = True`. Then return the list.",
        ),
    ),
    Piece(
        "2.2", "guard", play_guard,
        cases=[(4, 2, [[0]]), (4, 2, [[3]]), (4, 2, [[0, 0]]), (4, 2, [[4]]), (4, 4, [[-1]]), (4, 3, [[1, 3, 5]]),
               (4, 3, [[2, 1, 2, 1], [2]]), (4, 2, [[0, 9, 1, 1]]), (4, 2, [[1, 1, 3]])],
        strategy=st.tuples(st.integers(1, 5), st.integers(0, 5), st.lists(_PAGES, min_size=1, max_size=2)),
        hints=(
            "Go through the pages in the order in which they were given. A page is wrong for one of three reasons.",
            "The three questions: does the pool have a page with that number (0 to `pool.size - 1`)? Is it marked in "
            "use? Was it in the list before? Ask the first one first.",
            "Keep the pages that passed in a set; a page that is in the set already is given twice. After the loop, "
            "return None.",
        ),
        cost=Cost("entries of the pool looked at", entries_looked_at, 4,
                  "the mark of a page says whether it is in use: ask for the marks of `pages`, and for no others"),
    ),
    Piece(
        "2.3", "free", play_pool_day,
        cases=[(4, [2, [1]]), (4, [3, [0, 1], 1]), (4, [2, [0], [0]]), (4, [2, [1, 1]]), (4, [3, (2, 0)])],
        strategy=st.tuples(st.integers(1, 5), _DAY),
        hints=(
            "Ask `guard` first. If it names a page, raise a ValueError, and do nothing else.",
            "Page 0 is a page too, so compare what `guard` said with None.",
            "Each page loses its mark and goes onto the stack. The first one must lie on top, so push the last one "
            "first: `for page in reversed(pages)`.",
        ),
    ),
)  # fmt: skip


def lost_and_shared(size: int, free: Sequence[int], rows: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """The slots of a pool that are lost, and those that are there more than once; both sorted.

    A slot is there once for each time that it is in `free` or in one of the `rows`.

    >>> lost_and_shared(4, free=[3], rows=[[0, 1], [1]])
    ([2], [1])
    """
    times = Counter([*free, *(slot for row in rows for slot in row)])
    return [slot for slot in range(size) if not times[slot]], sorted(slot for slot in times if times[slot] > 1)


def _advice(right: Played) -> str:
    """A hint for a script that does no harm: what it does not do yet."""
    if "occupy" not in [call.verb for call in calls_of(right)]:
        return "the careless line is in occupy, so call it"
    return "occupying a slot that is free works: what if somebody has it?"


EXERCISES = (
    exercise(
        "2.4", "audit", lost_and_shared,
        cases=[(2, [0, 1], []), (2, [1], []), (3, [0], [[1], [2, 1]]), (2, [0, 1], [[1]]), (3, [2, 2], [[0], [1]]),
               (8, [], [[0, 1, 2, 3, 4, 5, 6], [7, 7, 7]]), (3, [2, 1], [[2], [1], [0]])],
        strategy=st.tuples(st.just(5), _SLOTS, st.lists(_SLOTS, max_size=3)),
        hint="count how often each slot is in the free list and in the rows together: once is right",
    ),
    engine_hunt(
        "2.5", "careless_occupy", ("2.5", "flips the bit, and asks nothing"),
        Calls(lambda world: world.get("BitmaskPool", BitmaskPool)(2), ("alloc", "free", "occupy"),
              seen=lambda pool: {"free": pool.num_free}),
        hint="flip a bit that is in use, and see what the next alloc hands out",
        advice=_advice,
    ),
)  # fmt: skip
