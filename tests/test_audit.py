"""The audits of managers: each way to lose a page, to own it twice, or to lock it wrongly."""

from array import array
from unittest import mock

import pytest
from test_manager import computed, each_size, ran

from minikv import CacheManager, FreeListPool, InvariantError, RadixCache, TieredCache
from minikv.engine import engine_world


def desk(manager):
    """Pages 0 and 1, of two tokens, are cached; request 2 reads the first, and owns page 2."""
    ran(manager, [1, 2, 3, 4])
    return manager, manager.start([1, 2, 9])


def free_what_is_read(manager, sequence):
    manager.pool.free(manager.cache.evict(2))
    sequence._row.data[:1] = array("i", [1])


def free_what_the_learner_reads(manager, sequence):
    manager.pool.free(manager.cache.evict(2))
    manager.cache.protected, manager.cache.roots[None].children = 0, {}
    manager.pool.free([0])


def becomes(**changes):
    return lambda manager, sequence: vars(sequence).update(changes)


MISTAKES = [
    (lambda m, s: m.pool.alloc(1), "page 3 has no owner: it is neither free, nor cached, nor a sequence's"),
    (lambda m, s: m.pool.free([2]), "page 2 has two owners: the pool, where it is free, and sequence 2"),
    (free_what_is_read, "page 1 has two owners: the pool, .* and the cache, from which sequence 2 reads it"),
    (lambda m, s: m.cache.insert([7, 7], [2]), "page 2 has two owners: node .* of the cache, and sequence 2"),
    (lambda m, s: m.start([5])._row.data.__setitem__(0, 2), "page 2 has two owners: sequence 2, and sequence 3"),
    (lambda m, s: m.cache.acquire([1, 2, 3, 4]), "the sequences read 2 cached tokens, the cache protects 4"),
    (lambda m, s: m.cache.unlock(s._handle), "the sequences read 2 cached tokens, the cache protects 0"),
    (lambda m, s: vars(m).update(_owned=0), "the manager counts 0 pages of its sequences: they have 1"),
    (lambda m, s: vars(m.cache).update(_evictable=9), "evictable_size is 9, but the unlocked nodes hold 2 tokens"),
    (lambda m, s: m.pool._where.__setitem__(3, -1), "page 3 has place -1"),
    (becomes(computed=9), "sequence 2: shared 2, computed 9, 3 tokens, a row of 2 pages, in pages of 2"),
    (becomes(computed=1), "sequence 2: shared 2, computed 1"),
    (becomes(shared=1), "sequence 2: shared 1, computed 2"),
    (becomes(shared=3, computed=3), "sequence 2: shared 3, computed 3"),
    (becomes(_handle=None), "sequence 2 reads 2 cached tokens, its lock protects None"),
    (becomes(length=5), "sequence 2: shared 2, computed 2, 5 tokens, a row of 2 pages"),
    (becomes(length=4), "sequence 2: its length is 4, but it has 3 tokens"),
    (becomes(_first_own=2), "page 2 has no owner"),
    (becomes(_num_pages=1), "page 2 has no owner"),
]


OF_THE_LEARNERS = [
    (lambda m, s: s.row.pop(), "page 2 has no owner: it is lost"),
    (lambda m, s: m.pool.free([2]), "page 2 has two owners: the pool and request 2"),
    (free_what_the_learner_reads, "request 2 reads page 0 from the cache, but the pool has it"),
    (lambda m, s: m.cache.insert([7, 7], [2]), "page 2 has two owners: the cache and request 2"),
    (lambda m, s: m.cache.lock(s.handle), "page 0 has 2 locks and 1 reader"),
    (lambda m, s: m.cache.unlock(s.handle), "page 0 has 0 locks and 1 reader"),
    (becomes(handle=None), "request 2 shares 2 tokens, but it has no lock"),
    (becomes(shared=3), "request 2 shares 3 tokens, but its lock covers 2"),
]
MANAGERS = {CacheManager: MISTAKES, engine_world()["CacheManager"]: OF_THE_LEARNERS}


@pytest.mark.parametrize(("make", "mistake", "said"), [(make, *row) for make in MANAGERS for row in MANAGERS[make]])
def test_a_mistake_is_named_by_our_audit_and_by_the_learners(make, mistake, said):
    manager, sequence = desk(make(6, 2))
    manager.check()
    mistake(manager, sequence)
    with pytest.raises(InvariantError, match=said):
        manager.check()


def test_a_move_that_nobody_waits_for_is_named():
    manager = CacheManager(4, prefix_cache=TieredCache(host_pages=8))
    ran(manager, [1, 2, 3, 4], [5, 6, 7, 8])
    manager.cache.load(manager.cache.acquire([1, 2]), [0, 1])
    with pytest.raises(InvariantError, match="1 move is under way, but the manager waits for 0"):
        manager.check()


@each_size
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


def test_pages_on_their_way_to_the_pool_excuse_no_lock():
    manager = CacheManager(8)
    ran(manager, [1, 2, 3])
    with mock.patch.object(FreeListPool, "free", side_effect=MemoryError), pytest.raises(MemoryError):
        manager.abort(computed(manager, [1, 2, 9]))
    manager.check()
    manager.cache.acquire([1, 2])
    with pytest.raises(InvariantError, match="the sequences read 0 cached tokens, the cache protects 2"):
        manager.check()
