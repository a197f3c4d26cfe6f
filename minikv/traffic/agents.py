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
from typing import Any

import numpy as np

from minikv.errors import bounded
from minikv.tokens import TOKEN_BYTES, TOKEN_LIMIT, PackedTokens
from minikv.traffic.mooncake import LARGEST_BLOCK
from minikv.traffic.trace_file import LARGEST, MOST_BLOCKS, TraceError, TraceRequest, located
from minikv.untrusted import float_field, int_field, json_object

SPAN_HOURS, MOST_HOURS = 8.0, 1e6
MOST_REQUESTS = 10**7  # of all sessions, which are held at once
MOST_TRACE_BLOCKS = 2**34  # of all requests: a short line can name very many
_HOUR = 3_600_000.0  # ms


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
        self.block_size = self.num_sessions = self._read = self._num_blocks = 0
        self._bases = [0]  # of each session: what is added to its ids; and of the next one
        self._times, self._runs = array("d"), array("I")  # first, count, first, count, ...
        self._sizes, self._sessions = array("q"), array("I")  # input, output, shared, and the end of its runs
        for _ in located(name, lines, self._add, start):
            pass
        if not self.num_sessions:
            raise TraceError(f"{name} is empty: a trace has one session a line")
        starts = np.array(self._sessions, np.float64) / self.num_sessions * (self.span_hours * _HOUR)
        self._stamps = starts + 1000 * np.array(self._times)

    def __len__(self) -> int:
        return len(self._times)

    def fraction(self) -> float:
        """The part of the requests that has been read, from 0 to 1."""
        return self._read / len(self) if len(self) else 1.0

    def _add(self, line: bytes | str) -> None:
        """Store one session."""
        entry = json_object(line, "the line")
        size = int_field("block_size", entry.get("block_size"), "a block has at least 1 token", most=LARGEST_BLOCK)
        if size != (self.block_size or size):
            raise ValueError(f"block_size is {size}: the first session has {self.block_size}")
        requests = entry.get("requests")
        if not isinstance(requests, list):
            raise ValueError(f"requests is {bounded(requests)}: expected a list of requests")
        if len(self) + len(requests) > MOST_REQUESTS:
            raise ValueError(f"the trace has over {MOST_REQUESTS} requests: expected fewer")
        self._bases.append(self._bases[-1] + self._add_requests(requests))
        if self._bases[-1] > TOKEN_LIMIT or self._num_blocks > MOST_TRACE_BLOCKS:
            raise ValueError("the sessions have over 2**32 block ids, or 2**34 blocks: expected fewer")
        self.block_size, self.num_sessions = size, self.num_sessions + 1

    def _add_requests(self, requests: list[Any]) -> int:
        """Store the requests of one session; returns one more than its largest block id."""
        num_blocks, time, end = 0, 0.0, 0
        for at, request in enumerate(requests):
            try:
                if not isinstance(request, list) or len(request) < 5:
                    raise ValueError(f"{bounded(request)} is not a list [t, input, output, shared, new, ...]")
                seconds, *sizes, new = request[:5]
                if float_field("t", seconds, least=0, most=1e9) < time:
                    raise ValueError(f"t is {seconds}: the request before it has {time}")
                shared = self._add_sizes(num_blocks, *sizes)
                count, highest = self._add_runs(new, most=MOST_BLOCKS - shared)
            except ValueError as error:
                raise ValueError(f"requests[{at}]: {error}") from None
            num_blocks, time, end = shared + count, seconds, max(end, highest)
            self._num_blocks += num_blocks
            self._times.append(time)
            self._sizes.append(len(self._runs))
            self._sessions.append(self.num_sessions)
        return end

    def _add_sizes(self, before: int, length: Any, output: Any, shared: Any) -> int:
        """Store the three sizes of a request; returns the blocks that it shares with the one before it."""
        for name, value in (("input", length), ("output", output)):
            self._sizes.append(int_field(name, value, "a length is at least 0", 0, LARGEST))
        rule = f"the request before has blocks 0 to {before}"
        found = int_field("shared", shared, rule, 0, before)
        self._sizes.append(found)
        return found

    def _add_runs(self, runs: Any, most: int) -> tuple[int, int]:
        """Store the new blocks of a request, `most` at most; returns how many, and one more than the largest id."""
        if not isinstance(runs, list):
            raise ValueError(f"new is {bounded(runs)}: expected a list of runs [first, count]")
        total = highest = 0
        for run in runs:
            if not isinstance(run, list) or len(run) != 2:
                raise ValueError(f"{bounded(run)} is not a run [first, count]")
            first = int_field("first", run[0], "a block id is an integer in [0, 2**32)", 0, TOKEN_LIMIT - 1)
            count = int_field("count", run[1], "a run has at least 1 block", 1, TOKEN_LIMIT - first)
            total, highest = total + count, max(highest, first + count)
            if total > most:
                raise ValueError(f"it has over {MOST_BLOCKS} blocks: expected fewer")
            self._runs.extend((first, count))
        return total, highest

    def __iter__(self) -> Iterator[TraceRequest]:
        """The requests, merged; those of one session keep their order."""
        before: dict[int, bytes] = {}  # of each session: the blocks of its latest request
        for at in np.argsort(self._stamps, kind="stable").tolist():
            session = self._sessions[at]
            length, output, shared, end = self._sizes[4 * at : 4 * at + 4]
            begin = self._sizes[4 * at - 1] if at else 0
            data = before.get(session, b"")[: TOKEN_BYTES * shared] + self._new_ids(begin, end, self._bases[session])
            last = at + 1 == len(self) or self._sessions[at + 1] != session
            if last:
                before.pop(session, None)
            else:
                before[session] = data
            self._read += 1
            yield TraceRequest(float(self._stamps[at]), length, output, PackedTokens(data), session)

    def _new_ids(self, begin: int, end: int, base: int) -> bytes:
        runs = zip(self._runs[begin:end:2], self._runs[begin + 1 : end : 2])
        return b"".join(
            (np.arange(count, dtype=np.uint32) + np.uint32(base + first)).tobytes() for first, count in runs
        )
