"""The page table: for each running request a row, and in it the slots of its tokens in order.

Attention reads keys and values through it: token `i` of the request in row `r` lies in slot `table[r, i]`.

           token  0   1   2   3   4
    row 0        [8] [9] [2] [ ] [ ]       length 3: the rest of the row means nothing yet
    row 1        [8] [9] [5] [6] [ ]       length 4: shares slots 8 and 9 with row 0
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minikv.errors import bounded, require, whole_number
from minikv.pools.contract import POOL_LIMIT, Pages
from minikv.pools.free_list import FreeListPool
from minikv.tokens import integers

_UNUSED = -1  # in a cell past a row's length: never a slot, so that reading it by mistake cannot look right


class PageTable:
    """Rows of slots, `num_rows` requests of at most `max_length` tokens each.

    `open` gives a row, `append` fills it, `slots` reads it, `close` takes it back and returns its slots. A
    cell takes 4 bytes; `ValueError` for a table of more than 2**28 cells, or more than fit in memory.

    >>> table = PageTable(num_rows=2, max_length=4)
    >>> row = table.open(); table.append(row, [8, 9]); table.append(row, [2])
    >>> table.length(row), table.slots(row).tolist()
    (3, [8, 9, 2])
    >>> table.append(row, [3, 4])
    Traceback (most recent call last):
    ValueError: cannot append 2 slots to row 0 of length 3: a row holds at most 4
    >>> table.close(row).tolist()
    [8, 9, 2]
    """

    def __init__(self, num_rows: int, max_length: int):
        self.num_rows = whole_number("num_rows", num_rows, 1, "a page table has at least 1 row")
        self.max_length = whole_number("max_length", max_length, 1, "a row holds at least 1 slot")
        cells = self.num_rows * self.max_length
        what = f"num_rows x max_length is {bounded(cells)}"
        if cells > POOL_LIMIT:
            raise ValueError(f"{what}: a page table has at most 2**28 cells")
        self._rows = FreeListPool(self.num_rows)
        try:
            self._table = np.full((self.num_rows, self.max_length), _UNUSED, np.int32)
        except MemoryError as error:
            raise ValueError(f"{what}: this machine has no room for a table of {4 * cells} bytes") from error
        self._lengths = [0] * self.num_rows

    @property
    def num_free(self) -> int:
        """Rows that `open` could give now."""
        return self._rows.num_free

    def open(self) -> int:
        """Take an empty row; `OutOfPages` when all are taken."""
        return int(self._rows.alloc(1)[0])

    def close(self, row: int) -> Pages:
        """Give `row` back and return the slots that were in it."""
        slots = self.slots(row)
        self._table[row, : len(slots)] = _UNUSED
        self._lengths[row] = 0
        self._rows.free([row])
        return slots

    def append(self, row: int, slots: Any) -> None:
        """Write `slots` after the last one of `row`: all of them or, if they do not fit, none."""
        length, values = self.length(row), integers(slots, "slots", "a slot is an integer in [0, 2**31)", 2**31)
        end = length + len(values)
        if end > self.max_length:
            what = f"cannot append {len(values)} slots to row {row} of length {length}"
            raise ValueError(f"{what}: a row holds at most {self.max_length}")
        self._table[row, length:end] = values
        self._lengths[row] = end

    def slots(self, row: int) -> Pages:
        """A copy of the slots in `row`, int32, one per token."""
        return self._table[row, : self.length(row)].copy()

    def length(self, row: int) -> int:
        """The number of tokens in `row`; `ValueError` if the row is not open."""
        if not self.is_open(row):
            raise ValueError(f"row {row} is not open")
        return self._lengths[row]

    def is_open(self, row: int) -> bool:
        """Return whether `row` is taken."""
        rule = f"this table has rows 0 to {self.num_rows - 1}"
        return not self._rows.is_free(whole_number("row", row, 0, rule, self.num_rows))

    def check(self) -> None:
        """Cells before a row's length are slots, cells after it are unused, and closed rows are empty."""
        self._rows.check()
        for row, length in enumerate(self._lengths):
            has = f"PageTable: row {row} has length {length}"
            require(0 <= length <= self.max_length, f"{has}: a row holds 0 to {self.max_length}")
            require(self.is_open(row) or not length, f"PageTable: row {row} is closed, but its length is {length}")
            cells = self._table[row]
            wrong = np.append(cells[:length] < 0, cells[length:] != _UNUSED)
            at = wrong.argmax()
            require(not wrong[at], f"{has}, but its cell {at} is {cells[at]}")

    def __repr__(self) -> str:
        return f"PageTable({self.num_rows - self.num_free} of {self.num_rows} rows open, max_length={self.max_length})"


def page_slots(pages: Any, page_size: int) -> Pages:
    """The slots of whole pages, in order: page p has slots p*page_size to (p+1)*page_size - 1.

    Raises `ValueError` for a page whose slots are not all below 2**31, and for more than 2**28 slots.

    Twin: `minikv.engine.ch01_02_pool.slots_of`.

    >>> page_slots([2, 0], page_size=3).tolist()
    [6, 7, 8, 0, 1, 2]
    """
    size = whole_number("page_size", page_size, 1, "a page holds 1 to 2**28 slots", POOL_LIMIT + 1)
    ids = integers(pages, "pages", f"a page of {size} slots is an integer in [0, {2**31 // size})", 2**31 // size)
    if len(ids) * size > POOL_LIMIT:
        raise ValueError(f"{len(ids)} pages of {size} are {len(ids) * size} slots: expected at most 2**28 at a time")
    within = np.arange(size if len(ids) else 0, dtype=np.int32)
    slots: Pages = np.add.outer(ids.astype(np.int32) * np.int32(size), within).ravel()
    return slots
