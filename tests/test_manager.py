"""The cache manager: what the state machine cannot say of it, and what any failure leaves."""

import copy
import pickle
import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from manager_machine import ManagerAgainstModel
from nightly import NIGHTLY

from minikv import CacheManager, OutOfPages, RadixCache, TieredCache
from minikv.prefix import INDEXES, index_named
from minikv.traffic.replay import GrowingPool

each_size = pytest.mark.parametrize("page_size", [1, 2])


def computed(manager, tokens, count=None, **options):
    """A request of which so many tokens, or all, are computed."""
    sequence = manager.start(tokens, **options)
    manager.advance(sequence, count)
    return sequence


def ran(manager, *prompts, **options):
    """Requests that came, were computed and finished."""
    for tokens in prompts:
        manager.finish(computed(manager, tokens, **options))


def state(manager):
    """All that can be seen of a manager."""
    sequences = [(s.number, s.state, s.slots.tolist(), s.shared, s.computed) for s in manager.sequences]
    free = [page for page in range(manager.num_pages) if manager.pool.is_free(page)]
    return sequences, free, manager.cache.total_size, manager.cache.protected_size


def test_the_manager_against_the_model():
    """By day as often as finds each mistake of `test_manager_mutants`, twice over."""
    often = settings(max_examples=2000 if NIGHTLY else 60, stateful_step_count=30)
    run_state_machine_as_test(ManagerAgainstModel, settings=often)


# -- start and what follows -------------------------------------------------------------------------------------------


def test_a_start_without_room_changes_nothing_but_how_recently_its_match_was_used():
    """The match was looked up, so it counts as used: of the two prompts the other one goes first now."""
    manager = CacheManager(4)
    ran(manager, [1, 2], [5, 6])
    with pytest.raises(OutOfPages):
        manager.start([1, 2, 3], spare=2)
    manager.start([8, 9])
    assert [manager.cache.match_prefix(tokens).length for tokens in ([1, 2], [5, 6])] == [2, 0]


def test_room_is_made_by_evicting_and_not_beyond_need():
    manager = CacheManager(6, prefix_cache=RadixCache(evict_by="page"))
    ran(manager, [1, 2, 3, 4])
    manager.start([7, 8, 9], spare=2)  # which could be had
    assert (manager.cache.total_size, manager.pool.num_free) == (3, 0)


REFUSED = [
    (lambda m, s: m.start([]), "tokens are empty: a request has at least 1 token"),
    (lambda m, s: m.advance(s, 4), "num_tokens is 4: sequence 2 can compute 0 to 3 more tokens"),
    *[(lambda m, s, bad=bad: m.truncate(s, bad), "length is") for bad in (2**70, 4.0, None, True)],
    (lambda m, s: m.finish(3), "cannot finish 3: expected a sequence"),
    *[
        (lambda m, s, verb=verb: getattr(CacheManager(8), verb)(s, *[[1]] * (verb == "extend")), "another manager")
        for verb in ("advance", "extend", "finish", "abort")
    ],
]


@pytest.mark.parametrize(("act", "words"), REFUSED)
def test_what_is_refused_changes_nothing(act, words):
    """One prompt is cached; of the 7 tokens of a request, 4 are published."""
    manager = CacheManager(8, page_size=2)
    ran(manager, [8, 9])
    sequence = computed(manager, [1, 2, 3, 4, 5, 6, 7], 4)
    manager.checkpoint(sequence)
    before = state(manager)
    with pytest.raises((TypeError, ValueError), match=words):
        act(manager, sequence)
    assert (state(manager), sequence.length) == (before, 7)
    manager.check()


def test_extending_costs_the_same_however_long_the_sequence_is(monkeypatch):
    """The row's memory is replaced a few times, and all tokens are never put together."""
    manager = CacheManager(2003)
    sequence = manager.start([1])
    manager.extend(sequence, [2])
    manager.extend(sequence, [3])
    generated = sequence._generated
    monkeypatch.setattr(type(sequence), "tokens", property(lambda self: pytest.fail("extend looked at all tokens")))
    rows = [sequence._row]
    for token in range(2000):
        manager.extend(sequence, [token])
        if sequence._row is not rows[-1]:
            rows.append(sequence._row)
    monkeypatch.undo()
    assert len(rows) < 20  # each is half as long again as the one before: log(2,000) / log(1.5) is 19
    assert sequence._generated is generated
    assert sequence.tokens.tolist() == [1, 2, 3, *range(2000)]
    manager.check()


@pytest.mark.parametrize("failing", [1, 2])
def test_a_row_that_finds_no_memory_stays_as_it_was(failing):
    manager = CacheManager(64, page_size=2)
    sequence = manager.start([1, 2])
    results = [*[mock.DEFAULT] * (failing - 1), MemoryError]
    with mock.patch("numpy.empty", side_effect=results, wraps=np.empty), pytest.raises(MemoryError):
        manager.extend(sequence, range(9))
    manager.check()
    manager.extend(sequence, range(9))
    assert sequence.slots.tolist() == [*range(11)]


def test_slots_and_pages_are_the_callers_own_copies():
    manager = CacheManager(4)
    sequence = manager.start([1, 2, 3])
    sequence.slots[0] = sequence.pages[0] = 3
    assert sequence.slots.tolist() == sequence.pages.tolist() == [0, 1, 2]


def test_a_checkpoint_of_nothing_new_asks_nobody():
    manager = CacheManager(4, page_size=2)
    sequence = computed(manager, [1, 2, 3], 1)
    manager.cache.insert = None
    manager.checkpoint(sequence)
    assert sequence.shared == 0


def test_the_slots_of_a_sequence_that_was_cut_and_goes_on_are_those_of_its_new_pages():
    manager = CacheManager(8, page_size=2)
    sequence = manager.start([1, 2, 3, 4])
    assert sequence.slots.tolist() == [0, 1, 2, 3]
    manager.truncate(sequence, 2)
    manager.start([9])  # in the page that was given back
    manager.extend(sequence, range(6))  # for which its row grows
    assert sequence.slots.tolist() == [0, 1, *range(4, 10)]


# -- the ways out -----------------------------------------------------------------------------------------------------


def test_a_request_finishes_by_itself_or_is_aborted(monkeypatch):
    manager, states = CacheManager(8), []

    def serve(tokens, act):
        with manager.request(tokens) as sequence:
            manager.advance(sequence)
            states.append(sequence)
            act(sequence)

    serve([1, 2, 3], repr)
    with pytest.raises(ZeroDivisionError):
        serve([7, 8, 9], lambda sequence: 1 / 0)
    serve([1, 2], manager.abort)
    monkeypatch.setattr(manager.cache, "insert", mock.Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        serve([7, 8, 9], repr)
    assert [sequence.state for sequence in states] == ["finished", "aborted", "aborted", "aborted"]
    assert (manager.cache.total_size, manager.pool.num_free) == (3, 5)


@pytest.mark.parametrize("is_first", [True, False])
def test_whoever_looks_on_at_insert_sees_all_tokens_and_pages(is_first):
    """Whether it came before the manager or later."""
    cache = RadixCache(2)
    insert = mock.Mock(wraps=cache.insert)
    if is_first:
        cache.insert = insert
    manager = CacheManager(16, 2, cache)
    ran(manager, [1, 2, 3, 4])
    cache.insert = insert
    second = computed(manager, [1, 2, 3, 4, 5, 6, 7])
    pages = second.pages.tolist()
    manager.finish(second)
    (tokens, row), options = insert.call_args
    assert (tokens.tolist()[:6], list(row), options["start"].length) == ([1, 2, 3, 4, 5, 6], pages[:3], 4)


@pytest.mark.parametrize("of", [RadixCache, TieredCache])
def test_an_insert_of_a_subclass_is_called_though_it_is_trusted(of):
    class Counting(of):
        unique_pages = True
        inserts = 0
        host = "machine 7"  # is not that of a tiered cache

        def insert(self, *args, **options):
            self.inserts += 1
            return super().insert(*args, **options)

    cache = Counting()
    ran(CacheManager(8, prefix_cache=cache), [1, 2, 3])
    assert cache.inserts == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda whole: pickle.loads(pickle.dumps(whole))])
def test_a_copy_of_a_manager_goes_on_by_itself(copied):
    manager = CacheManager(16, page_size=2)
    sequence = computed(manager, range(9))
    other, twin = copied((manager, sequence))
    assert other._lock is not manager._lock
    other.extend(twin, [7, 8])
    other.advance(twin)
    other.finish(twin)
    other.check()
    manager.check()
    assert (other.cache.total_size, manager.cache.total_size, sequence.length) == (10, 0, 9)


# -- its parts --------------------------------------------------------------------------------------------------------


def test_a_manager_of_a_huge_pool_takes_no_memory_for_its_slots():
    """As `minikv replay` without a capacity makes one: 2**24 pages of 16 would be a table of 1 GiB."""
    tracemalloc.start()
    manager = CacheManager(2**24, 16, pool=GrowingPool(2**24))
    assert manager.start(range(40)).slots.tolist() == list(range(40))
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("index", INDEXES)
def test_a_page_that_was_freed_behind_the_managers_back_is_refused_when_it_comes_back(index):
    manager = CacheManager(8, prefix_cache=index_named(index))
    ran(manager, [1, 2, 3, 4])
    running = manager.start([9])
    manager.pool.free([1])
    with pytest.raises(ValueError, match="page 1 is already free"):
        manager.start(range(10, 17))
    assert (manager.pool.num_free, manager.sequences) == (4, [running])


@pytest.mark.parametrize(
    ("evicted", "words"),
    [([0, 0], "page 0 is given twice"), ([4, 0], "page 4 is already free"), ([9, 0], r"pages\[0\] is 9")],
)
def test_what_another_index_evicts_is_looked_at_though_the_numbers_agree(evicted, words):
    class Careless(RadixCache):
        def evict(self, num_tokens):
            super().evict(2)
            return np.array(evicted, np.int32)

    manager = CacheManager(6, prefix_cache=Careless())
    ran(manager, [1, 2])
    with pytest.raises(ValueError, match=words):
        manager.start(range(10, 16))
