"""The bill of a request: how many tokens a provider read from its cache, wrote to it, and counted in all.

Every provider has its own names for them, and its own sum. In OpenAI's `prompt_tokens`, in Gemini's and in those of
OpenTelemetry the tokens from the cache are included. In the `input_tokens` of Anthropic and Bedrock, and in the `input`
of Langfuse, they are not. A `Usage` always has the whole prompt.

Sources, read in November 2026: developers.openai.com (prompt caching), platform.claude.com (prompt caching),
docs.aws.amazon.com (Bedrock's `TokenUsage`), opentelemetry.io (`gen_ai` attributes), langfuse.com (usage and cost) and
its ingestion schema, docs.litellm.ai, reference.langchain.com (`InputTokenDetails`), ai.google.dev (`UsageMetadata`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_MOST = 2**53  # tokens
_DEEPEST = 5
_HOLDERS = (
    "usage", "usage_object", "usageDetails", "usage_details", "usage_metadata", "usageMetadata", "token_usage",
    "last_token_usage", "meta_info", "attributes", "response", "body", "modelOutput", "output", "outputs", "out",
    "llm_output", "generations", "message", "kwargs", "metadata", "response_metadata", "payload", "info", "extra",
)  # fmt: skip  # where a log may keep it
_DETAILS = ("prompt_tokens_details", "prompt_token_details", "input_tokens_details", "input_token_details",
            "cache_creation", "cache_creation_token_details")  # fmt: skip
_SEVERAL = "gen_ai.usage."
_WHOLE = ("prompt_tokens", "promptTokenCount", "prompt_token_count", _SEVERAL + "input_tokens",
          _SEVERAL + "prompt_tokens")  # fmt: skip
_REST = ("input_tokens", "inputTokens", "input")  # less what was read and written, unless one of these is beside it:
_INCLUDED = {"input_tokens_details", "input_token_details", "cached_input_tokens", "cachedInputTokens"}
_READ = (
    "cached_tokens", "cache_read_input_tokens", "cached_input_tokens", "cachedInputTokens", "cache_read",
    "cacheReadInputTokens", "cachedContentTokenCount", "prompt_cache_hit_tokens", "input_cached_tokens",
    "input_cache_read", _SEVERAL + "cache_read.input_tokens", _SEVERAL + "cache_read_input_tokens",
)  # fmt: skip
_WRITTEN = (
    "cache_creation_input_tokens", "cache_write_tokens", "cacheWriteInputTokens", "cache_creation_tokens",
    "cache_creation", "input_cache_creation", "input_cache_write_tokens",
    _SEVERAL + "cache_creation.input_tokens", _SEVERAL + "cache_creation_input_tokens",
)  # fmt: skip
_MINUTES, _HOUR = ("ephemeral_5m_input_tokens",), ("ephemeral_1h_input_tokens",)


class Usage(NamedTuple):
    """What a provider billed for a prompt, in tokens: `None` is what it did not say.

    `prompt` is the whole prompt. Of it, `read` came from the cache, `written` went into it for as long as the provider
    keeps things by default (five minutes, at Anthropic), and `written_1h` went into it for an hour.
    """

    prompt: int
    read: int | None = None
    written: int | None = None
    written_1h: int | None = None


def read_usage(entry: Mapping[str, Any]) -> Usage | None:
    """The usage that a log's entry tells of, in any of the common forms, or `None` where it tells of none.

    >>> read_usage({"usage": {"prompt_tokens": 1500, "prompt_tokens_details": {"cached_tokens": 1024}}})
    Usage(prompt=1500, read=1024, written=None, written_1h=None)
    >>> read_usage({"usage": {"input_tokens": 9, "cache_read_input_tokens": 2048, "cache_creation_input_tokens": 300}})
    Usage(prompt=2357, read=2048, written=300, written_1h=None)
    """
    found = [usage for part in _parts(entry, _DEEPEST) if (usage := _usage(part)) is not None]
    return next((usage for usage in found if usage.read is not None), found[0] if found else None)


def _parts(entry: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
    """The objects in `entry` that may be a usage, the innermost first."""
    for key in _HOLDERS if depth else ():
        value = entry.get(key)
        if key == "attributes":
            value = attributes_of(value)
        while isinstance(value, list) and value:  # the first answer
            value = value[0]
        if isinstance(value, Mapping):
            yield from _parts(value, depth - 1)
    yield entry


def _usage(part: Mapping[str, Any]) -> Usage | None:
    said = dict(part)
    for key in _DETAILS:
        said.update(inner if isinstance(inner := said.get(key), Mapping) else {})
    whole, rest = _tokens(said, _WHOLE), _tokens(said, _REST)
    if whole is None and rest is None:
        return None
    read, written, hour = _tokens(said, _READ), _tokens(said, _WRITTEN), _hour(said)
    minutes = _tokens(said, _MINUTES)
    if hour is not None or minutes is not None:
        written = max(written or 0, (minutes or 0) + (hour or 0))
    cached = (read or 0) + (written or 0)
    if whole is None:
        whole = (rest or 0) + (0 if _INCLUDED & part.keys() else cached)
    elif whole < cached:  # a tool that took Anthropic's number for the whole
        whole += cached
    return Usage(whole, read, written if hour is None or written is None else written - hour, hour)


def _hour(said: Mapping[str, Any]) -> int | None:
    """The tokens that were written for an hour: Anthropic's field, or Bedrock's list of lifetimes."""
    details = said.get("cacheDetails")
    rows = [row for row in details if isinstance(row, Mapping)] if isinstance(details, list) else []
    bedrock = [_tokens(row, _REST) or 0 for row in rows if row.get("ttl") == "1h"]
    return sum(bedrock) if rows else _tokens(said, _HOUR)


def _tokens(said: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((n for name in names if type(n := said.get(name)) is int and 0 <= n <= _MOST), None)


def attributes_of(value: Any) -> Any:
    """The attributes of a span as a dictionary; OTLP has a list of keys, each with a value that names its type.

    >>> attributes_of([{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "12"}}])
    {'gen_ai.usage.input_tokens': 12}
    """
    if not isinstance(value, list):
        return value
    pairs = [row for row in value if isinstance(row, Mapping) and isinstance(row.get("key"), str)]
    return {row["key"]: _otlp(row.get("value")) for row in pairs}


def _otlp(value: Any) -> Any:
    """A value of OTLP's JSON: an object of one key that names its type; whole numbers are texts there."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    kind, inner = next(iter(value.items()))
    if kind == "intValue" and isinstance(inner, str) and inner.isascii() and inner.isdigit() and len(inner) < 20:
        return int(inner)
    if kind in ("arrayValue", "kvlistValue") and isinstance(inner, Mapping):
        values = inner.get("values")
        if kind == "kvlistValue":
            return attributes_of(values)
        return [_otlp(item) for item in values] if isinstance(values, list) else values
    return inner
