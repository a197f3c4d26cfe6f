"""A race: who runs when, what the limit does, and how laps become figures."""

from __future__ import annotations

import gc
import sys
from array import array

import pytest

from minikv import RadixCache
from minikv.measure import race
from minikv.measure.bench import CONTENDERS
from minikv.measure.lap import IN_FLIGHT, Contender, Lap, Limit, StoringLimit, run
from minikv.measure.results import Spread
from minikv.measure.workloads import WORKLOADS, Workload


def test_contenders_have_names_of_their_own():
    with pytest.raises(ValueError, match="contenders are minikv, minikv: expected some, each with a name of its own"):
        race(WORKLOADS["W3"](4), [CONTENDERS[0], CONTENDERS[0]], rounds=1)
    with pytest.raises(ValueError, match="contenders are none"):
        race(WORKLOADS["W3"](4), [])
    with pytest.raises(ValueError, match="workload W3 has no requests"):
        race(Workload("W3", "none", []), [CONTENDERS[0]])
    with pytest.raises(ValueError, match="rounds is 0"):
        race(WORKLOADS["W3"](4), [CONTENDERS[0]], rounds=0)


def test_the_limit_compares_the_hit_tokens_and_copies_their_slots():
    workload = WORKLOADS["W3"](3)
    limit = Limit(workload, [0, 7, 1000])
    for (prompt, cached, slots), hits in zip(limit.requests, [0, 7, 1000]):
        assert prompt[: 4 * hits] == cached
        assert len(cached) == 4 * hits
        assert len(slots) == hits
    for number, (_, _, slots) in enumerate(limit.requests):
        slots[:] = memoryview(array("i", [number] * len(slots)))
    assert len(limit.run().times) == 3
    assert set(limit.row) == {2}


def test_the_limit_that_stores_copies_the_whole_row_and_what_is_new(monkeypatch):
    stored, module = [], sys.modules["minikv.measure.lap"]
    monkeypatch.setattr(module, "deque", lambda maxlen: stored)
    workload = WORKLOADS["W3"](2)
    limit = StoringLimit(workload, [0, 7])
    limit.stack[:] = memoryview(array("i", [8] * 1050))
    limit.requests[1][2][:] = memoryview(array("i", [9] * 7))
    assert len(limit.run().times) == 2
    assert limit.row.tolist() == [9] * 7 + [8] * 1043
    wholes = [exchange.full.data for exchange in workload.exchanges]
    assert [tokens for tokens, _ in stored] == [wholes[0], wholes[1][28:]]
    assert not any(tokens is whole for (tokens, _), whole in zip(stored, wholes))
    assert [set(array("i", slots)) for _, slots in stored] == [{8}, {8}]
    assert [len(slots) for _, slots in stored] == [4 * 1050, 4 * 1043]


def test_figures_are_ratios_of_the_laps(monkeypatch):
    """With laps of known length: each round's figure, against what the limit usually took for each request."""
    laps = {"a": iter([Lap(), Lap([6000, 2000], [1, 2]), Lap([8000, 4000], [1, 2])]),
            "b": iter([Lap([60000, 20000], [3, 0])] * 2)}  # fmt: skip
    floors = [Lap([90000, 1000]), Lap([1000, 1000]), *[Lap([1000, 90000])] + [Lap([1000, 1000])] * 2]
    floors = iter(
        [lap for floor in floors for lap in (floor, Lap([3000, 5000]))]
    )  # the limit, then the one that stores
    order, module = [], sys.modules["minikv.measure.race"]  # the name in the package is the function

    def run_known(contender, *_):
        order.append(contender.name)
        return next(laps[contender.name])

    monkeypatch.setattr(module, "run", run_known)
    for kind in (module.Limit, module.StoringLimit):
        monkeypatch.setattr(kind, "__init__", lambda self, workload, hits: None)
        monkeypatch.setattr(kind, "run", lambda self: next(floors))
    found = race(WORKLOADS["W3"](2), [Contender("a", RadixCache), Contender("b", RadixCache)], rounds=2)
    assert order == ["a", "a", "b", "b", "a"]  # once to warm up; then another one goes first in each round
    assert found.of("a").p50 == found.of("a").mean == [4.0, 6.0]
    assert (found.limit_p50, found.limit_mean) == (1.0, 1.0)
    assert found.to_limit("a") == found.to_limit_mean("a") == Spread(5.0, 4.0, 6.0)
    assert found.to_storing("a") == Spread(1.25, 1.0, 1.5)
    assert found.between("b", "a") == Spread(8.333, 6.667, 10.0)
    with pytest.raises(KeyError):
        found.of("c")


class Recorded:
    """A life that notes what it is asked to do."""

    def __init__(self, events, capacity, publish):
        self.events = events

    def prepare(self, exchange, tokens):
        return len(self.events)

    def begin(self, prepared):
        self.events.append("begin")
        return len(self.events), 5

    def finish(self, running):
        self.events.append("finish")


@pytest.mark.parametrize("count", [3, IN_FLIGHT, IN_FLIGHT + 2])
def test_a_request_is_finished_when_the_batch_is_full_and_the_rest_at_the_end(count):
    events = []
    lap = run(Contender("recorded", lambda: events, Recorded), WORKLOADS["W3"](count), 10)
    full = min(count, IN_FLIGHT)
    assert events == ["begin"] * full + ["finish", "begin"] * (count - full) + ["finish"] * full
    assert lap.hits == [5] * count
    assert len(lap.times) == count


class Collected(Recorded):
    """A life that notes whether the collector is on, and whether it is spared what was there before."""

    def begin(self, prepared):
        self.events.append((gc.isenabled(), gc.get_freeze_count() > 0))
        return None, 5


@pytest.mark.parametrize("on", [True, False])
def test_a_race_runs_with_the_garbage_collector_on_and_leaves_it_as_it_was(on):
    before, events = gc.isenabled(), []
    (gc.enable if on else gc.disable)()
    try:
        race(WORKLOADS["W3"](3), [Contender("collected", lambda: events, Collected)], rounds=1)
        assert events == [(on, False)] * 3 + ["finish"] * 3 + [(True, True)] * 3 + ["finish"] * 3
        assert gc.isenabled() is on
        assert gc.get_freeze_count() == 0
    finally:
        (gc.enable if before else gc.disable)()
