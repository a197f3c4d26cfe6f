"""The audit of owners: each way to lose a page, to own it twice, or to lock it wrongly is named."""

from __future__ import annotations

import pytest

from minikv import InvariantError
from minikv.engine import engine_world

pytestmark = pytest.mark.core

OWN = engine_world()


def desk():
    """Six pages of two tokens: pages 0 and 1 are cached, and request 2 reads the first and owns page 2."""
    manager = OWN["CacheManager"](6, 2)
    manager.advance(first := manager.start([1, 2, 3, 4]))
    manager.finish(first)
    return manager, manager.start([1, 2, 9])


def drop_a_page(manager, sequence):
    sequence.row.pop()


def free_its_own(manager, sequence):
    manager.pool.free([2])


def free_what_is_read(manager, sequence):
    manager.pool.free(manager.cache.evict(2))
    manager.cache.protected, manager.cache.roots[None].children = 0, {}
    manager.pool.free([0])


def cache_its_own(manager, sequence):
    manager.cache.insert([7, 7], [2])


def lock_twice(manager, sequence):
    manager.cache.lock(sequence.handle)


def unlock(manager, sequence):
    manager.cache.unlock(sequence.handle)


def forget_the_lock(manager, sequence):
    sequence.handle = None


def share_one_more(manager, sequence):
    sequence.shared += 1


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (drop_a_page, "page 2 has no owner: it is lost"),
        (free_its_own, "page 2 has two owners: the pool and request 2"),
        (free_what_is_read, "request 2 reads page 0 from the cache, but the pool has it"),
        (cache_its_own, "page 2 has two owners: the cache and request 2"),
        (lock_twice, "page 0 has 2 locks and 1 reader"),
        (unlock, "page 0 has 0 locks and 1 reader"),
        (forget_the_lock, "request 2 shares 2 tokens, but it has no lock"),
        (share_one_more, "request 2 shares 3 tokens, but its lock covers 2"),
    ],
)
def test_a_mistake_is_named(mistake, said):
    manager, sequence = desk()
    manager.check()
    mistake(manager, sequence)
    with pytest.raises(InvariantError, match=said):
        manager.check()
