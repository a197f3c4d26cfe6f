"""Keys of blocks: what each hash promises, extra keys that cannot be confused, and a collision built by hand."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import HashBlockCache
from minikv.prefix.block_hash import HASHES, Crc32, OneByOne, PythonHash, extra_keys, frame, hash_named

EVERY_HASH = pytest.mark.parametrize("name", HASHES)
TOKENS = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=12)
FRAMED = st.recursive(
    st.none() | st.text() | st.binary() | st.integers(), lambda inner: st.lists(inner, max_size=3).map(tuple)
)


def packed(tokens):
    return memoryview(array("I", tokens).tobytes())


@EVERY_HASH
@given(tokens=TOKENS, cut=st.integers(0, 12))
def test_a_state_goes_on_from_anywhere_and_is_not_changed_by_it(name, tokens, cut):
    made = HASHES[name]()
    at, data, start = 4 * min(cut, len(tokens)), packed(tokens), made.begin(b"seed")
    middle = made.after(start, data[:at], 4)
    whole = made.key(made.after(start, data, 4))
    assert made.key(made.after(middle, data[at:], 4)) == whole
    assert made.key(made.after(middle, data[at:], 4)) == whole


@EVERY_HASH
@given(tokens=TOKENS)
def test_keys_of_several_pages_are_those_of_each_prefix(name, tokens):
    made, data = HASHES[name](), packed(tokens)
    start = made.begin(b"")
    keys, behind = made.keys(start, [bytes(data[at : at + 4]) for at in range(0, len(data), 4)])
    assert keys == [made.key(made.after(start, data[:end], 4)) for end in range(4, len(data) + 1, 4)]
    assert made.key(behind) == keys[-1]


@EVERY_HASH
def test_a_key_depends_on_what_is_in_front_of_the_page_and_on_the_seed(name):
    made = HASHES[name]()
    keys = {made.key(made.after(made.begin(seed), packed(t), 4)) for seed in (b"", b"x") for t in ([1, 5], [2, 5], [5])}
    assert len(keys) == 6


@given(FRAMED, FRAMED)
def test_two_namespaces_have_the_same_bytes_only_if_they_are_equal(one, other):
    assert (frame(one) == frame(other)) == (one == other)


@pytest.mark.parametrize("name", [1.5, float("nan"), ("a", 1.5), frozenset()])
def test_what_has_no_bytes_of_its_own_is_not_framed(name):
    assert frame(name) is None


def test_an_adapter_and_a_salt_of_the_same_name_are_kept_apart():
    assert extra_keys(lora="x") != extra_keys(salt="x")
    assert frame(extra_keys(lora="x", salt="y")) != frame(extra_keys(lora="y", salt="x"))
    with pytest.raises(TypeError, match=r"salt is 5 \(int\): an extra key is a string"):
        extra_keys(salt=5)


def test_a_hash_of_ones_own_needs_four_methods():
    class Half:
        begin = after = key = None

    with pytest.raises(TypeError, match="block_hash Half has no method begin: expected those of BlockHash"):
        hash_named(Half)
    with pytest.raises(NotImplementedError, match="OneByOne does not say how it goes on"):
        OneByOne().after(0, packed([1]), 4)


@pytest.mark.parametrize("key", [[1], None, 0.5, object], ids=["a list", "none", "a fraction", "an object"])
def test_a_key_is_of_a_kind_whose_own_hash_never_raises(key):
    """With one that raises in the middle, a block would be in the index and not in its run, or the other way round."""

    class Odd(Crc32):
        def key(self, state):
            return key

    with pytest.raises(TypeError, match=r"block_hash Odd has the key .*: expected bytes, a number or text"):
        hash_named(Odd)


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
    mine, theirs = collision(cache.roots[None].state)
    assert mine != theirs
    cache.insert(theirs, [66])
    assert cache.match_prefix([*mine, 1, 2]).pages.tolist() == [66]
    for closed in (HashBlockCache(2, "python"), HashBlockCache(2, verify=False), HashBlockCache(2, seed="another")):
        closed.insert(theirs, [66])
        assert closed.match_prefix(mine).length == 0


def test_a_collision_of_crc32_needs_no_search():
    """A checksum is linear: four bytes of one page can undo any difference in another."""
    crc, first = Crc32(), [3, 0]
    goal = crc.key(crc.after(0, packed(first), 8))
    table = [crc.after(crc.after(0, packed([4]), 4), packed([1 << bit]), 4) for bit in range(32)]
    base = crc.after(crc.after(0, packed([4]), 4), packed([0]), 4)
    second = [4, solve([value ^ base for value in table], goal ^ base)]
    assert first != second
    assert crc.key(crc.after(0, packed(second), 8)) == goal


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
    assert "a warning, not a choice" in PythonHash.__doc__
