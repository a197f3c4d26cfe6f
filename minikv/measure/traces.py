"""Traffic of real requests: what every command that measures a cache on a trace reads it through.

`open_traffic` recognises the format from the first line. Whatever the format, a request is a `TraceRequest`: when it
came, its lengths, and the ids of its prompt's blocks. Formats are in files of their own: `mooncake`, `agents`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

from minikv.errors import bounded, whole_number
from minikv.measure.agents import SPAN_HOURS, AgentSessions
from minikv.measure.mooncake import LARGEST_BLOCK, blocks_of, read_trace
from minikv.measure.trace_file import TraceFile, open_trace
from minikv.measure.trace_request import TraceError, TraceRequest, located
from minikv.untrusted import json_object

__all__ = ["SPAN_HOURS", "TraceError", "TraceRequest", "Traffic", "open_traffic", "read_trace"]

_SAMPLE_LINES, _SAMPLE_BYTES = 100, 2**20


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


@contextlib.contextmanager
def open_traffic(
    path: str | PathLike[str], span_hours: float = SPAN_HOURS, block_size: int | None = None
) -> Iterator[Traffic]:
    """Open a trace: a file, packed with gzip or not, or `-` for standard input.

    Sessions of agents, which have no start times, begin evenly over `span_hours`. `block_size` is for traces that do
    not say it. Raises `OSError` where the trace cannot be opened, and `TraceError`, here or while the requests are
    read, for what is not a request; a trace without a request is one, too.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "day.jsonl")
    >>> with open(path, "w") as file:
    ...     _ = file.write('{"timestamp": 0, "input_length": 900, "output_length": 20, "hash_ids": [0, 1]}')
    >>> with open_traffic(path) as traffic:
    ...     traffic.format, traffic.block_size, traffic.unit, next(traffic.requests).blocks.tolist()
    ('mooncake', 512, 'tokens', [0, 1])
    """
    if block_size is not None:
        block_size = whole_number("block_size", block_size, 1, f"a block has from 1 to {LARGEST_BLOCK} tokens")
        if block_size > LARGEST_BLOCK:
            raise ValueError(f"block_size is {block_size}: a block has from 1 to {LARGEST_BLOCK} tokens")
    if not 0 <= span_hours <= 1e6:
        raise ValueError(f"span_hours is {span_hours}: expected a number from 0 to 1,000,000")
    with open_trace(fspath(path)) as file:
        yield _traffic(file, span_hours, block_size)


def _traffic(file: TraceFile, span_hours: float, block_size: int | None) -> Traffic:
    lines = iter(file)
    start, sample = _first_lines(lines)
    entries = located(file.name, sample, lambda line: json_object(line, "the line"), start)
    first = next(entries, None)
    if first is None:
        raise TraceError(f"{file.name} is empty: a trace has one request a line")
    every = itertools.chain(sample, lines)
    if "requests" in first and "hash_ids" not in first:
        return _of_agents(AgentSessions(every, file.name, span_hours, start), file.name)
    if {"hash_ids", "timestamp"} & first.keys():
        return _of_mooncake(first, sample, every, file, start, block_size)
    keys = ", ".join(first) or "none"
    expected = "expected hash_ids (Mooncake) or requests (sessions of agents)"
    raise TraceError(f"{file.name}, line {start}: no format is known that has the keys {bounded(keys)}: {expected}")


def _first_lines(lines: Iterator[bytes]) -> tuple[int, list[bytes]]:
    """The number of the first line that is not blank, and a sample from it on, as far as the lines are short."""
    start, sample, total = 1, list[bytes](), 0
    for line in lines:
        if not sample and not line.strip():
            start += 1
            continue
        sample.append(line)
        total += len(line)
        if len(sample) == _SAMPLE_LINES or total > _SAMPLE_BYTES:
            break
    return start, sample


def _of_mooncake(
    first: dict[str, Any], sample: list[bytes], lines: Iterable[bytes], file: TraceFile, start: int, given: int | None
) -> Traffic:
    read = list[TraceRequest]()
    with contextlib.suppress(TraceError):  # which is raised again where the requests are read
        read.extend(read_trace(sample))
    try:
        size, unit, note = blocks_of(first, read)
    except ValueError as error:
        raise TraceError(f"{file.name}, line {start}: {error}") from None
    if given is not None:
        size, note = given, "as --block-size says"
    return Traffic(file.name, "mooncake", size, unit, read_trace(lines, file.name, start), note, fraction=file.fraction)


def _of_agents(sessions: AgentSessions, name: str) -> Traffic:
    size, hours = sessions.block_size, sessions.span_hours
    note = f"{sessions.num_sessions:,} sessions, {len(sessions):,} requests; the sessions begin evenly over {hours:g} h"
    return Traffic(name, "agents", size, "tokens", iter(sessions), note, fraction=sessions.fraction)
