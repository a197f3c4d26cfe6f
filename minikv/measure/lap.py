"""One lap of a race: a contender serves every request of a workload, several of them in flight at once.

The clock sees the index's work alone: no tensor is touched but the row of page numbers. The garbage collector is on.
"""

from __future__ import annotations

import contextlib
import gc
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minikv.measure.lives import Life, ToTokens, VerbsLife
from minikv.measure.workloads import Workload
from minikv.tokens import TOKEN_BYTES, PackedTokens

IN_FLIGHT = 8


@dataclass
class Lap:
    """One pass over a workload: for each request its nanoseconds, and how many of its tokens were cached."""

    times: list[int] = field(default_factory=list)
    hits: list[int] = field(default_factory=list)

    @property
    def mean(self) -> float:
        """Microseconds a request, on average."""
        return sum(self.times) / len(self.times) / 1000

    @property
    def p50(self) -> float:
        """Microseconds of the median request."""
        return float(np.median(self.times)) / 1000


@dataclass
class Contender:
    """An index in a race: `make()` returns an empty one, `life` serves requests with it, `tokens` makes its tokens.

    The default is any index with the five verbs that takes lists of tokens: `match_prefix(tokens)`, `lock(handle)`,
    `unlock(handle)`, `insert(tokens, slots)` and `evict(num_tokens)`, as `VerbsLife` calls them.

    >>> from minikv import RadixCache
    >>> from minikv.measure.workloads import chat
    >>> lap = run(Contender("mine", RadixCache), chat(40), capacity=50_000)
    >>> sum(lap.hits), len(lap.times)
    (27993, 40)
    """

    name: str
    make: Callable[[], Any]
    life: Callable[[Any, int, bool], Life] = VerbsLife
    tokens: ToTokens = PackedTokens.tolist


def run(contender: Contender, workload: Workload, capacity: int, publish: bool = False) -> Lap:
    """Serve the workload with a new index over a pool of `capacity` tokens, `IN_FLIGHT` requests at a time.

    With `publish` a prompt is cached after its prefill as well, so that the requests behind it find it. The time of a
    request includes the end of the one that made room for it in the batch; the last ends count for the first requests.
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
    """What no index can beat: compare the hit tokens and copy their slots, once each, from memory gone cold.

    `hits` is what an oracle knows of each request: how many of its tokens are cached.

    >>> from minikv.measure.workloads import chat
    >>> len(Limit(chat(2), [0, 1000]).run().times)
    2
    """

    def __init__(self, workload: Workload, hits: Sequence[int]):
        prompts = [exchange.prompt.data for exchange in workload.exchanges]
        cached = [bytes(bytearray(prompt[: 4 * hit])) for prompt, hit in zip(prompts, hits)]
        slots = [memoryview(array("i", bytes(4 * hit))) for hit in hits]
        self.requests = list(zip(prompts, cached, slots))
        self.row = memoryview(array("i", bytes(4 * max(hits, default=0))))

    def run(self) -> Lap:
        """One pass over the workload: a memcmp and a memcpy a request."""
        clock, lap, row = time.perf_counter_ns, Lap(), self.row
        for prompt, cached, slots in self.requests:
            start = clock()
            if prompt.startswith(cached):
                row[: len(slots)] = slots
            lap.times.append(clock() - start)
        return lap


class StoringLimit(Limit):
    """The limit, and what an index that learns has to copy besides: what few requests hit is held to this.

    The slots of the new tokens come off a stack that stays warm, and go into the row. The new tokens and their slots
    are copied for the next request, for the caller's memory is the caller's.

    >>> from minikv.measure.workloads import chat
    >>> len(StoringLimit(chat(2), [0, 1000]).run().times)
    2
    """

    def __init__(self, workload: Workload, hits: Sequence[int]):
        super().__init__(workload, hits)
        self.wholes = [memoryview(exchange.full.data) for exchange in workload.exchanges]
        longest = max(map(len, self.wholes), default=0)
        self.row, self.stack = memoryview(array("i", bytes(longest))), memoryview(array("i", bytes(longest)))

    def run(self) -> Lap:
        """One pass over the workload: a memcmp and four memcpys a request."""
        clock, lap, row, stack = time.perf_counter_ns, Lap(), self.row, self.stack
        stored: deque[tuple[bytes, bytes]] = deque(maxlen=IN_FLIGHT)
        for (prompt, cached, slots), whole in zip(self.requests, self.wholes):
            start = clock()
            if prompt.startswith(cached):
                hit, end = len(slots), len(whole) // TOKEN_BYTES
                row[:hit] = slots
                row[hit:end] = stack[: end - hit]
                stored.append((whole[len(cached) :].tobytes(), row[hit:end].tobytes()))
            lap.times.append(clock() - start)
        return lap
