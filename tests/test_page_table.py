"""The page table: rows open and close, grow and never hold what is not theirs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import InvariantError, OutOfPages, PageTable, page_slots

pytestmark = pytest.mark.core


def test_a_row_grows_and_closes():
    table = PageTable(2, 5)
    row = table.open()
    table.append(row, [4, 5, 6])
    table.append(row, np.array([7]))
    assert table.slots(row).tolist() == [4, 5, 6, 7]
    table.check()
    assert table.close(row).tolist() == [4, 5, 6, 7]
    table.check()


def test_one_slot_for_many_tokens_is_not_broadcast():
    """N3: a torch row takes one slot for seven tokens without a word. A row here takes what it is given, once."""
    table = PageTable(1, 7)
    row = table.open()
    table.append(row, [3])
    assert table.length(row) == 1


def test_unused_cells_are_no_slot():
    """N19: the notebook fills its page table with zeros, and zero is a slot that can be allocated."""
    table = PageTable(2, 3)
    assert (table._table < 0).all()
    table._table[1] = 0
    with pytest.raises(InvariantError, match=r"row 1 has length 0, but its cell 0 is 0$"):
        table.check()


def test_what_does_not_fit_changes_nothing():
    table = PageTable(1, 3)
    row = table.open()
    table.append(row, [1, 2])
    for wrong in (
        lambda: table.append(row, [3, 4]),
        lambda: table.append(row, [-5]),
        lambda: table.append(1, [1]),
    ):
        with pytest.raises(ValueError, match=r"row|slots|row is 1"):
            wrong()
    assert table.slots(row).tolist() == [1, 2]
    table.check()


def test_a_tensor_without_values_is_no_row_of_slots():
    torch = pytest.importorskip("torch")
    table = PageTable(1, 3)
    row = table.open()
    with pytest.raises(ValueError, match="slots are a tensor on meta, which has no values"):
        table.append(row, torch.empty(2, dtype=torch.int64, device="meta"))
    assert table.length(row) == 0


def test_rows_run_out_and_come_back():
    table = PageTable(2, 2)
    rows = [table.open(), table.open()]
    with pytest.raises(OutOfPages):
        table.open()
    table.close(rows[0])
    assert table.open() == rows[0]
    assert table.num_free == 0


def test_a_closed_row_cannot_be_used():
    table = PageTable(1, 2)
    for use in (table.slots, table.close, table.length, lambda row: table.append(row, [1])):
        with pytest.raises(ValueError, match="row 0 is not open"):
            use(0)


def test_check_finds_a_cell_out_of_place():
    table = PageTable(1, 3)
    table._table[0, 2] = 7
    with pytest.raises(InvariantError, match=r"row 0 has length 0, but its cell 2 is 7$"):
        table.check()
    table._lengths[0] = 3
    with pytest.raises(InvariantError, match="row 0 is closed"):
        table.check()


def test_check_names_the_first_wrong_cell_of_a_row_however_long():
    table = PageTable(1, 100_000)
    table.append(table.open(), range(5))
    for cells, length, named in ((5, 6, 5), (5, 4, 4), (2, 5, 2)):
        table._table[0, :cells], table._table[0, cells:] = 3, -1
        table._lengths[0] = length
        with pytest.raises(InvariantError, match=f"row 0 has length {length}, but its cell {named} is (3|-1)$"):
            table.check()


def test_a_table_that_does_not_fit_in_memory_is_refused_in_words(monkeypatch):
    def full(*args):
        raise MemoryError("Unable to allocate")

    monkeypatch.setattr(np, "full", full)
    why = "num_rows x max_length is 4194304: this machine has no room for a table of 16777216 bytes"
    with pytest.raises(ValueError, match=why):
        PageTable(2**10, 2**12)


@pytest.mark.parametrize("length", [-1, 4])
def test_check_finds_a_length_that_no_row_can_have(length):
    table = PageTable(1, 3)
    table.append(table.open(), [0, 1, 2])
    table._lengths[0] = length
    with pytest.raises(InvariantError, match=f"row 0 has length {length}: a row holds 0 to 3$"):
        table.check()


@given(st.lists(st.integers(0, 1000)), st.integers(1, 64))
def test_pages_become_slots(pages, page_size):
    slots = page_slots(pages, page_size)
    assert slots.tolist() == [page * page_size + i for page in pages for i in range(page_size)]


@pytest.mark.parametrize("page_size", [1, 3, 16])
def test_a_page_whose_slots_are_no_int32_is_refused(page_size):
    last = 2**31 // page_size - 1
    assert page_slots([last], page_size)[-1] == (last + 1) * page_size - 1
    with pytest.raises(ValueError, match=rf"pages\[0\] is {last + 1}: a page of {page_size} slots"):
        page_slots([last + 1], page_size)


def test_a_slot_that_is_no_int32_is_refused():
    table = PageTable(1, 2)
    row = table.open()
    table.append(row, [2**31 - 1])
    with pytest.raises(ValueError, match=r"slots\[0\] is 2147483648: a slot is an integer in"):
        table.append(row, [2**31])
    assert table.slots(row).tolist() == [2**31 - 1]


@pytest.mark.parametrize("size", [2**28 + 1, 2**31, 2**70, 10**5000], ids=["one more", "int32", "large", "too long"])
def test_a_page_of_more_slots_than_fit_is_refused(size):
    for call in (lambda: page_slots([0], size), lambda: page_slots([], size)):
        with pytest.raises(ValueError, match=r"page_size is .*: (a page holds 1 to|expected less than) 2") as caught:
            call()
        assert len(str(caught.value)) < 200


def test_more_slots_than_fit_are_refused_before_memory_is_taken():
    with pytest.raises(ValueError, match="5 pages of 67108864 are 335544320 slots"):
        page_slots([0, 1, 2, 3, 4], 2**26)


def test_a_row_is_filled_up_to_its_last_cell():
    table = PageTable(1, 3)
    row = table.open()
    table.append(row, [5, 0, 7])
    table.check()
    assert table.slots(row).tolist() == [5, 0, 7]
    with pytest.raises(ValueError, match=f"row {row}"):
        table.append(row, [1])


def test_a_table_of_more_cells_than_a_pool_has_pages_is_refused():
    with pytest.raises(ValueError, match=r"num_rows x max_length is 17179869184: a page table has at most 2\*\*28"):
        PageTable(2**14, 2**20)
