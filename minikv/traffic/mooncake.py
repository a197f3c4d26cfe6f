"""Traces whose lines list the ids of their blocks: in the formats of Mooncake and of Alibaba Cloud's Bailian.

One JSON object per line, one line per request:

    {"timestamp": 27000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, 13, 14]}

`hash_ids` has one id for each block of the prompt; two prompts share an id exactly where they share everything up to
the end of that block. So a block id serves as a token, and a prefix of ids as a prefix. The published traces have
blocks of 512 tokens and an id for the last, partial block. Other writers of the format leave the partial block out,
have other blocks, and add the fields `session`, `block_size` and `unit`. Bailian's has blocks of 16 tokens, and chats:

    {"chat_id": 159, "parent_chat_id": 55, "timestamp": 61.114, "input_length": 521, "output_length": 132,
     "type": "text", "turn": 2, "hash_ids": [1089, 1090, 1091, 6326, 13148]}

There `timestamp` counts seconds. A request whose parent is -1 begins a conversation; any other one continues that of
its parent. (The format of alibaba-edu/qwen-bailian-usagetraces-anon, "KVCache Cache in the Wild", 2025.)
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

from minikv.errors import bounded
from minikv.tokens import TOKEN_LIMIT, PackedTokens, integers, pack
from minikv.traffic.trace_file import LARGEST, Conversations, TraceRequest, located, number_field
from minikv.untrusted import float_field, int_field

BLOCK_SIZE = 512  # tokens: what the published traces have
LARGEST_BLOCK = 2**20
UNITS = ("tokens", "bytes")
_SIZES = (BLOCK_SIZE, 16, 32, 64, 128, 256, 1024, 2048, 4096, 8, 4, 2, 1)


def read_trace(lines: Iterable[bytes | str], name: str = "trace", start: int = 1) -> Iterator[TraceRequest]:
    """Read a trace in Mooncake's format, holding one line at a time; blank lines are skipped.

    Raises `TraceError` with `name`, the line's number and the reason at the first line that is not a request; `start`
    is the number of the first line.

    >>> line = '{"timestamp": 0, "input_length": 900, "output_length": 20, "hash_ids": [0, 1]}'
    >>> next(read_trace([line])).blocks
    PackedTokens([0, 1])
    >>> list(read_trace([line, "{}"], name="t.jsonl"))
    Traceback (most recent call last):
    minikv.traffic.trace_file.TraceError: t.jsonl, line 2: there is no timestamp
    """
    if isinstance(lines, (str, bytes)) or not isinstance(lines, Iterable):
        raise TypeError(f"lines are {bounded(lines)}: expected the lines of a trace")
    conversation, said = Conversations(), dict[str, Any]()

    def request(entry: dict[str, Any]) -> TraceRequest:
        for key in ("block_size", "unit", "timed"):
            if entry.get(key) != said.setdefault(key, entry.get(key)):
                raise ValueError(f"{key} is {bounded(entry.get(key))}: the first line says {bounded(said[key])}")
        times = number_field(entry, "timestamp", fraction=True)
        lengths = number_field(entry, "input_length"), number_field(entry, "output_length")
        return TraceRequest(times, *lengths, block_ids(entry), conversation(entry.get("session")))

    return located(name, lines, request, start)


def block_ids(entry: dict[str, Any]) -> PackedTokens:
    """The ids of a line's blocks, its `hash_ids`: a list of integers in [0, 2**32), or a `ValueError` or `TypeError`.

    >>> block_ids({"hash_ids": [3, -1]})
    Traceback (most recent call last):
    ValueError: hash_ids[1] is -1: a block id is an integer in [0, 2**32)
    """
    if "hash_ids" not in entry:
        raise ValueError("there is no hash_ids")
    ids = entry["hash_ids"]
    if not isinstance(ids, list):
        raise ValueError(f"hash_ids is {bounded(ids)}: expected a list of block ids")
    if bool in map(type, ids):  # JSON's true and false are no ids, though Python would take them for 1 and 0
        at = list(map(type, ids)).index(bool)
        raise ValueError(f"hash_ids[{at}] is {ids[at]}: a block id is an integer in [0, 2**32)")
    integers(ids, "hash_ids", "a block id is an integer in [0, 2**32)", TOKEN_LIMIT)
    return pack(ids)


def blocks_of(first: dict[str, Any], sample: Iterable[TraceRequest]) -> tuple[int, str, str]:
    """The block size of a trace, its unit, and how both are known: from its `first` line, else from a `sample`.

    A prompt of n tokens in blocks of b has n/b ids, rounded up (with an id for a partial block) or down (without).
    The size that fits most of the sample is taken; of several, 512, and then the smallest from 16 on.

    >>> blocks_of({}, [TraceRequest(0, 1358, 121, pack(range(84)))])
    (16, 'tokens', 'as the number of ids says')
    >>> blocks_of({"block_size": 64, "unit": "bytes"}, [])
    (64, 'bytes', 'as the trace says')
    """
    unit = first.get("unit", "tokens")
    if unit not in UNITS:
        raise ValueError(f"unit is {bounded(unit)}: expected one of {', '.join(UNITS)}")
    if "block_size" in first:
        size = int_field("block_size", first["block_size"], "a block has at least 1 token", most=LARGEST_BLOCK)
        return size, unit, "as the trace says"
    lengths = [(request.input_length, len(request.blocks)) for request in sample if len(request.blocks)]
    fits = {size: sum(n // size == ids or -(-n // size) == ids for n, ids in lengths) for size in _SIZES}
    size = max(_SIZES, key=lambda size: fits[size])
    return size, unit, "as the number of ids says" if fits[size] else "as Mooncake has them; no size fits the ids"


def write_trace(requests: Iterable[TraceRequest], block_size: int, unit: str, timed: bool = True) -> Iterator[bytes]:
    r"""The lines of a trace in Mooncake's format, with the fields that say what a block is.

    A trace whose requests have no times says so. It reads back as the same requests.

    >>> request = TraceRequest(0, 900, 20, pack([0, 1]), conversation=7)
    >>> lines = list(write_trace([request], block_size=512, unit="tokens")); lines[0][-36:]
    b', "session": 7, "hash_ids": [0, 1]}\n'
    >>> list(read_trace(lines)) == [request._replace(conversation=0)]
    True
    """
    same: dict[str, Any] = {"block_size": block_size, "unit": unit, **({} if timed else {"timed": False})}
    for time, length, output, blocks, conversation in requests:
        stamp = int(time) if time == int(time) else time
        session = {} if conversation is None else {"session": conversation}
        entry = {"timestamp": stamp, "input_length": length, "output_length": output, **same, **session}
        yield json.dumps({**entry, "hash_ids": blocks.tolist()}).encode() + b"\n"


BAILIAN_BLOCK = 16  # tokens
_NONE = -1  # the parent of a request that begins a conversation
_MOST_SECONDS = 1e12


def read_bailian(lines: Iterable[bytes | str], name: str = "trace", start: int = 1) -> Iterator[TraceRequest]:
    """Read a trace in Bailian's format, holding one line at a time, and a number for each chat.

    A parent that the trace does not have begins a conversation, too: the trace is cut out of a longer time. Raises
    `TraceError` with `name`, the line's number and the reason at the first line that is not a request.

    >>> line = '{"chat_id": %d, "parent_chat_id": %d, "timestamp": 1.5, "input_length": 20, "output_length": 3}'
    >>> lines = [(line % chats).replace("}", ', "hash_ids": [7]}') for chats in ((1, -1), (2, -1), (3, 1))]
    >>> [(request.timestamp, request.conversation) for request in read_bailian(lines)]
    [(1500.0, 0), (1500.0, 1), (1500.0, 0)]
    """
    conversations, roots = dict[int, int](), itertools.count()  # of each chat: the conversation that it belongs to

    def request(entry: dict[str, Any]) -> TraceRequest:
        time = 1000.0 * float_field("timestamp", entry.get("timestamp"), least=0, most=_MOST_SECONDS)
        lengths = number_field(entry, "input_length"), number_field(entry, "output_length")
        chat, blocks = number_field(entry, "chat_id"), block_ids(entry)
        parent = int_field("parent_chat_id", entry.get("parent_chat_id", _NONE), "-1 or a chat", _NONE, LARGEST)
        known = None if parent == _NONE else conversations.get(parent)
        conversations[chat] = next(roots) if known is None else known
        return TraceRequest(time, *lengths, blocks, conversations[chat])

    return located(name, lines, request, start)
