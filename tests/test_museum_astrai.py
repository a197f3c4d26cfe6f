"""The bugs of AstrAI's first prefix cache, each as a test that passes on ours and fails on a re-creation of it.

The numbers are those under which the bugs were found. The trie of A12 is our `TokenTrie`: see chapter 09.
"""

from __future__ import annotations

import numpy as np
import pytest
from museum import law_by_law

from minikv import BitmaskPool, RadixCache, RowCache, TokenTrie
from minikv.prefix.row_cache import VersionedTrie
from minikv.testing.attempt import TimeLimit, TooLong

pytestmark = pytest.mark.core

LENGTH = 12


def write(cache, sequence):
    """Compute what was not found: each position holds a number that says which tokens lead to it."""
    for at in range(sequence.found, len(sequence.tokens)):
        cache.arrays[0][sequence.row, at, 0] = hash(tuple(sequence.tokens[: at + 1]))


def serve(cache, tokens):
    sequence = cache.start(tokens)
    write(cache, sequence)
    cache.finish(sequence)


def is_true(cache, sequence):
    """Whether a running sequence has found its own keys and values."""
    held = cache.arrays[0][sequence.row, : sequence.found, 0].tolist()
    return held == [hash(tuple(sequence.tokens[: at + 1])) for at in range(sequence.found)]


def rows_of(make, num_rows, **options):
    cache = make(num_rows, arrays=(np.zeros((num_rows, LENGTH, 1), np.int64),), **options)
    cache.trie = getattr(make, "Trie", VersionedTrie)()
    return cache


# -- eviction ---------------------------------------------------------------------------------------------------------


def the_end_of_a_prompt_goes_before_its_beginning(make):
    """A1: all nodes of a path are used in the order of the walk, so the oldest is the parent, and it goes first."""
    cache = rows_of(make, 2, max_nodes=3)
    serve(cache, [1, 2, 3])
    serve(cache, [9])
    assert [len(cache.find(prompt)) for prompt in ([1, 2, 3], [9])] == [2, 1]


class ParentFirst(RowCache):
    class Trie(VersionedTrie):
        def _touch(self, path):
            super()._touch(path[::-1])


def a_prompt_too_long_keeps_its_beginning(make):
    """A13: a prompt with more tokens than the capacity evicts its own first tokens, and nothing of it is found."""
    cache = rows_of(make, 2, max_nodes=3)
    serve(cache, [1, 2, 3, 4, 5])
    assert len(cache.find([1, 2, 3, 4, 5])) == 3


def what_is_evicted_is_gone(make):
    """A3: an evicted node stays linked to its parent, so the trie grows without end."""
    cache = rows_of(make, 2, max_nodes=10)
    for token in range(50):
        serve(cache, [token, 100 + token])
    assert len(list(cache.trie.nodes())) == 10


class LeavesHusks(RowCache):
    class Trie(VersionedTrie):
        def _unlink(self, node):
            node.children.clear()


def the_search_for_a_victim_ends(make):
    """A4: when every node is pinned, the loop moves one after the other to the end, and never stops."""
    cache, limit = rows_of(make, 3, max_nodes=2), TimeLimit(0.3)
    serve(cache, [1, 2])
    cache.start([1, 2, 3])
    try:
        limit.start()
        serve(cache, [7, 8])
    except TooLong:
        pytest.fail("it never ends")
    finally:
        limit.stop()
    assert len(cache.find([1, 2])) == 2


class PinningTrie(VersionedTrie):
    """An insert pins what it goes through, and so it may be that nothing else is left."""

    def insert(self, tokens, pages):
        done = super().insert(tokens, pages)
        self.lock(done)
        return done


class NeverGivesUp(RowCache):
    Trie = PinningTrie

    def _make_room(self):
        while self.trie.total_size > self.max_nodes:
            self.trie.evict(1)


# -- pins -------------------------------------------------------------------------------------------------------------


def a_pin_holds_the_whole_path(make):
    """A4b: the pin counts on the last node alone; those above it go, and the running request's prefix with them."""
    cache = rows_of(make, 3, max_nodes=3)
    serve(cache, [1, 2, 3])
    cache.start([1, 2, 3, 4])
    serve(cache, [9])
    assert len(cache.find([1, 2, 3])) == 3


class PinsTheLastNode(RowCache):
    class Trie(VersionedTrie):
        def _protect(self, handle, path):
            super()._protect(handle, path[:1])


def what_nobody_runs_on_can_be_evicted(make):
    """An insert pins besides, so a caller that does not release once more for each insert keeps it forever."""
    cache = rows_of(make, 2, max_nodes=2)
    serve(cache, [1, 2])
    serve(cache, [8, 9])
    assert [len(cache.find(prompt)) for prompt in ([1, 2], [8, 9])] == [0, 2]


class InsertPins(RowCache):
    Trie = PinningTrie


def a_request_ends_once(make):
    """A10: a release of what is not there, or not pinned, is silent; a second one takes the pin of another request."""
    cache = rows_of(make, 3)
    serve(cache, [1, 2])
    first, second = cache.start([1, 2, 3]), cache.start([1, 2, 4])
    cache.abort(first)
    with pytest.raises(ValueError, match="is over"):
        cache.abort(first)
    assert [node.ref_count for node in second.held.node.path] == [1, 1]


class ReleasesBySearch(RowCache):
    def abort(self, sequence):
        for node in self.trie.match_prefix(sequence.tokens).node.path:
            node.ref_count = max(0, node.ref_count - 1)
        if self._running.pop(sequence.row, None):
            self.pool.free([sequence.row])


# -- rows and versions ------------------------------------------------------------------------------------------------


def what_is_copied_is_what_was_cached(make):
    """A7: the prefix is copied from the row that the node names, whoever has written there since."""
    cache = rows_of(make, 2)
    serve(cache, [1, 2, 3])
    serve(cache, [5, 5, 5])
    stranger = cache.start([6, 6, 6])
    write(cache, stranger)
    assert stranger.row == 0
    sequence = cache.start([1, 2, 4])
    assert is_true(cache, sequence)


def what_is_taken_over_is_what_was_cached(make):
    """A7, without a copy: a stranger has used the row in between."""
    cache = rows_of(make, 1)
    serve(cache, [1, 2, 3])
    serve(cache, [5, 5, 5])
    assert is_true(cache, cache.start([1, 2, 4]))


class NeverAsksTheVersion(RowCache):
    def is_current(self, node):
        return node.row >= 0


def two_owners_never_have_one_version(make):
    """A row that is taken over keeps its version; what the old owner had behind it is overwritten, and found."""
    cache = rows_of(make, 1)
    serve(cache, [1, 2, 3, 4])
    serve(cache, [1, 2, 8, 9])
    assert is_true(cache, cache.start([1, 2, 3, 4, 5]))


class KeepsTheVersion(RowCache):
    def _take(self, row, path):
        if path:
            self.pool.occupy(row)
        else:
            super()._take(row, path)


def what_is_cached_keeps_its_row(make):
    """An insert points the whole path to the newest row, which may be recycled while the old one is still in use."""
    cache = rows_of(make, 3)
    serve(cache, [1, 2, 3, 4])
    cache.start([1, 2, 3, 4, 5])
    serve(cache, [1, 2, 3, 7])
    assert [node.row for node in cache.find([1, 2, 3, 4])] == [0, 0, 0, 0]


class NewestWins(RowCache):
    def publish(self, sequence, generated=()):
        super().publish(sequence, generated)
        for node in self.trie.match_prefix(sequence.tokens).node.path:
            node.row, node.version = sequence.row, self.pool.version(sequence.row)


def the_last_token_is_left_to_compute(make):
    """A11: a prompt that is cached whole leaves nothing to compute, and there are no logits to go on from."""
    cache = rows_of(make, 2)
    serve(cache, [1, 2, 3])
    assert cache.start([1, 2, 3]).found == 2


class FindsEverything(RowCache):
    def start(self, tokens, limit=None):
        return super().start(tokens, len(tokens) if limit is None else limit)


# -- the pool ---------------------------------------------------------------------------------------------------------


class OneLongInteger:
    """The original's pool: a bit for each slot in one integer, flipped without a look at it."""

    def __init__(self, size):
        self.size, self.mask = size, (1 << size) - 1

    def alloc(self, num_pages):
        pages = []
        for _ in range(num_pages):
            lowest = self.mask & -self.mask
            self.mask ^= lowest
            pages.append(lowest.bit_length() - 1)
        return np.array(pages)

    def free(self, pages):
        for page in pages:
            self.mask |= 1 << page

    def occupy(self, page):
        self.mask ^= 1 << page


def a_slot_in_use_is_not_handed_out_again(make):
    """A6: occupying a slot in use frees it, and the next request gets it too."""
    pool = make(4)
    taken = pool.alloc(2).tolist()
    with pytest.raises(ValueError, match="is in use"):
        pool.occupy(taken[0])
    assert not set(pool.alloc(2).tolist()) & set(taken)


def a_slot_is_freed_once(make):
    """A6: a second free is silent, and so is one by the wrong owner later."""
    pool = make(4)
    taken = pool.alloc(1)
    pool.free(taken)
    with pytest.raises(ValueError, match="is already free"):
        pool.free(taken)


def a_slot_that_is_not_there_is_not_freed(make):
    """A6: slot 9 of 4 is freed in silence, and handed out later."""
    pool = make(4)
    with pytest.raises(ValueError, match="pages 0 to 3"):
        pool.free([9])


def the_numbers_of_a_large_pool_are_small(make):
    """A5: "O(1)" on an integer of as many bits as there are slots: each step copies all of it."""
    pool = make(10_000)
    pool.alloc(1)
    stack, longest = list(vars(pool).values()), 0
    while stack:
        thing = stack.pop()
        if isinstance(thing, int):
            longest = max(longest, thing.bit_length())
        elif isinstance(thing, list):
            stack.extend(thing)
    assert longest <= 64


def a_long_prompt_is_one_node(make):
    """A12: it is called a radix tree and is a trie, so 20,000 tokens are 20,000 nodes."""
    cache = make()
    cache.insert(range(2000), range(2000))
    assert len(list(cache.nodes())) == 1


MUSEUM = {
    the_end_of_a_prompt_goes_before_its_beginning: (RowCache, ParentFirst),
    a_prompt_too_long_keeps_its_beginning: (RowCache, ParentFirst),
    what_is_evicted_is_gone: (RowCache, LeavesHusks),
    the_search_for_a_victim_ends: (RowCache, NeverGivesUp),
    a_pin_holds_the_whole_path: (RowCache, PinsTheLastNode),
    what_nobody_runs_on_can_be_evicted: (RowCache, InsertPins),
    a_request_ends_once: (RowCache, ReleasesBySearch),
    what_is_copied_is_what_was_cached: (RowCache, NeverAsksTheVersion),
    what_is_taken_over_is_what_was_cached: (RowCache, NeverAsksTheVersion),
    two_owners_never_have_one_version: (RowCache, KeepsTheVersion),
    what_is_cached_keeps_its_row: (RowCache, NewestWins),
    the_last_token_is_left_to_compute: (RowCache, FindsEverything),
    a_slot_in_use_is_not_handed_out_again: (BitmaskPool, OneLongInteger),
    a_slot_is_freed_once: (BitmaskPool, OneLongInteger),
    a_slot_that_is_not_there_is_not_freed: (BitmaskPool, OneLongInteger),
    the_numbers_of_a_large_pool_are_small: (BitmaskPool, OneLongInteger),
    a_long_prompt_is_one_node: (RadixCache, TokenTrie),
}


test_ours_holds, test_the_original_does_not = law_by_law(MUSEUM)
