"""How much a cache of each size would find: the curve over the size, and what bounds it.

All of it follows from one pass over a trace (`reuse`): what LRU by pages finds, what an order of eviction that knows
the future would find, and what unlimited memory finds.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from minikv.traffic.reuse import ReuseBySize, Tails, clairvoyant_found
from minikv.traffic.trace_tree import TraceTree

STEPS = 2  # points for each doubling
_LESS, _SPREAD = 8, 256  # the curve begins at an eighth of the given size, or further below the largest


class HitCurve:
    """The hits of a trace in a cache of any size that evicts by pages, and the most that any order would have.

    `tails` has the bytes that a request keeps besides its blocks, and `counts` says which requests are counted: all,
    unless it is given. `blocks` has the blocks of their prompts.

    >>> from minikv.tokens import pack
    >>> from minikv.traffic import TraceRequest
    >>> prompts = [1, 2], [3], [4], [1, 2]
    >>> curve = HitCurve(TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in prompts))
    >>> [(size, curve.hits(size), curve.bound(size)) for size in curve_sizes(2, curve.reach)]
    [(1, 0, 0), (2, 0, 1), (4, 2, 2)]
    >>> curve.hits(), curve.blocks
    (2, 6)
    """

    def __init__(self, tree: TraceTree, tails: Tails | None = None, counts: np.ndarray[Any, Any] | None = None):
        self.tree, self.by_size = tree, ReuseBySize(tree, tails)
        self.whole = self.by_size.at()
        self.counts = np.ones(len(tree.ends), bool) if counts is None else counts
        self.blocks = self.total(self.whole.lengths)

    @functools.cached_property
    def reach(self) -> int:
        """The size from which on a larger cache finds no more.

        It is the last place in the list that is ever found, or the longest request that finds or is found.
        """
        whole = self.whole
        involved = (whole.lengths + whole.tails)[np.concatenate((whole.users, whole.sources))]
        places = whole.newer + whole.stops - whole.starts
        return int(max(places.max(initial=1), involved.max(initial=1)))

    def hits(self, size: int | None = None, seconds: float | None = None) -> int:
        """The hits of a cache of `size` blocks (`None`: unlimited); of blocks used in the last `seconds`, if given."""
        reuse, recent = self.by_size.at(size), None
        if seconds is not None:
            times = np.array(self.tree.times)
            recent = times[reuse.users] - times[reuse.sources] <= 1000 * seconds
        return self.total(reuse.found(size, recent))

    def bound(self, size: int) -> int:
        """The hits of a cache of `size` blocks whose order of eviction knows the future: no other has more."""
        return self.total(clairvoyant_found(self.by_size.at(size), size))

    def total(self, per_request: np.ndarray[Any, Any]) -> int:
        """The sum over the requests that are counted."""
        return int(sum(per_request[self.counts].tolist()))  # whole numbers of any size


def curve_sizes(size: float, largest: int) -> list[int]:
    """Sizes in blocks: `size` halved and doubled, with a step between, until the curve ends at `largest`.

    >>> curve_sizes(100.0, 300)
    [1, 2, 3, 4, 6, 8, 12, 17, 25, 35, 50, 70, 100, 141, 200, 282, 300]
    >>> curve_sizes(100.0, 10)
    [1, 2, 3, 4, 6, 8, 10, 100]
    """
    lowest = max(1.0, min(size / _LESS, largest / _SPREAD))
    first = math.ceil(STEPS * math.log2(lowest / size) - 1e-9)
    last = max(0, math.floor(STEPS * math.log2(largest / size)))
    found = {largest, max(1, int(size))}
    for step in range(first, last + 1):
        blocks = max(1, int(size * 2 ** (step / STEPS) + 1e-9))
        if blocks < largest:
            found.add(blocks)
    return sorted(found)
