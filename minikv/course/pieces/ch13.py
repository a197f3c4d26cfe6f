"""The pieces of chapter 13: the reuse distances, the next uses, the optimal hits, and a count that ages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from numbers import Real
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import call_hunt
from minikv.course.pieces.observer import RETURNED, Words
from minikv.course.pieces.piece import Cost, Frames, Piece, Play, Shown, called
from minikv.course.pieces.props import DEEP, in_any_order, listed, up_to
from minikv.engine import World
from minikv.prefix import RadixCache
from minikv.tokens import pack
from minikv.traffic import TraceRequest, replay

_PROMPTS = st.lists(st.text("01-", min_size=1, max_size=6), max_size=9).map(" ".join)
_HITS = st.sampled_from(range(1, 40, 2))  # odd: then no two leaves tie
_LEAF = st.tuples(_HITS, up_to(300) | up_to(10_000_000))  # its hits and its last use
_DEEP = "1" * DEEP
_A_NUMBER, MOST_BITS = Words("a number"), 1024


def requests_of(day: str | int) -> list[list[int]]:
    """The blocks of each prompt of a day, where a letter fills a block: a number for each prefix, with 0 among them.

    Dashes at the ends of a prompt are left out, so one by itself is an empty prompt. In the place of a day, a number
    stands for so many empty prompts.

    >>> requests_of("ab ac -")
    [[6, 3], [6, 0], []]
    """
    day = "- " * day if isinstance(day, int) else day
    names: dict[str, int] = {}
    prefixes = (accumulate(prompt.strip("-")) for prompt in day.split())
    return [[names.setdefault(prefix, (6 - 3 * len(names)) % 100_003) for prefix in each] for each in prefixes]


def _on_requests(name: str, words: Callable[[Any], Any] = lambda found: found) -> Play:
    """A play of one call of `name` with the requests of some prompts, and with a room in which each of them fits."""

    def play(world: World, case: Any) -> Frames:
        day, *least = case
        requests = requests_of(day)
        room = [max(number, *map(len, requests), 0) for number in least]
        yield called(world, name, words=words, requests=requests, **dict(zip(["room"], room)))

    return play


def _rows(found: Any) -> Any:
    """The rows of a list as lists; anything else as it is."""
    return [*map(listed, found)] if isinstance(found, list | tuple) else found


def play_aged_key(world: World, case: Any) -> Frames:
    """The order in which some leaves go, by their keys; no two in a case are worth the same, so none may tie."""
    leaves, half_life = case
    keys = dict[Any, Any]()
    for hits, last in leaves:
        node = SimpleNamespace(hits=hits, last_used=last)
        key = keys[hits, last] = world["aged_key"](node, half_life)
        found = _A_NUMBER if isinstance(key, Real) else key
        if isinstance(key, int) and key.bit_length() > MOST_BITS:
            found = Words(f"a number of {key.bit_length():,} bits, which grows with the clock")
        yield Shown(
            f"aged_key(a leaf with hits={hits} and last_used={last}, {half_life})", {RETURNED: found, "node": node}
        )
    caption = f"sorting leaves (hits, last_used) {leaves} by aged_key(leaf, {half_life})"
    yield Shown(caption, {RETURNED: sorted(keys, key=keys.__getitem__)})


_TWICE = "".join(f"{chr(number)}ab " for number in range(300, 350)) * 2
_BLOCKS = "steps for 300 blocks"

PIECES = (
    Piece(
        "13.1", _on_requests("reuse_distances", in_any_order),
        cases=[("ab a",), (f"{_DEEP} 0 {_DEEP}",), (DEEP,), (f"{_DEEP} {'1 ' * 9000}",)],
        strategy=st.tuples(_PROMPTS),
        cost=Cost(_BLOCKS, [(_TWICE,)],
                  "a dictionary finds a mark, and the timeline counts: don't search", 3),
    ),
    Piece(
        "13.2", _on_requests("next_uses", _rows),
        cases=[("a",), (DEEP,)],
        strategy=st.tuples(_PROMPTS),
        cost=Cost(_BLOCKS, [(_TWICE,)], "one pass from the end is enough: don't search the requests", 6),
    ),
    Piece(
        "13.3", _on_requests("optimal_hits"),
        cases=[("a", 1), ("ab ac a d ab d d ab", 2), (DEEP, 1)],
        strategy=st.tuples(_PROMPTS, st.integers(1, 9)),
        cost=Cost(_BLOCKS, [(_TWICE, 75)], "the heap has the farthest block on top: don't search", 3),
    ),
    Piece(
        "13.4", play_aged_key,
        cases=[([(1, 5), (1, 9)], 10), ([(3, 100), (5, 95)], 10),
               ([(20, 0), (1, 50), (1, 300)], 50), ([(3, 0), (1, 105)], 100),
               ([(1_000_001, 1_000_005), (1_000_000, 1_000_005), (1000, 1_000_005)], 10)],
        strategy=st.tuples(st.lists(_LEAF, min_size=2, max_size=5), st.sampled_from([1, 3, 10, 50, 100])),
    ),
)  # fmt: skip


def hits_of(policy: str, order: Sequence[int]) -> int:
    """How many prompts are hits in a cache with room for three; in `order`, a number stands for a prompt of one token.

    >>> hits_of("lru", [1, 2, 1, 3, 4, 1])
    2
    """
    return replay([TraceRequest(0, 1, 1, pack([prompt])) for prompt in order], RadixCache(policy=policy), 3).hits


def best_hits(order: Sequence[int]) -> int:
    """The hits of lru or of lfu, whichever has more."""
    return max(hits_of("lru", order), hits_of("lfu", order))


EXERCISES = (
    call_hunt(
        "13.6", "careless_hits", "it trusts lfu", best_hits,
        nonsense=lambda order: f"use at most 30 prompts, not {len(order)}" if len(order) > 30 else None,
    ),
)  # fmt: skip
