"""A plan as data: one object for programs, and a table of its curve for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from minikv.traffic.plan.curve_svg import Curves
from minikv.traffic.plan.plan import Plan, PlanPoint
from minikv.traffic.plan.plan_words import PlanWords

_GIB = 2**30


def plan_object(plan: Plan, unit: str, policies: Mapping[str, Mapping[int, int]]) -> dict[str, Any]:
    """The plan as an object of JSON: shares from 0 to 1, sizes in blocks, in the trace's units and in bytes.

    >>> from minikv.traffic.plan.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> plan_object(make_plan(TraceTree(), Terms(16)), "tokens", {})["ceiling"]["hits"]
    0
    """
    terms, at_memory = plan.terms, plan.at(plan.terms.capacity)
    return {
        "requests": plan.requests, "seconds": plan.seconds, "warm_up": terms.warm_up, "blocks": plan.blocks,
        "block_size": terms.block_size, "unit": unit, "prompt_tokens": plan.tokens, "prefill_flops": plan.flops,
        "distinct_blocks": plan.distinct, "longest_request_blocks": plan.longest,
        "bytes_per_token": terms.token_bytes, "memory": terms.memory,
        "points": [_point(plan, point) for point in plan.points],
        "at_memory": None if at_memory is None else _point(plan, at_memory),
        "knee": _point(plan, plan.at(plan.knee) or plan.ceiling), "ceiling": _point(plan, plan.ceiling),
        "lru_reaches_ceiling_at_blocks": plan.reach,
        **_reuse(plan),
        "policies": {
            name: [{"blocks": size, "hits": hits, "hit_rate": _share(plan, hits)} for size, hits in found.items()]
            for name, found in policies.items()
        },
    }  # fmt: skip


def _reuse(plan: Plan) -> dict[str, Any]:
    """What a time to live costs, what conversations share, and which prefixes are worth most."""
    return {
        "time_to_live": [
            {"seconds": life.seconds, "hits": life.hits, "hit_rate": _share(plan, life.hits),
             "hits_at_memory": life.hits_at_capacity}
            for life in plan.lifetimes
        ],
        "conversations": plan.conversations or None,
        "continuing_requests": plan.continued, "hits_of_continuing_requests": plan.continued_hits,
        "shared_prefixes": plan.shared,
        "prefixes": [
            {**prefix._asdict(), "tokens_saved": prefix.saved * plan.terms.block_size} for prefix in plan.prefixes
        ],
    }  # fmt: skip


def _share(plan: Plan, hits: int) -> float:
    return round(plan.rate(hits), 6)


def _point(plan: Plan, point: PlanPoint) -> dict[str, Any]:
    terms = plan.terms
    size = point.blocks * terms.block_size
    return {
        "blocks": point.blocks, "tokens": size, "bytes": terms.token_bytes and size * terms.token_bytes,
        "hits": point.hits, "hit_rate": _share(plan, point.hits),
        "bound": point.bound, "bound_rate": _share(plan, point.bound),
        "own_conversation_hits": point.own, "tokens_saved": point.tokens_saved, "flops_saved": point.flops_saved,
        "requests_too_large": point.too_large,
    }  # fmt: skip


def curve_csv(plan: Plan, policies: Mapping[str, Mapping[int, int]]) -> str:
    """The curve as CSV, a line a size; each policy has a column, which is empty where it was not replayed.

    >>> from minikv.traffic.plan.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> curve_csv(make_plan(TraceTree(), Terms(16)), {}).splitlines()[1]
    '1,16,,0,0.0,0,0.0,,0,,0'
    """
    text = io.StringIO()
    rows = [_point(plan, point) for point in plan.points]
    for row in rows:
        row |= {f"{name}_hits": found.get(row["blocks"]) for name, found in policies.items()}
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def plan_curves(plan: Plan, words: PlanWords) -> Curves:
    """The curve of the plan, to be drawn.

    >>> from minikv.traffic.plan.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> plan = make_plan(TraceTree(), Terms(16))
    >>> list(plan_curves(plan, PlanWords(plan)).lines)
    ['LRU', 'bound of any eviction']
    """
    scale = words.block_bytes / _GIB if words.block_bytes else plan.terms.block_size
    lines = {
        "LRU": [plan.rate(point.hits) for point in plan.points],
        "bound of any eviction": [plan.rate(point.bound) for point in plan.points],
    }
    marks = {"knee": plan.knee * scale}
    if plan.terms.capacity:
        marks["--memory"] = plan.terms.capacity * scale
    ceiling = plan.rate(plan.ceiling.hits)
    axis = "GiB of cache" if words.block_bytes else f"{words.unit} of cache"
    level = (f"ceiling {100 * ceiling:.1f} %", ceiling)
    return Curves(
        "Share of blocks that hit, by size", axis, [p.blocks * scale for p in plan.points], lines, marks, level
    )
