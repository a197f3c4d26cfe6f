"""Logs of requests: blocks of whole prompts, times, conversations, answers, and line by broken line."""

import json
import time
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import pack
from minikv.traffic import TraceError, TraceRequest
from minikv_tools.bodies import read_body
from minikv_tools.logs import (
    BlockIds,
    Units,
    anonymous,
    answer_tokens,
    conversation_of,
    field_of,
    read_log,
    time_of,
    units_for,
)


def chat(*contents, **changes):
    roles = ("user", "assistant") * len(contents)
    return {"messages": [{"role": role, "content": text} for role, text in zip(roles, contents)], **changes}


def requests(*entries, block_size=4, units=None, **options):
    lines = [entry if isinstance(entry, (str, bytes)) else json.dumps(entry) for entry in entries]
    return list(read_log(lines, units or Units(), block_size, **options))


@given(st.lists(st.text("ab", max_size=12), min_size=1, max_size=8), st.integers(1, 4))
def test_two_prompts_share_as_many_blocks_as_whole_ones_of_their_common_beginning(prompts, block_size):
    found = requests(*({"prompt": prompt} for prompt in prompts), block_size=block_size)
    for one, a in zip(found, prompts):
        assert (one.input_length, len(one.blocks)) == (len(a), len(a) // block_size)
        for other, b in zip(found, prompts):
            shared = sum(x == y for x, y in zip(one.blocks, other.blocks))
            common = next((i for i in range(len(a)) if a[: i + 1] != b[: i + 1]), len(a))
            assert shared == common // block_size


def test_tools_and_system_come_before_the_messages():
    """Another tool changes every block; another question none of the blocks before it."""
    system, tool = "s" * 40, {"name": "t" * 40}
    a, b, c = (
        request.blocks.tolist()
        for request in requests(
            chat("one", system=system, tools=[tool]),
            chat("two", system=system, tools=[tool]),
            chat("one", system=system, tools=[{"name": "u" * 40}]),
        )
    )
    assert a[:20] == b[:20]
    assert not set(a[3:]) & set(c)


def test_another_model_or_salt_is_another_cache():
    a, b, c, d = requests(
        {"prompt": "abcd"}, {"prompt": "abcd", "model": "m"}, {"prompt": "abcd", "cache_salt": "s"}, {"prompt": "abcd"}
    )
    assert a.blocks == d.blocks
    assert len({request.blocks[0] for request in (a, b, c)}) == 3


def test_times_count_from_the_first_and_are_never_below_zero():
    times = {}, {"time": 5}, {"time": 4}, {}, {"time": 6.5}, {"time": "soon"}
    entries = [{"prompt": "a", **more} for more in times]
    assert [request.timestamp for request in requests(*entries)] == [0, 0, 0, 0, 1500, 1500]


IN_A_SPAN = {"attributes": [{"key": "time", "value": {"intValue": "5"}}]}
NEW_YEAR = datetime(2024, 1, 1)  # 1,704,067,200 seconds after the epoch
ZONE = timezone(timedelta(hours=-1))


@pytest.mark.parametrize(
    ("entry", "milliseconds"),
    [
        ({"time": 0}, 0), ({"time": 10**11 - 1}, 1e14 - 1000), ({"time": 10**11}, 1e11),
        ({"time": 10**14 - 1}, 1e14 - 1), ({"time": 10**14}, 1e11), ({"time": 10**17}, 1e11),
        ({"timestamp_ms": 10**17}, 1e17), ({"time": 10**19}, 1e13), ({"time": 10**20}, None),
        ({"time": "1704067200"}, 1704067200000), ({"time": "1704067200000000000"}, 1704067200000),
        ({"date": " 2024-01-01T00:00:00Z "}, 1704067200000), ({"date": "1970-01-01"}, 0),
        ({"date": "2024-01-01T01:00:00+01:00"}, 1704067200000), ({"date": "1969-12-31"}, None),
        ({"created_at": NEW_YEAR}, 1704067200000), ({"time": "123456789"}, None),
        ({"created_at": NEW_YEAR.replace(tzinfo=ZONE)}, 1704070800000), (IN_A_SPAN, 5000),
        ({"metadata": IN_A_SPAN}, 5000), ({"metadata": {"data": IN_A_SPAN}}, None),
        ({"time": 3, "metadata": {"timestamp": 4}}, 3000), ({"time": float("nan")}, None),
    ],
)  # fmt: skip
def test_when_a_request_came_is_read_as_logs_write_it(entry, milliseconds):
    assert time_of(entry) == milliseconds


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="sets the zone as POSIX does")
def test_a_date_without_a_zone_is_in_utc_wherever_it_is_read(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        time.tzset()
        found = time_of({"date": "1970-01-02"}), time_of({"date": datetime(1970, 1, 3)})
    time.tzset()
    assert found == (86_400_000, 2 * 86_400_000)


@pytest.mark.parametrize(
    ("entry", "conversation"),
    [
        ({"session_id": "x", "metadata": {"session_id": "y"}}, "x"),
        ({"metadata": {"request": {"chat_id": 0}}}, "0"),
        ({"session_id": "", "thread_id": "t"}, "t"), ({"session_id": True, "session": -5}, "-5"),
        ({"session_id": 2**53}, None), ({"session_id": str(2**99)}, str(2**99)),
        ({"run_type": "llm", "session_id": "project"}, None),
        ({"run_type": "llm", "extra": {"metadata": {"session_id": "x"}}}, "x"),
    ],
)  # fmt: skip
def test_the_conversation_is_the_one_that_an_entry_names(entry, conversation):
    assert (conversation_of(entry) or (None,))[-1] == conversation


@pytest.mark.parametrize(
    ("path", "value"),
    [("a", "1"), ("b.c", "x" * 80), ("b.d.e", "2"), ("b.d", "(none)"), ("a.b", "(none)"),
     ("b.n", "(none)"), ("b.n.m", "(none)")],
)  # fmt: skip
def test_a_field_is_found_by_the_names_on_its_way(path, value):
    assert field_of({"a": 1, "b": {"c": "x" * 99, "d.e": 2, "n": None}}, path) == value


def test_prompts_of_ids_are_counted_in_tokens_and_not_mixed_with_text():
    ids, text = {"prompt": [5, 70_000, 9]}, {"prompt": "abc"}
    units = units_for(Units(), read_body(ids), read_body({"prompt": ""}))
    assert (units.unit, units.width, units.scale, units.block_size) == ("tokens", 4, 1, 16)
    (one,) = requests(ids, units=units, block_size=1)
    assert (one.input_length, len(one.blocks)) == (3, 3)
    with pytest.raises(ValueError, match="one prompt is a list of token ids and the other is text"):
        units_for(Units(), read_body(ids), read_body(text))
    for other in (Units(), ids, text), (units, text, ids):
        with pytest.raises(TraceError, match="line 2: the log has both text prompts and token ids"):
            requests(*reversed(other[1:]), units=other[0])


def test_times_in_a_made_trace_are_never_below_zero():
    times = [5.0, 4.0, 7.5]
    found = anonymous(TraceRequest(time, 9, 1, pack([])) for time in times)
    assert [request.timestamp for request in found] == [0.0, 0.0, 2.5]


def test_conversations_are_numbered():
    entries = [{"prompt": "a", **more} for more in ({"session_id": "x"}, {}, {"session_id": 3}, {"session_id": "x"})]
    assert [request.conversation for request in requests(*entries)] == [0, None, 1, 0]


@pytest.mark.parametrize(
    ("entry", "tokens"),
    [
        ({}, 0),
        ({"usage": {"completion_tokens": 7}}, 7),
        ({"usage": {"output_tokens": 8}}, 8),
        ({"usage": {"output_tokens": 1}}, 1),
        ({"usage": {"output_tokens": 2**53}}, 2**53),
        ({"usage": {"output_tokens": 2**53 + 1}}, 0),
        ({"response": {"response": {"usage": {"output_tokens": 1}}}}, 1),
        ({"response": {"response": {"response": {"usage": {"output_tokens": 1}}}}}, 0),
        ({"response": {"usage": {"completion_tokens": 9}}}, 9),
        ({"response": {"body": {"usage": {"completion_tokens": 9}}}}, 9),
        ({"usage": {"completion_tokens": "7"}}, 0),
        ({"usage": {"completion_tokens": -7}}, 0),
        ({"usage": {"completion_tokens": True}}, 0),
        ({"usage": [], "response": None}, 0),
    ],
)
def test_the_tokens_of_an_answer_are_found_where_logs_have_them(entry, tokens):
    assert answer_tokens(entry) == tokens
    assert requests({"prompt": "a", **entry})[0].output_length == tokens


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"messages": ' + "[" * 70 + "]" * 70 + "}", "nested too deeply"),
        ("{}", "there are no messages and no prompt"),
        ({"messages": [7]}, r"messages\[0\] is 7: expected a message"),
        ({"prompt": "a", "session_id": "x" * 1000}, "the name of the conversation is 'x{20,60}…"),
        ({"messages": ["x" * 10**6]}, "is 'x{20,60}…: expected a message"),
    ],
)
def test_a_broken_line_is_named_with_its_number_and_the_reason(text, reason):
    with pytest.raises(TraceError, match=rf"day.jsonl, line 3: .*{reason}") as caught:
        requests({"prompt": "a"}, "", text, name="day.jsonl")
    assert len(str(caught.value)) < 300


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


def test_a_namespace_is_told_apart_however_it_is_spelled():
    ids = BlockIds(b"")
    names = [{}, {"a": "b"}, {"a": "', 'b"}, {"a', '": "b"}, {"a": "\ud800"}, {"b": "a"}]
    assert [ids.of(b"x", 1, name).tolist() for name in names] == [[number] for number in range(len(names))]
    assert ids.of(b"x", 1, {"y": "2", "a": "1"}) == ids.of(b"x", 1, {"a": "1", "y": "2"})
