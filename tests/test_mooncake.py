"""Traces in the formats of Mooncake and Bailian: what is read, what a block holds, and line by malformed line."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import said

from minikv import pack
from minikv.traffic import TraceRequest, read_trace
from minikv.traffic.mooncake import blocks_of, read_bailian, write_trace
from minikv.traffic.trace_file import LONGEST_LINE, TraceFile

REQUEST = {"timestamp": 0, "input_length": 900, "output_length": 20, "hash_ids": [0, 1]}
CHAT = {"chat_id": 159, "parent_chat_id": 55, **REQUEST, "timestamp": 61.114, "type": "text", "turn": 2}


def lines(*changes, entry=REQUEST):
    return [json.dumps({**entry, **changed}) for changed in changes]


def test_sessions_are_numbered_in_the_order_in_which_they_appear():
    requests = list(read_trace(lines({"session": "b"}, {"session": 7}, {}, {"session": "b"})))
    assert [request.conversation for request in requests] == [0, 1, None, 0]
    again = read_trace(write_trace(requests, block_size=512, unit="tokens"))
    assert [request.conversation for request in again] == [0, 1, None, 0]


@pytest.mark.parametrize("partial", [True, False], ids=["with a partial block", "whole blocks only"])
@given(
    st.sampled_from([16, 32, 64, 128, 256, 512, 1024]), st.lists(st.integers(5000, 90_000), min_size=20, max_size=30)
)
def test_the_size_of_a_block_is_told_by_the_number_of_ids(partial, size, lengths):
    sample = [TraceRequest(0, n, 1, pack([0] * (-(-n // size) if partial else n // size))) for n in lengths]
    assert blocks_of({}, sample) == (size, "tokens", "as the number of ids says")


@pytest.mark.parametrize(("length", "ids", "note"), [
    (200, 1, "as the number of ids says"),
    (100, 999, "as Mooncake has them; no size fits the ids"),
])  # fmt: skip
def test_where_several_sizes_fit_it_is_512_and_where_none_does_it_says_so(length, ids, note):
    assert blocks_of({}, [TraceRequest(0, length, 1, pack([0] * ids))]) == (512, "tokens", note)


@pytest.mark.parametrize(("first", "reason"), [
    ({"block_size": 0}, "block_size is 0: a block has at least 1 token"),
    ({"block_size": 2**21}, "block_size is 2097152: expected at most 1048576"),
    ({"unit": []}, r"unit is \[\]: expected one of tokens, bytes"),
])  # fmt: skip
def test_a_size_or_a_unit_that_a_block_cannot_have_is_refused(first, reason):
    with pytest.raises(ValueError, match=reason):
        blocks_of(first, [])


def test_a_line_without_end_is_refused_when_it_is_too_long_and_not_read_to_its_end():
    (first,) = lines({})
    file = TraceFile(io.BytesIO(f"{first}\n     ".encode() + b"1" * (2 * LONGEST_LINE)), "day.jsonl")
    words = f"day.jsonl, line 2: the line has over {LONGEST_LINE} bytes"
    assert words in said(list, read_trace(file, "day.jsonl"))
    assert file.position() < len(first) + LONGEST_LINE + 10


@pytest.mark.parametrize(("read", "entry", "keys"), [
    (read_trace, REQUEST, REQUEST),
    (read_bailian, CHAT, ["chat_id", "input_length", "output_length", "hash_ids"]),
])  # fmt: skip
def test_a_field_that_is_left_out_is_named(read, entry, keys):
    for key in keys:
        line = json.dumps({other: value for other, value in entry.items() if other != key})
        assert f"line 1: there is no {key}" in said(list, read([line]))


def test_a_published_line_is_a_request_in_milliseconds():
    (request,) = read_bailian(lines({}, entry=CHAT))
    assert request == TraceRequest(61114.0, 900, 20, pack([0, 1]), 0)


@given(st.lists(st.none() | st.integers(-1, 11), max_size=12))
def test_chats_of_one_root_are_one_conversation(parents):
    """Chat k has the parent that was drawn, where one was and came before it; a root by hand, against the reader."""
    roots, chats = [], []
    for chat, parent in enumerate(parents):
        known = parent is not None and 0 <= parent < chat
        roots.append(roots[parent] if known else len({*roots}))
        chats.append({"chat_id": chat, **({} if parent is None else {"parent_chat_id": parent})})
    found = read_bailian(lines(*chats, entry=REQUEST))
    assert [request.conversation for request in found] == roots
