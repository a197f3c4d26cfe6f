"""Traces of Bailian: seconds, blocks of 16 tokens, conversations from the chats' parents, and broken lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv.traffic import TraceError
from minikv.traffic.bailian import read_bailian

PUBLISHED = {
    "chat_id": 159, "parent_chat_id": 55, "timestamp": 61.114, "input_length": 521, "output_length": 132,
    "type": "text", "turn": 2, "hash_ids": [1089, 1090, 1091, 6326, 13148],
}  # fmt: skip


def line(**changes):
    entry = {**PUBLISHED, **changes}
    return json.dumps({key: value for key, value in entry.items() if value != "left out"})


def test_a_published_line_is_a_request_in_milliseconds():
    (request,) = read_bailian([line()])
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
    lines = [line(chat_id=chat, parent_chat_id=parent) for chat, parent in enumerate(parents)]
    assert [request.conversation for request in read_bailian(lines)] == expected


def test_without_a_parent_a_chat_begins_a_conversation():
    requests = read_bailian([line(chat_id=1, parent_chat_id="left out"), line(chat_id=2, parent_chat_id=1)])
    assert [request.conversation for request in requests] == [0, 0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "the line is not JSON"),
        ("[" * 10_000, "nested too deeply"),
        (b"\xff", "the line is not UTF-8"),
        (line(chat_id="left out"), "there is no chat_id"),
        (line(chat_id=-5), "chat_id is -5"),
        (line(chat_id="a"), "chat_id is 'a'"),
        (line(parent_chat_id=-2), "parent_chat_id is -2: -1 or a chat"),
        (line(parent_chat_id=None), "parent_chat_id is None"),
        (line(parent_chat_id=2**60), "parent_chat_id is 1152921504606846976: expected at most"),
        (line(timestamp="left out"), "timestamp is None"),
        (line(timestamp=-1), "timestamp is -1"),
        (line(timestamp=1e13), "timestamp is 10000000000000.0: expected a number from 0 to 1e"),
        (line(timestamp=True), "timestamp is True"),
        (line().replace("61.114", "1e999"), "timestamp is inf"),
        (line().replace("61.114", "NaN"), "the number NaN"),
        (line(input_length=1.5), "input_length is 1.5"),
        (line(output_length="left out"), "there is no output_length"),
        (line(hash_ids="left out"), "there is no hash_ids"),
        (line(hash_ids=[2**32]), r"hash_ids\[0\] is 4294967296"),
        (line(hash_ids={"0": 1}), "hash_ids is {'0': 1}: expected a list"),
        (line(type="x" * 10**6, hash_ids=["y" * 10**6]), r"hash_ids\[0\] is 'y{20,60}…"),
    ],
)
def test_a_broken_line_is_named_with_its_number_and_the_reason(text, reason):
    with pytest.raises(TraceError, match=rf"day.jsonl, line 3: .*{reason}") as caught:
        list(read_bailian([line(), "", text], "day.jsonl"))
    assert len(str(caught.value)) < 300
