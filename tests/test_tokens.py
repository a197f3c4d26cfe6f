"""Packing tokens, unpacking them, and finding where two keys part."""

from array import array
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import said

from minikv import PackedTokens, common_prefix, pack
from minikv.errors import bounded
from minikv.tokens import common_bytes, end_tokens, integers, token_id

TOKENS = st.lists(st.integers(0, 2**32 - 1), max_size=50)
INDEX = st.none() | st.integers(-60, 60)
RULE = "a token is an integer in [0, 2**32)"


def taken(values):
    """Any form of integers, by the check that is behind all numbers of tokens, slots and pages."""
    return integers(values, "tokens", RULE, 2**32)


@given(TOKENS, INDEX, INDEX, st.sampled_from([None, -2, -1, 1, 2, 3]))
def test_a_key_is_a_sequence_of_its_tokens_whatever_form_they_came_in(tokens, start, stop, step):
    key = pack(tokens)
    assert key.data == array("I", tokens).tobytes()
    assert key.tolist() == [*key] == tokens
    assert len(key) == len(tokens)
    part = pack(tokens[start:stop:step])
    assert key[start:stop:step] == part
    assert hash(key[start:stop:step]) == hash(part)
    long = array("L", tokens)
    for form in tuple(tokens), long, np.array(tokens, np.uint64), memoryview(long), deque(tokens), key:
        assert pack(form).data == key.data
        assert taken(form).tolist() == tokens


def test_a_key_behaves_as_a_sequence_of_ints():
    key = pack([5, 6])
    assert pack(key) is key
    assert (key[-1], 6 in key, key == [5, 6], {key, pack([5, 6])}) == (6, True, False, {key})
    assert repr(pack(range(9))) == "PackedTokens([0, 1, 2, 3, 4, 5, 6, 7, ... 9 in all])"
    assert said(key.__getitem__, 2).startswith("IndexError")


def test_a_key_from_a_buffer_is_a_copy():
    buffer = bytearray(8)
    keys = PackedTokens(buffer), PackedTokens(memoryview(buffer))
    buffer[0] = 1
    assert [key.tolist() for key in keys] == [[0, 0], [0, 0]]


def test_an_empty_array_of_any_kind_holds_no_bad_token():
    for dtype in (float, bool, np.int32, np.uint32, np.int64):
        assert len(pack(np.array([], dtype))) == len(taken(np.array([], dtype))) == 0


def test_the_first_numbers_may_be_skipped_and_the_others_keep_their_places():
    for form in list, np.array:
        assert integers(form([-1, 5]), "pages", RULE, 9, skip=1)[1:].tolist() == [5]
        assert said(integers, form([-1, 5, 9]), "pages", RULE, 9, skip=1).startswith("ValueError: pages[2] is 9")


def test_bytes_are_tokens_of_a_key_and_no_other_numbers():
    assert pack(b"ab") == pack(bytearray(b"ab")) == pack([97, 98])
    for text in "12", b"12", bytearray(b"12"):
        assert said(taken, text).startswith(f"TypeError: tokens are a {type(text).__name__}: expected a one-dimens")


# In int32 the bytes of -1 are those of the token 4294967295.
NEGATIVE = [np.array([3, -1, 4], dtype) for dtype in (np.int8, np.int16, np.int32, np.int64)]
WRONG = [
    *((form, "ValueError: tokens[1] is -1") for tokens in NEGATIVE for form in (tokens, memoryview(tokens))),
    (NEGATIVE[2][::-1], "ValueError: tokens[1] is -1"),
    ([1, -1], "ValueError: tokens[1] is -1"),
    ([2**32], "ValueError: tokens[0] is 4294967296"),
    (np.array([7, 2**32]), "ValueError: tokens[1] is 4294967296"),
    ([10**5000], "ValueError: tokens[0] is an integer of 16610 bits"),
    ([1, 2.5], "TypeError: tokens[1] is 2.5"),
    ([1, "2"], "TypeError: tokens[1] is '2'"),
    ([[1, 2]], "TypeError: tokens[0] is [1, 2]"),
    (np.array([0.5]), "TypeError: tokens[0] is 0.5"),
    (np.array([True]), "TypeError: tokens[0] is True"),
    (np.array([1, None]), "TypeError: tokens[1] is None"),
    (np.array([1, 2**70]), "ValueError: tokens[1] is 1180591620717411303424"),
    (memoryview(np.zeros((2, 3), np.int32)), "ValueError: tokens have shape (2, 3): expected one dimension"),
    ("12", "TypeError: tokens are "),
    (None, "TypeError: tokens are a NoneType: expected a one-dimensional sequence"),
    ({1}, "TypeError: tokens are a set: expected a one-dimensional sequence"),
]


@pytest.mark.parametrize(("tokens", "words"), WRONG)
def test_what_is_no_token_is_named_with_its_place(tokens, words):
    for use in pack, taken:
        assert said(use, tokens).startswith(words)


def test_a_tensor_is_taken_unless_it_has_no_integers_in_one_dimension():
    torch = pytest.importorskip("torch")
    assert pack(torch.tensor([1, 2])) == pack([1, 2])
    assert "bfloat16" in said(pack, torch.zeros(2, dtype=torch.bfloat16))
    assert "shape ()" in said(pack, torch.tensor(3))
    for dtype in torch.int64, torch.float32:
        nowhere = torch.empty(3, dtype=dtype, device="meta")
        for use in pack, taken, pack([1]).__add__, lambda tokens: common_prefix([1], tokens):
            words = "tokens are a tensor on meta, which has no values: expected integers"
            assert said(use, nowhere) == f"ValueError: {words}"


@pytest.mark.parametrize(
    "wrong", [8, 4 * 10**8, np.uint64(2**63), None, [1, 2], "abcd", np.arange(3), array("I", [1])], ids=bounded
)
def test_only_packed_bytes_make_a_key(wrong):
    """`bytes(8)` is eight zeros: a number must not become two tokens. Tokens that are not packed go to `pack`."""
    assert said(PackedTokens, wrong).endswith("expected packed bytes, made by pack()")
    assert said(PackedTokens, b"abc") == "ValueError: 3 bytes are not whole tokens of 4 bytes"


@given(TOKENS, TOKENS, TOKENS, st.sampled_from([1, 3, 4, 8]))
def test_two_keys_agree_as_far_as_a_python_loop_would_go(shared, a, b, step):
    """In whole steps, and not behind the end of the window."""
    first, second = pack(shared + a).data, pack(shared + b).data
    same = next((i for i, (x, y) in enumerate(zip(first, second)) if x != y), min(len(first), len(second)))
    assert common_prefix(shared + a, shared + b) == same // 4
    data = b"xx" + second + first[len(second) :]
    assert common_bytes(first, data, 2, 2 + len(second), step) == same // step * step


def test_what_is_put_together_is_equal_to_what_was_never_apart():
    joined = pack([1, 2]) + range(3, 4)
    assert (joined, hash(joined), joined.head) == (pack([1, 2, 3]), hash(pack([1, 2, 3])), pack([1, 2]).data)
    assert joined[:1].head is None
    assert joined[:2].head == joined[:3].head == pack([1, 2]).data
    assert joined[1:].head is (pack([1, 2]) + range(1, 9))[2:].head is None
    assert said(pack([1]).__add__, range(-1, 0)).startswith("ValueError: tokens[0] is -1")


def test_end_tokens_are_a_set_of_tokens_whatever_holds_them():
    assert end_tokens((7, 2, 7)) == end_tokens({2, 7}) == frozenset({2, 7})
    assert [token_id(0), token_id(np.int64(2**32 - 1))] == [0, 2**32 - 1]


NO_END = [
    *((eos, "TypeError: eos is ", "expected a collection of token ids") for eos in ("ab", b"ab", 2, None, iter([2]))),
    ([1, -1], "ValueError: token is -1", RULE),
    ([1, 2**32], "ValueError: token is 4294967296", RULE),
    ([1, 2.0], "TypeError: token is 2.0 (float), not a whole number", RULE),
    ([1, True], "TypeError: token is True (bool)", RULE),
]


@pytest.mark.parametrize(("eos", "begins", "rule"), NO_END)
def test_what_is_no_collection_of_tokens_ends_no_text(eos, begins, rule):
    says = said(end_tokens, eos)
    assert says.startswith(begins)
    assert says.endswith(f": {rule}")
