"""Tables: as lines for a terminal, and as CSV for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from minikv.traffic.replay import UNLIMITED


def aligned(rows: Sequence[Sequence[str]], left: Iterable[int] = ()) -> Iterator[str]:
    """The rows of a table as lines of text; the columns in `left` hold words, all others numbers.

    >>> list(aligned([["size", "hits", "note"], ["10", "25 %", "knee"]], left=[2]))
    ['size  hits  note', '  10  25 %  knee']
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    words = set(left)
    for row in rows:
        cells = [f"{cell:{'<' if at in words else '>'}{widths[at]}}" for at, cell in enumerate(row)]
        yield "  ".join(cells).rstrip()


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of the same keys as CSV, with a line of names.

    A text that a spreadsheet would take for a formula starts with a quotation mark.

    >>> csv_text([{"trace": "=1+1.jsonl", "hits": 2}])
    "trace,hits\\n'=1+1.jsonl,2\\n"
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _no_formula(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _no_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def replay_lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The results of replays as lines for a terminal: one as names and values, several as a table.

    >>> list(replay_lines([{"hits": 1000, "hit_rate": 0.5}]))
    ['hits                        1,000', 'hit rate                 0.500000']
    >>> rows = [{"capacity": size, "requests": 2, "blocks": 9, "hits": 3} for size in (10, None)]
    >>> list(replay_lines(rows))
    ['requests 2, blocks 9', ' capacity  hits', '       10     3', 'unlimited     3']
    """
    if len(rows) == 1:
        yield from (f"{key.replace('_', ' '):<20} {_cell(value):>12}" for key, value in rows[0].items())
        return
    keys = [key for key in rows[0] if key not in ("requests", "blocks")]
    yield f"requests {rows[0]['requests']:,}, blocks {rows[0]['blocks']:,}"
    yield from aligned([[key.replace("_", " ") for key in keys], *([_cell(row[key]) for key in keys] for row in rows)])


def _cell(value: Any) -> str:
    if value is None:
        return UNLIMITED
    return f"{value:.6f}" if isinstance(value, float) else f"{value:,}"


def replay_csv(rows: Sequence[dict[str, Any]]) -> str:
    """The results of replays as CSV with a line of names; a value that an index does not have is empty.

    >>> print(replay_csv([{"trace": "day.jsonl", "capacity": None, "hits": 2}]))
    trace,capacity,hits
    day.jsonl,unlimited,2
    <BLANKLINE>
    """
    return csv_text([{**row, "capacity": row["capacity"] or UNLIMITED} for row in rows])
