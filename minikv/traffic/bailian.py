"""Traces of Alibaba Cloud's Bailian: one JSON object a line, one line a request, blocks of 16 tokens.

    {"chat_id": 159, "parent_chat_id": 55, "timestamp": 61.114, "input_length": 521, "output_length": 132,
     "type": "text", "turn": 2, "hash_ids": [1089, 1090, 1091, 6326, 13148]}

`timestamp` counts seconds. A request whose parent is -1 begins a conversation; any other one goes on with that of its
parent. (The format of alibaba-edu/qwen-bailian-usagetraces-anon, "KVCache Cache in the Wild", 2025.)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from minikv.traffic.mooncake import block_ids
from minikv.traffic.trace_request import LARGEST, TraceRequest, located, number_field
from minikv.untrusted import float_field, int_field, json_object

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

    def request(line: bytes | str) -> TraceRequest:
        entry = json_object(line, "the line")
        time = 1000.0 * float_field("timestamp", entry.get("timestamp"), least=0, most=_MOST_SECONDS)
        lengths = number_field(entry, "input_length"), number_field(entry, "output_length")
        chat, blocks = number_field(entry, "chat_id"), block_ids(entry)
        parent = int_field("parent_chat_id", entry.get("parent_chat_id", _NONE), "-1 or a chat", _NONE, LARGEST)
        known = None if parent == _NONE else conversations.get(parent)
        conversations[chat] = next(roots) if known is None else known
        return TraceRequest(time, *lengths, blocks, conversations[chat])

    return located(name, lines, request, start)
