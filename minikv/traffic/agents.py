"""Sessions of agents: one JSON object per line, one line per session, block ids local to the session.

    {"block_size": 64, "requests": [[0.0, 71175, 169, 0, [[1, 1112]], 7.34, 0.0], [19.0, 72762, 296, 1112, ...], ...]}

A request is `[t, input, output, shared, new, ...]`: seconds since the session began, tokens in, tokens out, how many
blocks from the start are those of the session's previous request, and the ids after them as runs `[first, count]`.
The sessions have no start times. So it is an assumption how they overlap: session k of n begins at k/n of a span.
(The format of 692 sessions made from callanjfox/kv-cache-tester.)
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from minikv.errors import bounded
from minikv.tokens import TOKEN_BYTES, TOKEN_LIMIT, PackedTokens
from minikv.traffic.mooncake import LARGEST_BLOCK
from minikv.traffic.trace_file import LARGEST, MOST_BLOCKS, TraceRequest, located
from minikv.untrusted import float_field, int_field

SPAN_HOURS, MOST_HOURS = 8.0, 1e6
MOST_REQUESTS = 10**7  # of all sessions, which are held at once
MOST_TRACE_BLOCKS = 2**34  # of all requests: a short line can name very many
_HOUR = 3_600_000.0  # ms


class _Call(NamedTuple):
    """A request of a session: its time in seconds, its lengths, the blocks that it shares, and its new blocks.

    `runs` has the first id and the count of each run of new blocks, one after the other.
    """

    seconds: float
    length: int
    output: int
    shared: int
    runs: array[int]


class AgentSessions:
    """All sessions of a trace, to be iterated as one stream of requests in the order of time, session, position.

    Each session gets a range of block ids of its own. `len` counts requests; `num_sessions` and `block_size` are the
    trace's. Raises `TraceError` with `name` and the line at the first line that is not a session.

    >>> line = '{"block_size": 64, "requests": [[0, 128, 9, 0, [[1, 2]]], [5, 200, 9, 1, [[7, 1], [9, 1]]]]}'
    >>> for request in AgentSessions([line, line], span_hours=1):
    ...     print(request.timestamp, request.conversation, request.blocks.tolist())
    0.0 0 [1, 2]
    5000.0 0 [1, 7, 9]
    1800000.0 1 [11, 12]
    1805000.0 1 [11, 17, 19]
    """

    def __init__(
        self, lines: Iterable[bytes | str], name: str = "trace", span_hours: float = SPAN_HOURS, start: int = 1
    ):
        self.span_hours = float_field("span_hours", span_hours, least=0, most=MOST_HOURS)
        self.block_size = self._num_requests = self._num_blocks = 0
        self._bases = [0]  # of each session: what is added to its ids; and of the next one
        self._sessions: list[list[_Call]] = []
        for _ in located(name, lines, self._add, start):
            pass

    @property
    def num_sessions(self) -> int:
        """Return how many sessions there are."""
        return len(self._sessions)

    def __len__(self) -> int:
        return self._num_requests

    def _add(self, entry: dict[str, Any]) -> None:
        """Store one session."""
        size = int_field("block_size", entry.get("block_size"), "a block has at least 1 token", most=LARGEST_BLOCK)
        if size != (self.block_size or size):
            raise ValueError(f"block_size is {size}: the first session has {self.block_size}")
        self.block_size, requests = size, entry.get("requests")
        if not isinstance(requests, list):
            raise ValueError(f"requests is {bounded(requests)}: expected a list of requests")
        self._num_requests += len(requests)
        if self._num_requests > MOST_REQUESTS:
            raise ValueError(f"the trace has over {MOST_REQUESTS} requests: expected fewer")
        calls, num_blocks, seconds = list[_Call](), 0, 0.0
        for at, request in enumerate(requests):
            try:
                calls.append(_call(request, seconds, num_blocks))
            except ValueError as error:
                raise ValueError(f"requests[{at}]: {error}") from None
            seconds, num_blocks = calls[-1].seconds, calls[-1].shared + sum(calls[-1].runs[1::2])
            self._num_blocks += num_blocks
        self._sessions.append(calls)
        ends = (sum(run) for call in calls for run in zip(call.runs[::2], call.runs[1::2]))
        self._bases.append(self._bases[-1] + max(ends, default=0))
        if self._bases[-1] > TOKEN_LIMIT or self._num_blocks > MOST_TRACE_BLOCKS:
            raise ValueError("the sessions have over 2**32 block ids, or 2**34 blocks: expected fewer")

    def __iter__(self) -> Iterator[TraceRequest]:
        """The requests, merged; those of one session keep their order."""
        latest: dict[int, bytes] = {}  # of each session that continues: the blocks of its latest request
        apart = self.span_hours * _HOUR
        calls = (
            (number / self.num_sessions * apart + 1000 * call.seconds, number, at)
            for number, session in enumerate(self._sessions)
            for at, call in enumerate(session)
        )
        for time, number, at in sorted(calls):
            session = self._sessions[number]
            _, length, output, shared, runs = session[at]
            data = latest.pop(number, b"")[: TOKEN_BYTES * shared] + _new_ids(runs, self._bases[number])
            if at + 1 < len(session):
                latest[number] = data
            yield TraceRequest(time, length, output, PackedTokens(data), number)


def _call(request: Any, earliest: float, before: int) -> _Call:
    """A request of a session, which comes not before `earliest`, after one of `before` blocks."""
    if not isinstance(request, list) or len(request) < 5:
        raise ValueError(f"{bounded(request)} is not a list [t, input, output, shared, new, ...]")
    seconds, length, output, shared, new = request[:5]
    if float_field("t", seconds, least=0, most=1e9) < earliest:
        raise ValueError(f"t is {seconds}: the request before it has {earliest}")
    for name, value in (("input", length), ("output", output)):
        int_field(name, value, "a length is at least 0", 0, LARGEST)
    int_field("shared", shared, f"the request before has blocks 0 to {before}", 0, before)
    return _Call(seconds, length, output, shared, _runs(new, most=MOST_BLOCKS - shared))


def _runs(runs: Any, most: int) -> array[int]:
    """The runs of a request's new blocks, which are `most` at most."""
    if not isinstance(runs, list):
        raise ValueError(f"new is {bounded(runs)}: expected a list of runs [first, count]")
    found, total = array("I"), 0
    for run in runs:
        if not isinstance(run, list) or len(run) != 2:
            raise ValueError(f"{bounded(run)} is not a run [first, count]")
        first = int_field("first", run[0], "a block id is an integer in [0, 2**32)", 0, TOKEN_LIMIT - 1)
        count = int_field("count", run[1], "a run has at least 1 block", 1, TOKEN_LIMIT - first)
        if (total := total + count) > most:
            raise ValueError(f"it has over {MOST_BLOCKS} blocks: expected fewer")
        found.extend((first, count))
    return found


def _new_ids(runs: array[int], base: int) -> bytes:
    pairs = zip(runs[::2], runs[1::2])
    return b"".join((np.arange(count, dtype=np.uint32) + np.uint32(base + first)).tobytes() for first, count in pairs)
