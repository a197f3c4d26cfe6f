"""The indexes of this package side by side: what each finds, what it keeps in memory, and how fast it is.

All serve the same requests with the same room, in pages of several sizes. A request is the bare index's part of a life
(`IndexLife`): match and lock, make room, insert, unlock. Bytes are those that Python asks its allocator for, once a
whole workload is cached and nothing has been evicted. Chapter 12 shows what `minikv bench --designs --json` wrote into
`assets/designs.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Any

import numpy as np

from minikv.measure.bench import QUICK, machine
from minikv.measure.lap import Contender
from minikv.measure.lives import IndexLife
from minikv.measure.memory import used_bytes
from minikv.measure.race import ROUNDS, race
from minikv.measure.results import Spread
from minikv.measure.workloads import WORKLOADS, Workload
from minikv.prefix.indexes import INDEXES, index_named
from minikv.progress_bar import Tick, quiet
from minikv.tokens import PackedTokens, pack

COMPARED = ("W1", "W2", "W4")  # what has something to share
PAGES, QUICK_PAGES = (1, 4, 16, 64), (1, 16)
SHARE = 50  # per cent of the working set: what runs fits, in pages of any of these sizes, and old things go


@dataclass
class DesignRow:
    """One index on one workload, in pages of one size.

    `room` is the capacity that it had, in per cent of all that the workload caches. `entries` are its nodes or blocks,
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


@dataclass
class Comparison:
    """Everything that `minikv bench --designs` measures; `dataclasses.asdict` makes it JSON."""

    machine: str
    date: str
    rounds: int
    quick: bool
    rows: list[DesignRow] = field(default_factory=list)


def compare(
    names: Sequence[str] = tuple(INDEXES),
    rounds: int = ROUNDS,
    quick: bool = False,
    tick: Tick = quiet,
    expect: Callable[[int], None] = lambda steps: None,
) -> Comparison:
    """Compare the indexes of these `names` on `COMPARED`; a quick comparison has fewer sizes of pages.

    `expect` is told how many ticks there will be. `ValueError` names an index that is not there.
    """
    names = list(dict.fromkeys(names))
    for name in names:
        index_named(name)  # says what is wrong with the name
    sizes = QUICK_PAGES if quick else PAGES
    expect(len(COMPARED) * len(sizes) * (1 + len(names) * (1 + rounds)))
    found = Comparison(machine(), date.today().isoformat(), rounds, quick)
    for name in COMPARED:
        workload = WORKLOADS[name](QUICK[name])
        for page_size in sizes:
            found.rows += _rows(workload, page_size, names, rounds, tick)
    return found


def _rows(workload: Workload, page_size: int, names: Sequence[str], rounds: int, tick: Tick) -> list[DesignRow]:
    """The rows of one workload and one size of pages, one for each index."""
    contenders = [Contender(name, partial(index_named, name, page_size), IndexLife, pack) for name in names]
    raced = race(workload, contenders, SHARE, rounds=rounds, tick=tick)
    rows = []
    for name in names:
        tick(f"memory of {name} on {workload.name} with pages of {page_size}")
        entries, per_token = footprint(name, page_size, workload)
        result = raced.of(name)
        speed = Spread.of([1e6 / mean for mean in result.mean])
        head = name, workload.name, page_size, raced.room, result.hit_rate
        rows.append(DesignRow(*head, entries, per_token, speed))
    return rows


def footprint(name: str, page_size: int, workload: Workload) -> tuple[int, float]:
    """How many entries the index `name` has once the `workload` is cached, and its bytes for each cached token.

    >>> from minikv.measure.workloads import chat
    >>> (nodes, few), (tokens, many) = (footprint(name, 1, chat(4)) for name in ("radix", "trie"))
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


def comparison_report(found: Comparison) -> str:
    """The comparison as text, a table for each workload.

    >>> print(comparison_report(Comparison("CPython 3.11, 2 cores", "2026-11-22", 3, True)))
    2026-11-22, CPython 3.11, 2 cores; medians of 3 rounds (smallest to largest)
    """
    lines = [f"{found.date}, {found.machine}; medians of {found.rounds} rounds (smallest to largest)"]
    workload = ""
    for row in found.rows:
        if row.workload != workload:
            workload = row.workload
            lines += ["", f"{workload}, room for {row.room}% of all it caches"]
            lines += [f"  page  {'index':<8}{'hits':>6}{'entries':>10}{'bytes a token':>15}  requests a second"]
        speed = row.requests_per_second
        spread = f"{speed.median:,.0f} ({speed.low:,.0f} to {speed.high:,.0f})"
        figures = f"{row.hit_rate:>6.3f}{row.entries:>10,}{row.bytes_per_token:>15,.2f}"
        lines.append(f"  {row.page_size:>4}  {row.index:<8}{figures}  {spread}")
    return "\n".join(lines)
