"""A prompt that a user names: a file with a prompt or a request body in it, or one line of a log."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from minikv.errors import bounded, shown
from minikv.traffic.bodies import Body, Place, PromptPiece, is_body, read_body
from minikv.traffic.trace_file import LONGEST_LINE, TraceError, open_trace
from minikv.untrusted import json_object, parse_json

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
        parts, size = [], 0
        for part in file:
            parts.append(part)
            if (size := size + len(part)) > LARGEST_PROMPT:
                raise TraceError(f"{file.name} has more than {LARGEST_PROMPT} bytes, the most that a prompt may have")
        return _whole(b"".join(parts), file.name)


def text_body(text: str) -> Body:
    """A prompt of plain text as a body.

    >>> text_body("Hi").text
    'Hi'
    """
    return Body((PromptPiece(Place("prompt"), text),) if text else (), {}, {})


def _whole(content: bytes, name: str) -> Body:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TraceError(f"{name} is not UTF-8: {error.reason} at byte {error.start + 1}") from None
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return text_body(text)
    try:
        entry = json_object(content, name)
    except ValueError:
        if _is_log(text):
            raise TraceError(f"{name} is a log: name one of its lines, such as {name}:1") from None
        return text_body(text)  # a prompt may begin with a brace
    return _body(entry, name) if is_body(entry) else text_body(text)


def _is_log(text: str) -> bool:
    """Whether the first line is a request body by itself."""
    try:
        entry = parse_json(text.lstrip("\ufeff").split("\n", 1)[0], "it")
    except ValueError:
        return False
    return isinstance(entry, dict) and is_body(entry)


def _line(path: str, number: int) -> Body:
    with open_trace(path) as file:
        line = next(islice(file, max(0, number - 1), number), None) if number else None
        if line is None or not line.strip():
            raise TraceError(f"{shown(path)} has no line {number}, or nothing is in it")
        name = f"{file.name}, line {number}"
    if len(line) > LONGEST_LINE:
        raise TraceError(f"{name} has over {LONGEST_LINE} bytes: expected a request of fewer")
    try:
        return _body(json_object(line, "it"), name)
    except TraceError:
        raise
    except ValueError as error:
        raise TraceError(f"{name}: {error}") from None


def _body(entry: dict[str, object], name: str) -> Body:
    try:
        return read_body(entry)
    except ValueError as error:
        raise TraceError(f"{name}: {bounded(str(error), 300)[1:-1]}") from None
