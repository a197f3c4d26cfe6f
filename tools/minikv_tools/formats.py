"""Where the request is in an entry of a log: how APIs, gateways, tracers and engines write one down.

A body as the APIs take it is found as it is, also inside another object (`{"request": {...}}`) or as a JSON text in it.
The other forms are turned into such a body:

    OpenTelemetry   `gen_ai.input.messages`, `gen_ai.system_instructions`, `gen_ai.tool.definitions`; the older
                    `gen_ai.prompt.0.content`, `llm.request.functions.0.name`
    LangSmith       a run of the type `llm`: `inputs`, with LangChain's messages, and `extra.invocation_params`
    LiteLLM         `proxy_server_request`, or `messages` with `model_parameters`
    Langfuse        an observation of the type `GENERATION`: `input`, `modelParameters`
    Gemini          `contents`, `systemInstruction`
    SGLang          `obj` of an `event`; `text` or `input_ids` with `sampling_params`
    vLLM            `prompt_token_ids`

A span, run or observation that is no call of a model holds no request, whatever is in it. What tells a form, and where
it has the parts of a request, is in `formats.json`, with the sources, which were read in November 2026. All other
names of fields of a log are there, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minikv.errors import printable, truncated
from minikv.untrusted import parse_json, read_json
from minikv_tools.usage import JsonObject, attributes_of

FIELDS = read_json(Path(__file__).with_name("formats.json"))
_FORMS = FIELDS["forms"]
_TELLING = tuple([form["has"][0].rstrip("*") for form in _FORMS])  # the beginnings of a field of each
_DEEPEST_WRAP = 3
_CUT = re.compile(r'\s*(\[\s*)?\{\s*"')  # the beginning of a JSON text that a tracer cut off
_MOST_FIELDS = 160  # characters


def request_in(entry: JsonObject, depth: int = _DEEPEST_WRAP) -> JsonObject | None:
    """The request body in an entry of a log, or `None` where it holds none.

    >>> request_in({"custom_id": "a", "body": {"model": "m", "messages": []}})
    {'model': 'm', 'messages': []}
    >>> span = {"gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]'}
    >>> request_in({"attributes": {**span, "gen_ai.request.model": "m"}})["model"]
    'm'
    """
    if isinstance(entry.get("messages"), str):  # as a database holds them
        entry = {**entry, "messages": parsed(entry["messages"])}
    plain = isinstance(entry.get("messages"), list) or isinstance(entry.get("prompt"), (str, list))
    if plain and entry.keys().isdisjoint(FIELDS["beside which messages may be no request"]):
        return entry
    if (formed := _formed(entry)) is not None:
        return formed or None
    for key in FIELDS["wrappers"][: 1 if plain else None] if depth else ():
        value = parsed(entry.get(key))
        if isinstance(value, Mapping) and (found := request_in(value, depth - 1)) is not None:
            model = found.get("model") or entry.get("model")
            return {**found, "model": model} if model else found
    if plain:
        return entry
    body = object_of(entry.get("body")) if "/responses" in str(entry.get("url")) else entry
    said = parsed(body.get("input"))
    items = said if isinstance(said, list) else ()
    sent = any(isinstance(item, Mapping) and {"role", "content"} & item.keys() for item in items)
    sent = sent or body is not entry or not body.keys().isdisjoint(FIELDS["of OpenAI's responses"])
    return {**body, "input": said} if sent and isinstance(said, (str, list)) else None


def left_out(entry: JsonObject, found: JsonObject | None = None) -> str:
    """Why an entry of a log is not one request with its whole prompt; empty where it is.

    `found` is the request that is known to be in it.

    >>> left_out({"prompt": ["Hi", "Ho"]}), left_out({"hash_ids": [1]}), left_out({"prompt": "Hi"})
    ('with a batch of prompts', 'with the fields hash_ids', '')
    """
    body = found or request_in(entry) or {}
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) > 1 and not isinstance(prompt[0], int):
        return "with a batch of prompts"
    if stored := "prompt" if isinstance(prompt, Mapping) else stored_history(body):
        return f"with {stored}, which is on the server"
    if body:
        return ""
    said = {**entry, **object_of(attributes_of(entry.get("attributes")))}
    others = ((path, _at(said, path), kinds) for form in _FORMS for path, kinds in form.get("not", {}).items())
    named = (f"of {path} {value}" for path, value, kinds in others if value in kinds)
    return next(named, f"with the fields {fields_of(entry)}" if entry else "that mention none")


def fields_of(entry: JsonObject) -> str:
    """The names of an entry's fields, for a message that says what was not found among them.

    >>> fields_of({"hash_ids": [1], "metadata": {"route": "/chat"}})
    'hash_ids, metadata, metadata.route'
    """
    inner = (f"{key}.{name}" for key, value in entry.items() if isinstance(value, Mapping) for name in value)
    return printable(truncated(", ".join([*entry, *inner]) or "none", _MOST_FIELDS))


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


def object_of(value: Any) -> JsonObject:
    """A value that is an object, also as JSON text; an empty one for any other.

    >>> object_of('{"a": 1}'), object_of(7)
    ({'a': 1}, {})
    """
    return found if isinstance(found := parsed(value), Mapping) else {}


# -- forms of requests ------------------------------------------------------------------------------------------------


def _formed(entry: JsonObject) -> JsonObject | None:
    """The request in an entry of a known form, an empty one where such an entry holds none; `None` for other forms."""
    said = {**entry, **object_of(attributes_of(entry["attributes"]))} if "attributes" in entry else entry
    if not any(name.startswith(_TELLING) for name in said):
        return None
    form = next((form for form in _FORMS if all(_at(said, path) is not None for path in form["has"])), None)
    if form is None:
        return None
    if any(_at(said, path) in values for path, values in form.get("not", {}).items()):
        return {}
    body, settings = dict[str, Any](form.get("more", {})), form.get("settings", ())
    body.update(pair for path in settings for pair in object_of(_at(said, path)).items())
    said = {**said, **body}
    for part in ("model", "tools", "system", "messages"):
        paths = form.get(part, ())
        found = (value for path in paths if (value := _at(said, path)) is not None)
        body = {name: value for name, value in body.items() if name not in (*paths, *settings)}
        body[part] = next(found, body.get(part))
    messages, system = body.pop("messages"), body["system"]
    body["system"] = message_of({"parts": object_of(system).get("parts", system)}).get("content", system)
    messages = _only(messages)
    if isinstance(messages, Mapping):
        return {**body, **inner} if (inner := request_in(messages, 1)) else {}
    if not isinstance(messages, (str, list)) or (isinstance(messages, str) and _CUT.match(messages)):
        return {}
    return {**body, "prompt" if isinstance(messages, str) or int in map(type, messages) else "messages": messages}


def _only(messages: Any) -> Any:
    """Messages, or those of a batch of one."""
    while isinstance(messages, list) and len(messages) == 1 and isinstance(messages[0], (list, str)):
        messages = messages[0]
    return messages


def _at(said: Any, path: str) -> Any:
    """The value at a path such as `extra/metadata`; `a.*` stands for all names that begin with `a.`, or for a list.

    >>> _at({"a.0.role": "user", "a.0.content": "Hi", "a.1.role": "tool"}, "a.*")
    [{'role': 'user', 'content': 'Hi'}, {'role': 'tool'}]
    >>> _at({"a.10.role": "tool", "a.2.role": "user"}, "a.*")
    [{'role': 'user'}, {'role': 'tool'}]
    """
    for name in path.split("/"):
        if name.endswith("*"):
            begin, rows = name[:-1], defaultdict[int, dict[str, Any]](dict)
            found = {key.removeprefix(begin): parsed(value) for key, value in said.items() if key.startswith(begin)}
            for key, value in found.items():
                number, _, field = key.partition(".")
                rows[int(number) if number.isdecimal() else -1][field] = value
            return (found if -1 in rows else [rows[number] for number in sorted(rows)]) or None
        said = object_of(said).get(name)
    return parsed(said)


# -- forms of messages ------------------------------------------------------------------------------------------------


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
    role = next(filter(None, map(FIELDS["LangChain's roles"].get, names)), None)
    if role is None or "role" in message or not isinstance(said, Mapping):
        return message
    said = {**said, **object_of(said.get("additional_kwargs"))}  # calls of tools as they were sent
    return {"role": role, **{key: said[key] for key in FIELDS["LangChain's fields of a message"] if said.get(key)}}


def _part(part: Any) -> Any:
    """A part of a message as OpenTelemetry and Gemini write it, in the common form."""
    if not isinstance(part, Mapping):
        return part
    kind, content = part.get("type"), part.get("content")
    if kind in ("text", "reasoning") and isinstance(content, str):
        return {"type": kind, "text": content}
    if kind == "tool_call_response":
        return {"type": "tool_result", "tool_use_id": part.get("id"), "content": part.get("response")}
    if isinstance(own := part.get("functionResponse"), Mapping):  # Gemini's
        return {"type": "tool_result", "tool_use_id": own.get("id", own.get("name")), "content": own.get("response")}
    return part


MARKS = ("cache_control", "prompt_cache_breakpoint")  # that say where to cache, and are not in the prompt


def point_of(value: JsonObject) -> str:
    """How long a cache keeps the prompt up to the end of `value`, where the request sets a breakpoint there.

    >>> point_of({"text": "Hi", "cache_control": {"type": "ephemeral"}}), point_of({"text": "Hi"})
    ('5m', '')
    >>> point_of({"text": "Hi", "prompt_cache_breakpoint": {}})
    '30m'
    """
    for key in sorted(value.keys() & {*MARKS, "cachePoint"}):
        if isinstance(control := value[key], Mapping):
            kept = control.get("ttl") or ("30m" if key == MARKS[1] else "5m")
            return f"{kept}{' (cachePoint)' * (key not in MARKS)}"
    return ""


def points_of(values: Sequence[Any]) -> list[str | None]:
    """The breakpoint at the end of each of `values`; `None` for one of Bedrock's, which is a value of its own.

    >>> points_of([{"text": "Hi"}, {"cachePoint": {"type": "default"}}, {"text": "Go."}])
    ['5m (cachePoint)', None, '']
    """
    found: list[str | None] = []
    for value in values:
        mark = point_of(value) if isinstance(value, Mapping) else ""
        if mark and "cachePoint" in value:
            found[-1:] = [mark] * bool(found)
        found.append(None if mark and "cachePoint" in value else mark)
    return found


def stored_history(fields: JsonObject) -> str:
    """The field by which a request leaves its history to the server; empty where it sends all of it.

    >>> stored_history({"previous_response_id": "resp_1"}), stored_history({"conversation": "7"})
    ('previous_response_id', '')
    """
    stored = fields.get("conversation")
    stored = stored.get("id") if isinstance(stored, Mapping) else stored
    held = {**fields, "conversation": isinstance(stored, str) and stored.startswith("conv_")}
    return next((name for name in FIELDS["history on the server"] if held.get(name)), "")


_KEPT = 1024  # characters at either end that SGLang's log keeps of a long text, unless it is told to keep all


def is_cut(text: str) -> bool:
    """Return whether SGLang or LiteLLM wrote a text down in part, or not at all.

    >>> is_cut("Hello ... (litellm_truncated skipped 5000 chars) ... again"), is_cut("Hello")
    (True, False)
    """
    of_sglang = len(text) == 2 * _KEPT + 3 and text[_KEPT:-_KEPT] == "..."
    return of_sglang or "(litellm_truncated " in text or text == "redacted-by-litellm"


def written_document(part: JsonObject) -> str | None:
    """The text of a document that comes as text; `None` for any other part of a message.

    >>> written_document({"type": "document", "source": {"type": "text", "data": "Hi"}})
    'Hi'
    """
    source = part.get("source")
    data = source.get("data") if isinstance(source, Mapping) and source.get("type") == "text" else None
    return data if isinstance(data, str) else None
