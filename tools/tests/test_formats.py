"""What people log: the same request in every form is the same prompt, and anything else is refused by its fields."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_forms import (
    BODY,
    FORMS,
    GEMINI,
    IDS,
    LANGFUSE,
    LITELLM,
    MESSAGES,
    OTEL,
    OTHERS,
    QUESTION,
    RUN,
    SGLANG,
    TOKENS,
    VLLM,
    WHOLE,
    otlp_span,
)

from minikv.cli import main
from minikv.traffic import TraceError
from minikv_tools import exports
from minikv_tools.bodies import is_body, read_body, text_ids
from minikv_tools.exports import entries_of, request_lines
from minikv_tools.formats import message_of, request_in
from minikv_tools.logs import Units, conversation_of, read_log, time_of
from minikv_tools.usage import read_usage
from minikv_tools.why.log import survey
from minikv_tools.why.places import read_prompt


@pytest.mark.parametrize("name", FORMS)
def test_a_request_is_found_in_every_form(name):
    entry = json.loads(json.dumps(FORMS[name]))
    assert is_body(entry)
    body = read_body(entry)
    said = [text for text in WHOLE if text not in body.text]
    assert not said
    assert body.namespace["model"] == "m"
    assert "It rains." not in body.text, "the answer is not in the prompt"
    assert not {"run-9", "token_usage"} & set(body.text.split('"')), "nor is what the tracer adds"
    assert not {"id", "trace_id", "start_time", "startTime", "traceId", "timestamp"} & body.settings.keys()


def test_the_roles_and_tools_of_a_form_are_those_of_the_body():
    places = [(str(piece.place), piece.text) for piece in read_body(FORMS["LiteLLM"]).pieces]
    assert places == [(str(piece.place), piece.text) for piece in read_body(BODY).pieces]
    for name in ("LangSmith", "LangSmith, dicts", "OpenLLMetry"):
        roles = [piece.place.name for piece in read_body(FORMS[name]).pieces if piece.place.field == "role"]
        assert roles == ["system", "user", "assistant", "tool"]
    for name, called in (("OpenTelemetry", "system"), ("Gemini", "systemInstruction.parts")):
        assert (f"{called}[0].text", "Be brief.") in [(str(at), text) for at, text, _ in read_body(FORMS[name]).pieces]


def test_what_holds_the_prompt_of_a_form_is_no_setting():
    assert read_body(FORMS["Gemini"]).settings.keys() == {"generationConfig"}
    assert read_body(TOKENS["SGLang"]).settings.keys() == {"sampling_params"}
    assert not read_body(TOKENS["vLLM"]).settings


@pytest.mark.parametrize("entry", [
    {"request": {"contents": GEMINI["contents"]}}, {"request": {"messages": MESSAGES}},
    {"body": {"request": {"prompt": "Hi"}}}, {"request": {"model": "", "prompt": "Hi"}},
])  # fmt: skip
def test_the_model_beside_a_request_is_its_namespace(entry):
    assert read_body({**entry, "model": "m"}).namespace == {"model": "m"}
    assert "model" not in read_body(entry).namespace
    assert read_body({"model": "alias", "request": BODY}).namespace == {"model": "m"}
    assert read_body({"input": {"request": {"prompt": "Hi"}}, "model": "m", "traceId": "", "type": ""}).namespace


def test_the_config_of_google_s_client_is_read_as_its_fields():
    names = "systemInstruction", "tools", "generationConfig"
    config = {"systemInstruction": GEMINI["systemInstruction"], "tools": GEMINI["tools"], "temperature": 0}
    body = read_body({**{name: GEMINI[name] for name in GEMINI if name not in names}, "config": config})
    assert (body.text, body.settings) == (read_body(GEMINI).text, {"temperature": 0})


def test_the_settings_of_a_form_are_settings():
    for name in ("LangSmith", "LiteLLM", "Langfuse", "OpenTelemetry"):
        assert read_body(FORMS[name]).settings["temperature"] == 0


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_request_is_left_out(name):
    assert not is_body(OTHERS[name])


@pytest.mark.parametrize("name", [name for name in OTHERS if not name.startswith("continued")])
def test_what_is_no_request_is_refused_by_its_fields(name, tmp_path):
    with pytest.raises(ValueError, match="not the fields " + ", ".join(list(OTHERS[name])[:2])):
        read_body(OTHERS[name])
    for content in (json.dumps(OTHERS[name]), json.dumps(OTHERS[name], indent=2), json.dumps([OTHERS[name]])):
        (tmp_path / "a.json").write_text(content, "utf-8")
        with pytest.raises(TraceError, match="not the fields " + next(iter(OTHERS[name]))):
            read_prompt(str(tmp_path / "a.json"))


@pytest.mark.parametrize("name", TOKENS)
def test_token_ids_are_compared_as_they_are(name):
    body = read_body(TOKENS[name])
    assert body.has_ids
    assert (text_ids(body.text), body.namespace) == (IDS, {"model": "m"})


@given(st.lists(st.integers(0, 2**20 - 1), min_size=1), st.lists(st.integers(0, 2**20 - 1), min_size=1))
def test_units_count_token_ids(one, two):
    first, second = (request for request in read_log(
        [json.dumps({"prompt": ids}) for ids in (one, two)], Units(ids=True), block_size=1))  # fmt: skip
    assert (first.input_length, second.input_length) == (len(one), len(two))
    shared = next((at for at, (a, b) in enumerate(zip(one, two)) if a != b), min(len(one), len(two)))
    assert sum(a == b for a, b in zip(first.blocks, second.blocks)) >= shared
    assert list(first.blocks)[:shared] == list(second.blocks)[:shared]


@pytest.mark.parametrize(("entry", "why"), [
    ({"prompt": [2**20]}, "the token id 1048576: expected one from 0 to 1,048,575"), ({"prompt": [-1]}, "token id -1"),
    ({"prompt": [1, True]}, "expected text or a list of token ids"), ({"prompt": [1, "..."]}, "expected text"),
    ({"input_ids": [1, "...", 2], "sampling_params": {}}, "expected text or a list of token ids"),  # cut by SGLang
    ({"event": "request.received", "obj": {"text": "a" * 1024 + "..." + "b" * 1024, "sampling_params": {}}},
     r"prompt is cut or redacted: expected all of it \(SGLang: --log-requests-level 3\)"),
])  # fmt: skip
def test_wrong_token_ids_are_named(entry, why):
    with pytest.raises(ValueError, match=why):
        read_body(entry)


def test_two_prompts_of_token_ids_are_compared_in_tokens(tmp_path, capsys):
    for name, last in (("a", [7]), ("b", [8, 9])):
        (tmp_path / name).write_text(json.dumps({"input_ids": [*range(1000), *last]}), "utf-8")
    (tmp_path / "c").write_text("text", "utf-8")
    assert main(["why", *(str(tmp_path / name) for name in "ab")]) == 0
    said = capsys.readouterr().out
    assert "after 1,000 tokens" in said
    assert "…992 993 994 995 996 997 998 999" in said
    assert "1,000 tokens, 99.8% of B" in said
    assert main(["why", *(str(tmp_path / name) for name in "ac")]) == 2
    assert "one prompt is a list of token ids and the other is text" in capsys.readouterr().err


def test_the_tree_of_a_log_shows_token_ids_as_numbers(tmp_path, capsys):
    log = "".join(json.dumps({"prompt": [*range(7000, 7040), last, 5]}) + "\n" for last in (1, 2**18))
    (tmp_path / "log").write_text(log, "utf-8")
    assert main(["why", str(tmp_path / "log"), "--html", str(tmp_path / "log.html")]) == 0
    assert "7000 7001 7002" in (tmp_path / "log.html").read_text("utf-8")


def test_a_log_of_token_ids_is_a_trace_of_tokens(tmp_path, capsys):
    log = tmp_path / "log"
    log.write_text("".join(json.dumps({"prompt": [*range(40), at]}) + "\n" for at in range(3)), "utf-8")
    assert main(["replay", str(log), "--capacity", "10"]) == 0
    assert "blocks of 16 tokens" in capsys.readouterr().err


def test_a_request_that_sglang_tells_of_twice_counts_once_with_its_bill(tmp_path, capsys):
    came, done = TOKENS["SGLang, log"], TOKENS["SGLang, the end"]
    events = [{**event, "rid": rid} for rid in ("1", "2") for event in (came, done)]
    events += [{**done, "rid": rid} for rid in ("3", "1")]  # of the latter, the log lacks the second beginning
    (tmp_path / "log").write_text("".join(json.dumps(event) + "\n" for event in events), "utf-8")
    report = survey(tmp_path / "log")
    assert (report.requests, report.log.others) == (4, 0)
    (billed,) = report.billed.values()
    assert (billed.requests, billed.size, billed.reused, billed.after) == (4, 16, 12, 15 / 16)
    assert main(["replay", str(tmp_path / "log"), "--capacity", "10", "--block-size", "1", "--json"]) == 0
    assert '"requests": 4' in capsys.readouterr().out


def test_the_report_names_the_kinds_of_lines_left_out_with_their_counts(tmp_path, capsys):
    chain = {"run_type": "chain", "inputs": {"messages": MESSAGES}}
    span = {"attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}}
    later = {"model": "m", "input": "Hi", "previous_response_id": "resp_1"}
    lines = [BODY, *[chain] * 5, *[span] * 4, *[later] * 3, *[{"prompt": ["a", "b"]}] * 2, {"x": 1}, {}]
    says = {"of run_type chain": 5, "of gen_ai.operation.name execute_tool": 4,
            "with previous_response_id, which is on the server": 3, "with a batch of prompts": 2,
            "with the fields x": 1, "that mention none": 1}  # fmt: skip
    report = survey(lines)
    assert (dict(report.log.reasons), report.log.others) == (says, 16)
    assert report.as_json(1)["other_reasons"] == says
    four = "; ".join(f"{count} {reason}" for reason, count in [*says.items()][:4])
    assert f"Left out 16 lines without a request: {four}; and others." in " ".join(repr(report).split())
    assert "Left out 1 line without a request: 1 with the fields x." in repr(survey([BODY, {"x": 1}]))
    (tmp_path / "vllm.log").write_text(f"Starting\n{VLLM[1]}\nGET /health\n", "utf-8")
    assert main(["why", str(tmp_path / "vllm.log")]) == 0
    assert "Left out 2 lines without a request: 2 that mention none." in capsys.readouterr().out


@pytest.mark.parametrize("data", [[{"prompt": "other"}], {"prompt": "other"}, [], '{"prompt": "other"}', "x"])
@pytest.mark.parametrize("text", [False, True])
def test_data_beside_messages_does_not_win_over_them(data, text, tmp_path):
    """Whatever the file: lines, a list, one value over many lines; and messages that are JSON in a text."""
    entry = {"data": data, "messages": json.dumps(MESSAGES) if text else MESSAGES}
    whole = read_body({"messages": MESSAGES}).text
    assert read_body({**entry, "event": "chat"}).text == whole, "also of an entry that has a tracer's field"
    for indent, value in (None, entry), (None, [entry]), (2, entry), (2, [entry]):
        (tmp_path / "log").write_text(json.dumps(value, indent=indent) + "\n", "utf-8")
        with open(tmp_path / "log", "rb") as file:
            assert [read_body(json.loads(line)).text for line in request_lines(file)] == [whole]
    holder = {"data": [{"messages": MESSAGES}, {"messages": MESSAGES}], "meta": {}}
    assert len([*entries_of(holder)]) == 2


# -- times, conversations and bills of the forms ----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "conversation"), [
    ("OpenTelemetry", "conv_5"), ("OTLP", "conv_5"), ("LangSmith", "t"), ("Langfuse", None),
])  # fmt: skip
def test_the_conversation_of_a_form_is_found(name, conversation):
    assert (conversation_of(FORMS[name]) or (None,))[-1] == conversation


@pytest.mark.parametrize(("name", "time"), [
    ("OTLP", 1770000000000.0), ("LangSmith", 1770026400000.0), ("LiteLLM", 1770000000500.0),
    ("Langfuse", 1770026400000.0), ("OpenTelemetry, flat", 1770026400000.0),
])  # fmt: skip
def test_the_time_of_a_form_is_found(name, time):
    assert time_of(FORMS[name]) == time


@pytest.mark.parametrize("name", ["OpenTelemetry", "OTLP", "LiteLLM", "Langfuse", "Bedrock"])
def test_the_bill_of_a_form_is_found(name):
    assert read_usage(FORMS[name])[:2] == (97, 47)


# -- files of other forms ---------------------------------------------------------------------------------------------


def lines_of(text):
    return [json.loads(line) for line in request_lines(text.encode().splitlines(keepends=True))]


def prompts(text):
    return [read_body(entry).text for entry in lines_of(text) if is_body(entry)]


def test_lines_of_json_are_passed_on_as_they_are():
    lines = [b'{"prompt": "Hi"}\n', b"\n", b"{broken\n", b'{"prompt": "Ho"}']
    assert [*request_lines(lines)] == lines
    assert [*request_lines([])] == []
    assert [*request_lines([b"\n", b" "])] == [b"\n", b" "]


def test_the_spans_of_a_batch_are_requests_of_their_own():
    batch = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": [otlp_span(OTEL)] * 2}]}]}
    assert len(prompts(f"{json.dumps(batch)}\n{json.dumps(batch)}\n")) == 4
    assert len(prompts(json.dumps(batch, indent=1))) == 2
    assert QUESTION in prompts(json.dumps(batch))[0]


def test_one_list_or_page_holds_requests():
    assert len(prompts(json.dumps([BODY, RUN, LITELLM]))) == 3
    assert len(prompts(f"{json.dumps(BODY['messages'])}\n" * 2)) == 2, "a list of messages in each line"
    assert len(prompts(json.dumps({"data": [LANGFUSE, {**LANGFUSE, "type": "SPAN"}], "meta": {}}, indent=2))) == 1
    for name, entry in (("data", LANGFUSE), ("runs", RUN), ("observations", LANGFUSE)):
        assert len(prompts(f"{json.dumps({name: [entry] * 2, 'meta': {}})}\n" * 2)) == 4, "a page in each line"


def test_the_log_of_a_vllm_server_is_read_and_its_lines_keep_their_numbers():
    found = lines_of("\n".join(VLLM))
    assert [is_body(entry) for entry in found] == [False, True, True, False, False]
    assert found[1] == {"prompt": "It's\n1 \"o'clock\"", "prompt_token_ids": [1, 22, 333]}
    assert text_ids(read_body(found[2]).text) == [1, 22]


@pytest.mark.parametrize("odd", [rb"'\x4'", rb"'\N{no name}'", b"'\xff'", b"None"])
def test_an_odd_line_of_a_server_holds_no_request_or_its_text(odd):
    sound = b"Received request a: prompt: 'Hi', params: None"
    found = [json.loads(line) for line in request_lines([sound, b"Received request b: prompt: " + odd])]
    assert found[1] in ({}, {"prompt": "\N{REPLACEMENT CHARACTER}"})


def test_the_log_of_an_sglang_server_is_read_but_for_texts_that_it_cut():
    found = lines_of("\n".join(SGLANG))
    assert found == [{"prompt": "It's"}, {"prompt_token_ids": [1, 22]}, {}, {}, {}, {"prompt": "Hi", "lora_name": "ad"}]


def test_the_adapter_of_a_request_to_a_server_is_its_namespace():
    line = (
        "INFO Received request a: prompt: 'Hi', params: None, lora_request: LoRARequest(lora_name='sql', lora_int_id=1)"
    )
    assert read_body(lines_of(line)[0]).namespace == {"lora_name": "sql"}
    assert not read_body(lines_of(line.replace("LoRARequest(lora_name='sql', lora_int_id=1)", "None"))[0]).namespace


def test_files_of_other_forms_are_named_by_their_lines(tmp_path, capsys):
    (tmp_path / "vllm.log").write_text("\n".join(VLLM), "utf-8")
    assert main(["why", f"{tmp_path}/vllm.log:2", f"{tmp_path}/vllm.log:3"]) == 0
    assert "2 tokens, 100.0% of B" in capsys.readouterr().out
    assert main(["why", f"{tmp_path}/vllm.log"]) == 0
    assert "2 requests" in capsys.readouterr().out
    (tmp_path / "line").write_text(VLLM[2] + "\n", "utf-8")
    (tmp_path / "quoted").write_text(f"Explain this:\n{VLLM[2]}", "utf-8")
    assert text_ids(read_prompt(f"{tmp_path}/line").text) == [1, 22]
    assert read_prompt(f"{tmp_path}/quoted").text.startswith("Explain this:")
    (tmp_path / "one.json").write_text(json.dumps([FORMS["OTLP"]]), "utf-8")
    assert QUESTION in read_prompt(f"{tmp_path}/one.json").text
    (tmp_path / "two.json").write_text(json.dumps([RUN, BODY], indent=1), "utf-8")
    with pytest.raises(TraceError, match=r"holds 2 requests: pass one of them, such as .*two\.json:1"):
        read_prompt(f"{tmp_path}/two.json")
    assert read_prompt(f"{tmp_path}/two.json:2").text == read_body(BODY).text


def test_one_value_of_too_many_bytes_is_refused_and_one_of_as_many_is_read(monkeypatch):
    monkeypatch.setattr(exports, "LARGEST_LIST", 18)
    lines = b"[\n", b'{"prompt": "Hi"}'
    assert [*request_lines([*lines[:1], b'{"prompt": ""}\n', b"]"])] == [b'{"prompt": ""}']
    with pytest.raises(TraceError, match="one JSON value of over 18 bytes: write one request per line"):
        [*request_lines([*lines, b"]"])]


# -- any JSON at all --------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    ["messages", "prompt", "input", "inputs", "run_type", "attributes", "key", "value", "stringValue", "arrayValue",
     "values", "gen_ai.input.messages", "gen_ai.prompt.0.role", "gen_ai.prompt.x", "llm.request.functions.0.name",
     "gen_ai.tool.definitions", "gen_ai.system_instructions", "model_parameters", "proxy_server_request", "traceId",
     "type", "modelParameters", "contents", "systemInstruction", "parts", "role", "content", "kwargs", "data", "id",
     "event", "obj", "text", "input_ids", "sampling_params", "extra", "metadata", "tools", "conversation", "body"]
)  # fmt: skip
LEAVES = st.sampled_from(
    [None, True, 3, -1, 2.5, "", "Hi", "llm", "GENERATION", "human", "chat", "[", '{"messages": []}', '[{"role": 3}]',
     "request.received", "tool_call_response", "\ud800"]
)  # fmt: skip
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_any_object_is_refused_by_its_fields_or_is_a_body_whose_text_has_its_messages(entry):
    request, refused = request_in(entry), ""
    try:
        text = read_body(entry).text
    except ValueError as error:
        text, refused = "", str(error)
    assert (request is None) == ("not the fields" in refused)
    messages = request.get("messages") if request and not refused else None
    for message in messages if isinstance(messages, list) else ():
        content = message_of(message).get("content")
        assert not isinstance(content, str) or content in text
    time_of(entry), conversation_of(entry), read_usage(entry)


@given(VALUES)
def test_any_value_in_a_file_is_read_or_refused(value):
    for line in request_lines([json.dumps(value).encode(), b"\n", json.dumps(value, indent=1).encode()]):
        assert line.strip() in (b"", json.dumps(value).encode()) or isinstance(json.loads(line), object)
    for entry in entries_of(value):
        assert not isinstance(entry, list) or not entry


def test_a_message_that_says_its_role_is_as_it_was_sent():
    message = {"type": "ai", "role": "assistant", "content": "Hi", "reasoning_content": "Hm."}
    assert message_of(message) == message


def test_the_calls_of_tools_of_a_run_are_as_they_were_sent():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    message = {"type": "ai", "content": "", "additional_kwargs": {"tool_calls": [call]}}
    run = {"run_type": "llm", "inputs": {"messages": [[message, {"type": "human", "content": "Go."}]]}}
    assert '{\\"a\\":1}' in read_body(run).text
    roles = [piece.place.name for piece in read_body(run).pieces if piece.place.field == "role"]
    assert roles == ["assistant", "user"]
