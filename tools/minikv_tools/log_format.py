"""Logs of requests, as a format that every command reads which reads traces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from minikv.traffic.traces import TraceSource, Traffic
from minikv_tools.bodies import is_body, read_body
from minikv_tools.exports import request_lines
from minikv_tools.logs import read_log, time_of, units_for, units_of

EXPECTED = "messages or prompt (a log)"


def as_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The requests of a file as lines of JSON, whatever an export made of them.

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
