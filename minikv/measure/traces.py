"""Traces of real requests, in Mooncake's format: one JSON object a line.

    {"timestamp": 27000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, 13, 14]}

`hash_ids` has one id for each block of the prompt (512 tokens there); two prompts share an id exactly where they
share everything up to the end of that block. So a block id serves as a token, and a prefix of ids as a prefix.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from minikv.errors import bounded
from minikv.tokens import TOKEN_LIMIT, PackedTokens, integers, pack
from minikv.untrusted import json_object

LONGEST_LINE = 2**24  # bytes: two million blocks, or a prompt of a billion tokens
_NUMBERS = ("timestamp", "input_length", "output_length")


_LARGEST = 2**53  # up to which a float holds every integer


class TraceError(ValueError):
    """A line of a trace that is not a request; the message says where and why."""


class TraceRequest(NamedTuple):
    """One request of a trace: when it came (ms), its lengths in tokens, and its prompt's blocks, packed."""

    timestamp: float
    input_length: int
    output_length: int
    blocks: PackedTokens


def trace_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of an open file, none of which takes more memory than a request could: a longer one comes in pieces.

    >>> import io
    >>> list(trace_lines(io.BytesIO(b"one\\ntwo")))
    [b'one\\n', b'two']
    """
    return iter(functools.partial(file.readline, LONGEST_LINE + 1), b"")


def read_trace(lines: Iterable[bytes | str], name: str = "trace") -> Iterator[TraceRequest]:
    """Read a trace line by line, holding one line at a time; blank lines are skipped.

    Raises `TraceError` with `name`, the line's number and the reason at the first line that is not a request.

    >>> line = '{"timestamp": 0, "input_length": 900, "output_length": 20, "hash_ids": [0, 1]}'
    >>> next(read_trace([line])).blocks
    PackedTokens([0, 1])
    >>> list(read_trace([line, "{}"], name="t.jsonl"))
    Traceback (most recent call last):
    minikv.measure.traces.TraceError: t.jsonl, line 2: there is no timestamp
    """
    if isinstance(lines, (str, bytes)) or not isinstance(lines, Iterable):
        raise TypeError(f"lines are {bounded(lines)}: expected the lines of a trace")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _parse(line)
        except (TypeError, ValueError) as error:
            raise TraceError(f"{name}, line {number}: {error}") from None


def _parse(line: bytes | str) -> TraceRequest:
    if len(line) > LONGEST_LINE:
        raise ValueError(f"the line has over {LONGEST_LINE} bytes: expected a request of fewer")
    entry = json_object(line, "the line")
    for key in (*_NUMBERS, "hash_ids"):
        if key not in entry:
            raise ValueError(f"there is no {key}")
    for key in _NUMBERS:
        value = entry[key]
        whole = isinstance(value, int) or (key == "timestamp" and isinstance(value, float))
        if not whole or isinstance(value, bool) or not 0 <= value <= _LARGEST:
            raise ValueError(f"{key} is {bounded(value)}: expected a number from 0 to 2**53")
    ids = entry["hash_ids"]
    if not isinstance(ids, list):
        raise ValueError(f"hash_ids is {bounded(ids)}: expected a list of block ids")
    if bool in map(type, ids):  # JSON's true and false are no ids, though Python would take them for 1 and 0
        at = list(map(type, ids)).index(bool)
        raise ValueError(f"hash_ids[{at}] is {ids[at]}: a block id is an integer in [0, 2**32)")
    integers(ids, "hash_ids", "a block id is an integer in [0, 2**32)", TOKEN_LIMIT)
    return TraceRequest(entry["timestamp"], entry["input_length"], entry["output_length"], pack(ids))
