"""The ledger and the canary: each planted mistake is found at the operation that makes it, and explained."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from minikv import BitmaskPool, CacheManager, FreeListPool, OutOfPages, QueuePool, RadixCache
from minikv.testing.canary import Canary, CanaryError, fingerprints
from minikv.testing.ledger import Ledger, LedgerError

pytestmark = pytest.mark.core


class Trusting:
    """The notebook's pool: a stack of free pages, which believes what it is told."""

    def __init__(self, size):
        self.size, self.stack = size, list(range(size))[::-1]

    def alloc(self, num_pages):
        return [self.stack.pop() for _ in range(num_pages)]

    def free(self, pages):
        self.stack.extend(pages)

    def is_free(self, page):
        return page in self.stack


class Own(Trusting):
    """A learner's pool, written in the natural way: `alloc_to` calls `alloc`, and `alloc` gives an array."""

    def alloc(self, num_pages):
        if num_pages > len(self.stack):
            raise OutOfPages(num_pages, len(self.stack))
        return np.array([self.stack.pop() for _ in range(num_pages)])

    def alloc_to(self, out):
        out[:] = array("i", self.alloc(len(out)))

    def check(self):
        """Nothing to check."""

    @property
    def num_free(self):
        return len(self.stack)


def world(pool=FreeListPool, size=12):
    pool, cache = pool(size), RadixCache()
    return pool, cache, Ledger(pool, cache)


def test_a_clean_life_leaves_nothing_with_the_caller():
    pool, cache, ledger = world()
    slots = pool.alloc(4)
    assert ledger.callers == [0, 1, 2, 3]
    assert str(ledger.owner(1)) == "the caller's since operation 1 (alloc 4)"
    done = cache.insert([1, 2, 3], slots[:3])
    pool.free(slots[done.length :])
    pool.free(cache.evict(3))
    assert ledger.callers == []
    assert str(ledger.owner(0)) == "free since operation 5 (free [0, 1, 2])"
    assert str(ledger.owner(9)) == "free from the start"
    ledger.check()
    ledger.close()
    assert not {"alloc", "insert"} & {*vars(pool), *vars(cache)}


def test_caching_the_same_slot_for_two_prompts():
    pool, cache, _ = world()
    slots = pool.alloc(2)
    cache.insert([1, 2], slots)
    with pytest.raises(LedgerError, match=r"(?s)cached now, and cached since operation 2 \(insert \[1, 2\]\)"):
        cache.insert([5, 6], slots)


def test_caching_a_slot_that_no_pool_has():
    _, cache, _ = world()
    with pytest.raises(LedgerError, match="slot 99 is cached now, but the pool has slots 0 to 11"):
        cache.insert([1], [99])


def test_a_pool_that_gives_out_what_is_in_use():
    """N3c: after a double free the notebook's pool hands out the same slot twice."""
    pool, _, _ = world(Trusting)
    slots = pool.alloc(2)
    pool.free(slots[:1])
    with pytest.raises(
        LedgerError, match=r"(?s)slot 0 has two owners:\ngiven back to the pool, and free since operation 2"
    ):
        pool.free(slots[:1])


def test_a_tree_that_loses_a_node():
    pool, cache, ledger = world()
    cache.insert([1, 2], pool.alloc(2))
    cache.root.children.clear()
    with pytest.raises(LedgerError, match=r"slot 0 has no owner:\ncached since operation 2.*, but no node holds it"):
        ledger.check()


def test_two_nodes_that_hold_one_slot():
    pool, cache, ledger = world()
    cache.insert([1], pool.alloc(1))
    node = cache.insert([2], pool.alloc(1)).handle.node
    node.page_runs = (array("i", [0]).tobytes(),)
    with pytest.raises(LedgerError, match=r"slot 0 has two owners:\nnode 1 \[1\], and node 2 \[2\]"):
        ledger.check()


def test_a_pool_that_forgets():
    pool, _, ledger = world()
    pool.alloc(3)
    pool.num_free += 1
    at = pool.size - pool.num_free
    pool._memory[at], pool._where[1] = 1, at
    with pytest.raises(LedgerError, match="slot 1: the pool has it as free, but it is\nthe caller's since operation 1"):
        ledger.check()


def test_sequences_own_what_the_caller_took():
    pool, cache = FreeListPool(8), RadixCache()
    running = {}
    ledger = Ledger(pool, cache, sequences=lambda: running)
    running["a"] = pool.alloc(2)
    ledger.check()
    running["b"] = running["a"]
    with pytest.raises(LedgerError, match=r"slot 0 has two owners:\nsequence 'a', and sequence 'b'"):
        ledger.check()
    running["b"] = [7]
    with pytest.raises(LedgerError, match=r"slot 7 has two owners:\nsequence 'b', and free from the start"):
        ledger.check()


@pytest.mark.parametrize("given", [{}, {"page_size": 2}], ids=["the cache's size", "given"])
def test_a_page_is_several_slots(given):
    pool, cache = FreeListPool(4), RadixCache(page_size=2)
    ledger = Ledger(pool, cache, **given)
    pool.alloc(2)
    assert ledger.callers == [0, 1, 2, 3]
    cache.insert([1, 2], [1])
    assert ledger.callers == [0, 1]
    with pytest.raises(LedgerError, match="slot 2 has two owners"):
        pool.free([1])


def test_a_page_taken_out_of_a_queue_is_the_takers():
    pool, cache = QueuePool(4), RadixCache()
    ledger = Ledger(pool, cache)
    pool.occupy(2)
    assert ledger.callers == [2]


class Broken:
    """A pool that gives out what it is told to."""

    size = 4

    def __init__(self, gives):
        self.gives = gives

    def alloc(self, num_pages):
        return self.gives

    def free(self, pages):
        """Anything goes."""

    def is_free(self, page):
        return True


def test_slots_that_no_pool_has_are_named():
    for act in (lambda pool: pool.alloc(1), lambda pool: pool.free([77])):
        pool = Broken([77])
        Ledger(pool, RadixCache())
        with pytest.raises(LedgerError, match=r"slot 77 is given .*, but the pool has slots 0 to 3"):
            act(pool)
    pool, cache = FreeListPool(4), RadixCache()
    ledger = Ledger(pool, cache)
    cache.insert([1], pool.alloc(1)).handle.node.page_runs = (array("i", [50]).tobytes(),)
    with pytest.raises(LedgerError, match=r"slot 50 is held by node 1 \[1\], but the pool has slots 0 to 3"):
        ledger.check()


def test_one_page_given_out_twice_in_one_operation():
    pool = Broken([1, 1])
    Ledger(pool, RadixCache())
    with pytest.raises(LedgerError, match="slot 1 has two owners:\ngiven out by the pool, twice in one operation"):
        pool.alloc(2)


def test_what_no_sequence_has_is_a_leak():
    pool, cache = FreeListPool(4), RadixCache()
    ledger = Ledger(pool, cache, sequences=dict)
    pool.alloc(2)
    with pytest.raises(LedgerError, match=r"slot 0 has no owner:\nthe caller's since operation 1.*no sequence has it"):
        ledger.check()


def test_a_ledger_that_cannot_begin_leaves_nothing_behind():
    pool, cache = FreeListPool(4), RadixCache()
    pool.alloc(1)
    with pytest.raises(LedgerError, match="the pool has it as in use, but it is\nfree from the start"):
        Ledger(pool, cache)
    assert "alloc" not in vars(pool)
    with pytest.raises(ValueError, match="page_size is 0"):
        Ledger(FreeListPool(4), cache, page_size=0)


def test_a_complaint_is_not_entered_in_the_book():
    pool, cache, ledger = world(Trusting)
    slots = pool.alloc(2)
    cache.insert([1], slots[:1])
    with pytest.raises(LedgerError, match="slot 0 has two owners"):
        cache.insert([5, 6], slots[::-1])
    assert str(ledger.owner(1)) == "the caller's since operation 1 (alloc 2)"


def test_an_operation_that_fails_moves_nothing():
    pool, cache, ledger = world()
    with pytest.raises(ValueError, match="1 pages for 2 tokens"):
        cache.insert([1, 2], [0])
    with pytest.raises(ValueError, match="already free"):
        pool.free([0])
    assert (ledger.step, ledger.callers) == (2, [])


def test_reset_gives_the_slots_to_the_caller():
    pool, cache, ledger = world()
    cache.insert([1, 2], pool.alloc(2))
    cache.reset()
    assert ledger.callers == [0, 1]


@pytest.mark.parametrize("make", [FreeListPool, QueuePool, BitmaskPool, Own])
def test_any_pool_is_watched_under_a_manager(make):
    """An `alloc_to` that calls `alloc` gives pages out once."""
    pool, cache = make(8), RadixCache()
    with Ledger(pool, cache) as ledger:
        manager = CacheManager(8, 1, cache, pool)
        for prompt in ([1, 2, 3], [1, 2, 4], [5, 6, 7, 8, 9]):
            request = manager.start(prompt)
            manager.advance(request)
            manager.extend(request, [7])
            manager.finish(request)
        aborted = manager.start([1, 2, 3, 3])
        assert len(ledger.callers) == aborted.length - aborted.shared
        manager.abort(aborted)
        assert ledger.callers == []


@pytest.mark.parametrize("make", [QueuePool, BitmaskPool, Own])
def test_a_pool_whose_alloc_to_keeps_what_its_alloc_gave_out_is_blamed(make):
    class Forgets(make):
        def alloc_to(self, out):
            out[:] = array("i", self.alloc(len(out) + 1)[1:])

    _, _, ledger = world(Forgets)
    row = memoryview(array("i", [0, 0]))
    with pytest.raises(LedgerError, match=r"operation 1, alloc_to.*: the pool has it as in use, but it is\nfree"):
        ledger._pool.alloc_to(row)


# -- the canary ------------------------------------------------------------------------------------------------------


def test_a_slot_is_good_for_its_own_prefix_only():
    canary = Canary()
    canary.write([1, 2, 3], [0, 1, 2])
    canary.read([1, 2], [0, 1])
    canary.write([9], [5])
    with pytest.raises(CanaryError, match=r"(?s)slot 1 is read for token 2 at position 1.*after another prefix"):
        canary.read([9, 2], [5, 1])
    with pytest.raises(CanaryError, match=r"(?s)slot 2 is read for token 1 at position 0.*holds token 3 at position 2"):
        canary.read([1], [2])
    with pytest.raises(CanaryError, match="nothing was ever computed into it"):
        canary.read([1], [7])
    with pytest.raises(CanaryError, match="3 slots are read for the 2 tokens"):
        canary.read([1, 2], [0, 1, 2])


def test_namespaces_have_other_keys_and_values():
    canary = Canary()
    canary.write([1, 2], [0, 1], namespace="lora")
    canary.read([1, 2], [0, 1], namespace="lora")
    with pytest.raises(CanaryError, match="after another prefix"):
        canary.read([1, 2], [0, 1])


def test_a_cache_that_serves_another_prompt_is_caught_at_once():
    cache = RadixCache()
    canary = Canary(cache)
    cache.insert([1, 2, 3], [0, 1, 2])
    cache.root.children[b"\1\0\0\0"].page_runs = (array("i", [0, 0, 2]).tobytes(),)
    with pytest.raises(
        CanaryError, match=r"(?s)operation 2, match_prefix \[1, 2\].*written by operation 1 \(insert \[1, 2, 3\]\)"
    ):
        cache.match_prefix([1, 2])
    canary.close()
    cache.match_prefix([1, 2])


def test_namespaces_that_are_equal_are_one_and_those_that_look_alike_are_two():
    class Tenant:
        def __repr__(self):
            return "Tenant"

    cache = RadixCache()
    with Canary(cache) as canary:
        cache.insert([1, 2], [0, 1], namespace=1)
        assert cache.match_prefix([1, 2], namespace=True).length == 2
        one, other = Tenant(), Tenant()
        canary.write([1], [9], namespace=one)
        with pytest.raises(CanaryError, match="after another prefix"):
            canary.read([1], [9], namespace=other)


def test_an_engine_writes_by_itself():
    cache = RadixCache()
    canary = Canary(cache, writes=False)
    with pytest.raises(CanaryError, match="nothing was ever computed"):
        cache.insert([1, 2], [0, 1])
    cache.reset()
    canary.write([1, 2], [0, 1])
    cache.insert([1, 2], [0, 1])
    assert cache.match_prefix([1, 2]).length == 2


def test_fingerprints_chain():
    assert fingerprints([1, 2])[0] == fingerprints([1, 3])[0]
    assert fingerprints([]) == []


def test_the_verbs_without_an_array_are_seen_too():
    pool, cache, row = FreeListPool(4), RadixCache(), memoryview(array("i", [0] * 3))
    ledger, canary = Ledger(pool, cache), Canary(cache)
    pool.alloc_to(row)
    assert ledger.callers == [0, 1, 2]
    cache.insert([1, 2, 3], row)
    cache.unlock(cache.acquire([1, 2]))
    assert cache.evict(1).tolist() == ledger.callers == [2]
    canary.close()
    cache.root.children[b"\1\0\0\0"].page_runs = (array("i", [1, 0]).tobytes(),)
    with Canary(cache, writes=False) as fresh, pytest.raises(CanaryError, match="nothing was ever computed"):
        cache.acquire([1, 2])
    assert fresh.step == 1
