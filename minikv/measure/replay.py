"""Replaying a trace through a prefix cache: what would it have saved?

Each request goes the whole way, one after the other: match, lock, make room, insert, unlock. One token of the cache
stands for one block of the trace, so sizes and capacities count blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from minikv.errors import whole_number
from minikv.measure.traces import TraceRequest
from minikv.pools import PAGE_LIMIT, Pages
from minikv.prefix import PrefixCache
from minikv.tokens import PackedTokens


@dataclass
class Replay:
    """What came of a replay, all in blocks but `requests` and `uncached_requests`.

    `hits` were cached when their request came; `evicted` had to go for others; `peak_size` is the most that was
    cached at once; `uncached_requests` were larger than the capacity and served without the cache.
    """

    requests: int = 0
    blocks: int = 0
    hits: int = 0
    evicted: int = 0
    peak_size: int = 0
    uncached_requests: int = 0

    @property
    def hit_rate(self) -> float:
        """The share of all blocks that were hits; 0 for an empty trace."""
        return self.hits / self.blocks if self.blocks else 0.0


def replay(requests: Iterable[TraceRequest], cache: PrefixCache, capacity: int | None = None) -> Replay:
    """Send every request through `cache`, evicting so that at most `capacity` blocks are held; `None`: no limit.

    `cache` must be empty. A request larger than the capacity is served uncached.

    >>> from minikv import RadixCache
    >>> from minikv.measure import TraceRequest
    >>> from minikv.tokens import pack
    >>> trace = [TraceRequest(0, 1000, 10, pack(blocks)) for blocks in ([1, 2], [1, 2, 3], [4, 5], [1, 2])]
    >>> replay(trace, RadixCache())
    Replay(requests=4, blocks=9, hits=4, evicted=0, peak_size=5, uncached_requests=0)
    >>> replay(trace, RadixCache(), capacity=3).evicted
    5
    """
    if cache.total_size:
        raise ValueError(f"the cache holds {cache.total_size} tokens already: a replay starts with an empty one")
    if capacity is not None:
        capacity = whole_number("capacity", capacity, 1, "a cache holds at least 1 block")
    pool = _GrowingPool(capacity)
    result = Replay()
    for request in requests:
        result.requests += 1
        result.blocks += len(request.blocks)
        if capacity is not None and len(request.blocks) > capacity:
            result.uncached_requests += 1
        else:
            _serve(request.blocks, cache, pool, result)
            result.peak_size = max(result.peak_size, cache.total_size)
    return result


def _serve(blocks: PackedTokens, cache: PrefixCache, pool: _GrowingPool, result: Replay) -> None:
    match = cache.match_prefix(blocks)
    cache.lock(match.handle)
    new = len(blocks) - match.length
    if new > pool.num_free:
        evicted = cache.evict(new - pool.num_free)
        pool.free(evicted)
        result.evicted += len(evicted)
    slots = np.concatenate([match.slots, np.array(pool.alloc(new), np.int32)])
    inserted = cache.insert(blocks, slots, start=match.handle)
    if inserted.length < len(blocks):
        pool.free(slots[max(inserted.length, match.length) :])  # the tail that is no whole page
    cache.unlock(match.handle)
    result.hits += match.length


class _GrowingPool:
    """A pool that makes its slots when they are first asked for, so that a large capacity costs nothing unused."""

    def __init__(self, size: int | None):
        self._size = PAGE_LIMIT if size is None else min(size, PAGE_LIMIT)
        self._made = 0
        self._returned: list[int] = []

    @property
    def num_free(self) -> int:
        return self._size - self._made + len(self._returned)

    def alloc(self, count: int) -> list[int]:
        keep = max(0, len(self._returned) - count)
        slots = self._returned[keep:]
        del self._returned[keep:]
        fresh = range(self._made, self._made + count - len(slots))
        self._made = fresh.stop
        return [*slots, *fresh]

    def free(self, slots: Pages) -> None:
        self._returned.extend(slots.tolist())
