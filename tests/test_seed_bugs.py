"""Bugs of AstrAI's prefix cache that a radix tree could have as well, and one that the notebook only seems to have.

All bugs with a number, and the test that each of them has here, are in seed_bugs.toml.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from minikv import BitmaskPool, FreeListPool, LockError, RadixCache, pack
from minikv.traffic import TraceRequest, replay

pytestmark = pytest.mark.core


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
