"""How much cache does this traffic need? The curve over memory, its bound, its ceiling and its knee.

Everything follows from one pass over the trace (`reuse`): what LRU by pages finds at each size, what an order that
knows the future would find, what unlimited memory finds, what is lost when a block is forgotten after some seconds, and
how much of all that a conversation finds of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from minikv.progress_bar import Tick, quiet
from minikv.traffic.belady import clairvoyant_found
from minikv.traffic.plan.conversations import continued_depths, own_depths
from minikv.traffic.plan.plan import Lifetime, Plan, PlanPoint, Terms
from minikv.traffic.plan.plan_sizes import curve_sizes, knee
from minikv.traffic.plan.shared_prefixes import requests_through, shared_prefixes
from minikv.traffic.reuse import Column, Reuse, ReuseBySize
from minikv.traffic.trace_tree import TraceTree

_TOKENS = 1_000_000  # the size that the others are multiples of, where no memory is given
_GIB = 2**30


def make_plan(tree: TraceTree, terms: Terms, tick: Tick = quiet, expect: Callable[[int], None] | None = None) -> Plan:
    """Plan for the traffic in `tree`; `tick` is called for each size, of which there are as many as `expect` is told.

    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> prompts = [1, 2], [1, 2, 3], [9], [1, 2, 4]
    >>> plan = make_plan(TraceTree(TraceRequest(0, 10 * len(ids), 1, pack(ids)) for ids in prompts), Terms(10))
    >>> [(point.blocks, point.hits, point.bound) for point in plan.points], plan.ceiling.hits
    ([(1, 0, 0), (2, 0, 0), (3, 4, 4)], 4)
    """
    return _Planning(tree, terms).plan(tick, expect or (lambda total: None))


class _Planning:
    """The pass over all requests, the passes for small sizes, and which requests count."""

    def __init__(self, tree: TraceTree, terms: Terms):
        self.tree, self.terms = tree, terms
        self.sizes, self.whole = ReuseBySize(tree), ReuseBySize(tree).at()
        self.inputs = np.array(tree.inputs, np.int64)
        self.counts = np.arange(len(tree.ends)) >= int(terms.warm_up * len(tree.ends))
        self.own = own_depths(tree)

    def plan(self, tick: Tick, expect: Callable[[int], None]) -> Plan:
        tree, terms = self.tree, self.terms
        reach = self._reach()
        points, bend = self._curve(reach, tick, expect)
        continued = continued_depths(tree)
        return Plan(
            terms, int(self.counts.sum()), self._total(self.whole.lengths), self._total(self.inputs),
            self._flops(self.inputs), tree.num_distinct, max(tree.lengths, default=0),
            int(self.inputs.max(initial=0)),
            (max(tree.times) - min(tree.times)) / 1000 if tree.times else 0.0,
            points, self._ceiling(), bend, reach,
            tuple(self._lifetime(seconds) for seconds in terms.lifetimes),
            len(set(tree.conversations) - {None}), self._total(continued > 0),
            self._total(np.minimum(continued, self.whole.found())),
            sum(count > 1 for count in requests_through(tree)[1:]), tuple(shared_prefixes(tree)),
        )  # fmt: skip

    def _reach(self) -> int:
        """The last place in the list that is ever found, or the longest request that finds or is found."""
        whole = self.whole
        involved = whole.lengths[np.concatenate((whole.users, whole.sources))]
        return int(max((whole.newer + whole.stops - whole.starts).max(initial=1), involved.max(initial=1)))

    def _sizes(self, largest: int) -> list[int]:
        """The sizes around the memory; where none is given, those of whole GiB or millions of tokens, and of halves."""
        terms = self.terms
        if terms.capacity:
            return curve_sizes(terms.capacity, largest)
        unit = (_GIB / terms.token_bytes if terms.token_bytes else _TOKENS) / terms.block_size
        return curve_sizes(unit * 2 ** math.floor(math.log2(largest / unit)), largest)

    def _curve(self, reach: int, tick: Tick, expect: Callable[[int], None]) -> tuple[tuple[PlanPoint, ...], int]:
        """The points, and the size of the knee."""
        sizes = self._sizes(reach)
        expect(len(sizes) + 1)
        hits = {size: self._hits(size) for size in sizes if size <= reach}
        bend = knee(list(hits), list(hits.values()), self._hits)
        points = []
        for size in sorted({*sizes, bend}):
            tick(f"{size * self.terms.block_size:,} tokens")
            points.append(self._point(size))
        return tuple(points), bend

    def _hits(self, size: int) -> int:
        return self._total(self.sizes.at(size).found(size))

    def _total(self, per_request: np.ndarray[tuple[int], np.dtype[np.generic]]) -> int:
        return int(sum(per_request[self.counts].tolist()))  # whole numbers of any size

    def _point(self, size: int) -> PlanPoint:
        reuse = self.sizes.at(size)
        return self._described(size, reuse, reuse.found(size), self._total(clairvoyant_found(reuse, size)))

    def _ceiling(self) -> PlanPoint:
        found = self.whole.found()
        return self._described(self.tree.num_distinct, self.whole, found, self._total(found))

    def _described(self, size: int, reuse: Reuse, found: Column, bound: int) -> PlanPoint:
        saved = np.minimum(found * self.terms.block_size, self.inputs)  # the last block of a prompt may not be full
        own = None if self.own is None else self._total(np.minimum(found, self.own))
        too_large = self._total(reuse.lengths != self.whole.lengths)
        return PlanPoint(size, self._total(found), bound, own, self._total(saved), self._flops(saved), too_large)

    def _flops(self, tokens: Column) -> int | None:
        """The FLOPs to prefill so many first tokens of each counted request."""
        if (cost := self.terms.cost) is None:
            return None
        return sum(map(cost.flops, tokens[self.counts].tolist()))

    def _lifetime(self, seconds: float) -> Lifetime:
        def hits(size: int | None) -> int:
            reuse, times = self.sizes.at(size), np.array(self.tree.times)
            return self._total(reuse.found(size, times[reuse.users] - times[reuse.sources] <= 1000 * seconds))

        capacity = self.terms.capacity
        return Lifetime(seconds, hits(None), None if not capacity else hits(capacity))
