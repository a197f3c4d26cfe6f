"""The index of hashed blocks: against the naive model, against the radix tree, and where two prefixes have one key."""

from __future__ import annotations

import random
from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from indexes import collides
from machine import IndexAgainstModel
from policy_model import PolicyModel

from minikv import HashBlockCache, InvariantError, LockError, RadixCache, TokenTrie, pack
from minikv.prefix.base_index import way_to
from minikv.prefix.hash_blocks import crc32_key, extra_keys, sha256_key

pytestmark = pytest.mark.core

TRUNK = [5, 6, 5, 5, 6, 6, 5, 6, 6, 5]
PROMPTS = st.lists(
    st.builds(lambda cut, tail: TRUNK[:cut] + tail, st.integers(0, 10), st.lists(st.integers(5, 7), max_size=5)),
    max_size=12,
)


class Unranked(HashBlockCache):
    """Takes the priorities of the state machine, and does nothing with them."""

    def insert(self, tokens, pages, *, namespace=None, start=None, priority=0):
        return super().insert(tokens, pages, namespace=namespace, start=start)


class HashAgainstModel(IndexAgainstModel):
    """The state machine over hashed blocks: by pages, and without priorities."""

    block_hash = "sha256"

    def make(self, page_size, policy, evict_by):
        self.model = PolicyModel(page_size, "lru", "page")
        return Unranked(page_size, self.block_hash)

    def use(self, item, locked):
        return [None if locked else item.last_used]


class CollidingAgainstModel(HashAgainstModel):
    """The same, with eight keys for all blocks."""

    block_hash = staticmethod(collides)


@pytest.mark.parametrize("machine", [HashAgainstModel, CollidingAgainstModel])
def test_the_state_machine_finds_no_difference_from_the_naive_model(machine):
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=30, max_examples=60))


@given(PROMPTS, st.integers(1, 4))
@settings(max_examples=150)
def test_hits_equal_those_of_the_radix_tree_when_nothing_is_evicted(prompts, page_size):
    tree, blocks, page = RadixCache(page_size), HashBlockCache(page_size), 0
    for prompt in prompts:
        assert blocks.match_prefix(prompt).pages.tolist() == tree.match_prefix(prompt).pages.tolist()
        pages = range(page, page + len(prompt))[: len(prompt) // page_size]
        page += len(pages)
        done = [cache.insert(prompt, pages) for cache in (tree, blocks)]
        assert (done[0].prefix_length, done[0].length) == (done[1].prefix_length, done[1].length)
        assert tree.total_size == blocks.total_size


@given(PROMPTS, st.integers(1, 3), st.integers(4, 20))
@settings(max_examples=100)
def test_by_pages_the_radix_tree_evicts_the_same_pages_in_the_same_order(prompts, page_size, capacity):
    tree, blocks, page = RadixCache(page_size, evict_by="page"), HashBlockCache(page_size), 0
    for prompt in prompts:
        pages = range(page, page + len(prompt))[: len(prompt) // page_size]
        page += len(pages)
        assert tree.insert(prompt, pages).prefix_length == blocks.insert(prompt, pages).prefix_length
        too_many = max(0, tree.total_size - capacity)
        assert tree.evict(too_many).tolist() == blocks.evict(too_many).tolist()


# -- the queue --------------------------------------------------------------------------------------------------------


def order(cache):
    return [block.tokens[0] for block in cache.queue()]


def test_the_queue_is_sorted_by_last_use_and_then_the_deepest_block_first():
    cache = HashBlockCache()
    cache.insert([1, 2, 3], [1, 2, 3])
    cache.insert([7, 8], [7, 8])
    assert order(cache) == [3, 2, 1, 8, 7]
    cache.match_prefix([1, 2])
    assert order(cache) == [3, 8, 7, 2, 1]
    handle = cache.acquire([7])
    assert order(cache) == [3, 8, 2, 1]
    cache.unlock(handle)
    assert order(cache) == [3, 8, 2, 1, 7]
    law = sorted(cache.queue(), key=lambda block: (block.last_used, -block.num_hashed_tokens))
    assert law == list(cache.queue())
    assert cache.evict(2).tolist() == [3, 8]


def test_a_page_that_was_never_hashed_is_the_callers_to_free():
    """In vLLM it goes to the front of the free queue; here it is not in this queue at all, and the pool reuses it."""
    cache = HashBlockCache(page_size=4)
    done = cache.insert([1, 2, 3, 4, 5, 6], [10, 11])
    assert done.length == 4
    assert [block.page for block in cache.queue()] == [10]


# -- keys -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def counting():
    """A hash that lists the tokens of every block whose key it makes."""

    def key_of(parent, tokens):
        key_of.made += array("I", tokens)
        return sha256_key(parent, tokens)

    key_of.made = []
    return key_of


def test_a_lookup_makes_keys_up_to_the_first_miss(counting):
    cache = HashBlockCache(1, counting)
    cache.insert(range(500), range(500))
    counting.made.clear()
    assert cache.match_prefix([*range(300), *range(700, 1000)]).length == 300
    assert counting.made == [*range(300), 700]


def test_an_insert_that_continues_from_a_match_makes_no_key_of_what_was_found(counting):
    cache, prompt = HashBlockCache(1, counting), pack(range(1000))
    cache.insert(prompt, range(1000))
    match = cache.acquire(prompt)
    counting.made.clear()
    cache.insert(prompt + pack([7]), range(1001), start=match)
    assert set(counting.made) == {7}


def test_two_seeds_share_no_key_and_one_seed_gives_the_same_keys_everywhere():
    caches = [HashBlockCache(seed=seed) for seed in ("a", "a", "b", b"a")]
    keys = []
    for cache in caches:
        cache.insert([1, 2], [0, 1])
        keys.append([block.key for block in cache.nodes()])
    assert keys[0] == keys[1]
    assert not set(keys[0]) & (set(keys[2]) | set(keys[3]))
    assert not set(keys[2]) & set(keys[3])


@pytest.mark.parametrize("seed", [5, None, ["a"]])
def test_a_seed_is_text_or_bytes(seed):
    with pytest.raises(TypeError, match="expected text or bytes"):
        HashBlockCache(seed=seed)


def test_every_namespace_has_keys_of_its_own_even_one_without_bytes():
    cache = HashBlockCache()
    for i, name in enumerate([None, "a", b"a", 1, ("a",), ("a", None), 1.5, frozenset("a"), extra_keys(salt="a")]):
        assert cache.match_prefix([1, 2], namespace=name).length == 0
        cache.insert([1, 2], [2 * i, 2 * i + 1], namespace=name)
    cache.check()
    assert len({block.key for block in cache.nodes()}) == 18


# -- collisions -------------------------------------------------------------------------------------------------------


def same(parent, tokens):
    """All blocks of one depth have one key: a collision wherever there could be one."""
    return bytes(len(parent) + 1)


def test_a_collision_serves_another_prompts_pages_where_hits_are_not_verified():
    cache = HashBlockCache(block_hash=same, verify=False)
    cache.insert([1, 2], [10, 11])
    assert cache.match_prefix([7, 8, 9]).pages.tolist() == [10, 11]


def test_tokens_are_compared_for_every_hash_but_sha256_unless_asked_otherwise():
    made = [HashBlockCache(), HashBlockCache(block_hash="crc32"), HashBlockCache(block_hash=same)]
    asked = [HashBlockCache(verify=True), HashBlockCache(block_hash="python", verify=False)]
    assert [cache.verify for cache in made + asked] == [False, True, True, True, False]


def test_a_collision_costs_nothing_but_time_where_hits_are_verified():
    cache = HashBlockCache(block_hash=same)
    cache.insert([1, 2], [10, 11])
    cache.insert([7, 8], [17, 18])
    cache.insert([7, 2], [0, 12])
    cache.insert([1, 2], [20, 21], namespace="x")
    cache.check()
    found = [cache.match_prefix(prompt).pages.tolist() for prompt in ([1, 2], [7, 8], [7, 2], [1, 8], [9])]
    assert found == [[10, 11], [17, 18], [17, 12], [10], []]
    assert [len(cache.evict(1)) for _ in range(8)] == [1] * 7 + [0]
    assert not list(cache.nodes())


def test_tokens_are_compared_over_the_whole_prefix_not_over_the_last_page():
    """Equal last pages behind different first ones, under one key: what vLLM#12603 left out of the identity."""
    cache = HashBlockCache(block_hash=same)
    cache.insert([1, 5, 5], [1, 2, 3])
    assert cache.match_prefix([2, 5, 5]).length == 0


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 1, 3), (2, 3, 1)])
def test_blocks_with_one_key_are_found_until_each_is_evicted(order):
    cache, left = HashBlockCache(block_hash=same), {1, 2, 3}
    for token in order:
        cache.insert([token], [token])
    for token in (1, 2, 3):
        cache.match_prefix([token])
    assert len({block.key for block in cache.nodes()}) == 1
    for token in (1, 2, 3):
        assert cache.evict(1).tolist() == [token]
        left.remove(token)
        assert {other for other in (1, 2, 3) if cache.match_prefix([other]).length} == left
        cache.check()
        for other in sorted(left):
            cache.match_prefix([other])


def test_a_block_knows_what_is_before_it():
    cache = HashBlockCache()
    second = cache.insert([1, 2], [10, 11], namespace="lora").node
    third = cache.insert([1, 3], [10, 12], namespace="lora").node
    first, root = second.parent, cache.roots["lora"]
    assert (way_to(third), third.num_hashed_tokens, first.parent) == ([third, first], 2, root)
    assert (way_to(first), way_to(root)) == ([first], [])
    assert [block.id for block in cache.nodes()] == [2, 3, 4]  # the root of the namespace is 1


# -- errors, and an audit that audits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["md5", 5, None])
def test_an_unknown_hash_is_refused(wrong):
    with pytest.raises(ValueError, match="expected one of sha256, crc32, python, or a function"):
        HashBlockCache(block_hash=wrong)


def test_a_hash_that_raises_in_the_middle_of_an_insert_changes_nothing():
    def breaks(parent, tokens):
        if tokens == array("I", [13]).tobytes():
            raise RuntimeError("no luck")
        return crc32_key(parent, tokens)

    cache = HashBlockCache(block_hash=breaks)
    cache.insert([1, 2], [0, 1])
    for name in (None, "fresh"):
        with pytest.raises(RuntimeError, match="no luck"):
            cache.insert([1, 2, 12, 13, 14], [0, 1, 2, 3, 4], namespace=name)
    cache.check()
    assert (cache.total_size, list(cache.roots)) == (2, [None])


def test_a_stale_handle_is_refused_even_when_its_page_is_cached_again():
    cache = HashBlockCache()
    handle = cache.insert([1, 2], [0, 1]).handle
    cache.evict(1)
    cache.insert([1, 2], [0, 5])
    with pytest.raises(LockError, match=r"cannot lock the handle of length 2 \(node 2\): its end was evicted"):
        cache.lock(handle)
    gone = handle.node
    assert (gone.tokens, gone.pages.tolist(), gone.slots.tolist()) == ([], [], [])
    assert (gone.page, gone.key, gone.parent) == (None, None, None)
    assert [block.id for block in cache.nodes()] == [1, 3]


def spoil_a_token(cache, block):
    block.key_bytes = array("I", [9]).tobytes()


def lose_a_token(cache, block):
    block.key_bytes = b""


def cache_a_page_twice(cache, block):
    block.page = block.parent.page


def lose_a_key(cache, block):
    del cache._table[block.parent.key]


def keep_a_key(cache, block):
    cache._table[b"no key"] = [block]


def swap_in_the_queue(cache, block):
    cache._queue.touch([block])


def forget_a_link(cache, block):
    block.newer.older = None


def drop_from_the_queue(cache, block):
    cache._queue.remove([block])


def make_a_parent_older(cache, block):
    block.parent.last_used = 0


def use_it_in_the_future(cache, block):
    block.last_used = 9


def lose_the_parent(cache, block):
    block.parent.parent = cache.insert([7], [7]).node


def count_a_root_wrong(cache, block):
    cache.roots[None].num_first += 1


def miscount(cache, block):
    cache._protected += 1


def forget_a_lock(cache, block):
    cache.acquire([1, 2, 3])
    block.ref_count = 0


def forget_who_holds_a_lock(cache, block):
    cache._give_back(cache.acquire([1, 2, 3]))


def repeat_an_id(cache, block):
    cache._next_id = 1
    cache.insert([8], [8])


def end_elsewhere(cache, block):
    block.end = 7


def rename_the_last(cache, block):
    block.key = bytes(32)


SPOILT = [
    spoil_a_token, lose_a_token, cache_a_page_twice, lose_a_key, keep_a_key, swap_in_the_queue, forget_a_link,
    drop_from_the_queue, make_a_parent_older, use_it_in_the_future, lose_the_parent, count_a_root_wrong, miscount,
    forget_a_lock, forget_who_holds_a_lock, repeat_an_id, end_elsewhere, rename_the_last,
]  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_check_finds_what_is_spoilt(spoil):
    cache = HashBlockCache()
    block = cache.insert([1, 2, 3], [0, 1, 2]).node
    cache.match_prefix([1])
    cache.check()
    spoil(cache, block)
    with pytest.raises(InvariantError):
        cache.check()


def test_random_use_by_thousands_of_blocks_stays_sound():
    chance, cache, page = random.Random(7), HashBlockCache(4, "crc32"), 0
    for _ in range(300):
        prompt = [chance.randrange(2) for _ in range(chance.randrange(1, 60))]
        match = cache.acquire(prompt)
        pages = np.arange(page, page + -(-len(prompt) // 4), dtype=np.int32)
        page += len(pages)
        cache.insert(prompt, pages, start=match)
        cache.unlock(match)
        cache.evict(chance.randrange(20))
    cache.check()


@pytest.mark.parametrize("kind", [HashBlockCache, TokenTrie])
def test_what_is_not_cached_has_no_number_that_a_later_node_gets(kind):
    cache = kind()
    nothing = cache.match_prefix([1, 2], namespace="a")
    with pytest.raises(LockError, match=r"cannot unlock the handle of length 0 \(node 0\)"):
        cache.unlock(nothing)
    end = cache.insert([1, 2], [0, 1], namespace="a").node
    assert [node.id for node in (end.parent.parent, end.parent, end)] == [1, 2, 3]
    assert cache.insert([], [], namespace="b").node.id == 0
