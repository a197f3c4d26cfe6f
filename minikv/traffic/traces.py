"""Traffic of real requests: what every command that measures a cache on a trace reads it through.

`open_traffic` recognises the format from the first line. Whatever the format, a request is a `TraceRequest`: when it
came, its lengths, and the ids of its prompt's blocks. Formats are in files of their own: `mooncake`, `agents`,
`logs`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any, NamedTuple

from minikv.errors import bounded, shown
from minikv.traffic.agents import MOST_HOURS, SPAN_HOURS, AgentSessions
from minikv.traffic.bodies import is_body
from minikv.traffic.logs import RequestLog, time_of
from minikv.traffic.mooncake import BAILIAN_BLOCK, LARGEST_BLOCK, blocks_of, read_bailian, read_trace
from minikv.traffic.synthetic import SYNTHETIC, SYNTHETIC_BLOCK, synthetic
from minikv.traffic.trace_file import MOST_BLANK_LINES, TraceError, TraceFile, TraceRequest, located, open_trace
from minikv.traffic.units import Units
from minikv.untrusted import float_field, int_field, json_object, refusal

__all__ = ["SPAN_HOURS", "TraceError", "TraceRequest", "Traffic", "open_traffic", "read_trace"]

_SAMPLE_LINES, _SAMPLE_BYTES = 100, 2**20
_GIVEN = "as --block-size says"


def _unknown() -> float | None:
    return None


@dataclass(frozen=True)
class Traffic:
    """An open trace: what it is, and its requests, which can be iterated once.

    `block_size` is what a block holds, in `unit`s: tokens, or bytes where there was no tokenizer. The requests come in
    the order of the trace, which is that of time in every published one. `timed` is false where the trace says
    nothing of time. `fraction()` is the part of the requests that has been read, from 0 to 1; `None`: not known.
    """

    name: str
    format: str
    block_size: int
    unit: str
    requests: Iterator[TraceRequest]
    note: str = ""
    timed: bool = True
    fraction: Callable[[], float | None] = _unknown

    def __str__(self) -> str:
        """What is said of the format: a line for people.

        >>> str(Traffic("day.jsonl", "mooncake", 512, "tokens", iter(())))
        'day.jsonl: format mooncake, blocks of 512 tokens'
        """
        note = f" ({self.note})" if self.note else ""
        return f"{self.name}: format {self.format}, blocks of {self.block_size} {self.unit}{note}"


class _Reading(NamedTuple):
    """How a trace is to be read: what `open_traffic` was told."""

    span_hours: float
    block_size: int | None
    units: Units | None
    salt: bytes


class _Opened(NamedTuple):
    """A trace that has been opened: its first entry, a sample of its lines, and all of them from line `start` on."""

    file: TraceFile
    first: dict[str, Any]
    sample: list[bytes]
    lines: Iterator[bytes]
    start: int


@contextlib.contextmanager
def open_traffic(
    path: str | PathLike[str],
    span_hours: float = SPAN_HOURS,
    block_size: int | None = None,
    tokenizer: str | PathLike[str] | None = None,
    salt: bytes | None = None,
) -> Iterator[Traffic]:
    """Open a trace or a log of requests: a file, packed with gzip or not, `-` for standard input, or made-up traffic.

    The path of made-up traffic begins with `synthetic:` (see that module), such as `synthetic:chat?requests=500`.
    Sessions of agents, which have no start times, begin evenly over `span_hours`. `block_size` is for what does not
    say it. A log is cut into tokens by the `tokenizer` of a folder, else into bytes; `salt` is that of its block ids,
    a random one if it is left out. Raises `OSError` where the trace cannot be opened, `ValueError` for a wrong
    argument, and `TraceError`, here or while the requests are read, for what is not a request.

    >>> with open_traffic("synthetic:few-shot?requests=2&templates=1") as traffic:
    ...     print(traffic.format, traffic.block_size, traffic.unit, len(list(traffic.requests)))
    synthetic 16 tokens 2
    """
    if block_size is not None:
        block_size = int_field("block_size", block_size, "a block has at least 1 token", most=LARGEST_BLOCK)
    span_hours = float_field("span_hours", span_hours, least=0, most=MOST_HOURS)
    units = None if tokenizer is None else _units(tokenizer)
    reading = _Reading(span_hours, block_size, units, os.urandom(16) if salt is None else salt)
    name = fspath(path)
    if name.startswith(SYNTHETIC):
        yield _synthetic(name, reading)
        return
    with open_trace(name) as file:
        yield _traffic(_opened(file), reading)


def _synthetic(name: str, reading: _Reading) -> Traffic:
    if reading.units is not None:
        raise ValueError(f"{shown(name)} has block ids already: a tokenizer is for a log of requests")
    size, read = reading.block_size or SYNTHETIC_BLOCK, [0]
    parameters, requests = synthetic(name, size)

    def counted() -> Iterator[TraceRequest]:
        for request in requests:
            read[0] += 1
            yield request

    note = ", ".join(f"{key}={value:g}" for key, value in parameters.items())
    return Traffic(
        shown(name.partition("?")[0]),
        "synthetic",
        size,
        "tokens",
        counted(),
        note,
        fraction=lambda: read[0] / parameters["requests"],
    )


def _units(folder: str | PathLike[str]) -> Units:
    from minikv.serving.tokenizer import load_tokenizer  # the tokenizers library comes with an extra

    try:
        return Units(load_tokenizer(folder))
    except (OSError, ValueError) as error:
        raise refusal(f"{shown(fspath(folder))} has no tokenizer that can be read", error) from None


def _opened(file: TraceFile) -> _Opened:
    """Look at the first lines of a trace; `TraceError` where there is none, or where the first is no JSON object."""
    lines, start, sample, total = iter(file), 1, list[bytes](), 0
    for line in itertools.islice(lines, MOST_BLANK_LINES):
        if not sample and not line.strip():
            start += 1
            continue
        sample.append(line)
        total += len(line)
        if len(sample) == _SAMPLE_LINES or total > _SAMPLE_BYTES:
            break
    entries = located(file.name, sample, lambda line: json_object(line, "the line"), start)
    first = next(entries, None)
    if first is None:
        raise TraceError(f"{file.name} is empty: a trace has one request a line")
    return _Opened(file, first, sample, itertools.chain(sample, lines), start)


def _traffic(opened: _Opened, reading: _Reading) -> Traffic:
    first = opened.first
    for tells, read in _FORMATS.items():
        if first.keys() >= set(tells.split()):
            if reading.units is not None:
                raise ValueError(f"{opened.file.name} has block ids already: a tokenizer is for a log of requests")
            return read(opened, reading)
    if is_body(first):
        return _of_log(opened, reading)
    keys = bounded(", ".join(first) or "none")
    expected = "expected hash_ids (Mooncake, Bailian), requests (sessions of agents), messages or prompt (a log)"
    raise TraceError(
        f"{opened.file.name}, line {opened.start}: no format is known that has the keys {keys}: {expected}"
    )


def _of_mooncake(opened: _Opened, reading: _Reading) -> Traffic:
    file, start, read = opened.file, opened.start, list[TraceRequest]()
    with contextlib.suppress(TraceError):  # which is raised again where the requests are read
        read.extend(read_trace(opened.sample))
    try:
        size, unit, note = blocks_of(opened.first, read)
    except ValueError as error:
        raise TraceError(f"{file.name}, line {start}: {error}") from None
    if reading.block_size is not None:
        size, note = reading.block_size, _GIVEN
    requests, timed = read_trace(opened.lines, file.name, start), opened.first.get("timed") is not False
    return Traffic(file.name, "mooncake", size, unit, requests, note, timed, file.fraction)


def _of_bailian(opened: _Opened, reading: _Reading) -> Traffic:
    file, size = opened.file, reading.block_size
    note = "as Bailian has them" if size is None else _GIVEN
    requests = read_bailian(opened.lines, file.name, opened.start)
    return Traffic(file.name, "bailian", size or BAILIAN_BLOCK, "tokens", requests, note, fraction=file.fraction)


def _of_agents(opened: _Opened, reading: _Reading) -> Traffic:
    name = opened.file.name
    sessions = AgentSessions(opened.lines, name, reading.span_hours, opened.start)
    spread = f"the sessions begin evenly over {sessions.span_hours:g} h"
    count = f"{sessions.num_sessions:,} session{'s' if sessions.num_sessions > 1 else ''}"
    note = f"{count}, {len(sessions):,} requests; {spread}"
    return Traffic(name, "agents", sessions.block_size, "tokens", iter(sessions), note, fraction=sessions.fraction)


def _of_log(opened: _Opened, reading: _Reading) -> Traffic:
    file, units = opened.file, reading.units or Units()
    size = reading.block_size or units.block_size
    requests = iter(RequestLog(opened.lines, units, size, file.name, opened.start, reading.salt))
    note = "bytes of UTF-8: no tokenizer was given" if reading.units is None else ""
    timed = time_of(opened.first) is not None
    return Traffic(file.name, "log", size, units.unit, requests, note, timed, file.fraction)


# By the keys of the first line that tell the format; a line with none of them may be one of a log.
_FORMATS: dict[str, Callable[[_Opened, _Reading], Traffic]] = {
    "hash_ids chat_id": _of_bailian,
    "hash_ids": _of_mooncake,
    "timestamp input_length output_length": _of_mooncake,
    "block_size requests": _of_agents,
}
