"""Request bodies as prompts: every shape of body, the order of its pieces, and what is not in the prompt at all."""

import contextlib
import json
import re
from types import MappingProxyType

import pytest

from minikv.untrusted import parse_json
from minikv_tools.bodies import is_body, read_body
from minikv_tools.logs import conversation_of, time_of


def user(text):
    return {"role": "user", "content": text}


def places(body):
    return [str(piece.place) for piece in read_body(body).pieces]


def text(**body):
    return read_body(body).text


def test_tools_come_before_the_system_prompt_and_that_before_the_messages():
    body = {"messages": [user("Hi")], "system": "Be brief.", "tools": [{"name": "é"}],
            "response_format": {"type": "x"}}  # fmt: skip
    assert read_body(body).text == (
        '{"name": "é"}\n{"type": "x"}\n<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n'
    )


def test_a_message_that_is_no_plain_dict_is_read_as_one():
    message = {"role": "user", "content": [{"type": "document", "citations": {"enabled": True}, "text": "Hi"}]}
    plain, odd = (read_body({"messages": [one]}) for one in (message, MappingProxyType(message)))
    assert odd == plain
    assert odd.settings == {"citations": True}


def test_messages_that_come_again_are_told_apart_by_type_and_place():
    said = [{"role": "user", "content": [{"type": "text", "n": n, "more": {"a": 1, "b": 2}}]} for n in (1, True, 1.0)]
    said.append({"role": "user", "content": [{"type": "text", "n": 1, "more": {"b": 2, "a": 1}}]})
    for order in (said, said[::-1]) * 2:
        items = read_body({"messages": order}).items
        assert len({item.text for item in items}) == 4
        assert [item.pieces[0].place.item for item in items] == [0, 1, 2, 3]


def test_each_piece_knows_its_place():
    body = {"tools": [{"type": "function", "function": {"name": "f"}}], "system": [{"type": "text", "text": "S"}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}  # fmt: skip
    assert places(body) == [
        "tools[0] (f)", "system", "system[0].text", "system",
        "messages[0] (user), role", "messages[0] (user), content[0].text", "messages[0] (user)",
    ]  # fmt: skip


@pytest.mark.parametrize("settings", [{"temperature": 1}, {"max_tokens": 7}, {"stream": True}, {"user": "u"}])
def test_what_an_api_does_not_put_into_the_prompt_makes_no_piece(settings):
    body = read_body({"messages": [user("Hi")], **settings})
    assert body.pieces == read_body({"messages": [user("Hi")]}).pieces
    assert body.settings == settings


def test_a_cache_marker_is_not_in_the_prompt():
    marked = [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}]
    assert text(system=marked, messages=[]) == text(system=[{"type": "text", "text": "S"}], messages=[])
    assert text(tools=[{"name": "f", "cache_control": {}}], messages=[]) == text(tools=[{"name": "f"}], messages=[])
    assert text(messages=[{**user("Hi"), "cache_control": {}}]) == text(messages=[user("Hi")])
    tools = [{"name": "f"}, {"cachePoint": {"type": "default"}}]
    assert text(tools=tools, messages=[]) == text(tools=tools[:1], messages=[])


def test_the_fields_of_a_message_are_read_in_one_order():
    call = {"tool_calls": [{"id": "1"}], "content": "Hi", "role": "user"}
    assert text(messages=[call]) == text(messages=[dict(reversed(call.items()))])


def test_what_says_nothing_is_no_piece_and_sets_no_cache_apart():
    body = read_body({"messages": [user("Hi")], "response_format": {"type": "text"}, "model": None, "cache_salt": ""})
    assert (body.pieces, body.namespace) == (read_body({"messages": [user("Hi")]}).pieces, {})
    results = [{"type": "tool_result"}, {"type": "tool_result", "tool_use_id": "t", "content": ["x"]}]
    assert "<tool_result ><tool_result t>x<|im_end|>" in text(messages=[{"role": "user", "content": results}])


def test_a_schema_and_a_tool_are_found_in_each_api_s_place():
    schema = '{"type": "json"}\n'
    for more in {"text": {"format": {"type": "json"}}}, {"output_config": {"format": {"type": "json"}}}:
        assert text(messages=[user("Hi")], **more) == schema + text(messages=[user("Hi")])
    tools = [{"toolSpec": {"name": "f"}}, {"function": {"name": 3}}, "x", {"function": "y"}]
    assert places({"messages": [], "toolConfig": {"tools": tools}}) == [
        "tools[0] (f)",
        "tools[1]",
        "tools[2]",
        "tools[3]",
    ]
    assert places({"prompt": "Hi", "extra_body": {"functions": [{"name": "g"}]}}) == ["functions[0] (g)", "prompt"]


def test_what_sets_a_cache_apart_is_no_part_of_the_prompt():
    body = read_body({"prompt": "Hi", "model": "m", "cache_salt": "s", "lora_request": {"id": 3}})
    assert body.text == "Hi"
    assert body.namespace == {"model": "m", "cache_salt": "s", "lora_request": '{"id": 3}'}


@pytest.mark.parametrize("part", [
    {"type": "image_url", "image_url": {"url": "data:QUJD"}},
    {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}, {"fileData": {"fileUri": "QUJD"}},
    {"image": {"format": "png", "source": {"bytes": "QUJD"}}}, {"document": {"source": {"bytes": "QUJD"}}},
    {"type": "document", "source": {"type": "base64", "data": "QUJD"}},
    {"type": "blob", "mime_type": "image/png", "content": "QUJD"}, {"type": "input_video", "video_url": "QUJD"},
    {"type": "input_file", "file_data": "QUJD"}, {"type": "input_audio", "input_audio": {"data": "QUJD"}},
])  # fmt: skip
def test_a_file_in_any_form_is_a_hash_and_no_text(part):
    for message in {"role": "user", "content": [part]}, {"role": "user", "parts": [part]}:
        one, other = (read_body({"messages": [json.loads(json.dumps(message).replace("QUJD", data))]})
                      for data in ("QUJD", "REVG"))  # fmt: skip
        assert "QUJD" not in one.text
        assert one.text != other.text
        assert len(one.pieces[1].text) < 80


def test_parts_may_be_texts_and_a_field_that_marks_nothing_drops_no_text():
    parts = ["Hi", {"type": "text", "text": "Ho"}, {"text": "Ha", "cachePoint": None}]
    assert text(messages=[{"role": "user", "parts": parts}]) == text(messages=[user("HiHoHa")])


@pytest.mark.parametrize("part", [{"profile": "Ada"}, {"file_search": "Ada"}, {"type": "image_generation", "n": "Ada"}])
def test_a_part_that_is_no_file_is_text(part):
    assert "Ada" in read_body({"messages": [{"role": "user", "content": [part]}]}).text


def test_calls_and_results_of_tools_are_pieces():
    body = {"messages": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "42"}]},
    ]}  # fmt: skip
    found = {str(piece.place): piece.text for piece in read_body(body).pieces}
    assert '"input": {"a": 1}' in found["messages[0] (assistant), content[0]"]
    assert found["messages[1] (user), content[0].content"] == "42"


@pytest.mark.parametrize("body", [
    {"prompt": "Hi"}, {"prompt": ["Hi"]}, {"messages": []}, {"input": [user("Hi")]}, {"input": "Hi", "store": False},
    {"url": "/v1/responses", "body": {"model": "m", "input": "Hi"}}, {"input": "Hi", "instructions": "Be brief."},
    {"prompt": "Hi", "instruction": "a", "output": "b"},
    {"request": {"prompt": "Hi"}}, {"id": 1, "data": {"body": {"messages": [user("Hi")]}}}, {"input": {"messages": []}},
])  # fmt: skip
def test_a_body_is_found(body):
    assert is_body(body)
    read_body(body)


@pytest.mark.parametrize("entry", [
    {}, {"hash_ids": [1], "input_length": 3}, {"requests": []}, {"messages": None}, {"messages": "Hi"}, {"prompt": 3},
    {"body": {"body": {"body": {"body": {"prompt": "Hi"}}}}},
])  # fmt: skip
def test_what_is_not_a_body_is_none(entry):
    assert not is_body(entry)
    with pytest.raises(ValueError, match="there are no messages and no prompt"):
        read_body(entry)


@pytest.mark.parametrize(("body", "why"), [
    ({"prompt": [1, "2"]}, r"prompt is \[1, '2'\]: expected text or a list of token ids"),
    ({"prompt": ["a", "b"]}, "prompt is .*: expected text"),
    ({"messages": ["x" * 1000]}, r"messages\[0\] is 'xxx.*…: expected a message"),
    ({"messages": [{"role": 3}]}, r"messages\[0\] has the role 3: expected text"),
    ({"messages": [], "tools": {"a": 1}}, "tools is .*: expected a list"),
    ({"prompt": "", "input": {"a": 1}}, "input is .*: expected a list of messages"),
    ({"messages": [user("redacted-by-litellm")]}, r"messages\[0\] \(user\), content is cut or redacted: expected all"),
    ({"messages": [user("Sum up: ... (litellm_truncated skipped 5000 chars) ... end")]}, "is cut or redacted"),
    ({"messages": [user("a" * 1024 + "..." + "b" * 1024)]}, "is cut or redacted: expected all of it"),
    ({"input": [user("Hi"), {"type": "item_reference", "id": "m1"}]}, r"input\[1\] refers to an item on the"),
])  # fmt: skip
def test_a_wrong_body_is_one_short_line(body, why):
    with pytest.raises(ValueError, match=why) as caught:
        read_body(body)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [None, 3, "x", [], [3], [None], {}, {"a": [1]}, [{"type": 3}], [{"text": 3}], True])
def test_odd_values_in_a_body_never_raise_anything_else(value):
    for body in ({"messages": [{"role": "user", "content": value}]}, {"messages": [{"tool_calls": value}]},
                 {"prompt": "x", "tools": [value]}, {"prompt": "x", "system": value}, {"prompt": "x", "model": value},
                 {"messages": value}, {"prompt": value}, {"prompt": "x", "response_format": value}):  # fmt: skip
        with contextlib.suppress(ValueError):
            read_body(parse_json(json.dumps(body), "it"))


@pytest.mark.parametrize(("entry", "found"), [
    ({"session": "a"}, "a"), ({"metadata": {"conversation_id": 3}}, "3"), ({"body": {"data": {"session": "t"}}}, "t"),
    ({"session_id": ""}, None), ({"session_id": True}, None), ({"session": 10**5000}, None), ({"session": [1]}, None),
])  # fmt: skip
def test_a_conversation_is_named_by_text_or_a_number(entry, found):
    assert (conversation_of(entry) or (None,))[-1] == found


@pytest.mark.parametrize(("entry", "found"), [
    ({"timestamp": 2}, 2000.0), ({"timestamp": 1.7e12}, 1.7e12), ({"ts": 1.7e15}, 1.7e12),
    ({"ts": 2**60}, 2**60 / 1e6), ({"ts": "1970-01-02"}, 86_400_000.0),
    ({"timestamp_ms": 5}, 5.0), ({"timestamp": -1}, None), ({"timestamp": 10**400}, None), ({"timestamp": True}, None),
    ({"timestamp": "soon"}, None),
    ({"timestamp": "0001-01-01"}, None), ({"timestamp": "x", "time": 1}, 1000.0), ({}, None),
    ({"metadata": {"time": "1970-01-01T01:00:00+01:00"}}, 0.0),
])  # fmt: skip
def test_a_time_is_in_milliseconds(entry, found):
    assert time_of(entry) == found


def test_a_text_as_input_is_the_short_form_of_one_message():
    """As the Responses API reads it: a client that sends the one and then the other changes nothing."""
    long = {"model": "gpt-5.6", "instructions": "Be brief.", "input": [{"role": "user", "content": "Hi there"}]}
    assert read_body({**long, "input": "Hi there"}).text == read_body(long).text


def test_what_a_tool_of_bedrock_returned_is_its_parts_and_a_file_is_a_hash():
    """As in Anthropic's `tool_result`: the text of a file in base64 is nowhere, and another file is another prompt."""

    def pieces(data):
        parts = [
            {"text": "A chart:"},
            {"image": {"format": "png", "source": {"bytes": data}}},
            {"document": {"format": "pdf", "name": "report", "source": {"bytes": data}}},
            {"json": {"rows": 3}},
        ]
        result = {"toolUseId": "tooluse_1", "content": parts, "status": "success"}
        return read_body({"messages": [{"role": "user", "content": [{"toolResult": result}]}]}).pieces

    data = "iVBORw0KGgo" * 500
    text = "".join(piece.text for piece in pieces(data))
    assert re.search(r"<tool_result tooluse_1>A chart:<\|image \w{16}\|><\|document \w{16}\|>\{.*\"rows\": 3", text)
    places = [str(piece.place) for piece in pieces(data)]
    assert "messages[0] (user), content[0].toolResult.content[0].text" in places
    assert pieces(data) != pieces(data + "A")
    marked = {"toolResult": {"toolUseId": "t", "content": [{"text": "a" * 9}, {"cachePoint": {"type": "default"}}]}}
    found = read_body({"messages": [{"role": "user", "content": [marked]}]}).pieces
    assert [piece.text for piece in found if piece.mark] == ["a" * 9]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ({"type": "tool_result", "tool_use_id": "t", "content": "x", "is_error": False}, {"is_error": True}),
        ({"toolResult": {"toolUseId": "t", "content": [{"text": "x"}], "status": "success"}}, {"status": "error"}),
    ],
)
def test_that_a_tool_failed_is_in_the_prompt(right, wrong):
    """A model is told so: the same text is another prompt, and a cache misses."""

    def text(part):
        return read_body({"messages": [{"role": "user", "content": [part]}]}).text

    bad = {"toolResult": {**right["toolResult"], **wrong}} if "toolResult" in right else {**right, **wrong}
    assert text(right).replace("<tool_result t>", "<tool_result t error>") == text(bad) != text(right)
