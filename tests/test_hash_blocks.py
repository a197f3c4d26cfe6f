"""The index of hashed blocks: against the naive model, against the radix tree, and where two prefixes have one key."""

from __future__ import annotations

import random
from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from indexes import Collides
from machine import IndexAgainstModel

from minikv import HashBlockCache, InvariantError, LockError, RadixCache, pack
from minikv.prefix.block_hash import Crc32, Sha256, extra_keys
from minikv.prefix.block_run import BlockRun
from minikv.testing.conformance.naive import NaiveCache

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
        self.model = NaiveCache(page_size, "lru", "page")
        return Unranked(page_size, self.block_hash)

    def use(self, item, locked):
        return [None if locked else item.last_used]


class CollidingAgainstModel(HashAgainstModel):
    """The same, with eight keys for all blocks."""

    block_hash = Collides


@pytest.mark.parametrize("machine", [HashAgainstModel, CollidingAgainstModel])
def test_the_state_machine_finds_no_difference_from_the_naive_model(machine, monkeypatch):
    monkeypatch.setattr(BlockRun, "worth_a_state", 0)  # its prompts are short
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


class Counting(Sha256):
    """Counts the keys that are read one by one, and the bytes that are hashed for a state."""

    keys_read = bytes_read = 0

    def after(self, state, pages, page_bytes):
        Counting.bytes_read += len(pages)
        return super().after(state, pages, page_bytes)

    def key(self, state):
        Counting.keys_read += 1
        return super().key(state)


def cost(act):
    """What `act()` returns, and how many keys and bytes it takes."""
    Counting.keys_read = Counting.bytes_read = 0
    return act(), Counting.keys_read, Counting.bytes_read


def test_a_match_of_many_blocks_computes_a_key_for_each_run_and_one_for_the_miss():
    cache, tokens = HashBlockCache(16, Counting), pack(range(16 * 1000))
    cache.insert(tokens, range(1000))
    for length in (0, 1, 499, 999, 1000):
        prompt = pack(tokens.tolist()[: 16 * length] + [0] * (16 * (1000 - length)))
        match, keys_read, _ = cost(lambda prompt=prompt: cache.match_prefix(prompt))
        assert match.length == 16 * length
        assert keys_read == (length > 0) + (length < 1000)


def test_an_insert_behind_an_acquired_prefix_hashes_only_what_is_new():
    cache, prompt = HashBlockCache(1, Counting), pack(range(1000))
    cache.insert(prompt, range(1000))
    match = cache.acquire(prompt)
    assert cost(lambda: cache.insert(prompt + pack([7, 7]), range(1002), start=match))[1:] == (0, 0)


def test_what_an_acquire_has_hashed_the_insert_behind_it_does_not_hash_again():
    cache = HashBlockCache(1, Counting)
    cache.insert(range(1000), range(1000))
    prompt = pack([*range(500), 7])
    match, _, bytes_read = cost(lambda: cache.acquire(prompt))
    assert 2000 <= bytes_read <= 2000 + 2 * 4
    assert cost(lambda: cache.insert(prompt, range(501), start=match))[2] == 0


def test_no_turn_of_two_conversations_under_one_system_prompt_is_hashed_from_its_beginning():
    cache, page = HashBlockCache(16, Counting), 0
    systems = list(range(800))
    said = {name: [*systems, *[name] * 16] for name in (1, 2)}
    for turn in range(6):
        for name, tokens in said.items():
            match, _, bytes_read = cost(lambda tokens=tokens: cache.acquire(list(tokens)))
            assert bytes_read <= 4 * 64 or turn < 2
            tokens += [name, turn] * 160
            cache.insert(tokens, range(page, page + len(tokens) // 16), start=match)
            page += len(tokens) // 16
            cache.unlock(match)
    cache.check()


@pytest.mark.parametrize("block_hash", ["sha256", Collides])
def test_keys_are_the_same_whether_states_of_the_hash_are_kept_or_not(block_hash, monkeypatch):
    found = []
    for least in (0, 10**9):
        monkeypatch.setattr(BlockRun, "worth_a_state", least)
        chance, cache, page = random.Random(3), HashBlockCache(2, block_hash), 0
        for _ in range(300):
            prompt = TRUNK[: chance.randrange(11)] + [chance.randrange(5, 8) for _ in range(chance.randrange(8))]
            match = cache.acquire(prompt, limit=chance.randrange(20))
            if chance.randrange(2):
                cache.insert(prompt, range(page, page + len(prompt) // 2))
            cache.insert(prompt, range(page + 20, page + 20 + len(prompt) // 2), start=match)
            cache.unlock(match)
            page += 40
            cache.evict(chance.randrange(8))
            cache.check()
        found.append([(block.id, block.key, block.page) for block in cache.nodes()])
    assert found[0] == found[1]
    assert found[0]


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


class Same(Crc32):
    """All blocks of one depth have one key: a collision wherever there could be one."""

    def begin(self, seed):
        return 0

    def after(self, state, pages, page_bytes):
        return state + len(pages) // page_bytes


def test_a_collision_serves_another_prompts_pages_where_hits_are_not_verified():
    cache = HashBlockCache(block_hash=Same, verify=False)
    cache.insert([1, 2], [10, 11])
    assert cache.match_prefix([7, 8, 9]).pages.tolist() == [10, 11]


def test_tokens_are_compared_for_every_hash_but_sha256_unless_asked_otherwise():
    made = [HashBlockCache(), HashBlockCache(block_hash="crc32"), HashBlockCache(block_hash=Same)]
    asked = [HashBlockCache(verify=True), HashBlockCache(block_hash="python", verify=False)]
    assert [cache.verify for cache in made + asked] == [False, True, True, True, False]


def test_a_collision_costs_nothing_but_time_where_hits_are_verified():
    cache = HashBlockCache(block_hash=Same)
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
    cache = HashBlockCache(block_hash=Same)
    cache.insert([1, 5, 5], [1, 2, 3])
    assert cache.match_prefix([2, 5, 5]).length == 0


# -- errors, and an audit that audits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["md5", 5, None])
def test_an_unknown_hash_is_refused(wrong):
    with pytest.raises(ValueError, match="expected one of sha256, crc32, python, or a class"):
        HashBlockCache(block_hash=wrong)


def test_a_hash_that_raises_in_the_middle_of_an_insert_changes_nothing():
    class Breaks(Crc32):
        def after(self, state, pages, page_bytes):
            if bytes(pages) == array("I", [13]).tobytes():
                raise RuntimeError("no luck")
            return super().after(state, pages, page_bytes)

    cache = HashBlockCache(block_hash=Breaks)
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
    assert (handle.node.tokens, handle.node.pages.tolist(), handle.node.children) == ([], [], {})
    assert [block.id for block in cache.nodes()] == [1, 3]


def test_what_continues_a_conversation_adds_no_run_though_its_end_was_evicted_meanwhile():
    cache, tokens = HashBlockCache(), list(range(20))
    for end in range(1, 21):
        cache.insert(tokens[:end], range(100 * end, 100 * end + end))
        cache.evict(end % 2)
    assert [len(run.keys) for run in cache.roots[None].runs] == [20]
    cache.check()


def spoil_a_token(cache, run):
    run.tokens[-4:] = array("I", [9]).tobytes()


def lose_a_token(cache, run):
    del run.tokens[-4:]


def lose_a_page(cache, run):
    run.pages.pop()


def cache_a_page_twice(cache, run):
    run.pages[0] = run.pages[1]


def lose_a_name(cache, run):
    cache._index.discard(run.keys[1:2], run)


def keep_a_name(cache, run):
    cache._index.add(["no key"], run)


def swap_in_the_queue(cache, run):
    cache._queue._ring.touch([run.uses[0]])


def forget_a_link(cache, run):
    run.uses[1].older = None


def drop_from_the_queue(cache, run):
    cache._queue._ring.remove([run.uses[0]])


def make_a_parent_older(cache, run):
    run.uses[1].used = 0


def forget_a_use(cache, run):
    cache._queue._ring.remove([run.uses.pop(0)])


def lose_the_run(cache, run):
    del cache.roots[None].runs[run]


def lose_the_parent(cache, run):
    below = cache.insert([1, 9], [0, 9]).node.run
    below.above, below.above_count = run, 7


def keep_a_wrong_state(cache, run):
    run._end_state = cache.roots[None].state


def keep_a_state_of_too_many_blocks(cache, run):
    run._parting = 4, cache.roots[None].state


def miscount(cache, run):
    cache._protected += 1


def keep_another_path(cache, run):
    cache._paths[cache.acquire([1, 2, 3])] = []


def forget_a_lock(cache, run):
    cache.acquire([1, 2, 3])
    run.locked = 2


def repeat_an_id(cache, run):
    cache._runs.next_id = 1
    cache.insert([8], [8])


SPOILT = [
    spoil_a_token, lose_a_token, lose_a_page, cache_a_page_twice, lose_a_name, keep_a_name, swap_in_the_queue,
    forget_a_link, drop_from_the_queue, make_a_parent_older, forget_a_use, lose_the_run, lose_the_parent, miscount,
    keep_another_path, forget_a_lock, repeat_an_id, keep_a_wrong_state, keep_a_state_of_too_many_blocks,
]  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_check_finds_what_is_spoilt(spoil):
    cache = HashBlockCache()
    run = cache.insert([1, 2, 3], [0, 1, 2]).node.run
    cache.match_prefix([1])
    cache.check()
    spoil(cache, run)
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
