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

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from marshal import dumps
from operator import attrgetter
from typing import Any, NamedTuple

from minikv.errors import bounded
from minikv_tools.formats import FIELDS, fields_of, is_cut, left_out, object_of, points_of, request_in
from minikv_tools.pieces import IDS, Place, PromptItem, PromptPiece, content_pieces, json_text, message_pieces
from minikv_tools.usage import JsonObject, Usage

_NAMESPACE = FIELDS["namespace"]
_NO_SETTINGS = {*FIELDS["parts of a prompt"], *_NAMESPACE}
_FIRST_ID, _MOST_IDS = 0x10000, 0x100000  # its characters
_BRIEF = 2048  # characters of an item in which no text was cut, unless the one that cut it is named there
_KEPT, _LONGEST = 2**14, 2**12  # messages that are not read again when they are repeated, of so many characters
_WEB = re.compile('"type": "web_(?:search|fetch)_2')  # Anthropic keeps the other tools if one of these comes or goes
_TEXT = attrgetter("text")
_Pieces = Callable[[str, int, Any], Iterable[PromptPiece]]


class Body(NamedTuple):
    """The items of a prompt, what sets its cache apart from others, and what is not in the prompt at all.

    `time` is when the request came, in milliseconds, and `usage` its bill, where an entry of a log says them.
    """

    items: tuple[PromptItem, ...]
    namespace: dict[str, str]
    settings: dict[str, Any]
    time: float | None = None
    usage: Usage | None = None

    @property
    def pieces(self) -> tuple[PromptPiece, ...]:
        """The pieces of all items."""
        return tuple(chain.from_iterable([item.pieces for item in self.items]))

    @property
    def text(self) -> str:
        """The whole prompt."""
        return "".join([item.text for item in self.items])

    @property
    def has_ids(self) -> bool:
        """Return whether the prompt is a list of token ids."""
        return IDS in [item.name for item in self.items]


def read_body(entry: JsonObject, found: JsonObject | None = None) -> Body:
    """The prompt of a request body, or of an entry of a log that holds one; `ValueError` where there is none.

    `found` is the body that is known to be in the entry.

    >>> body = read_body({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0})
    >>> body.text, body.namespace, body.settings
    ('<|im_start|>user\\nHi<|im_end|>\\n', {'model': 'm'}, {'temperature': 0})
    >>> read_body({"hash_ids": [1]})
    Traceback (most recent call last):
    ValueError: there are no messages and no prompt: expected a request, not the fields hash_ids
    """
    body = found or request_in(entry)
    if body is None:
        rule = f"expected a request, not the fields {fields_of(entry)}"
        raise ValueError(f"there are no messages and no prompt: {rule}")
    for name in [name for name in ("extra_body", "toolConfig") if name in body]:  # their fields are the body's
        body = {**body, **object_of(body.get(name))}
    named = {"model": body.get("modelId"), **body}
    namespace = {key: json_text(named[key]) for key in _NAMESPACE if named.get(key) not in (None, "")}
    settings = {key: value for key, value in body.items() if key not in _NO_SETTINGS} | _beside(body)
    items = tuple(filter(_TEXT, _items(body)))
    if called := named.get("parts called"):  # in the API, where a form says it
        items = tuple(_renamed(item, called) for item in items)
    doubtful = (item.pieces for item in items if len(item.text) > _BRIEF or "litellm" in item.text)
    if cut := next((piece for piece in chain.from_iterable(doubtful) if is_cut(piece.text)), None):
        raise ValueError(f"{cut.place} is cut or redacted: expected all of it (SGLang: --log-requests-level 3)")
    return Body(items, namespace, settings)


def _renamed(item: PromptItem, called: Mapping[str, str]) -> PromptItem:
    places = (piece.place._replace(called=called.get(piece.place.part, "")) for piece in item.pieces)
    return item._replace(pieces=tuple(piece._replace(place=place) for piece, place in zip(item.pieces, places)))


def _beside(body: JsonObject) -> dict[str, Any]:
    """The settings in a body's lists, which are no text of the prompt: tools that are deferred, and citations."""
    tools, messages = (found if isinstance(found := body.get(part), list) else [] for part in ("tools", "messages"))
    deferred = [_tool_name(tool) for tool in tools if _is_deferred(tool)]
    contents = [message.get("content") for message in messages if isinstance(message, (dict, Mapping))]
    parts = map(object_of, chain.from_iterable([content for content in contents if isinstance(content, list)]))
    cited = any(object_of(part.get("citations")).get("enabled") is True for part in parts)
    return {name: found for name, found in (("deferred tools", deferred), ("citations", cited)) if found}


def _is_deferred(tool: Any) -> bool:
    """Whether a tool is loaded when the model looks for it: until then it is no part of the prompt."""
    return any(object_of(said).get("defer_loading") is True for said in (tool, object_of(tool).get("default_config")))


def is_body(entry: JsonObject) -> bool:
    """Return whether `entry` holds one request with its whole prompt: no batch, and none that the server completes.

    >>> is_body({"request": {"prompt": "Hi"}}), is_body({"timestamp": 0, "hash_ids": [1]})
    (True, False)
    """
    return not left_out(entry)


def item_of(pieces: Iterable[PromptPiece]) -> PromptItem:
    """The item that is made of some pieces, all of one place.

    >>> item_of([PromptPiece(Place("input", 3, "user"), "Hi")])[:2]
    ('messages', 'user')
    """
    pieces = [*pieces]
    part, _, name = pieces[0].place[:3]
    part = FIELDS["parts with the items of another"].get(part, part)
    name = name or ("system" if part == "system" else "")
    return PromptItem(part, name, tuple(filter(_TEXT, pieces)), "".join(map(_TEXT, pieces)))


def _items(body: JsonObject) -> Iterator[PromptItem]:
    yield from _tools(body)
    schemas = [body.get("response_format"), body.get("output_format")]
    schemas += [part.get("format") for key in ("text", "output_config") if isinstance(part := body.get(key), Mapping)]
    said = [json_text(schema) + "\n" for schema in schemas if schema is not None and schema != {"type": "text"}]
    if said:
        yield item_of(PromptPiece(Place("response_format"), text) for text in said)
    for part in ("system", "instructions"):
        if body.get(part) is not None:
            begin, end = (PromptPiece(Place(part), f"<|im_{mark}") for mark in ("start|>system\n", "end|>\n"))
            yield item_of([begin, *content_pieces(body[part], Place(part, field="content")), end])
    for part in ("messages", "input"):
        if (value := body.get(part)) is not None:  # a text is the short form of one message
            yield from _messages(part, [{"role": "user", "content": value}] if isinstance(value, str) else value)
    if body.get("prompt") is not None:
        yield item_of([_prompt(body["prompt"])])


def _prompt(prompt: Any) -> PromptPiece:
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):  # a batch of one
        prompt = prompt[0]
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        return PromptPiece(Place("prompt", name=IDS), ids_text(prompt))
    if not isinstance(prompt, str):
        raise ValueError(f"prompt is {bounded(prompt)}: expected text or a list of token ids")
    return PromptPiece(Place("prompt"), prompt)


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


def _tools(body: JsonObject) -> Iterator[PromptItem]:
    for part in ("tools", "functions"):
        tools = body.get(part) or []
        if not isinstance(tools, list):
            raise ValueError(f"{part} is {bounded(tools)}: expected a list")
        marked = [(tool, mark) for tool, mark in zip(tools, points_of(tools))]
        found = [_once(_tool, part, index, pair) for index, pair in enumerate(marked)
                 if pair[1] is not None and not _is_deferred(pair[0])]  # fmt: skip
        yield from sorted(found, key=lambda item: bool(_WEB.search(item.text)))


def _tool(part: str, index: int, marked: tuple[Any, str]) -> list[PromptPiece]:
    tool, mark = marked
    return [PromptPiece(Place(part, index, _tool_name(tool)), json_text(tool) + "\n", mark)]


def _tool_name(tool: Any) -> str:
    tool = object_of(tool)
    name = object_of(tool.get("function", tool.get("toolSpec", tool))).get("name")
    return name if isinstance(name, str) else ""


def _messages(part: str, messages: Any) -> list[PromptItem]:
    if not isinstance(messages, list):
        raise ValueError(f"{part} is {bounded(messages)}: expected a list of messages")
    found = [_once(message_pieces, part, index, message) for index, message in enumerate(messages)]
    if found and found[-1].name == "assistant":  # it may be the beginning of the answer
        found[-1] = item_of(found[-1].pieces[:-1])
    return found


_known: dict[int, PromptItem] = {}  # by what they are read from


def _once(pieces: _Pieces, part: str, index: int, value: Any) -> PromptItem:
    """A message or a tool; it is not read again where it comes again, as each turn of a conversation sends it."""
    try:
        key = hash((part, index, dumps(value, 2)))  # without references: the same bytes for the same JSON
    except ValueError:  # it is no JSON
        return item_of(pieces(part, index, value))
    if (found := _known.get(key)) is None:
        found = item_of(pieces(part, index, value))
        if len(found.text) <= _LONGEST:
            _known[key] = found
        if len(_known) > _KEPT:
            _known.pop(next(iter(_known)), None)
    return found
