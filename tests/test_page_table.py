"""The page table: rows open and close, grow and never hold what is not theirs."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import said

from minikv import PageTable, page_slots

ROWS, LENGTH = 3, 5
ROW = st.integers(0, ROWS - 1)
VERB, SLOTS = st.sampled_from(["open", "append", "close"]), st.lists(st.integers(0, 2**31 - 1), max_size=4)


@given(st.lists(st.tuples(VERB, ROW, SLOTS)))
def test_a_row_is_a_list_of_what_was_appended(acts):
    """N3: a torch row takes one slot for seven tokens without a word. A row here takes what it is given, once."""
    table, rows, free = PageTable(ROWS, LENGTH), {}, [*range(ROWS)]
    for verb, row, slots in acts:
        assert repr(table) == f"PageTable({len(rows)} of {ROWS} rows open, max_length={LENGTH})"
        if verb == "open":
            assert said(table.open) == ("" if free else "OutOfPages: 1 page needed, but only 0 free")
            if free:
                rows[free.pop(0)] = []
        elif row not in rows:
            for act in table.slots, table.close, table.length:
                assert said(act, row) == f"ValueError: row {row} is not open"
            assert said(table.append, row, slots) == f"ValueError: row {row} is not open"
        elif verb == "close":
            assert table.close(row).tolist() == rows.pop(row)
            free.insert(0, row)
        else:
            length = len(rows[row])
            what = (
                f"ValueError: cannot append {len(slots)} slots to row {row} of length {length}: a row holds at most 5"
            )
            fits = length + len(slots) <= LENGTH
            assert said(table.append, row, np.array(slots, np.int64)) == ("" if fits else what)
            rows[row] += slots if fits else []
        table.check()
        assert table.num_free == len(free)
        assert {row: table.slots(row).tolist() for row in rows} == rows
        assert all(table.length(row) == len(slots) for row, slots in rows.items())


@pytest.mark.parametrize(
    ("row", "slots", "words"),
    [
        (0, [-5], "slots[0] is -5"),
        (0, [2**31], "slots[0] is 2147483648: a slot is an integer in"),
        (1, [1], "row is 1: this table has rows 0 to 0"),
    ],
)
def test_what_is_no_slot_and_no_row_changes_nothing(row, slots, words):
    table = PageTable(1, 3)
    table.append(table.open(), [0])
    assert said(table.append, row, slots).startswith(f"ValueError: {words}")
    assert table.slots(0).tolist() == [0]
    table.check()


def test_unused_cells_are_no_slot():
    """N19: the notebook fills its page table with zeros, and zero is a slot that can be allocated."""
    table = PageTable(2, 3)
    assert (table._table < 0).all()
    table._table[1] = 0
    assert said(table.check) == "InvariantError: PageTable: row 1 has length 0, but its cell 0 is 0"


# How many cells of an open row of 100,000 have a slot, its length, and what the audit says.
SPOILED = [
    (5, 6, "row 0 has length 6, but its cell 5 is -1"),
    (5, 4, "row 0 has length 4, but its cell 4 is 3"),
    (2, 5, "row 0 has length 5, but its cell 2 is -1"),
    (5, -1, "row 0 has length -1: a row holds 0 to 100000"),
    (5, 100_001, "row 0 has length 100001: a row holds 0 to 100000"),
]


@pytest.mark.parametrize(("cells", "length", "words"), SPOILED)
def test_check_names_the_first_wrong_cell_of_a_row_and_a_length_that_none_can_have(cells, length, words):
    table = PageTable(1, 100_000)
    table.open()
    table._table[0, :cells], table._lengths[0] = 3, length
    assert said(table.check) == f"InvariantError: PageTable: {words}"


def test_a_closed_row_is_empty():
    table = PageTable(1, 3)
    table._table[0], table._lengths[0] = 7, 3
    assert "InvariantError: PageTable: row 0 is closed, but its length is 3" in said(table.check)


def test_a_table_that_is_too_large_is_refused_in_words(monkeypatch):
    words = "ValueError: num_rows x max_length is 17179869184: a page table has at most 2**28 cells"
    assert said(PageTable, 2**14, 2**20) == words
    monkeypatch.setattr(np, "full", exhausted)
    words = "num_rows x max_length is 4194304: this machine has no room for a table of 16777216 bytes"
    assert said(PageTable, 2**10, 2**12) == f"ValueError: {words}"


def exhausted(*_):
    raise MemoryError("Unable to allocate")


@given(st.lists(st.integers(0, 1000)), st.integers(1, 64))
def test_pages_become_slots(pages, page_size):
    slots = page_slots(pages, page_size)
    assert slots.tolist() == [page * page_size + i for page in pages for i in range(page_size)]


@pytest.mark.parametrize("page_size", [1, 3, 16])
def test_a_page_whose_slots_are_no_int32_is_refused(page_size):
    last = 2**31 // page_size - 1
    assert page_slots([last], page_size)[-1] == (last + 1) * page_size - 1
    words = f"ValueError: pages[0] is {last + 1}: a page of {page_size} slots is an integer in"
    assert said(page_slots, [last + 1], page_size).startswith(words)


def test_more_slots_than_fit_are_refused_before_memory_is_taken():
    words = "ValueError: 5 pages of 67108864 are 335544320 slots: expected at most 2**28 at a time"
    assert said(page_slots, range(5), 2**26) == words
    for size in 2**28 + 1, 2**70, 10**5000:
        for pages in [0], []:
            says = said(page_slots, pages, size)
            assert re.match(r"ValueError: page_size is .*: (a page holds 1 to|expected less than) 2", says)
            assert len(says) < 200
