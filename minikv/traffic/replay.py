"""Replaying a trace through a prefix cache: what would it have saved?

A `CacheManager` serves each request from start to finish, one after the other. One token of the cache stands for one
block of the trace, so sizes and capacities count blocks. A trace lists whole blocks of a prompt, so a request may find
all of them cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minikv.errors import whole_number
from minikv.manager import CacheManager
from minikv.pools.contract import PAGE_LIMIT
from minikv.prefix import PrefixCache
from minikv.tokens import PackedTokens
from minikv.traffic.growing_pool import GrowingPool
from minikv.traffic.traces import TraceRequest


@dataclass
class Replay:
    """What a replay found, all in blocks but `requests` and `uncached_requests`.

    `hits` were cached when their request arrived; `evicted` made room for others; `peak_size` is the most that was
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
    """Serve every request through `cache`, which holds at most `capacity` blocks, in whole pages; `None`: no limit.

    `cache` must be empty. A request larger than the capacity is served uncached. Raises `ValueError` when the capacity
    is smaller than a page.

    >>> from minikv import RadixCache
    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> trace = [TraceRequest(0, 1000, 10, pack(blocks)) for blocks in ([1, 2], [1, 2, 3], [4, 5], [1, 2])]
    >>> replay(trace, RadixCache())
    Replay(requests=4, blocks=9, hits=4, evicted=0, peak_size=5, uncached_requests=0)
    >>> replay(trace, RadixCache(), capacity=3).evicted
    5
    """
    (result,) = replay_each(requests, [Replayer(cache, capacity)])
    return result


def replay_each(requests: Iterable[TraceRequest], replayers: Sequence[Replayer]) -> list[Replay]:
    """Serve every request through each of `replayers`, in one reading of the trace; returns what each of them found.

    >>> from minikv import RadixCache
    >>> from minikv.tokens import pack
    >>> trace = (TraceRequest(0, 1000, 10, pack(blocks)) for blocks in ([1, 2], [3], [1, 2]))
    >>> [result.hits for result in replay_each(trace, [Replayer(RadixCache(), size) for size in (2, 3)])]
    [0, 2]
    """
    for request in requests:
        for replayer in replayers:
            replayer.serve(request)
    return [replayer.result for replayer in replayers]


class Replayer:
    """A replay that is given one request at a time; `result` is what it has found up to now.

    `cache` and `capacity` are those of `replay`. Several replayers can share one reading of a trace (`replay_each`).

    >>> from minikv import RadixCache
    >>> from minikv.tokens import pack
    >>> replayer = Replayer(RadixCache(), capacity=2)
    >>> replayer.serve(TraceRequest(0, 1000, 10, pack([1, 2]))); replayer.result.peak_size
    2
    """

    def __init__(self, cache: PrefixCache, capacity: int | None = None):
        if cache.total_size:
            raise ValueError(f"the cache holds {cache.total_size} tokens already: a replay starts with an empty one")
        self._manager = _manager(cache, capacity)
        self._room = self._manager.available_size
        self.result = Replay()

    def serve(self, request: TraceRequest) -> None:
        """Serve one request, from start to finish."""
        result, num_blocks = self.result, len(request.blocks)
        result.requests += 1
        result.blocks += num_blocks
        if num_blocks > self._room:
            result.uncached_requests += 1
        elif num_blocks:
            _serve(request.blocks, self._manager, result)


def _manager(cache: PrefixCache, capacity: int | None) -> CacheManager:
    """A manager of as many whole pages as `capacity` blocks have room for."""
    if capacity is None:
        capacity = PAGE_LIMIT
    size = cache.page_size
    capacity = whole_number("capacity", capacity, size, f"a cache holds at least 1 page of {size}")
    num_pages = min(capacity, PAGE_LIMIT) // size
    return CacheManager(num_pages, size, cache, GrowingPool(num_pages))


def _serve(blocks: PackedTokens, manager: CacheManager, result: Replay) -> None:
    before = manager.cache.total_size
    sequence = manager.start(blocks, limit=len(blocks))
    result.hits += sequence.cached_length
    result.evicted += before - manager.cache.total_size  # a start stores nothing, so what is missing made room
    manager.advance(sequence)
    manager.finish(sequence)
    result.peak_size = max(result.peak_size, manager.cache.total_size)
