"""Files of requests that are no JSON lines: a batch of OTLP, one JSON list, the log of a server of vLLM or SGLang.

The form is told by the first lines, once for a file. Each request becomes a line of JSON, and a line without one
becomes `{}`, so that a line keeps its number; the requests of a batch or of a list are numbered.

    vLLM    Received request ID: prompt: 'text', params: …, prompt_token_ids: [1, 2], …       (until 0.10)
            Request ID details: prompt: 'text', prompt_token_ids: [1, 2], …                  (since, at the level DEBUG)
    SGLang  Receive: obj=GenerateReqInput(rid='ID', text='text', input_ids=None, …)

SGLang cuts long texts unless it is told --log-requests-level 3; such a line holds no request.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from minikv.traffic.trace_file import TraceError
from minikv.untrusted import parse_json

_JSON = re.compile(rb'\{|\[\s*(?:$|[\[{"\]a-z]|\d+\s*[,\]])')  # and not the time with which a server begins a line
_BATCH = re.compile(rb'\[|.{0,9}"resource(Spans|Logs)"')
LARGEST_LIST = 2**28  # bytes of a file that is one JSON value
_SAMPLE, _LONG = 1000, 2**20  # lines, bytes
_HOLDERS = ("resourceSpans", "scopeSpans", "spans", "resourceLogs", "scopeLogs", "logRecords", "data", "runs",
            "observations")  # fmt: skip
_SERVED = re.compile(
    r"""(?:Received request \S+?: prompt: |Request \S+ details: prompt: |Receive: obj=.*?\btext=)"""
    r"""(None|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?! \.\.\.)(?:.*?(?:prompt_token_ids: |\binput_ids=)(\[[\d, ]*\]))?"""
)


def request_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The requests of a file as lines of JSON; lines of JSON come back as they are.

    >>> [*request_lines([b"INFO 04-02 12:30:23 [logger.py:39] Received request cmpl-1: prompt: 'Hi', params: None"])]
    [b'{"prompt": "Hi"}']
    >>> [*request_lines([b"[", b'{"prompt": "Hi"},', b'{"prompt": "Ho"}]'])]
    [b'{"prompt": "Hi"}', b'{"prompt": "Ho"}']
    """
    lines, sample, first = iter(lines), list[bytes](), b""
    for line in islice(lines, _SAMPLE):
        sample.append(line)
        if first := line.strip(b"\xef\xbb\xbf \t\r\n"):
            break
    lines = chain(sample, lines)
    if _JSON.match(first):
        if not _is_whole(first):
            return _listed(lines)
        return (text for line in lines for text in _expanded(line)) if _BATCH.match(first) else lines
    sample, found = [], False
    for line in islice(lines, _SAMPLE):
        sample.append(line)
        if (found := _SERVED.search(line.decode(errors="replace")) is not None) or len(line) > _LONG:
            break
    lines = chain(sample, lines)
    return map(_served, lines) if found else lines


def entries_of(value: Any) -> Iterator[Any]:
    """The entries in a JSON value: the items of a list, the spans of a batch, the rows of a page, or itself.

    >>> [*entries_of({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "chat"}]}]}]})]
    [{'name': 'chat'}]
    >>> [*entries_of([{"role": "user", "content": "Hi"}])], [*entries_of([101, 7])]
    ([{'messages': [{'role': 'user', 'content': 'Hi'}]}], [{'prompt': [101, 7]}])
    """
    if isinstance(value, list) and value and all(type(item) is int for item in value):
        yield {"prompt": value}
    elif isinstance(value, list) and value and all(isinstance(item, Mapping) and "role" in item for item in value):
        yield {"messages": value}
    elif isinstance(value, list):
        for item in value:
            yield from entries_of(item)
    elif isinstance(value, Mapping):
        inner = next((value[key] for key in _HOLDERS if isinstance(value.get(key), list)), None)
        yield from [value] if inner is None else entries_of(inner)
    else:
        yield value


def _is_whole(line: bytes) -> bool:
    """Return whether a line is JSON, or wrong whatever the next lines are."""
    try:
        json.loads(line)
    except json.JSONDecodeError as error:
        return error.pos < len(error.doc.rstrip())
    except (ValueError, RecursionError):
        pass
    return True


def _expanded(text: bytes) -> Iterator[bytes]:
    try:
        found = [json.dumps(entry).encode() for entry in entries_of(parse_json(text, "the file"))]
    except ValueError:  # which is raised again where the line is read
        found = []
    yield from found or [text]


def _listed(lines: Iterable[bytes]) -> Iterator[bytes]:
    parts, size = [], 0
    for line in lines:
        parts.append(line)
        if (size := size + len(line)) > LARGEST_LIST:
            raise TraceError(f"the file is one JSON value of over {LARGEST_LIST} bytes: write one request per line")
    yield from _expanded(b"".join(parts))


def _served(line: bytes) -> bytes:
    found = _SERVED.search(line.decode(errors="replace"))
    values = zip(("prompt", "prompt_token_ids"), found.groups() if found else ())
    return json.dumps({key: ast.literal_eval(value) for key, value in values if value not in (None, "None")}).encode()
