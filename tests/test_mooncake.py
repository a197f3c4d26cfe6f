"""Traces in the formats of Mooncake and Bailian: what is read, what a block holds, and line by malformed line."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import pack
from minikv.traffic import TraceError, TraceRequest, read_trace
from minikv.traffic.mooncake import blocks_of, read_bailian
from minikv.traffic.trace_file import LONGEST_LINE, TraceFile

pytestmark = pytest.mark.core


def line(**changes):
    entry = {"timestamp": 0, "input_length": 900, "output_length": 20, "hash_ids": [0, 1], **changes}
    return json.dumps({key: value for key, value in entry.items() if value != "left out"})


def test_sessions_are_numbered_in_the_order_in_which_they_appear():
    lines = [line(session="b"), line(session=7), line(), line(session="b")]
    assert [request.conversation for request in read_trace(lines)] == [0, 1, None, 0]


@pytest.mark.parametrize("partial", [True, False], ids=["with a partial block", "whole blocks only"])
@given(
    st.sampled_from([16, 32, 64, 128, 256, 512, 1024]), st.lists(st.integers(5000, 90_000), min_size=20, max_size=30)
)
def test_the_size_of_a_block_is_told_by_the_number_of_ids(partial, size, lengths):
    sample = [TraceRequest(0, n, 1, pack([0] * (-(-n // size) if partial else n // size))) for n in lengths]
    assert blocks_of({}, sample) == (size, "tokens", "as the number of ids says")


def test_where_several_sizes_fit_it_is_512_and_where_none_does_it_says_so():
    assert blocks_of({}, [TraceRequest(0, 200, 1, pack([0]))])[0] == 512
    assert blocks_of({}, [TraceRequest(0, 100, 1, pack([0] * 999))]) == (
        512,
        "tokens",
        "as Mooncake has them; no size fits the ids",
    )


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        ({"block_size": 0}, "block_size is 0: a block has at least 1 token"),
        ({"block_size": "16"}, "block_size is '16' \\(str\\)"),
        ({"block_size": 2**21}, "block_size is 2097152: expected at most 1048576"),
        ({"unit": "words"}, "unit is 'words': expected one of tokens, bytes"),
        ({"unit": []}, r"unit is \[\]: expected one of tokens, bytes"),
    ],
)
def test_a_size_or_a_unit_that_a_block_cannot_have_is_refused(first, reason):
    with pytest.raises(ValueError, match=reason):
        blocks_of(first, [])


def test_the_size_of_a_block_is_one_for_the_whole_trace():
    lines = [line(block_size=64, unit="bytes"), line(block_size=16, unit="bytes")]
    with pytest.raises(TraceError, match="t, line 2: block_size is 16: the first line says 64"):
        list(read_trace(lines, "t"))
    with pytest.raises(TraceError, match="t, line 2: unit is None: the first line says 'bytes'"):
        list(read_trace([lines[0], line(block_size=64)], "t"))


def test_a_line_without_end_is_refused_when_it_is_too_long_and_not_read_to_its_end():
    file = TraceFile(io.BytesIO(line().encode() + b"\n" + b" " * 5 + b"1" * (2 * LONGEST_LINE)), "day.jsonl")
    with pytest.raises(TraceError, match=f"day.jsonl, line 2: the line has over {LONGEST_LINE} bytes"):
        list(read_trace(file, "day.jsonl"))
    assert file.position() < len(line()) + LONGEST_LINE + 10


def test_lines_are_read_one_by_one_and_blank_ones_passed_over():
    requests = read_trace(iter([line(timestamp=1.5), "  ", line(hash_ids=[]), "{"]))
    assert next(requests).timestamp == 1.5
    assert len(next(requests).blocks) == 0
    with pytest.raises(TraceError):
        next(requests)


PUBLISHED = {
    "chat_id": 159, "parent_chat_id": 55, "timestamp": 61.114, "input_length": 521, "output_length": 132,
    "type": "text", "turn": 2, "hash_ids": [1089, 1090, 1091, 6326, 13148],
}  # fmt: skip


def chat_line(**changes):
    entry = {**PUBLISHED, **changes}
    return json.dumps({key: value for key, value in entry.items() if value != "left out"})


def test_a_published_line_is_a_request_in_milliseconds():
    (request,) = read_bailian([chat_line()])
    assert request[:3] == (61114.0, 521, 132)
    assert request.blocks.tolist() == [1089, 1090, 1091, 6326, 13148]
    assert request.conversation == 0


@given(st.lists(st.integers(-1, 11), max_size=12))
def test_chats_of_one_root_are_one_conversation(parents):
    """Chat k has the parent that was drawn, where that came before it; a root by hand, against the reader."""
    roots, expected = {}, []
    for chat, parent in enumerate(parents):
        roots[chat] = roots[parent] if 0 <= parent < chat else len(set(roots.values()))
        expected.append(roots[chat])
    lines = [chat_line(chat_id=chat, parent_chat_id=parent) for chat, parent in enumerate(parents)]
    assert [request.conversation for request in read_bailian(lines)] == expected


def test_without_a_parent_a_chat_begins_a_conversation():
    requests = read_bailian([chat_line(chat_id=1, parent_chat_id="left out"), chat_line(chat_id=2, parent_chat_id=1)])
    assert [request.conversation for request in requests] == [0, 0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (line(timestamp="left out"), "there is no timestamp"),
        (line(hash_ids="left out"), "there is no hash_ids"),
        (line(hash_ids="abc"), "hash_ids is 'abc': expected a list"),
        (line(hash_ids=[1, -5]), r"hash_ids\[1\] is -5"),
        (line(hash_ids=[1.5]), r"hash_ids\[0\] is 1.5"),
        (line(hash_ids=[2**32]), r"hash_ids\[0\] is 4294967296"),
        (line(hash_ids=[[1]]), r"hash_ids\[0\] is \[1\]"),
        (line(hash_ids=[True]), r"hash_ids\[0\] is True"),
        (line(input_length=-1), "input_length is -1"),
        (line(input_length="9"), "input_length is '9'"),
        (line(output_length=1.5), "output_length is 1.5"),
        (line(timestamp=None), "timestamp is None"),
        (line(session=[1]), r"the name of the conversation is \[1\]"),
        (line(session="x" * 201), "the name of the conversation is 'x{20,60}…: expected a string of at most 200"),
        (line(session=True), "the name of the conversation is True"),
        (line(session=2**60), "the name of the conversation is 1152921504606846976"),
        (line(timestamp=float("nan")), "the line has the number NaN"),
        (line().replace(": 0,", ": 1e999,"), "timestamp is inf"),
        (line(hash_ids="x" * 10**6), "hash_ids is 'x{20,60}…: expected a list"),
        (line(output_length=2**53 + 1), "output_length is 9007199254740993"),
        (chat_line(chat_id="left out"), "there is no chat_id"),
        (chat_line(chat_id=-5), "chat_id is -5"),
        (chat_line(parent_chat_id=-2), "parent_chat_id is -2: -1 or a chat"),
        (chat_line(parent_chat_id=None), "parent_chat_id is None"),
        (chat_line(parent_chat_id=2**60), "parent_chat_id is 1152921504606846976: expected at most"),
        (chat_line(timestamp="left out"), "timestamp is None"),
        (chat_line(timestamp=-1), "timestamp is -1"),
        (chat_line(timestamp=1e13), "timestamp is 10000000000000.0: expected a number from 0 to 1e"),
        (chat_line(input_length=1.5), "input_length is 1.5"),
        (chat_line(type="x" * 10**6, hash_ids=["y" * 10**6]), r"hash_ids\[0\] is 'y{20,60}…"),
    ],
)
def test_a_malformed_line_is_named_with_its_number_and_the_reason(text, reason):
    read, sound = (read_bailian, chat_line()) if "chat_id" in text else (read_trace, line())
    with pytest.raises(TraceError, match=rf"day.jsonl, line 3: .*{reason}") as caught:
        list(read([sound, "", text], "day.jsonl"))
    assert len(str(caught.value)) < 300
