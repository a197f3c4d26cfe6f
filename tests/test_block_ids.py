"""Ids of blocks: equal exactly where all up to the end of the block is equal, and nothing can be told from them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minikv.traffic.block_ids import BlockIds

prompts = st.lists(st.tuples(st.text("ab", max_size=9).map(str.encode), st.sampled_from([{}, {"model": "m"}])))


@given(prompts, st.integers(1, 3), st.binary(max_size=3))
def test_two_blocks_have_one_id_exactly_where_namespace_and_beginning_agree(prompts, stride, salt):
    ids, seen = BlockIds(salt), {}
    for units, namespace in prompts:
        found = ids.of(units, stride, namespace).tolist()
        assert len(found) == len(units) // stride
        for at, block in enumerate(found):
            beginning = str(namespace), units[: (at + 1) * stride]
            assert seen.setdefault(beginning, block) == block
    assert len(set(seen.values())) == len(seen)
    assert list(seen.values()) == list(range(len(seen))), "numbered as they first appear"


@given(prompts, st.binary(max_size=3), st.binary(max_size=3))
def test_the_ids_are_the_same_with_any_salt(prompts, salt, other):
    one, two = BlockIds(salt), BlockIds(other)
    for units, namespace in prompts:
        assert one.of(units, 2, namespace) == two.of(units, 2, namespace)


def test_a_namespace_is_told_apart_however_it_is_spelled():
    ids = BlockIds(b"")
    names = [{}, {"a": "b"}, {"a": "', 'b"}, {"a', '": "b"}, {"a": "\ud800"}, {"b": "a"}]
    assert [ids.of(b"x", 1, name).tolist() for name in names] == [[number] for number in range(len(names))]
    assert ids.of(b"x", 1, {"y": "2", "a": "1"}) == ids.of(b"x", 1, {"a": "1", "y": "2"})
