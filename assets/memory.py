"""What a cached token takes in memory, and how long the garbage collector stops a server with many nodes."""

from __future__ import annotations

import gc
import itertools
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from minikv.prefix import RadixCache
from minikv.progress_bar import Tick, quiet
from minikv.tokens import PackedTokens

T = TypeVar("T")
LONG, TURN, DEPTH = 2**13, 256, 5  # tokens of a long prompt, and of an edge of a chat; edges of a conversation


def memory_per_token(pages: Sequence[int], tokens: int, tick: Tick = quiet) -> dict[str, Any]:
    """Bytes per cached token of a tree with `tokens` tokens, by page size.

    `long` prompts share nothing and have an edge of 8,192 tokens each. In a `chat` every edge has 256 tokens, and
    conversations part in two at every turn. Counted are the bytes that Python asks its allocator for.

    >>> memory_per_token([1], 2**13)["page size"]
    [1]
    """
    found: dict[str, Any] = {"page size": list(pages), "long": [], "chat": []}
    _filled(1, _long(LONG))  # what is made once, by the first prompt of all, is not the tree's
    for page_size in pages:
        for name, prompts in (("long", _long), ("chat", _chat)):
            tick(f"memory of {name} prompts with pages of {page_size}")
            used, cache = used_bytes(partial(_filled, page_size, prompts(tokens)))
            found[name].append(round(used / cache.total_size, 2))
    return found


def _filled(page_size: int, prompts: Iterator[PackedTokens]) -> RadixCache:
    cache = RadixCache(page_size)
    for prompt in prompts:
        cache.insert(prompt, np.arange(len(prompt) // page_size, dtype=np.int32))
    return cache


def _long(tokens: int) -> Iterator[PackedTokens]:
    for i in range(tokens // LONG):
        yield PackedTokens(np.random.RandomState(i).bytes(4 * LONG))


def _chat(tokens: int) -> Iterator[PackedTokens]:
    """The conversations of full binary trees: 31 edges each."""
    for tree in range(-(-tokens // (TURN * (2**DEPTH - 1)))):
        random = np.random.RandomState(tree)
        paths = [path for depth in range(DEPTH) for path in itertools.product((0, 1), repeat=depth)]
        edges = {path: random.bytes(4 * TURN) for path in paths}
        for path in itertools.product((0, 1), repeat=DEPTH - 1):
            yield PackedTokens(b"".join(edges[path[:depth]] for depth in range(DEPTH)))


def used_bytes(make: Callable[[], T]) -> tuple[int, T]:
    """How many bytes the thing that `make` returned takes, and the thing itself.

    >>> used, thing = used_bytes(lambda: bytes(10_000))
    >>> 10_000 < used < 11_000, len(thing)
    (True, 10000)
    """
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    made = make()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used, made


def sequences(count: int, first: int = 0) -> Iterator[PackedTokens]:
    """Sequences of 16 tokens, the first 8 shared by groups of 32, numbered from `first`.

    >>> a, b = sequences(2)
    >>> a[:8] == b[:8], a[8:] == b[8:]
    (True, False)
    """
    for i in range(first, first + count):
        group, own = divmod(i, 32)
        yield PackedTokens(np.array([group] * 8 + [1_000_000 + own] * 8, np.uint32).tobytes())


def pauses(nodes: int, rounds: int, tick: Tick = quiet) -> dict[str, Any]:
    """Milliseconds that a full garbage collection stops a server whose tree has so many leaves, and after `gc.freeze`.

    `gc.freeze` tells the collector to leave alone what there is now; nodes that come later it visits again. So the
    third figure is for a tree half of whose leaves have been replaced since.

    >>> sorted(pauses(320, rounds=1))
    ['after gc.freeze', 'as it is', 'nodes', 'when half is new']
    """
    slots, cache = np.arange(16, dtype=np.int32), RadixCache()
    for tokens in sequences(nodes):
        cache.insert(tokens, slots)
    found: dict[str, Any] = {"nodes": nodes}
    tick("a full collection")
    found["as it is"] = _collection_ms(rounds)
    gc.freeze()
    try:
        tick("a full collection after gc.freeze")
        found["after gc.freeze"] = _collection_ms(rounds)
        for tokens in sequences(nodes // 2, first=nodes):
            cache.evict(8)
            cache.insert(tokens, slots)
        tick("a full collection when half of a frozen tree is new")
        found["when half is new"] = _collection_ms(rounds)
    finally:
        gc.unfreeze()
    return found


def _collection_ms(rounds: int) -> float:
    return round(statistics.median(clocked(gc.collect) for _ in range(rounds)) / 1e6, 2)


def clocked(act: Callable[..., Any], *arguments: Any) -> int:
    """How many nanoseconds a call takes.

    >>> clocked(max, 1, 2) > 0
    True
    """
    start = time.perf_counter_ns()
    act(*arguments)
    return time.perf_counter_ns() - start
