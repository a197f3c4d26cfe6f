"""The bugs of pymllm's radix tree, each as a test that passes on ours and fails on a re-creation of what pymllm does.

The numbers are those under which the bugs were found. P7 is the pool's.
"""

from hashlib import sha256

import pytest
from digits import put
from museum import law_by_law, with_windows, without
from test_manager import ran

from minikv import CacheManager, LockError, OutOfPages, SlidingWindowCache, WindowedPool
from minikv.prefix.windows import Windows


def the_new_branch_hangs_where_the_prompts_part(make):
    """P2: the result of the split is dropped, and the tree serves keys and values of another prompt."""
    cache = make(window=8)
    put(cache, b"1234", b"1299")
    assert cache.match_prefix(b"1299").length == 4
    assert cache.match_prefix(b"123499").length == 4  # it was never inserted, so not 6


class DropsTheSplit(SlidingWindowCache):
    def _split(self, node, num_pages):
        super()._split(node, num_pages)
        return node


def what_can_be_evicted_is_counted_right(make):
    """P1: a leaf that is extended is taken out of the count, and its tokens are counted off again by each lock."""
    cache = make()
    end = put(cache, b"1234", b"123456")
    sizes = [cache.evictable_size]
    cache.lock(end)
    sizes.append(cache.evictable_size)
    cache.unlock(end)
    cache.evict(6)
    assert [*sizes, cache.evictable_size] == [6, 0, 0]


def a_full_cache_makes_room(make):
    """P14: with that count at 0, the engine does not even try to evict, and refuses what would fit."""
    manager = CacheManager(num_pages=6, prefix_cache=make())
    ran(manager, [1, 2, 3, 4], [1, 2, 3, 4, 5, 6])
    with without(OutOfPages):
        assert len(manager.start([7, 7, 7, 7, 7, 7]).slots) == 6


class CountsLeavesAlone(SlidingWindowCache):
    def _link(self, leaf):
        parent = leaf.parent
        if parent.parent is not None and not parent.children:
            self._evictable -= parent.end - parent.parent.end
        return super()._link(leaf)


def branches(cache, first, second):
    """The node behind `first`, of which another prompt makes a node of its own, and the node above it."""
    below = put(cache, first + second).node
    put(cache, first + b"9")
    return below.parent, below


def a_hash_names_everything_before_it(make):
    """P3: where the parent has no hash yet, its tokens are left out, and two prompts have one name."""
    one, other = make(), make()
    (_, below), (above, same) = branches(one, b"12", b"7"), branches(other, b"56", b"7")
    assert one.hashes_of(below) != other.hashes_of(same)
    again = make()
    above, below_again = branches(again, b"12", b"7")
    again.hashes_of(above)
    assert again.hashes_of(below_again) == one.hashes_of(below)  # in whatever order they are asked for


def a_hash_names_the_namespace(make):
    """P3c: two adapters with the same prompt have one name."""
    cache = make()
    first, second = (put(cache, b"12", namespace=name).node for name in ("one", "other"))
    assert cache.hashes_of(first) != cache.hashes_of(second)


class HashesWhatItFinds(SlidingWindowCache):
    def hashes_of(self, node):
        known = vars(self).setdefault("known", {})
        last, found = known.get(node.parent, [b""])[-1], []
        for token in node.tokens:
            last = sha256(last + token.to_bytes(4, "little")).digest()
            found.append(last)
        known[node] = found
        return [name.hex() for name in found]


def a_lock_gives_back_what_it_took(make):
    """P10: lock passes over tombstones and unlock does not; one that comes back to life in between counts to -1."""
    cache = make(window=2)
    put(cache, b"1234")
    early = cache.match_prefix(b"1234")
    put(cache, b"1234567")
    cache.evict(0, window_tokens=4)
    try:
        cache.lock(early)
    except LockError:
        return  # ours: nothing can be computed behind a place without its window
    put(cache, b"1234", plus=9000)
    cache.unlock(early)
    assert cache.window_protected_size == 0


class SkipsTombstones(Windows):
    def lock(self, path, end):
        self.evictable -= 0 if path[0].is_tombstone else min(end, self.span)

    def unlock(self, path, end):
        self.evictable += 0 if path[0].is_tombstone else min(end, self.span)


def what_has_no_window_is_never_matched(make):
    """P12: where the offset equals the length, an off-by-one stores a prefix without any window as live."""
    cache = make(window=2)
    put(cache, b"1234", window_start=4)
    assert cache.match_prefix(b"1234").length == 0


class OffByOne(SlidingWindowCache):
    def insert(self, tokens, pages, *, window_start=0, **options):
        start = 0 if window_start >= len(tokens) else window_start
        return super().insert(tokens, pages, window_start=start, **options)


def half_a_page_is_not_stored(make):
    """P4: an insert that is not whole pages is stored, and can never be matched."""
    cache = make(4)
    cache.insert([1, 2], [0])
    assert (cache.total_size, [len(node.tokens) % 4 for node in cache.nodes()]) == (0, [])


class StoresHalfPages(SlidingWindowCache):
    def insert(self, tokens, pages, **options):
        return super().insert([*tokens, *[0] * (-len(tokens) % self.page_size)], pages, **options)


def a_split_leaves_the_window_with_the_end(make):
    """P8: the state of the end of a sequence goes to the upper half, and the lower one is left without."""
    cache = make(window=2)
    put(cache, b"123456", b"123999", window_start=4)
    assert cache.match_prefix(b"123456").length == 6
    cache.check()


class GivesTheStateUp(Windows):
    def split(self, upper, node):
        super().split(upper, node)
        upper.window.live_from, node.window.live_from = upper.start, node.end


def a_page_in_use_is_not_freed_with_its_neighbour(make):
    """P7b: freeing five tokens of two pages frees both, with three tokens on the second that somebody reads."""
    manager = CacheManager(num_pages=2, page_size=4, prefix_cache=make(4))
    manager.start(range(8))
    with pytest.raises(ValueError, match=r"pages\[2\] is 2"):
        free_tokens(manager, manager.cache, range(5))
    assert manager.pool.num_free == 0


def free_tokens(manager, cache, slots):
    """Give single slots back: our pool takes pages, and half of one cannot be named; pymllm rounds down."""
    manager.pool.free(sorted({slot // 4 for slot in slots}) if isinstance(cache, RoundsDown) else slots)


class RoundsDown(SlidingWindowCache):
    """Stands for pymllm's pool, which frees `ids // page_size`."""


def a_page_is_freed_once(make):
    """P7: what is freed twice is on the free list twice, and two requests get it."""
    pool = make(4, 4)
    first, second = pool.alloc(1), pool.alloc(1)
    pool.free(first)
    with pytest.raises(ValueError, match="already free"):
        pool.free(first)
    assert {*map(int, pool.alloc(3)), *map(int, second)} == {0, 1, 2, 3}


class ConcatenatesWhatIsFreed:
    """pymllm's pool: a list, to whose end comes all that is freed."""

    def __init__(self, num_pages, num_window_pages):
        self.free_pages = list(range(num_pages))

    def alloc(self, count):
        taken, self.free_pages = self.free_pages[:count], self.free_pages[count:]
        return taken

    def free(self, pages):
        self.free_pages += pages


def a_match_counts_as_use(make):
    """P6: with a window, a match does not refresh the recency that its docstring speaks of."""
    cache = make(window=2)
    put(cache, b"11", b"22")
    cache.match_prefix(b"11")
    assert cache.evict(1).tolist() == [2, 22]


class MatchesWithoutUse(SlidingWindowCache):
    def match_prefix(self, tokens, *, limit=None, namespace=None):
        return self._find(tokens, limit, namespace)[0]


def an_unmatched_tail_is_not_used(make):
    """Found later: a match marks a node as used before it splits it, so the tail that it did not match is as young."""
    cache = make()
    put(cache, b"1234", b"56")
    cache.match_prefix(b"12")
    assert cache.evict(2).tolist() == [123, 1234]


class RefreshesTheTail(SlidingWindowCache):
    def _split(self, node, num_pages):
        upper = super()._split(node, num_pages)
        self._order.touch([node])
        return upper


def a_lock_survives_what_would_reset_it(make):
    """P9b: a reset under a live lock is silent, and the unlock behind it dies of an AttributeError."""
    cache = make(window=2)
    end = put(cache, b"12")
    cache.lock(end)
    with pytest.raises(LockError, match="cannot reset"):
        cache.reset()
    cache.unlock(end)


class ResetsInSilence(SlidingWindowCache):
    def reset(self):
        self._clear()


def an_unlock_without_a_lock_is_refused(make):
    """P9c: the count goes to -1, and the next lock protects nothing."""
    cache = make(window=2)
    end = put(cache, b"12")
    with pytest.raises(LockError):
        cache.unlock(end)
    cache.lock(end)
    assert cache.evict(2).tolist() == []


class CountsBelowZero(SlidingWindowCache):
    def unlock(self, handle):
        if handle in self._held:
            super().unlock(handle)
        else:
            handle.node.ref_count -= 1


def no_tombstone_is_left_at_the_end_of_a_path(make):
    """When a leaf goes, pymllm removes the tombstone above it, and leaves those above that."""
    cache = make(window=1)
    put(cache, b"113", window_start=2)
    put(cache, b"11112", window_start=4)
    put(cache, b"111111", window_start=5)
    for _ in range(3):
        cache.evict(1)
    assert (cache.total_size, list(cache.nodes())) == (0, [])


class RemovesOneLevel(SlidingWindowCache):
    def _remove_leaf(self, leaf):
        parent, freed = leaf.parent, []
        for node in (leaf, parent):
            if node is leaf or (node.parent is not None and not node.children and node.is_tombstone):
                self.windows.drop(node)
                freed += super(SlidingWindowCache, self)._remove_leaf(node)
        return freed


def two_images_with_one_text_are_two_prompts(make):
    """The docstring promises isolation by `extra_key`, and no caller in pymllm passes one."""
    manager = CacheManager(num_pages=16, prefix_cache=make(window=2))
    for image in ("cat", "dog"):
        with manager.request([1, 2, 3], namespace=("image", image)) as sequence:
            manager.advance(sequence)
            assert sequence.cached_length == 0


class PassesNoKey(SlidingWindowCache):
    def _root_of(self, namespace):
        return super()._root_of(None)


MUSEUM = {
    the_new_branch_hangs_where_the_prompts_part: DropsTheSplit,
    what_can_be_evicted_is_counted_right: CountsLeavesAlone,
    a_full_cache_makes_room: CountsLeavesAlone,
    a_hash_names_everything_before_it: HashesWhatItFinds,
    a_hash_names_the_namespace: HashesWhatItFinds,
    a_lock_gives_back_what_it_took: with_windows(SkipsTombstones),
    what_has_no_window_is_never_matched: OffByOne,
    half_a_page_is_not_stored: StoresHalfPages,
    a_split_leaves_the_window_with_the_end: with_windows(GivesTheStateUp),
    a_page_in_use_is_not_freed_with_its_neighbour: RoundsDown,
    a_page_is_freed_once: ConcatenatesWhatIsFreed,
    a_match_counts_as_use: MatchesWithoutUse,
    an_unmatched_tail_is_not_used: RefreshesTheTail,
    a_lock_survives_what_would_reset_it: ResetsInSilence,
    an_unlock_without_a_lock_is_refused: CountsBelowZero,
    no_tombstone_is_left_at_the_end_of_a_path: RemovesOneLevel,
    two_images_with_one_text_are_two_prompts: PassesNoKey,
}


OURS = {ConcatenatesWhatIsFreed: WindowedPool}  # all others stand for the index
test_ours_holds, test_the_original_does_not = law_by_law(
    {law: (OURS.get(made, SlidingWindowCache), made) for law, made in MUSEUM.items()}
)
