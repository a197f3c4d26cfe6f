"""Logs of requests as a format for every command that reads traces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from minikv.errors import whole_number
from minikv.traffic.traces import TraceSource, Traffic
from minikv_tools.bodies import is_body, read_body
from minikv_tools.exports import request_lines
from minikv_tools.logs import read_log, time_of, units_for, units_of

EXPECTED = "messages or prompt (a log)"


def as_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The requests of a file as lines of JSON, whatever form an export gave them.

    >>> list(as_lines([b'[{"prompt": "Hi"},', b'{"prompt": "Ho"}]']))
    [b'{"prompt": "Hi"}', b'{"prompt": "Ho"}']
    """
    return request_lines(lines)


def recognizes(first: dict[str, Any]) -> bool:
    """Return whether the first entry of a file is the entry of a log.

    >>> recognizes({"prompt": "Hi"}), recognizes({"hash_ids": [0]})
    (True, False)
    """
    return is_body(first)


def read(source: TraceSource) -> Traffic:
    """The requests of a log, cut into the tokens of the tokenizer that `source` names, or into bytes."""
    file, units = source.file, units_of(source.tokenizer)
    with contextlib.suppress(ValueError):  # which is raised again where the requests are read
        units = units_for(units, read_body(source.first))
    size = source.block_size or units.block_size
    requests = read_log(source.lines, units, size, file.name, source.start, source.salt)
    note = "bytes of UTF-8: no tokenizer was given" if units.unit == "bytes" else ""
    timed = time_of(source.first) is not None
    return Traffic(file.name, "log", size, units.unit, requests, note, timed, file=file)


def estimated(traffic: Traffic, text_bytes: int | None) -> Traffic:
    """Return traffic that is counted in bytes with every `text_bytes` of them counted as one token: an estimate.

    With `None`, nothing changes. Raises `ValueError` if it is counted in tokens, or if a block doesn't divide evenly.

    >>> from minikv.tokens import pack
    >>> from minikv.traffic import TraceRequest
    >>> found = estimated(Traffic("day.jsonl", "log", 64, "bytes", iter([TraceRequest(0, 130, 1, pack([1, 2]))])), 4)
    >>> str(found), next(found.requests).input_length
    ('day.jsonl: format log, blocks of 16 estimated tokens (4 bytes counted as a token)', 32)
    """
    if text_bytes is None:
        return traffic
    size = whole_number("text_bytes_per_token", text_bytes, 1, "a token has at least 1 byte")
    if traffic.unit != "bytes":
        raise ValueError(f"{traffic.name} is counted in tokens: leave --text-bytes-per-token out")
    if traffic.block_size % size:
        raise ValueError(f"a block of {traffic.block_size} bytes is not a whole number of tokens of {size} bytes")
    requests = (request._replace(input_length=request.input_length // size) for request in traffic.requests)
    note, blocks = f"{size} bytes counted as a token", traffic.block_size // size
    return replace(traffic, block_size=blocks, unit="estimated tokens", requests=requests, note=note)
