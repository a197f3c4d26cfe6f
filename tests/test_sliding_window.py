"""The sliding-window index: its edges and tombstones, and what it refuses.

What a match needs, what a lock holds, what goes first and what comes back, the model of test_window_machine says.
"""

import pytest
from digits import put
from refusals import said
from window_pool import WindowLedger

from minikv import CacheManager, SlidingWindowCache


def tombstones(cache):
    """For each node its edge, with a dot in the place of every token whose window has gone."""
    found = []
    for node in cache.nodes():
        edge, dead = bytes(node.tokens).decode(), node.window.live_from - node.start
        found.append("." * dead + edge[dead:])
    return found


def two_turns(**options):
    """A head of four tokens that two answers of four go on from; the windows of the head have gone."""
    cache = SlidingWindowCache(window=2, **options)
    put(cache, b"12345555", b"12346666", window_start=4)
    assert tombstones(cache) == ["....", "5555", "6666"]
    return cache


# -- match ------------------------------------------------------------------------------------------------------------


def test_a_match_falls_back_to_the_last_place_before_a_tombstone_and_does_not_join_what_is_live_to_it():
    cache = SlidingWindowCache(window=2)
    put(cache, b"123")
    put(cache, b"1234567", window_start=5)
    assert tombstones(cache) == ["123", "..67"]
    assert cache.match_prefix(b"1234569").length == 3
    assert cache.match_prefix(b"1234567").length == 7
    assert tombstones(cache) == ["123", "..67"]


def test_a_match_that_finds_no_valid_place_splits_nothing():
    cache = SlidingWindowCache(window=2)
    put(cache, b"123456", window_start=4)
    assert cache.match_prefix(b"1239").length == 0
    assert tombstones(cache) == ["....56"]


def test_a_tombstone_and_an_edge_that_begins_with_one_are_joined_to_a_longer_tombstone():
    cache = SlidingWindowCache(window=2)
    put(cache, b"123455", b"12346677", window_start=4)
    cache.evict(2, window_tokens=4)
    cache.match_prefix(b"12346677")
    assert tombstones(cache) == ["......77"]
    cache.check()


@pytest.mark.parametrize(("asked", "edges"), [(b"12345", [5, 1]), (b"12", [2, 3, 1])])
def test_edges_of_one_lock_are_joined_if_their_windows_are_equally_recent(asked, edges):
    cache = SlidingWindowCache(window=1)
    put(cache, b"129", b"12345")
    held = cache.acquire(b"12345")
    cache.match_prefix(asked)
    cache.evict(1)  # "9", so that "12" has one child
    cache.insert(b"123456", range(6), start=held)
    assert [len(node.tokens) for node in cache.nodes()] == edges


# -- insert -----------------------------------------------------------------------------------------------------------


def test_pages_of_the_tree_that_come_back_to_it_heal_nothing():
    cache = two_turns()
    put(cache, b"12347")
    assert tombstones(cache) == ["....", "5555", "6666", "7"]


# -- lock -------------------------------------------------------------------------------------------------------------


def test_a_lock_on_a_place_without_a_window_is_refused_and_changes_nothing():
    cache = SlidingWindowCache(window=2)
    early = put(cache, b"1234")
    put(cache, b"12345678")
    cache.evict(0, window_tokens=4)
    assert said(cache.lock, early) == "LockError: cannot lock the handle of length 4: the window before its end is gone"
    assert cache.protected_size == cache.window_protected_size == 0
    cache.check()


# -- evict ------------------------------------------------------------------------------------------------------------


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


def test_where_the_pool_fails_what_went_before_comes_back_and_nothing_is_lost():
    """A failure before anything went is the caller's to see."""
    cache = SlidingWindowCache(window=1, pool=(pool := Failing(1)))
    put(cache, b"11", b"2222")
    pool.alloc([1, 2, 22, 222])
    assert cache.evict(0, window_tokens=6).tolist() == [1, 11]
    cache.check()
    assert "OSError: no pool" in said(cache.evict, 0, window_tokens=6)
    assert cache.window_evictable_size == 4
    cache.check()


def test_where_the_pool_cannot_move_a_window_nothing_is_inserted():
    cache = two_turns(pool=Failing(0))
    assert "OSError: no pool" in said(put, cache, b"123477", plus=900_000)
    assert (cache.total_size, tombstones(cache)) == (12, ["....", "5555", "6666"])
    cache.check()


# -- names, arguments --------------------------------------------------------------------------------------------------


def test_a_page_keeps_its_name_through_splits_and_no_other_has_it():
    whole, cut = SlidingWindowCache(page_size=2), SlidingWindowCache(page_size=2)
    put(whole, b"121212")
    put(cut, b"121212", b"121299")
    upper, lower, other = map(cut.hashes_of, cut.nodes())
    assert upper + lower == whole.hashes_of(*whole.nodes())
    assert len({*upper, *lower, *other}) == 4


WRONG = [
    ("insert", b"123", [5], {"window_start": 1}, "ValueError: 1 pages for 3 tokens"),
    ("insert", b"1", [1], {"window_start": -1}, "ValueError: window_start is -1: the first token that has a window"),
    ("insert", b"1", [1], {"window_start": True}, "TypeError: window_start is True"),
    ("insert", b"1", [1], {"window_start": 1, "priority": -1}, "ValueError: priority is -1"),
    ("evict", 2, {"window_tokens": -1}, "ValueError: window_tokens is -1: evict frees 0 windows or more"),
]


@pytest.mark.parametrize("row", WRONG, ids=str)
def test_what_is_wrong_is_named_and_changes_nothing(row):
    """That a window is at least 1 is in test_arguments."""
    verb, *arguments, named, words = row
    cache = SlidingWindowCache(window=2)
    put(cache, b"23")
    assert said(getattr(cache, verb), *arguments, **named).startswith(words)
    assert cache.total_size == 2
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
