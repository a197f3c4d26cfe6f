"""Hashed blocks: the order of the queue, what each hash promises, and where two prefixes have one key."""

import random
import re
from array import array

import pytest
from digits import put
from refusals import said

from minikv import HashBlockCache, TokenTrie, pack
from minikv.prefix.hash_blocks import HASHES, crc32_key, extra_keys, sha256_key, spelled


def packed(*tokens):
    return array("I", tokens).tobytes()


# -- the queue --------------------------------------------------------------------------------------------------------


def test_the_queue_is_sorted_by_last_use_and_then_the_deepest_block_first():
    def order():
        return [block.page for block in cache.queue()]

    cache = HashBlockCache()
    put(cache, b"123", b"78")
    assert order() == [123, 12, 1, 78, 7]
    cache.match_prefix(b"12")
    assert order() == [123, 78, 7, 12, 1]
    handle = cache.acquire(b"7")
    assert order() == [123, 78, 12, 1]
    cache.unlock(handle)
    assert order() == [123, 78, 12, 1, 7]
    assert cache.evict(2).tolist() == [123, 78]


@pytest.mark.parametrize("kind", [HashBlockCache, TokenTrie])
def test_what_is_not_cached_has_no_number_that_a_later_node_gets_and_what_is_gone_has_nothing(kind):
    cache = kind()
    nothing = cache.match_prefix(b"12", namespace="a")
    assert "LockError: cannot unlock the handle of length 0 (node 0)" in said(cache.unlock, nothing)
    end = put(cache, b"12", namespace="a")
    gone = end.node
    assert [node.id for node in (gone.parent.parent, gone.parent, gone)] == [1, 2, 3]
    assert cache.insert([], [], namespace="b").node.id == 0
    cache.evict(1)
    put(cache, b"12", namespace="a")
    assert "LockError: cannot lock the handle of length 2 (node 3): its end was evicted" in said(cache.lock, end)
    assert (gone.tokens, gone.pages.tolist(), gone.slots.tolist(), gone.page, gone.parent) == ([], [], [], None, None)
    assert [node.id for node in cache.nodes()] == [2, 4]
    cache.evict(2)
    for token in b"12":
        put(cache, bytes([token]))
        cache.evict(1)
    put(cache, b"3")
    assert [node.id for node in cache.nodes()] == [7]


# -- keys -------------------------------------------------------------------------------------------------------------


def test_keys_are_made_up_to_the_first_miss_and_not_of_what_a_start_has_found():
    def key_of(parent, tokens):
        made.extend(array("I", tokens))
        return sha256_key(parent, tokens)

    made, prompt = [], pack(range(500))
    cache = HashBlockCache(1, key_of)
    cache.insert(prompt, range(500))
    made.clear()
    assert cache.match_prefix([*range(300), *range(700, 1000)]).length == 300
    assert made == [*range(300), 700]
    match = cache.acquire(prompt)
    made.clear()
    cache.insert(prompt + pack([777]), range(501), start=match)
    assert set(made) == {777}


@pytest.mark.parametrize("name", HASHES)
def test_a_key_depends_on_the_page_and_on_what_is_before_it(name):
    key_of = HASHES[name]
    seeds = bytes(32), b"x" * 32
    parents = [key_of(seed, packed(token, 0)) for seed in seeds for token in (1, 2)]
    keys = {key_of(parent, packed(5, 0)) for parent in [*parents, *seeds]} | set(parents)
    assert len(keys) == 10
    assert all(type(key) is bytes for key in keys)


def test_two_seeds_share_no_key_and_one_seed_gives_the_same_keys_everywhere():
    keys = []
    for seed in ("a", "a", "b", b"a"):
        cache = HashBlockCache(seed=seed)
        put(cache, b"12")
        keys.append(tuple(block.key for block in cache.nodes()))
    assert keys[0] == keys[1]
    assert len({key for each in keys for key in each}) == 6


def test_every_namespace_has_keys_of_its_own_even_one_without_bytes():
    cache = HashBlockCache()
    for page, name in enumerate([None, "a", 1.5, frozenset("a")]):
        cache.insert([1], [page], namespace=name)
    assert len({block.key for block in cache.nodes()}) == 4


def names(rng, depth=2):
    """A namespace of few letters and numbers, so that two are often alike, in tuples of tuples."""
    if depth and rng.random() < 0.5:
        return tuple(names(rng, depth - 1) for _ in range(rng.randrange(4)))
    return rng.choice([None, "", "a", "1", "a1", "\udc80", b"", b"a", b"1", 0, 1, 10, -1, 16])


def test_two_namespaces_have_the_same_bytes_only_if_they_are_equal():
    rng = random.Random(1)
    found = {names(rng) for _ in range(3000)}
    assert len({spelled(name) for name in found}) == len(found) > 500


def test_an_adapter_and_a_salt_of_the_same_name_are_kept_apart():
    assert extra_keys(lora="x") != extra_keys(salt="x")
    assert extra_keys(salt="") == (("salt", ""),)  # empty, and still a salt
    assert spelled(extra_keys(lora="x", salt="y")) != spelled(extra_keys(lora="y", salt="x"))
    assert "TypeError: salt is 5 (int): an extra key is a string" in said(extra_keys, salt=5)


REFUSED = [
    ({"block_hash": 5}, "ValueError: block_hash is 5.*: expected one of sha256, crc32, python, or a function"),
    ({"seed": 5}, r"TypeError: seed is 5 \(int\): expected text or bytes"),
    ({"block_hash": lambda parent, tokens: [1]}, "TypeError: block_hash <lambda> has the key .*: expected bytes"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_what_makes_no_keys_is_refused_before_anything_is_cached(options, words):
    assert re.match(words, said(HashBlockCache, **options))


def test_a_hash_that_raises_in_the_middle_of_an_insert_changes_nothing():
    def breaks(parent, tokens):
        if tokens == packed(ord("4")):
            raise RuntimeError("no luck")
        return crc32_key(parent, tokens)

    cache = HashBlockCache(block_hash=breaks)
    put(cache, b"12")
    for name in (None, "fresh"):
        assert "RuntimeError: no luck" in said(put, cache, b"12345", namespace=name)
    cache.check()
    assert (cache.total_size, list(cache.roots)) == (2, [None])


# -- collisions -------------------------------------------------------------------------------------------------------


def same(parent, tokens):
    """All blocks of one depth have one key: a collision wherever there could be one."""
    return bytes(len(parent) + 1)


def test_a_collision_serves_another_prompts_pages_only_where_hits_are_not_verified():
    for verify, expected in ((False, [1, 12]), (True, []), (None, [])):
        cache = HashBlockCache(block_hash=same, verify=verify)
        put(cache, b"12")
        assert cache.match_prefix(b"789").pages.tolist() == expected


def test_tokens_are_compared_for_every_hash_but_sha256_unless_asked_otherwise():
    made = [HashBlockCache(), HashBlockCache(block_hash="crc32"), HashBlockCache(block_hash=same)]
    asked = [HashBlockCache(verify=True), HashBlockCache(block_hash="python", verify=False)]
    assert [cache.verify for cache in made + asked] == [False, True, True, True, False]
