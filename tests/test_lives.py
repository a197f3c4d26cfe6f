"""The lives of a request in a race: all contenders hit the same tokens, and nothing leaks."""

import contextlib
from array import array
from types import SimpleNamespace

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

PROMPT = st.lists(st.integers(0, 1), min_size=1, max_size=8)
ROOM = 256
FEW = settings(max_examples=20)
published_or_not = pytest.mark.parametrize("publish", [False, True])


def hits_of(workload, capacity, publish):
    return {contender.name: run_lap(contender, workload, capacity, publish).hits for contender in CONTENDERS}


@published_or_not
@pytest.mark.parametrize("name", ["W1", "W4", "W5"])
def test_all_contenders_hit_the_same_tokens(name, publish):
    """With room for all, the textbook tree and ours are the same cache; pages of 16 hit less, by less than a page."""
    hits = hits_of(WORKLOADS[name](40), 100_000, publish)
    assert sum(hits["minikv"]) > 0
    for name, mine in hits.items():
        for own, ours in zip(mine, hits["minikv"]):
            assert ours - 16 < own <= ours if "pages of 16" in name else own == ours


@published_or_not
def test_the_bare_index_evicts_what_the_manager_evicts(publish):
    """The textbook tree, which never joins nodes, evicts in smaller pieces, so its hits are only nearly the same."""
    hits = hits_of(WORKLOADS["W1"](64), 30_000, publish)
    assert hits["minikv"] == hits["bare index"] == hits["minikv, from lists"]
    assert hits["minikv, pages of 16"] == hits["bare index, pages of 16"]
    assert sum(hits["textbook"]) == pytest.approx(sum(hits["minikv"]), rel=0.02)


def manager_life(index, page_size, publish):
    return ManagerLife(index(page_size), ROOM, publish)


def index_life(index, page_size, publish):
    return IndexLife(index(page_size), ROOM, publish)


def textbook(page_size):
    return FiveVerbs(TextbookCache())


def five_verbs(page_size):
    return FiveVerbs(RadixCache())


LIVES = [
    (manager_life, RadixCache, 1), (manager_life, RadixCache, 2), (index_life, RadixCache, 1),
    (index_life, RadixCache, 2), (index_life, textbook, 1), (index_life, five_verbs, 1),
]  # fmt: skip
each_life = pytest.mark.parametrize(("make", "index", "page_size"), LIVES)


def prepared(life, prompt, answer):
    """As a race prepares it: an index of five verbs gets lists."""
    is_bare = isinstance(getattr(life, "cache", None), FiveVerbs)
    return life.prepare(Exchange(pack(prompt), pack(answer), pack(prompt) + answer), list if is_bare else pack)


@each_life
def test_one_token_is_left_to_compute(make, index, page_size):
    """The prompt is cached whole; still its last token, and with pages of 2 its last page, is computed again."""
    life = make(index, page_size, publish=True)
    first, second = (life.begin(prepared(life, [1, 2, 3, 4], [5])) for _ in range(2))
    assert (first[1], second[1]) == (0, 4 - page_size)


@each_life
@FEW
@given(st.lists(st.tuples(PROMPT, PROMPT), min_size=1, max_size=8), st.booleans())
def test_nothing_leaks(make, index, page_size, pairs, publish):
    """All requests are in flight at once; ledger and canary look on where they can."""
    life = make(index, page_size, publish)
    cache, pool = (life.manager.cache, life.manager.pool) if make is manager_life else (life.cache, life.pool)
    is_watched = index is RadixCache
    with contextlib.ExitStack() as watching:
        ledger = watching.enter_context(Ledger(pool, cache, page_size)) if is_watched else None
        watching.enter_context(Canary(cache)) if is_watched else None
        for began in [life.begin(prepared(life, *pair))[0] for pair in pairs]:
            life.finish(began)
        assert not (ledger and ledger.callers)
    sizes = cache if is_watched else cache.index
    assert sizes.protected_size == 0
    assert sizes.evictable_size + pool.num_free * page_size == ROOM


class Nothing:
    """Caches nothing, and so has nothing to evict."""

    def match_prefix(self, tokens):
        return SimpleNamespace(length=0, slots=[], handle=None)

    def lock(self, handle):
        """Nothing to hold."""

    unlock = lock

    def insert(self, tokens, slots):
        return SimpleNamespace(prefix_length=0, length=0, handle=None)

    def evict(self, num_tokens):
        return []


@published_or_not
def test_an_index_that_keeps_nothing_gets_its_slots_back(publish):
    lap = run_lap(Contender("nothing", Nothing), WORKLOADS["W3"](30), 8 * 1066, publish)
    assert lap.hits == [0] * 30


def test_an_index_may_keep_the_slots_that_it_is_given():
    index, kept, row = Nothing(), [], memoryview(array("i", [5, 6]))
    index.insert = lambda tokens, slots: kept.append(slots) or Nothing.insert(index, tokens, slots)
    FiveVerbs(index).insert([1, 2], row, None)
    row[0] = 9
    assert kept[0].tolist() == [5, 6]


def test_a_bare_index_takes_lists_too():
    """They are packed where it matters."""
    mine = Contender("mine", RadixCache, IndexLife)
    assert run_lap(mine, WORKLOADS["W1"](40), 50_000).hits == run_lap(CONTENDERS[0], WORKLOADS["W1"](40), 50_000).hits
