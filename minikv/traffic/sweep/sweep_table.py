"""What a sweep found, as a table for people and as rows for programs."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
from collections.abc import Sequence
from typing import Any

from minikv.errors import shown
from minikv.traffic.quantities import UNLIMITED, capacity_text
from minikv.traffic.replay import Replay
from minikv.traffic.sweep.sweep import SweepRun

_OWN = "its own"


def sweep_rows(runs: Sequence[SweepRun], found: Sequence[Replay]) -> list[dict[str, Any]]:
    """One JSON object for each run, in their order: what was replayed, then what was found.

    >>> rows = sweep_rows([SweepRun("day.jsonl", 1, "radix", "lru", "node", None)], [Replay(2, 4, hits=2, peak_size=2)])
    >>> rows[0]["capacity"], rows[0]["hit_rate"]
    (None, 0.5)
    """
    rows = []
    for run, result in zip(runs, found):
        counted = dataclasses.asdict(result)
        rates = {"hits": counted.pop("hits"), "hit_rate": round(result.hit_rate, 6)}
        sizes = {name: counted.pop(name) for name in ("requests", "blocks")}
        rows.append({**run.row(), **sizes, **rates, **counted})
    return rows


def sweep_csv(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as CSV, with a line of names; what an index does not have is empty.

    >>> print(sweep_csv([{"trace": "day.jsonl", "capacity": None, "hits": 2}]))
    trace,capacity,hits
    day.jsonl,unlimited,2
    <BLANKLINE>
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, "capacity": row["capacity"] or UNLIMITED} for row in rows)
    return text.getvalue()


def sweep_table(runs: Sequence[SweepRun], found: Sequence[Replay]) -> str:
    """Hit rates in per cent: a table for each trace and page size, a line for each design, a column for each capacity.

    >>> runs = [SweepRun("day.jsonl", 16, "radix", "lru", "node", capacity) for capacity in (1000, None)]
    >>> print(sweep_table(runs, [Replay(2, 40, hits=20), Replay(2, 40, hits=30)]))
    day.jsonl: 2 requests, 40 blocks; pages of 16; blocks hit in %, by capacity in blocks
    index  policy  evict by  1,000  unlimited
    radix  lru     node       50.0       75.0
    """
    tables = []
    pairs = itertools.groupby(zip(runs, found), key=lambda pair: (pair[0].trace, pair[0].page_size))
    for (trace, page_size), group in pairs:
        cells = dict[tuple[str, str, str], dict[int | None, str]]()
        for run, result in group:
            design = (run.index, run.policy or _OWN, run.evict_by or _OWN)
            cells.setdefault(design, {})[run.capacity] = f"{100 * result.hit_rate:.1f}"
        sizes = f"{result.requests:,} requests, {result.blocks:,} blocks; pages of {page_size}"
        tables.append(f"{shown(trace)}: {sizes}; blocks hit in %, by capacity in blocks\n{_lines(cells)}")
    return "\n\n".join(tables)


def _lines(cells: dict[tuple[str, str, str], dict[int | None, str]]) -> str:
    capacities = list(dict.fromkeys(capacity for row in cells.values() for capacity in row))
    table = [["index", "policy", "evict by", *map(capacity_text, capacities)]]
    table += [[*design, *(row[capacity] for capacity in capacities)] for design, row in cells.items()]
    widths = [max(map(len, column)) for column in zip(*table)]
    lines = []
    for row in table:
        texts = [cell.ljust(width) for cell, width in zip(row[:3], widths)]
        numbers = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:])]
        lines.append("  ".join([*texts, *numbers]))
    return "\n".join(lines)
