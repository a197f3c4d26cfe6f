"""The bill of a request: how many tokens a provider read from its cache, wrote to it, and counted in all.

Every provider has its own names for them, and its own sum. In OpenAI's `prompt_tokens`, in Gemini's and in those of
OpenTelemetry the tokens from the cache are included. In the `input_tokens` of Anthropic and Bedrock, and in the `input`
of Langfuse, they are not. A `Usage` always has the whole prompt. The names and their sources are in `usage.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

JsonObject = Mapping[str, Any]
_MOST = 2**53  # tokens
_DEEPEST = 7  # objects and lists
_NAMES = json.loads(Path(__file__).with_name("usage.json").read_text("utf-8"))
_COUNTS = _NAMES["whole"].keys() | _NAMES["rest"].keys()


class Usage(NamedTuple):
    """The bill of a provider for a prompt, in tokens; `None` for what it did not say.

    `prompt` is the whole prompt. Of it, `read` came from the cache, `written` went into it for as long as the provider
    keeps things by default (five minutes, at Anthropic), and `written_1h` went into it for an hour.
    """

    prompt: int
    read: int | None = None
    written: int | None = None
    written_1h: int | None = None


def read_usage(entry: JsonObject) -> Usage | None:
    """The usage that a log's entry tells of, in any of the common forms, or `None` where it tells of none.

    >>> read_usage({"usage": {"prompt_tokens": 1500, "prompt_tokens_details": {"cached_tokens": 1024}}})
    Usage(prompt=1500, read=1024, written=None, written_1h=None)
    >>> read_usage({"usage": {"input_tokens": 9, "cache_read_input_tokens": 2048, "cache_creation_input_tokens": 300}})
    Usage(prompt=2357, read=2048, written=300, written_1h=None)
    """
    return usage_in(objects_in(entry))


def usage_in(said: Iterable[JsonObject]) -> Usage | None:
    """The usage that one of the objects in a log's entry tells of, as `read_usage`.

    >>> usage_in([{}, {"input_tokens": 9}])
    Usage(prompt=9, read=None, written=None, written_1h=None)
    """
    found = [usage for part in said if _COUNTS & part.keys() and (usage := _usage(part)) is not None]
    return next((usage for usage in found if usage.read is not None), found[0] if found else None)


def objects_in(entry: Any, depth: int = _DEEPEST) -> Iterator[JsonObject]:
    """The objects in a log's entry that may be of a response, the innermost first.

    >>> [*objects_in({"response": {"usage": {"input_tokens": 9}}})][0]
    {'input_tokens': 9}
    """
    if isinstance(entry, list) and depth:  # of answers, or of a stream's chunks
        for item in entry:
            yield from objects_in(item, depth - 1)
    if not isinstance(entry, Mapping):
        return
    for key in filter(entry.__contains__, _NAMES["holders"] if depth else ()):
        yield from objects_in(attributes_of(entry[key]) if key == "attributes" else entry[key], depth - 1)
    yield entry


def _usage(part: JsonObject) -> Usage | None:
    said = dict(part)
    for key in _NAMES["details"]:
        said.update(inner if isinstance(inner := said.get(key), Mapping) else {})
    prompt, rest = _tokens(said, "whole"), _tokens(said, "rest")
    if prompt is None and rest is None:
        return None
    read, written, minutes, hour = (_tokens(said, kind) for kind in ("read", "written", "for minutes", "for an hour"))
    if minutes is not None or hour is not None:
        written = max(written or 0, (minutes or 0) + (hour or 0))
    cached = (read or 0) + (written or 0)
    if prompt is None:
        prompt = (rest or 0) + (0 if _NAMES["whole beside"].keys() & part.keys() else cached)
    elif prompt < cached:  # a tool that took Anthropic's number for the whole
        prompt += cached
    return Usage(prompt, read, written if hour is None or written is None else written - hour, hour)


def _tokens(said: JsonObject, kind: str) -> int | None:
    found = map(said.get, _NAMES[kind])
    return next((n for n in found if type(n) is int and 0 <= n <= _MOST), None)


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
    if kind == "intValue":
        return int(str(inner)[:30]) if str(inner).isdecimal() else inner
    values = inner.get("values") if isinstance(inner, Mapping) else None
    if not isinstance(values, list):
        return inner
    return attributes_of(values) if kind == "kvlistValue" else [_otlp(item) for item in values]
