"""Traffic of real requests: what every command that measures a cache on a trace reads it through.

`open_traffic` recognises the format from the first line. Whatever the format, a request is a `TraceRequest`: when it
came, its lengths, and the ids of its prompt's blocks. Formats are in files of their own: `mooncake`, `agents`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from minikv.errors import bounded, shown
from minikv.files import FileName
from minikv.traffic.agents import MOST_HOURS, SPAN_HOURS, AgentSessions
from minikv.traffic.mooncake import BAILIAN_BLOCK, LARGEST_BLOCK, blocks_of, read_bailian, read_trace
from minikv.traffic.synthetic import SYNTHETIC, SYNTHETIC_BLOCK, synthetic
from minikv.traffic.trace_file import TraceError, TraceFile, TraceRequest, located, open_trace
from minikv.untrusted import float_field, int_field, json_object

__all__ = ["SPAN_HOURS", "TraceError", "TraceRequest", "Traffic", "open_traffic", "read_trace"]

_SAMPLE_LINES, _SAMPLE_BYTES = 100, 2**20
_GIVEN = "as --block-size says"
_MORE = "; minikv-tools reads logs of requests and other JSON: pip install minikv-tools"


@dataclass(frozen=True)
class Traffic:
    """An open trace: what it is, and its requests, which can be iterated once.

    `block_size` is what a block holds, in `unit`s: tokens, or bytes where there was no tokenizer. The requests come in
    the order of the trace, which is that of time in every published one. `timed` is false where the trace says
    nothing of time. `total` is the number of requests, where that is known before they are read; else `file` is
    what they are read from, line by line.
    """

    name: str
    format: str
    block_size: int
    unit: str
    requests: Iterator[TraceRequest]
    note: str = ""
    timed: bool = True
    total: int | None = None
    file: TraceFile | None = None

    def __str__(self) -> str:
        """The description of the format: a line for people.

        >>> str(Traffic("day.jsonl", "mooncake", 512, "tokens", iter(())))
        'day.jsonl: format mooncake, blocks of 512 tokens'
        """
        note = f" ({self.note})" if self.note else ""
        return f"{self.name}: format {self.format}, blocks of {self.block_size} {self.unit}{note}"


class TraceSource(NamedTuple):
    """A trace that has been opened, its first entry and a sample of its lines, and how it is to be read.

    `lines` are all of them from line `start` on; `salt` and `tokenizer` are for a log.
    """

    file: TraceFile
    first: dict[str, Any]
    sample: list[bytes]
    lines: Iterator[bytes]
    start: int
    span_hours: float
    block_size: int | None
    tokenizer: FileName | None
    salt: bytes


class Format(Protocol):
    """A format of another package, which names it, such as a module, as an entry point of the group `minikv.formats`.

    `EXPECTED` is what an error says that a line of it has.
    """

    EXPECTED: str

    def as_lines(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The requests of a file, each a line of JSON."""

    def recognizes(self, first: dict[str, Any]) -> bool:
        """Return whether a file with this first entry has the format."""

    def read(self, source: TraceSource) -> Traffic:
        """The requests of the file."""


@contextlib.contextmanager
def open_traffic(
    path: FileName,
    span_hours: float = SPAN_HOURS,
    block_size: int | None = None,
    tokenizer: FileName | None = None,
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
    name = os.fspath(path)
    if name.startswith(SYNTHETIC):
        _refuse_tokenizer(shown(name), tokenizer)
        yield _synthetic(name, block_size or SYNTHETIC_BLOCK)
        return
    with open_trace(name) as file:
        salt = os.urandom(16) if salt is None else salt
        yield _traffic(file, span_hours, block_size, tokenizer, salt)


def _refuse_tokenizer(name: str, tokenizer: FileName | None) -> None:
    if tokenizer is not None:
        raise ValueError(f"{name} has block ids already: a tokenizer is for a log of requests")


def _synthetic(name: str, size: int) -> Traffic:
    parameters, requests = synthetic(name, size)
    note = ", ".join(f"{key}={value:g}" for key, value in parameters.items())
    title = shown(name.partition("?")[0])
    return Traffic(title, "synthetic", size, "tokens", requests, note, total=int(parameters["requests"]))


class _Look(NamedTuple):
    """The number of the first line that is not blank, it and some that follow, and all lines from there on."""

    start: int
    sample: list[bytes]
    lines: Iterator[bytes]


def _look(lines: Iterable[bytes]) -> _Look:
    start, sample, total, rest = 1, list[bytes](), 0, iter(lines)
    for line in rest:
        if not sample and not line.strip():
            start += 1
            continue
        sample.append(line)
        total += len(line)
        if len(sample) == _SAMPLE_LINES or total > _SAMPLE_BYTES:
            break
    return _Look(start, sample, itertools.chain(sample, rest))


def _traffic(file: TraceFile, *how: Any) -> Traffic:
    """The traffic in a file, in a format that is known here, or in one of other packages."""
    look, others = _look(file), list[Format]()
    if _reader_of(look) is None:
        others = _other_formats()
        for other in others:
            look = _look(other.as_lines(itertools.chain(itertools.repeat(b"\n", look.start - 1), look.lines)))
    source = TraceSource(file, _first(file.name, look, others), look.sample, look.lines, look.start, *how)
    if (reader := _reader_of(look)) is not None:
        _refuse_tokenizer(file.name, source.tokenizer)
        return reader(source)
    for other in others:
        if other.recognizes(source.first):
            return other.read(source)
    keys = bounded(", ".join(source.first) or "none")
    known = ["hash_ids (Mooncake, Bailian)", "requests (sessions of agents)", *(other.EXPECTED for other in others)]
    expected = f"expected {', '.join(known)}{'' if others else _MORE}"
    raise TraceError(f"{file.name}, line {look.start}: no known format has the keys {keys}: {expected}")


def _reader_of(look: _Look) -> Callable[[TraceSource], Traffic] | None:
    """The reader of a trace that begins like this, if it is known here."""
    try:
        keys = json_object(look.sample[0], "the line").keys()
    except (IndexError, TypeError, ValueError):
        return None
    return next((read for tells, read in _FORMATS.items() if keys >= set(tells.split())), None)


def _first(name: str, look: _Look, others: list[Format]) -> dict[str, Any]:
    """The first entry of a trace; `TraceError` where there is none, or where it is no JSON object."""
    try:
        first = next(located(name, look.sample, lambda entry: entry, look.start), None)
    except TraceError as error:
        raise error if others else TraceError(f"{error}{_MORE}") from None
    if first is None:
        raise TraceError(f"{name} is empty: a trace has one request a line")
    return first


def _other_formats() -> list[Format]:
    from importlib.metadata import entry_points

    return [entry.load() for entry in entry_points(group="minikv.formats")]


def _of_mooncake(source: TraceSource) -> Traffic:
    file, start, read = source.file, source.start, list[TraceRequest]()
    with contextlib.suppress(TraceError):  # which is raised again where the requests are read
        read.extend(read_trace(source.sample))
    try:
        size, unit, note = blocks_of(source.first, read)
    except ValueError as error:
        raise TraceError(f"{file.name}, line {start}: {error}") from None
    if source.block_size is not None:
        size, note = source.block_size, _GIVEN
    requests, timed = read_trace(source.lines, file.name, start), source.first.get("timed") is not False
    return Traffic(file.name, "mooncake", size, unit, requests, note, timed, file=file)


def _of_bailian(source: TraceSource) -> Traffic:
    file, size = source.file, source.block_size
    note = "as Bailian has them" if size is None else _GIVEN
    requests = read_bailian(source.lines, file.name, source.start)
    return Traffic(file.name, "bailian", size or BAILIAN_BLOCK, "tokens", requests, note, file=file)


def _of_agents(source: TraceSource) -> Traffic:
    name = source.file.name
    sessions = AgentSessions(source.lines, name, source.span_hours, source.start)
    spread = f"the sessions begin evenly over {sessions.span_hours:g} h"
    count = f"{sessions.num_sessions:,} session{'s' if sessions.num_sessions > 1 else ''}"
    note = f"{count}, {len(sessions):,} requests; {spread}"
    return Traffic(name, "agents", sessions.block_size, "tokens", iter(sessions), note, total=len(sessions))


# By the keys of the first line that tell the format.
_FORMATS: dict[str, Callable[[TraceSource], Traffic]] = {
    "hash_ids chat_id": _of_bailian,
    "hash_ids": _of_mooncake,
    "timestamp input_length output_length": _of_mooncake,
    "block_size requests": _of_agents,
}
