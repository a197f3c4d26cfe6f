"""The pieces of a prompt: their texts, the places in a request's body that they come from, and those of a message.

Templates differ in their markers. The order of a message's fields and what is in them does not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from minikv.errors import bounded, printable, truncated
from minikv_tools.formats import FIELDS, MARKS, message_of, point_of, points_of, written_document

_FIRST = FIELDS["fields of a message, as templates order them"]
_KNOWN = {*_FIRST, *MARKS, *FIELDS["fields of a message that are not read"]}
_QUERY = re.compile(r"(?<=[/\w])\?(?=[\w.-]+=)")  # of an address: a signature, which changes while the file does not
FILE = re.compile("(?:input_|output_)?(?:image|video|audio|document|file|blob|inline)(?:_?(?:url|file|data|Data))?")
IDS = "token ids"  # the name of the place of such a prompt


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
        return self.name == IDS

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


class PromptItem(NamedTuple):
    """A tool, a system prompt or a message: the part of the body that it is in, its name, its pieces, its text."""

    part: str
    name: str
    pieces: tuple[PromptPiece, ...]
    text: str


Items = Sequence[PromptItem]
Sides = tuple[Items, Items]  # of two prompts


def message_pieces(part: str, index: int, message: Any) -> Iterator[PromptPiece]:
    """The pieces of message `index` of a part of a body.

    >>> [piece.text for piece in message_pieces("messages", 0, {"role": "user", "content": "Hi"})]
    ['<|im_start|>user\\n', 'Hi', '<|im_end|>\\n']
    """
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
            yield from content_pieces(value, Place(part, index, role, field))
    yield PromptPiece(Place(part, index, role), "<|im_end|>\n", point_of(message))


def content_pieces(value: Any, place: Place) -> Iterator[PromptPiece]:
    """The pieces of a message's field: text, or a list of parts.

    >>> [piece.text for piece in content_pieces([{"text": "Hi"}, {"text": "there"}], Place("system"))]
    ['Hi', 'there']
    """
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
        yield PromptPiece(place, json_text(value))


def _part(part: Any, place: Place) -> Iterator[PromptPiece]:
    """The pieces of a part of a message: a text, a call of a tool, what a tool returned, or a file.

    An image or another file is replaced by hashes.
    """
    if not isinstance(part, Mapping):
        yield PromptPiece(place, json_text(part))
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
        yield PromptPiece(place, json_text({key: part[key] for key in part if key != "source"}))
        yield PromptPiece(place._replace(field=f"{place.field}.source.data"), data)
        return
    if FILE.fullmatch(str(kind)):
        yield PromptPiece(place._replace(field=f"{place.field}.{kind}"), f"<|{kind} {_hashes(json_text(part))}|>")
    elif kind == "tool_result" or "toolUseId" in part:
        failed = part.get("is_error") is True or part.get("status") == "error"
        name = json_text(part.get("tool_use_id") or "") + " error" * failed
        yield PromptPiece(place._replace(field=f"{place.field}.tool_use_id"), f"<tool_result {name}>")
        yield from content_pieces(part.get("content") or "", place._replace(field=f"{place.field}.content"))
    else:
        yield PromptPiece(place, json_text(part))


def _hashes(text: str) -> str:
    """A hash of a file's description, and one of its address's query."""
    return "?".join(hashlib.sha256(part.encode(errors="replace")).hexdigest()[:16] for part in _QUERY.split(text, 1))


def json_text(value: Any) -> str:
    """A value as templates write it: text as it is, anything else as JSON with its keys in their order.

    `cache_control` and `prompt_cache_breakpoint`, which say where to cache, are not in the prompt.

    >>> json_text("Hi"), json_text({"a": 1, "cache_control": {}})
    ('Hi', '{"a": 1}')
    """
    if isinstance(value, Mapping):
        value = {key: inner for key, inner in value.items() if key not in MARKS}
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
