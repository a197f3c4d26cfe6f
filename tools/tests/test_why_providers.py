"""What the providers' APIs read: their rules by hand, the laws of breakpoints, the bill, and the age of the rules."""

import json
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from why_provider_pairs import CACHE, CLOCKS, EXPLICIT, HOUR, LONG, POINT, gpt, opus, part, rules, text, turns

from minikv.cli import main
from minikv_tools.bodies import read_body
from minikv_tools.logs import Units
from minikv_tools.usage import Usage, read_usage
from minikv_tools.why import explain, explanation_text
from minikv_tools.why.bills import compared
from minikv_tools.why.breakpoints import breakpoints, endings, prompt_blocks
from minikv_tools.why.changes import KINDS
from minikv_tools.why.places import read_prompt
from minikv_tools.why.providers import NOTHING_SHARED, RULES, Prediction, RequestPair, predict, providers_of
from minikv_tools.why.texts import shared_length


class Letters:
    """A tokenizer with a token for each character."""

    def encode(self, text):
        return [ord(character) for character in text]


def between(one, two, age=0.0, key=None):
    """The prediction for two request bodies, where a character is a token."""
    one, two = read_body(one), read_body(two)
    shared = shared_length(one.text, two.text)
    return predict(key or providers_of(one, two)[0], RequestPair(one, two, shared, len(two.text), age=age))


# -- the models -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "key", "least"), [
    ("claude-opus-5", "anthropic", 512), ("claude-opus-5-5", "anthropic", 512), ("claude-fable-5-1", "anthropic", 512),
    ("claude-mythos-5", "anthropic", 512), ("claude-sonnet-5-5", "anthropic", 512),
    ("claude-haiku-5-5", "anthropic", 512), ("claude-opus-4-8", "anthropic", 1024),
    ("anthropic.claude-opus-4-1-20250805-v1:0", "anthropic", 1024), ("claude-sonnet-5", "anthropic", 1024),
    ("anthropic/claude-sonnet-4.5", "anthropic", 1024), ("claude-3-5-sonnet-20241022", "anthropic", 1024),
    ("claude-opus-4-7", "anthropic", 2048), ("claude-mythos-preview", "anthropic", 2048),
    ("claude-3-haiku-20240307", "anthropic", 2048), ("claude-opus-4-5@20251101", "anthropic", 4096),
    ("claude-opus-4-6", "anthropic", 4096), ("claude-haiku-4-5", "anthropic", 4096),
    ("gpt-5.6-sol", "openai", 1024), ("openai/gpt-6-luna", "openai", 1024),
    ("gpt-4o-mini", "openai before", 1024), ("gpt-5-2025-08-07", "openai before", 1024), ("o3", "openai before", 1024),
    ("gpt-35-turbo", "openai before", 1024), ("gpt-5.5-pro", "openai before", 2048),
    ("Qwen/Qwen3-8B", None, 0), ("openai/gpt-oss-120b", None, 0), ("cerebras/Cerebras-GPT-13B", None, 0),
    ("gpt-5.10", "openai", 1024), ("amazon.nova-pro-v1:0", None, 0), ("google/gemini-2.5-pro", None, 0),
])  # fmt: skip
def test_a_model_has_its_provider_and_its_least_length(model, key, least):
    def asked(length):
        return {"model": model, "cache_control": {"type": "ephemeral"}, "messages": [part("x" * length)]}

    plain = {"model": model, "messages": [part("x")]}
    assert providers_of(read_body(plain)) == providers_of(read_body(asked(9))) == ([key] if key else [])
    if key:
        begin = len("<|im_start|>user\n")
        shorter, enough = (between(asked(length - begin), asked(length - begin)) for length in (least - 20, least))
        assert (shorter.kind, shorter.read) == ("too short for the cache", 0)
        assert enough.kind == "" or enough.detail.endswith("on this platform it may differ")
        assert 0 < enough.read <= least


@pytest.mark.parametrize(("more", "keys"), [
    ({}, ""), ({"messages": [part("Hi", **POINT)]}, "openai"), ({"prompt_cache_options": {}}, "openai"),
    ({"messages": [part("Hi", **CACHE)]}, "anthropic"), (CACHE, "anthropic"), ({"system": "Hi"}, ""),
    ({"anthropic_version": "bedrock-2023-05-31"}, "anthropic"), ({"model": "m", **CACHE}, ""),
    ({"prompt_cache_key": "a"}, "openai, openai before"), ({"prompt_cache_retention": "24h"}, "openai before"),
    ({"prompt_cache_key": "a", "prompt_cache_options": {}}, "openai"),
    ({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "messages": None, "systemInstruction": {}}, ""),
    ({"system": [{"text": "Hi"}, {"cachePoint": {"type": "default"}}], "inferenceConfig": {}}, ""),
    ({"model": "Jackrong/Qwen3-Claude-4.5-Distill"}, ""), ({"model": "AIDC-AI/Marco-o1"}, ""),
])  # fmt: skip
def test_a_request_has_the_provider_that_its_model_or_a_field_of_no_other_api_names(more, keys):
    assert ", ".join(providers_of(read_body({"messages": [part("Hi")], **more}))) == keys


def test_what_is_unsure_is_the_length_of_what_is_read():
    """Of the first request 2,017 tokens are written, which is less than an unknown model may ask for."""
    one = {"model": "claude-next", "messages": [part("x" * 2000, **CACHE)]}
    found = between(one, {**one, "messages": [*one["messages"], part("y" * 5000, **CACHE)]})
    assert (found.unsure, found.read, found.detail) == (
        True, 2017, "perhaps: about 2,017 tokens; the minimum is 512 to 4,096"
    )  # fmt: skip


def test_a_prompt_of_the_least_length_is_long_enough_and_may_be_too_old():
    begin = len("<|im_start|>user\n<|im_end|>\n")
    body = gpt(part("x" * (1024 - begin)), model="gpt-4o")
    assert [between(body, body, age).detail for age in (300, 301)] == ["", "perhaps: 5 minutes later"]


def test_an_unknown_model_of_anthropics_is_unsure_between_512_and_4096():
    body = {"model": "claude-next", "cache_control": {"type": "ephemeral"}, "messages": [part("x" * 2000)]}
    assert between(body, body).unsure


# -- by hand ----------------------------------------------------------------------------------------------------------


def end_of(body, number):
    return prompt_blocks(read_body(body))[number].end


def test_a_conversation_reads_up_to_the_breakpoint_of_the_turn_before_and_writes_the_rest():
    one = opus(text(LONG), messages=turns(2)[:3], **CACHE)
    two = opus(text(LONG), messages=turns(3)[:5], **CACHE)
    found = between(one, two)
    assert (found.read, found.read + found.written) == (end_of(one, -1), end_of(two, -1))


def test_the_documented_example_of_looking_back():
    """Ten blocks, then 15: a hit at 10. Then 35: nothing from 35 back to 16; a second breakpoint at 15 finds it."""

    def asked(count, *marked):
        return {"model": "claude-opus-5", "messages": [
            part(f"{n}{LONG}", **(CACHE if n in marked else {})) for n in range(1, count + 1)]}  # fmt: skip

    assert between(asked(10, 10), asked(15, 15)).read == end_of(asked(10), -1)
    missed = between(asked(15, 15), asked(35, 35))
    assert (missed.read, missed.kind) == (0, "breakpoint too far")
    assert between(asked(15, 15), asked(34, 34)).read == end_of(asked(15), -1)
    assert between(asked(15, 15), asked(35, 15, 35)).read == end_of(asked(15), -1)


@pytest.mark.parametrize(("rounds", "doubt"), [(9, ""), (20, ""), (21, "breakpoint too far")])
def test_openai_may_look_back_at_twenty_messages_or_at_all(rounds, doubt):
    one = gpt(rules(LONG), part("?"))
    found = between(one, gpt(*one["messages"], *turns(rounds)))
    assert (found.kind, found.unsure, found.read) == (doubt, bool(doubt), end_of(one, -1))


def test_from_a_breakpoint_only_what_is_before_it_is_found():
    first = opus(text(LONG, **CACHE), messages=[part(LONG, **CACHE)])
    assert between(first, opus(text(LONG, **CACHE), messages=[part(LONG)])).read == end_of(first, 0)


def rounds_of(together, rounds):
    """So many rounds of calls that are made at once, each with its results."""
    names = [f"t{n}" for n in range(together)]
    calls = [{"type": "tool_use", "id": name, "name": "f", "input": {}} for name in names]
    results = [{"type": "tool_result", "tool_use_id": name, "content": "1"} for name in names]
    return [{"role": "assistant", "content": calls}, {"role": "user", "content": results}] * rounds


FAR = (
    "messages[0] (user), content[0] is position {}, counting back from the new breakpoint (position 1); "
    "the provider checks only 20"
)


@pytest.mark.parametrize(("together", "rounds", "detail"), [
    (30, 1, ""), (1, 9, ""), (1, 10, FAR.format(21)), (12, 12, FAR.format(25)),
])  # fmt: skip
def test_a_run_of_tool_calls_counts_as_one_block_and_so_does_one_of_results(together, rounds, detail):
    one, two = (opus(messages=[part(LONG), *more], **CACHE) for more in ([], rounds_of(together, rounds)))
    found = between(one, two)
    assert (found.kind, found.detail) == ("breakpoint too far" * bool(detail), detail)


@pytest.mark.parametrize(("unread", "kind"), [(460, ""), (520, "breakpoint too early"), (9000, "breakpoint too early")])
def test_a_breakpoint_is_too_early_where_another_one_would_pay(unread, kind):
    begin = len("<|im_start|>user\n")
    shared = [text(LONG * 9, **CACHE)], [part("x" * (unread - begin))]
    found = between(*(opus(*shared[0], messages=[*shared[1], {"role": "assistant", "content": said}])
                      for said in ("Yes.", "No.")))  # fmt: skip
    assert found.kind == kind


def test_a_named_model_of_another_provider_has_no_row_of_one_of_the_two():
    rows = [[row.cache[:6] for row in explain(*[{**model, "messages": [part(LONG)]}] * 2).caches[5:]]
            for model in ({"prompt_cache_key": "a"}, {"model": "Qwen3"}, {"model": "gpt-4o"}, {})]  # fmt: skip
    assert rows == [["OpenAI", "OpenAI"], [], ["OpenAI"], []]


TOO_MANY, TOO_LATE = (
    "5 breakpoints, but only 4 are allowed; the last is 5m at system[4]",
    "a longer lifetime comes after a shorter one: {}",
)


@pytest.mark.parametrize(("marks", "why"), [
    ([CACHE] * 4, ""), ([CACHE] * 5, TOO_MANY), ([HOUR, HOUR, CACHE, CACHE], ""),
    ([CACHE, HOUR], TOO_LATE.format("5m at system[0], then 1h at system[1]")),
    ([HOUR, CACHE, HOUR], TOO_LATE.format("5m at system[1], then 1h at system[2]")),
])  # fmt: skip
def test_four_breakpoints_are_taken_and_no_lifetime_after_a_shorter_one(marks, why):
    body = opus(*(text(LONG, **mark) for mark in marks))
    found = between(body, body)
    assert (found.kind, found.detail, found.read > 0) == ("breakpoints refused" * bool(why), why, not why)


@pytest.mark.parametrize(("one", "two", "shared"), [
    (CLOCKS[0], CLOCKS[1], "the last block that both share is system[0]"),
    (opus(text(f"{LONG}A", **CACHE)), opus(text(f"{LONG}B", **CACHE)), NOTHING_SHARED),
])  # fmt: skip
def test_a_breakpoint_on_what_changes_names_the_last_block_that_does_not(one, two, shared):
    """Both texts are as long: where they end says nothing."""
    found = between(one, two)
    place = f"system[{len(one['system']) - 1}]"
    assert (found.kind, found.detail) == ("breakpoint on what changes", f"it is at {place}; {shared}")


def test_thinking_takes_no_automatic_breakpoint():
    thought = {"role": "assistant", "content": [text("Yes."), {"type": "thinking", "thinking": "Hm."}]}
    body = read_body(opus(messages=[part(LONG), thought], **CACHE))
    assert [*breakpoints(body, prompt_blocks(body))] == [1]


ASKED = {"role": "user", "content": "Is it open?"}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "Open."}


@pytest.mark.parametrize(("body", "marks"), [
    (opus(text("A"), messages=[ASKED, {**ASKED, **HOUR}, ASKED]), [(2, 1, "1h")]),
    (opus(messages=[{"role": "user", "content": "", **CACHE}, ASKED]), []),
    (opus(messages=[part("<|im_start|>", **CACHE), ASKED]), [(0, 0, "5m")]),
    (opus(messages=[{"role": "user", "content": [{**RESULT, **HOUR}]}]), [(0, 0, "1h")]),
    (opus(messages=[{"role": "user", "content": [{**RESULT, **CACHE}]}, ASKED], **HOUR), [(0, 0, "5m"), (1, 1, "1h")]),
    (opus(messages=[{"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}]}], **CACHE), []),
])  # fmt: skip
def test_a_breakpoint_is_where_the_request_sets_it_and_lasts_as_long_as_it_says(body, marks):
    body = read_body(body)
    blocks = prompt_blocks(body)
    assert [(at, blocks[at].place.item, mark) for at, mark in breakpoints(body, blocks).items()] == marks


@pytest.mark.parametrize(("body", "cuts"), [
    ({"messages": [{"role": "user", "content": [text(said) for said in "ABC"]}, ASKED]}, [2, 3]),
    ({"messages": [{"role": "assistant", "content": "A"}, ASKED]}, [1]),
    ({"prompt": "Is it open?"}, [0]),
    ({"messages": [ASKED], "prompt_cache_options": {"mode": "implicit"}}, [0]),
    ({"messages": [ASKED], **EXPLICIT}, []),
])  # fmt: skip
def test_openai_cuts_once_after_each_message_of_a_user(body, cuts):
    body = read_body({"model": "gpt-5.6-sol", **body})
    assert endings(body, prompt_blocks(body)) == cuts


def test_a_call_whose_arguments_speak_of_results_is_a_call():
    said = "Look for the words tool_use_id and .thinking in all files. " * 3
    call = {"type": "tool_use", "id": "t1", "name": "grep", "input": {"for": f"{'x' * 99} {said}"}}
    (block,) = prompt_blocks(read_body({"messages": [{"role": "assistant", "content": [call]}]}))
    assert block.kind == "tool_use"


def test_the_request_that_has_no_breakpoint_is_named():
    plain, marked = opus(text(LONG)), opus(text(LONG, **CACHE))
    found = [between(*pair) for pair in ((plain, marked), (marked, plain), (plain, plain))]
    said = "in the {} request; the {} has one at system[0]"
    assert [one.detail for one in found] == [said.format("first", "second"), said.format("second", "first"), ""]
    assert [(one.kind, one.read) for one in found] == [("no breakpoint", 0)] * 3
    assert [one.written for one in found] == [end_of(marked, 0), 0, 0]


def test_what_is_cached_by_itself_costs_nothing_to_write_and_another_key_finds_none_of_it():
    one, two = (gpt(rules(), part("?"), model="gpt-4o", prompt_cache_key=key) for key in "ab")
    assert [between(one, one, age).written for age in (0, 10**6)] == [0, 0]
    assert between(one, two) == Prediction("openai before", 0, 0, "cache key changed", "prompt_cache_key (a to b)")
    assert between(one, one).read > 0
    assert between(*({**opus(text(LONG, **CACHE)), "prompt_cache_key": key} for key in "ab")).kind == ""


def test_openai_cuts_at_the_first_instructions_at_users_and_after_the_last_tool():
    body = read_body(gpt(rules("A"), rules("B"), part("C"), {"role": "assistant", "tool_calls": [{"id": "1"}]},
                         *({"role": "tool", "content": "D"} for _ in range(2)), rules("E")))  # fmt: skip
    blocks = prompt_blocks(body)
    assert [blocks[number].place.item for number in endings(body, blocks)] == [1, 2, 5]


def test_openai_takes_the_latest_breakpoints_and_one_implicit():
    body = read_body(gpt(*(part(LONG, **POINT) for _ in range(6)), part("?")))
    assert [*breakpoints(body, prompt_blocks(body), latest=4)] == [3, 4, 5, 6]


@pytest.mark.parametrize(("model", "length", "read"), [
    *(("gpt-4o", length, read) for length, read in ((1000, 0), (1024, 1024), (1151, 1024), (1152, 1152), (3000, 2944))),
    ("gpt-5.5", 2047, 0), ("gpt-5.5-2026-04-23", 4095, 2048),
])  # fmt: skip
def test_before_gpt_5_6_a_prompt_is_kept_in_steps(model, length, read):
    """Of 128 tokens, from 1,024 on; at GPT-5.5 of 2,048."""
    begin = "x" * (length - len("<|im_start|>user\n"))
    assert between(*({"model": model, "messages": [part(begin + last * 99)]} for last in "ab")).read == read


@pytest.mark.parametrize(("ttl", "age", "kind"), [
    (CACHE, 299, ""), (CACHE, 301, "cache expired"), (HOUR, 3599, ""), (HOUR, 3601, "cache expired"),
])  # fmt: skip
def test_an_entry_lives_as_long_as_its_breakpoint_says(ttl, age, kind):
    body = opus(text(LONG, **ttl))
    assert between(body, body, age).kind == kind


@pytest.mark.parametrize(("model", "more", "sure", "gone"), [
    ("gpt-4o", {}, 300, 3600), ("gpt-5.1", {}, 86400, 86400), ("gpt-4.1-mini", {}, 86400, 86400),
    ("gpt-5.1", {"prompt_cache_retention": "in_memory"}, 300, 3600), ("gpt-5.6-sol", {}, 1800, None),
])  # fmt: skip
def test_an_entry_of_openais_is_surely_kept_for_a_time_and_gone_after_a_longer_one(model, more, sure, gone):
    body = gpt(rules(LONG), part("?"), model=model, **more)
    assert between(body, body, sure).kind == ""
    late = between(body, body, (gone or 10**9) - 1)
    assert (late.kind, late.unsure, late.read > 0) == (
        ("cache expired", True, True) if sure != gone else ("", False, True)
    )
    if gone:
        lost = between(body, body, gone + 1)
        assert (lost.kind, lost.unsure, lost.read) == ("cache expired", False, 0)


@pytest.mark.parametrize(
    ("age", "says"), [(600, "10 minutes"), (7000, "117 minutes"), (7200, "2 hours"), (43200, "12 hours")]
)
def test_a_pause_is_told_in_minutes_or_in_hours(age, says):
    body = opus(text(LONG, **CACHE))
    assert between(body, body, age).detail == f"{says} later; the entry is kept for 5m"


@pytest.mark.parametrize(("changed", "kept"), [
    ({"speed": "fast"}, "tools"), ({"citations": True}, "tools"),
    ({"tool_choice": {"type": "any"}}, "system"), ({"thinking": {"type": "adaptive"}}, "system"),
    ({"output_config": {"effort": "low"}}, "system"), ({"temperature": 1}, "messages"),
])  # fmt: skip
def test_a_setting_drops_its_level_and_those_after_it(changed, kept):
    body = opus(
        text(LONG, **CACHE), messages=[part(LONG, **CACHE)], tools=[{"name": "f", "description": LONG, **CACHE}]
    )
    ends = dict(zip(("tools", "system", "messages"), (block.end for block in prompt_blocks(read_body(body)))))
    assert between(body, {**body, **changed}).read == ends[kept]


# -- laws -------------------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["a", "b", "c" * 600, "d" * 1500])
PARTS = st.builds(lambda said, mark: text(said, **mark), WORDS, st.sampled_from([{}, {}, CACHE, HOUR, POINT]))
MESSAGES = st.lists(
    st.builds(lambda role, parts: {"role": role, "content": parts}, st.sampled_from(["user", "assistant", "tool"]),
              st.lists(PARTS, min_size=1, max_size=3)), min_size=1, max_size=6)  # fmt: skip
TOOLS = st.lists(
    st.builds(lambda name: {"name": name, "description": "e" * 700}, WORDS.filter(lambda w: len(w) == 1)), max_size=2
)


@st.composite
def bodies(draw):
    model = draw(st.sampled_from(["claude-opus-5", "gpt-5.6-sol", "gpt-4o"]))
    system = {"system": draw(st.lists(PARTS, max_size=2))} if model.startswith("claude") else {}
    more = draw(st.sampled_from([{}, CACHE, {"prompt_cache_options": {"mode": "explicit"}}]))
    return {"model": model, "tools": draw(TOOLS), **system, "messages": draw(MESSAGES), **more}


@given(bodies(), MESSAGES)
def test_no_more_is_read_than_shared_and_no_more_written_than_there_is(one, messages):
    two = {**one, "messages": messages}
    found, shared = between(one, two), shared_length(read_body(one).text, read_body(two).text)
    assert 0 <= found.read <= shared
    assert found.read + found.written <= len(read_body(two).text)
    assert found.kind == "" or found.kind in KINDS


@given(bodies(), MESSAGES)
def test_what_is_read_was_written_at_a_breakpoint_of_the_first(one, messages):
    two = {**one, "messages": messages}
    (key,) = providers_of(read_body(one))
    if key != "openai before" and (found := between(one, two)).read:
        first = prompt_blocks(read_body(one))
        marks = breakpoints(read_body(one), first, None if key == "anthropic" else 4)
        assert len(marks) <= 4
        assert found.read in {first[number].end for number in marks}


@given(bodies(), MESSAGES)
def test_a_longer_history_reads_at_least_the_breakpoints_that_it_keeps(one, more):
    """Where the second request has the marks of the first one, what those found is found in a longer one too."""
    if "cache_control" in one or providers_of(read_body(one)) == ["openai"]:
        return  # an automatic breakpoint moves on
    bare = [{**message, "content": [text(block["text"]) for block in message["content"]]} for message in more]
    longer = {**one, "messages": [*one["messages"], *bare]}
    if one["messages"][-1]["role"] != "assistant":  # its end is open: it may be the beginning of an answer
        assert between(one, longer).read >= between(one, one).read


@given(bodies())
def test_the_blocks_come_as_tools_system_messages_and_end_in_the_prompt(body):
    body = read_body(body)
    blocks = prompt_blocks(body)
    parts = [("tools", "system", "messages").index(block.place.part) for block in blocks]
    assert parts == sorted(parts)
    ends = [block.end for block in blocks]
    assert ends == sorted(set(ends))
    assert all(0 < end <= len(body.text) for end in ends)


MARKS = st.lists(st.sampled_from([{}, CACHE, HOUR, POINT]), min_size=20, max_size=20)


@given(
    bodies(),
    MARKS,
    st.sampled_from([{}, CACHE, {"temperature": 1}, {"prompt_cache_options": {"mode": "explicit"}}]),
    st.sampled_from([[], [part("And now?")], [part("Read it. " * 200)]]),
)
def test_nothing_changed_is_never_said_where_the_provider_misses(one, marks, more, added):
    """Of a prompt with other breakpoints, and perhaps a turn more: if much is not read, that is what is said first."""
    mark = iter(marks)
    parts = {key: [text(block["text"], **next(mark)) for block in one[key]] for key in one.keys() & {"system"}}
    messages = [{**message, "content": [text(block["text"], **next(mark)) for block in message["content"]]}
                for message in one["messages"]]  # fmt: skip
    two = {"model": one["model"], "tools": one["tools"], **parts, "messages": messages + added, **more}
    found = explain(read_body(one), read_body(two), Units(Letters()))
    assert found.lengths[0] == found.shared
    if found.change.kind in ("nothing", "settings", "extended"):
        lost = found.shared - found.provider.read
        assert found.provider.read > 0
        assert lost < 1024


# -- the answer -------------------------------------------------------------------------------------------------------


def test_a_length_near_to_the_least_one_is_unsure_where_bytes_are_counted():
    body = read_body({"model": "gpt-4o", "messages": [part("x" * 4 * 1000)]})
    found = explain(body, body)
    assert found.provider.unsure
    assert (found.change.kind, found.change.detail[:20]) == ("too short for the cache", "perhaps: about 1,007")
    assert "unsure: too short for the cache" in explanation_text(found)
    assert not explain(body, body, Units(Letters())).provider.unsure


def test_what_was_sent_in_another_form_is_no_fault_of_a_breakpoint_that_nobody_set():
    def asked(arguments):
        call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
        return gpt(rules(), part("Go."), {"role": "assistant", "tool_calls": [call]}, part("And?"))

    found = explain(asked('{"a": 1}'), asked('{"a":1}'))
    assert (found.change.kind, found.provider.kind) == ("JSON rewritten", "breakpoint on what changes")
    assert found.remedies == [KINDS["answer edited"].remedy]


def test_the_bill_is_compared_with_the_prediction(tmp_path, capsys):
    body = opus(text(LONG, **CACHE))
    for read, says in ((1000, "The bill agrees: of 1,100 tokens, 1,000 were read"),
                       (0, "The bill differs: of 1,100 tokens, 0 were read; about 1,07")):  # fmt: skip
        usage = {"input_tokens": 100, "cache_read_input_tokens": read, "cache_creation_input_tokens": 1000 - read}
        (tmp_path / "log.jsonl").write_text(
            "\n".join(json.dumps({"request": body, "response": {"usage": usage}, "ts": n}) for n in range(2)), "utf-8"
        )
        assert read_prompt(f"{tmp_path}/log.jsonl:1").usage == read_usage({"usage": usage})
        assert main(["why", *(f"{tmp_path}/log.jsonl:{line}" for line in (1, 2))]) == 0
        assert says in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("prompt", "least", "most"), [(1000, 372, 628), (10_000, 4000, 6000)])
def test_a_bill_may_be_128_tokens_off_or_a_tenth_of_the_prompt(prompt, least, most):
    found = [compared(Prediction("anthropic", read=300), Usage(prompt, read), 600)[:16]
             for read in (least - 1, least, most, most + 1)]  # fmt: skip
    assert found == ["The bill differs", "The bill agrees:", "The bill agrees:", "The bill differs"]


def test_a_bill_that_says_nothing_of_a_cache_is_not_compared():
    found = Prediction("anthropic", read=300)
    nothing = (None, Usage(900, 300), 600), (found, None, 600), (found, Usage(900), 600), (found, Usage(900, 300), 0)
    assert [compared(*said) for said in nothing] == [""] * 4


@given(bodies(), st.integers(0, 10**9), st.integers(0, 10**9), st.floats(0, 1e9))
def test_whatever_the_bill_and_the_times_say_there_is_an_answer(body, prompt, read, later):
    usage = {"usage": {"prompt_tokens": prompt, "prompt_tokens_details": {"cached_tokens": read}}}
    found = explain({"request": body, "ts": 0}, {"request": body, "ts": later, **usage})
    assert explanation_text(found).startswith(found.kind.says[:40])
    assert 0 <= found.provider.read <= found.shared


def test_the_output_says_the_day_of_the_rules_and_the_json_has_the_row():
    body = read_body(opus(text(LONG, **CACHE)))
    found = explain(body, body)
    assert f"Anthropic's Claude (rules of {RULES['anthropic']['read']})" in explanation_text(found)
    assert RULES["anthropic"]["source"] in explanation_text(found).replace("\n", "")
    row = found.as_json()["provider"]
    assert (row["read"], row["title"]) == (
        found.provider.read,
        f"Anthropic's Claude (rules of {RULES['anthropic']['read']})",
    )


def test_a_second_cited_document_is_no_change_of_the_setting():
    def cited(name):
        source = {"type": "text", "data": f"{name} {LONG}"}
        return {"type": "document", "source": source, "citations": {"enabled": True}, **CACHE}

    asked = [{"role": "user", "content": [cited("one"), text("Why?")]}, {"role": "assistant", "content": "So."}]
    one, two = (opus(text(LONG), messages=asked[:end]) for end in (1, 2))
    two["messages"] = [*asked, {"role": "user", "content": [cited("two"), text("And?")]}]
    found = explain(one, two)
    assert (found.change.kind, found.also) == ("extended", None)
    assert found.provider.read > 1024


def test_the_kinds_are_listed(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["why", "--kinds"])
    printed = capsys.readouterr().out
    assert all(kind in printed and about.says in printed for kind, about in KINDS.items())


@pytest.mark.parametrize("rules_of", RULES.values(), ids=RULES)
def test_every_set_of_rules_has_a_source_and_a_day(rules_of):
    assert date.fromisoformat(rules_of["read"]) > date(2026, 1, 1)
    assert "docs/" in rules_of["source"]


@pytest.mark.nightly
@pytest.mark.parametrize("rules_of", RULES.values(), ids=RULES)
def test_no_rule_is_older_than_a_year(rules_of):
    assert (date.today() - date.fromisoformat(rules_of["read"])).days <= 366, f"read {rules_of['source']} again"
