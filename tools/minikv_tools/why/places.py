"""The prompts that a user names, and the place of the first character that differs in each of two."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from minikv.errors import bounded, one_line, shown
from minikv.traffic.trace_file import LONGEST_LINE, TraceError, open_trace
from minikv.untrusted import json_object, parse_json
from minikv_tools.bodies import Body, is_body, item_of, read_body, text_ids
from minikv_tools.exports import entries_of, request_lines
from minikv_tools.logs import time_of
from minikv_tools.pieces import FILE, Place, PromptPiece, bounded_name
from minikv_tools.report import many
from minikv_tools.usage import read_usage

LARGEST_PROMPT = 2**26  # bytes of a file


def read_prompt(name: str) -> Body:
    """The prompt in a file, or in one line of a log where `name` ends in `:LINE`; `-` is standard input.

    A file that holds one request body is read as that, any other file as the text of a prompt. `OSError` says why a
    file cannot be opened, `TraceError` what is wrong with what is in it.

    >>> read_prompt("no_such_log.jsonl:3")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no_such_log.jsonl'
    """
    found = re.fullmatch(r"(.+):(\d{1,15})", name, re.DOTALL)
    if found and "\0" not in name and not Path(name).exists():
        return _line(found[1], int(found[2]))
    with open_trace(name) as file:
        content = bytearray()  # a list of short lines would take far more
        for line in file:
            content += line
            if len(content) > LARGEST_PROMPT:
                raise TraceError(f"{file.name} has more than {LARGEST_PROMPT} bytes, the most that a prompt may have")
        return _whole(bytes(content), file.name)


def text_body(text: str) -> Body:
    """A prompt of plain text as a body.

    >>> text_body("Hi").text
    'Hi'
    """
    return Body((item_of([PromptPiece(Place("prompt"), text)]),) if text else (), {}, {})


def as_body(prompt: Any) -> Body:
    """A prompt as a body: text, token ids, a list of messages, a request body, or an entry of a log that holds one.

    >>> as_body([{"role": "user", "content": "Hi"}]).text
    '<|im_start|>user\\nHi<|im_end|>\\n'
    >>> as_body(7)
    Traceback (most recent call last):
    TypeError: the prompt is 7: expected a text, a list of messages or a request body
    """
    if isinstance(prompt, Body):
        return prompt
    if isinstance(prompt, str):
        return text_body(prompt)
    if not isinstance(prompt, (list, Mapping)):
        raise TypeError(f"the prompt is {bounded(prompt)}: expected a text, a list of messages or a request body")
    if isinstance(prompt, list):
        prompt = {"prompt" if prompt and isinstance(prompt[0], int) else "messages": prompt}
    return _body(prompt, "the prompt")


_LOGGED = re.compile(r"\W*(?:DEBUG|INFO|WARNING|ERROR|\d{4}-\d\d-\d\d)\b")  # the beginning of a server's log
_BODY = re.compile(r"""[\ufeff\s\[]*\{\s*(?=["']).{0,4096}?["'](?:messages|prompt|input|contents)["']\s*:""", re.DOTALL)


def _whole(content: bytes, name: str) -> Body:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TraceError(f"{name} is not UTF-8: {error.reason} at byte {error.start + 1}") from None
    if not text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return _text(content, text, name)
    try:
        found = [*entries_of(parse_json(content, name))]
    except ValueError as error:
        if _is_log(text):
            raise TraceError(f"{name} is a log: pass one of its lines, such as {name}:1") from None
        if " is not JSON: " not in str(error) or _BODY.match(text):
            raise TraceError(str(error)) from None
        return text_body(text)  # a prompt may begin with a brace
    bodies = [entry for entry in found if isinstance(entry, dict) and is_body(entry)]
    if len(bodies) > 1:
        raise TraceError(f"{name} holds {len(bodies)} requests: pass one of them, such as {name}:1")
    entry = (bodies or found or [{}])[0]
    if not isinstance(entry, dict):
        raise TraceError(f"{name} holds a list of {bounded(entry)}: expected a request")
    return _body(entry, name)


def _text(content: bytes, text: str, name: str) -> Body:
    """The prompt of a file that is no JSON: its text, or what is in it as one line of a server's log."""
    (line,) = request_lines([content])
    if line == content:
        return text_body(text)
    if "\n" not in text.strip():
        return _body(line, name)
    if _LOGGED.match(text):
        raise TraceError(f"{name} is a log: pass one of its lines, such as {name}:1")
    return text_body(text)


def _is_log(text: str) -> bool:
    """Return whether the first line is a JSON object by itself."""
    try:
        return isinstance(parse_json(text.lstrip("\ufeff").split("\n", 1)[0], "it"), dict)
    except ValueError:
        return False


def _line(path: str, number: int) -> Body:
    with open_trace(path) as file:
        lines = chain([b""], request_lines(file))  # which are counted from 1
        line = next(islice(lines, number, None), b"")
        name = f"{file.name}, line {number}"
    if not line.strip():
        raise TraceError(f"{shown(path)} has no line {number}, or that line is empty")
    if len(line) > LONGEST_LINE:
        raise TraceError(f"{name} has over {LONGEST_LINE} bytes: expected a request of fewer")
    return _body(line, name)


def _body(entry: Mapping[str, object] | bytes, name: str) -> Body:
    try:
        entry = json_object(entry, "it") if isinstance(entry, bytes) else entry
        return read_body(entry)._replace(time=time_of(entry), usage=read_usage(entry))
    except ValueError as error:
        raise TraceError(f"{name}: {one_line(str(error), 300)}") from None


_FAR = 2**20  # characters into a JSON text up to which a key is looked for
_BEFORE, _AFTER = 36, 44  # characters that are shown of a text around a place
_IDS = 8  # and token ids
_PLANE = "\uffff"  # after which the characters begin that stand for them


class Spot(NamedTuple):
    """A place of a prompt to the character: how many characters of the field come before it, and what is around it."""

    place: Place
    at: int
    before: str
    after: str
    key: str = ""  # of JSON: the path of the value there

    def __str__(self) -> str:
        if self.place.field == "role":
            return str(self.place._replace(field=""))
        if FILE.fullmatch(self.place.field.rpartition(".")[2]):  # which is shown as a hash
            return str(self.place)
        key = f", {self.key}" if self.key else ""
        unit = "token" if self.place.has_ids else "character"
        return f"{self.place}{key}, after {many(self.at, unit)}"


Spots = tuple[Spot | None, Spot | None]  # of two prompts


def spot_at(body: Body, at: int, text: str | None = None) -> Spot | None:
    """The place of character `at` of a body's prompt, or `None` at its end; `text` is the prompt, where it is known.

    >>> from minikv_tools.bodies import read_body
    >>> print(spot_at(read_body({"messages": [{"role": "user", "content": "It is 14:05"}]}), 26))
    messages[0] (user), content, after 9 characters
    """
    pieces = body.pieces
    ends = list(accumulate(len(piece.text) for piece in pieces))
    number = bisect_right(ends, at)
    if number == len(ends):
        return None
    while number and pieces[number].place == pieces[number - 1].place._replace(field=""):
        number -= 1  # a marker after a message: the end of its text
    piece, begin = pieces[number], ends[number] - len(pieces[number].text)
    text = body.text if text is None else text
    before, after = text[max(0, at - _BEFORE - 1) : at], text[at : at + _AFTER + 1]  # one more than is shown
    return Spot(piece.place, at - begin, before, after, json_key(piece.text, at - begin))


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\]:,]')  # the last string may be cut off


def json_key(text: str, at: int) -> str:
    """The path of the value at character `at` of a JSON text, such as `a.b[2]`; empty if `text` is not an object.

    >>> json_key('{"name": "f", "parameters": {"type": "object"}}', 38)
    'parameters.type'
    """
    if not text.startswith("{") or at > _FAR:
        return ""
    path: list[str | int] = []
    last = ""
    for token in _TOKEN.findall(text, 0, at):
        if token[0] == '"':
            last = token[1:-1]
        else:
            _step(path, token, last)
    shown = (f"[{key}]" if isinstance(key, int) else f".{bounded_name(key)}" for key in path if key != "")
    return "".join(shown).lstrip(".")


def _step(path: list[str | int], character: str, last: str) -> None:
    """Follow one character outside of a string: it opens or closes a value, names its key, or leads to the next one."""
    if character in "{[":
        path.append("" if character == "{" else 0)
    elif character in "}]" and path:
        path.pop()
    elif character == ":" and path:
        path[-1] = last
    elif character == "," and path:
        key = path[-1]
        path[-1] = key + 1 if isinstance(key, int) else ""


def shown_text(text: str, least: int = _IDS) -> str:
    r"""`text` in one line: control characters, combining and invisible ones are spelled out.

    At least so many characters that are only those of token ids are shown as numbers.

    >>> print(shown_text("a\tb\u200bc e\u0301 d  "))
    a\tb\u200bc e\u0301 d··
    """
    ids = text.strip("\N{REPLACEMENT CHARACTER}")
    if len(ids) >= least and min(ids) > _PLANE:
        return " ".join(map(str, text_ids(ids)))
    shown = "".join(
        c if c.isprintable() and not unicodedata.combining(c) else c.encode("unicode_escape", "replace").decode()
        for c in text
    )
    kept = shown.rstrip(" ")
    return kept + "·" * (len(shown) - len(kept))


def shown_before(spot: Spot | None) -> str:
    """The text of both prompts before a place, in one line; it begins with … where it is cut."""
    if spot is None:
        return ""
    most, least = (_IDS, 1) if spot.place.has_ids else (_BEFORE, _IDS)
    return ("…" if len(spot.before) > most else "") + shown_text(spot.before[-most:], least)


def shown_after(spot: Spot | None) -> str:
    """The text of one prompt after a place, in one line; it ends in … where it is cut."""
    if spot is None:
        return "(its end)"
    most, least = (_IDS, 1) if spot.place.has_ids else (_AFTER, _IDS)
    return shown_text(spot.after[:most], least) + ("…" if len(spot.after) > most else "")


def spot_json(spot: Spot | None) -> dict[str, Any] | None:
    """A place as plain values, with its texts cut short; `None` if the prompt ends there."""
    if spot is None:
        return None
    return {"place": str(spot.place), "key": spot.key, "character": spot.at, "before": shown_before(spot),
            "after": shown_after(spot)}  # fmt: skip
