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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from itertools import chain, islice
from typing import Any

from minikv.errors import bounded
from minikv.files import FileName
from minikv.traffic.trace_file import TraceError, located, open_trace
from minikv.untrusted import parse_json
from minikv_tools.bodies import Body, read_body
from minikv_tools.formats import FIELDS, fields_of, left_out, request_in
from minikv_tools.usage import JsonObject

LARGEST_LIST = 2**28  # bytes of a file that is one JSON value
_SAMPLE, _LONG = 1000, 2**20  # lines, bytes
_SERVED = re.compile(
    rb"""(?:Received request \S+?: prompt: |Request \S+ details: prompt: |Receive: obj=.*?\btext=)"""
    rb"""(None|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?! \.\.\.)"""
    rb"(?:.*?(?:prompt_token_ids: |\binput_ids=)(\[[\d, ]*\])(?! \.\.\.))?"
    rb"(?:.*?\blora_(?:name|path)=('[^']*'))?"
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


def log_lines(log: FileName | Iterable[JsonObject | str | bytes]) -> Iterator[bytes]:
    """The lines of a log as JSON: of a file with this name, or of entries, each an object or a line of JSON.

    >>> [*log_lines([{"prompt": "Hi"}, "{}"])]
    [b'{"prompt": "Hi"}', b'{}']
    """
    if isinstance(log, (str, os.PathLike)):
        with open_trace(os.fspath(log)) as file:
            yield from request_lines(file)
    else:
        lines = (json.dumps(entry, default=_dated) if isinstance(entry, Mapping) else entry for entry in log)
        yield from (line.encode() if isinstance(line, str) else line for line in lines)


def _dated(value: Any) -> str:
    if isinstance(value, date):  # every `datetime` is one
        return value.isoformat()
    raise TypeError(f"an entry holds {bounded(value)}: expected a JSON value or a date")


_FEW, _MOST = 10, 0.01  # malformed lines: so many are borne before a log is read, and this share of it at its end


class RequestLog:
    """The requests of a log, one after the other, and what was left out of it.

    `reasons` counts lines that hold no request, by what they are, and `malformed` those that cannot be read, such as
    the one that `first` tells of. `ids` says whether the prompts are token ids; one of the other kind counts as
    malformed. `line` is the number of the line that was read last.

    >>> log = RequestLog("log")
    >>> [body.text for _, body in log.requests([b'{"prompt": "Hi"}', b'{"name": "a tool"}', b"x"])]
    ['Hi']
    >>> dict(log.reasons), log.first
    ({'with the fields name': 1}, 'log, line 3: the line is not JSON: Expecting value at column 1')
    """

    def __init__(self, name: str):
        self.name, self.first = name, ""
        self.line = self.malformed = 0
        self.reasons = Counter[str]()
        self.ids: bool | None = None
        self._fields, self._received = "", set[str]()

    @property
    def others(self) -> int:
        """The lines that hold no request."""
        return self.reasons.total()

    def requests(self, lines: Iterable[bytes]) -> Iterator[tuple[JsonObject, Body | None]]:
        """Each entry of a request and its body, without which it is the end of one that has come: SGLang logs both."""
        return filter(None, located(self.name, self._counted(lines), self._request, leave=self._leave))

    def _counted(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        for self.line, line in enumerate(lines, start=1):
            yield line

    def _request(self, entry: JsonObject) -> tuple[JsonObject, Body | None] | None:
        if finishes(entry, self._received):
            return entry, None
        self._fields = self._fields or fields_of(entry)
        found = request_in(entry)
        if reason := left_out(entry, found):
            self.reasons[reason] += 1
            return None
        body = read_body(entry, found)
        self.ids = body.has_ids if self.ids is None and body.items else self.ids
        if body.items and body.has_ids != self.ids:
            raise ValueError("the log has both text prompts and token ids: expected only one kind")
        return entry, body

    def _leave(self, error: TraceError) -> None:
        self.malformed, self.first = self.malformed + 1, self.first or str(error)
        if self.malformed > _FEW:
            self._refuse()

    def _refuse(self) -> None:
        if self.malformed > _MOST * self.line:
            raise TraceError(
                f"{self.first} (malformed lines: {self.malformed:,} of {self.line:,}; "
                f"at most {_MOST:.0%} may be left out)"
            )

    def close(self, requests: int, lacking: str = "") -> None:
        """End a log with so many requests: `TraceError` if there are none, or too many lines were left out.

        And if no request has the field `lacking`.
        """
        self._refuse()
        if not requests:
            raise TraceError(f"{self.name} holds no request: its first line has the fields {self._fields or 'none'}")
        if lacking:
            raise TraceError(f"no request has the field {bounded(lacking)}: the first line has {self._fields}")


def finishes(entry: JsonObject, received: set[str]) -> bool:
    """Return whether an event of SGLang's log is the end of a request that it has told of, as `received` keeps them.

    >>> events, received = [{"event": f"request.{name}", "rid": "1"} for name in ("received", "finished")], set()
    >>> [finishes(event, received) for event in events]
    [False, True]
    """
    event, rid = entry.get("event"), str(entry.get("rid"))
    if event == "request.received":
        received.add(rid)
    elif event == "request.finished" and rid in received:
        received.remove(rid)
        return True
    return False


def entries_of(value: Any) -> Iterator[Any]:
    """The entries in a JSON value: the items of a list, the spans of a batch, the rows of a page, or itself.

    >>> [*entries_of({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "chat"}]}]}]})]
    [{'name': 'chat'}]
    >>> [*entries_of([{"role": "user", "content": "Hi"}])], [*entries_of([5, 7])]
    ([{'messages': [{'role': 'user', 'content': 'Hi'}]}], [{'prompt': [5, 7]}])
    """
    if isinstance(value, Mapping):
        holders = () if "messages" in value else FIELDS["lists of entries"]
        inner = next((value[key] for key in holders if isinstance(value.get(key), list)), None)
        yield from [value] if inner is None else entries_of(inner)
    elif not isinstance(value, list):
        yield value
    elif value and all(isinstance(item, Mapping) and "role" in item for item in value):
        yield {"messages": value}
    elif value and isinstance(value[0], int):
        yield {"prompt": value}
    else:
        yield from chain.from_iterable(map(entries_of, value))


def _expanded(text: bytes) -> Iterator[bytes]:
    try:
        found = [json.dumps(entry).encode() for entry in entries_of(parse_json(text, "the file"))]
    except ValueError:  # which is raised again where the line is read
        found = []
    yield from found or [text]


def _listed(lines: Iterable[bytes]) -> Iterator[bytes]:
    content = bytearray()  # a list of short lines would take far more
    for line in lines:
        content += line
        if len(content) > LARGEST_LIST:
            raise TraceError(f"the file is one JSON value of over {LARGEST_LIST} bytes: write one request per line")
    yield from _expanded(bytes(content))


def _batches(lines: Iterable[bytes]) -> Iterator[bytes]:
    return chain.from_iterable(map(_expanded, lines))


def _served(lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        groups = found.groups() if (found := _SERVED.search(line)) else ()
        try:
            values = [group and ast.literal_eval(group.decode(errors="replace")) for group in groups]
        except SyntaxError:  # an escape that Python does not have
            values = []
        entry = zip(("prompt", "prompt_token_ids", "lora_name"), values)
        yield json.dumps({name: value for name, value in entry if value is not None}).encode()


# By what the first line looks like that is not blank; a line of a server's log may come later.
_KINDS: tuple[tuple[re.Pattern[bytes], Callable[[Iterable[bytes]], Iterator[bytes]]], ...] = (
    (re.compile(rb"^[\[{](?:.*[\[{,:])?$"), _listed),  # it does not end in this line
    (re.compile(rb'^(?:\[\s*(?:[\[{"\]a-z]|\d+\s*[,\]])|\{.{0,9}"resource(?:Spans|Logs)")'), _batches),
    (re.compile(rb'^\{\s*"(?:data|runs|observations)":\s*\['), _batches),  # a page of an API
    (re.compile(rb"^\{"), iter),
    (_SERVED, _served),
)
