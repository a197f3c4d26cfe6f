"""The dictionary of blocks: where keys collide, in which order blocks come, and what is left of an evicted one."""

from __future__ import annotations

from array import array

import pytest

from minikv.prefix.block_hash import sha256_key
from minikv.prefix.block_table import BlockTable


def one_key(parent, tokens):
    return b"one key for all"


def packed(*tokens):
    return array("I", tokens).tobytes()


def table_of(key_of=sha256_key, verify=True):
    return BlockTable(key_of, stride=4, seed=b"", verify=verify)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_blocks_with_one_key_are_found_until_each_is_removed(order):
    table = table_of(one_key)
    root = table.root_of(None)
    made = [table.append(root, packed(token), [token])[0] for token in (7, 8, 9)]
    assert [block.twin is None for block in made] == [True, False, False]
    left = set(made)
    for at in order:
        table.remove(made[at])
        left.remove(made[at])
        for token, block in zip((7, 8, 9), made):
            assert table.follow(root, packed(token)) == [block] * (block in left)
    assert list(table) == []
    table.check()


def test_without_a_comparison_the_block_of_equal_key_is_taken_but_only_in_its_place():
    table = table_of(one_key, verify=False)
    root = table.root_of(None)
    first, second = table.append(root, packed(1, 2), [10, 11])
    assert table.follow(root, packed(8, 9)) == [first, second]
    assert table.follow(root, packed(8, 9, 9)) == [first, second]
    assert table.follow(table.root_of("another"), packed(1, 2)) == []


def test_a_block_knows_its_place_and_finds_its_children():
    table = table_of()
    root = table.root_of("lora")
    first, second = table.append(root, packed(1, 2), [10, 11])
    third = table.append(first, packed(3), [12])[0]
    assert (third.path, third.num_hashed_tokens, third.parent.parent) == ([third, first], 2, root)
    assert first.children == {packed(2): second, packed(3): third}
    assert (root.children, second.children, root.path) == ({packed(1): first}, {}, [])
    assert [block.id for block in table] == [2, 3, 4]  # the root of the namespace is 1


def test_nothing_is_left_of_a_block_but_its_number():
    table = table_of()
    block = table.append(table.root_of(None), packed(1), [10])[0]
    table.remove(block)
    left = block.key, block.parent, block.page, block.tokens, block.pages.tolist(), block.slots.tolist(), block.children
    assert left == (None, None, None, [], [], [], {})
    assert (block.is_gone, block.id, repr(block)) == (True, 1, "Block(id=1, tokens=[], pages=[], ref_count=0)")


def test_a_block_has_the_slots_of_its_page():
    table = BlockTable(sha256_key, stride=8, seed=b"", verify=True)
    block = table.append(table.root_of(None), packed(5, 6), [3])[0]
    assert (block.tokens, block.pages.tolist(), block.slots.tolist()) == ([5, 6], [3], [6, 7])
