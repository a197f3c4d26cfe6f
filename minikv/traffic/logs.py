"""Logs of requests: one JSON object a line, with the whole prompt of each request in it.

An object is a body as the common APIs take it (`messages` with `tools`, `system` beside `messages`, a plain `prompt`),
or holds one. What else it says is used where it is there: the time, the conversation, the tokens of the answer. Two
prompts share blocks only in the same namespace: of one model, with one salt (see `bodies`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from minikv.traffic.block_ids import BlockIds
from minikv.traffic.bodies import read_body
from minikv.traffic.log_fields import conversation_of, time_of
from minikv.traffic.trace_request import LARGEST, Conversations, TraceRequest, located
from minikv.traffic.units import Units
from minikv.untrusted import json_object

_ANSWERS = ("completion_tokens", "output_tokens")
_DEEPEST = 3


class RequestLog:
    """A log as a stream of requests, each with the ids of its prompt's whole blocks; iterate it once.

    `block_size` counts `units`. Times are relative to the first request's, and never below 0; a line that does not say
    when it came has the time of the one before. Raises `TraceError` at the first line that is not a request.

    >>> lines = ['{"prompt": "aabb", "time": 5}', '{"prompt": "aabbcc", "time": 7, "session_id": "s"}']
    >>> for request in RequestLog(lines, Units(), block_size=2):
    ...     print(request.timestamp, request.input_length, request.blocks.tolist(), request.conversation)
    0.0 4 [0, 1] None
    2000.0 6 [0, 1, 2] 0
    """

    def __init__(
        self,
        lines: Iterable[bytes | str],
        units: Units,
        block_size: int,
        name: str = "log",
        start: int = 1,
        salt: bytes = b"",
    ):
        self._requests = located(name, lines, self._request, start)
        self._units, self._stride = units, block_size * units.width
        self._ids, self._conversation = BlockIds(salt), Conversations()
        self._begin: float | None = None
        self._time = 0.0

    def __iter__(self) -> Iterator[TraceRequest]:
        return self._requests

    def _request(self, line: bytes | str) -> TraceRequest:
        entry = json_object(line, "the line")
        body = read_body(entry)
        units = self._units.packed(piece.text for piece in body.pieces)
        blocks = self._ids.of(units, self._stride, body.namespace)
        length = len(units) // self._units.width
        conversation = self._conversation(conversation_of(entry))
        return TraceRequest(self._stamp(entry), length, answer_tokens(entry), blocks, conversation)

    def _stamp(self, entry: Mapping[str, Any]) -> float:
        """The time of a request in milliseconds after the first one's."""
        if (time := time_of(entry)) is not None:
            self._begin = time if self._begin is None else self._begin
            self._time = max(0.0, time - self._begin)
        return self._time


def answer_tokens(entry: Mapping[str, Any], depth: int = _DEEPEST) -> int:
    """The tokens of the answer, where a log says them (`usage`, itself or in a `response`), else 0.

    >>> answer_tokens({"prompt": "Hi", "response": {"usage": {"completion_tokens": 7}}})
    7
    """
    for key in _ANSWERS:
        value = entry.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
            return value
    inner = (
        [entry[key] for key in ("usage", "response", "body") if isinstance(entry.get(key), Mapping)] if depth else []
    )
    return next(filter(None, (answer_tokens(value, depth - 1) for value in inner)), 0)
