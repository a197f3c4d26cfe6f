"""A plan as data and as a page: one object for programs, its curve for spreadsheets, its report."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from minikv.traffic.tables import csv_text
from minikv_tools.plans import Plan
from minikv_tools.plans.plan_words import PlanWords
from minikv_tools.report import document, escape, section_html

_NOT_SAID = ("longest_prompt", "cost")


def plan_object(plan: Plan) -> dict[str, Any]:
    """The plan as an object of JSON: shares from 0 to 1, sizes in blocks, in the trace's units and in bytes.

    With several `gpus`, bytes and rates are those of one GPU.

    >>> from minikv_tools.plans import Terms
    >>> from minikv_tools.plans.planning import TraceTree, make_plan
    >>> plan_object(make_plan(TraceTree(), Terms(16)))["ceiling"]["hits"]
    0
    """
    found = asdict(plan) | {"layers": [group._asdict() for group in plan.layers]}
    unsaid = _NOT_SAID if plan.tiers else (*_NOT_SAID, "tiers", "hours")
    return {key: value for key, value in found.items() if key not in unsaid}


def curve_csv(plan: Plan) -> str:
    """The curve as CSV, a line for each size.

    Bytes are those of one GPU. With tiers, a line also has the hours at its size, and the name of a tier of that size.

    >>> from minikv_tools.plans import Terms
    >>> from minikv_tools.plans.planning import TraceTree, make_plan
    >>> curve_csv(make_plan(TraceTree(), Terms(16))).splitlines()[1]
    '1,16,,0,0.0,,0,0.0,,0,,0'
    """
    times = {at.blocks: asdict(at) for at in plan.hours}
    for at in times.values():
        at["tier"] = ", ".join(tier.name for tier in plan.tiers if tier.blocks == at["blocks"])
    return csv_text([asdict(point) | times.get(point.blocks, {}) for point in plan.points])


def plan_page(words: PlanWords, about: str, picture: str) -> str:
    """The page; `about` says which trace it is, and for which model; `picture` is its curve in SVG.

    >>> from minikv_tools.plans import Terms
    >>> from minikv_tools.plans.planning import TraceTree, make_plan
    >>> words = PlanWords(make_plan(TraceTree(), Terms(16)))
    >>> "How much cache does this traffic need?" in plan_page(words, "day.jsonl", "<svg></svg>")
    True
    """
    body = [f"<p>{escape(about)}</p>", f"<p>{escape(words.summary())}</p>"]
    body.append(
        f'<figure><div class="scroll curve" tabindex="0" role="region" aria-label="the curve">{picture}</div>'
        "<figcaption>The share of all blocks that hit, by the size of the cache, on a logarithmic scale. The table "
        "below has figures.</figcaption></figure>"
    )
    return document("How much cache does this traffic need?", [*body, *map(section_html, words.sections())])
