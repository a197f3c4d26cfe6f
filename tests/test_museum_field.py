"""Bugs that live engines had, by their threads: tests that pass on ours and fail on a re-creation of what they did.

Those that hashed blocks had are in test_museum_hash.py. Which bug has which test is told by seed_field.toml.
"""

import numpy as np
import pytest
from digits import put
from museum import law_by_law, with_windows, without
from project import python
from test_manager import computed, ran
from test_manager_mutants import DoubleReleaseOnAbort, DuplicatesFreedRowKept

from minikv import (
    CacheManager,
    FreeListPool,
    HashBlockCache,
    OutOfPages,
    QueuePool,
    RadixCache,
    SlidingWindowCache,
    WindowedManager,
    WindowedPool,
)
from minikv.prefix.eviction import LeastRecentlyUsed
from minikv.prefix.hash_blocks import extra_keys
from minikv.prefix.windows import Windows

# -- locks ------------------------------------------------------------------------------------------------------------


def the_last_unlock_is_allowed(make):
    """mini-sglang#44: an assertion wants a lock to be left after the unlock, so the one that frees always fails."""
    cache = make()
    match = put(cache, b"123")
    cache.lock(match)
    cache.unlock(match)  # where the assertion of the original fails
    assert (cache.evictable_size, cache.protected_size) == (3, 0)


class WantsALockLeft(RadixCache):
    def unlock(self, handle):
        node = handle.node
        while node.parent is not None:
            assert node.ref_count - 1 > 0
            node = node.parent
        super().unlock(handle)


def a_match_ends_where_it_found_the_last_token(make):
    """mini-sglang#46: a loop reuses the variable of the walk, so the handle of a match is that of the root."""
    cache = make()
    put(cache, b"123")
    cache.lock(cache.match_prefix(b"123").handle)
    assert cache.evict(3).tolist() == []


class HandsOutTheRoot(RadixCache):
    def match_prefix(self, tokens, **options):
        match = super().match_prefix(tokens, **options)
        match.node, match.length = self.root, 0
        return match


def a_lock_holds_the_last_node_too(make):
    """mini-sglang#52: the loop goes to the parent first, so the node at the end of the prefix is never locked."""
    cache = make()
    cache.lock(put(cache, b"12", b"123"))
    assert cache.evict(3).tolist() == []


class LocksFromTheParentOn(RadixCache):
    def _protect(self, handle, path):
        super()._protect(handle, path[1:])


# -- the life of a request --------------------------------------------------------------------------------------------


def two_that_compute_the_same_read_the_same_pages(make):
    """mini-sglang#142: the duplicates of the second are freed, and its row still names them when others get them."""
    manager = make(8)
    first, second = manager.start([1, 2, 3]), manager.start([1, 2, 3])
    for sequence in (first, second):
        manager.advance(sequence)
        manager.checkpoint(sequence)
    stranger = manager.start([7, 7, 7])
    assert not {*second.slots.tolist()} & {*stranger.slots.tolist()}


def room_is_counted_in_one_unit(make):
    """mini-sglang#80: eviction counts tokens and the allocator pages, so too little is evicted."""
    manager = make(4, page_size=4, prefix_cache=RadixCache(4, evict_by="page"))
    ran(manager, range(16))
    with without(OutOfPages):
        assert len(manager.start(range(100, 108)).pages) == 2


class EvictsPagesForTokens(CacheManager):
    def _make_room(self, num_pages, spare=0):
        self._give_back(self.cache.evict(max(0, num_pages - self.pool.num_free)))


def a_request_gives_each_page_back_once(make):
    """sglang#12224: two ways out of a request, and each of them freed its last slot."""
    manager = make(8)
    with without(ValueError):
        manager.abort(computed(manager, [1, 2, 3]))
    assert manager.pool.num_free == 8


def a_request_ends_once(make):
    """mini-sglang: a second finish frees the first one's pages, which the cache has by now: 8 free, and 3 cached."""
    manager = make(8)
    sequence = computed(manager, [1, 2, 3])
    manager.finish(sequence)
    with pytest.raises(ValueError, match="it has already finished"):
        manager.finish(sequence)
    assert (manager.pool.num_free, manager.cache.total_size) == (5, 3)


class FreesItsRowAgain(CacheManager):
    def finish(self, sequence):
        if sequence.state == "running":
            self.row = sequence.pages
            super().finish(sequence)
        else:
            self.pool.free(self.row)


def a_page_that_is_free_goes_before_one_that_is_cached(make):
    """vllm#42656, in a manager: pages without content waited behind cached ones, which were evicted first."""
    manager = make(4, page_size=2, prefix_cache=HashBlockCache(2))
    ran(manager, [1, 2, 3, 4], *([token] for token in range(8)))
    assert manager.cache.match_prefix([1, 2, 3, 4]).length == 4


class EvictsFirst(CacheManager):
    def start(self, tokens, **options):
        self._give_back(self.cache.evict(len(tokens)))
        return super().start(tokens, **options)


def pages_come_back_in_the_order_in_which_they_went(make):
    """vllm#51482: a cleanup made a queue of what was a stack, and servers on TPUs crashed."""
    pool = make(8)
    pages = list(pool.alloc(3))
    pool.free(pages)
    assert list(pool.alloc(3)) == pages


# -- what is found ----------------------------------------------------------------------------------------------------


def hits(manager, *prompts):
    """How many tokens each request finds; they are computed and finish one after the other."""
    found = []
    for prompt in prompts:
        with manager.request(prompt) as sequence:
            found.append(sequence.cached_length)
            manager.advance(sequence)
    return found


def asking_again_finds_as_much(make):
    """vllm#32802: each round of agreeing on a length drops the last block once more, until nothing is left."""
    manager = make(WindowedPool(16, 16), window=2)
    assert hits(manager, *[range(8)] * 3) == [0, 7, 7]


class DropsInEachRound(WindowedManager):
    def start(self, tokens, **options):
        limit, before = len(tokens), None
        while limit != before:
            before = limit
            limit = max(0, self.cache.match_prefix(tokens, limit=limit).length - 1)
        return super().start(tokens, limit=limit, **options)


def a_prompt_that_parts_in_its_last_page_hits_up_to_there(make):
    """vllm#57610: only what an equal prompt would need is kept, so one that differs at its end finds nothing."""
    manager = make(WindowedPool(16, 16), window=4, page_size=4)
    assert hits(manager, range(12), [*range(11), 99]) == [0, 8]


class KeepsTheLastWindowAlone(WindowedManager):
    def advance(self, sequence, num_tokens=None):
        super().advance(sequence, num_tokens)
        begin, end = self.live_from(sequence), sequence.publishable - self.cache.windows.span
        if end > begin:
            self.pool.free_window(sequence.pages[begin // self.page_size : end // self.page_size])
            sequence._windows_from = end


def what_counts_as_evictable_can_be_freed(make):
    """sglang#34870: the frontier of the windows counted N tokens, the tree N - 1, and a slot was lost between them."""
    manager = make(WindowedPool(16, 16), window=2)
    ran(manager, range(8))
    in_use = manager.num_window_pages - manager.pool.windows.num_free
    assert manager.cache.window_evictable_size == in_use


class CountsOneTokenMore(WindowedManager):
    def live_from(self, sequence):
        return max(0, super().live_from(sequence) - 1)


def the_last_page_keeps_its_window(make):
    """sglang#29860: with pages longer than the window, the window of the last leaf was freed before it was cached."""
    manager = make(WindowedPool(16, 16), window=2, page_size=4)
    assert hits(manager, *[range(9)] * 2) == [0, 8]


class FreesUpToTheWindow(WindowedManager):
    def advance(self, sequence, num_tokens=None):
        CacheManager.advance(self, sequence, num_tokens)
        begin, end = self.live_from(sequence), sequence.publishable
        if sequence.length - self.cache.window < end:  # the frontier, and then the page that it is in
            self.pool.free_window(sequence.pages[begin // self.page_size : end // self.page_size])
            sequence._windows_from = end


def what_loses_its_last_window_loses_its_pages(make):
    """sglang#35515: the last window of a branch may go first; its pages stay, and no match finds them again."""
    cache = make(window=2)
    put(cache, b"12345")
    freed = cache.evict(0, window_tokens=5)
    assert (len(freed), cache.total_size) == (5, 0)


class AnyMayGo(Windows):
    def spare(self, state):
        return state.num_free


def less_than_a_page_is_no_error(make):
    """sglang#10637: a prompt shorter than a page is an empty key, and its first page is looked up."""
    cache = make(4)
    with without(IndexError):
        found = [cache.match_prefix(prompt).length for prompt in ([], [1], [1, 2, 3])]
        stored = cache.insert([1, 2], [0]).length
    assert (found, stored, cache.total_size) == ([0, 0, 0], 0, 0)


class AsksTheFirstPage(RadixCache):
    def match_prefix(self, tokens, **options):
        whole = tokens[: len(tokens) // self.page_size * self.page_size]
        assert whole[0] >= 0
        return super().match_prefix(whole, **options)


def nothing_found_is_an_empty_row(make):
    """mini-sglang: the indices of an empty match are a list of no tensors, which cannot be put together."""
    with without(ValueError):
        match = make().match_prefix([1, 2])
    assert (match.pages.tolist(), match.slots.tolist()) == ([], [])


class PutsPartsTogether(RadixCache):
    def match_prefix(self, tokens, **options):
        match = super().match_prefix(tokens, **options)
        match.parts = [np.concatenate([np.frombuffer(part, np.int32) for part in match.parts]).tobytes()]
        return match


# -- what goes --------------------------------------------------------------------------------------------------------


def eviction_stops_at_what_was_asked_for(make):
    """sglang#4987: the loop never counted what it had evicted, and took everything."""
    cache = make(evict_by="page")
    put(cache, b"123456")
    assert len(cache.evict(2)) == 2


class NeverCounts(RadixCache):
    def evict(self, num_tokens):
        freed, evicted = [], 0
        while evicted < num_tokens and self.evictable_size:
            freed += super().evict(1).tolist()
        return freed


def several_parts_go_from_the_end_of_the_last(queue):
    """vllm#48489: to reverse several groups as one list does not reverse each of them."""
    cache = HashBlockCache()
    cache._queue = queue()
    put(cache, b"123", b"19", b"198")
    cache.match_prefix(b"123")
    cache.match_prefix(b"198")
    assert [cache.evict(1).tolist() for _ in range(5)] == [[123], [12], [198], [19], [1]]


class ReversesTheWhole(LeastRecentlyUsed):
    def add(self, path):
        super().add(path[::-1])


# -- hashes -----------------------------------------------------------------------------------------------------------


def another_process_has_the_same_keys(seed):
    """LMCache#1139, vllm#51875: chains began with a random number in each process, so no other process had a hit."""
    script = f"from minikv import HashBlockCache as C; print(C(2, seed={seed}).insert([1, 2], [0]).node.key.hex())"
    keys = set()
    for start in "12":
        done = python("-c", script, PYTHONHASHSEED=start)
        done.check_returncode()
        keys.add(done.stdout)
    assert len(keys) == 1


def names_do_not_run_together(keys):
    """sglang#24638: the name of a tenant and that of an adapter were put behind each other as texts."""
    cache = HashBlockCache()
    put(cache, b"12", namespace=keys(salt="team", lora="7"))
    assert cache.match_prefix(b"12", namespace=keys(salt="team7", lora="")).length == 0


def one_text(salt, lora):
    return salt + lora


def an_image_is_known_by_all_of_its_hash(keys):
    """LMCache#4783: the hash of an image was cut to 16 bits, and two of 65,536 images were one."""
    cache = HashBlockCache()
    put(cache, b"12", namespace=keys(image="77aa0000cat"))
    assert cache.match_prefix(b"12", namespace=keys(image="77aa1111dog")).length == 0


def sixteen_bits(image):
    return extra_keys(image=image[:4])


# -- copies -----------------------------------------------------------------------------------------------------------


def a_copy_on_its_way_holds_what_was_there(later):
    """sglang#27444: a copy was still being read when its memory was given to another request."""
    torch = pytest.importorskip("torch")
    from minikv import KVShape, KVStore

    store = KVStore(KVShape(num_layers=1, num_kv_heads=1, head_dim=2), num_pages=2, dtype="fp32")
    one, other = torch.ones(1, 1, 2), torch.zeros(1, 1, 2)
    store.write(0, [0], one, one)
    host = store.in_host_memory(1)
    host.take_pages(store, [0], [0])
    read = later(store) if later else lambda layer: host.read(layer, [0])
    store.write(0, [0], other, other)
    assert read(0)[0].flatten().tolist() == [1.0, 1.0]


def reads_when_it_is_asked(store):
    return lambda layer: store.read(layer, [0])


MUSEUM = {
    the_last_unlock_is_allowed: (RadixCache, WantsALockLeft),
    a_match_ends_where_it_found_the_last_token: (RadixCache, HandsOutTheRoot),
    a_lock_holds_the_last_node_too: (RadixCache, LocksFromTheParentOn),
    two_that_compute_the_same_read_the_same_pages: (CacheManager, DuplicatesFreedRowKept),
    room_is_counted_in_one_unit: (CacheManager, EvictsPagesForTokens),
    a_request_gives_each_page_back_once: (CacheManager, DoubleReleaseOnAbort),
    a_request_ends_once: (CacheManager, FreesItsRowAgain),
    a_page_that_is_free_goes_before_one_that_is_cached: (CacheManager, EvictsFirst),
    pages_come_back_in_the_order_in_which_they_went: (FreeListPool, QueuePool),
    asking_again_finds_as_much: (WindowedManager, DropsInEachRound),
    a_prompt_that_parts_in_its_last_page_hits_up_to_there: (WindowedManager, KeepsTheLastWindowAlone),
    what_counts_as_evictable_can_be_freed: (WindowedManager, CountsOneTokenMore),
    the_last_page_keeps_its_window: (WindowedManager, FreesUpToTheWindow),
    what_loses_its_last_window_loses_its_pages: (SlidingWindowCache, with_windows(AnyMayGo)),
    less_than_a_page_is_no_error: (RadixCache, AsksTheFirstPage),
    nothing_found_is_an_empty_row: (RadixCache, PutsPartsTogether),
    eviction_stops_at_what_was_asked_for: (RadixCache, NeverCounts),
    several_parts_go_from_the_end_of_the_last: (LeastRecentlyUsed, ReversesTheWhole),
    another_process_has_the_same_keys: ("b''", "str(hash('none'))"),
    names_do_not_run_together: (extra_keys, one_text),
    an_image_is_known_by_all_of_its_hash: (extra_keys, sixteen_bits),
    a_copy_on_its_way_holds_what_was_there: (None, reads_when_it_is_asked),
}


test_ours_holds, test_the_original_does_not = law_by_law(MUSEUM)
