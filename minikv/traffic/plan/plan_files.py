"""A plan as data and as a page: one object for programs, its curve for spreadsheets and for the eye, its report."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from minikv.traffic.chart import Chart, chart_svg
from minikv.traffic.plan import Plan
from minikv.traffic.plan.plan_words import GIB, PlanWords
from minikv.traffic.report import csv_text, document, escape, facts, section_html

_STYLE = ".curve svg { min-width: 30rem; }"
_OF_EACH_GPU = ("bytes_per_token", "bytes_per_sequence", "layers", "memory", "bytes")
_NOT_SAID = ("longest_prompt", "cost")


def plan_object(plan: Plan) -> dict[str, Any]:
    """The plan as an object of JSON: shares from 0 to 1, sizes in blocks, in the trace's units and in bytes.

    With several `gpus`, names that end in `_per_gpu` are of one of them.

    >>> from minikv.traffic.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> plan_object(make_plan(TraceTree(), Terms(16)))["ceiling"]["hits"]
    0
    """
    found = _plain(replace(plan, layers=()), plan)
    found["layers" if plan.gpus == 1 else "layers_per_gpu"] = [group._asdict() for group in plan.layers]
    found["policies"] = {
        name: [{"blocks": size, "hits": hits, "hit_rate": round(plan.rate(hits), 6)} for size, hits in sizes.items()]
        for name, sizes in plan.policies.items()
    }
    return {key: value for key, value in found.items() if key not in _NOT_SAID}


def _plain(of: Any, plan: Plan) -> dict[str, Any]:
    """The fields of a part of the plan; where a model is split, the names of bytes say that they are those of a GPU."""
    names = {name: f"{name}_per_gpu" for name in _OF_EACH_GPU} if plan.gpus > 1 else {}
    return asdict(of, dict_factory=lambda pairs: {names.get(name, name): value for name, value in pairs})


def curve_csv(plan: Plan) -> str:
    """The curve as CSV, a line for each size; each policy has a column, which is empty where it was not replayed.

    >>> from minikv.traffic.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> curve_csv(make_plan(TraceTree(), Terms(16))).splitlines()[1]
    '1,16,,0,0.0,0,0.0,,0,,0'
    """
    replayed = plan.policies.items()
    return csv_text([
        _plain(point, plan) | {f"{name}_hits": hits.get(point.blocks) for name, hits in replayed}
        for point in plan.points
    ])  # fmt: skip


def plan_curves(words: PlanWords) -> Chart:
    """The curve of the plan, to be drawn.

    >>> from minikv.traffic.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> list(plan_curves(PlanWords(make_plan(TraceTree(), Terms(16)))).lines)
    ['LRU', 'bound of any eviction']
    """
    plan, ceiling = words.plan, words.plan.ceiling
    scale = words.block_bytes / GIB if words.block_bytes else plan.block_size
    lines = {
        "LRU": [100 * point.hit_rate for point in plan.points],
        "bound of any eviction": [100 * point.bound_rate for point in plan.points],
    }
    named = {"knee": plan.knee, "--memory": plan.at_memory}
    marks = {name: point.blocks * scale for name, point in named.items() if point}
    axis = f"GiB of cache{words.each}" if words.block_bytes else f"{plan.unit} of cache"
    level = (f"ceiling {words.share(ceiling.hits)}", 100 * ceiling.hit_rate)
    sizes = [point.blocks * scale for point in plan.points]
    return Chart("Share of blocks that hit, by size", axis, sizes, lines, " %", "x", marks, level)


def plan_page(words: PlanWords, about: str) -> str:
    """The page; `about` says which trace it is, and for which model.

    >>> from minikv.traffic.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> words = PlanWords(make_plan(TraceTree(), Terms(16)))
    >>> "How much cache does this traffic need?" in plan_page(words, "day.jsonl")
    True
    """
    body = [f"<p>{escape(about)}</p>", f"<p>{escape(words.summary())}</p>", facts(_figures(words))]
    drawn = chart_svg(plan_curves(words))
    body.append(
        f'<figure><div class="scroll curve" tabindex="0" role="region" aria-label="the curve">{drawn}</div>'
        "<figcaption>The share of all blocks that a cache of each size finds, on a scale of powers. The table below "
        "has the same figures.</figcaption></figure>"
    )
    return document("How much cache does this traffic need?", [*body, *map(section_html, words.sections())], _STYLE)


def _figures(words: PlanWords) -> list[tuple[str, str, str]]:
    """The figures that matter most."""
    plan, figures = words.plan, []
    if point := plan.at_memory:
        best = f"LRU with {words.size(point.blocks)}; at most {words.share(point.bound)} with any eviction"
        figures.append(("hits with --memory", words.share(point.hits), best))
    figures.append(("knee", words.size(plan.knee.blocks), f"LRU hits {words.share(plan.knee.hits)} there"))
    unlimited = f"unlimited memory: {words.size(plan.ceiling.blocks)}"
    return [*figures, ("ceiling", words.share(plan.ceiling.hits), unlimited)]
