"""The possible reuse of each request, found in one pass: the hits of every cache size at once, and their maximum.

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

A request may also keep something besides its blocks: the windows and states of a model whose layers do not all keep
every token. That stands last in what is left of its request, so all that was used before is as much further down.

A request larger than the cache is served without it, so it uses nothing. Below the longest request each size therefore
has a pass of its own, over the requests that fit; from there on one pass serves all sizes.

**The most hits that any order of eviction can have**: evict what is used again last (Belady, 1966), in a tree. While a
request is served, its whole path is in the cache. Between requests the cache may drop what it likes, but it must stay a
tree: only leaves may go. `clairvoyant_found` knows the future. When it needs room, it drops the block whose next use is
farthest away, and of blocks with the same next use the deepest.

It keeps the rule of leaves. Every use of a block is a use of its parent, so a parent's next use is never later than
its child's, and where both are the same the child is deeper. The farthest block is therefore always a leaf.

No other order has more hits. Count the blocks that are fetched: what is not a hit is fetched. Let S be any
schedule that fetches and drops blocks when it likes, leaves or not, as long as it never holds more than C and holds a
request's path while that is served. Fetching only on demand and dropping only for room cost S nothing, so let it do so.
Let i be the first request after which S holds other blocks than F, the rule. Both hold equally many, so S kept some x
that F dropped, and dropped some y that F kept: y is used again no later than x. Change S from i on: S' drops x instead
of y, and then does what S does, with y in the place of x, until one of two things happens. If S drops x, S' drops y. If
y is used, S fetches it; S' has it and fetches x instead (or, if S drops x for y, does nothing). Either way both hold
the same from then on, and S' has fetched no more; x was not needed before, because y is used first. So S' agrees with F
on one block more. Repeated, this turns S into F, at no more fetches. A request is a set of blocks here, which changes
nothing: it always fits, because no request has more than C.

It costs nothing per block. The segments also say when blocks are used next: what request v reuses of
request u is, from u on, next used by v. So the cache is a few segments and a heap of them, trimmed at the farthest end.

For one that evicts whole nodes, or whose order is not that of a tree, the bound holds as well: the proof lets S
drop what it likes.
"""

from __future__ import annotations

import functools
import heapq
import itertools
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from minikv.traffic.trace_tree import ROOT, Column, TraceTree

_COLUMNS = 5
_KEPT = 16  # answers of `ReuseBySize`: a plan goes over its sizes more than once


class Tails(NamedTuple):
    """The bytes that each request keeps besides its blocks, and those of a block."""

    sizes: Column
    block: int


@dataclass(frozen=True, eq=False)
class Reuse:
    """Every reuse in a trace: request `users[i]` reuses depths [`starts[i]`, `stops[i]`), last used by `sources[i]`.

    `newer[i]` is how many blocks had been used since then. Requests are numbered from 0, in order, and so are their
    segments; `lengths` has the blocks of each request, and 0 where it was larger than the cache. `tails` has the blocks
    that it fills besides, of which `kept` are filled in the end.

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
    tails: Column
    kept: int = 0

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


def reuse_in(tree: TraceTree, largest: int | None = None, tails: Tails | None = None) -> Reuse:
    """Every reuse of the requests that have at most `largest` blocks (`None`: of all), in one pass."""
    depths, last_use = tree.depths, [-1] * len(tree.parents)
    lengths = np.array(tree.lengths, np.int64)
    own = -(-tails.sizes // tails.block) if tails else np.zeros_like(lengths)
    if largest is not None:
        lengths[lengths + own > largest] = 0
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
    if not tails:
        return Reuse(users, sources, starts, stops, newer, lengths, own)
    before = np.concatenate(([0], np.cumsum(np.where(lengths, tails.sizes, 0))))  # in bytes, of earlier requests
    newer = newer - (before[sources + 1] - before[users]) // tails.block  # rounded up
    return Reuse(users, sources, starts, stops, newer, lengths, own, int(-(-before[-1] // tails.block)))


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

    def __init__(self, tree: TraceTree, tails: Tails | None = None):
        self.tree = tree
        self._among = functools.lru_cache(_KEPT)(lambda largest: reuse_in(tree, largest, tails))
        own = -(-tails.sizes // tails.block) if tails else 0
        self._sorted = sorted({*(np.array(tree.lengths, np.int64) + own).tolist()})

    def at(self, capacity: int | None = None) -> Reuse:
        """The reuse among the requests that fit in `capacity` blocks; the last few answers are kept."""
        largest: int | None = None
        if capacity is not None and (fits := bisect_right(self._sorted, capacity)) < len(self._sorted):
            largest = self._sorted[fits - 1] if fits else 0
        return self._among(largest)


def clairvoyant_found(reuse: Reuse, capacity: int) -> Column:
    """The blocks that each request finds when the farthest next use is evicted; `reuse`: `ReuseBySize.at(capacity)`.

    >>> from minikv.tokens import pack
    >>> from minikv.traffic import TraceRequest
    >>> from minikv.traffic.reuse import ReuseBySize, TraceTree
    >>> tree = TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in ([1, 2], [3], [4], [1, 2], [3]))
    >>> [clairvoyant_found(ReuseBySize(tree).at(size), size).tolist() for size in (2, 4)]
    [[0, 0, 0, 1, 0], [0, 0, 0, 2, 1]]
    """
    cache, found, tails = _Farthest(reuse), np.zeros(len(reuse.lengths), np.int64), reuse.tails.tolist()
    arriving, leaving = _groups(reuse.users, len(reuse.lengths)), _groups(reuse.sources, len(reuse.lengths))
    for request, length in enumerate(reuse.lengths.tolist()):
        if length:
            found[request] = sum(cache.take(segment) for segment in arriving[request])
            cache.drop(cache.size + length + tails[request] - capacity)
            cache.put(leaving[request], length)
    return found


def _groups(keys: Column, count: int) -> list[list[int]]:
    """The segments of each request."""
    order = np.argsort(keys, kind="stable")
    segments, cuts = order.tolist(), np.searchsorted(keys[order], np.arange(count + 1)).tolist()
    return [segments[begin:end] for begin, end in itertools.pairwise(cuts)]


class _Farthest:
    """The cache: segments by their next use, the farthest on top of a heap, and blocks that are never used again."""

    def __init__(self, reuse: Reuse):
        self.size = self._never = 0
        self._blocks = (reuse.stops - reuse.starts).tolist()
        self._keys = list(zip((-reuse.users).tolist(), (-reuse.starts).tolist()))
        self._held = [0] * len(self._blocks)
        self._heap: list[tuple[tuple[int, int], int]] = []

    def take(self, segment: int) -> int:
        """How much of `segment` is here; it is in use now, so it may not be dropped."""
        found, self._held[segment] = self._held[segment], 0
        self.size -= found
        return found

    def put(self, segments: list[int], length: int) -> None:
        """A request of `length` blocks is done, and these are the segments that will be used again."""
        for segment in segments:
            self._held[segment] = self._blocks[segment]
            heapq.heappush(self._heap, (self._keys[segment], segment))
        self._never += length - sum(self._blocks[segment] for segment in segments)
        self.size += length

    def drop(self, blocks: int) -> None:
        """Make room for `blocks` blocks: what is never used again, then the farthest."""
        left = max(0, blocks)
        self.size -= left
        gone = min(left, self._never)
        self._never, left = self._never - gone, left - gone
        while left:
            segment = self._heap[0][1]
            gone = min(left, self._held[segment])
            self._held[segment] -= gone
            left -= gone
            if not self._held[segment]:
                heapq.heappop(self._heap)
