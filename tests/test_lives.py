"""The lives of a request in a race: all contenders hit the same tokens, and nothing leaks."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikv import RadixCache
from minikv.measure.bench import CONTENDERS
from minikv.measure.lap import Contender, run_lap
from minikv.measure.lives import FiveVerbs, IndexLife, ManagerLife
from minikv.measure.textbook import TextbookCache
from minikv.measure.workloads import WORKLOADS, Exchange
from minikv.testing.canary import Canary
from minikv.testing.ledger import Ledger
from minikv.tokens import pack

pytestmark = pytest.mark.core

PROMPT = st.lists(st.integers(0, 1), min_size=1, max_size=8)
ROOM = 256


def exchange(prompt, answer):
    return Exchange(pack(prompt), pack(answer), pack(prompt) + answer)


def hits_of(workload, capacity, publish):
    return {contender.name: run_lap(contender, workload, capacity, publish).hits for contender in CONTENDERS}


@pytest.mark.parametrize("publish", [False, True])
@pytest.mark.parametrize("name", ["W1", "W4", "W5"])
def test_all_contenders_hit_the_same_tokens(name, publish):
    """With room for all, the textbook tree and ours are the same cache; pages of 16 hit less, by less than a page."""
    hits = hits_of(WORKLOADS[name](40), 100_000, publish)
    assert sum(hits["minikv"]) > 0
    for name, mine in hits.items():
        for own, ours in zip(mine, hits["minikv"]):
            assert ours - 16 < own <= ours if "pages of 16" in name else own == ours


@pytest.mark.parametrize("publish", [False, True])
def test_the_bare_index_evicts_what_the_manager_evicts(publish):
    """The textbook tree, which never joins nodes, evicts in smaller pieces, so its hits are only nearly the same."""
    hits = hits_of(WORKLOADS["W1"](64), 30_000, publish)
    assert hits["minikv"] == hits["bare index"] == hits["minikv, from lists"]
    assert hits["minikv, pages of 16"] == hits["bare index, pages of 16"]
    assert sum(hits["textbook"]) == pytest.approx(sum(hits["minikv"]), rel=0.02)


def test_one_token_is_left_to_compute():
    """The prompt is cached whole; still its last token, and with pages of 2 its last page, is computed again."""
    for life, hits in (
        (ManagerLife(RadixCache(), 64, publish=True), 3),
        (IndexLife(RadixCache(), 64, publish=True), 3),
        (IndexLife(RadixCache(2), 64, publish=True), 2),
        (IndexLife(FiveVerbs(TextbookCache()), 64, publish=True), 3),
    ):
        tokens = list if isinstance(getattr(life, "cache", None), FiveVerbs) else pack
        prepared = life.prepare(exchange([1, 2, 3, 4], [5]), tokens)
        first, second = life.begin(prepared), life.begin(prepared)
        assert (first[1], second[1]) == (0, hits)
        life.finish(first[0])
        life.finish(second[0])


@settings(max_examples=40)
@given(st.lists(st.tuples(PROMPT, PROMPT), min_size=1, max_size=8), st.sampled_from([1, 2]), st.booleans())
def test_the_manager_and_the_bare_index_leak_nothing(pairs, page_size, publish):
    """Under the ledger and the canary, with all requests in flight at once: in the end every slot is free or cached."""
    for make in (ManagerLife, IndexLife):
        cache = RadixCache(page_size)
        life = make(cache, ROOM, publish)
        pool = life.manager.pool if make is ManagerLife else life.pool
        with Ledger(pool, cache, page_size) as ledger, Canary(cache):
            running = [life.begin(life.prepare(exchange(*pair), pack))[0] for pair in pairs]
            for began in running:
                life.finish(began)
            assert ledger.callers == []
        assert cache.protected_size == 0
        assert cache.total_size + pool.num_free * page_size == ROOM
        cache.check()


@settings(max_examples=40)
@given(st.lists(st.tuples(PROMPT, PROMPT), min_size=1, max_size=8), st.booleans())
def test_any_index_with_the_five_verbs_leaks_nothing(pairs, publish):
    for cache in (TextbookCache(), RadixCache()):
        life = IndexLife(FiveVerbs(cache), ROOM, publish)
        running = [life.begin(life.prepare(exchange(*pair), list))[0] for pair in pairs]
        for began in running:
            life.finish(began)
        assert cache.protected_size == 0
        assert cache.evictable_size + life.pool.num_free == ROOM


class Nothing:
    """Caches nothing, and so has nothing to evict."""

    def match_prefix(self, tokens):
        return dataclasses.make_dataclass("Found", ["length", "slots", "handle"])(0, [], None)

    def lock(self, handle):
        """Nothing to hold."""

    unlock = lock

    def insert(self, tokens, slots):
        return dataclasses.make_dataclass("Done", ["prefix_length", "length", "handle"])(0, 0, None)

    def evict(self, num_tokens):
        return []


@pytest.mark.parametrize("publish", [False, True])
def test_an_index_that_keeps_nothing_gets_its_slots_back(publish):
    lap = run_lap(Contender("nothing", Nothing), WORKLOADS["W3"](30), 8 * 1066, publish)
    assert lap.hits == [0] * 30


def row_of(state):
    running, _ = state
    return running[1].tolist() if isinstance(running, tuple) else running.pages.tolist()


@pytest.mark.parametrize("publish", [False, True])
@pytest.mark.parametrize("make", [ManagerLife, IndexLife])
def test_of_two_equal_requests_in_flight_one_is_cached_and_the_other_freed(make, publish):
    cache = RadixCache()
    life = make(cache, 64, publish)
    pool = life.manager.pool if make is ManagerLife else life.pool
    with Ledger(pool, cache) as ledger, Canary(cache) as canary:
        prepared = life.prepare(exchange([1, 2, 3], [4]), pack)
        states = [life.begin(prepared) for _ in range(2)]
        assert [state[1] for state in states] == [0, 2 if publish else 0]
        if publish:  # the second reads its prompt where the first one has put it
            assert row_of(states[1])[:3] == row_of(states[0])[:3]
        for state in states:
            life.finish(state[0])
        assert ledger.callers == []
        canary.read([1, 2, 3, 4], cache.match_prefix([1, 2, 3, 4]).slots)
    assert pool.num_free == 64 - 4


def test_a_bare_index_takes_lists_too():
    """They are packed where it matters."""
    mine = Contender("mine", RadixCache, IndexLife)
    assert run_lap(mine, WORKLOADS["W1"](40), 50_000).hits == run_lap(CONTENDERS[0], WORKLOADS["W1"](40), 50_000).hits
