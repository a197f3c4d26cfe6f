"""How much cache does this traffic need? The curve over memory, its bound, its ceiling and its knee.

Everything follows from one pass over the trace (`reuse`): what LRU by pages finds at each size, what an order that
knows the future would find, what unlimited memory finds, what is lost when a block is forgotten after some seconds, and
how much of all that a conversation finds of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from minikv.files import FileName
from minikv.model_types import ConfigSource
from minikv.progress_bar import Progress, quiet
from minikv.traffic.curve import HitCurve, curve_sizes
from minikv.traffic.reuse import Reuse
from minikv.traffic.trace_tree import Column, TraceTree
from minikv.traffic.traces import open_traffic
from minikv_tools.log_format import estimated
from minikv_tools.plans import Lifetime, Plan, PlanPoint, Terms
from minikv_tools.plans.prefixes import continued_depths, own_depths, prefixes_worth_most
from minikv_tools.plans.tiering import TierHours, Tiering

_TOKENS = 1_000_000  # the size that the others are multiples of, where no memory is given
_GIB = 2**30


def plan(trace: FileName, model: ConfigSource | None = None, memory: int | str | None = None, *,
         block_size: int | None = None, tokenizer: FileName | None = None, text_bytes_per_token: int | None = None,
         **options: Any) -> Plan:  # fmt: skip
    """Return how much cache the traffic of a trace or a log needs: the hits of an LRU cache of each size, and more.

    `model` is a config.json, its folder, its contents, or a name such as "llama-3.1-8b"; `memory` is what the cache may
    use on each GPU, in bytes or as "60GiB". A log is cut into the tokens of `tokenizer`, else into bytes;
    `text_bytes_per_token` of them are counted as one token, as an estimate. `block_size` is for traffic without one.

    The `options` are those of the command: `dtype` and `state_dtype` of what the model keeps, `tp` GPUs, `weights` of a
    type such as "bf16" to take off the memory first, `ttl` (seconds), `warm_up`, the share of the requests that are not
    counted, and `tiers`, as a text, in place of `memory`. For a model that is not known, give
    `bytes_per_token` and perhaps `bytes_per_sequence` in place of `model`; FLOPs and prefill times are then left out.
    `OSError`, `ValueError` and `TraceError` say what is wrong.

    >>> found = plan("synthetic:chat?requests=100", "llama-3.1-8b", "1GiB")
    >>> found.at_memory.tokens, round(found.at_memory.hit_rate, 3), round(found.ceiling.hit_rate, 3)
    (8192, 0.458, 0.632)
    >>> found = plan("synthetic:chat?requests=100", "llama-3.1-8b", tiers="gpu=1GiB,host=4GiB@50GB/s")
    >>> [(tier.name, round(tier.hit_rate, 3), tier.prefill_hours) for tier in found.tiers]
    [('gpu', 0.458, 0.000439), ('host', 0.174, 0.000301)]
    >>> found = plan("synthetic:chat?requests=100", bytes_per_token="128KiB", tiers="gpu=1GiB,host=4GiB@50GB/s")
    >>> [(tier.name, round(tier.hit_rate, 3), tier.prefill_hours) for tier in found.tiers]
    [('gpu', 0.458, None), ('host', 0.174, None)]
    """
    terms = Terms.for_model(model, memory, **options)
    with open_traffic(trace, block_size=block_size, tokenizer=tokenizer) as opened:
        traffic = estimated(opened, text_bytes_per_token)
        return make_plan(TraceTree(traffic.requests), terms.on(traffic))


def make_plan(tree: TraceTree, terms: Terms, progress: Progress | None = None) -> Plan:
    """Plan for the traffic in `tree`; `progress` is called for each size.

    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> prompts = [1, 2], [1, 2, 3], [9], [1, 2, 4]
    >>> plan = make_plan(TraceTree(TraceRequest(0, 10 * len(ids), 1, pack(ids)) for ids in prompts), Terms(10))
    >>> [(point.blocks, point.hits, point.bound) for point in plan.points], plan.ceiling.hits
    ([(1, 0, 0), (2, 0, 0), (3, 4, 4)], 4)
    """
    return _Planning(tree, terms).plan(progress)


class _Planning:
    """The pass over all requests, the passes for small sizes, and which requests count."""

    def __init__(self, tree: TraceTree, terms: Terms):
        self.tree, self.terms = tree, terms
        self.inputs = np.array(tree.inputs, np.int64)
        self.continued = continued_depths(tree)
        tails = terms.tails(self.inputs, self.continued * terms.block_size)
        counts = np.arange(len(tree.ends)) >= int(terms.warm_up * len(tree.ends))
        self.curve = HitCurve(tree, tails, counts)
        self.own, self.blocks = own_depths(tree), self.curve.blocks
        self.flops, self.hours = self._flops(self.inputs), list[TierHours]()
        self.tiering = Tiering(terms.tiers, terms.tier_blocks, terms.block_size, terms.bytes_per_token or 0, terms.cost,
                               terms.gpus, self.curve, self.inputs, self.flops or 0)  # fmt: skip

    def plan(self, progress: Progress | None) -> Plan:
        terms, reach = self.terms, self.curve.reach
        points, bend = self._points(reach, progress)
        return Plan(
            **self._traffic(),
            warm_up=terms.warm_up,
            block_size=terms.block_size,
            unit=terms.unit,
            bytes_per_token=terms.bytes_per_token,
            bytes_per_sequence=terms.layers.bytes_per_sequence,
            smallest_prefix=terms.layers.smallest_prefix,
            layers=terms.layers.groups,
            memory=terms.memory,
            points=tuple(points.values()),
            at_memory=points.get(terms.capacity),
            knee=points[bend],
            ceiling=self._ceiling(),
            lru_reaches_ceiling_at_blocks=reach,
            time_to_live=tuple(self._lifetime(seconds) for seconds in terms.lifetimes),
            gpus=terms.gpus,
            cost=terms.cost,
            tiers=tuple(self.tiering.points()),
            hours=tuple(self.hours),
        )

    def _traffic(self) -> dict[str, Any]:
        """The fields of a plan that tell of the traffic, whatever memory there is."""
        tree, continued, context, total = self.tree, self.continued, self.terms.context, self.curve.total
        counted = int(self.curve.counts.sum())
        warm_up = len(tree.ends) - counted
        return {
            "requests": counted,
            "seconds": (max(tree.times) - min(tree.times)) / 1000 if tree.times else 0.0,
            "blocks": self.blocks,
            "prompt_tokens": total(self.inputs),
            "prefill_flops": self.flops,
            "distinct_blocks": tree.num_distinct,
            "longest_request_blocks": max(tree.lengths, default=0),
            "conversations": len(set(tree.conversations) - {None}) or None,
            "continuing_requests": total(continued > 0),
            "hits_of_continuing_requests": total(np.minimum(continued, self.curve.whole.found())),
            "shared_prefixes": sum(count > 1 for count in tree.requests_through()[1:]),
            "prefixes": tuple(prefixes_worth_most(tree, self.terms.block_size, warm_up=warm_up)),
            "longest_prompt": int(self.inputs.max(initial=0)),
            "context": context,
            "prompts_beyond_context": total(self.inputs > context) if context else 0,
        }

    def _sizes(self, largest: int) -> list[int]:
        """The sizes around the memory; where none is given, those of whole GiB or millions of tokens, and of halves."""
        terms = self.terms
        if terms.capacity:
            return curve_sizes(terms.capacity, largest)
        unit = (_GIB / terms.bytes_per_token if terms.bytes_per_token else _TOKENS) / terms.block_size
        return curve_sizes(unit * 2 ** math.floor(math.log2(largest / unit)), largest)

    def _points(self, reach: int, progress: Progress | None) -> tuple[dict[int | None, PlanPoint], int]:
        """The points by their sizes, and the size of the knee."""
        terms, sizes = self.terms, self._sizes(reach)
        if progress:
            progress.expect(len({*sizes, *terms.tier_blocks}) + 1)
        hits = {size: self.curve.hits(size) for size in sizes if size <= reach}
        bend = knee(hits, self.curve.hits)
        points: dict[int | None, PlanPoint] = {}
        for size in sorted({*sizes, bend, *terms.tier_blocks}):
            (progress or quiet)(f"{size * terms.block_size:,} tokens")
            reuse, bound = self.curve.by_size.at(size), self.curve.bound(size)
            points[size] = self._described(size, reuse, reuse.found(size), bound)
            if terms.tiers and terms.cost:
                self.hours.append(self.tiering.hours(size))  # now, as it takes the same pass
        return points, bend

    def _ceiling(self) -> PlanPoint:
        whole = self.curve.whole
        found, size = whole.found(), self.tree.num_distinct + whole.kept
        return self._described(size, whole, found, self.curve.total(found))

    def _described(self, size: int, reuse: Reuse, found: Column, bound: int) -> PlanPoint:
        terms, total = self.terms, self.curve.total
        saved = np.minimum(found * terms.block_size, self.inputs)  # the last block of a prompt may not be full
        tokens, hits = size * terms.block_size, total(found)
        grid = terms.layers.smallest_prefix
        on_grid = total(saved // grid * grid) / terms.block_size
        return PlanPoint(
            blocks=size,
            tokens=None if terms.layers.bytes_per_sequence else tokens,
            bytes=terms.bytes_per_token and tokens * terms.bytes_per_token,
            hits=hits,
            hit_rate=self._share(hits),
            grid_hit_rate=self._share(on_grid) if grid > 1 else None,
            bound=bound,
            bound_rate=self._share(bound),
            own_conversation_hits=None if self.own is None else total(np.minimum(found, self.own)),
            tokens_saved=total(saved),
            flops_saved=self._flops(saved),
            requests_too_large=total(reuse.lengths != self.curve.whole.lengths),
        )

    def _share(self, hits: float) -> float:
        return round(hits / self.blocks, 6) if self.blocks else 0.0

    def _flops(self, tokens: Column) -> int | None:
        """The FLOPs to prefill so many first tokens of each counted request."""
        if (cost := self.terms.cost) is None:
            return None
        return sum(map(cost.flops, tokens[self.curve.counts].tolist()))

    def _lifetime(self, seconds: float) -> Lifetime:
        capacity = self.terms.capacity
        unlimited = self.curve.hits(seconds=seconds)
        limited = self.curve.hits(capacity, seconds) if capacity else None
        return Lifetime(seconds, unlimited, self._share(unlimited), limited)


_BETWEEN = 16  # sizes tried between two points, to place the knee


def knee(hits: Mapping[int, int], hits_at: Callable[[int], int]) -> int:
    """The size at which the curve is highest above the straight line from nothing to its last point.

    There, the next block of memory gains as much as the average block of the whole curve: before it more, after it
    less. (Kneedle, Satopää et al., 2011, on linear axes.) `hits` has the hits at some sizes, smallest first, and
    `hits_at` finds those at sizes between them.

    >>> knee({100: 40, 180: 72, 300: 80, 400: 80}, lambda size: min(80, 4 * size // 10))
    200
    """
    sizes = list(hits)
    last = sizes[-1]
    if not hits[last]:
        return last
    slope = hits[last] / last
    at = sizes.index(max(sizes, key=lambda size: hits[size] - slope * size))
    around = sizes[max(0, at - 1) : at + 2]
    low, high = around[0], around[-1]
    near = {low + (high - low) * step // _BETWEEN for step in range(1, _BETWEEN)}
    tried = {**hits, **{size: hits_at(size) for size in near - hits.keys()}}
    return max(sorted(tried), key=lambda size: tried[size] - slope * size)
