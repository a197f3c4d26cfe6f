"""The bill of a request: every provider's names and sums, wherever a log keeps them; each form after its source."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv_tools.usage import Usage, attributes_of, read_usage

ANTHROPIC = {"input_tokens": 50, "cache_read_input_tokens": 1800, "cache_creation_input_tokens": 248,
             "output_tokens": 503}  # fmt: skip  # platform.claude.com, prompt caching
OPENAI = {"prompt_tokens": 2006, "completion_tokens": 300, "prompt_tokens_details": {"cached_tokens": 1920}}
RESPONSES = {"input_tokens": 2006, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 1920}}

FORMS = [
    (OPENAI, Usage(2006, 1920)),
    (RESPONSES, Usage(2006, 1920)),
    ({**RESPONSES, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 1800}}, Usage(2006, 0, 1800)),
    ({"prompt_tokens": 9, "prompt_tokens_details": None}, Usage(9)),  # vLLM, without --enable-prompt-tokens-details
    ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 5}, Usage(9, 4)),  # DeepSeek
    (ANTHROPIC, Usage(2098, 1800, 248)),
    ({**ANTHROPIC, "cache_creation": {"ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100}},
     Usage(2098, 1800, 148, 100)),
    ({"inputTokens": 10, "outputTokens": 5, "cacheReadInputTokens": 100, "cacheWriteInputTokens": 60},
     Usage(170, 100, 60)),  # Bedrock Converse
    ({"input_tokens": 10}, Usage(10)),
    ({"prompt_tokens": 2098, "cache_read_input_tokens": 1800, "cache_creation_input_tokens": 248,
      "prompt_tokens_details": {"cached_tokens": 1800, "cache_creation_tokens": 248,
                                "cache_creation_token_details": {"ephemeral_1h_input_tokens": 248}}},
     Usage(2098, 1800, 0, 248)),  # LiteLLM
    ({"input_tokens": 350, "input_token_details": {"cache_read": 100, "cache_creation": 200}}, Usage(350, 100, 200)),
    ({"input_tokens": 350, "input_token_details": {"cache_creation": 0, "ephemeral_1h_input_tokens": 9,
                                                   "ephemeral_5m_input_tokens": 1}}, Usage(350, None, 1, 9)),
    ({"input_tokens": 10, "cache_creation": {"ephemeral_1h_input_tokens": 9}}, Usage(19, None, 0, 9)),
    ({"input_tokens": 10, "cache_creation": {"ephemeral_5m_input_tokens": 0}}, Usage(10, None, 0)),
    ({"input_tokens": 2000, "prompt_tokens_details": {"cached_tokens": 1920}}, Usage(2000, 1920)),  # DashScope
    ({"input_tokens": 2000, "cached_tokens": 1920}, Usage(2000, 1920)),
    ({"inputTokens": 350, "inputTokenDetails": {"cacheReadTokens": 9, "cacheWriteTokens": 20}}, Usage(350, 9, 20)),
    ({"promptTokenCount": 20, "cachedContentTokenCount": 16, "totalTokenCount": 30}, Usage(20, 16)),  # Gemini
    ({"input_tokens": 5000, "cached_input_tokens": 4000, "output_tokens": 3, "total_tokens": 5003}, Usage(5000, 4000)),
    ({"input_tokens": 500, "cached_input_tokens": 0, "cache_write_input_tokens": 400}, Usage(500, 0, 400)),  # Codex
    ({"gen_ai.usage.input_tokens": 97, "gen_ai.usage.cache_read.input_tokens": 47,
      "gen_ai.usage.cache_write.input_tokens": 50}, Usage(97, 47, 50)),  # an example of the conventions
]  # fmt: skip


@pytest.mark.parametrize(("usage", "expected"), FORMS)
def test_each_form_gives_the_whole_prompt_and_what_the_cache_did(usage, expected):
    assert read_usage({"usage": usage}) == expected


@pytest.mark.parametrize("entry", [
    {"usage": OPENAI}, {"response": {"usage": OPENAI}}, {"response": {"body": {"usage": OPENAI}}},
    {"message": {"usage": OPENAI}}, {"metadata": {"usage_object": OPENAI}}, OPENAI,
    {"prompt_tokens": 2006, "metadata": {"usage_object": OPENAI}},  # LiteLLM says it twice, once without the cache
    {"outputs": {"llm_output": {"token_usage": OPENAI}}}, {"outputs": {"usage_metadata": OPENAI}},
    {"outputs": {"generations": [[{"message": {"kwargs": {"usage_metadata": OPENAI}}}]]}},
    {"response": [{"usage": None}, {"choices": []}, {"usage": OPENAI}]},  # the chunks of a stream
    {"metadata": {"input": 5}, "usage": OPENAI}, {"metadata": {"input": 5}, "response": {"usage": OPENAI}},
    {"out": {"meta_info": {"prompt_tokens": 2006, "cached_tokens": 1920}}},  # SGLang
    {"usageDetails": {"input": 86, "input_cached_tokens": 1920, "output": 3, "total": 2009}},  # Langfuse
    {"payload": {"info": {"last_token_usage": {"input_tokens": 2006, "cached_input_tokens": 1920}}}},  # Codex
    {"attributes": {"gen_ai.usage.input_tokens": 2006, "gen_ai.usage.cache_read.input_tokens": 1920}},
    {"attributes": [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "2006"}},
                    {"key": "gen_ai.usage.cache_read.input_tokens", "value": {"intValue": 1920}}]},
    {"attributes": [{"key": "gen_ai.usage.input_tokens", "value": 2006},
                    {"key": "gen_ai.usage.cache_read.input_tokens", "value": 1920}]},
    {"attributes": {"gen_ai.usage.input_tokens": 86, "gen_ai.usage.cache_read_input_tokens": 1920}},
])  # fmt: skip  # the last one took Anthropic's number for the whole
def test_it_is_found_where_logs_keep_it(entry):
    assert read_usage({"model": "m", **entry}) == Usage(2006, 1920)


def nested(entry, depth):
    for _ in range(depth):
        entry = {"response": entry}
    return entry


@pytest.mark.parametrize("entry", [{}, {"usage": None}, {"usage": {"include": True}}, {"usage": {"prompt_tokens": "7"}},
                                   {"usage": {"prompt_tokens": -1}}, {"usage": {"prompt_tokens": True}},
                                   {"usage": {"prompt_tokens": 2**60}}, {"input": "Hi"}, {"usage": []},
                                   {"attributes": [3, {"key": 7}]}, nested({"usage": OPENAI}, 9999)])  # fmt: skip
def test_where_there_is_none_it_is_none(entry):
    assert read_usage(entry) is None


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 2**40))
def test_providers_that_count_in_their_own_ways_agree(fresh, read, written):
    whole = fresh + read + written
    names = ("cache_read_input_tokens", "cache_creation_input_tokens")
    rest = read_usage({"usage": {"input_tokens": fresh, **dict(zip(names, (read, written)))}})
    full = {"input_tokens": whole, "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": written}}
    assert rest == read_usage({"usage": full}) == Usage(whole, read, written)


KEYS = st.sampled_from(["usage", "attributes", "response", "input_tokens", "prompt_tokens", "cacheDetails", "key",
                        "cache_creation", "value", "intValue", "arrayValue", "values", "kvlistValue"])  # fmt: skip
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, ANY, max_size=4))
def test_no_entry_makes_it_raise(entry):
    found = read_usage(entry)
    assert found is None or all(part is None or part >= 0 for part in found)
    attributes_of(entry.get("attributes"))
