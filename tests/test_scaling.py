"""What grows: a row for each contender, a figure for each size, and no figure where the textbook would take an hour."""

from __future__ import annotations

import gc

import pytest

from minikv.measure import memory, scaling
from minikv.measure.bench import Figures, Scales, grow
from minikv.measure.memory import memory_per_token, pauses
from minikv.measure.scaling import evict_one


def test_the_textbook_is_not_asked_for_more_leaves_than_it_can_evict_in_time(monkeypatch):
    monkeypatch.setattr(scaling, "_MOST_TEXTBOOK_LEAVES", 64)
    found = evict_one([64, 128], rounds=1)
    assert [figure is None for figure in found["textbook"]] == [False, True]
    assert len(found["minikv"]) == 2


def test_memory_is_counted_in_bytes_a_token():
    """A key takes four bytes and a page number four; what is on top belongs to nodes. The pool has 8 bytes a page."""
    found = memory_per_token([1, 16], 2**16)
    assert found["page size"] == [1, 16]
    assert 8 <= found["long"][0] < found["chat"][0]
    assert 4.25 <= found["long"][1] < found["chat"][1] < found["chat"][0]
    assert found["pool"][0] == pytest.approx(16 * found["pool"][1], rel=0.1)


def test_a_pause_is_measured_and_nothing_stays_frozen(monkeypatch):
    found = pauses(64, rounds=2)
    assert found["nodes"] == 64
    assert gc.get_freeze_count() == 0
    monkeypatch.setattr(memory, "_collection_ms", lambda rounds: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pauses(64, rounds=1)
    assert gc.get_freeze_count() == 0


def test_growth_ticks_as_often_as_it_says():
    scales = Scales(
        1500, leaves=(10, 20), prompts=(5,), contexts=(5, 9), pages=(1, 2), cached=2**13, pools=(256,), nodes=64
    )
    ticks, found = [], Figures("here", "today", 1, True)
    grow(found, scales, ticks.append)
    assert len(ticks) == scales.steps
    assert found.long_run["requests"] == 1500
    assert found.extend["tokens"] == [5, 9]
