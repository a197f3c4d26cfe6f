"""How costs grow: evicting with the number of leaves, matching with the prompt, a pool with its size, and memory."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minikv.measure.textbook import TextbookCache
from minikv.pools import FreeListPool, SlotPool
from minikv.prefix import RadixCache
from minikv.tokens import PackedTokens

Tick = Callable[[str], Any]
_SLOTS = np.arange(16, dtype=np.int32)


def evict_one(leaves: Sequence[int], rounds: int, tick: Tick = lambda what: None) -> dict[str, Any]:
    """Microseconds to evict one leaf of many (16-token sequences, 8 shared by groups of 32), ours and the textbook's.

    The textbook tree is not asked for more than 100,000: it visits them all for each one.

    >>> figures = evict_one([64], rounds=1)
    >>> figures["leaves"], figures["minikv"][0] < figures["textbook"][0]
    ([64], True)
    """
    found: dict[str, Any] = {"leaves": list(leaves), "minikv": [], "textbook": []}
    for count in leaves:
        tick(f"evict one of {count:,} leaves")
        tree, textbook = RadixCache(), TextbookCache()
        for tokens in _sequences(count):
            tree.insert(tokens, _SLOTS)
            if count <= 100_000:
                textbook.insert(tokens.tolist(), range(16))
        found["minikv"].append(_median(partial(tree.evict, 1), min(100 * rounds, count // 2)))
        few = max(1, min(10 * rounds, 100_000 // count))
        slow = _median(partial(textbook.evict, 1), few) if count <= 100_000 else None
        found["textbook"].append(slow)
    return found


def _sequences(count: int) -> Any:
    for i in range(count):
        group, own = divmod(i, 32)
        yield PackedTokens(np.array([group] * 8 + [1_000_000 + own] * 8, np.uint32).tobytes())


def match_by_length(lengths: Sequence[int], rounds: int, tick: Tick = lambda what: None) -> dict[str, Any]:
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


def memory_per_token(pages: Sequence[int], tokens: int, tick: Tick = lambda what: None) -> dict[str, Any]:
    """Bytes that a tree and its pool take for each cached token, in conversations of eight 256-token turns.

    >>> memory_per_token([1], 2048)["page size"]
    [1]
    """
    found: dict[str, Any] = {"page size": list(pages), "minikv": []}
    turns = [PackedTokens(np.random.RandomState(i).bytes(8 * 256 * 4)) for i in range(tokens // 2048)]
    for page in pages:
        tick(f"memory with pages of {page}")
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        cache, pool = RadixCache(page), FreeListPool(tokens // page)
        for conversation in turns:
            taken = pool.alloc(2048 // page)
            slots = (taken[:, None] * page + np.arange(page, dtype=np.int32)).ravel()
            for end in range(256, 2049, 256):
                cache.insert(conversation[:end], slots[:end])
        taken = slots = np.zeros(0, np.int32)
        found["minikv"].append(round((tracemalloc.get_traced_memory()[0] - before) / tokens, 2))
        tracemalloc.stop()
    return found


def pool_by_size(sizes: Sequence[int], rounds: int, tick: Tick = lambda what: None) -> dict[str, Any]:
    """Microseconds to take and give back 64 slots, by the size of the pool.

    >>> sorted(pool_by_size([1000], rounds=1))
    ['FreeListPool', 'slots']
    """
    found: dict[str, Any] = {"slots": list(sizes), "FreeListPool": []}
    for size in sizes:
        tick(f"a pool of {size:,} slots")
        for kind in (FreeListPool,):
            pool = kind(size)
            pool.alloc(size // 2)
            found[kind.__name__].append(_median(partial(_take_and_give, pool), 400 * rounds))
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
