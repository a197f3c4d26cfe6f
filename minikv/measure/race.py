"""The life of a request, timed: match, lock, make room, allocate, write the row, insert, unlock.

Every contender goes through the same steps with the same requests, several of them in flight at once, as in an
engine that batches. What is timed is the index's work alone: no tensor is touched but the row of slot numbers.
"""

from __future__ import annotations

import gc
import inspect
import time
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minikv.measure.workloads import Workload
from minikv.pools import FreeListPool
from minikv.prefix import Match
from minikv.tokens import PackedTokens

IN_FLIGHT = 8


@dataclass
class Lap:
    """One pass of a contender over a workload: nanoseconds for each request, and the tokens that were hits."""

    times: list[int] = field(default_factory=list)
    hits: int = 0

    @property
    def mean(self) -> float:
        """Microseconds a request, on average."""
        return sum(self.times) / len(self.times) / 1000

    @property
    def median(self) -> float:
        """Microseconds that half of the requests stayed below."""
        return float(np.median(self.times)) / 1000


@dataclass
class Contender:
    """Who takes part: `make()` gives an empty index with the five verbs, `tokens` turns a prompt into its own form.

    The five verbs are `match_prefix(tokens)`, `lock(handle)`, `unlock(handle)`, `insert(tokens, slots)` and
    `evict(num_tokens)`, as in `PrefixCache`; `insert` gets `start=` when it takes one. Anything that has them can be
    raced, in whatever form it likes its tokens. `pool` makes the pool of pages of `page_size` that its slots are from.

    >>> from minikv import RadixCache
    >>> from minikv.measure.workloads import chat
    >>> mine = Contender("mine", RadixCache)
    >>> lap = run(mine, prepare(mine, chat(40)), capacity=50_000)
    >>> lap.hits, len(lap.times)
    (27993, 40)
    """

    name: str
    make: Callable[[], Any]
    tokens: Callable[[PackedTokens], Any] = lambda packed: packed
    page_size: int = 1
    pool: Callable[[int], Any] = FreeListPool


Prepared = list[tuple[Any, Any, int, int]]


def prepare(contender: Contender, workload: Workload) -> Prepared:
    """The requests in the contender's own form, converted outside the race: prompt, full sequence, their lengths."""
    own = contender.tokens
    return [(own(r.prompt), own(r.full), len(r.prompt), len(r.full)) for r in workload.requests]


def run(contender: Contender, requests: Prepared, capacity: int, publish: bool = False) -> Lap:
    """Send `requests` through a new index of the contender's over a pool of `capacity` tokens, `IN_FLIGHT` at a time.

    With `publish` a request is inserted after its prefill as well, so that those behind it find its prompt. A
    request's time has its own beginning in it and the end of the one that makes room for it in the batch.
    """
    page = contender.page_size
    begin, finish = life_of_a_request(contender.make(), contender.pool(-(-capacity // page)), page)
    clock, lap, waiting = time.perf_counter_ns, Lap(), deque[Any]()
    longest = max(request[3] for request in requests) + page
    rows = deque(memoryview(array("i", bytes(4 * longest))) for _ in range(IN_FLIGHT + 1))
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for request in requests:
            row = rows.popleft()
            start = clock()
            if len(waiting) == IN_FLIGHT:
                rows.append(finish(waiting.popleft()))
            state = begin(request, row, publish)
            lap.times.append(clock() - start)
            lap.hits += state[4]
            waiting.append(state)
        while waiting:
            finish(waiting.popleft())
    finally:
        if collecting:
            gc.enable()
    return lap


def life_of_a_request(cache: Any, pool: Any, page: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What an engine does with an index: how a request begins, and how it ends; the same for all of them.

    Of a request's row [0, cached) is the tree's, [cached, end) its own until the request ends. Who has `acquire`,
    `copy_to` or `alloc_to` is asked for those, and anybody else for the verbs that they abbreviate.
    """
    unlock, insert, acquire = cache.unlock, cache.insert, _acquire(cache)
    evict = cache.evict
    alloc_to, give = _by_slot(pool, page)
    if "start" not in inspect.signature(insert).parameters:
        insert = lambda tokens, slots, start: cache.insert(tokens, slots)  # noqa: E731

    def begin(request: Any, row: Any, publish: bool) -> tuple[Any, ...]:
        prompt, full, length, total = request
        match = acquire(prompt)
        cached, handle = match.length, match.handle
        pages = -(-(total - cached) // page)
        short = pages - pool.num_free
        if short > 0:
            give(evict(short * page))
        if type(match) is Match:
            match.copy_to(row)
        else:
            row[:cached] = array("i", match.slots)
        hits, end = cached, cached + pages * page
        alloc_to(row[cached:end])
        if publish:
            done = insert(prompt, row[:length], start=handle)
            cache.lock(done.handle)
            unlock(handle)
            cached, handle = done.length, done.handle
        return full, row, handle, (cached, end, total), hits

    def finish(state: tuple[Any, ...]) -> Any:
        full, row, handle, (cached, end, total), _ = state
        done = insert(full, row[:total], start=handle)
        if done.prefix_length > cached:
            give(row[cached : done.prefix_length])
        if done.length < end:
            give(row[done.length : end])
        unlock(handle)
        return row

    return begin, finish


def _by_slot(pool: Any, page: int) -> tuple[Callable[[Any], None], Callable[[Any], None]]:
    """`alloc_to` and `free` in slots, whatever the size of the pool's pages, and if it has no `alloc_to` too."""
    if page == 1 and hasattr(pool, "alloc_to"):
        return pool.alloc_to, pool.free
    offsets = np.arange(page, dtype=np.int32)

    def alloc_to(row: Any) -> None:
        row[:] = (pool.alloc(len(row) // page)[:, None] * page + offsets).ravel().data

    def free(slots: Any) -> None:
        pool.free(np.asarray(slots)[::page] // page)

    return alloc_to, free


def _acquire(cache: Any) -> Callable[[Any], Any]:
    if hasattr(cache, "acquire"):
        return cache.acquire  # type: ignore[no-any-return]

    def match_and_lock(prompt: Any) -> Any:
        match = cache.match_prefix(prompt)
        cache.lock(match.handle)
        return match

    return match_and_lock


class Limit:
    """What no index can beat on a full hit: one memcmp of the prompt and one copy of its row, from memory gone cold."""

    def __init__(self, workload: Workload):
        self.prompts = [(r.prompt.data, bytes(bytearray(r.prompt.data))) for r in workload.requests]
        self.slots = [memoryview(array("i", bytes(len(r.full.data)))) for r in workload.requests]
        self.row = memoryview(array("i", bytes(4 * max(map(len, self.slots)))))

    def run(self) -> Lap:
        """One pass over the workload."""
        clock, lap, row = time.perf_counter_ns, Lap(), self.row
        for (mine, cached), slots in zip(self.prompts, self.slots):
            start = clock()
            if mine == cached:
                row[: len(slots)] = slots
            lap.times.append(clock() - start)
        return lap
