"""The content of `designs.json`, and the program that measures it: every index on the same requests."""

import dataclasses
import json

import designs
import pytest
from designs import COMPARED, PAGES, Comparison, Design, compare_designs, designs_on, footprint, names_with
from golden_text import compare

from minikv import asset
from minikv.measure.results import Spread
from minikv.measure.workloads import WORKLOADS

SHIPPED = json.loads(asset("designs.json").read_text("utf-8"))


@pytest.mark.usefixtures("stays_frozen")
def test_each_design_has_a_row_for_each_size_of_pages(monkeypatch):
    for name, value in (("COMPARED", ("W4",)), ("QUICK", {"W4": 8}), ("PAGES", (1, 16))):
        monkeypatch.setattr(designs, name, value)
    found = compare_designs(rounds=1)
    expected = [(size, name) for size in (1, 16) for name in names_with(size)]
    assert [(row.page_size, row.index) for row in found.rows] == expected
    trie = next(row for row in found.rows if row.index == "trie")
    assert trie.entries == 900 + (1 + 2 + 8) * 64 + 8 * 32  # a trunk, its branches, and the answers
    for row in found.rows:
        assert row.requests_per_second.low <= row.requests_per_second.median <= row.requests_per_second.high
    assert len(found.report().splitlines()) == 1 + 3 + len(found.rows)


def test_the_memory_of_a_workload_is_not_counted_as_the_index_s_own():
    """All tokens and pages of an edge are copies, four bytes each; and the workload's own tokens are in no index."""
    workload = WORKLOADS["W3"](4)
    entries, per_token = footprint("radix", 1, workload)
    assert entries == 4
    assert 8 < per_token < 10


def test_the_report_has_every_figure():
    row = Design("radix", "W1", 16, 12, 0.25, 5678, 9.5, Spread(1234.5, 1000.0, 2000.0))
    found = Comparison("here", "today", 3, False, [row])
    compare("reports.txt", "designs", found.report().splitlines())


def test_the_shipped_figures_are_those_that_the_program_writes_today():
    assert list(SHIPPED) == [field.name for field in dataclasses.fields(Comparison)]
    rows = [Design(**row) for row in SHIPPED["rows"]]
    found = [(row.workload, row.page_size, row.index) for row in rows]
    assert found == [(name, size, index) for name in COMPARED for size in PAGES for index in names_with(size)]


@pytest.mark.usefixtures("stays_frozen")
def test_the_shipped_hits_and_bytes_are_those_of_today():
    """Pythons differ by a few bytes an object; an index that stores twice as much must not keep its old figure."""
    rows = [row for row in SHIPPED["rows"] if (row["workload"], row["page_size"]) == ("W4", 16)]
    today = designs_on(WORKLOADS["W4"](designs.QUICK["W4"]), 16, [row["index"] for row in rows], rounds=1)
    for then, now in zip(rows, today, strict=True):
        assert (now.index, now.room, now.hit_rate) == (then["index"], then["room"], then["hit_rate"])
        assert now.entries == then["entries"]
        assert now.bytes_per_token == pytest.approx(then["bytes_per_token"], rel=0.3)
