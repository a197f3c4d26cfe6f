"""Replaying a trace through a prefix cache: what would it have saved?

A `CacheManager` serves each request from start to finish, one after the other. One token of the cache represents one
block of the trace, so sizes and capacities count blocks. A trace lists whole blocks of a prompt, so a request may find
all of them cached. A capacity may be written as 20k, 1e6 or unlimited.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from minikv.errors import InvariantError, bounded, whole_number
from minikv.files import FileName
from minikv.manager import CacheManager
from minikv.pools.contract import PAGE_LIMIT, Pages, SlotPool, page_id, pages_to_free, request
from minikv.prefix import PrefixCache, RadixCache
from minikv.traffic.traces import TraceRequest, open_traffic

UNLIMITED = "unlimited"
_RULE = "expected a whole number of at least 1, such as 20000, 20k (k is 1,000), 1.5M or 1e6"
_NUMBER = re.compile(r"(\d{1,20}(?:\.\d{0,20})?(?:[eE]\+?\d{1,2})?)([kM]?)", re.ASCII)
_TIMES = {"": 1, "k": 1000, "M": 1000**2}


MOST_CAPACITIES = 1000


def read_capacity(name: str, value: Any) -> int | None:
    """A capacity in [1, 2**63), from a number or a text; `None` for the text "unlimited".

    `ValueError` begins with `name` and says what was expected.

    >>> [read_capacity("capacity", value) for value in (20000, "20k", "1.5M", 1e6, "unlimited")]
    [20000, 20000, 1500000, 1000000, None]
    >>> read_capacity("capacity", "1.5")
    Traceback (most recent call last):
    ValueError: capacity is '1.5': expected a whole number of at least 1, such as 20000, 20k (k is 1,000), 1.5M or 1e6
    """
    if value == UNLIMITED:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 2**63
    found = _NUMBER.fullmatch(value if isinstance(value, str) else str(value) if is_number else "")
    number = Decimal(found[1]) * _TIMES[found[2]] if found else Decimal(0)
    if not 1 <= number < 2**63 or number != int(number):
        raise ValueError(f"{name} is {bounded(value)}: {_RULE}")
    return int(number)


def read_capacities(text: str) -> list[int | None]:
    """The capacities in `text`, separated by commas.

    >>> read_capacities("10k,1e6,unlimited")
    [10000, 1000000, None]
    """
    parts = text.split(",")
    if len(parts) > MOST_CAPACITIES:
        raise ValueError(f"there are {len(parts)} capacities: expected at most {MOST_CAPACITIES}")
    return [read_capacity("the capacity", part.strip()) for part in parts]


def capacity_text(capacity: int | None) -> str:
    """A capacity as a person reads it.

    >>> capacity_text(20000), capacity_text(None)
    ('20,000', 'unlimited')
    """
    return UNLIMITED if capacity is None else f"{capacity:,}"


@dataclass
class Replay:
    """The result of a replay, in blocks except for `requests` and `uncached_requests`.

    `hits` were cached when their request arrived; `evicted` made room for others; `peak_size` is the most that was
    cached at once; `uncached_requests` were larger than the capacity and served without the cache.

    >>> replay("synthetic:chat?requests=100", capacity="1k")
    Replay(requests=100, blocks=4997, hits=2985, evicted=1016, peak_size=1000, uncached_requests=0)
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


def replay(
    requests: FileName | Iterable[TraceRequest], cache: PrefixCache | None = None, capacity: int | str | None = None
) -> Replay:
    """Serve every request through `cache`, which holds at most `capacity` blocks, in whole pages; `None`: no limit.

    `requests` may be the name of a trace, as `open_traffic` takes it. `cache` must be empty; without one, a
    `RadixCache` serves. `capacity` may be a text such as "20k". A request larger than the capacity is served uncached.
    Raises `ValueError` when the capacity is smaller than a page; for a trace, `OSError` and `TraceError` too.

    >>> round(replay("synthetic:chat?requests=100", capacity="2k").hit_rate, 3)
    0.632
    >>> from minikv import RadixCache
    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> trace = [TraceRequest(0, 1000, 10, pack(blocks)) for blocks in ([1, 2], [1, 2, 3], [4, 5], [1, 2])]
    >>> replay(trace, RadixCache())
    Replay(requests=4, blocks=9, hits=4, evicted=0, peak_size=5, uncached_requests=0)
    """
    if isinstance(requests, (str, os.PathLike)):
        with open_traffic(requests) as traffic:
            return replay(traffic.requests, cache, capacity)
    size = read_capacity("capacity", capacity) if isinstance(capacity, str) else capacity
    (result,) = replay_each(requests, [Replayer(RadixCache() if cache is None else cache, size)])
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
        rule = f"a cache holds at least 1 page of {cache.page_size}"
        size = whole_number("capacity", PAGE_LIMIT if capacity is None else capacity, cache.page_size, rule)
        num_pages = min(size, PAGE_LIMIT) // cache.page_size
        self._manager = CacheManager(num_pages, cache.page_size, cache, GrowingPool(num_pages))
        self._room = self._manager.available_size
        self.result = Replay()

    def serve(self, request: TraceRequest) -> None:
        """Serve one request, from start to finish."""
        result, blocks, manager = self.result, request.blocks, self._manager
        result.requests += 1
        result.blocks += len(blocks)
        if len(blocks) > self._room:
            result.uncached_requests += 1
        elif len(blocks):
            before = manager.cache.total_size
            sequence = manager.start(blocks, limit=len(blocks))
            result.hits += sequence.cached_length
            result.evicted += before - manager.cache.total_size  # a start stores nothing, so what is missing made room
            manager.advance(sequence)
            manager.finish(sequence)
            result.peak_size = max(result.peak_size, manager.cache.total_size)


class GrowingPool(SlotPool):
    """A stack of returned pages, and below it pages that are made when the stack is empty, lowest number first.

    `size` is the number of pages, at most 2**31. It keeps the promises of `SlotPool`; its memory follows the largest
    number of pages that were free again at once.

    >>> pool = GrowingPool(2**31)
    >>> pages = pool.alloc(3); pool.free(pages[1:]); pool.alloc(3).tolist(), pool
    ([1, 2, 3], GrowingPool(2147483644 of 2147483648 free))
    """

    def __init__(self, size: int):
        self.size = whole_number("size", size, 1, "a pool holds at least 1 page")
        if self.size > PAGE_LIMIT:
            raise ValueError(f"size is {self.size}: a page is an integer in [0, 2**31)")
        self._made, self._returned = 0, dict[int, None]()  # the next page to hand out is the last that was returned

    @property
    def num_free(self) -> int:
        """Pages that `alloc` could give now."""
        return self.size - self._made + len(self._returned)

    def alloc(self, num_pages: int) -> Pages:
        """Take `num_pages` pages, or none: `OutOfPages` if there are fewer."""
        count = request(num_pages, self.num_free)
        again = [self._returned.popitem()[0] for _ in range(min(count, len(self._returned)))]
        fresh = range(self._made, self._made + count - len(again))
        self._made = fresh.stop
        return np.array([*again, *fresh], np.int32)

    def free(self, pages: Any) -> None:
        """Give pages back, so that the same `alloc` would give them again in the same order; all or none."""
        self._returned.update(dict.fromkeys(reversed(pages_to_free(pages, self.size, self.is_free))))

    def is_free(self, page: int) -> bool:
        """Return whether `page` is free."""
        number = page_id(page, self.size)
        return number >= self._made or number in self._returned

    def check(self) -> None:
        """Every page that was returned had been made, and no more pages were made than there are."""
        if not max(self._returned, default=-1) < self._made <= self.size:
            raise InvariantError(f"GrowingPool: {self._made} of {self.size} pages were made, not all that are free")
