"""Logs of requests: blocks of whole prompts, times, conversations, answers, and line by broken line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv.traffic import TraceError
from minikv_tools.logs import BlockIds, Units, answer_tokens, read_log


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
    entries = [{"prompt": "a", **more} for more in ({"time": 5}, {"time": 4}, {}, {"time": 6.5}, {"time": "soon"})]
    assert [request.timestamp for request in requests(*entries)] == [0, 0, 0, 1500, 1500]


def test_conversations_are_numbered():
    entries = [{"prompt": "a", **more} for more in ({"session_id": "x"}, {}, {"session_id": 3}, {"session_id": "x"})]
    assert [request.conversation for request in requests(*entries)] == [0, None, 1, 0]


@pytest.mark.parametrize(
    ("entry", "tokens"),
    [
        ({}, 0),
        ({"usage": {"completion_tokens": 7}}, 7),
        ({"usage": {"output_tokens": 8}}, 8),
        ({"response": {"usage": {"completion_tokens": 9}}}, 9),
        ({"response": {"body": {"usage": {"completion_tokens": 9}}}}, 9),
        ({"usage": {"completion_tokens": "7"}}, 0),
        ({"usage": {"completion_tokens": -7}}, 0),
        ({"usage": {"completion_tokens": True}}, 0),
        ({"usage": [], "response": None}, 0),
        ({"response": {"response": {"response": {"response": {"usage": {"output_tokens": 1}}}}}}, 0),
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
