"""The sliding-window index, rule by rule: what a match needs, what a lock holds, what goes first, what comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from window_pool import WindowLedger

from minikv import CacheManager, InvariantError, LockError, SlidingWindowCache
from minikv.prefix.windows import WindowNode

pytestmark = pytest.mark.core


def tombstones(cache):
    """For each node its edge, with a dot in the place of every token whose window has gone."""
    found = []
    for node in cache.nodes():
        dead = node.window.live_from - node.start
        found.append("".join("." if i < dead else str(token) for i, token in enumerate(node.tokens)))
    return found


def two_turns(**options):
    """A head of four tokens that two answers of four go on from; the windows of the head have gone."""
    cache = SlidingWindowCache(window=2, **options)
    cache.insert([1, 2, 3, 4, 5, 5, 5, 5], range(8), window_start=4)
    cache.insert([1, 2, 3, 4, 6, 6, 6, 6], [0, 1, 2, 3, 8, 9, 10, 11], window_start=4)
    assert tombstones(cache) == ["....", "5555", "6666"]
    return cache


# -- match ------------------------------------------------------------------------------------------------------------


def test_a_match_ends_only_where_the_last_window_is_there():
    cache = two_turns()
    lengths = {end: cache.match_prefix([1, 2, 3, 4, 5, 5, 5, 5], limit=end).length for end in range(9)}
    assert lengths == {0: 0, 1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 6, 7: 7, 8: 8}
    cache.check()


def test_a_path_shorter_than_the_window_is_valid_as_long_as_nothing_of_it_has_gone():
    """P13: the counter begins at infinity, at the root; a tombstone sets it to zero."""
    cache = SlidingWindowCache(window=100)
    cache.insert([1, 2, 3], [0, 1, 2])
    assert cache.match_prefix([1, 2, 9]).length == 2


def test_a_match_falls_back_to_the_last_place_before_a_tombstone():
    cache = SlidingWindowCache(window=2)
    cache.insert([1, 2, 3], range(3))
    cache.insert([1, 2, 3, 4, 5, 6, 7], range(7), window_start=5)
    assert tombstones(cache) == ["123", "..67"]
    assert cache.match_prefix([1, 2, 3, 4, 5, 6, 9]).length == 3
    assert cache.match_prefix([1, 2, 3, 4, 5, 6, 7]).length == 7


def test_a_match_that_finds_no_valid_place_splits_nothing():
    cache = SlidingWindowCache(window=2)
    cache.insert([1, 2, 3, 4, 5, 6], range(6), window_start=4)
    assert cache.match_prefix([1, 2, 3, 9]).length == 0
    assert tombstones(cache) == ["....56"]


def test_a_match_counts_as_use_for_windows_too():
    cache = SlidingWindowCache(window=1)
    cache.insert([1, 1, 1], [0, 1, 2])
    cache.insert([2, 2, 2], [3, 4, 5])
    cache.match_prefix([1, 1, 1])
    cache.evict(0, window_tokens=1)
    assert tombstones(cache) == ["111", "..2"]


def test_what_has_lost_its_window_together_is_joined_again():
    """No scars: a tombstone and the live tokens behind it are one edge as soon as they are used together."""
    cache = two_turns()
    cache.evict(4)
    assert tombstones(cache) == ["....", "6666"]
    cache.match_prefix([1, 2, 3, 4, 6, 6, 6, 6])
    assert tombstones(cache) == ["....6666"]
    cache.check()


def test_live_tokens_above_a_tombstone_stay_an_edge_of_their_own():
    cache = SlidingWindowCache(window=2)
    cache.insert([1, 2, 3], range(3))
    cache.insert([1, 2, 3, 4, 5, 6, 7], range(7), window_start=5)
    cache.match_prefix([1, 2, 3, 4, 5, 6, 7])
    assert tombstones(cache) == ["123", "..67"]


# -- insert -----------------------------------------------------------------------------------------------------------


def test_what_comes_in_without_a_window_is_a_tombstone_from_the_start():
    cache = SlidingWindowCache(page_size=2, window=2)
    done = cache.insert([1, 2, 3, 4, 5, 6], [0, 1, 2], window_start=3)  # the second page has half a window: none
    assert (done.length, tombstones(cache), cache.window_evictable_size) == (6, ["....56"], 2)
    cache.check()


@pytest.mark.parametrize("window_start", [4, 5, 10**6])
def test_what_has_no_window_at_all_is_not_cached(window_start):
    """P12: pymllm stores it as live where the offset equals the length."""
    cache = SlidingWindowCache(window=2)
    cache.insert([1, 2], [0, 1])
    done = cache.insert([1, 2, 3, 4], [7, 8, 9, 10], window_start=window_start)
    assert (done.prefix_length, done.length, cache.total_size) == (2, 2, 2)
    cache.check()


def test_a_tombstone_comes_back_to_life_with_the_duplicates_window():
    pool = WindowLedger()
    pool.alloc(range(4, 12))
    cache = two_turns(pool=pool)
    pool.alloc([20, 21, 22])  # the same head, computed again, its first token out of the window already
    done = cache.insert([1, 2, 3, 4], [19, 20, 21, 22], window_start=1)
    assert (done.prefix_length, tombstones(cache)) == (4, [".234", "5555", "6666"])
    assert pool.live == {1, 2, 3, *range(4, 12)}  # moved to the tree's pages: 20 to 22 have none left
    assert cache.match_prefix([1, 2, 3, 4]).pages.tolist() == [0, 1, 2, 3]
    cache.check()


def test_a_locked_tombstone_comes_back_to_life_too():
    """SGLang copies a mapping there, since it cannot replace the pages of a locked node; moving needs no other case."""
    cache = two_turns()
    match = cache.acquire([1, 2, 3, 4, 5, 5, 5, 5])
    assert cache.insert([1, 2, 3, 4], [20, 21, 22, 23]).prefix_length == 4
    cache.check()
    cache.unlock(match)
    cache.check()
    assert (cache.window_protected_size, cache.window_evictable_size) == (0, 12)


def test_pages_of_the_tree_that_come_back_to_it_heal_nothing():
    cache = two_turns()
    cache.insert([1, 2, 3, 4, 7], [0, 1, 2, 3, 12])
    assert tombstones(cache) == ["....", "5555", "6666", "7"]


def test_what_lies_before_the_start_heals_nothing():
    cache = two_turns()
    match = cache.acquire([1, 2, 3, 4, 5, 5])
    cache.insert([1, 2, 3, 4, 5, 5, 8, 8], [90, 91, 92, 93, 94, 95, 16, 17], start=match)
    assert tombstones(cache)[0] == "...."
    cache.unlock(match)
    cache.check()


def test_the_edge_that_an_insert_starts_from_is_not_healed():
    cache = SlidingWindowCache(window=2)
    match = cache.acquire([1, 2, 3, 4][: cache.insert([1, 2, 3, 4], range(4), window_start=2).length])
    cache.insert([1, 2, 3, 4, 5, 6], [90, 91, 92, 93, 4, 5], start=match)
    assert tombstones(cache) == ["..34", "56"]
    cache.unlock(match)
    cache.check()


# -- lock -------------------------------------------------------------------------------------------------------------


def test_a_lock_holds_the_whole_path_and_only_the_last_window():
    cache = SlidingWindowCache(window=2)
    cache.insert([1, 2, 3, 4, 5], range(5))
    match = cache.acquire([1, 2, 3, 4])
    assert (cache.protected_size, cache.window_protected_size, cache.window_evictable_size) == (4, 2, 3)
    cache.evict(100, window_tokens=100)
    assert (cache.total_size, tombstones(cache)) == (4, ["..34"])
    cache.unlock(match)
    assert (cache.protected_size, cache.window_protected_size, cache.window_evictable_size) == (0, 0, 2)
    cache.check()


def test_unlock_gives_back_what_that_lock_took_whatever_happened_since():
    cache = SlidingWindowCache(window=3)
    whole = cache.insert([1, 2, 3, 4, 5, 6], range(6))
    cache.lock(whole)
    part = cache.acquire([1, 2, 3, 4])
    cache.evict(0, window_tokens=100)
    cache.insert([1, 2, 3, 4, 9], [0, 1, 2, 3, 9])
    assert tombstones(cache) == [".234", "56", "9"]
    cache.unlock(part)
    assert (cache.window_protected_size, cache.window_evictable_size) == (3, 3)
    cache.unlock(whole)
    assert (cache.window_protected_size, cache.window_evictable_size) == (0, 6)
    cache.check()


def test_a_lock_on_a_place_without_a_window_is_refused_and_changes_nothing():
    cache = SlidingWindowCache(window=2)
    early = cache.insert([1, 2, 3, 4], range(4))
    cache.insert([1, 2, 3, 4, 5, 6, 7, 8], range(8))
    cache.evict(0, window_tokens=4)
    with pytest.raises(LockError, match=r"^cannot lock the handle of length 4: the window before its end is gone$"):
        cache.lock(early)
    assert cache.protected_size == cache.window_protected_size == 0
    cache.check()


# -- evict ------------------------------------------------------------------------------------------------------------


def test_leaves_that_go_count_for_both_budgets():
    cache = SlidingWindowCache(window=2)
    cache.insert([1, 2, 3], range(3))
    cache.insert([7, 8, 9], range(3, 6))
    assert cache.evict(1, window_tokens=3).tolist() == [0, 1, 2]
    assert tombstones(cache) == ["789"]


def test_windows_go_from_the_beginning_of_a_path_and_a_leaf_keeps_its_last_one():
    cache = SlidingWindowCache(window=2, evict_by="page")
    cache.insert([1, 2, 3, 4, 5], range(5))
    for expected in ([".2345"], ["..345"], ["...45"]):
        assert cache.evict(0, window_tokens=1).tolist() == []
        assert tombstones(cache) == expected
    assert cache.evict(0, window_tokens=1).tolist() == [0, 1, 2, 3, 4]
    assert cache.total_size == 0


def test_the_window_of_the_only_path_below_is_kept_across_nodes():
    cache = SlidingWindowCache(window=4)
    cache.insert([1, 2, 3, 4, 5], range(5))
    cache.insert([1, 2, 3, 4, 5, 6, 7], range(7))
    assert tombstones(cache) == ["12345", "67"]
    cache.evict(0, window_tokens=1)
    assert tombstones(cache) == ["...45", "67"]
    assert cache.match_prefix([1, 2, 3, 4, 5, 6, 7]).length == 7


def test_tombstones_that_nothing_follows_go_all_the_way_up():
    """pymllm removes the one right above the leaf, and leaves those above that forever."""
    cache = SlidingWindowCache(window=1)
    cache.insert([1, 1, 1, 1, 1, 1], range(6), window_start=5)
    cache.insert([1, 1, 1, 1, 2], range(10, 15), window_start=4)
    cache.insert([1, 1, 3], range(20, 23), window_start=2)
    assert tombstones(cache) == ["..", "..", ".1", "2", "3"]
    cache.evict(3)
    assert tombstones(cache) == ["..", "3"]
    cache.evict(1)
    assert (cache.total_size, tombstones(cache)) == (0, [])
    cache.check()


def test_a_trim_that_would_leave_a_tombstone_takes_all_of_it():
    cache = SlidingWindowCache(window=2, evict_by="page")
    cache.insert([1, 2, 3, 4], range(4), window_start=2)
    assert cache.evict(1).tolist() == [3]
    assert cache.evict(1).tolist() == [2, 1, 0]
    cache.check()


def test_evict_tells_the_pool_of_tombstones_alone():
    pool = WindowLedger()
    pool.alloc(range(5))
    cache = SlidingWindowCache(window=2, pool=pool)
    cache.insert(range(5), range(5))
    cache.evict(0, window_tokens=3)
    assert pool.buried == [0, 1, 2]
    assert cache.evict(5).tolist() == [0, 1, 2, 3, 4]
    assert pool.buried == [0, 1, 2]


class Failing(WindowLedger):
    """A pool that fails after `left` calls."""

    def __init__(self, left):
        super().__init__()
        self.left = left

    def free_window(self, pages):
        if not self.left:
            raise OSError("no pool")
        self.left -= 1
        super().free_window(pages)

    def move_window(self, pages, to_pages):
        raise OSError("no pool")


@pytest.mark.parametrize("left", [0, 1])
def test_where_the_pool_fails_nothing_is_lost(left):
    """What went before comes back; a failure before anything went is the caller's to see."""
    cache = SlidingWindowCache(window=1, pool=(pool := Failing(left)))
    pool.alloc(range(6))
    cache.insert([1, 1], [0, 1])
    cache.insert([2, 2, 2, 2], [2, 3, 4, 5])
    if left:
        assert cache.evict(0, window_tokens=6).tolist() == [0, 1]
    else:
        with pytest.raises(OSError, match="no pool"):
            cache.evict(0, window_tokens=6)
        assert cache.window_evictable_size == 6
    cache.check()


def test_where_the_pool_cannot_move_a_window_nothing_is_inserted():
    cache = two_turns()
    cache.pool = Failing(0)
    with pytest.raises(OSError, match="no pool"):
        cache.insert([1, 2, 3, 4, 7, 7], range(20, 26))
    assert (cache.total_size, tombstones(cache)) == (12, ["....", "5555", "6666"])
    cache.check()


# -- hits, hashes, arguments, the audit -------------------------------------------------------------------------------


def test_hits_are_counted_for_the_policy_that_reads_them():
    cache = SlidingWindowCache(window=2, policy="lfu")
    cache.insert([1, 2], [0, 1])
    cache.insert([8, 9], [8, 9])
    cache.match_prefix([1, 2])
    assert [(node.tokens, node.hits) for node in cache.nodes()] == [([1, 2], 2), ([8, 9], 1)]
    assert cache.evict(1).tolist() == [8, 9]


TREES = st.lists(
    st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=6), st.sampled_from([None, "a"])), max_size=6
)


@given(TREES, st.integers(1, 2), st.randoms(use_true_random=False))
def test_a_page_has_the_same_name_in_whatever_order_names_are_asked_for(prompts, page_size, random):
    """And through splits and joins: a name depends on tokens, position and namespace alone."""
    cache, names = SlidingWindowCache(page_size, window=2), {}
    for number, (tokens, namespace) in enumerate(prompts):
        cache.insert(tokens, range(10 * number, 10 * number + -(-len(tokens) // page_size)), namespace=namespace)
        nodes = list(cache.nodes())
        random.shuffle(nodes)
        for node in nodes[: random.randrange(len(nodes) + 1)] if random.random() < 0.5 else nodes:
            prefix, above = node.tokens, node.parent
            while above.parent is not None:
                prefix, above = above.tokens + prefix, above.parent
            for at, name in enumerate(cache.hashes_of(node)):
                end = len(prefix) - len(node.tokens) + (at + 1) * page_size
                assert names.setdefault((above.namespace, *prefix[:end]), name) == name
        cache.match_prefix(tokens, namespace=namespace)
        cache.check()
    assert len(set(names.values())) == len(names)


def test_a_name_survives_a_trim():
    cache = SlidingWindowCache(evict_by="page", window=1)
    node = cache.insert([1, 2, 3], range(3)).node
    names = cache.hashes_of(node)
    cache.evict(1)
    assert cache.hashes_of(node) == names[:2]
    cache.check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window is 0: windowed layers read at least 1 token before the next"),
        ({"window": -(10**400)}, "window is -1"),
        ({"page_size": 0}, "page_size is 0"),
    ],
)
def test_an_index_that_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        SlidingWindowCache(**options)
    assert len(str(caught.value)) < 200


def test_bad_offsets_and_budgets_are_refused_and_change_nothing():
    cache = SlidingWindowCache(window=2)
    cache.insert([1, 2], [0, 1])
    with pytest.raises(ValueError, match=r"^window_start is -1: the first token that has a window"):
        cache.insert([1, 2, 3], range(3), window_start=-1)
    with pytest.raises(TypeError, match=r"^window_start is True"):
        cache.insert([1, 2, 3], range(3), window_start=True)
    with pytest.raises(ValueError, match=r"^window_tokens is -1: evict frees 0 windows or more"):
        cache.evict(2, window_tokens=-1)
    with pytest.raises(ValueError, match=r"^priority is -1"):
        cache.insert([1, 2, 3], range(3), window_start=1, priority=-1)
    with pytest.raises(ValueError, match=r"^1 pages for 3 tokens"):
        cache.insert([1, 2, 3], [5], window_start=1)
    assert cache.total_size == 2
    cache.check()


def spoiled(cache, spoil):
    node = cache.insert([1, 2, 3, 4], range(4)).node
    cache.lock(cache.insert([1, 2, 3, 4, 5, 6], range(6)))
    assert isinstance(node, WindowNode)
    spoil(cache, node)
    with pytest.raises(InvariantError) as caught:
        cache.check()
    return str(caught.value)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda cache, node: setattr(node.window, "live_from", 9), "node 1: live from 9, but a lock needs it from 3"),
        (lambda cache, node: setattr(node.window, "live_from", 4), "node 1: live from 4, but a lock needs it from 3"),
        (lambda cache, node: setattr(node.window, "pins", ()), "node 1: pins [], but its locks begin at [3]"),
        (
            lambda cache, node: cache.windows.ring.remove([node.window]),
            "node 1: 3 tokens may be freed, not in the ring",
        ),
        (
            lambda cache, node: setattr(cache.windows, "evictable", 5),
            "window_evictable_size is 5, but the nodes have 3",
        ),
        (lambda cache, node: setattr(cache.windows, "dead", 5), "5 tokens are counted as dead, but the nodes have 0"),
    ],
)
def test_the_audit_names_what_disagrees(spoil, message):
    assert spoiled(SlidingWindowCache(window=3), spoil).startswith(message)


def test_the_audit_finds_an_order_that_is_not_that_of_use():
    cache = SlidingWindowCache(window=1)
    for token in (1, 2):
        cache.insert([token], [token])
    cache.windows.ring.touch([cache.windows.ring.first()])
    wrong = "node 1 belongs right after the mark, but the mark links to node 2 and node 1 back to node 2"
    with pytest.raises(InvariantError, match=rf"^the ring of windows, .* the nearest to the root first: {wrong}$"):
        cache.check()


def test_an_edge_that_is_live_from_behind_its_end_is_found():
    cache = SlidingWindowCache(window=1)
    cache.insert([1, 2], [0, 1]).node.window.live_from = 9
    with pytest.raises(InvariantError, match=r"^node 1: live from 9, but its edge is \[0, 2\)"):
        cache.check()


def test_a_tombstone_at_the_end_of_a_path_is_found():
    cache = SlidingWindowCache(window=1)
    node = cache.insert([1, 2], [0, 1]).node
    cache.windows.move(node.window, 2)
    with pytest.raises(InvariantError, match=r"^node 1: a tombstone at the end of a path"):
        cache.check()


def test_windows_have_to_be_told_of_so_nothing_is_inserted_without_them():
    assert SlidingWindowCache.insert_after is None
    manager = CacheManager(8, prefix_cache=SlidingWindowCache(window=2))
    sequence = manager.start([1, 2, 3])
    manager.advance(sequence)
    manager.checkpoint(sequence)
    manager.finish(sequence)
    manager.check()
    assert manager.start([1, 2, 3, 4]).cached_length == 3
