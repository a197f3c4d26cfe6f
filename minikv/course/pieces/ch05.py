"""The pieces of chapter 05: the ring of recency and the order in it, evict, and room for a request."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, calls_of, engine_hunt
from minikv.course.pieces.identity import ALL_RIGHT, shuffle
from minikv.course.pieces.observe import DEEP, FORK, filled_cache, numbers, state_of_tree
from minikv.course.pieces.piece import GAVE, CaseFrame, Cost, Frames, Piece, called, exercise
from minikv.course.pieces.rings import (
    hundred,
    looking,
    play_in_order,
    play_link,
    play_out_of_order,
    play_touch,
    play_unlink,
    seen_of_ring,
)
from minikv.course.pieces.trial import Played
from minikv.engine import World
from minikv.errors import OutOfPages
from minikv.testing.attempt import Outcome, arguments, attempt

_PROMPTS = st.lists(st.text("012", min_size=1, max_size=6), min_size=1, max_size=5)
_FORKS = ["1234", "1278", "56"]
_TWINS = ["1", "12", "13"]
_SOME = st.lists(st.integers(0, 4), max_size=2)


def play_evict(world: World, case: Any) -> Frames:
    """Evict pages in several calls from a cache of `prompts`, of which some are locked and some were used again."""
    size, prompts, locked, asked, counts = case
    cache = filled_cache(world, prompts, size)
    for ask, places in ((cache.acquire, locked), (cache.match_prefix, asked)):
        for place in places:
            ask(numbers(prompts[place % len(prompts)]))
    root = cache.roots[None]
    yield CaseFrame("before", {**seen_of_ring(cache.ring), **state_of_tree(root)}, cache)
    for count in counts:
        freed = world["evict"](cache, count)
        seen = {
            "what is returned": freed, **state_of_tree(root), **seen_of_ring(cache.ring),
            "evictable pages": cache.evictable, "protected pages": cache.protected,
        }  # fmt: skip
        yield CaseFrame(f"evict {count}", seen, cache)


def play_make_room(world: World, case: Any) -> Frames:
    """Make room in several calls in a pool of `pages` pages, with cached `prompts`, some of them `locked`."""
    pages, size, prompts, locked, wanted = case
    (cache, pool), returned = _cached(world, pages, size, prompts), list[Any]()
    for place in locked:
        cache.acquire(numbers(prompts[place % len(prompts)]))
    root, own = cache.roots[None], cache.evict

    def evict_and_note(num_tokens: int) -> Any:
        returned.append(own(num_tokens))
        return returned[-1]

    cache.evict = evict_and_note
    yield CaseFrame("before", {"pages in the pool": pool.num_free, **state_of_tree(root)}, cache)
    for count in wanted:
        told = "no error"
        try:
            world["make_room"](cache, pool, count)
        except OutOfPages as error:
            told = f"OutOfPages({error.needed}, {error.free}, {error.evictable})"
        seen = {
            "raised": told, "pages in the pool": pool.num_free, **state_of_tree(root),
            "evictable pages": cache.evictable, **seen_of_ring(cache.ring),
            "pages that cache.evict returned": sum(map(len, returned)),
        }  # fmt: skip
        yield CaseFrame(f"make_room for {count} of {pages} pages, {size} token{'s' * (size > 1)} each", seen, cache)


def _cached(world: World, pages: int, size: int, prompts: list[str]) -> tuple[Any, Any]:
    """Return a cache of `prompts` in pages of `size` tokens, and its pool; prompts that do not fit are left out."""
    cache, pool = world["RadixCache"](size), world["Pool"](pages)
    shuffle(pool)
    for tokens in map(numbers, prompts):
        found = cache.match_prefix(tokens)
        missing = len(tokens) // size - len(found.pages)
        if missing <= pool.num_free:
            cache.insert(tokens, [*found.pages.tolist(), *pool.alloc(missing)])
    return cache, pool


def _leaves(world: World) -> tuple[Any, int]:
    """Return a cache of a hundred leaves, and the number of pages to evict."""
    cache = world["RadixCache"]()
    for number in range(100):
        cache.insert([number], [number])
    return cache, 1


PIECES = (
    Piece(
        "5.1", "link", play_link,
        cases=[(0, 1), (1, 1), (0, 3), (3, 2)],
        strategy=st.tuples(st.integers(0, 5), st.integers(1, 4)),
        cost=Cost("nodes looked at", looking(hundred, lambda world, ring, nodes: world["link"](ring, nodes[100])), 3,
                  "`ring.older` is the newest node: you don't have to go around"),
    ),
    Piece(
        "5.2", "unlink", play_unlink,
        cases=[(1, [0]), (3, [1]), (3, [0]), (3, [1, 1]), (2, [2])],
        strategy=st.tuples(st.integers(0, 5), st.lists(st.integers(0, 5), min_size=1, max_size=4)),
        cost=Cost("nodes looked at", looking(hundred, lambda world, ring, nodes: world["unlink"](nodes[50])), 3,
                  "`node` knows its two neighbors: nothing is searched"),
    ),
    Piece(
        "5.7", "in_order", play_in_order,
        cases=[1, 3, 0, 5, DEEP],
        strategy=st.integers(0, 6),
    ),
    Piece(
        "5.3", "touch", play_touch,
        cases=[(["12"], [], [0]), (FORK, [], [2]), (_FORKS, [1], [2]), (["1", "12", "123"], [], [2]),
               (_FORKS, [3], [1]), (DEEP, [], [DEEP - 1])],
        strategy=st.tuples(_PROMPTS, st.lists(st.integers(0, 9), max_size=2),
                           st.lists(st.integers(-2, 9), min_size=1, max_size=3)),
    ),
    Piece(
        "5.4", "evict", play_evict,
        cases=[(1, ["12"], [], [], [1]), (1, ["12"], [], [], [0]), (1, _FORKS, [], [], [1]), (1, _FORKS, [], [], [2]),
               (1, _FORKS, [], [], [3]), (1, _FORKS, [1], [], [99]), (1, ["1", "12", "3"], [], [0], [2]),
               (1, DEEP, [], [], [DEEP])],
        strategy=st.tuples(st.integers(1, 2), _PROMPTS, _SOME, _SOME,
                           st.lists(st.integers(0, 5), min_size=1, max_size=3)),
        cost=Cost("nodes looked at", looking(_leaves, lambda world, cache, pages: world["evict"](cache, pages)), 3,
                  "the oldest node is the victim: you don't have to look at the others"),
    ),
    Piece(
        "5.8", "out_of_order", play_out_of_order,
        cases=[(["12"], [0]), (["1", "12"], [1, 0]), (["1", "12"], [0, 1]), (["1", "12"], [0]), (_TWINS, [1, 0, 2]),
               (_TWINS, [2, 0, 1]), (["1", "12", "123"], [2, 0, 1]), (["1", "13", "2", "23"], [1, 2, 3, 0]),
               (["1", "12", "2", "23"], [0, 2, 1, 3]), (["1", "12", "3"], [2, 1, 0])],
        strategy=st.tuples(_PROMPTS, st.permutations(range(8)).map(lambda places: places[:6])),
    ),
    Piece(
        "5.9", "make_room", play_make_room,
        cases=[(4, 1, ["12"], [], [3]), (4, 1, ["12"], [], [2]), (4, 1, ["12"], [], [1]), (4, 1, ["12"], [], [5]),
               (4, 1, ["1234"], [0], [1]), (6, 2, ["1234", "5678"], [], [3, 5]), (6, 1, ["12", "34"], [0], [4, 5])],
        strategy=st.tuples(st.integers(1, 8), st.integers(1, 3), _PROMPTS, _SOME,
                           st.lists(st.integers(0, 9), min_size=1, max_size=3)),
    ),
)  # fmt: skip


class TwoRings:
    """Pages that were used once go before those that were used again, each group in the order of its last uses.

    `use(page)` records a use, and `evict()` returns the page that goes, or `None`. A page that comes back is new.
    """

    def __init__(self) -> None:
        self.once: OrderedDict[Hashable, None] = OrderedDict()
        self.again: OrderedDict[Hashable, None] = OrderedDict()

    def use(self, page: Hashable) -> None:
        """Record that `page` is used now."""
        if page in self.once or page in self.again:
            self.once.pop(page, None)
            self.again.pop(page, None)
            self.again[page] = None
        else:
            self.once[page] = None

    def evict(self) -> Hashable:
        """Remove and return the page that goes first, or return `None` if there is none."""
        for ring in (self.once, self.again):
            if ring:
                return ring.popitem(last=False)[0]
        return None


def play_rings(world: World, case: str) -> Frames:
    """Use the pages in `case`, one after the other; a dot evicts one. State that all objects share must not change."""
    make, done = world["TwoRings"], "TwoRings()"
    before, rings = _shared_state(make), called(make, ())
    yield CaseFrame(done, {GAVE: rings if rings.error else Outcome("a TwoRings")})
    for page in case:
        verb, args = ("evict", ()) if page == "." else ("use", (int(page) if page.isdigit() else page,))
        done, outcome = f"{done}.{verb}{arguments(args)}", called(getattr(rings.value, verb), args)
        mixed = "is your state shared between objects? Make it in __init__, as self.something"
        shared = ALL_RIGHT if _shared_state(make) == before else mixed
        yield CaseFrame(done, {GAVE: outcome, "what objects share": shared})


def _shared_state(answer: Any) -> str:
    """Return the state that all objects of a class share: mutable attributes, and the defaults of its `__init__`."""
    defaults = getattr(getattr(answer, "__init__", None), "__defaults__", None) or ()
    values = [*getattr(answer, "__dict__", {}).items(), *enumerate(defaults)]
    return str(attempt(repr, ([pair for pair in values if isinstance(pair[1], (list, dict, set))],)).value)


def _advice(right: Played) -> str | None:
    """Return a hint about what a harmless script does not do yet."""
    back, gone, used = list[Any](), False, False
    for call in calls_of(right):
        if call.verb == "unlock":
            back.append(call.arguments["handle"])
        elif call.verb == "evict":
            gone = gone or any(set(call.result) & set(handle.pages) for handle in back)
        else:
            used = used or (not gone and any(handle.length <= call.result.length for handle in back))
    if not back:
        return "the careless code runs when a lock is given back: lock a path, and unlock it"
    if all(handle.node.parent.parent is None for handle in back):
        return "a path of one node has only one order; lock a longer one"
    if not gone:
        return "after the unlock, nothing of that path was evicted: call `evict` again"
    return "the use after the unlock restores the order: evict before it" if used else None


EXERCISES = (
    exercise(
        "5.5", "TwoRings", TwoRings,
        cases=["a.", "ab...", "aa..", "abac.", "aab.", "aabba.", "aaabb.", "ab.ac...", "0."],
        strategy=st.text("abc...", max_size=10),
        play=play_rings,
    ),
    engine_hunt(
        "5.6", "careless_unlock", ("5.6", "gives a lock back from the root down"),
        Calls(lambda world: world["RadixCache"](), ("insert", "match_prefix", "acquire", "unlock", "evict")),
        advice=_advice,
    ),
)  # fmt: skip
