"""A long-lived cache: does a request take longer, and a match, because of all that was evicted before?

50 hot heads of 400 tokens; each request leaves one of them at a random place and goes on with tokens of its own, so it
cuts an edge there. A tree that never joins what it cut has ten times the nodes of a tree built afresh from the same
content after 60,000 requests, and a match takes 25 times as long.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from minikv.errors import whole_number
from minikv.manager import CacheManager
from minikv.prefix import RadixCache
from minikv.progress_bar import Tick, quiet
from minikv.tokens import PackedTokens

HEADS, HEAD_LENGTH, ROOM = 50, 400, 200_000
_VOCABULARY = 128_000
_Tokens = npt.NDArray[np.uint32]


def long_run(requests: int, tick: Tick = quiet) -> dict[str, Any]:
    """Serve `requests` requests through one manager; how its beginning, its end and a tree built afresh compare.

    Times are of the median request, in microseconds. The first thousand fill the cache, so few of them evict anything.
    `requests` is at least 1,001.

    >>> found = long_run(1050)
    >>> found["requests"], found["nodes"] > 0, found["nodes, built afresh"] > 0
    (1050, True, True)
    """
    requests = whole_number("requests", requests, 1001, "a long run has more than the 1,000 that fill the cache")
    random = np.random.RandomState(7)
    heads = [random.randint(0, _VOCABULARY, HEAD_LENGTH).astype(np.uint32) for _ in range(HEADS)]
    cache = RadixCache()
    manager, times = CacheManager(ROOM, prefix_cache=cache), list[int]()
    for number in range(requests):
        if number % 1000 == 0:
            tick(f"long run, request {number:,} of {requests:,}")
        prompt = _prompt(random, heads)
        start = time.perf_counter_ns()
        sequence = manager.start(prompt)
        manager.advance(sequence)
        manager.finish(sequence)
        times.append(time.perf_counter_ns() - start)
    fresh = built_afresh(cache)
    old, new = _match_times(cache, heads), _match_times(fresh, heads)
    return {
        "requests": requests, "first thousand": _median(times[:1000]), "second thousand": _median(times[1000:2000]),
        "last thousand": _median(times[-1000:]),
        "match": old, "match, built afresh": new,
        "nodes": sum(1 for _ in cache.nodes()), "nodes, built afresh": sum(1 for _ in fresh.nodes()),
    }  # fmt: skip


def _prompt(random: np.random.RandomState, heads: list[_Tokens]) -> PackedTokens:
    head = heads[random.randint(HEADS)][: random.randint(1, HEAD_LENGTH)]
    own = random.randint(0, _VOCABULARY, random.randint(1, 600)).astype(np.uint32)
    return PackedTokens(np.concatenate([head, own]).tobytes())


def built_afresh(cache: RadixCache) -> RadixCache:
    """A new tree of the same content: every leaf's whole prompt is inserted once, the least recently used first.

    >>> cache = RadixCache()
    >>> _ = cache.insert([1, 2, 3], [0, 1, 2]); _ = cache.insert([1, 2, 4], [0, 1, 3])
    >>> fresh = built_afresh(cache); fresh.total_size, fresh.match_prefix([1, 2, 4]).slots.tolist()
    (4, [0, 1, 3])
    """
    fresh = RadixCache(cache.page_size)
    leaves = [node for node in cache.nodes() if not node.children]
    for leaf in sorted(leaves, key=lambda node: node.last_used):
        path = list(_path(leaf))[::-1]
        tokens = [token for node in path for token in node.tokens]
        fresh.insert(tokens, [page for node in path for page in node.pages])
    return fresh


def _path(node: Any) -> Iterator[Any]:
    while node.parent is not None:
        yield node
        node = node.parent


def _match_times(cache: RadixCache, heads: list[_Tokens]) -> float:
    """The median of matching a whole hot head."""
    random, times = np.random.RandomState(11), list[int]()
    for _ in range(2000):
        prompt = PackedTokens(np.append(heads[random.randint(HEADS)], np.uint32(1)).tobytes())
        start = time.perf_counter_ns()
        cache.match_prefix(prompt)
        times.append(time.perf_counter_ns() - start)
    return _median(times)


def _median(nanoseconds: list[int]) -> float:
    return round(statistics.median(nanoseconds) / 1000, 3)
