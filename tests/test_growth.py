"""What `growth.json` holds, and the program that measures it: a long run, costs that could grow, and memory."""

import dataclasses
import gc
import json

import growth
import memory
import pytest
from growth import Growth, Scales, evict_one, long_run, measure
from memory import memory_per_token, pauses

from minikv import asset

SHIPPED = json.loads(asset("growth.json").read_text("utf-8"))


def test_a_tree_that_has_lived_long_has_few_nodes_more_than_one_rebuilt():
    """Without joins it would have half as many again by then: each cut in a hot head would stay."""
    ticks = []
    found = long_run(3000, ticks.append)
    assert found["nodes"] <= 1.1 * found["nodes, rebuilt"]
    assert ticks == [f"long run, request {number:,} of 3,000" for number in (0, 1000, 2000)]


def test_the_textbook_is_not_asked_for_more_leaves_than_it_can_evict_in_time(monkeypatch):
    monkeypatch.setattr(growth, "MOST_TEXTBOOK_LEAVES", 64)
    found = evict_one([64, 128], rounds=1)
    assert [figure is None for figure in found["textbook"]] == [False, True]
    assert len(found["minikv"]) == 2


def test_memory_is_counted_in_bytes_per_token():
    """A key takes four bytes and a page number four; what is on top belongs to nodes."""
    found = memory_per_token([1, 16], 2**16)
    assert found["page size"] == [1, 16]
    assert 8 <= found["long"][0] < found["chat"][0]
    assert 4.25 <= found["long"][1] < found["chat"][1] < found["chat"][0]


def test_a_pause_is_measured_and_nothing_stays_frozen(monkeypatch):
    found = pauses(64, rounds=2)
    assert found["nodes"] == 64
    assert gc.get_freeze_count() == 0
    monkeypatch.setattr(memory, "_collection_ms", lambda rounds: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pauses(64, rounds=1)
    assert gc.get_freeze_count() == 0


def test_the_shipped_figures_have_the_rows_that_are_measured_today():
    """Chapter 05 reads them, so a row that is renamed, or no longer measured, must not stay in the file."""
    scales = Scales(1050, (64,), (5,), pages=(1,), cached=2**14, nodes=1000)
    today = dataclasses.asdict(measure(scales, 1))
    assert list(SHIPPED) == list(today)
    rows = [name for name, found in today.items() if isinstance(found, dict)]
    assert {name: list(SHIPPED[name]) for name in rows} == {name: list(today[name]) for name in rows}
    assert len(set(map(len, SHIPPED["evict"].values()))) == 1


BROKEN = {
    "long_run": {"second thousand": 23.0, "last thousand": 24.0, "match": 8.0, "match, rebuilt": 4},
    "evict": {"minikv": [1.0, 1.0, 2.5, 8.0]},
    "step": {"pages of 1": [10.0, 13.0, 15.0], "pages of 16": [10.0, 13.0, 16.0]},
    "memory": {"long": [8.0, 4.5], "chat": [11.5, 6.9]},
}


def test_the_report_has_every_figure_and_says_which_promises_are_kept():
    """Of the shipped figures with others in their place that break a promise of each kind."""
    found = Growth(**SHIPPED | {name: SHIPPED[name] | figures for name, figures in BROKEN.items()})
    lines = found.report().splitlines()
    assert [line for line in lines if "✗" in line] == [
        "  ✗ long run, a match against a rebuilt tree: 2.00 (<= 1.2)",
        "  ✗ evict one leaf, of a million against of a thousand: 8.00 (<= 2)",
        "  ✗ a step after 100,000 tokens against 1,000, pages of 16: 1.60 (<= 1.5)",
        "  ✗ bytes per cached token, chat, pages of 1: 11.50 (<= 11)",
    ]
    assert "  ✓ long run, its last thousand requests against the second: 1.04 (<= 1.1)" in lines
    assert len(lines) == 42
    assert "promised:" not in dataclasses.replace(found, quick=True).report()
