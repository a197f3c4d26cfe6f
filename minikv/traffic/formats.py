"""Where the request is in an entry of a log: how APIs, gateways, tracers and engines write one down.

A body as the APIs take it is found as it is, also inside another object (`{"request": {...}}`) or as a JSON text in it.
The other forms are turned into such a body:

    OpenTelemetry   `gen_ai.input.messages`, `gen_ai.system_instructions`, `gen_ai.tool.definitions`; the older
                    `gen_ai.prompt.0.content`, `llm.request.functions.0.name`
    LangSmith       a run of the type `llm`: `inputs`, with LangChain's messages, and `extra.invocation_params`
    LiteLLM         `proxy_server_request`, or `messages` with `model_parameters`
    Langfuse        an observation of the type `GENERATION`: `input`, `modelParameters`
    Gemini          `contents`, `systemInstruction`
    SGLang          `obj` of an event `request.received`; `text` or `input_ids` with `sampling_params`
    vLLM            `prompt_token_ids`

A span, run or observation that is no call of a model holds no request, whatever is in it. Sources, read in November
2026: github.com/open-telemetry/semantic-conventions-genai (examples of LLM calls), OpenLLMetry's attributes,
docs.litellm.ai (StandardLoggingPayload), langfuse.com and its API, LangChain's `dumps`, ai.google.dev, SGLang's
`request_logger.py`, vLLM's `logger.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minikv.errors import printable, truncated
from minikv.traffic.usage import attributes_of
from minikv.untrusted import parse_json

_Found = Mapping[str, Any] | None  # an empty one: the entry is known, and holds no request
_WRAPPERS = ("proxy_server_request", "request", "body", "request_body", "request_json", "payload", "kwargs", "data",
             "params", "input", "obj")  # fmt: skip
_DEEPEST_WRAP = 3
_MARKS = {"model_parameters", "proxy_server_request", "prompt_token_ids", "run_type", "event"}
_IDS = ("prompt_token_ids", "input_ids")
PROMPT_FIELDS = (*_IDS, "contents", "systemInstruction", "system_instruction")  # beside those of `bodies`
_MOST_FIELDS = 160  # characters


def request_in(entry: Mapping[str, Any], depth: int = _DEEPEST_WRAP) -> Mapping[str, Any] | None:
    """The request body in an entry of a log, or `None` where it holds none.

    >>> request_in({"custom_id": "a", "body": {"model": "m", "messages": []}})
    {'model': 'm', 'messages': []}
    >>> span = {"gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]'}
    >>> request_in({"attributes": {**span, "gen_ai.request.model": "m"}})["model"]
    'm'
    """
    plain = isinstance(entry.get("messages"), list) or isinstance(entry.get("prompt"), (str, list))
    if plain and not _MARKS & entry.keys():
        return entry
    for read in _READERS:
        if (found := read(entry)) is not None:
            return found or None
    for key in (_WRAPPERS[:1] if plain else _WRAPPERS) if depth else ():
        value = parsed(entry.get(key))
        if isinstance(value, Mapping) and (found := request_in(value, depth - 1)) is not None:
            return found
    said = parsed(entry.get("input"))
    row = isinstance(said, str) and "output" in entry and "model" not in entry  # of training data, or a step of a chain
    if not plain and isinstance(said, (str, list)) and not row:
        return {**entry, "input": said}
    return entry if plain else None


def fields_of(entry: Mapping[str, Any]) -> str:
    """The names of an entry's fields, for a message that says that no request was found among them.

    >>> fields_of({"hash_ids": [1], "timestamp": 0})
    'hash_ids, timestamp'
    """
    return printable(truncated(", ".join(entry) or "none", _MOST_FIELDS))


def parsed(value: Any) -> Any:
    """A value that is an object or a list, also where it was written as JSON text; any other one as it is.

    >>> parsed('[{"role": "user"}]'), parsed("[sic] Hi"), parsed(3)
    ([{'role': 'user'}], '[sic] Hi', 3)
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return parse_json(value, "it")
    except ValueError:
        return value


def object_of(value: Any) -> Mapping[str, Any]:
    """A value that is an object, also as JSON text; an empty one for any other.

    >>> object_of('{"a": 1}'), object_of(7)
    ({'a': 1}, {})
    """
    return found if isinstance(found := parsed(value), Mapping) else {}


# -- forms of requests ------------------------------------------------------------------------------------------------

_MODEL_CALLS = ("chat", "text_completion", "generate_content")
_SETTINGS = "gen_ai.request."


def _span(entry: Mapping[str, Any]) -> _Found:
    """A span of OpenTelemetry, in either style of attributes: JSON under one name, or a name for each value."""
    said = attributes_of(entry.get("attributes", entry))
    if not isinstance(said, Mapping) or not any(key.startswith("gen_ai.") for key in said):
        return None
    body = {key.removeprefix(_SETTINGS): value for key, value in said.items() if key.startswith(_SETTINGS)}
    messages = parsed(said.get("gen_ai.input.messages")) or _numbered(said, "gen_ai.prompt.")
    if not (messages and isinstance(messages, list)) or said.get("gen_ai.operation.name", "chat") not in _MODEL_CALLS:
        return {}
    tools = parsed(said.get("gen_ai.tool.definitions")) or _numbered(said, "llm.request.functions.")
    system = parsed(said.get("gen_ai.system_instructions"))
    system = [_part(part) for part in system] if isinstance(system, list) else system
    return {"model": said.get("gen_ai.response.model"), **body, "messages": messages, "tools": tools, "system": system}


def _numbered(said: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The objects whose fields are under the names `prefix0.field`, `prefix1.field`.

    >>> _numbered({"a.0.role": "user", "a.0.content": "Hi", "a.1.role": "tool"}, "a.")
    [{'role': 'user', 'content': 'Hi'}, {'role': 'tool'}]
    """
    found: dict[str, dict[str, Any]] = {}
    for key, value in said.items():
        if key.startswith(prefix):
            number, _, name = key.removeprefix(prefix).partition(".")
            found.setdefault(number, {})[name] = parsed(value)
    return [found[number] for number in sorted(found, key=lambda number: (len(number), number))]


def _run(entry: Mapping[str, Any]) -> _Found:
    """A run of LangSmith."""
    if "run_type" not in entry or "inputs" not in entry:
        return None
    inputs, extra = object_of(entry["inputs"]), object_of(entry.get("extra"))
    settings = {**object_of(extra.get("invocation_params")), **inputs}
    said = settings.pop("messages", settings.pop("prompts", None))
    model = settings.get("model", object_of(extra.get("metadata")).get("ls_model_name"))
    return _request(said, settings, model) if entry["run_type"] == "llm" else {}


def _payload(entry: Mapping[str, Any]) -> _Found:
    """An entry of LiteLLM's log, or an observation of Langfuse."""
    if "model_parameters" in entry and "messages" in entry:
        return _request(entry["messages"], entry["model_parameters"], entry.get("model"))
    if not entry.keys() & {"traceId", "trace_id"} or not entry.keys() >= {"input", "type"}:
        return None
    settings = entry.get("modelParameters", entry.get("model_parameters"))
    return _request(entry["input"], settings, entry.get("model")) if entry["type"] == "GENERATION" else {}


def _request(said: Any, settings: Any, model: Any) -> Mapping[str, Any]:
    """The body of a request whose messages, prompt or body is `said`; an empty one where it is none of these."""
    said, body = parsed(said), {**object_of(settings), "model": model}
    if isinstance(said, list) and len(said) == 1 and isinstance(said[0], list):  # of a batch
        said = said[0]
    if isinstance(said, Mapping):
        return {**body, **found} if (found := request_in(said, 1)) else {}
    is_text = isinstance(said, str) or (isinstance(said, list) and said and isinstance(said[0], str))
    return {**body, "prompt" if is_text else "messages": said} if isinstance(said, (str, list)) else {}


def _contents(entry: Mapping[str, Any]) -> _Found:
    """A request of Gemini's API."""
    if not isinstance(contents := entry.get("contents"), list):
        return None
    system = message_of(entry.get("systemInstruction", entry.get("system_instruction")))
    return {**entry, "messages": contents, "system": object_of(system).get("content")}


def _engine(entry: Mapping[str, Any]) -> _Found:
    """A request of SGLang, or the token ids of one of vLLM; an event other than the arrival tells of it once more."""
    if "obj" in entry and entry.get("event") not in (None, "request.received"):
        return {}
    found = (entry[key] for key in (*_IDS, "text" if "sampling_params" in entry else "") if entry.get(key))
    return {**entry, "prompt": prompt} if (prompt := next(found, None)) else None


_READERS: tuple[Callable[[Mapping[str, Any]], _Found], ...] = (_span, _run, _payload, _contents, _engine)

# -- forms of messages ------------------------------------------------------------------------------------------------

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
}  # LangChain's, and what models call them
_SAID = ("name", "content", "tool_calls", "tool_call_id")


def message_of(message: Any) -> Any:
    """A message in the common form, with a role and a content, whatever tracer or API wrote it down.

    >>> message_of({"id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": "Hi"}})
    {'role': 'user', 'content': 'Hi'}
    >>> message_of({"role": "user", "parts": [{"text": "Hi"}]})
    {'role': 'user', 'content': [{'text': 'Hi'}]}
    """
    if not isinstance(message, Mapping):
        return message
    if isinstance(parts := message.get("parts"), list):
        return {"role": message.get("role", "user"), "content": [_part(part) for part in parts]}
    said, ids = message.get("kwargs") or message.get("data") or message, message.get("id")
    kinds = [*(ids if isinstance(ids, list) else ()), message.get("type")]
    names = [str(kind).lower().removesuffix("chunk").removesuffix("message") for kind in kinds]
    role = next((_ROLES[name] for name in names if name in _ROLES), None)
    if role is None or "role" in message or not isinstance(said, Mapping):
        return message
    return {"role": role, **{key: said[key] for key in _SAID if said.get(key)}}


def _part(part: Any) -> Any:
    """A part of a message as OpenTelemetry and Gemini write it, in the common form."""
    if not isinstance(part, Mapping):
        return part
    kind, content = part.get("type"), part.get("content")
    if kind in ("text", "reasoning") and isinstance(content, str):
        return {"type": kind, "text": content}
    if kind == "tool_call_response":
        return {"type": "tool_result", "tool_use_id": part.get("id"), "content": part.get("response")}
    return part


MARKS = ("cache_control", "prompt_cache_breakpoint")  # that say where to cache, and are not in the prompt

_POINTS = {*MARKS, "cachePoint"}


def point_of(value: Mapping[str, Any]) -> str:
    """How long a cache keeps the prompt up to the end of `value`, where the request sets a breakpoint there.

    >>> point_of({"text": "Hi", "cache_control": {"type": "ephemeral"}}), point_of({"text": "Hi"})
    ('5m', '')
    """
    for key in sorted(_POINTS & value.keys()):
        if isinstance(control := value[key], Mapping):
            return str(control.get("ttl") or ("30m" if key == MARKS[1] else "5m"))
    return ""


def points_of(values: Sequence[Any]) -> list[str | None]:
    """The breakpoint at the end of each of `values`; `None` for one of Bedrock's, which is a value of its own.

    >>> points_of([{"text": "Hi"}, {"cachePoint": {"type": "default"}}, {"text": "Go."}])
    ['5m', None, '']
    """
    found: list[str | None] = []
    for value in values:
        mark = point_of(value) if isinstance(value, Mapping) else ""
        if mark and "cachePoint" in value:
            found[-1:] = [mark] * bool(found)
        found.append(None if mark and "cachePoint" in value else mark)
    return found
