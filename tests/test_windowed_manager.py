"""Two kinds of pages: the pool and its map, a manager whose windows move on, and the canary that sees who is there."""

from __future__ import annotations

import random

import numpy as np
import pytest
from chats import VOCAB, Tally, serve, workload
from nightly import NIGHTLY

from minikv import (
    CacheManager,
    Canary,
    CanaryError,
    Engine,
    InvariantError,
    NoCache,
    OutOfPages,
    RadixCache,
    Scheduler,
    SlidingWindowCache,
    WindowedManager,
    WindowedPool,
)
from minikv.prefix.windows import WindowState
from minikv.testing.canary import WindowCanaryModel

pytestmark = pytest.mark.core

# -- the pool ---------------------------------------------------------------------------------------------------------


def test_a_page_comes_with_a_window_page_and_both_go_back():
    pool = WindowedPool(4, num_window_pages=3)
    assert (pool.size, pool.num_free) == (4, 3)
    pages = pool.alloc(2)
    assert pool.window_of[pages].tolist() == [0, 1]
    pool.free(pages)
    assert (pool.num_free, pool.window_of.tolist()) == (3, [-1] * 4)
    pool.check()


def test_alloc_to_takes_both_kinds_or_none():
    pool, row = WindowedPool(4, num_window_pages=3), memoryview(np.full(4, 9, np.int32))
    with pytest.raises(OutOfPages, match=r"^4 pages needed, but only 3 free"):
        pool.alloc_to(row)
    pool.alloc_to(row[:3])
    assert (row.tolist(), pool.full.num_free, pool.windows.num_free) == ([0, 1, 2, 9], 1, 0)
    with pytest.raises(OutOfPages):
        pool.alloc(1)
    pool.check()


def test_a_window_page_that_is_given_back_goes_to_another():
    pool = WindowedPool(4, num_window_pages=1)
    (first,) = pool.alloc(1)
    pool.free_window([first])
    (second,) = pool.alloc(1)
    assert (pool.window_of[first], pool.window_of[second]) == (-1, 0)
    pool.free([first, second])
    assert (pool.full.num_free, pool.windows.num_free) == (4, 1)
    pool.check()


def test_a_window_moves_to_a_page_that_has_none():
    pool = WindowedPool(4, num_window_pages=4)
    first, second = pool.alloc(2)
    pool.free_window([first])
    pool.move_window([second], [first])
    assert (pool.window_of[first], pool.window_of[second]) == (1, -1)
    pool.check()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda pool: pool.free_window([3]), r"cannot free the window of pages\[0\]: page 3 has none"),
        (lambda pool: pool.free_window([0, 0]), r"cannot free the window of pages\[1\]: page 0 is given twice"),
        (lambda pool: pool.free_window([9]), r"pages\[0\] is 9"),
        (lambda pool: pool.move_window([3], [2]), r"cannot move the window of pages\[0\]: page 3 has none"),
        (lambda pool: pool.move_window([0], [1]), r"cannot move a window to to_pages\[0\]: page 1 is in use with a wi"),
        (lambda pool: pool.move_window([0], [3]), r"cannot move a window to to_pages\[0\]: page 3 is free"),
        (lambda pool: pool.move_window([0, 1], [2]), "2 windows for 1 pages: expected a page for each, and none twice"),
        (lambda pool: pool.move_window([0, 1], [2, 2]), "2 windows for 2 pages: expected a page for each, and none"),
        (lambda pool: pool.free([0, 3]), r"cannot free pages\[1\]: page 3 is already free"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(act, message):
    pool = WindowedPool(4, num_window_pages=4)
    pool.alloc(3)
    pool.free_window([2])
    before = pool.window_of.tolist()
    with pytest.raises(ValueError, match=f"^{message}"):
        act(pool)
    assert (pool.window_of.tolist(), pool.num_free) == (before, 1)
    pool.check()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda pool: pool.window_of.put(1, 0), "window page 0 has two owners: pages 0 and 1"),
        (lambda pool: pool.window_of.put(1, -1), "2 window pages are in use, but 1 belong to a page"),
        (lambda pool: pool.full.free([1]), "page 1 has window page 1, but page 1 is free"),
        (lambda pool: pool.windows.free([1]), "page 1 has window page 1, but window page 1 is free"),
    ],
)
def test_the_pools_audit_names_what_disagrees(spoil, message):
    pool = WindowedPool(4, num_window_pages=4)
    pool.alloc(2)
    spoil(pool)
    with pytest.raises(InvariantError, match=f"^{message}"):
        pool.check()


# -- the manager ------------------------------------------------------------------------------------------------------


def test_window_pages_come_back_as_a_request_advances():
    manager = WindowedManager(WindowedPool(20, num_window_pages=10), window=2)
    sequence = manager.start(range(8))
    free = [manager.pool.windows.num_free]
    for _ in range(4):
        manager.advance(sequence, 2)
        manager.check()
        free.append(manager.pool.windows.num_free)
    assert free == [2, 2, 3, 5, 7]
    manager.finish(sequence)
    manager.check()
    assert (manager.cache.total_size, manager.cache.window_evictable_size, manager.pool.windows.num_free) == (8, 3, 7)


def test_where_window_pages_cannot_be_given_back_nothing_counts_as_computed(monkeypatch):
    manager = WindowedManager(WindowedPool(20, num_window_pages=10), window=2)
    sequence = manager.start(range(8))
    with monkeypatch.context() as patch:
        patch.setattr(manager.pool, "free_window", lambda pages: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            manager.advance(sequence)
    assert (sequence.computed, manager.pool.windows.num_free) == (0, 2)
    manager.check()
    manager.advance(sequence)
    assert (sequence.computed, manager.pool.windows.num_free) == (8, 7)


@pytest.mark.parametrize("page_size", [1, 2, 4])
def test_the_same_prompt_is_found_again_up_to_its_last_page(page_size):
    manager = WindowedManager(WindowedPool(40, num_window_pages=20), window=3, page_size=page_size)
    for found in (0, (17 - 1) // page_size * page_size):
        with manager.request(range(17)) as sequence:
            manager.advance(sequence)
        assert sequence.cached_length == found
    manager.check()


def test_a_checkpoint_publishes_what_still_has_its_window():
    manager = WindowedManager(WindowedPool(20, num_window_pages=20), window=2, page_size=2)
    sequence = manager.start(range(9))
    manager.advance(sequence, 7)
    manager.checkpoint(sequence)
    manager.check()
    assert (sequence.shared, manager.cache.window_protected_size, manager.cache.total_size) == (6, 2, 6)
    manager.advance(sequence)
    manager.finish(sequence)
    manager.check()
    assert manager.start([*range(8), 99]).cached_length == 8


def test_room_is_made_for_windows_without_losing_full_pages():
    """Forty tokens of ten prompts stay cached, with window pages for twenty-four."""
    manager = WindowedManager(WindowedPool(64, num_window_pages=24), window=1)
    for name in range(10):
        with manager.request([name] * 4) as sequence:
            manager.advance(sequence)
        manager.check()
    assert manager.cache.total_size == 40
    assert all(manager.cache.match_prefix([name] * 4).length == 4 for name in range(10))


def test_room_for_windows_is_made_by_eviction_where_nothing_else_helps():
    manager = WindowedManager(WindowedPool(64, num_window_pages=6), window=3)
    for name in range(4):
        with manager.request([name] * 3) as sequence:
            manager.advance(sequence)
        manager.check()
    assert [manager.cache.match_prefix([name] * 3).length for name in range(4)] == [0, 0, 3, 3]


def test_where_window_pages_are_missing_nothing_is_held():
    manager = WindowedManager(WindowedPool(64, num_window_pages=6), window=3)
    running = manager.start([1, 2, 3, 4])
    with pytest.raises(OutOfPages, match=r"^3 pages needed, but only 2 free and 0 evictable"):
        manager.start([7, 8, 9])
    assert manager.available_size == 2
    manager.abort(running)
    manager.check()
    assert manager.available_size == 6


def test_a_request_that_its_window_pages_can_never_hold_is_refused_at_once():
    manager = WindowedManager(WindowedPool(64, num_window_pages=6), window=3)
    engine = Engine(WindowCanaryModel(manager.pool, 3), manager)
    with pytest.raises(ValueError, match=r"^5 prompt and 3 new tokens need 7 pages: the manager has 6"):
        engine.submit([1, 2, 3, 4, 5], 3)


def test_tokens_are_taken_back_where_their_window_is_still_there():
    """With 6 of 8 tokens computed, the windows of the first 3 are gone: a sequence of 4 tokens would need one."""
    manager = WindowedManager(WindowedPool(20, num_window_pages=10), window=2)
    sequence = manager.start(range(10))
    manager.advance(sequence, 6)
    manager.truncate(sequence, 8)
    assert manager.pool.windows.num_free == 5
    with pytest.raises(ValueError, match=r"^length is 4: the window before it has been given back"):
        manager.truncate(sequence, 4)
    manager.check()
    manager.truncate(sequence, 6)
    manager.check()
    assert (manager.pool.full.num_free, manager.pool.windows.num_free) == (14, 7)
    manager.extend(sequence, [99])
    manager.advance(sequence)
    manager.finish(sequence)
    manager.check()


def test_the_audit_finds_a_window_page_that_is_missing():
    manager = WindowedManager(WindowedPool(8, num_window_pages=8), window=2)
    sequence = manager.start([1, 2, 3])
    manager.pool.free_window([sequence.pages[2]])
    with pytest.raises(InvariantError, match=r"^page 2 of sequence 1 has no window page, and needs one"):
        manager.check()


# -- the canary -------------------------------------------------------------------------------------------------------


def windowed_engine(work, tight, draw):
    """An engine with windows for `work`, in pools that are wide or just large enough."""
    least, window = -(-work.longest // work.page_size), draw.randint(1, 9)
    pages = least + draw.randint(0, 3) if tight else least * len(work.asked) + 4
    windows = least + draw.randint(0, 2) if tight or draw.random() < 0.5 else pages
    pool = WindowedPool(pages, windows)
    manager = WindowedManager(pool, window, work.page_size, evict_by=draw.choice(["node", "page"]))
    model = WindowCanaryModel(
        pool, window, work.page_size, vocab_size=VOCAB, canary=Canary(manager.cache, writes=False)
    )
    running = draw.randint(1, 4)
    scheduling = {"max_running": running, "token_budget": draw.randint(running, running + 12)}
    return Engine(model, manager, Scheduler(manager, **scheduling))


def plain_engine(work):
    """The same model without a cache: each page has its window page until it is freed."""
    pages = (-(-work.longest // work.page_size)) * (len(work.asked) + 1) + 4
    pool = WindowedPool(pages, pages)
    manager = CacheManager(pages, work.page_size, NoCache(work.page_size), pool)
    return Engine(
        WindowCanaryModel(pool, 5, work.page_size, vocab_size=VOCAB), manager, Scheduler(manager, max_running=4)
    )


SOME = range(100, 117)


def in_every_way(seeds, audit=None):
    tally, owners, room = Tally(), 0, 0
    for seed in seeds:
        work, draw = workload(seed), random.Random(f"windows {seed}")
        expected = serve(plain_engine(work), work, Tally())
        for tight in (False, True):
            engine = windowed_engine(work, tight, draw)
            for shuffle in (None, random.Random(seed)):
                assert serve(engine, work, tally, shuffle, audit) == expected, f"workload {seed}"
            engine.manager.check()
            assert not engine.manager.sequences
            assert not engine.manager.cache.window_protected_size
            owners, room = owners + engine.model.owners, room + engine.manager.num_window_pages
    return tally, owners / room


def test_the_same_tokens_come_out_and_window_slots_have_had_many_owners():
    """By day with as many workloads as find each of the mistakes below."""
    tally, owners_a_slot = in_every_way(range(100, 200) if NIGHTLY else SOME)
    assert owners_a_slot > 3
    assert min(tally.evictions, tally.preemptions, tally.cached, tally.aborted) > 10


def windows_go_a_page_too_early(patch):
    """The last window keeps a page less than the next token reads."""
    original = WindowedManager.advance

    def advance(self, sequence, num_tokens=None):
        original(self, sequence, num_tokens)
        begin, size = self.live_from(sequence), self.page_size
        if sequence.publishable - begin >= size and sequence.computed < sequence.length:
            self.pool.free_window(sequence.pages[begin // size : begin // size + 1])
            sequence._windows_from = begin + size

    patch.setattr(WindowedManager, "advance", advance)


def windows_are_published_as_if_all_were_there(patch):
    """The tree is not told from which offset on the window's keys and values are still there."""
    patch.setattr(WindowedManager, "live_from", lambda self, sequence: sequence.shared)


def matches_ignore_the_windows(patch):
    """The longest prefix of the full layers is taken for all of them."""
    patch.setattr(SlidingWindowCache, "_find", lambda self, *args: RadixCache._find(self, *args))
    patch.setattr(WindowState, "lacks", lambda self, begin: False)


def a_tombstone_is_healed_without_its_window(patch):
    """The tree takes the duplicate's window for its own, but the map is not changed, and the duplicate is freed."""
    patch.setattr(WindowedPool, "move_window", lambda self, pages, to_pages: None)


MUTANTS = [
    windows_go_a_page_too_early, windows_are_published_as_if_all_were_there, matches_ignore_the_windows,
    a_tombstone_is_healed_without_its_window,
]  # fmt: skip


@pytest.mark.parametrize("plant", MUTANTS, ids=lambda plant: plant.__name__)
def test_the_canary_catches(plant, monkeypatch):
    """No audit runs: the model alone notices that a window slot has another owner; or the pool does, at the latest."""
    plant(monkeypatch)
    with pytest.raises((CanaryError, ValueError)):
        in_every_way(SOME, audit=lambda: None)
