"""What each request could reuse, found in one pass, and from it the hit rate of every cache size at once.

The least recently used pages leave in one fixed order: longest unused first, and of those that were used together the
deepest first. A cache of C blocks that evicts by pages therefore always holds the first C blocks of one list, in which
a later use comes before an earlier one, and of one request's blocks the shallow come before the deep. A request locks
its path, the rest moves down by as much as is new, and what is pushed past C is gone: so the list does not depend on C,
and a larger cache always holds what a smaller one does. (Mattson's stack, 1970, for a tree instead of pages.)

So a block is a hit exactly when its place in the list is at most C. Every use of a block is a use of its parent, so
along a prompt the last uses only get older. The prompt falls into few *segments*, each the end of what is left of one
earlier request:

    request 9      [ last used by 8 )[ last used by 3      )[ new ...
    depth          0                 40                     96

With W blocks used after request 3, the blocks of the second segment have the places W + 1, W + 2, ... W + 56: one
number for a segment, and no work for a block.

A request larger than the cache is served without it, so it uses nothing. Below the longest request each size therefore
has a pass of its own, over the requests that fit; from there on one pass serves all sizes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from minikv.errors import whole_number
from minikv.traffic.replay import Replay
from minikv.traffic.trace_tree import ROOT, TraceTree

Column = np.ndarray[Any, np.dtype[np.int64]]
_COLUMNS = 5


@dataclass(frozen=True, eq=False)
class Reuse:
    """Every reuse in a trace: request `users[i]` reuses depths [`starts[i]`, `stops[i]`), last used by `sources[i]`.

    `newer[i]` is how many blocks had been used since then. Requests are numbered from 0, in order, and so are their
    segments; `lengths` has the blocks of each request, and 0 where it was larger than the cache.

    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> tree = TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in ([1, 2, 3], [7], [1, 2], [1, 2, 3]))
    >>> for row in zip(*(column.tolist() for column in reuse_in(tree).columns)): print(row)
    (2, 0, 0, 2, 1)
    (3, 0, 2, 3, 3)
    (3, 2, 0, 2, 0)
    """

    users: Column
    sources: Column
    starts: Column
    stops: Column
    newer: Column
    lengths: Column

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table of segments."""
        return self.users, self.sources, self.starts, self.stops, self.newer

    def found(self, capacity: int | None = None, kept: np.ndarray[Any, Any] | None = None) -> Column:
        """The blocks that each request finds in a cache of `capacity` blocks (`None`: unlimited).

        `kept` says of each segment whether it is still there for another reason, such as its age.
        """
        blocks = self.stops - self.starts
        if capacity is not None:
            blocks = np.clip(capacity - self.newer, 0, blocks)
        if kept is not None:
            blocks = np.where(kept, blocks, 0)
        return np.bincount(self.users, blocks, len(self.lengths)).astype(np.int64)  # exact: floats below 2**53


def reuse_in(tree: TraceTree, largest: int | None = None) -> Reuse:
    """Every reuse of the requests that have at most `largest` blocks (`None`: of all), in one pass."""
    depths, last_use = tree.depths, [-1] * len(tree.parents)
    lengths = np.array(tree.lengths, np.int64)
    if largest is not None:
        lengths[lengths > largest] = 0
    held, table = _BlocksByLastUse(len(lengths)), array("q")
    for user, node in enumerate(tree.ends):
        if lengths[user]:
            segments = list(_use(tree.parents, depths, last_use, node, user))
            for source, start, stop in segments:
                table.extend((user, source, start, stop, held.later_than(source)))
            for source, start, stop in segments:
                held.add(source, start - stop)
            held.add(user, depths[node])
    columns = np.frombuffer(table, np.int64).reshape(-1, _COLUMNS).T if table else np.zeros((_COLUMNS, 0), np.int64)
    users, sources, starts, stops, newer = map(np.ascontiguousarray, columns)
    return Reuse(users, sources, starts, stops, newer, lengths)


def _use(
    parents: list[int], depths: list[int], last_use: list[int], node: int, user: int
) -> Iterator[tuple[int, int, int]]:
    """Mark the path up from `node` as used by `user`; yields the segments that others had used, deepest first."""
    source, stop = -1, 0
    while node != ROOT:
        if (before := last_use[node]) != source:
            if source >= 0:
                yield source, depths[node], stop
            source, stop = before, depths[node]
        last_use[node] = user
        node = parents[node]
    if source >= 0:
        yield source, 0, stop


class _BlocksByLastUse:
    """How many blocks were last used by each request, and by all later ones: a Fenwick tree over the requests."""

    def __init__(self, num_requests: int):
        self._sums, self._total = [0] * (num_requests + 1), 0

    def add(self, request: int, blocks: int) -> None:
        sums, at = self._sums, request + 1
        self._total += blocks
        while at < len(sums):
            sums[at] += blocks
            at += at & -at

    def later_than(self, request: int) -> int:
        sums, at, earlier = self._sums, request + 1, 0
        while at:
            earlier += sums[at]
            at &= at - 1
        return self._total - earlier


class ReuseBySize:
    """The reuse that a cache of each size sees: one pass for all sizes that hold the longest request.

    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> sizes = ReuseBySize(TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in ([1, 2, 3], [1, 2], [1, 2, 3])))
    >>> [int(sizes.at(capacity).found(capacity).sum()) for capacity in (1, 2, 3, None)]
    [0, 0, 5, 5]
    """

    def __init__(self, tree: TraceTree):
        self.tree = tree
        self._sorted = sorted(set(tree.lengths))
        self._last: tuple[int | None, Reuse] | None = None

    def at(self, capacity: int | None = None) -> Reuse:
        """The reuse among the requests that fit in `capacity` blocks; the last answer is kept."""
        largest: int | None = None
        if capacity is not None and (fits := bisect_right(self._sorted, capacity)) < len(self._sorted):
            largest = self._sorted[fits - 1] if fits else 0
        if self._last is None or self._last[0] != largest:
            self._last = largest, reuse_in(self.tree, largest)
        return self._last[1]


def replay_sizes(tree: TraceTree, capacities: Iterable[int | None]) -> list[Replay]:
    """What `replay` finds with `RadixCache(evict_by="page")` at each capacity, in blocks, without replaying.

    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> tree = TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in ([1, 2], [3], [4], [1, 2]))
    >>> replay_sizes(tree, [3])
    [Replay(requests=4, blocks=6, hits=1, evicted=2, peak_size=3, uncached_requests=0)]
    """
    sizes, found = ReuseBySize(tree), []
    for capacity in capacities:
        size = None if capacity is None else whole_number("capacity", capacity, 1, "a cache holds at least 1 block")
        found.append(_replay_of(tree, sizes.at(size), size))
    return found


def _replay_of(tree: TraceTree, reuse: Reuse, capacity: int | None) -> Replay:
    """What LRU finds; its size grows with each block that is new to it until it is full, and stays so."""
    served, hits = int(reuse.lengths.sum()), int(reuse.found(capacity).sum())
    distinct = served - int((reuse.stops - reuse.starts).sum())
    size = distinct if capacity is None else min(capacity, distinct)
    too_large = int((reuse.lengths != np.array(tree.lengths)).sum())
    return Replay(len(tree.ends), sum(tree.lengths), hits, served - hits - size, size, too_large)
