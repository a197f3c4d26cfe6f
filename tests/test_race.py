"""A race: who runs when, what the limit does, and how laps become figures."""

import gc
import itertools
import sys
from array import array
from types import SimpleNamespace

import pytest
from refusals import said
from test_lives import published_or_not

from minikv import RadixCache
from minikv.measure import race
from minikv.measure.bench import CONTENDERS
from minikv.measure.lap import IN_FLIGHT, Contender, Lap, Limit, run_lap
from minikv.measure.lives import IndexLife, verbs_life
from minikv.measure.results import Spread
from minikv.measure.workloads import WORKLOADS, Workload
from minikv.tokens import pack

STRANGERS, OURS = WORKLOADS["W3"](4), CONTENDERS[0]


@pytest.mark.parametrize(("arguments", "words"), [
    ((STRANGERS, [OURS, OURS]), "ValueError: contenders are minikv, minikv: expected some, each with a name"),
    ((STRANGERS, []), "ValueError: contenders are none"),
    ((STRANGERS, "abc"), "TypeError: contenders are 'abc': expected a sequence of Contender"),
    ((Workload("W3", "none", []), [OURS]), "ValueError: workload W3 has no requests to race with"),
])  # fmt: skip
def test_what_cannot_race_is_named(arguments, words):
    assert said(race, *arguments).startswith(words)


@published_or_not
@pytest.mark.parametrize(("name", "capacity"), [("W1", 30_000), ("W4", 20_000), ("W5", 100_000)])
def test_the_limit_does_all_that_the_radix_tree_did(name, capacity, publish):
    """It finds each hit token in an edge that an earlier request has kept, and keeps all tokens that are new."""
    workload = WORKLOADS[name](48)
    limit = Limit(workload, capacity, publish)
    lap = limit.run()
    assert lap.hits == limit.hits == run_lap(CONTENDERS[0], workload, capacity, publish).hits
    assert sum(limit.hits) > 0
    assert len(limit.tokens) == 4 * len(limit.slots) == 4 * (sum(workload.lengths) - sum(limit.hits))
    for (prompt, edges, new, kept, slots), exchange, hit in zip(limit.requests, workload.exchanges, limit.hits):
        assert b"".join(tokens for tokens, _ in edges) == prompt[: 4 * hit]
        assert [4 * len(part) for _, part in edges] == [len(tokens) for tokens, _ in edges]
        assert kept == new == exchange.full.data[4 * hit :]
        assert 4 * len(slots) == len(new)


def test_the_limit_writes_the_whole_row_and_keeps_the_slots_that_are_new():
    limit = Limit(WORKLOADS["W1"](33), 100_000)
    assert limit.hits[32] > 1000  # the second turn of the first conversation
    limit.stack[:] = memoryview(array("i", range(len(limit.stack))))
    limit.run()
    _, edges, _, _, slots = limit.requests[32]
    old = [slot for _, part in edges for slot in part]
    assert slots.tolist() == list(range(len(slots)))
    assert limit.row[: len(old) + len(slots)].tolist() == old + slots.tolist()
    assert set(old[:1000]) == set(range(1000))  # the system prompt's, as the first request has kept them


def test_a_limit_without_requests_takes_no_time():
    assert Limit(Workload("W3", "none", []), 64).run() == Lap()


def test_figures_are_ratios_of_the_laps(monkeypatch):
    """With laps of known length: each round's figure, against what the limit usually took for each request."""
    laps = {"a": iter([Lap([6000, 2000]), Lap([8000, 4000])]), "b": iter([Lap([60000, 20000])] * 2)}
    floors, order = iter([Lap([90000, 1000]), Lap([1000, 1000]), Lap([1000, 90000]), *[Lap([1000, 1000])] * 2]), []

    def run_known(contender, *_):
        order.append(contender.name)
        return next(laps[contender.name])

    module = sys.modules["minikv.measure.race"]  # the name in the package is the function
    monkeypatch.setattr(module, "run_lap", run_known)
    monkeypatch.setattr(module, "Limit", lambda *_: SimpleNamespace(run=lambda: next(floors)))
    found = race(WORKLOADS["W3"](2), [Contender(name, RadixCache) for name in "ab"], rounds=2)
    assert order == ["a", "b", "b", "a"]  # another one goes first in each round
    assert found.of("a").p50 == found.of("a").mean == [4.0, 6.0]
    assert (found.publish, found.room, found.limit_p50, found.limit_mean) == (False, 406, 1.0, 1.0)
    assert found.to_limit("a") == found.to_limit_mean("a") == Spread(5.0, 4.0, 6.0)
    assert found.between("b", "a") == Spread(8.333, 6.667, 10.0)
    with pytest.raises(KeyError):
        found.of("c")


class Recorded:
    """A life that notes what it is asked to do."""

    def __init__(self, events, capacity, publish):
        self.events = events

    def prepare(self, exchange, tokens):
        pass

    def begin(self, prepared):
        self.events.append("begin")
        return None, 5

    def finish(self, running):
        self.events.append("finish")


@pytest.mark.parametrize("count", [3, IN_FLIGHT, IN_FLIGHT + 2])
def test_a_request_is_finished_when_the_batch_is_full_and_the_rest_at_the_end(count, monkeypatch):
    """Each takes a tick of the clock, and another one for an end at the end of the lap."""
    events = []
    monkeypatch.setattr("minikv.measure.lap.time.perf_counter_ns", itertools.count().__next__)
    lap = run_lap(Contender("recorded", lambda: events, Recorded), WORKLOADS["W3"](count), 10)
    full = min(count, IN_FLIGHT)
    assert events == ["begin"] * full + ["finish", "begin"] * (count - full) + ["finish"] * full
    assert lap.hits == [5] * count
    assert lap.times == [2] * full + [1] * (count - full)


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
        assert events == [(True, True)] * 3 + ["finish"] * 3
        assert gc.isenabled() is on
        assert gc.get_freeze_count() == 0
    finally:
        (gc.enable if before else gc.disable)()


class EvictsTwice(RadixCache):
    """Gives half of the pages that it evicts, each of them twice."""

    def evict(self, num_tokens):
        pages = super().evict(num_tokens).tolist()[: num_tokens // 2]
        return array("i", pages + pages)


def test_what_somebody_elses_index_evicts_is_looked_at():
    """Else it would race with pages that two requests write into."""
    life = verbs_life(EvictsTwice(), 100, publish=False)
    life.finish(life.begin(([1] * 40, 39, [1] * 50, 50))[0])
    with pytest.raises(ValueError, match="is given twice"):
        life.begin(([2] * 60, 59, [2] * 70, 70))


class SeesInserts(RadixCache):
    """An index with an `insert` of its own, which `insert_after` would pass by."""

    def insert(self, tokens, pages, **options):
        self.inserts = getattr(self, "inserts", 0) + 1
        return super().insert(tokens, pages, **options)


@published_or_not
@pytest.mark.parametrize("page_size", [1, 16])
def test_a_bare_index_is_given_what_follows_the_lock_only_if_it_says_so(page_size, publish):
    """Both ways it holds the same, in the same order of eviction; a subclass's own `insert` is called."""
    found = []
    for make in RadixCache, SeesInserts:
        cache = make(page_size)
        bare = Contender("bare", lambda cache=cache: cache, IndexLife, pack)
        lap = run_lap(bare, WORKLOADS["W4"](40), 12_000, publish)
        cache.check()
        found.append((lap.hits, cache.total_size, cache.evict(cache.total_size).tolist()))
    assert found[0] == found[1]
    assert cache.inserts == 40 * (1 + publish)
