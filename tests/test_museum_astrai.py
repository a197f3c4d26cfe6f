"""The bugs of an early prefix cache of AstrAI, each as a test that passes on ours and fails on a re-creation of it.

The numbers are those under which the bugs were found. The trie of A12 is our `TokenTrie`: see chapter 09.
"""

import numpy as np
import pytest
from museum import law_by_law, without

from minikv import BitmaskPool, RadixCache, TokenTrie
from minikv.engine import classes_for, engine_world
from minikv.engine.ch04_05_cache import evict, in_order, link, unlink
from minikv.engine.ch09_10_rows_and_blocks import take_row, trie_find, trie_insert
from minikv.testing.attempt import TimeLimit, TooLong


def rows_with(**pieces):
    """The `RowTrie` that a learner builds, with these pieces in the place of ours."""
    world = engine_world(*classes_for(9))
    world.update(pieces)
    return world["RowTrie"]


RowTrie = rows_with()


def serve(cache, tokens):
    cache.finish(cache.start(tokens))


def is_true(cache, request):
    """Whether a running request has found its own keys and values: the row's tokens represent them."""
    return cache.rows[request.row][: request.found] == request.tokens[: request.found]


def still_there(cache, tokens):
    """How many of the nodes that `tokens` lead through have not been evicted, whatever has become of their row."""
    return len(trie_find(cache.root, tokens))


def nodes_of(cache):
    nodes = [cache.root]
    for node in nodes:  # which grows meanwhile
        nodes += node.children.values()
    return nodes[1:]


# -- eviction ---------------------------------------------------------------------------------------------------------


def the_end_of_a_prompt_goes_before_its_beginning(make):
    """A1: all nodes of a path are used in the order of the walk, so the oldest is the parent, and it goes first."""
    cache = make(2, max_nodes=3)
    serve(cache, [1, 2, 3])
    serve(cache, [9])
    assert [still_there(cache, prompt) for prompt in ([1, 2, 3], [9])] == [2, 1]


def touch_the_parent_first(ring, node):
    path = []
    while node.parent is not None:
        path.append(node)
        node = node.parent
    for node in reversed(path):
        unlink(node)
        link(ring, node)


def a_prompt_too_long_keeps_its_beginning(make):
    """A13: a prompt with more tokens than the capacity evicts its own first tokens, and none of it is found."""
    cache = make(2, max_nodes=3)
    serve(cache, [1, 2, 3, 4, 5])
    assert len(cache.find([1, 2, 3, 4, 5])) == 3


def what_is_evicted_is_gone(make):
    """A3: an evicted node stays linked to its parent, so the trie grows without end."""
    cache = make(2, max_nodes=10)
    for token in range(50):
        serve(cache, [token, 100 + token])
    assert len(nodes_of(cache)) == 10


def evict_and_leave_husks(cache, num_nodes):
    for node in in_order(cache.ring)[: max(0, num_nodes)]:
        unlink(node)
        node.children.clear()
        cache.evictable -= 1


def the_search_for_a_victim_ends(make):
    """A4: when every node is pinned, the loop moves one after the other to the end, and never stops."""
    cache, limit = make(3, max_nodes=2), TimeLimit(0.3)
    serve(cache, [1, 2])
    cache.start([1, 2, 3])
    with without(TooLong):
        try:
            limit.start()
            serve(cache, [7, 8])
        finally:
            limit.stop()
    assert [len(cache.find(tokens)) for tokens in ([1, 2], [7, 8])] == [2, 0]


def insert_and_pin(root, tokens, row, pool):
    """An insert pins what it goes through, and so it may be that nothing else is left."""
    path = trie_insert(root, tokens, row, pool)
    for node in path:
        node.locks += 1
    return path


def evict_and_never_give_up(cache, num_nodes):
    rest = cache.evictable + cache.protected - num_nodes
    while cache.evictable + cache.protected > rest:
        evict(cache, 1)


# -- pins -------------------------------------------------------------------------------------------------------------


def a_pin_holds_the_whole_path(make):
    """A4b: the pin counts on the last node alone; those above it go, and the running request's prefix with them."""
    cache = make(3, max_nodes=3)
    serve(cache, [1, 2, 3])
    cache.start([1, 2, 3, 4])
    serve(cache, [9])
    assert len(cache.find([1, 2, 3])) == 3


def lock_the_last_node(cache, node):
    node.locks += 1
    if node.locks == 1:
        cache.protect(node)


def what_nobody_runs_on_can_be_evicted(make):
    """An insert pins besides, so a caller that does not release once more for each insert keeps it forever."""
    cache = make(2, max_nodes=2)
    serve(cache, [1, 2])
    serve(cache, [8, 9])
    assert [still_there(cache, prompt) for prompt in ([1, 2], [8, 9])] == [0, 2]


def a_request_ends_once(make):
    """A10: a release of what is not there, or not pinned, is silent; a second one takes the pin of another request."""
    cache = make(3)
    serve(cache, [1, 2])
    first, second = cache.start([1, 2, 3]), cache.start([1, 2, 4])
    cache.finish(first)
    with pytest.raises(ValueError, match="is already free"):
        cache.finish(first)
    assert [node.locks for node in second.path] == [1, 1]


class ReleasesBySearch(RowTrie):
    def finish(self, request):
        for node in self.find(request.tokens):
            node.locks = max(0, node.locks - 1)
        if not self.pool.is_free(request.row):
            self.pool.free([request.row])


# -- rows and versions ------------------------------------------------------------------------------------------------


def what_is_copied_is_what_was_cached(make):
    """A7: the prefix is copied from the row that the node names, whoever has written there since."""
    cache = make(2)
    serve(cache, [1, 2, 3])
    stranger = cache.start([6, 6, 6])
    assert stranger.row == 0
    request = cache.start([1, 2, 4])
    assert is_true(cache, request)


def what_is_taken_over_is_what_was_cached(make):
    """A7, without a copy: a stranger has used the row in between."""
    cache = make(1)
    serve(cache, [1, 2, 3])
    serve(cache, [5, 5, 5])
    assert is_true(cache, cache.start([1, 2, 4]))


def never_ask_the_version(node, pool):
    return node.row is not None


def two_owners_never_have_one_version(make):
    """A row that is taken over keeps its version; what the old owner had behind it is overwritten, and found."""
    cache = make(1)
    serve(cache, [1, 2, 3, 4])
    serve(cache, [1, 2, 8, 9])
    assert is_true(cache, cache.start([1, 2, 3, 4, 5]))


def take_row_and_keep_its_version(pool, path):
    if not path or not pool.is_free(path[-1].row):
        return take_row(pool, path)
    pool.occupy(path[-1].row)
    return path[-1].row, False


def what_is_cached_keeps_its_row(make):
    """An insert points the whole path to the newest row, which may be recycled while the old one is still in use."""
    cache = make(3)
    serve(cache, [1, 2, 3, 4])
    cache.start([1, 2, 3, 4, 5])
    serve(cache, [1, 2, 3, 7])
    assert [node.row for node in cache.find([1, 2, 3, 4])] == [0, 0, 0, 0]


def insert_the_newest_row(root, tokens, row, pool):
    path = trie_insert(root, tokens, row, pool)
    for node in path:
        node.row, node.version = row, pool.version(row)
    return path


def the_last_token_is_left_to_compute(make):
    """A11: a prompt that is cached whole leaves nothing to compute, and there are no logits to go on from."""
    cache = make(2)
    serve(cache, [1, 2, 3])
    assert cache.start([1, 2, 3]).found == 2


class FindsEverything(RowTrie):
    def start(self, tokens):
        return super().start([*tokens, 0])  # the token that is not looked up


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
    the_end_of_a_prompt_goes_before_its_beginning: (RowTrie, rows_with(touch=touch_the_parent_first)),
    a_prompt_too_long_keeps_its_beginning: (RowTrie, rows_with(touch=touch_the_parent_first)),
    what_is_evicted_is_gone: (RowTrie, rows_with(evict=evict_and_leave_husks)),
    the_search_for_a_victim_ends: (
        RowTrie,
        rows_with(trie_insert=insert_and_pin, evict=evict_and_never_give_up),
    ),
    a_pin_holds_the_whole_path: (RowTrie, rows_with(lock=lock_the_last_node)),
    what_nobody_runs_on_can_be_evicted: (RowTrie, rows_with(trie_insert=insert_and_pin)),
    a_request_ends_once: (RowTrie, ReleasesBySearch),
    what_is_copied_is_what_was_cached: (RowTrie, rows_with(is_current=never_ask_the_version)),
    what_is_taken_over_is_what_was_cached: (RowTrie, rows_with(is_current=never_ask_the_version)),
    two_owners_never_have_one_version: (RowTrie, rows_with(take_row=take_row_and_keep_its_version)),
    what_is_cached_keeps_its_row: (RowTrie, rows_with(trie_insert=insert_the_newest_row)),
    the_last_token_is_left_to_compute: (RowTrie, FindsEverything),
    a_slot_in_use_is_not_handed_out_again: (BitmaskPool, OneLongInteger),
    a_slot_is_freed_once: (BitmaskPool, OneLongInteger),
    a_slot_that_is_not_there_is_not_freed: (BitmaskPool, OneLongInteger),
    the_numbers_of_a_large_pool_are_small: (BitmaskPool, OneLongInteger),
    a_long_prompt_is_one_node: (RadixCache, TokenTrie),
}


test_ours_holds, test_the_original_does_not = law_by_law(MUSEUM)
