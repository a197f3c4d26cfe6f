"""Whichever call of a pool or a cache fails under a manager, and whatever a pool refuses: nothing is lost."""

import contextlib
import itertools

import pytest
from indexes import MANAGERS
from test_manager import computed, each_size, ran

from minikv import CacheManager, FreeListPool, OutOfPages


class Nth:
    """Lets the k-th call of the pool or the cache fail, before it has done anything."""

    def __init__(self, manager, k):
        self.calls, self.k = 0, k
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
                raise KeyboardInterrupt
            return original(*args, **kwargs)

        return guarded


def busy_day(manager):
    """Everything that can happen to requests: duplicates, eviction, tails, no room."""
    ran(manager, range(8))
    a, b = manager.start([0, 1, 2, 3, 9, 9, 9]), manager.start([0, 1, 2, 3, 9, 9, 9])
    manager.advance(a)
    manager.advance(b, 2)
    manager.checkpoint(a)
    manager.extend(a, [5, 6, 7, 8])
    manager.truncate(a, 9)
    manager.advance(b)
    manager.checkpoint(b)
    manager.abort(b)
    with pytest.raises(OutOfPages):
        manager.start(range(50, 90))
    c = computed(manager, range(20, 26), 5)
    manager.finish(a)
    manager.finish(c)


def assert_all_can_be_had(manager):
    """What is on its way to the pool is available; all comes back when the others are aborted."""
    manager.check()
    owned = sum(len(sequence.owned) for sequence in manager.sequences)
    if not hasattr(manager.pool, "full"):
        there = manager.available_size + manager.cache.protected_size + owned
        assert there == manager.num_pages * manager.page_size
    for sequence in manager.sequences:
        manager.abort(sequence)
    manager.abort(manager.start([99]))  # whatever was on its way to the pool goes with the next pages
    manager.check()
    assert (manager.sequences, manager.cache.protected_size) == ([], 0)
    free = getattr(manager.pool, "full", manager.pool).num_free
    assert free * manager.page_size + manager.cache.total_size == manager.num_pages * manager.page_size


@each_size
@pytest.mark.parametrize("kind", MANAGERS)
def test_whichever_call_fails_nothing_leaks(kind, page_size):
    """The k-th call of the pool or the cache fails, for every k: what then runs can be aborted, and all is there."""
    for k in itertools.count(1):
        manager = MANAGERS[kind](page_size)
        guard = Nth(manager, k)
        with contextlib.suppress(KeyboardInterrupt):
            busy_day(manager)
            break
        assert_all_can_be_had(manager)
    assert guard.calls >= 25
    assert manager.cache.total_size > 8


class Moody(FreeListPool):
    """Refuses pages now and then, and keeps what it was given last."""

    refuses, given = False, None

    def free(self, pages):
        if self.refuses:
            raise MemoryError
        super().free(pages)
        self.given = pages


def test_all_that_a_pool_refused_goes_back_at_once_however_much_it_is():
    manager = CacheManager(1200, pool=Moody(1200))
    sequences = [manager.start([1]) for _ in range(1200)]
    manager.pool.refuses = True
    for sequence in sequences:
        with pytest.raises(MemoryError):
            manager.abort(sequence)
    manager.pool.refuses = False
    manager.abort(manager.start([1, 2, 3]))
    assert manager.pool.num_free == 1200
    manager.check()


def test_a_pool_may_keep_the_pages_that_it_is_given():
    manager = CacheManager(8, page_size=2, pool=Moody(8))
    ran(manager, [1, 2, 3])
    before = list(manager.pool.given)
    manager.start(range(10, 24))  # in the memory of the row that is over
    assert list(manager.pool.given) == before == [1]
