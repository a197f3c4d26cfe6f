"""The indexes of the package side by side: the figures of `designs.json`, which chapter 12 shows.

    python assets/designs.py           some ten minutes on a quiet machine; prints a report and writes designs.json

All serve the same requests with the same room, in pages of several sizes. A request is the bare index's part of a life
(`IndexLife`): match and lock, make room, insert, unlock. Bytes are those that Python asks its allocator for, once a
whole workload is cached and nothing has been evicted.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from memory import used_bytes

from minikv.files import asset, replace
from minikv.measure.bench import QUICK
from minikv.measure.lap import Contender
from minikv.measure.lives import IndexLife
from minikv.measure.race import ROUNDS, race
from minikv.measure.results import Measured, Spread, today
from minikv.measure.workloads import WORKLOADS, Workload
from minikv.prefix.indexes import INDEXES, index_named
from minikv.progress_bar import Progress, Tick, quiet
from minikv.tokens import PackedTokens, pack

COMPARED = ("W1", "W2", "W4")  # what has something to share
PAGES = (1, 4, 16, 64)
SHARE = 50  # percent of the working set: what runs fits, in pages of any of these sizes, and old things go


@dataclasses.dataclass
class Design:
    """One index on one workload, in pages of one size.

    `room` is the capacity that it had, in percent of all that the workload caches. `entries` are its nodes or blocks,
    and `bytes_per_token` what they and the rest of it take for each cached token, where everything fits.
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
            found.rows += designs_on(workload, page_size, tuple(INDEXES), rounds, tick)
    return found


def designs_on(
    workload: Workload, page_size: int, names: Sequence[str], rounds: int, tick: Tick = quiet
) -> Iterator[Design]:
    """The indexes of these `names` on one workload, in pages of one size."""
    contenders = [Contender(name, partial(index_named, name, page_size), IndexLife, pack) for name in names]
    raced = race(workload, contenders, SHARE, rounds=rounds, tick=tick)
    for name in names:
        tick(f"memory of {name} on {workload.name} with pages of {page_size}")
        entries, per_token = footprint(name, page_size, workload)
        result = raced.of(name)
        speed = Spread.of([1e6 / mean for mean in result.mean])
        yield Design(name, workload.name, page_size, raced.room, result.hit_rate, entries, per_token, speed)


def footprint(name: str, page_size: int, workload: Workload) -> tuple[int, float]:
    """How many entries the index `name` has once the `workload` is cached, and its bytes per cached token.

    >>> from minikv.measure.workloads import w1_chat
    >>> (nodes, few), (tokens, many) = (footprint(name, 1, w1_chat(4)) for name in ("radix", "trie"))
    >>> nodes, tokens, few < 10, many > 100
    (4, 6299, True, True)
    """
    _filled(name, page_size, workload.exchanges[:1])  # what is made once, by the first prompt of all, is not counted
    used, index = used_bytes(partial(_filled, name, page_size, workload.exchanges))
    return len(list(index.nodes())), round(used / index.total_size, 2)


def _filled(name: str, page_size: int, exchanges: Sequence[Any]) -> Any:
    """An index that has all of these sequences; it was given copies, so that none of its memory is the workload's."""
    index = index_named(name, page_size)
    for exchange in exchanges:
        tokens = PackedTokens(bytes(bytearray(exchange.full.data)))
        index.insert(tokens, np.arange(len(tokens) // page_size, dtype=np.int32))
    return index


if __name__ == "__main__":
    with Progress(command="designs") as tick:
        found = compare_designs(tick=tick)
    print(found.report())
    replace(asset("designs.json"), json.dumps(dataclasses.asdict(found), indent=1) + "\n")
