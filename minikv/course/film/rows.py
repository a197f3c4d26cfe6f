"""The rows in a film: those of a page table, or sequences, with the cells that were just written marked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from minikv.course.film.requests import Requests
from minikv.course.film.state import State
from minikv.course.pictures.grid import table_svg, table_text

MOST_COLUMNS = 16
Row = tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    """A page table, or the sequences: for each row its slots, `None` where it is closed; `new` are (row, column).

    >>> Rows("PageTable", ((8, 9), None), ((0, 1),))
    Rows(title='PageTable', rows=((8, 9), None), new=((0, 1),))
    >>> print(Rows("PageTable", ((8, 9), None), ((0, 1),)).text)
    PageTable: 1 of 2 rows open
    row 0   8 9n
    row 1  (closed)
    n new
    """

    title: str
    rows: tuple[Row | None, ...]
    new: tuple[tuple[int, int], ...] = ()

    @property
    def extent(self) -> tuple[int]:
        """How many cells of a row are shown: the longest row's, but not more than `MOST_COLUMNS`."""
        return (max([1, *(min(len(row), MOST_COLUMNS) for row in self.rows if row is not None)]),)

    @property
    def heading(self) -> str:
        """The line above the rows."""
        longest = max([0, *(len(row) for row in self.rows if row is not None)])
        more = f", the first {MOST_COLUMNS} tokens" if longest > MOST_COLUMNS else ""
        return f"{self.title}: {sum(row is not None for row in self.rows)} of {len(self.rows)} rows open{more}"

    @property
    def text(self) -> str:
        """The rows as text."""
        return f"{self.heading}\n{table_text(self._shown(), *self.extent, dict.fromkeys(self.new, 'new'))}"

    def svg(self, columns: int = 0) -> str:
        """The rows as a picture, at least `columns` cells wide."""
        marks = dict.fromkeys(self.new, "new")
        return table_svg(self._shown(), max(columns, *self.extent), marks, self.heading)

    def _shown(self) -> list[list[int] | None]:
        return [None if row is None else list(row[:MOST_COLUMNS]) for row in self.rows]


def rows_of(before: State, after: State) -> Iterator[Rows | Requests]:
    """The page tables, the sequences as one table, the requests; the cells that differ from before are new."""
    old = dict(before.tables)
    for title, rows in after.tables:
        yield Rows(title, rows, tuple(_new(old.get(title, rows), rows)))
    if after.sequences:
        yield Rows("sequences", after.sequences, tuple(_new(before.sequences, after.sequences)))
    if after.requests is not None:
        yield Requests(after.requests, before.requests or ())


def _new(before: tuple[Row | None, ...], after: tuple[Row | None, ...]) -> Iterator[tuple[int, int]]:
    for y, (was, row) in enumerate(zip(before, after)):
        was = was or ()
        yield from ((y, x) for x, slot in enumerate((row or ())[:MOST_COLUMNS]) if was[x : x + 1] != (slot,))
