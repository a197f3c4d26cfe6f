"""All designs of the package side by side: the figures of `designs.json`, shown on the page "Which one do I choose?".

    python assets/designs.py           some ten minutes on a quiet machine; prints a report and writes designs.json

All serve the same requests with the same room, in pages of several sizes. A request is the bare index's part of a life
(`IndexLife`): match and lock, make room, insert, unlock. Two designs are no index and have lives of their own: rows,
which have no pages, and shared pages. Bytes are those that Python asks its allocator for, once a whole workload is
cached and nothing has been evicted.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from figures import measure_into
from memory import used_bytes

from minikv import BitmaskPool, CopyOnWrite
from minikv.copy_on_write.page_values import PlainValues
from minikv.engine.ch09_10_rows_and_blocks import RowTrie
from minikv.measure.bench import QUICK
from minikv.measure.lap import Contender
from minikv.measure.lives import IndexLife
from minikv.measure.race import ROUNDS, race
from minikv.measure.results import Measured, Spread, today
from minikv.measure.workloads import WORKLOADS, Workload
from minikv.pools.contract import request
from minikv.prefix import INDEXES, index_named
from minikv.progress_bar import Tick, quiet
from minikv.tokens import PackedTokens, pack

COMPARED = ("W1", "W2", "W4")  # what has something to share
PAGES = (1, 4, 16, 64)
ROWS, SHARED = "rows", "pages"  # the `RowTrie` of chapter 09, and the `CopyOnWrite` of chapter 11
SHARE = 50  # percent of the working set: what runs fits, in pages of any of these sizes, and old things go


@dataclasses.dataclass
class Design:
    """One design on one workload, in pages of one size.

    `room` is the capacity that it had, in percent of all that the workload caches. `entries` are its nodes, blocks or
    pages, and `bytes_per_token` is the memory of the index per cached token when everything fits.
    """

    index: str
    workload: str
    page_size: int
    room: int
    hit_rate: float
    entries: int
    bytes_per_token: float
    requests_per_second: Spread


@dataclasses.dataclass
class Comparison(Measured):
    """Everything that `designs.json` holds."""

    rows: list[Design] = dataclasses.field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """A table for each workload."""
        workload = ""
        for row in self.rows:
            if row.workload != workload:
                workload = row.workload
                yield from ("", f"{workload}, room for {row.room}% of all it caches")
                yield f"  page  {'index':<8}{'hits':>6}{'entries':>10}{'bytes per token':>17}  requests per second"
            speed = row.requests_per_second
            spread = f"{speed.median:,.0f} ({speed.low:,.0f} to {speed.high:,.0f})"
            figures = f"{row.hit_rate:>6.3f}{row.entries:>10,}{row.bytes_per_token:>17,.2f}"
            yield f"  {row.page_size:>4}  {row.index:<8}{figures}  {spread}"


def compare_designs(rounds: int = ROUNDS, tick: Tick = quiet) -> Comparison:
    """All indexes on all of `COMPARED`, in all sizes of pages."""
    found = Comparison(*today(rounds))
    for name in COMPARED:
        workload = WORKLOADS[name](QUICK[name])
        for page_size in PAGES:
            found.rows += designs_on(workload, page_size, names_with(page_size), rounds, tick)
    return found


def names_with(page_size: int) -> tuple[str, ...]:
    """The designs that have pages of this size: rows have none, so they are compared once."""
    return (*INDEXES, SHARED, ROWS) if page_size == 1 else (*INDEXES, SHARED)


def contender(name: str, page_size: int, workload: Workload) -> Contender:
    """The design `name` for a race on `workload`."""
    if name == ROWS:
        return Contender(name, partial(_rows, workload), RowLife)
    if name == SHARED:
        return Contender(name, partial(_shared, page_size), PageLife, pack)
    return Contender(name, partial(index_named, name, page_size), IndexLife, pack)


def _rows(workload: Workload) -> Callable[[int], RowTrie]:
    """Makes the rows that fit in some tokens: each has room for the longest sequence."""
    longest = max(len(exchange.full) for exchange in workload.exchanges)

    def rows(capacity: int) -> RowTrie:
        cache = RowTrie(capacity // longest, capacity)
        cache.pool = OldestFirst(capacity // longest)
        return cache

    return rows


class OldestFirst(BitmaskPool):
    """Rows and their versions; the row that was given back first is handed out first, as in exercise 9.5.

    >>> pool = OldestFirst(2)
    >>> pool.alloc(2), pool.free([1, 0]), pool.alloc(1), pool.version(1)
    ([0, 1], None, [1], 2)
    """

    def __init__(self, size: int):
        super().__init__(size)
        self._queue = deque(range(size))

    def alloc(self, num_pages: int) -> Any:
        """Take the rows that were given back first, or none (`OutOfPages`), with new versions."""
        rows = [*self._queue][: request(num_pages, self.num_free)]
        for row in rows:
            self.occupy(row, renew=True)
        return rows

    def occupy(self, page: int, renew: bool = False) -> None:
        """Take this row."""
        super().occupy(page, renew)
        self._queue.remove(page)

    def free(self, pages: Any) -> None:
        """Give rows back; they wait after all others that are free."""
        super().free(pages)
        self._queue += pages


def _shared(page_size: int) -> Callable[[int], CopyOnWrite]:
    """Makes the pages that some tokens fill."""
    return lambda capacity: CopyOnWrite(-(-capacity // page_size), page_size)


class RowLife:
    """A request that runs in a row: it takes over what is cached there, or copies it from another row.

    >>> from minikv.measure.workloads import w1_chat
    >>> workload = w1_chat(1)
    >>> life = RowLife(_rows(workload), capacity=10_000, publish=False)
    >>> running, cached = life.begin(life.prepare(workload.exchanges[0], PackedTokens.tolist))
    >>> life.finish(running); cached, life.cache.evictable
    (0, 1582)
    """

    def __init__(self, make: Callable[[int], Any], capacity: int, publish: bool):
        self.cache = make(capacity)
        self.count, self.over = 0, deque[int]()  # of requests; those that are over and stay, the oldest first

    def prepare(self, exchange: Any, tokens: Callable[[PackedTokens], Any]) -> Any:
        """Prompt and answer."""
        return tokens(exchange.prompt), tokens(exchange.answer)

    def begin(self, prepared: Any) -> tuple[Any, int]:
        """Take a row for the prompt."""
        prompt, answer = prepared
        request = self.cache.start(prompt)
        return (request, answer), request.found

    def finish(self, running: Any) -> None:
        """Publish prompt and answer, and leave the row."""
        request, answer = running
        request.tokens = self.cache.rows[request.row] = request.tokens + answer
        self.cache.finish(request)


class PageLife(RowLife):
    """A request over shared pages: a sequence that is over stays, so that others find its pages, until room is needed.

    >>> from minikv.measure.workloads import w1_chat
    >>> life = PageLife(_shared(16), capacity=10_000, publish=False)
    >>> running, cached = life.begin(life.prepare(w1_chat(1).exchanges[0], pack))
    >>> life.finish(running); cached, life.cache.stats()["total_sequences"]
    (0, 1)
    """

    def begin(self, prepared: Any) -> tuple[Any, int]:
        """Attach the prompt to the pages that others have, and append the rest of it."""
        (prompt, answer), name = prepared, self.count
        self.count += 1
        found = self.cache.attach(name, prompt)
        self._append(name, prompt[found:])
        return (name, answer), min(found, len(prompt) - 1)

    def _append(self, name: int, tokens: Any) -> None:
        """Append `tokens`; sequences that are over go until there is room."""
        needed = -(-len(tokens) // self.cache.page_size) + 1
        while self.over and self.cache.pool.num_free < needed:
            self.cache.detach(self.over.popleft())
        self.cache.append(name, tokens, range(len(tokens)))

    def finish(self, running: Any) -> None:
        """Append the answer; the sequence stays."""
        self._append(*running)
        self.over.append(running[0])


def designs_on(
    workload: Workload, page_size: int, names: Sequence[str], rounds: int, tick: Tick = quiet
) -> Iterator[Design]:
    """The designs of these `names` on one workload, in pages of one size."""
    contenders = [contender(name, page_size, workload) for name in names]
    raced = race(workload, contenders, SHARE, rounds=rounds, tick=tick)
    for name in names:
        tick(f"memory of {name} on {workload.name} with pages of {page_size}")
        entries, per_token = footprint(name, page_size, workload)
        result = raced.of(name)
        speed = Spread.of([1e6 / mean for mean in result.mean])
        yield Design(name, workload.name, page_size, raced.room, result.hit_rate, entries, per_token, speed)


def footprint(name: str, page_size: int, workload: Workload) -> tuple[int, float]:
    """How many entries the design `name` has once the `workload` is cached, and its bytes per cached token.

    >>> from minikv.measure.workloads import w1_chat
    >>> (nodes, few), (tokens, many) = (footprint(name, 1, w1_chat(4)) for name in ("radix", "trie"))
    >>> nodes, tokens, few < 10, many > 100
    (4, 6299, True, True)
    """
    if name == SHARED:
        return _footprint_of_pages(page_size, workload.exchanges)
    if name == ROWS:
        return _footprint_of_rows(workload.exchanges)
    fill = partial(_filled, name, page_size)
    fill(workload.exchanges[:1])  # what is made once, by the first prompt of all, is not counted
    used, index = used_bytes(partial(fill, workload.exchanges))
    return len(list(index.nodes())), round(used / index.total_size, 2)


def _filled(name: str, page_size: int, exchanges: Sequence[Any]) -> Any:
    """An index that has all of these sequences; it was given copies, so that none of its memory is the workload's."""
    index = index_named(name, page_size)
    for exchange in exchanges:
        tokens = PackedTokens(bytes(bytearray(exchange.full.data)))
        index.insert(tokens, np.arange(len(tokens) // page_size, dtype=np.int32))
    return index


def _footprint_of_rows(exchanges: Sequence[Any]) -> tuple[int, float]:
    """The nodes of a trie of rows in which all of these sequences are, and its bytes per node."""
    most = sum(len(exchange.full) for exchange in exchanges)

    def filled() -> RowTrie:
        cache = RowTrie(len(exchanges), most)
        for exchange in exchanges:
            cache.finish(cache.start(exchange.full.tolist()))
        return cache

    used, cache = used_bytes(filled)
    return cache.evictable, round(used / cache.evictable, 2)


def _footprint_of_pages(page_size: int, exchanges: Sequence[Any]) -> tuple[int, float]:
    """The pages that all of these sequences share, and the bytes per token without those of the values."""
    most = sum(-(-len(exchange.full) // page_size) for exchange in exchanges)
    num_pages = _attached(most, page_size, exchanges).stats()["allocated_pages"]
    values, _ = used_bytes(partial(PlainValues, num_pages, page_size))
    used, _ = used_bytes(partial(_attached, num_pages, page_size, exchanges))
    return num_pages, round((used - values) / (num_pages * page_size), 2)


def _attached(num_pages: int, page_size: int, exchanges: Sequence[Any]) -> CopyOnWrite:
    """Shared pages with all of these sequences."""
    cache = CopyOnWrite(num_pages, page_size)
    for name, exchange in enumerate(exchanges):
        found = cache.attach(name, exchange.full)
        cache.append(name, exchange.full[found:], range(len(exchange.full) - found))
    return cache


if __name__ == "__main__":
    measure_into("designs", __doc__, compare_designs)
