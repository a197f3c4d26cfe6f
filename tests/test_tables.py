"""Tables for people and for spreadsheets."""

import csv
import io

import pytest

from minikv.traffic.tables import aligned, csv_text


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@sum", "\tday"])
def test_no_text_is_a_formula_in_a_spreadsheet(name):
    (row,) = csv.DictReader(io.StringIO(csv_text([{"trace": name, "hits": -2}])))
    assert row == {"trace": f"'{name}", "hits": "-2"}


def test_numbers_end_and_words_begin_below_each_other():
    rows = [["size", "note"], ["1", "knee"], ["10,000", ""]]
    assert list(aligned(rows, left=[1])) == ["  size  note", "     1  knee", "10,000"]
