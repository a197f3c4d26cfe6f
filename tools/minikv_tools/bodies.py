"""The prompt that a request body asks for, in the order in which a model reads it, piece by piece.

A body is a JSON object as the common APIs take it: `messages` with `tools` (OpenAI's chat, most servers), `system`
beside `messages` (Anthropic's), `instructions` and `input` (OpenAI's responses), or a plain `prompt`. A log may wrap it
in another object (`{"request": {...}}`), or write it down in a form of its own (see `formats`).

    tools, output schema, system, messages       the order of the prompt; ChatML's markers are between the messages

Every model has its own template. The markers, and whether tools come before or after the system prompt, may
therefore differ from yours; the order of the messages and what is in them does not. What an API does not put into the
prompt (`temperature`, `cache_control`) makes no piece. What keeps two caches apart although the prompts agree
(`model`, `cache_salt`, a LoRA adapter) is the body's `namespace`.

A prompt may be a list of token ids, which is what a cache compares. Its text has one character for each, of the planes
above the first, so that a token takes four bytes of UTF-8 and places and lengths are exact.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from minikv.errors import bounded, printable, truncated
from minikv_tools.formats import (
    CALLED,
    MARKS,
    fields_of,
    is_cut,
    left_out,
    message_of,
    object_of,
    point_of,
    points_of,
    request_in,
    written_document,
)
from minikv_tools.usage import Usage

_PROMPTS = ("messages", "prompt", "input", "system", "instructions")  # what makes an object a body
_NAMESPACE = ("model", "cache_salt", "lora", "lora_name", "lora_path", "lora_request", "adapter", "adapter_id",
              "extra_key")  # fmt: skip
_FIRST = "name", "reasoning_content", "reasoning", "thinking", "content", "tool_calls"  # fields as templates order them
_NOT_READ = {"role", *MARKS, "refusal", "annotations", "audio", "id", "type", "status"}  # of a message
_KNOWN = {*_NOT_READ, *_FIRST}
_IN_PROMPT = {*_PROMPTS, "tools", "functions", "response_format", "output_format", "modelId",
              "toolConfig", CALLED, *_NAMESPACE}  # fmt: skip
_QUERY = re.compile(r"(?<=[/\w])\?(?=[\w.-]+=)")  # of an address: a signature, which changes while the file does not
FILE = re.compile("(?:input_|output_)?(?:image|video|audio|document|file|blob|inline)(?:_?(?:url|file|data|Data))?")
_WEB = re.compile('"type": "web_(?:search|fetch)_2')  # Anthropic keeps the other tools if one of these comes or goes
_IDS = "token ids"  # the name of the place of such a prompt
_FIRST_ID, _MOST_IDS = 0x10000, 0x100000  # its characters


def bounded_name(name: str, most: int = 40) -> str:
    """The name of a tool or a role as a line can hold it.

    >>> bounded_name("read_file"), bounded_name("r" * 50, most=8)
    ('read_file', 'rrrrrrr…')
    """
    return truncated(printable(name[: most + 1]), most)


class Place(NamedTuple):
    """Where a piece of a prompt comes from: the part of the body, which of its items, that item's name, and the field.

    >>> print(Place("messages", 3, "user", "content"), "|", Place("system", field="content[0].text"))
    messages[3] (user), content | system[0].text
    """

    part: str
    item: int | None = None
    name: str = ""
    field: str = ""
    called: str = ""  # the part's name in the API, if it is another one

    @property
    def has_ids(self) -> bool:
        """Return whether it is the place of a list of token ids."""
        return self.name == _IDS

    def __str__(self) -> str:
        part, field = self.called or self.part, self.field
        if self.called:  # Gemini's
            field = field.replace("content[", ".parts[" if self.item is None else "parts[")
        if self.item is None:  # the fields of a system prompt are those of a message
            return part + bounded_name(field.removeprefix("content"), 80)
        name = f" ({bounded_name(self.name)})" if self.name else ""
        return f"{part}[{self.item}]{name}" + (f", {bounded_name(field, 80)}" if field else "")


class PromptPiece(NamedTuple):
    """A part of the prompt's text that comes from one place; `mark`: a cache breakpoint ends it, kept for so long."""

    place: Place
    text: str
    mark: str = ""


class Body(NamedTuple):
    """A prompt in pieces, what sets its cache apart from others, and what is not in the prompt at all.

    `time` is when the request came, in milliseconds, and `usage` its bill, where an entry of a log says them.
    """

    pieces: tuple[PromptPiece, ...]
    namespace: dict[str, str]
    settings: dict[str, Any]
    time: float | None = None
    usage: Usage | None = None

    @property
    def text(self) -> str:
        """The whole prompt."""
        return "".join(piece.text for piece in self.pieces)

    @property
    def has_ids(self) -> bool:
        """Return whether the prompt is a list of token ids."""
        return any(piece.place.has_ids for piece in self.pieces)


def read_body(entry: Mapping[str, Any]) -> Body:
    """The prompt of a request body, or of an entry of a log that holds one; `ValueError` where there is none.

    >>> body = read_body({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0})
    >>> body.text, body.namespace, body.settings
    ('<|im_start|>user\\nHi<|im_end|>\\n', {'model': 'm'}, {'temperature': 0})
    >>> read_body({"hash_ids": [1]})
    Traceback (most recent call last):
    ValueError: there are no messages and no prompt: expected a request, not the fields hash_ids
    """
    body = request_in(entry)
    if body is None:
        rule = f"expected a request, not the fields {fields_of(entry)}"
        raise ValueError(f"there are no messages and no prompt: {rule}")
    for name in [name for name in ("extra_body", "toolConfig") if name in body]:  # their fields are the body's
        body = {**body, **object_of(body.get(name))}
    named = {"model": body.get("modelId"), **body}
    namespace = {key: _text_of(named[key]) for key in _NAMESPACE if named.get(key) not in (None, "")}
    settings = {key: value for key, value in body.items() if key not in _IN_PROMPT} | _beside(body)
    called = named.get(CALLED, {})
    pieces = tuple(piece for piece in _pieces(body) if piece.text)
    if called:
        pieces = tuple(
            piece._replace(place=piece.place._replace(called=called.get(piece.place.part, ""))) for piece in pieces
        )
    if cut := next((piece for piece in pieces if is_cut(piece.text)), None):
        raise ValueError(f"{cut.place} is cut or redacted: expected all of it (SGLang: --log-requests-level 3)")
    return Body(pieces, namespace, settings)


def _beside(body: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a body's lists, which are no text of the prompt: tools that are deferred, and citations."""
    tools, messages = (found if isinstance(found := body.get(part), list) else [] for part in ("tools", "messages"))
    deferred = [_tool_name(tool) for tool in tools if _is_deferred(tool)]
    contents = [object_of(message).get("content") for message in messages]
    cited = [f"messages[{at}]" for at, content in enumerate(contents) if isinstance(content, list)
             for part in content if _is_cited(part)]  # fmt: skip
    return {name: found for name, found in (("deferred tools", deferred), ("citations", cited)) if found}


def _is_cited(part: Any) -> bool:
    return isinstance(part, Mapping) and object_of(part.get("citations")).get("enabled") is True


def is_body(entry: Mapping[str, Any]) -> bool:
    """Return whether `entry` holds one request with its whole prompt: no batch, and none that the server completes.

    >>> is_body({"request": {"prompt": "Hi"}}), is_body({"timestamp": 0, "hash_ids": [1]})
    (True, False)
    """
    return not left_out(entry)


def _pieces(body: Mapping[str, Any]) -> Iterator[PromptPiece]:
    yield from _tools(body)
    schemas = [body.get("response_format"), body.get("output_format")]
    schemas += [part.get("format") for key in ("text", "output_config") if isinstance(part := body.get(key), Mapping)]
    for schema in schemas:
        if schema is not None and schema != {"type": "text"}:
            yield PromptPiece(Place("response_format"), _text_of(schema) + "\n")
    for part in ("system", "instructions"):
        if body.get(part) is not None:
            yield PromptPiece(Place(part), "<|im_start|>system\n")
            yield from _content(body[part], Place(part, field="content"))
            yield PromptPiece(Place(part), "<|im_end|>\n")
    for part in ("messages", "input"):
        if (value := body.get(part)) is not None:  # a text is the short form of one message
            yield from _messages(part, [{"role": "user", "content": value}] if isinstance(value, str) else value)
    if body.get("prompt") is not None:
        yield from _prompt(body["prompt"])


def _prompt(prompt: Any) -> Iterator[PromptPiece]:
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):  # a batch of one
        prompt = prompt[0]
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        yield PromptPiece(Place("prompt", name=_IDS), ids_text(prompt))
        return
    if not isinstance(prompt, str):
        raise ValueError(f"prompt is {bounded(prompt)}: expected text or a list of token ids")
    yield PromptPiece(Place("prompt"), prompt)


def ids_text(ids: Sequence[int]) -> str:
    """The text that stands for token ids: one character for each, whose order is that of the ids.

    >>> [ord(character) - 0x10000 for character in ids_text([0, 128000])]
    [0, 128000]
    """
    odd = next((token for token in ids if not 0 <= token < _MOST_IDS), None)
    if odd is not None:
        raise ValueError(f"prompt has the token id {bounded(odd)}: expected one from 0 to {_MOST_IDS - 1:,}")
    return "".join([chr(_FIRST_ID + token) for token in ids])


def text_ids(text: str) -> list[int]:
    """The token ids for which a text stands.

    >>> text_ids(ids_text([7, 11]))
    [7, 11]
    """
    return [ord(character) - _FIRST_ID for character in text]


def _tools(body: Mapping[str, Any]) -> Iterator[PromptPiece]:
    for part in ("tools", "functions"):
        tools = body.get(part) or []
        if not isinstance(tools, list):
            raise ValueError(f"{part} is {bounded(tools)}: expected a list")
        pieces = [
            PromptPiece(Place(part, index, _tool_name(tool)), _text_of(tool) + "\n", mark)
            for index, (tool, mark) in enumerate(zip(tools, points_of(tools)))
            if mark is not None and not _is_deferred(tool)
        ]
        yield from sorted(pieces, key=lambda piece: bool(_WEB.search(piece.text)))


def _is_deferred(tool: Any) -> bool:
    """Whether a tool is loaded when the model looks for it: until then it is no part of the prompt."""
    return any(object_of(said).get("defer_loading") is True for said in (tool, object_of(tool).get("default_config")))


def _tool_name(tool: Any) -> str:
    inner = tool.get("function", tool.get("toolSpec", tool)) if isinstance(tool, Mapping) else None
    name = inner.get("name") if isinstance(inner, Mapping) else None
    return name if isinstance(name, str) else ""


def _messages(part: str, messages: Any) -> Iterator[PromptPiece]:
    if not isinstance(messages, list):
        raise ValueError(f"{part} is {bounded(messages)}: expected a list of messages")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or "role" not in message or "content" not in message:
            message = message_of(message)
        if not isinstance(message, Mapping):
            raise ValueError(f"{part}[{index}] is {bounded(message)}: expected a message")
        role = message.get("role", message.get("type", ""))
        if not isinstance(role, str):
            raise ValueError(f"{part}[{index}] has the role {bounded(role)}: expected text")
        if role == "item_reference":
            raise ValueError(f"{part}[{index}] refers to an item on the server: expected the item itself")
        yield PromptPiece(Place(part, index, role, "role"), f"<|im_start|>{role}\n")
        others = message.keys() - _KNOWN
        for field in (*_FIRST, *sorted(others)) if others else _FIRST:
            if (value := message.get(field)) is not None:
                yield from _content(value, Place(part, index, role, field))
        if role != "assistant" or index < len(messages) - 1:  # the last one may be the beginning of the answer
            yield PromptPiece(Place(part, index, role), "<|im_end|>\n", point_of(message))


def _content(value: Any, place: Place) -> Iterator[PromptPiece]:
    """The pieces of a message's field: text, or a list of parts."""
    if isinstance(value, str):
        yield PromptPiece(place, value)
    elif isinstance(value, list):
        for index, (part, mark) in enumerate(zip(value, points_of(value))):
            pieces = _part(part, place._replace(field=f"{place.field}[{index}]"))
            if mark:
                *before, last = pieces
                yield from (*before, last._replace(mark=mark))
            elif mark is not None:
                yield from pieces
    else:
        yield PromptPiece(place, _text_of(value))


def _part(part: Any, place: Place) -> Iterator[PromptPiece]:
    """The pieces of a part of a message: a text, a call of a tool, what a tool returned, or a file.

    An image or another file is replaced by a hash of its description, and one of its address's query.
    """
    if not isinstance(part, Mapping):
        yield PromptPiece(place, _text_of(part))
        return
    if isinstance(part.get("citations"), Mapping):  # whether to cite, not what was cited
        part = {key: value for key, value in part.items() if key != "citations"}
    if isinstance(own := part.get("toolResult"), Mapping):  # Bedrock's
        part, place = {"tool_use_id": own.get("toolUseId"), **own}, place._replace(field=f"{place.field}.toolResult")
    kind = part.get("type") or next(filter(FILE.fullmatch, map(str, part)), "")
    if field := next((name for name in ("text", "thinking") if isinstance(part.get(name), str)), ""):
        yield PromptPiece(place._replace(field=f"{place.field}.{field}"), part[field])
        return
    if (data := written_document(part)) is not None:
        yield PromptPiece(place, _text_of({key: part[key] for key in part if key != "source"}))
        yield PromptPiece(place._replace(field=f"{place.field}.source.data"), data)
        return
    if FILE.fullmatch(str(kind)):
        address, *query = _QUERY.split(_text_of(part), maxsplit=1)
        hashes = [hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16] for text in (address, *query)]
        yield PromptPiece(place._replace(field=f"{place.field}.{kind}"), f"<|{kind} {'?'.join(hashes)}|>")
    elif kind == "tool_result" or "toolUseId" in part:
        failed = part.get("is_error") is True or part.get("status") == "error"
        name = _text_of(part.get("tool_use_id") or "") + " error" * failed
        yield PromptPiece(place._replace(field=f"{place.field}.tool_use_id"), f"<tool_result {name}>")
        yield from _content(part.get("content") or "", place._replace(field=f"{place.field}.content"))
    else:
        yield PromptPiece(place, _text_of(part))


def _text_of(value: Any) -> str:
    """A value as templates write it: text as it is, anything else as JSON with its keys in their order.

    `cache_control` and `prompt_cache_breakpoint`, which say where to cache, are not in the prompt.
    """
    if isinstance(value, Mapping):
        value = {key: inner for key, inner in value.items() if key not in MARKS}
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
