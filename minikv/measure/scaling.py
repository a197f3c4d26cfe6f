"""How costs grow: evict with the leaves, match with the prompt, extend with the context, a pool with its size."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from minikv.manager import CacheManager
from minikv.measure.textbook import TextbookCache
from minikv.pools import FreeListPool, SlotPool
from minikv.prefix import RadixCache
from minikv.progress_bar import Tick, quiet
from minikv.tokens import PackedTokens

_SLOTS = np.arange(16, dtype=np.int32)
_MOST_TEXTBOOK_LEAVES = 100_000  # it visits them all for each eviction


def evict_one(leaves: Sequence[int], rounds: int, tick: Tick = quiet) -> dict[str, Any]:
    """Microseconds to evict one leaf of many (`sequences`), ours and the textbook's, which gets 100,000 at most.

    >>> figures = evict_one([64], rounds=1)
    >>> figures["leaves"], figures["minikv"][0] < figures["textbook"][0]
    ([64], True)
    """
    found: dict[str, Any] = {"leaves": list(leaves), "minikv": [], "textbook": []}
    for count in leaves:
        tick(f"evict one of {count:,} leaves")
        tree, textbook = RadixCache(), TextbookCache()
        for tokens in sequences(count):
            tree.insert(tokens, _SLOTS)
            if count <= _MOST_TEXTBOOK_LEAVES:
                textbook.insert(tokens.tolist(), range(16))
        found["minikv"].append(_median(partial(tree.evict, 1), min(100 * rounds, count // 2)))
        few = max(1, min(10 * rounds, _MOST_TEXTBOOK_LEAVES // count))
        found["textbook"].append(_median(partial(textbook.evict, 1), few) if count <= _MOST_TEXTBOOK_LEAVES else None)
    return found


def sequences(count: int, first: int = 0) -> Iterator[PackedTokens]:
    """Sequences of 16 tokens, the first 8 shared by groups of 32, numbered from `first`.

    >>> a, b = sequences(2)
    >>> a[:8] == b[:8], a[8:] == b[8:]
    (True, False)
    """
    for i in range(first, first + count):
        group, own = divmod(i, 32)
        yield PackedTokens(np.array([group] * 8 + [1_000_000 + own] * 8, np.uint32).tobytes())


def match_by_length(lengths: Sequence[int], rounds: int, tick: Tick = quiet) -> dict[str, Any]:
    """Microseconds of a match that finds the whole prompt, by the prompt's length; one cached sequence.

    >>> match_by_length([10], rounds=1)["tokens"]
    [10]
    """
    found: dict[str, Any] = {"tokens": list(lengths), "minikv": []}
    for length in lengths:
        tick(f"match {length:,} tokens")
        cache, tokens = RadixCache(), PackedTokens(np.arange(length, dtype=np.uint32).tobytes())
        cache.insert(tokens, np.arange(length, dtype=np.int32))
        asked = PackedTokens(bytes(bytearray(tokens.data)))
        found["minikv"].append(_median(partial(cache.match_prefix, asked), 200 * rounds))
    return found


def extend_by_context(contexts: Sequence[int], rounds: int, tick: Tick = quiet) -> dict[str, Any]:
    """Microseconds for a running sequence to take one more token (extend, advance), by the length of its context.

    >>> extend_by_context([10], rounds=1)["tokens"]
    [10]
    """
    found: dict[str, Any] = {"tokens": list(contexts), "minikv": []}
    for context in contexts:
        tick(f"extend a context of {context:,} tokens")
        manager = CacheManager(context + 1000 * rounds)
        sequence = manager.start(PackedTokens(np.arange(context, dtype=np.uint32).tobytes()))
        manager.advance(sequence)

        def one_more(manager: CacheManager = manager, sequence: Any = sequence) -> None:
            manager.extend(sequence, (7,))
            manager.advance(sequence)

        found["minikv"].append(_median(one_more, 100 * rounds))
    return found


def pool_by_size(sizes: Sequence[int], rounds: int, tick: Tick = quiet) -> dict[str, Any]:
    """Microseconds to take and give back 64 pages, by the size of the pool.

    >>> sorted(pool_by_size([1000], rounds=1))
    ['FreeListPool', 'slots']
    """
    found: dict[str, Any] = {"slots": list(sizes), "FreeListPool": []}
    for size in sizes:
        tick(f"a pool of {size:,} pages")
        pool = FreeListPool(size)
        pool.alloc(size // 2)
        found["FreeListPool"].append(_median(partial(_take_and_give, pool), 400 * rounds))
    return found


def _take_and_give(pool: SlotPool) -> None:
    pool.free(pool.alloc(64))


def _median(act: Callable[[], Any], times: int) -> float:
    """The median of `times` runs, in microseconds; the first ones warm up."""
    clock, took = time.perf_counter_ns, []
    for _ in range(min(3, times)):
        act()
    for _ in range(times):
        start = clock()
        act()
        took.append(clock() - start)
    return round(statistics.median(took) / 1000, 3)
