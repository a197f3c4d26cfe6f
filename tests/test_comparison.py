"""`minikv bench --designs`: every index on the same requests, in hits, bytes and speed."""

from __future__ import annotations

import dataclasses
import json

import pytest

from minikv import asset, cli
from minikv.measure.comparison import COMPARED, PAGES, Comparison, DesignRow, compare, comparison_report, footprint
from minikv.measure.results import Spread
from minikv.measure.workloads import WORKLOADS
from minikv.prefix.indexes import INDEXES

SHIPPED = json.loads(asset("designs.json").read_text("utf-8"))


@pytest.fixture
def small(monkeypatch):
    """A comparison of a few requests, and what was told while it ran."""
    monkeypatch.setattr("minikv.measure.comparison.COMPARED", ("W4",))
    monkeypatch.setattr("minikv.measure.comparison.QUICK", {"W4": 24})


def test_each_index_has_a_row_for_each_size_of_pages(small):
    found = compare(["trie", "radix", "trie"], rounds=1, quick=True)
    assert [(row.page_size, row.index) for row in found.rows] == [
        (1, "trie"),
        (1, "radix"),
        (16, "trie"),
        (16, "radix"),
    ]
    assert found.rows[0].entries == 900 + (2 + 6 + 24) * 64 + 24 * 32  # a trunk, its branches, and the answers
    for row in found.rows:
        assert row.requests_per_second.low <= row.requests_per_second.median <= row.requests_per_second.high


def test_it_ticks_as_often_as_it_says(small):
    ticks, totals = [], []
    compare(["radix", "hash"], 2, True, ticks.append, totals.append)
    assert totals == [len(ticks)]


def test_an_index_that_is_not_there_is_named_before_anything_is_measured():
    with pytest.raises(ValueError, match="index is 'btree': expected one of radix, trie, hash, window"):
        compare(["radix", "btree"], tick=pytest.fail)


def test_the_memory_of_a_workload_is_not_counted_as_the_index_s_own():
    """All tokens and pages of an edge are copies, four bytes each; and the workload's own tokens are in no index."""
    workload = WORKLOADS["W3"](4)
    entries, per_token = footprint("radix", 1, workload)
    assert entries == 4
    assert 8 < per_token < 10


def test_a_tree_keeps_fewer_bytes_than_an_entry_for_every_page():
    per_token = {name: footprint(name, 16, WORKLOADS["W4"](64))[1] for name in INDEXES}
    assert max(per_token["radix"], per_token["window"]) < per_token["hash"] < per_token["trie"]


def test_the_command_prints_a_table_or_json(small, capsys):
    command = ["bench", "--designs", "--index", "radix", "--quick", "--rounds", "1"]
    assert cli.main(command) == 0
    assert "W4, room for" in capsys.readouterr().out
    assert cli.main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["index"] for row in found["rows"]] == ["radix", "radix"]


def test_the_report_has_every_figure():
    speed = Spread(1234.5, 1000.0, 2000.0)
    row = DesignRow("radix", "W1", 16, 12, 0.25, 5678, 9.5, speed)
    said = comparison_report(Comparison("here", "today", 3, False, [row]))
    for words in ("W1, room for 12%", "  16  radix", "0.250", "5,678", "9.50", "1,234 (1,000 to 2,000)"):
        assert words in said, words


@pytest.mark.parametrize("more", [["--copy"], ["--engine"], ["--copy", "--engine"]])
def test_two_benches_at_once_are_refused(more, capsys):
    assert cli.main(["bench", "--designs", *more]) == 2
    assert "--copy, --engine and --designs are three benches: name one of them" in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--only", "W1"], ["--race", "minikv.measure.textbook:TextbookCache"]])
def test_what_the_comparison_has_no_use_for_is_refused(more, capsys):
    assert cli.main(["bench", "--designs", *more]) == 2
    assert "--trace, --only and --race do not go with --designs" in capsys.readouterr().err


def test_the_shipped_figures_are_those_that_the_command_writes_today():
    assert list(SHIPPED) == [field.name for field in dataclasses.fields(Comparison)]
    assert {tuple(row) for row in SHIPPED["rows"]} == {tuple(field.name for field in dataclasses.fields(DesignRow))}
    found = [(row["workload"], row["page_size"], row["index"]) for row in SHIPPED["rows"]]
    assert found == [(name, size, index) for name in COMPARED for size in PAGES for index in INDEXES]


def test_the_shipped_hits_and_bytes_are_those_of_today(monkeypatch):
    """Pythons differ by a few bytes an object; an index that stores twice as much must not keep its old figure."""
    monkeypatch.setattr("minikv.measure.comparison.COMPARED", ("W4",))
    monkeypatch.setattr("minikv.measure.comparison.PAGES", (16,))
    rows = [row for row in SHIPPED["rows"] if (row["workload"], row["page_size"]) == ("W4", 16)]
    for then, now in zip(rows, compare(rounds=1).rows):
        assert (now.index, now.room, now.hit_rate) == (then["index"], then["room"], then["hit_rate"])
        assert now.entries == then["entries"]
        assert now.bytes_per_token == pytest.approx(then["bytes_per_token"], rel=0.3)
