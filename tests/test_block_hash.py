"""Keys of blocks: what each hash promises, extra keys that cannot be confused, and a collision built by hand."""

from __future__ import annotations

import zlib
from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import HashBlockCache
from minikv.prefix.hash_blocks import HASHES, crc32_key, extra_keys, hash_named, python_key, spelled

pytestmark = pytest.mark.core

EVERY_HASH = pytest.mark.parametrize("name", HASHES)
SPELLED = st.recursive(
    st.none() | st.text() | st.binary() | st.integers(), lambda inner: st.lists(inner, max_size=3).map(tuple)
)


def packed(*tokens):
    return array("I", tokens).tobytes()


@EVERY_HASH
def test_a_key_depends_on_the_page_and_on_what_is_before_it(name):
    key_of = HASHES[name]
    seeds = bytes(32), b"x" * 32
    parents = [key_of(seed, packed(token, 0)) for seed in seeds for token in (1, 2)]
    keys = {key_of(parent, packed(5, 0)) for parent in [*parents, *seeds]} | set(parents)
    assert len(keys) == 10
    assert all(type(key) is bytes for key in keys)


@given(SPELLED, SPELLED)
def test_two_namespaces_have_the_same_bytes_only_if_they_are_equal(one, other):
    assert (spelled(one) == spelled(other)) == (one == other)


def test_an_adapter_and_a_salt_of_the_same_name_are_kept_apart():
    assert extra_keys(lora="x") != extra_keys(salt="x")
    assert spelled(extra_keys(lora="x", salt="y")) != spelled(extra_keys(lora="y", salt="x"))
    with pytest.raises(TypeError, match=r"salt is 5 \(int\): an extra key is a string"):
        extra_keys(salt=5)


@pytest.mark.parametrize("key", [[1], None, 7, object], ids=["a list", "none", "a number", "an object"])
def test_a_key_is_bytes(key):
    """With one whose hash raises in the middle, half of a prompt would be cached."""

    def odd(parent, tokens):
        return key

    with pytest.raises(TypeError, match=r"block_hash odd has the key .*: expected bytes"):
        hash_named(odd)


def collision(state):
    """Two pages of two tokens with one `hash((state, *tokens))`.

    Python adds each number times an odd constant to what it has, so the last token can make up for a difference of
    up to 2**32 steps. Among 2**17 first tokens some are as near to each other as that.
    """
    p1, p2, p5 = (np.uint64(p) for p in (11400714785074694791, 14029467366897019727, 2870177450012600261))

    def after(acc, numbers):
        acc = acc + numbers * p2
        return ((acc << np.uint64(31)) | (acc >> np.uint64(33))) * p1

    first = np.random.RandomState(1).randint(0, 2**32, 2**17, np.uint64)
    acc = after(after(np.array([p5]), np.array([hash(state) % 2**64], np.uint64)), first)
    steps = acc * np.uint64(pow(int(p2), -1, 2**64))
    ranked = np.argsort(steps)
    gaps = np.diff(steps[ranked])
    at = int(gaps.argmin())
    return [int(first[ranked[at]]), int(gaps[at])], [int(first[ranked[at + 1]]), 0]


def test_a_collision_of_pythons_hash_is_built_in_a_moment_and_serves_the_wrong_pages():
    """The attack of CVE-2025-25183: nothing secret goes into the hash, so the colliding prompt is built beforehand."""
    cache = HashBlockCache(2, "python", verify=False)
    mine, theirs = collision(int.from_bytes(cache.roots[None].key, "little"))
    assert mine != theirs
    cache.insert(theirs, [66])
    assert cache.match_prefix([*mine, 1, 2]).pages.tolist() == [66]
    for closed in (HashBlockCache(2, "python"), HashBlockCache(2, verify=False), HashBlockCache(2, seed="another")):
        closed.insert(theirs, [66])
        assert closed.match_prefix(mine).length == 0


def test_a_collision_of_crc32_needs_no_search():
    """A checksum is linear: four bytes of one page can undo any difference in another."""
    goal, base = zlib.crc32(packed(3, 0)), zlib.crc32(packed(4, 0))
    table = [zlib.crc32(packed(4, 1 << bit)) ^ base for bit in range(32)]
    second = solve(table, goal ^ base)
    assert crc32_key(b"", packed(4, second)) == crc32_key(b"", packed(3, 0))


def solve(columns, goal):
    """Which bits to set so that the columns of the set ones, added without carrying, make `goal`."""
    basis = {}
    for bit, column in enumerate(columns):
        which = 1 << bit
        while column:
            top = column.bit_length()
            if top not in basis:
                basis[top] = column, which
                break
            column, which = column ^ basis[top][0], which ^ basis[top][1]
    found = 0
    while goal:
        column, which = basis[goal.bit_length()]
        goal, found = goal ^ column, found ^ which
    return found


def test_the_weak_hash_says_so():
    assert "a warning, not a choice" in python_key.__doc__
