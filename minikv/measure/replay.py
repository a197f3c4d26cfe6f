"""Replaying a trace through a prefix cache: what would it have saved?

Each request goes the whole way, one after the other: match, lock, make room, insert, unlock. One token of the cache
stands for one block of the trace, so sizes and capacities count blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minikv.errors import whole_number
from minikv.measure.traces import TraceRequest
from minikv.pools import FreeListPool
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
    pool: FreeListPool | _EndlessPool = _EndlessPool()
    if capacity is not None:
        pool = FreeListPool(whole_number("capacity", capacity, 1, "a cache holds at least 1 block"))
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


def _serve(blocks: PackedTokens, cache: PrefixCache, pool: Any, result: Replay) -> None:
    match = cache.match_prefix(blocks)
    cache.lock(match.handle)
    new = len(blocks) - match.length
    if new > pool.num_free:
        evicted = cache.evict(new - pool.num_free)
        pool.free(evicted)
        result.evicted += len(evicted)
    slots = np.concatenate([match.slots, pool.alloc(new)])
    inserted = cache.insert(blocks, slots, start=match.handle)
    if inserted.length < len(blocks):
        pool.free(slots[max(inserted.length, match.length) :])  # the tail that is no whole page
    cache.unlock(match.handle)
    result.hits += match.length


class _EndlessPool:
    """A pool with no end, for a cache that never evicts; it never reuses a slot."""

    num_free = 2**31

    def __init__(self) -> None:
        self._next = 0

    def alloc(self, num_pages: int) -> np.ndarray[Any, Any]:
        self._next += num_pages
        return np.arange(self._next - num_pages, self._next, dtype=np.int32)

    def free(self, pages: Any) -> None:
        """Forget them."""
