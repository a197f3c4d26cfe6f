"""Tables: as lines for a terminal, and as CSV for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any


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
