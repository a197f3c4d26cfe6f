"""The bugs of the radix notebook: tests that pass on ours and fail on a re-creation of what it does.

The numbers are those under which the bugs were found; N21 is none, and stands in test_seed_bugs.py.
"""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from digits import put
from museum import law_by_law, without
from test_manager import ran
from test_manager_mutants import NoLock, RoomBeforeLock

from minikv import CacheManager, FreeListPool, OutOfPages, PageTable, RadixCache, common_prefix, pack
from minikv.prefix.radix import _unlocked
from minikv.sizing import kv_heads_per_rank


def lines_of(act):
    """How many lines of Python `act` runs."""
    lines = 0

    def count(frame, event, _):
        nonlocal lines
        lines += event == "line"
        return count

    sys.settrace(count)
    try:
        act()
    finally:
        sys.settrace(None)
    return lines


# -- what is found ----------------------------------------------------------------------------------------------------


def a_match_is_of_the_prompt_that_was_given(make):
    """N1: the walk compares with a global, the prompt of the notebook's own example."""
    cache = make()
    put(cache, b"1234")
    assert [cache.match_prefix(prompt).length for prompt in (b"55", b"129", b"1234")] == [0, 2, 4]


class WalksAnother(RadixCache):
    def match_prefix(self, tokens, **options):
        return super().match_prefix(b"1234", **options)


def equal_keys_agree_in_all_their_tokens(common):
    """N2: the docstring promises -1 for equal keys; its callers rely on the length, which is returned."""
    assert common([1, 2, 3], [1, 2, 3]) == 3


def as_the_docstring_says(a, b):
    return -1 if a == b else common_prefix(a, b)


def a_use_is_a_use_wherever_it_ends(make):
    """N5: a match that ends within an edge returns before the time is noted, so what was just used goes first."""
    cache = make()
    put(cache, b"1234", b"78")
    cache.match_prefix(b"12")
    assert [cache.evict(2).tolist() for _ in range(3)] == [[123, 1234], [7, 78], [1, 12]]


class SplitsWithoutUse(RadixCache):
    def match_prefix(self, tokens, *, limit=None, namespace=None):
        made = self._next_id
        match, path = self._find(tokens, limit, namespace)
        if self._next_id == made:
            self._order.touch(_unlocked(path))
        else:  # what was split is as old as it was: all others are younger
            self._order.touch([node for node in self._order if node not in path and node.parent not in path])
        return match


def what_a_match_does_is_said(make):
    """N6: "this operation will not modify the cache", and then it cuts a node in two."""
    cache = make()
    put(cache, b"123")
    cache.match_prefix(b"1")
    assert len(list(cache.nodes())) == 1 or "split" in type(cache).match_prefix.__doc__


class SaysNothingOfIt(RadixCache):
    def match_prefix(self, tokens, **options):
        """This operation will not modify the cache."""
        return super().match_prefix(tokens, **options)


def a_key_is_the_caches_own(make):
    """N7: keys are views of the caller's tensor; once that is used for other tokens, these are found."""
    cache, buffer = make(), np.array([1, 2, 3, 4])
    cache.insert(buffer, range(4))
    buffer[:] = 9
    assert [cache.match_prefix(prompt).length for prompt in ([1, 2, 3, 4], [9, 9, 9, 9])] == [4, 0]


class KeepsTheBuffer:
    def insert(self, tokens, pages):
        self.key = tokens

    def match_prefix(self, tokens):
        return SimpleNamespace(length=common_prefix(self.key, tokens))


def the_page_size_decides_what_is_shared(make):
    """N15: a page of more tokens only takes more bytes; matches go by the token."""
    cache = make(4)
    cache.insert(range(8), range(2))
    assert cache.match_prefix([0, 1, 2, 3, 4, 9, 9, 9]).length == 4


class GoesByTheToken(RadixCache):
    def __init__(self, page_size=1):
        super().__init__(1)

    def insert(self, tokens, pages, **options):
        return super().insert(tokens, range(len(tokens)), **options)


def long_prompts_are_compared_in_few_steps(make):
    """N17: one comparison of two tensors for each token, 59 milliseconds for 20,000 of them."""
    cache = make()
    cache.insert(range(20_000), range(20_000))
    prompt = pack([*range(19_000), *range(1_000)])
    assert lines_of(lambda: cache.match_prefix(prompt)) < 300


class ComparesTokenByToken(RadixCache):
    def _walk(self, node, data, at_byte, end_byte):
        for child in node.children.values():
            key = child.key_bytes
            for at in range(at_byte, end_byte, 4):
                if key[at : at + 4] != data[at : at + 4]:
                    break
        return super()._walk(node, data, at_byte, end_byte)


def a_half_holds_its_own_alone(make):
    """N20: the halves of a split are views, so a node of ten tokens keeps the 800 kB of the prompt alive."""
    cache = make()
    cache.insert(range(100_000), range(100_000))
    upper = cache.match_prefix(range(10)).handle.node
    (lower,) = upper.children.values()
    held = [len(memoryview(run).obj) for half in (upper, lower) for run in (*half.key_runs, *half.page_runs)]
    assert held == [40, 40, 399_960, 399_960]


class SplitsIntoViews(RadixCache):
    def _split(self, node, num_pages):
        whole = node.key_bytes
        upper = super()._split(node, num_pages)
        upper.key_runs = (memoryview(whole)[: len(upper.key_bytes)],)
        return upper


# -- what goes --------------------------------------------------------------------------------------------------------


def asking_for_too_much_gives_what_there_is(make):
    """N9: a RuntimeError is documented, and an AssertionError raised, which vanishes under `python -O`."""
    cache = make()
    put(cache, b"1")
    with without(RuntimeError):
        assert cache.evict(100).tolist() == [1]


class AssertsThatThereIsEnough(RadixCache):
    def evict(self, num_tokens):
        assert num_tokens <= self.evictable_size
        return super().evict(num_tokens)


def everything_can_be_forgotten(make):
    """N10: `reset` is there and raises NotImplementedError."""
    cache = make()
    put(cache, b"1")
    with without(NotImplementedError):
        cache.reset()
    assert cache.total_size == 0


class HasNoReset(RadixCache):
    def reset(self):
        raise NotImplementedError


def evicting_one_leaf_looks_at_one(make):
    """N18: each eviction goes through the whole tree for its leaves."""
    cache = make()
    for token in range(500):
        cache.insert([token], [token])
    assert lines_of(lambda: cache.evict(1)) < 100


class LooksAtAllLeaves(RadixCache):
    def evict(self, num_tokens):
        leaves = [node for node in self.nodes() if not node.children and not node.ref_count]
        assert min(leaves, key=lambda node: node.last_used) is self._order.first()
        return super().evict(num_tokens)


# -- room -------------------------------------------------------------------------------------------------------------


def what_was_found_is_not_evicted_for_the_rest(make):
    """N12: the match is not locked, so its slots make room for the same request, and hold two tokens each."""
    manager = make(4)
    ran(manager, [1, 2, 3, 4])
    try:
        slots = manager.start([1, 2, 7, 8, 9]).slots.tolist()
    except OutOfPages:
        return
    assert len({*slots}) == 5


def room_is_looked_for_when_the_match_is_locked(make):
    """N13: six tokens can be evicted before the lock and two after it, so what was promised is not there."""
    manager = make(6)
    ran(manager, [1, 2, 3, 4, 5, 6])
    with pytest.raises(OutOfPages):
        manager.start([1, 2, 3, 4, 7, 7, 7, 7])
    assert manager.cache.protected_size == 0


class Trusting:
    """The notebook's slots: a tensor of those that are free, its head is taken, and what is freed comes behind it."""

    def __init__(self, size):
        self.free_slots = np.arange(size)

    def alloc(self, count):
        slots = np.empty(count, np.int64)
        slots[:], self.free_slots = self.free_slots[:count], self.free_slots[count:]
        return slots

    def free(self, slots):
        self.free_slots = np.concatenate([self.free_slots, slots])


def seven_tokens_have_seven_slots(make):
    """N3: with one slot left, the tensor is broadcast: all seven tokens have the same one."""
    pool = make(8)
    pool.alloc(7)
    with pytest.raises(OutOfPages):
        pool.alloc(7)


def a_slot_is_freed_once(make):
    """N3c: a double free is accepted, so there are 11 slots in a pool of 8, and two requests get the same."""
    pool = make(8)
    slots = pool.alloc(3)
    pool.free(slots)
    with pytest.raises(ValueError, match="already free"):
        pool.free(slots)


def a_rank_has_whole_heads(heads):
    """N4: 8 heads among 16 ranks are half a head each, and the cache is planned for half the bytes that it takes."""
    assert heads(8, 16) == 1
    try:
        heads(8, 3)
    except ValueError:
        return
    pytest.fail("8 heads among 3 ranks")


def divides_heads(num_heads, ranks):
    return num_heads / ranks


def a_cell_that_was_not_filled_is_no_slot(make):
    """N19: the page table is made of zeros, and slot 0 is handed out like any other."""
    assert (make(2, 3)._table < 0).all()


def made_of_zeros(num_rows, max_length):
    return SimpleNamespace(_table=np.zeros((num_rows, max_length), np.int32))


MUSEUM = {
    a_match_is_of_the_prompt_that_was_given: (RadixCache, WalksAnother),
    equal_keys_agree_in_all_their_tokens: (common_prefix, as_the_docstring_says),
    a_use_is_a_use_wherever_it_ends: (RadixCache, SplitsWithoutUse),
    what_a_match_does_is_said: (RadixCache, SaysNothingOfIt),
    a_key_is_the_caches_own: (RadixCache, KeepsTheBuffer),
    the_page_size_decides_what_is_shared: (RadixCache, GoesByTheToken),
    long_prompts_are_compared_in_few_steps: (RadixCache, ComparesTokenByToken),
    a_half_holds_its_own_alone: (RadixCache, SplitsIntoViews),
    asking_for_too_much_gives_what_there_is: (RadixCache, AssertsThatThereIsEnough),
    everything_can_be_forgotten: (RadixCache, HasNoReset),
    evicting_one_leaf_looks_at_one: (RadixCache, LooksAtAllLeaves),
    what_was_found_is_not_evicted_for_the_rest: (CacheManager, NoLock),
    room_is_looked_for_when_the_match_is_locked: (CacheManager, RoomBeforeLock),
    seven_tokens_have_seven_slots: (FreeListPool, Trusting),
    a_slot_is_freed_once: (FreeListPool, Trusting),
    a_rank_has_whole_heads: (kv_heads_per_rank, divides_heads),
    a_cell_that_was_not_filled_is_no_slot: (PageTable, made_of_zeros),
}


test_ours_holds, test_the_original_does_not = law_by_law(MUSEUM)
