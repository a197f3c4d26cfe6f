"""The bugs of the two systems that this course began from, each as a test that would catch it here.

A is AstrAI's prefix cache, N the radix notebook. A bug that is caught already stands there under the same name: A1,
A4, A4b, N1, N5, N7 among the scenarios of minikv/testing/conformance; A6, N3, N3c in test_pools.py; N3, N19 in
test_page_table.py; N4 in test_sizing.py. Copying (A7) and the manager (N12, N13 as a whole) come with their chapters.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from minikv import BitmaskPool, FreeListPool, LockError, RadixCache, common_prefix, pack
from minikv.measure import TraceRequest, replay


def test_a3_what_is_evicted_leaves_no_ghosts():
    """50 inserts into a cache for 10: AstrAI keeps 48 dead nodes linked from its root, and 8 of its 10 live ones."""
    cache = RadixCache()
    for i in range(50):
        cache.insert([i, i], [2 * i, 2 * i + 1])
        if cache.total_size > 10:
            cache.evict(cache.total_size - 10)
        cache.check()
    assert sum(len(node.slots) for node in cache.nodes()) == cache.total_size == 10
    assert len(list(cache.nodes())) == len(cache.root.children) == len(list(cache._order)) == 5
    assert all(cache.match_prefix([i, i]).length == 2 for i in range(45, 50))


@pytest.mark.parametrize("evict_by", ["node", "page"])
def test_a13_a_prompt_longer_than_the_capacity_does_not_evict_itself(evict_by):
    trace = [TraceRequest(0, 1, 1, pack(blocks)) for blocks in ([1, 2], range(100, 110), [1, 2])]
    result = replay(trace, RadixCache(evict_by=evict_by), capacity=4)
    assert (result.hits, result.uncached_requests, result.evicted) == (2, 1, 0)


def test_a5_a_bitmask_touches_few_words_however_large_the_pool():
    """AstrAI's mask is one long integer, written anew for every slot: 133,360 bytes at a million slots."""
    pool = BitmaskPool(1_000_000)
    assert len(pool._levels) == 4
    assert max(sys.getsizeof(word) for level in pool._levels for word in level[:100]) <= 36
    pool.alloc(70)
    pool.check()


def test_a10_unlocking_what_is_not_there_is_an_error_not_a_silence():
    cache = RadixCache()
    handle = cache.insert([1, 2], [0, 1]).handle
    cache.evict(2)
    for verb in (cache.lock, cache.unlock):
        with pytest.raises(LockError):
            verb(handle)


def test_a11_a_caller_that_must_compute_one_token_asks_for_all_but_the_last():
    cache = RadixCache()
    cache.insert([1, 2, 3], [0, 1, 2])
    assert cache.match_prefix([1, 2, 3]).length == 3
    assert cache.match_prefix([1, 2, 3][:-1]).length == 2
    assert cache.match_prefix(pack([1, 2, 3])[:-1]).length == 2


def test_a12_a_long_prompt_is_one_node():
    """As a trie, 20,000 tokens are 20,000 nodes."""
    cache = RadixCache()
    cache.insert(range(20_000), range(20_000))
    assert len(list(cache.nodes())) == 1


def test_n2_equal_keys_agree_in_all_their_tokens():
    """The notebook's docstring promises -1 for equal keys and returns the length, on which its callers rely."""
    assert common_prefix([1, 2, 3], [1, 2, 3]) == 3
    assert "number of leading tokens" in common_prefix.__doc__


def test_n6_the_docstring_says_that_a_match_may_split():
    """ "This operation will not modify the cache", says the notebook, and then cuts a node in two."""
    cache = RadixCache()
    cache.insert([1, 2, 3], [0, 1, 2])
    cache.match_prefix([1])
    assert len(list(cache.nodes())) == 2
    assert "split" in RadixCache.match_prefix.__doc__


def test_n9_asking_to_evict_more_than_there_is_gives_what_there_is():
    """The notebook documents a RuntimeError and raises an AssertionError, which vanishes under python -O."""
    cache = RadixCache()
    cache.insert([1], [7])
    assert cache.evict(100).tolist() == [7]


def test_n10_reset_is_there():
    cache = RadixCache()
    cache.insert([1], [0])
    cache.reset()
    assert cache.total_size == 0


def test_n12_a_locked_match_is_not_evicted_to_make_room_for_its_own_request():
    """Without the lock, slot 0 becomes both the matched prefix and the new token."""
    pool, cache = FreeListPool(4), RadixCache()
    cache.insert([1, 2, 3, 4], pool.alloc(4))
    match = cache.match_prefix([1, 2, 9])
    cache.lock(match.handle)
    pool.free(cache.evict(1))
    new = pool.alloc(1)
    assert not set(match.slots.tolist()) & set(new.tolist())
    cache.check()


def test_n13_what_can_be_evicted_is_known_only_after_the_lock():
    """Before the lock all six tokens seem evictable; after it, two. Check the room after locking."""
    cache = RadixCache()
    cache.insert([1, 2, 3, 4, 5, 6], range(6))
    assert cache.evictable_size == 6
    match = cache.match_prefix([1, 2, 3, 4])
    cache.lock(match.handle)
    assert (cache.evictable_size, len(cache.evict(4))) == (2, 2)


def test_n15_the_page_size_decides_what_is_shared():
    """In the notebook it only scales bytes."""
    shared = {}
    for page_size in (1, 2, 4, 8):
        cache = RadixCache(page_size)
        cache.insert(range(8), range(8 // page_size))
        shared[page_size] = cache.match_prefix([0, 1, 2, 3, 4, 9, 9, 9]).length
    assert shared == {1: 5, 2: 4, 4: 4, 8: 0}


def test_n17_comparing_is_logarithmic_in_steps_of_python(monkeypatch):
    """The notebook compares token by token, each a tensor: 59 ms for 20,000 of them. Here the steps are counted."""
    cache = RadixCache()
    cache.insert(range(20_000), range(20_000))
    prompt, lines = pack([*range(19_000), *range(1_000)]), 0

    def count(frame, event, _):
        nonlocal lines
        lines += event == "line"
        return count

    sys.settrace(count)
    try:
        match = cache.match_prefix(prompt)
    finally:
        sys.settrace(None)
    assert match.length == 19_000
    assert lines < 300


def test_n20_the_halves_of_a_split_hold_only_their_own():
    """The notebook's halves are views: a node of ten tokens keeps the 800 kB of the whole prompt alive."""
    cache = RadixCache()
    cache.insert(range(100_000), range(100_000))
    upper = cache.match_prefix(range(10)).handle.node
    assert type(upper.key_bytes) is type(upper.page_bytes) is bytes, "a copy, and no view"
    assert len(upper.key_bytes) == len(upper.page_bytes) == 40
    (lower,) = upper.children.values()
    assert len(lower.key_bytes) == len(lower.page_bytes) == 4 * 99_990


def test_n21_two_requests_with_the_same_prompt_lose_no_slot():
    """Checked and not a bug in the notebook: both compute, one's slots stay, the other's are given back."""
    pool, cache = FreeListPool(16), RadixCache()
    prompt = [1, 2, 3, 4]
    rows = [pool.alloc(4) for _ in range(2)]
    for row in rows:
        done = cache.insert(prompt, row)
        pool.free(row[: done.prefix_length])
    assert pool.num_free + cache.total_size == pool.size
    assert np.array_equal(cache.match_prefix(prompt).slots, rows[0])
