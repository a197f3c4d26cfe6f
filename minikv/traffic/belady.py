"""The most hits that any order of eviction can have: evict what is used again last (Belady, 1966), in a tree.

A cache of C blocks serves requests one after the other. While a request is served, its whole path is in the cache, so
one that is larger than C is served without it. Between requests the cache may drop what it likes, but it must stay a
tree: only leaves may go. `clairvoyant` knows the future. When it needs room, it drops the block whose next use is
farthest away, and of blocks with the same next use the deepest.

**It keeps the rule of leaves.** Every use of a block is a use of its parent, so a parent's next use is never later than
its child's, and where both are the same the child is deeper. The farthest block is therefore always a leaf.

**No other order has more hits.** Count the blocks that are fetched: what is not a hit is fetched. Let S be any
schedule that fetches and drops blocks when it likes, leaves or not, as long as it never holds more than C and holds a
request's path while that is served. Fetching only on demand and dropping only for room cost S nothing, so let it do so.
Let i be the first request after which S holds other blocks than F, the rule. Both hold equally many, so S kept some x
that F dropped, and dropped some y that F kept: y is used again no later than x. Change S from i on: S' drops x instead
of y, and then does what S does, with y in the place of x, until one of two things happens. If S drops x, S' drops y. If
y is used, S fetches it; S' has it and fetches x instead (or, if S drops x for y, does nothing). Either way both hold
the same from then on, and S' has fetched no more; x was not needed before, because y is used first. So S' agrees with F
on one block more. Repeated, this turns S into F, at no more fetches. A request is a set of blocks here, which changes
nothing: it always fits, because no request has more than C.

**It costs nothing per block.** The segments of `reuse.py` also say when blocks are used next: what request v reuses of
request u is, from u on, next used by v. So the cache is a few segments and a heap of them, trimmed at the farthest end.

For a cache that evicts whole nodes, or whose order is not that of a tree, the bound holds as well: the proof lets S
drop what it likes.
"""

from __future__ import annotations

import heapq
import itertools

import numpy as np

from minikv.traffic.reuse import Column, Reuse


def clairvoyant_found(reuse: Reuse, capacity: int) -> Column:
    """The blocks that each request finds when the farthest next use is evicted; `reuse`: `ReuseBySize.at(capacity)`.

    >>> from minikv.tokens import pack
    >>> from minikv.traffic import TraceRequest
    >>> from minikv.traffic.reuse import ReuseBySize, TraceTree
    >>> tree = TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in ([1, 2], [3], [4], [1, 2], [3]))
    >>> [clairvoyant_found(ReuseBySize(tree).at(size), size).tolist() for size in (2, 4)]
    [[0, 0, 0, 1, 0], [0, 0, 0, 2, 1]]
    """
    cache, found = _Farthest(reuse), np.zeros(len(reuse.lengths), np.int64)
    arriving, leaving = _groups(reuse.users, len(reuse.lengths)), _groups(reuse.sources, len(reuse.lengths))
    for request, length in enumerate(reuse.lengths.tolist()):
        if length:
            found[request] = sum(cache.take(segment) for segment in arriving[request])
            cache.drop(cache.size + length - capacity)
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
