"""Two kinds of pages: the pool and its map, a manager whose windows move on, and the canary that sees who is there."""

import random
from unittest import mock

import numpy as np
import pytest
from chats import VOCAB, Tally, serve, workload
from nightly import NIGHTLY
from refusals import said
from test_manager import computed, ran

from minikv import (
    CacheManager,
    Canary,
    Chunk,
    Engine,
    NoCache,
    OutOfPages,
    Scheduler,
    WindowedManager,
    WindowedPool,
)
from minikv.testing.canary import WindowCanaryModel

# -- the pool ---------------------------------------------------------------------------------------------------------


def test_a_page_comes_with_a_window_page_that_may_go_before_it_or_move():
    pool = WindowedPool(4, num_window_pages=3)
    steps = [
        (lambda: pool.alloc(2), [0, 1, -1, -1], (2, 1)),
        (lambda: pool.free_window([0]), [-1, 1, -1, -1], (2, 2)),
        (lambda: pool.move_window([1], [0]), [1, -1, -1, -1], (2, 2)),
        (lambda: pool.alloc(2), [1, -1, 0, 2], (0, 0)),
        (lambda: pool.free([0, 1, 2]), [-1, -1, -1, 2], (3, 2)),
    ]
    assert (pool.size, pool.num_free) == (4, 3)
    for act, window_of, free in steps:
        act()
        pool.check()
        assert (pool.window_of.tolist(), (pool.full.num_free, pool.windows.num_free)) == (window_of, free)


def test_alloc_to_takes_both_kinds_or_none():
    pool, row = WindowedPool(4, num_window_pages=3), memoryview(np.full(4, 9, np.int32))
    assert "OutOfPages: 4 pages needed, but only 3 free" in said(pool.alloc_to, row)
    pool.alloc_to(row[:3])
    assert (row.tolist(), pool.full.num_free, pool.windows.num_free) == ([0, 1, 2, 9], 1, 0)
    with pytest.raises(OutOfPages):
        pool.alloc(1)
    pool.check()


REFUSED = [
    ("free_window", [3], "cannot free the window of pages[0]: page 3 has none"),
    ("free_window", [0, 0], "cannot free the window of pages[1]: page 0 is given twice"),
    ("free_window", [9], "pages[0] is 9"),
    ("move_window", [3], [2], "cannot move the window of pages[0]: page 3 has none"),
    ("move_window", [0], [1], "cannot move a window to to_pages[0]: page 1 is in use with a wi"),
    ("move_window", [0], [3], "cannot move a window to to_pages[0]: page 3 is free"),
    ("move_window", [0, 1], [2], "2 windows for 1 pages: expected a page for each, and none twice"),
    ("move_window", [0, 1], [2, 2], "2 windows for 2 pages: expected a page for each, and none"),
    ("free", [0, 3], "cannot free pages[1]: page 3 is already free"),
]


@pytest.mark.parametrize("row", REFUSED, ids=str)
def test_what_cannot_be_is_refused_and_changes_nothing(row):
    verb, *pages, words = row
    pool = WindowedPool(4, num_window_pages=4)
    pool.alloc(3)
    pool.free_window([2])
    before = pool.window_of.tolist()
    assert said(getattr(pool, verb), *pages).startswith(f"ValueError: {words}")
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
    assert f"InvariantError: {message}" in said(pool.check)


# -- the manager ------------------------------------------------------------------------------------------------------


def managed(num_pages, num_window_pages, window=2, page_size=1):
    return WindowedManager(WindowedPool(num_pages, num_window_pages), window, page_size)


def test_window_pages_come_back_as_a_request_advances():
    manager = managed(20, 10)
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


def test_what_is_no_sequence_does_not_advance():
    assert said(managed(20, 10).advance, 7) == "TypeError: cannot advance 7: expected a sequence that start() returned"


def test_where_window_pages_cannot_be_given_back_nothing_counts_as_computed():
    manager = managed(20, 10)
    sequence = manager.start(range(8))
    with mock.patch.object(manager.pool, "free_window", side_effect=MemoryError), pytest.raises(MemoryError):
        manager.advance(sequence)
    assert (sequence.computed, manager.pool.windows.num_free) == (0, 2)
    manager.check()
    manager.advance(sequence)
    assert (sequence.computed, manager.pool.windows.num_free) == (8, 7)


@pytest.mark.parametrize("page_size", [1, 2, 4])
def test_the_same_prompt_is_found_again_up_to_its_last_page(page_size):
    manager = managed(40, 20, window=3, page_size=page_size)
    ran(manager, range(17))
    manager.check()
    assert manager.start(range(17)).cached_length == 16


def test_a_checkpoint_publishes_what_still_has_its_window():
    manager = managed(20, 20, page_size=2)
    sequence = computed(manager, range(9), 7)
    manager.checkpoint(sequence)
    manager.check()
    assert (sequence.shared, manager.cache.window_protected_size, manager.cache.total_size) == (6, 2, 6)
    manager.advance(sequence)
    manager.finish(sequence)
    manager.check()
    assert manager.start([*range(8), 99]).cached_length == 8


@pytest.mark.parametrize(
    ("num_window_pages", "window", "length", "found"),
    [(24, 1, 4, [4] * 10), (6, 3, 3, [0, 0, 3, 3])],
    ids=["without losing full pages", "by eviction where nothing else helps"],
)
def test_room_for_windows_is_made(num_window_pages, window, length, found):
    manager = managed(64, num_window_pages, window)
    for name in range(len(found)):
        ran(manager, [name] * length)
        manager.check()
    assert [manager.cache.match_prefix([name] * length).length for name in range(len(found))] == found


def test_where_window_pages_are_missing_nothing_is_held():
    manager = managed(64, 6)
    running = manager.start([1, 2, 3, 4])
    assert "OutOfPages: 3 pages needed, but only 2 free and 0 evictable" in said(manager.start, [7, 8, 9])
    assert manager.available_size == 2
    manager.abort(running)
    manager.check()
    ran(manager, [1, 2, 3, 4])
    assert manager.available_size == 6
    manager.abort(manager.start([9] * 6))  # all that there is can be had
    engine = Engine(WindowCanaryModel(manager.pool, 2), manager)
    words = "5 prompt and 3 new tokens need 7 pages: the manager has 6"
    assert words in said(engine.submit, [1, 2, 3, 4, 5], 3)


def test_tokens_are_taken_back_where_their_window_is_still_there():
    """With 6 of 8 tokens computed, the windows of the first 3 are gone: a sequence of 4 tokens would need one."""
    manager = managed(20, 10)
    sequence = computed(manager, range(10), 6)
    manager.truncate(sequence, 8)
    assert manager.pool.windows.num_free == 5
    assert "ValueError: length is 4: the window before it has been given back" in said(manager.truncate, sequence, 4)
    manager.check()
    manager.truncate(sequence, 6)
    manager.check()
    assert (manager.pool.full.num_free, manager.pool.windows.num_free) == (14, 7)
    manager.extend(sequence, [99])
    manager.advance(sequence)
    manager.finish(sequence)
    manager.check()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda m, s: m.pool.free_window([2]), "page 2 of sequence 2 has no window page, and needs one"),
        (lambda m, s: vars(s).update(_windows_from=4), "page 1 of sequence 2 has a window page that nobody needs"),
    ],
)
def test_the_audit_knows_which_pages_need_a_window_page(spoil, words):
    manager = managed(8, 8, page_size=2)
    ran(manager, [1, 2, 3])
    sequence = manager.start([1, 2, 5, 6, 7])
    spoil(manager, sequence)
    assert f"InvariantError: {words}" in said(manager.check)


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


def test_the_same_tokens_come_out_and_window_slots_have_had_many_owners():
    """By day with as many workloads as find a window that goes too early, or is not moved."""
    tally, owners, room = Tally(), 0, 0
    for seed in range(100, 200 if NIGHTLY else 110):
        work, draw = workload(seed), random.Random(f"windows {seed}")
        expected = serve(plain_engine(work), work, Tally())
        for tight in (False, True):
            engine = windowed_engine(work, tight, draw)
            for shuffle in (None, random.Random(seed)):
                assert serve(engine, work, tally, shuffle) == expected, f"workload {seed}"
            engine.manager.check()
            assert not engine.manager.sequences
            assert not engine.manager.cache.window_protected_size
            owners, room = owners + engine.model.owners, room + engine.manager.num_window_pages
    assert owners > 3 * room
    assert min(tally.evictions, tally.preemptions, tally.cached, tally.aborted) > 5


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda pool: pool.window_of.put([1, 2], [2, 1]), "CanaryError: slot 1 is read for token 7 at position 2"),
        (lambda pool: pool.free_window([2]), "CanaryError: slot 2 is read at position 2, but page 2"),
    ],
)
def test_the_canary_sees_that_a_window_has_another_owner_or_none(spoil, words):
    pool = WindowedPool(4, 4)
    model, slots = WindowCanaryModel(pool, 2), pool.alloc(4)
    model.forward([Chunk([5, 6, 7], 0, slots[:3])], None)
    spoil(pool)
    assert said(model.forward, [Chunk([8], 3, slots)], None).startswith(words)
