"""One lap of a race: a contender serves every request of a workload, several of them in flight at once.

The clock sees the index's work alone: no tensor is touched but the row of page numbers. The garbage collector is on.
"""

from __future__ import annotations

import contextlib
import gc
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from minikv.manager import Sequence
from minikv.measure.lives import ManagerLife, ToTokens, verbs_life
from minikv.measure.workloads import Exchange, Workload
from minikv.prefix import RadixCache
from minikv.tokens import TOKEN_BYTES, PackedTokens, pack

IN_FLIGHT = 8


@dataclass
class Lap:
    """One pass over a workload: for each request its nanoseconds, and how many of its tokens were cached."""

    times: list[int] = field(default_factory=list)
    hits: list[int] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Microseconds a request, on average."""
        return round(float(np.mean(self.times)) / 1000, 3)

    @property
    def p50(self) -> float:
        """Microseconds of the median request."""
        return round(float(np.median(self.times)) / 1000, 3)


@dataclass
class Contender:
    """An index in a race: `make()` returns an empty one, and `tokens` makes the tokens that it takes.

    `life(index, capacity, publish)` serves requests with it, and has the methods of a `ManagerLife`. The default is for
    any index with the five verbs that takes lists of tokens: `match_prefix(tokens)`, `lock(handle)`, `unlock(handle)`,
    `insert(tokens, slots)` and `evict(num_tokens)`, as `FiveVerbs` calls them.

    >>> from minikv import RadixCache
    >>> from minikv.measure.workloads import w1_chat
    >>> lap = run_lap(Contender("mine", RadixCache), w1_chat(40), capacity=50_000)
    >>> sum(lap.hits), len(lap.times)
    (27993, 40)
    """

    name: str
    make: Callable[[], Any]
    life: Callable[[Any, int, bool], Any] = verbs_life
    tokens: ToTokens = PackedTokens.tolist


def run_lap(
    contender: Contender,
    workload: Workload,
    capacity: int,
    publish: bool = False,
    watch: Callable[[Exchange, Any], None] = lambda exchange, running: None,
) -> Lap:
    """Serve the workload with a new index over a pool of `capacity` tokens, `IN_FLIGHT` requests at a time.

    With `publish` a prompt is cached after its prefill as well, so that later requests find it. The time of a request
    includes the end of the one that made room for it in the batch; the last ends count for the first requests. `watch`
    gets each request that has begun, outside the clock.
    """
    clock, lap, running = time.perf_counter_ns, Lap(), deque[Any]()
    gc.collect()  # what the last lap left
    life = contender.life(contender.make(), capacity, publish)
    for exchange in workload.exchanges:
        prepared = life.prepare(exchange, contender.tokens)
        start = clock()
        if len(running) == IN_FLIGHT:
            life.finish(running.popleft())
        began, hits = life.begin(prepared)
        lap.times.append(clock() - start)
        lap.hits.append(hits)
        watch(exchange, began)
        running.append(began)
    for at in range(len(running)):
        start = clock()
        life.finish(running.popleft())
        lap.times[at] += clock() - start
    return lap


@contextlib.contextmanager
def collecting() -> Iterator[None]:
    """The garbage collector is on, and visits what is made from now on: no workload, nor anything else of the process.

    >>> with collecting():
    ...     gc.isenabled(), gc.get_freeze_count() > 0
    (True, True)
    """
    before = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()
        if not before:
            gc.disable()


class Limit:
    """The floor for every engine: the work that each must do for a request, in memory that has had time to go cold.

    Compare the hit tokens with the edges that a tree keeps, copy the edges' slots into the request's row, take slots
    for the new tokens off a stack, and keep a copy of the new tokens and of their slots. Which edges a request hits is
    known beforehand: this package's radix tree has served the workload with the same `capacity`.

    >>> from minikv.measure.workloads import w1_chat
    >>> limit = Limit(w1_chat(40), capacity=50_000)
    >>> len(limit.run().times), limit.run().hits == limit.hits, sum(limit.hits)
    (40, True, 27993)
    """

    def __init__(self, workload: Workload, capacity: int, publish: bool = False):
        self._kept_at = np.zeros(capacity, np.intp)  # of each slot of the pool: its place
        self._num_kept = 0
        self._served: list[tuple[Exchange, npt.NDArray[np.intp], int]] = []
        radix = Contender("radix", RadixCache, ManagerLife, pack)
        self.hits = run_lap(radix, workload, capacity, publish, self._serve).hits
        empty_row = bytes(TOKEN_BYTES * max(workload.lengths, default=0))
        self.stack = memoryview(array("i", empty_row))
        self.row = memoryview(array("i", empty_row))
        self.tokens = memoryview(bytearray(TOKEN_BYTES * self._num_kept))
        self.slots = memoryview(array("i", bytes(4 * self._num_kept)))
        self.requests = [self._request(*served) for served in self._served]

    def _serve(self, exchange: Exchange, sequence: Sequence) -> None:
        """Note where the hit tokens of a request are kept, and keep its new tokens after all others."""
        slots = sequence.slots
        hit = sequence.cached_length
        start = self._num_kept
        self._num_kept += len(slots) - hit
        self._served.append((exchange, self._kept_at[slots[:hit]], self._num_kept))
        self._kept_at[slots[hit:]] = np.arange(start, self._num_kept)

    def _request(self, exchange: Exchange, hit: npt.NDArray[np.intp], end: int) -> tuple[Any, ...]:
        """The prompt, the edges that it hits, its new tokens, and where they and their slots are kept."""
        gaps = np.flatnonzero(np.diff(hit) != 1)
        parts = np.split(hit, gaps + 1)
        edges = [self._edge(part[0], part[-1] + 1) for part in parts if len(part)]
        new = memoryview(exchange.full.data)[TOKEN_BYTES * len(hit) :]
        return exchange.prompt.data, edges, new, *self._edge(end - len(new) // TOKEN_BYTES, end)

    def _edge(self, start: int, end: int) -> tuple[memoryview, memoryview]:
        return self.tokens[TOKEN_BYTES * start : TOKEN_BYTES * end], self.slots[start:end]

    def run(self) -> Lap:
        """One pass over the workload."""
        clock = time.perf_counter_ns
        lap = Lap()
        row = self.row
        stack = self.stack
        for prompt, edges, new, kept_tokens, kept_slots in self.requests:
            start = clock()
            hit = 0
            for tokens, slots in edges:
                if prompt.startswith(tokens, TOKEN_BYTES * hit):
                    row[hit : hit + len(slots)] = slots
                    hit += len(slots)
            own = row[hit : hit + len(kept_slots)]
            own[:] = stack[: len(own)]
            kept_tokens[:] = new
            kept_slots[:] = own
            lap.times.append(clock() - start)
            lap.hits.append(hit)
        return lap
