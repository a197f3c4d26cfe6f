"""Two tiers: the laws of host memory under a model of pages, and that without it nothing is different."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from machine import IndexAgainstModel
from nightly import NIGHTLY, by_day
from tiered_machine import Tiered

from minikv import InvariantError, LockError
from minikv.prefix.eviction import POLICIES
from minikv.prefix.host_memory import HostMemory
from minikv.prefix.tiered import WRITES, TieredCache

pytestmark = pytest.mark.core


def hunt(machine, examples=40):
    steps, share = (50, -(-settings().max_examples // 3)) if NIGHTLY else (30, examples)
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=steps, max_examples=share))


@pytest.mark.parametrize("policy", POLICIES)
def test_both_tiers_agree_with_a_model_of_pages(policy):
    hunt(type(f"Tiered_{policy}", (Tiered,), {"policy": policy}), 120 if policy == "lru" else 20)


# How it writes has nothing to write to: by day each policy is tried with one way, and each way with several policies.
ALONE = list(itertools.product(WRITES, POLICIES))
BY_DAY = list(zip(itertools.cycle(WRITES), POLICIES))


@pytest.mark.parametrize(("write", "policy"), by_day(ALONE, lambda pair: pair in BY_DAY))
def test_without_host_memory_it_is_a_radix_cache(policy, write):
    plain = type("Alone", (IndexAgainstModel,), {"policy": policy})
    plain.make = lambda self, page_size, policy, evict_by: TieredCache(page_size, 0, write, 2, policy, evict_by)
    hunt(plain, 10)


def moved(cache):
    """The moves that are due, carried out."""
    found = []
    while (move := cache.next_move()) is not None:
        cache.settle(move)
        found.append((move.src.tolist(), move.dst.tolist()))
    return found


def test_each_policy_copies_out_when_it_says():
    def story(write):
        cache, moves = TieredCache(host_pages=9, write=write, evict_by="page"), []
        for tokens, pages in (([1, 2, 3], [10, 11, 12]), ([1, 2, 4], [20, 21, 13])):
            cache.match_prefix(tokens)
            cache.insert(tokens, pages)
            moves.append([src for src, _ in moved(cache)])
        cache.evict(2)
        return [*moves, [src for src, _ in moved(cache)]]

    assert story("write_back") == [[], [], [[10, 11, 12], [13]]]
    assert story("write_through") == [[[10, 11, 12]], [[13]], []]
    assert story("write_through_selective") == [[], [[10, 11]], []]


def test_chunks_of_a_prompt_count_as_one_use_and_the_second_prompt_copies_it_out():
    """sglang#33714: its threshold was looked at only where a whole prompt was inserted at once."""
    cache = TieredCache(host_pages=9, write="write_through_selective")
    first = cache.insert([1, 2], [10, 11])
    cache.lock(first)
    done = cache.insert([1, 2, 3, 4], [10, 11, 12, 13], start=first)
    cache.unlock(first)
    assert moved(cache) == []
    match = cache.acquire([1, 2, 3, 4, 5])
    cache.insert([1, 2, 3, 4, 5], [0, 0, 0, 0, 14], start=match)
    assert moved(cache) == [([10, 11, 12, 13], [0, 1, 2, 3])]
    assert done.length == 4


def test_room_that_a_move_needs_is_not_made_in_what_another_reads():
    cache = TieredCache(host_pages=3)
    cache.insert([1, 2, 3], [10, 11, 12])
    cache.evict(3)
    moved(cache)
    match = cache.acquire([1, 2, 3])
    back = cache.load(match, [20, 21, 22])
    cache.insert([7, 8], [13, 14])
    cache.evict(2)
    assert cache.next_move() is None
    cache.settle(back)
    cache.insert([7, 8], [13, 14])
    cache.evict(2)
    assert moved(cache) == [([13, 14], [2, 1])]


def test_what_is_wrong_is_said_and_nothing_changes():
    cache, other = TieredCache(host_pages=4), TieredCache(host_pages=4)
    cache.insert([1, 2], [5, 6])
    cache.evict(2)
    move = cache.next_move()
    for act, error, said in (
        (lambda: other.settle(move), LockError, "it is not under way here"),
        (lambda: TieredCache().settle(move), LockError, "there is no host memory"),
        (lambda: cache.load(cache.match_prefix([1]), [7]), LockError, "length 0: it is not locked"),
        (lambda: cache.load(other.acquire([1]), [7]), LockError, "another cache made it"),
        (lambda: cache.load(cache.acquire([1]), [-7]), ValueError, r"pages\[0\] is -7"),
        (lambda: TieredCache(write="back"), ValueError, "write is 'back': expected one of write_back, write_through"),
        (lambda: TieredCache(host_pages=-1), ValueError, "host_pages is -1: host memory has 0 or more pages"),
        (lambda: TieredCache(hot=0), ValueError, "hot is 0"),
        (cache.reset, LockError, "cannot reset: 1 move is under way"),
    ):
        with pytest.raises(error, match=said):
            act()
    cache.settle(move, arrived=False)
    cache.check()
    assert cache.host.pool.num_free == 4


def test_the_audit_finds_a_host_page_with_two_owners_or_none():
    for breaks, said in (
        (lambda host: host.pool.free([0]), "host page 0 has two owners: free, and node 1"),
        (lambda host: host.pool.alloc(1), "host page 2 has no owner"),
        (lambda host: host.index.acquire([1, 2]), "2 tokens are locked in host memory, the 0 moves"),
    ):
        cache = TieredCache(host_pages=4)
        cache.insert([1, 2], [5, 6])
        cache.evict(2)
        moved(cache)
        breaks(cache.host)
        with pytest.raises(InvariantError, match=said):
            cache.check()


# -- and whether the machine would notice ------------------------------------------------------------------------------


def reads_without_a_lock(patch):
    """sglang#27444: a host page is given to another prompt while it is read."""
    begin = HostMemory._begin

    def unlocked(self, move):
        if not move.to_host:
            self.index.unlock(move.held)
            patch.setattr(self.index, "unlock", lambda handle: None)
        return begin(self, move)

    patch.setattr(HostMemory, "_begin", unlocked)


def keeps_what_never_arrived(patch):
    settle = HostMemory.settle
    patch.setattr(HostMemory, "settle", lambda self, move, arrived=True: settle(self, move))


def forgets_the_pages_of_a_move_that_failed(patch):
    original = HostMemory.settle

    def settle(self, move, arrived=True):
        if not arrived and move.to_host:
            self._moves.pop(move)
            return self.index.unlock(move.held)
        return original(self, move, arrived)

    patch.setattr(HostMemory, "settle", settle)


def copies_a_leaf_without_what_is_above_it(patch):
    """It is in host memory, and no prompt reaches it: the other version of the rule, without its bookkeeping."""
    send = TieredCache._send_out
    patch.setattr(TieredCache, "_send_out", lambda self, path, namespace: send(self, path[:1], namespace))


def mixes_namespaces(patch):
    send = TieredCache._send_out
    patch.setattr(TieredCache, "_send_out", lambda self, path, namespace: send(self, path, None))


def never_counts(patch):
    """sglang#4987 and #33714: the count that would make a page hot never gets there."""
    patch.setattr(TieredCache, "hot", property(lambda self: 10**9, lambda self, value: None), raising=False)


PLANTED = (
    reads_without_a_lock,
    keeps_what_never_arrived,
    forgets_the_pages_of_a_move_that_failed,
    copies_a_leaf_without_what_is_above_it,
    mixes_namespaces,
    never_counts,
)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_the_machine_notices(bug, monkeypatch):
    bug(monkeypatch)
    found = settings(stateful_step_count=40, max_examples=400, phases=[Phase.generate], database=None)
    with pytest.raises((AssertionError, LockError, KeyError, ValueError)):
        run_state_machine_as_test(Tiered, settings=found)
