"""The cache manager, rule by rule: the life of a request, and what is left of it, whatever the way out."""

from __future__ import annotations

import contextlib
import copy
import pickle
import tracemalloc
from array import array
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from indexes import MANAGERS
from manager_machine import ManagerAgainstModel

from minikv import (
    BitmaskPool,
    CacheManager,
    FreeListPool,
    InvariantError,
    NoCache,
    OutOfPages,
    QueuePool,
    RadixCache,
    TieredCache,
)
from minikv.pools import page_slots
from minikv.prefix import INDEXES, index_named
from minikv.traffic.replay import GrowingPool

pytestmark = pytest.mark.core


def ran(manager, tokens, **options):
    """A request that came, was computed and finished."""
    sequence = manager.start(tokens, **options)
    manager.advance(sequence)
    manager.finish(sequence)


def state(manager):
    """All that can be seen of a manager."""
    sequences = [(s.number, s.state, s.slots.tolist(), s.shared, s.computed) for s in manager.sequences]
    free = [page for page in range(manager.num_pages) if manager.pool.is_free(page)]
    return sequences, free, manager.cache.total_size, manager.cache.protected_size


# -- start ----------------------------------------------------------------------------------------------------------


def test_the_last_token_is_always_left_to_compute():
    """A prompt that is cached to its end would leave nothing to compute, and so no logits to sample from."""
    manager = CacheManager(8)
    ran(manager, [1, 2, 3])
    again = manager.start([1, 2, 3])
    assert (again.cached_length, again.tokens[again.computed :].tolist()) == (2, [3])


def test_half_a_page_is_computed_again():
    manager = CacheManager(8, page_size=4)
    ran(manager, range(8))
    again = manager.start(range(8))
    assert (again.cached_length, again.tokens[again.computed :].tolist()) == (4, [4, 5, 6, 7])
    assert again.slots.tolist() == [0, 1, 2, 3, 8, 9, 10, 11]


def test_the_match_is_locked_before_room_is_looked_for():
    """Four cached, two free, six wanted, of which three are cached: only by evicting the match would there be room."""
    manager = CacheManager(6)
    ran(manager, [1, 2, 3, 4])
    before = state(manager)
    with pytest.raises(OutOfPages, match="4 pages needed, but only 2 free and 1 evictable"):
        manager.start([1, 2, 3, 7, 8, 9, 6])
    assert state(manager) == before
    manager.check()


def test_room_is_made_by_evicting_and_not_beyond_need():
    manager = CacheManager(6, prefix_cache=RadixCache(evict_by="page"))
    ran(manager, [1, 2, 3, 4])
    manager.start([7, 8, 9])
    assert (manager.cache.total_size, manager.pool.num_free) == (3, 0)


def test_counts_are_pages_in_the_error_and_tokens_in_available_size():
    """mini-sglang#80: one side counted tokens, the other pages."""
    manager = CacheManager(4, page_size=16)
    ran(manager, range(32))
    running = manager.start(range(100, 117))
    assert manager.available_size == 2 * 16
    with pytest.raises(OutOfPages) as refused:
        manager.start(range(200, 200 + 3 * 16))
    assert (refused.value.needed, refused.value.free, refused.value.evictable) == (3, 0, 2)
    manager.abort(running)


def test_room_can_be_kept_for_others():
    manager = CacheManager(4)
    with pytest.raises(OutOfPages, match="5 pages needed, but only 4 free and 0 evictable"):
        manager.start([1, 2, 3], spare=2)
    assert manager.pool.num_free == 4
    assert manager.start([1, 2, 3], spare=1).slots.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="spare is -1"):
        manager.start([1], spare=-1)


def test_namespaces_do_not_share():
    manager = CacheManager(8)
    ran(manager, [1, 2, 3], namespace="a")
    assert manager.start([1, 2, 3], namespace="b").cached_length == 0
    assert manager.start([1, 2, 3], namespace="a").cached_length == 2


@pytest.mark.parametrize("tokens", [[], [-1], "text", 5, [1, None]])
def test_what_is_no_prompt_is_refused_and_nothing_is_held(tokens):
    manager = CacheManager(4)
    before = state(manager)
    with pytest.raises((ValueError, TypeError), match="tokens"):
        manager.start(tokens)
    assert state(manager) == before


@pytest.mark.parametrize("limit", [-1, 1.5, "2", True])
def test_a_bad_limit_is_refused_and_nothing_is_held(limit):
    manager = CacheManager(8)
    ran(manager, [1, 2, 3])
    before = state(manager)
    with pytest.raises((ValueError, TypeError), match="limit is"):
        manager.start([1, 2, 3, 4], limit=limit)
    assert state(manager) == before
    manager.check()


def test_at_most_limit_tokens_come_from_the_cache():
    """A replay takes all of them, since it wants no logits; a request that is measured cold takes none."""
    manager = CacheManager(16, page_size=2)
    ran(manager, [1, 2, 3, 4])
    for limit, cached in ((0, 0), (1, 0), (3, 2), (4, 4), (99, 4), (None, 2)):
        sequence = manager.start([1, 2, 3, 4], limit=limit)
        assert (sequence.cached_length, len(sequence.tokens[sequence.computed :])) == (cached, 4 - cached)
        assert len(sequence.owned) == 4 - cached
        manager.check()
        manager.abort(sequence)


@pytest.mark.parametrize("end", ["finish", "abort", "checkpoint"])
def test_a_request_that_is_cached_to_its_end_has_nothing_to_publish(end):
    manager = CacheManager(8)
    ran(manager, [1, 2, 3])
    sequence = manager.start([1, 2, 3], limit=3)
    getattr(manager, end)(sequence)
    manager.check()
    assert (manager.cache.total_size, manager.pool.num_free) == (3, 5)


def test_a_start_without_room_changes_nothing_but_how_recently_its_match_was_used():
    """The match was looked up, so it counts as used: of the two prompts the other one goes first now."""
    manager = CacheManager(4)
    ran(manager, [1, 2])
    ran(manager, [5, 6])
    with pytest.raises(OutOfPages):
        manager.start([1, 2, 3], spare=2**31 - 1)
    manager.check()
    manager.start([8, 9])
    assert (manager.cache.match_prefix([1, 2]).length, manager.cache.match_prefix([5, 6]).length) == (2, 0)


# -- while it runs --------------------------------------------------------------------------------------------------


def test_a_page_is_taken_when_the_last_one_is_full_and_not_before():
    manager = CacheManager(4, page_size=2)
    sequence = manager.start([1, 2, 3])
    assert manager.pool.num_free == 2
    manager.extend(sequence, [4])
    assert manager.pool.num_free == 2
    manager.extend(sequence, [5])
    assert (manager.pool.num_free, sequence.slots.tolist()) == (1, [0, 1, 2, 3, 4])


def test_a_token_for_which_there_is_no_room_is_not_taken():
    manager = CacheManager(2)
    sequence = manager.start([1, 2])
    before = state(manager)
    with pytest.raises(OutOfPages, match="1 page needed, but only 0 free and 0 evictable"):
        manager.extend(sequence, [3])
    assert state(manager) == before
    assert sequence.tokens.tolist() == [1, 2]


def test_extending_costs_the_same_however_long_the_sequence_is(monkeypatch):
    """Ten thousand tokens: the row's memory is replaced a few times, and all tokens are never put together."""
    manager = CacheManager(10_001)
    sequence = manager.start([1])
    monkeypatch.setattr(type(sequence), "tokens", property(lambda self: pytest.fail("extend looked at all tokens")))
    rows = [sequence._row]
    for token in range(10_000):
        manager.extend(sequence, [token])
        if sequence._row is not rows[-1]:
            rows.append(sequence._row)
    monkeypatch.undo()
    assert len(rows) < 24  # each is half as long again as the one before: log(10,000) / log(1.5) is 23
    assert sequence.tokens.tolist() == [1, *range(10_000)]
    assert len(sequence.slots) == sequence.length == 10_001
    manager.check()


@pytest.mark.parametrize("limit", [2**24, 8], ids=["table", "no table"])
@pytest.mark.parametrize("page_size", [1, 2, 3])
def test_the_next_chunk_has_the_slots_of_the_row_as_it_is_now(page_size, limit, monkeypatch):
    """Also after a checkpoint that reads other pages from then on, after a truncation, and when the row has grown."""

    def expect(num_tokens):
        tokens, slots = b.next_chunk(num_tokens)
        assert tokens == b.tokens[b.computed : b.computed + num_tokens]
        assert slots.tolist() == page_slots(b.pages, page_size)[: b.computed + num_tokens].tolist()
        assert slots.tolist() == b.slots[: len(slots)].tolist()

    monkeypatch.setattr("minikv.manager.fit._TABLE_LIMIT", limit)
    manager = CacheManager(64, page_size)
    a, b = manager.start([1, 2, 3, 4, 5, 6, 7]), manager.start([1, 2, 3, 4, 5, 6, 8])
    for sequence in (a, b):
        manager.advance(sequence, 6)
    manager.checkpoint(a)
    expect(1)
    manager.checkpoint(b)
    expect(1)
    manager.extend(b, range(30))
    expect(1)  # the last token of the prompt
    expect(9)  # and some of those after it
    manager.advance(b, 1)
    expect(20)
    manager.truncate(b, 12)
    manager.abort(a)
    manager.extend(b, [9, 9, 9, 9])
    expect(9)


def test_the_slots_are_the_callers_own_copy():
    manager = CacheManager(4)
    sequence = manager.start([1, 2, 3])
    sequence.slots[0] = 3
    assert sequence.slots.tolist() == [0, 1, 2]
    manager.check()


def test_advance_cannot_pass_the_end():
    manager = CacheManager(4)
    sequence = manager.start([1, 2, 3])
    with pytest.raises(ValueError, match="num_tokens is 4: sequence 1 can compute 0 to 3 more tokens"):
        manager.advance(sequence, 4)
    assert sequence.computed == 0


def test_a_checkpoint_lets_others_read_what_is_computed_so_far():
    """Chunked prefill: the first four tokens of six are computed, the second request reads them."""
    manager = CacheManager(16)
    long = manager.start([1, 2, 3, 4, 5, 6])
    manager.advance(long, 4)
    assert manager.start([1, 2, 3, 4, 5, 6]).cached_length == 0
    manager.checkpoint(long)
    assert manager.start([1, 2, 3, 4, 5, 6]).cached_length == 4
    assert long.shared == 4
    manager.check()


def test_a_checkpoint_rewrites_the_row_where_somebody_was_faster():
    """mini-sglang#142: duplicates were freed and the row went on naming them, so the next request wrote over them."""
    manager = CacheManager(8)
    first, second = manager.start([1, 2, 3, 4]), manager.start([1, 2, 3, 5])
    for sequence in (first, second):
        manager.advance(sequence)
    before = second.slots
    manager.checkpoint(first)
    manager.checkpoint(second)
    assert before.tolist() == [4, 5, 6, 7]  # a snapshot is not written over
    assert second.slots.tolist() == [0, 1, 2, 7]
    assert [page for page in range(8) if manager.pool.is_free(page)] == [4, 5, 6]
    manager.check()


def test_a_checkpoint_of_nothing_new_asks_nobody():
    manager = CacheManager(4, page_size=2)
    sequence = manager.start([1, 2, 3])
    manager.advance(sequence, 1)
    manager.cache.insert = None
    manager.checkpoint(sequence)
    assert sequence.shared == 0


def test_what_a_running_sequence_published_cannot_be_evicted():
    manager = CacheManager(4)
    sequence = manager.start([1, 2, 3])
    manager.advance(sequence)
    manager.checkpoint(sequence)
    with pytest.raises(OutOfPages, match="2 pages needed, but only 1 free and 0 evictable"):
        manager.start([8, 9])
    manager.finish(sequence)
    assert manager.start([8, 9]).slots.tolist()


# -- the ways out ---------------------------------------------------------------------------------------------------


def test_finish_publishes_what_is_computed_and_no_more():
    """The last sampled token has a slot, but no keys and values: they would have come with the next step."""
    manager = CacheManager(8)
    sequence = manager.start([1, 2])
    manager.advance(sequence)
    manager.extend(sequence, [3])
    manager.finish(sequence)
    assert manager.cache.match_prefix([1, 2, 3]).length == 2
    assert manager.pool.num_free == 6
    assert sequence.slots.tolist() == []


def test_a_cache_of_ones_own_may_have_a_host():
    class Named(RadixCache):
        host = "machine 7"

    assert CacheManager(4, prefix_cache=Named()).host is None


def test_whoever_looks_on_at_insert_sees_all_tokens_and_pages(monkeypatch):
    manager = CacheManager(16, page_size=2)
    first = manager.start([1, 2, 3, 4])
    manager.advance(first)
    manager.finish(first)
    insert = mock.Mock(wraps=manager.cache.insert)
    monkeypatch.setattr(manager.cache, "insert", insert)
    second = manager.start([1, 2, 3, 4, 5, 6, 7])
    manager.advance(second)
    pages = second.pages.tolist()
    manager.finish(second)
    (tokens, row), options = insert.call_args
    assert (tokens.tolist()[:6], list(row), options["start"].length) == ([1, 2, 3, 4, 5, 6], pages[:3], 4)
    manager.check()


def test_whoever_looked_on_before_the_manager_came_sees_it_too():
    cache = RadixCache()
    cache.insert = insert = mock.Mock(wraps=cache.insert)
    ran(CacheManager(8, prefix_cache=cache), [1, 2, 3])
    assert insert.call_count == 1


@pytest.mark.parametrize("of", [RadixCache, TieredCache])
def test_an_insert_of_a_subclass_is_called_though_it_is_trusted(of):
    class Counting(of):
        unique_pages = True
        inserts = 0

        def insert(self, *args, **options):
            self.inserts += 1
            return super().insert(*args, **options)

    cache = Counting()
    ran(CacheManager(8, prefix_cache=cache), [1, 2, 3])
    assert cache.inserts == 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda whole: pickle.loads(pickle.dumps(whole))])
def test_a_copy_of_a_manager_publishes_in_its_own_cache(copied):
    manager = CacheManager(8)
    sequence = manager.start([1, 2, 3])
    manager.advance(sequence)
    other, twin = copied((manager, sequence))
    other.finish(twin)
    other.check()
    manager.check()
    assert (other.cache.total_size, manager.cache.total_size) == (3, 0)


def test_a_cache_of_two_tiers_may_have_no_host_memory():
    manager = CacheManager(8, prefix_cache=TieredCache())
    ran(manager, [1, 2, 3])
    manager.check()


def test_all_that_a_pool_refused_goes_back_at_once_however_much_it_is():
    class Moody(FreeListPool):
        refuses = False

        def free(self, pages):
            if self.refuses:
                raise MemoryError
            super().free(pages)

    manager = CacheManager(2000, pool=Moody(2000))
    sequences = [manager.start([1]) for _ in range(2000)]
    manager.pool.refuses = True
    for sequence in sequences:
        with pytest.raises(MemoryError):
            manager.abort(sequence)
    manager.pool.refuses = False
    manager.abort(manager.start([1, 2, 3]))
    assert manager.pool.num_free == 2000
    manager.check()


@pytest.mark.parametrize("failing", [1, 2])
def test_a_row_that_finds_no_memory_stays_as_it_was(failing):
    manager = CacheManager(64, page_size=2)
    sequence = manager.start([1, 2])
    first = sequence.slots.tolist()
    results = [*[mock.DEFAULT] * (failing - 1), MemoryError]
    with mock.patch("numpy.empty", side_effect=results, wraps=np.empty), pytest.raises(MemoryError):
        manager.extend(sequence, range(9))
    manager.check()
    manager.extend(sequence, range(9))
    assert sequence.slots.tolist() == [*first, *range(2, 11)]
    manager.check()


def test_a_pool_may_keep_the_pages_that_it_is_given():
    class Keeps(FreeListPool):
        def free(self, pages):
            super().free(pages)
            self.given = pages

    pool = Keeps(8)
    manager = CacheManager(8, page_size=2, prefix_cache=RadixCache(2), pool=pool)
    sequence = manager.start([1, 2, 3])
    manager.advance(sequence)
    manager.finish(sequence)
    given, before = pool.given, list(pool.given)
    assert len(before) == 1
    manager.start(range(10, 24))  # in the memory of the row that is over
    assert list(given) == before


def test_a_request_has_at_least_one_token():
    manager = CacheManager(8)
    with pytest.raises(ValueError, match="tokens are empty: a request has at least 1 token"):
        manager.start([])
    assert (manager.sequences, manager.pool.num_free) == ([], 8)


def test_abort_publishes_nothing_and_keeps_what_was_published():
    manager = CacheManager(8)
    sequence = manager.start([1, 2, 3, 4])
    manager.advance(sequence, 2)
    manager.checkpoint(sequence)
    manager.advance(sequence, 1)
    manager.abort(sequence)
    assert (manager.cache.total_size, manager.pool.num_free, manager.cache.protected_size) == (2, 6, 0)


@pytest.mark.parametrize("end", ["finish", "abort"])
@pytest.mark.parametrize("verb", ["finish", "abort", "checkpoint", "advance"])
def test_what_is_over_stays_over(end, verb):
    manager = CacheManager(8)
    sequence = manager.start([1, 2, 3])
    getattr(manager, end)(sequence)
    manager.start([1, 2, 3])
    before = state(manager)
    why = {"finish": "has already finished", "abort": "was already aborted"}[end]
    with pytest.raises(ValueError, match=f"cannot {verb} sequence 1: it {why}"):
        getattr(manager, verb)(sequence)
    assert state(manager) == before
    manager.check()


@pytest.mark.parametrize("end", ["finish", "abort"])
def test_what_is_over_grows_no_more(end):
    manager = CacheManager(8)
    sequence = manager.start([1, 2, 3])
    getattr(manager, end)(sequence)
    before = state(manager)
    with pytest.raises(ValueError, match=r"cannot extend sequence 1: it (has|was) already"):
        manager.extend(sequence, [4])
    assert state(manager) == before
    manager.check()


@pytest.mark.parametrize("page_size", [1, 2])
@pytest.mark.parametrize("end", ["finish", "abort"])
def test_a_sequence_that_is_over_has_no_slots_to_compute_into(page_size, end):
    """They may be another's by now, and an engine would write into that one's keys and values."""
    manager = CacheManager(8, page_size)
    sequence = manager.start([1, 2, 3, 4])
    manager.advance(sequence, 2)
    assert sequence.next_chunk(2)[1].tolist() == [0, 1, 2, 3]
    getattr(manager, end)(sequence)
    assert sequence.next_chunk(1)[1].tolist() == []
    assert sequence.slots.tolist() == []


def test_a_sequence_of_another_manager_is_refused():
    mine, other = CacheManager(8), CacheManager(8)
    mine.start([1])
    with pytest.raises(ValueError, match="cannot abort sequence 1: another manager started it"):
        mine.abort(other.start([1]))
    with pytest.raises(TypeError, match="cannot finish 3: expected a sequence"):
        mine.finish(3)


def test_a_request_finishes_by_itself_or_is_aborted():
    manager = CacheManager(8)
    with manager.request([1, 2, 3]) as sequence:
        manager.advance(sequence)
    assert manager.cache.total_size == 3
    with contextlib.suppress(KeyboardInterrupt), manager.request([7, 8, 9]) as sequence:
        manager.advance(sequence)
        raise KeyboardInterrupt
    assert (sequence.state, manager.cache.total_size, manager.pool.num_free) == ("aborted", 3, 5)
    with manager.request([1, 2]) as sequence:
        manager.abort(sequence)
    manager.check()


def test_a_request_that_cannot_finish_is_aborted(monkeypatch):
    manager = CacheManager(8)
    monkeypatch.setattr(manager.cache, "insert", mock.Mock(side_effect=MemoryError))
    with contextlib.suppress(MemoryError), manager.request([1, 2, 3]) as sequence:
        manager.advance(sequence)
    assert (sequence.state, manager.pool.num_free) == ("aborted", 8)


# -- any call may fail ------------------------------------------------------------------------------------------------


class Nth:
    """Lets the k-th call of the pool or the cache fail, before it has done anything."""

    def __init__(self, manager, k, error):
        self.calls, self.k, self.error = 0, k, error
        for thing, verbs in (
            (manager.pool, ("alloc", "alloc_to", "free", "free_window", "move_window")),
            (manager.cache, ("match_prefix", "acquire", "insert", "lock", "unlock", "evict")),
        ):
            for verb in verbs:
                if hasattr(thing, verb):
                    setattr(thing, verb, self.guard(getattr(thing, verb)))

    def guard(self, original):
        def guarded(*args, **kwargs):
            self.calls += 1
            if self.calls == self.k:
                raise self.error(f"call {self.k}")
            return original(*args, **kwargs)

        return guarded


def busy_day(manager):
    """Everything that can happen to requests: duplicates, eviction, tails, no room."""
    ran(manager, range(8))
    a, b = manager.start([0, 1, 2, 3, 9, 9, 9]), manager.start([0, 1, 2, 3, 9, 9, 9])
    manager.advance(a)
    manager.advance(b, 2)
    manager.checkpoint(a)
    manager.extend(a, [5, 6])
    manager.advance(b)
    manager.checkpoint(b)
    manager.abort(b)
    with pytest.raises(OutOfPages):
        manager.start(range(50, 90))
    c = manager.start(range(20, 26))
    manager.advance(c, 5)
    manager.finish(a)
    manager.finish(c)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("page_size", [1, 2])
@pytest.mark.parametrize("kind", MANAGERS)
def test_whichever_call_fails_nothing_leaks(kind, page_size, error):
    """The k-th call of the pool or the cache fails, for every k: what then runs can be aborted, and all is there."""
    k = 0
    while True:
        k += 1
        manager = MANAGERS[kind](page_size)
        guard = Nth(manager, k, error)
        try:
            busy_day(manager)
        except error:
            manager.check()
        else:
            break
        for sequence in manager.sequences:
            manager.abort(sequence)
        manager.abort(manager.start([99]))  # whatever was on its way to the pool goes with the next pages
        manager.check()
        assert not manager.sequences
        assert not manager.cache.protected_size
        full = getattr(manager.pool, "full", manager.pool)
        assert full.num_free * page_size + manager.cache.total_size == manager.num_pages * page_size
    assert guard.calls >= 25
    assert manager.cache.total_size > 8


def test_what_is_on_its_way_to_the_pool_is_available(monkeypatch):
    """The pool fails to take four pages back: they are not lost, and the next request can have them."""
    manager = CacheManager(4)
    sequence = manager.start([1, 2, 3, 4])
    with monkeypatch.context() as patch, contextlib.suppress(MemoryError):
        patch.setattr(manager.pool, "free", mock.Mock(side_effect=MemoryError))
        manager.abort(sequence)
    assert (manager.pool.num_free, manager.available_size) == (0, 4)
    manager.check()
    assert manager.start([5, 6, 7, 8]).slots.tolist()


def test_a_lock_that_could_not_be_released_is_released_when_room_is_needed(monkeypatch):
    """A request finds no room, and its match cannot be unlocked: the next one may have those pages all the same."""
    manager = CacheManager(4)
    ran(manager, [1, 2, 3, 4])
    with monkeypatch.context() as patch, contextlib.suppress(MemoryError):
        patch.setattr(manager.cache, "unlock", mock.Mock(side_effect=MemoryError))
        manager.start([1, 2, 3, 4, 5, 6])
    assert (manager.cache.protected_size, manager.cache.evictable_size) == (4, 0)
    manager.check()
    assert manager.start([5, 6, 7, 8]).slots.tolist()
    manager.check()


# -- its parts ------------------------------------------------------------------------------------------------------


def test_parts_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="page_size is 2: the prefix cache has pages of 1"):
        CacheManager(4, 2, prefix_cache=RadixCache(1))
    with pytest.raises(ValueError, match="num_pages is 4: the pool has 5"):
        CacheManager(4, pool=FreeListPool(5))
    with pytest.raises(ValueError, match=r"4096 pages of 1048576 are 4294967296 slots: a slot is an integer in"):
        CacheManager(2**12, 2**20)
    with pytest.raises(ValueError, match="num_pages is 0: a manager has at least 1 page"):
        CacheManager(0)

    class Store:
        num_pages, page_size = 4, 2

    assert CacheManager(4, 2, store=Store()).store.num_pages == 4
    with pytest.raises(ValueError, match="page_size is 1: the store has 2"):
        CacheManager(4, store=Store())


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"pool": int}, r"pool is <class 'int'>: expected a SlotPool with alloc_to\(\)"),
        (
            {"pool": FreeListPool},
            r"pool is <class 'minikv.pools.free_list.FreeListPool'>: expected a SlotPool with alloc_to\(\)",
        ),
        ({"pool": 0}, r"pool is 0: expected a SlotPool with alloc_to\(\)"),
        ({"pool": RadixCache()}, r"pool is RadixCache\(.*: expected a SlotPool with alloc_to\(\)"),
        (
            {"prefix_cache": FreeListPool(2)},
            r"prefix_cache is FreeListPool\(.*: expected a PrefixCache with acquire\(\)",
        ),
        ({"prefix_cache": "a" * 10_000}, r"prefix_cache is 'aaa.*…: expected a PrefixCache with acquire\(\)"),
        ({"num_pages": "2"}, "num_pages is '2'"),
        ({"page_size": 1.0}, "page_size is 1.0"),
    ],
)
def test_what_is_no_part_is_refused(parts, words):
    with pytest.raises(TypeError, match=words):
        CacheManager(**{"num_pages": 2, "page_size": 1, **parts})


def test_more_slots_than_there_are_numbers_are_refused_before_memory_is_taken():
    with pytest.raises(ValueError, match=f"{2**31 - 1} pages of 2 are {2**32 - 2} slots: a slot is an integer in"):
        CacheManager(2**31 - 1, 2)
    with pytest.raises(ValueError, match=r"num_pages is .*: expected less than 2\*\*63") as refused:
        CacheManager(10**5000)
    assert len(str(refused.value)) < 300


def test_a_manager_of_a_huge_pool_takes_no_memory_for_its_slots():
    """As `minikv replay` without a capacity makes one: 2**27 pages of 16 would be a table of 8 GiB."""
    tracemalloc.start()
    manager = CacheManager(2**27, 16, pool=GrowingPool(2**27))
    sequence = manager.start(range(40))
    assert sequence.slots.tolist() == list(range(40))
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("pool", [FreeListPool, BitmaskPool, QueuePool])
def test_any_pool_will_do(pool):
    manager = CacheManager(8, pool=pool(8))
    ran(manager, [1, 2, 3])
    ran(manager, [1, 2, 4, 5, 6, 7])
    manager.check()
    assert manager.available_size == 8


def test_without_a_cache_everything_is_computed_and_goes_back():
    manager = CacheManager(8, prefix_cache=NoCache())
    ran(manager, [1, 2, 3])
    sequence = manager.start([1, 2, 3])
    manager.advance(sequence)
    manager.checkpoint(sequence)
    assert (sequence.cached_length, sequence.shared) == (0, 0)
    manager.check()
    manager.finish(sequence)
    assert manager.pool.num_free == 8


# -- the audit --------------------------------------------------------------------------------------------------------


def test_the_audit_names_the_page_that_nobody_has():
    manager = CacheManager(4)
    manager.pool.alloc(2)
    with pytest.raises(InvariantError, match="page 0 has no owner: it is neither free, nor cached, nor a sequence's"):
        manager.check()


def test_the_audit_names_both_owners():
    manager = CacheManager(8)
    manager.start([1, 2])
    manager.start([3, 4])._row.data[:2] = array("i", [2, 1])
    with pytest.raises(InvariantError, match="page 1 has two owners: sequence 1, and sequence 2"):
        manager.check()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"computed": 9}, "sequence 1: shared 0, computed 9, 3 tokens, a row of 2 pages, in pages of 2"),
        ({"computed": -1}, "sequence 1: shared 0, computed -1"),
        ({"shared": 1}, "sequence 1: shared 1, computed 0"),
        ({"shared": 1, "computed": 2}, "sequence 1: shared 1, computed 2"),
        ({"_handle": None}, "sequence 1 reads 0 cached tokens, its lock protects None"),
        ({"length": 5}, "sequence 1: shared 0, computed 0, 5 tokens, a row of 2 pages"),
        ({"length": 4}, "sequence 1: its length is 4, but it has 3 tokens"),
        ({"_first_own": 1}, "page 0 has no owner"),
        ({"_num_pages": 1}, "page 1 has no owner"),
    ],
)
def test_the_audit_adds_up_each_row(changes, words):
    manager = CacheManager(8, page_size=2)
    vars(manager.start([1, 2, 3])).update(changes)
    with pytest.raises(InvariantError, match=words):
        manager.check()


def test_the_audit_asks_the_cache_and_the_pool_for_theirs():
    manager = CacheManager(8)
    ran(manager, [1, 2, 3])
    manager.cache._evictable += 1
    with pytest.raises(InvariantError, match="evictable_size is 4, but the unlocked nodes hold 3 tokens"):
        manager.check()
    manager.cache._evictable -= 1
    manager.check()
    manager.pool._where[0] = -1
    with pytest.raises(InvariantError, match="page 0 has place -1"):
        manager.check()


@pytest.mark.parametrize("index", INDEXES)
def test_a_page_that_was_freed_behind_the_managers_back_is_refused_when_it_comes_back(index):
    manager = CacheManager(8, prefix_cache=index_named(index))
    ran(manager, [1, 2, 3, 4])
    running = manager.start([9])
    manager.pool.free([1])
    with pytest.raises(ValueError, match="page 1 is already free"):
        manager.start(range(10, 17))
    assert manager.pool.num_free == 4
    assert manager.sequences == [running]


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


def test_the_audit_counts_the_pages_of_the_sequences():
    manager = CacheManager(8)
    manager.start([1, 2, 3])
    manager._owned -= 1
    with pytest.raises(InvariantError, match="the manager counts 2 pages of its sequences: they have 3"):
        manager.check()


def test_the_audit_finds_a_lock_that_no_sequence_holds():
    manager = CacheManager(8)
    ran(manager, [1, 2, 3])
    match = manager.cache.acquire([1, 2])
    with pytest.raises(InvariantError, match="the sequences read 0 cached tokens, the cache protects 2"):
        manager.check()
    manager.cache.unlock(match)
    manager.check()


def test_the_audit_misses_no_lock():
    manager = CacheManager(8)
    ran(manager, [1, 2, 3])
    sequence = manager.start([1, 2, 5])
    manager.cache.unlock(sequence._handle)
    with pytest.raises(InvariantError, match="the sequences read 2 cached tokens, the cache protects 0"):
        manager.check()
    manager.cache.lock(sequence._handle)
    manager.check()
    manager.cache.evict(1)
    manager.pool.free([2])
    sequence._row.data[:3] = array("i", [2, 1, 3])
    with pytest.raises(
        InvariantError, match=r"page 2 has two owners: the pool, .* and the cache, from which sequence 2"
    ):
        manager.check()


@pytest.mark.parametrize("page_size", [1, 2])
def test_a_cache_that_cannot_list_its_nodes_is_counted(page_size):
    class Closed:
        """The verbs of a radix cache, and no way to look inside."""

        def __init__(self):
            self._inner = RadixCache(page_size)

        def __getattr__(self, name):
            if name in ("nodes", "roots", "root"):
                raise AttributeError(name)
            return getattr(self._inner, name)

    manager = CacheManager(8, page_size, prefix_cache=Closed())
    ran(manager, [1, 2, 3])
    manager.start([1, 2, 3])
    manager.check()
    manager.pool.alloc(1)
    with pytest.raises(InvariantError, match="7 pages are neither free, nor cached"):
        manager.check()


# -- the machine ------------------------------------------------------------------------------------------------------


class WithoutCache(ManagerAgainstModel):
    cache_type = NoCache


class Unwatched(ManagerAgainstModel):
    """As an engine runs it: only what follows a lock is inserted, and the lock of a checkpoint moves on."""

    is_watched = False


@pytest.mark.parametrize("machine", [ManagerAgainstModel, WithoutCache, Unwatched])
def test_the_manager_against_the_model(machine):
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=40))


# -- taking tokens back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_size", [1, 2, 4])
@pytest.mark.parametrize("length", range(1, 10))
def test_a_truncated_sequence_has_the_pages_that_its_tokens_need(page_size, length):
    manager = CacheManager(12, page_size)
    sequence = manager.start([1, 2, 3])
    manager.extend(sequence, range(4, 10))
    slots = sequence.slots.tolist()
    manager.truncate(sequence, length)
    manager.check()
    assert sequence.tokens.tolist() == list(range(1, length + 1))
    assert sequence.slots.tolist() == slots[:length]
    assert manager.pool.num_free == 12 - -(-length // page_size)


def test_what_comes_in_the_place_of_a_draft_is_what_counts():
    """Four tokens again, but others: neither the old ones nor what was computed for them may come back."""
    manager = CacheManager(8)
    sequence = manager.start([1, 2])
    manager.extend(sequence, [3, 4])
    manager.advance(sequence)
    assert sequence.tokens.tolist() == [1, 2, 3, 4]
    manager.truncate(sequence, 3)
    manager.extend(sequence, [9])
    assert (sequence.tokens.tolist(), sequence.computed, sequence.tokens[sequence.computed :].tolist()) == (
        [1, 2, 3, 9],
        3,
        [9],
    )
    manager.finish(sequence)
    assert manager.cache.match_prefix([1, 2, 3, 4]).length == manager.cache.total_size == 3
    manager.check()


def test_a_draft_is_not_published_before_it_is_said_to_be_computed():
    manager = CacheManager(8)
    sequence = manager.start([1, 2])
    manager.advance(sequence)
    manager.extend(sequence, [3, 4])
    manager.checkpoint(sequence)
    manager.truncate(sequence, 2)
    manager.check()
    assert (manager.cache.total_size, sequence.shared, manager.pool.num_free) == (2, 2, 6)


@pytest.mark.parametrize("length", [3, 2, 0, -1, 8, 2**70, 4.0, None, True])
def test_what_is_published_or_not_there_cannot_be_cut(length):
    manager = CacheManager(8, page_size=2)
    sequence = manager.start([1, 2, 3, 4, 5, 6, 7])
    manager.advance(sequence, 4)
    manager.checkpoint(sequence)
    before = state(manager)
    with pytest.raises((TypeError, ValueError), match=r"^length is "):
        manager.truncate(sequence, length)
    assert state(manager) == before
    manager.truncate(sequence, 4)
    manager.check()


def test_a_pool_that_fails_to_take_a_draft_back_loses_nothing(monkeypatch):
    manager = CacheManager(8)
    sequence = manager.start([1, 2])
    manager.extend(sequence, [3, 4])
    with monkeypatch.context() as broken:
        broken.setattr(manager.pool, "free", mock.Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            manager.truncate(sequence, 2)
    manager.check()
    assert (sequence.length, manager.available_size) == (2, 6)
    manager.finish(sequence)
    manager.check()
    assert manager.pool.num_free == 8
