"""What a cause costs, and the hit rate without it, against the log really rewritten with that one cause fixed."""

from __future__ import annotations

import functools
import json

import pytest
from planted_log import CAUSES, hit_rate, planted_log

from minikv.traffic.why.log import survey

pytestmark = pytest.mark.core


@functools.lru_cache(3)
def surveyed(requests, seed):
    return survey(json.dumps(entry).encode() for entry in planted_log(requests, seed))


@functools.cache
def found_in(requests, seed, *without):
    return hit_rate(planted_log(requests, seed, without))


def place_of(report, cause):
    """The place where a cause is found: the request ids and those of the runs are of one kind."""
    found = [place for place in report.places if place.kind == CAUSES[cause]]
    if cause in ("run", "request"):
        found = [place for place in found if place.place.startswith("prompt") == (cause == "run")]
    return found[0]


def compared(requests, seed, cause, share):
    """Compare what is lost, and the hit rate after the fix, with those of the log without the cause."""
    hits, size = found_in(requests, seed)
    hits_then, size_then = found_in(requests, seed, cause)
    report = surveyed(requests, seed)
    found = place_of(report, cause)
    lost = (size - hits) - (size_then - hits_then)
    assert found.lost == pytest.approx(lost, rel=0.1, abs=share * size)
    assert found.fixed.after == pytest.approx(hits_then / size_then, abs=0.02)


@pytest.mark.parametrize("cause", CAUSES)
def test_a_planted_cause_is_found_and_costs_what_the_log_without_it_saves(cause):
    compared(800, 0, cause, share=0.002)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cause", CAUSES)
def test_a_planted_cause_costs_within_a_tenth_what_the_log_without_it_saves(cause, seed):
    compared(4000, seed, cause, share=0.0)


def test_all_causes_together_cost_what_the_log_without_them_saves():
    hits, size = found_in(800, 0)
    hits_then, size_then = found_in(800, 0, *CAUSES)
    report = surveyed(800, 0)
    assert report.lost == pytest.approx((size - hits) - (size_then - hits_then), rel=0.03)
    assert report.after == pytest.approx(hits_then / size_then, abs=0.01)
