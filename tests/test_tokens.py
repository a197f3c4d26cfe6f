"""Packing tokens, unpacking them, and finding where two keys part."""

from __future__ import annotations

import re
from array import array
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import PackedTokens, common_prefix, pack
from minikv.tokens import TOKEN_BYTES, common_bytes, end_tokens, integers, token_id

pytestmark = pytest.mark.core

TOKENS = st.lists(st.integers(0, 2**32 - 1), max_size=50)


@given(TOKENS)
def test_packing_loses_nothing(tokens):
    key = pack(tokens)
    assert key.tolist() == list(key) == tokens
    assert len(key) == len(tokens)
    assert len(key.data) == TOKEN_BYTES * len(tokens)


@given(TOKENS)
def test_every_form_packs_to_the_same_bytes(tokens):
    forms = [
        tuple(tokens),
        array("Q", tokens),
        np.array(tokens, np.uint64),
        memoryview(array("L", tokens)),
        deque(tokens),
    ]
    assert {pack(form).data for form in forms} == {pack(tokens).data}


@given(TOKENS, st.integers(-60, 60), st.integers(-60, 60))
def test_slices_of_a_key_are_keys_of_slices(tokens, start, stop):
    assert pack(tokens)[start:stop] == pack(tokens[start:stop])
    for step in (-2, -1, 2, 3):
        assert pack(tokens)[start:stop:step] == pack(tokens[start:stop:step])


def test_a_packed_key_is_packed_already():
    key = pack([1, 2])
    assert pack(key) is key


def test_a_key_behaves_as_a_sequence_of_ints():
    key = pack([5, 6])
    assert (key[-1], list(key), 6 in key, key == pack([5, 6]), key == [5, 6]) == (6, [5, 6], True, True, False)
    assert len({key, pack([5, 6])}) == 1
    assert repr(pack(range(8))) == "PackedTokens([0, 1, 2, 3, 4, 5, 6, 7])"
    assert repr(pack(range(9))) == "PackedTokens([0, 1, 2, 3, 4, 5, 6, 7, ... 9 in all])"
    with pytest.raises(IndexError):
        key[2]
    with pytest.raises(ValueError, match="3 bytes are not whole tokens"):
        PackedTokens(b"abc")


def test_an_empty_array_of_floats_holds_no_bad_token():
    for dtype in (float, bool, np.int32, np.uint32, np.int64):
        assert len(pack(np.array([], dtype))) == 0
        assert len(integers(np.array([], dtype), "pages", "a page is an integer", 9)) == 0


def test_a_table_is_refused_by_its_shape_in_a_memoryview_too():
    table = memoryview(np.zeros((2, 3), np.int32))
    for use in (pack, lambda values: integers(values, "tokens", "a token is an integer", 9)):
        with pytest.raises(ValueError, match=r"tokens have shape \(2, 3\): expected one dimension"):
            use(table)


@pytest.mark.parametrize("text", ["12", b"12", bytearray(b"12")])
def test_what_is_no_token_is_never_made_of_the_characters_of_a_text(text):
    with pytest.raises(TypeError, match=rf"pages are a {type(text).__name__}: expected a one-dimensional sequence"):
        integers(text, "pages", "a page is an integer", 99)


def test_a_tensor_of_a_kind_numpy_does_not_have_is_named():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="bfloat16"):
        pack(torch.zeros(2, dtype=torch.bfloat16))
    with pytest.raises(ValueError, match=r"shape \(\)"):
        pack(torch.tensor(3))


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_a_tensor_without_values_is_named_wherever_tokens_go(dtype):
    torch = pytest.importorskip("torch")
    tokens = torch.empty(3, dtype=getattr(torch, dtype), device="meta")
    for use in (pack, lambda tokens: common_prefix([1], tokens), lambda tokens: pack([1]) + tokens):
        with pytest.raises(ValueError, match="tokens are a tensor on meta, which has no values: expected integers"):
            use(tokens)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("where", [0, 1, -1])
def test_a_negative_token_is_refused_in_every_dtype(dtype, where):
    """In int32 the bytes of -1 are those of the token 4294967295."""
    tokens = np.arange(5, dtype=dtype)
    tokens[where] = -1
    for form in (tokens, tokens[::-1], memoryview(tokens)):
        with pytest.raises(ValueError, match=rf"tokens\[{list(form).index(-1)}\] is -1"):
            pack(form)


@pytest.mark.parametrize(
    "wrong",
    [8, 4 * 10**8, np.uint64(2**63), None, [1, 2], "abcd", np.arange(3), array("I", [1])],
    ids=lambda w: repr(w),
)
def test_only_packed_bytes_make_a_key(wrong):
    """`bytes(8)` is eight zeros: a number must not become two tokens. Tokens that are not packed go to `pack`."""
    with pytest.raises(TypeError, match=r"data is .*: expected packed bytes, made by pack\(\)"):
        PackedTokens(wrong)


def test_a_key_from_a_buffer_is_a_copy():
    buffer = bytearray(8)
    keys = PackedTokens(buffer), PackedTokens(memoryview(buffer))
    buffer[0] = 1
    assert [key.tolist() for key in keys] == [[0, 0], [0, 0]]


@given(TOKENS, TOKENS, TOKENS)
def test_common_prefix_is_where_a_python_loop_would_stop(shared, a, b):
    a, b = shared + a, shared + b
    expected = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    assert common_prefix(a, b) == expected


@given(st.binary(max_size=40), st.binary(max_size=40), st.integers(1, 8), st.integers(0, 5))
def test_common_bytes_counts_whole_steps_within_the_window(edge, data, step, at):
    end = len(data)
    window = data[at:end]
    same = next((i for i, (x, y) in enumerate(zip(edge, window)) if x != y), min(len(edge), len(window)))
    assert common_bytes(edge, data, min(at, end), end, step) == same // step * step


def test_common_bytes_does_not_look_behind_the_end():
    assert [common_bytes(b"abcdef", b"xxabcdef", 2, end, 1) for end in (2, 3, 6, 8)] == [0, 1, 4, 6]


def test_what_is_put_together_is_equal_to_what_was_never_apart():
    joined = pack([1, 2]) + range(3, 4)
    assert (joined, hash(joined), joined.head) == (pack([1, 2, 3]), hash(pack([1, 2, 3])), pack([1, 2]).data)
    assert joined[:1].head is None
    assert joined[:2].head == joined[:3].head == pack([1, 2]).data
    assert joined[1:].head is joined[1:3].head is (pack([1, 2]) + range(1, 9))[2:].head is None
    assert (joined[:1] + range(9, 10)).tolist() == [1, 9]
    with pytest.raises(ValueError, match=r"tokens\[0\] is -1"):
        _ = pack([1]) + range(-1, 0)


def test_end_tokens_are_a_set_of_tokens_whatever_holds_them():
    assert end_tokens((7, 2, 7)) == end_tokens({2, 7}) == end_tokens(np.array([2, 7]).tolist()) == frozenset({2, 7})
    assert end_tokens([]) == frozenset()
    assert [token_id(0), token_id(np.int64(2**32 - 1))] == [0, 2**32 - 1]


@pytest.mark.parametrize("eos", ["ab", b"ab", 2, None, iter([2])])
def test_what_is_no_collection_is_no_end_tokens(eos):
    with pytest.raises(TypeError, match=r"^eos is .*: expected a collection of token ids$"):
        end_tokens(eos)


@pytest.mark.parametrize(
    ("token", "error", "says"),
    [
        (-1, ValueError, "token is -1"), (2**32, ValueError, "token is 4294967296"),
        (2.0, TypeError, "token is 2.0 (float), not a whole number"), (True, TypeError, "token is True (bool)"),
    ],
)  # fmt: skip
def test_a_token_outside_of_its_range_is_named(token, error, says):
    with pytest.raises(error, match=rf"^{re.escape(says)}.*: a token is an integer in \[0, 2\*\*32\)$"):
        end_tokens([1, token])
