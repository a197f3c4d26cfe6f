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
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

from minikv.files import FileName
from minikv.traffic.trace_file import TraceError, open_trace
from minikv.untrusted import parse_json

LARGEST_LIST = 2**28  # bytes of a file that is one JSON value
_SAMPLE, _LONG = 1000, 2**20  # lines, bytes
_HOLDERS = ("resourceSpans", "scopeSpans", "spans", "resourceLogs", "scopeLogs", "logRecords", "data", "runs",
            "observations")  # fmt: skip
_SERVED = re.compile(
    rb"""(?:Received request \S+?: prompt: |Request \S+ details: prompt: |Receive: obj=.*?\btext=)"""
    rb"""(None|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?! \.\.\.)"""
    rb"(?:.*?(?:prompt_token_ids: |\binput_ids=)(\[[\d, ]*\]))?"
)


def request_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The requests of a file as lines of JSON; lines of JSON come back as they are.

    >>> [*request_lines([b"INFO 04-02 12:30:23 [logger.py:39] Received request cmpl-1: prompt: 'Hi', params: None"])]
    [b'{"prompt": "Hi"}']
    >>> [*request_lines([b"[", b'{"prompt": "Hi"},', b'{"prompt": "Ho"}]'])]
    [b'{"prompt": "Hi"}', b'{"prompt": "Ho"}']
    """
    lines, sample = iter(lines), list[bytes]()
    for line in islice(lines, _SAMPLE):
        sample.append(line)
        text = line.strip(b"\xef\xbb\xbf \t\r\n")
        if (found := [read for look, read in _KINDS if look.search(text)]) or len(line) > _LONG:
            return (found or [iter])[0](chain(sample, lines))
    return chain(sample, lines)


def log_lines(log: FileName | Iterable[Mapping[str, Any] | str | bytes]) -> Iterator[bytes]:
    """The lines of a log as JSON: of a file with this name, or of entries, each an object or a line of JSON.

    >>> [*log_lines([{"prompt": "Hi"}, "{}"])]
    [b'{"prompt": "Hi"}', b'{}']
    """
    if isinstance(log, (str, os.PathLike)):
        with open_trace(os.fspath(log)) as file:
            yield from request_lines(file)
    else:
        lines = (json.dumps(entry) if isinstance(entry, Mapping) else entry for entry in log)
        yield from (line.encode() if isinstance(line, str) else line for line in lines)


def entries_of(value: Any) -> Iterator[Any]:
    """The entries in a JSON value: the items of a list, the spans of a batch, the rows of a page, or itself.

    >>> [*entries_of({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "chat"}]}]}]})]
    [{'name': 'chat'}]
    >>> [*entries_of([{"role": "user", "content": "Hi"}])]
    [{'messages': [{'role': 'user', 'content': 'Hi'}]}]
    """
    if isinstance(value, list) and value and all(isinstance(item, Mapping) and "role" in item for item in value):
        yield {"messages": value}
    elif isinstance(value, list):
        for item in value:
            yield from entries_of(item)
    elif isinstance(value, Mapping):
        inner = next((value[key] for key in _HOLDERS if isinstance(value.get(key), list)), None)
        yield from [value] if inner is None else entries_of(inner)
    else:
        yield value


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


def _batches(lines: Iterable[bytes]) -> Iterator[bytes]:
    return chain.from_iterable(map(_expanded, lines))


def _served(lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        groups = found.groups() if (found := _SERVED.search(line)) else ()
        try:
            values = [group and ast.literal_eval(group.decode(errors="replace")) for group in groups]
        except SyntaxError:  # an escape that Python does not have
            values = []
        entry = {name: value for name, value in zip(("prompt", "prompt_token_ids"), values) if value is not None}
        yield json.dumps(entry).encode()


# By what the first line looks like that is not blank; a line of a server's log may come later.
_KINDS: tuple[tuple[re.Pattern[bytes], Callable[[Iterable[bytes]], Iterator[bytes]]], ...] = (
    (re.compile(rb"^[\[{](?:.*[\[{,:])?$"), _listed),  # it does not end in this line
    (re.compile(rb'^(?:\[\s*(?:[\[{"\]a-z]|\d+\s*[,\]])|\{.{0,9}"resource(?:Spans|Logs)")'), _batches),
    (re.compile(rb"^\{"), iter),
    (_SERVED, _served),
)
