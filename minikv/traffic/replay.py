"""Replaying a trace through a prefix cache: what would it have saved?

A `CacheManager` serves each request from start to finish, one after the other. One token of the cache stands for one
block of the trace, so sizes and capacities count blocks. A trace lists whole blocks of a prompt, so a request may find
all of them cached.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minikv.errors import InvariantError, whole_number
from minikv.manager import CacheManager
from minikv.pools.contract import NO_PAGES, PAGE_LIMIT, Pages, page_id, pages_to_free, request
from minikv.prefix import PrefixCache
from minikv.tokens import PackedTokens
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

    def row(self) -> dict[str, Any]:
        """The same as a JSON object, with the hit rate.

        >>> list(Replay(2, 4, hits=2).row().items())[:4]
        [('requests', 2), ('blocks', 4), ('hits', 2), ('hit_rate', 0.5)]
        """
        found = dataclasses.asdict(self)
        sizes = {name: found.pop(name) for name in ("requests", "blocks", "hits")}
        return {**sizes, "hit_rate": round(self.hit_rate, 6), **found}


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
    for one in requests:
        for replayer in replayers:
            replayer.serve(one)
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


class GrowingPool:
    """A stack of returned pages, and below it pages that are made when the stack is empty, lowest number first.

    `size` is the number of pages, at most 2**31. It keeps the promises of `SlotPool`; its memory follows the largest
    number of pages that were in use at once.

    >>> pool = GrowingPool(2**31)
    >>> pages = pool.alloc(3); pool.free(pages[1:]); pool.alloc(3).tolist(), pool
    ([1, 2, 3], GrowingPool(2147483644 of 2147483648 free))
    """

    def __init__(self, size: int):
        self.size = whole_number("size", size, 1, "a pool holds at least 1 page")
        if self.size > PAGE_LIMIT:
            raise ValueError(f"size is {self.size}: a page is an integer in [0, 2**31)")
        self._returned = array("i")  # the next page to hand out is the last
        self._in_use = bytearray()  # one byte for each page that was made: 1 or 0

    @property
    def num_free(self) -> int:
        """Pages that `alloc` could give now."""
        return self.size - len(self._in_use) + len(self._returned)

    def alloc(self, num_pages: int) -> Pages:
        """Take `num_pages` pages, or none: `OutOfPages` if there are fewer."""
        count = request(num_pages, self.num_free)
        keep, made = max(0, len(self._returned) - count), len(self._in_use)
        pages = self._returned[keep:][::-1]
        del self._returned[keep:]
        for page in pages:
            self._in_use[page] = 1
        fresh = count - len(pages)
        pages.extend(range(made, made + fresh))
        self._in_use.extend(b"\1" * fresh)
        return np.array(pages, np.int32)

    def alloc_to(self, row: memoryview) -> None:
        """Take as many pages as `row`, a memoryview of int32, is long, and write them there, or none: `OutOfPages`."""
        row[:0] = NO_PAGES  # refuses a row of another kind before a page is taken
        row[:] = self.alloc(len(row)).data

    def free(self, pages: Any) -> None:
        """Give pages back, so that the same `alloc` would give them again in the same order; all or none."""
        numbers = pages_to_free(pages, self.size, self.is_free)
        for page in numbers:
            self._in_use[page] = 0
        self._returned.extend(reversed(numbers))

    def is_free(self, page: int) -> bool:
        """Whether `page` is free."""
        number = page_id(page, self.size)
        return number >= len(self._in_use) or not self._in_use[number]

    def check(self) -> None:
        """The stack holds every page that was made and is not in use, once."""
        on_stack = sorted(self._returned)
        free = [page for page, used in enumerate(self._in_use) if not used]
        if on_stack != free or len(self._in_use) > self.size:
            raise InvariantError(f"GrowingPool: {len(on_stack)} pages are on the stack, {len(free)} are marked free")

    def __repr__(self) -> str:
        return f"GrowingPool({self.num_free} of {self.size} free)"
