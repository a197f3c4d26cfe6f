"""A plan as data and as a page: one object for programs, its curve for spreadsheets and for the eye, its report."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from minikv.traffic.chart import Chart, below_each_other, chart_svg
from minikv.traffic.plan import Plan
from minikv.traffic.plan.plan_words import GIB, PlanWords, hours
from minikv.traffic.report import csv_text, document, escape, facts, section_html

_STYLE = ".curve svg { min-width: 30rem; }"
_OF_EACH_GPU = ("bytes_per_token", "bytes_per_sequence", "layers", "memory", "bytes", "rate", "break_even_rate")
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
    unsaid = _NOT_SAID if plan.tiers else (*_NOT_SAID, "tiers", "hours")
    return {key: value for key, value in found.items() if key not in unsaid}


def _plain(of: Any, plan: Plan) -> dict[str, Any]:
    """The fields of a part of the plan; where a model is split, the names of bytes say that they are those of a GPU."""
    names = {name: f"{name}_per_gpu" for name in _OF_EACH_GPU} if plan.gpus > 1 else {}
    return asdict(of, dict_factory=lambda pairs: {names.get(name, name): value for name, value in pairs})


def curve_csv(plan: Plan) -> str:
    """The curve as CSV, a line for each size; each policy has a column, which is empty where it was not replayed.

    With tiers, a line also has the hours at its size, and the name of the tier that is as large.

    >>> from minikv.traffic.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> curve_csv(make_plan(TraceTree(), Terms(16))).splitlines()[1]
    '1,16,,0,0.0,0,0.0,,0,,0'
    """
    replayed, times = plan.policies.items(), {at.blocks: asdict(at) for at in plan.hours}
    for at in times.values():
        at["tier"] = ", ".join(tier.name for tier in plan.tiers if tier.blocks == at["blocks"])
    return csv_text([
        _plain(point, plan) | {f"{name}_hits": hits.get(point.blocks) for name, hits in replayed}
        | times.get(point.blocks, {})
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
    named = {"knee": plan.knee.blocks, words.memory_name: plan.at_memory and plan.at_memory.blocks}
    named |= {tier.name: tier.blocks for tier in plan.tiers}
    marks = {name: blocks * scale for name, blocks in named.items() if blocks}
    axis = f"GiB of cache{words.each}" if words.block_bytes else f"{plan.unit} of cache"
    level = (f"ceiling {words.share(ceiling.hits)}", 100 * ceiling.hit_rate)
    sizes = [point.blocks * scale for point in plan.points]
    return Chart("Share of blocks that hit, by size", axis, sizes, lines, " %", "x", marks, level)


def hours_chart(words: PlanWords) -> Chart:
    """The hours of a plan with tiers, by size, to be drawn: loading pays as long as it is below computing.

    >>> from minikv import plan
    >>> tiers = plan("synthetic:chat?requests=9", "llama-3.1-8b", tiers="gpu=1GiB,host=4GiB@50GB/s")
    >>> list(hours_chart(PlanWords(tiers)).lines)
    ['prefill left', 'loading', 'computing what is loaded']
    """
    curve, times, without = plan_curves(words), words.plan.hours, words.plan.hours_without_cache
    fields = {"prefill left": "prefill_hours", "loading": "load_hours", "computing what is loaded": "loaded_hours"}
    lines = {name: [getattr(at, field) or None for at in times] for name, field in fields.items()}
    marks = {name: at for name, at in curve.marks.items() if name != "knee"}
    level = f"no cache {hours(without)}", without
    return Chart("Hours of prefill and of loading, by size", curve.axis, curve.xs, lines, " h", "xy", marks, level)


def plan_picture(words: PlanWords) -> str:
    """The curve of the plan as a picture in SVG, and with tiers the hours below it.

    >>> from minikv.traffic.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> plan_picture(PlanWords(make_plan(TraceTree(), Terms(16)))).count("<svg")
    1
    """
    charts = [plan_curves, hours_chart] if words.plan.tiers else [plan_curves]
    return below_each_other([chart_svg(chart(words)) for chart in charts])


def plan_page(words: PlanWords, about: str) -> str:
    """The page; `about` says which trace it is, and for which model.

    >>> from minikv.traffic.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> words = PlanWords(make_plan(TraceTree(), Terms(16)))
    >>> "How much cache does this traffic need?" in plan_page(words, "day.jsonl")
    True
    """
    body = [f"<p>{escape(about)}</p>", f"<p>{escape(words.summary())}</p>", facts(_figures(words))]
    drawn = plan_picture(words)
    body.append(
        f'<figure><div class="scroll curve" tabindex="0" role="region" aria-label="the curve">{drawn}</div>'
        "<figcaption>The share of all blocks that hit, by the size of the cache, on a logarithmic scale. The table "
        "below has figures.</figcaption></figure>"
    )
    return document("How much cache does this traffic need?", [*body, *map(section_html, words.sections())], _STYLE)


def _figures(words: PlanWords) -> list[tuple[str, str, str]]:
    """The figures that matter most."""
    plan, figures = words.plan, []
    if point := plan.at_memory:
        best = f"LRU with {words.size(point.blocks)}; at most {words.share(point.bound)} with any eviction"
        figures.append((f"hits with {words.memory_name}", words.share(point.hits), best))
    figures.append(("knee", words.size(plan.knee.blocks), f"LRU hits {words.share(plan.knee.hits)} there"))
    unlimited = f"unlimited memory: {words.size(plan.ceiling.blocks)}"
    if plan.tiers:
        last, without = plan.tiers[-1], f"and loading; without a cache {hours(words.plan.hours_without_cache)}"
        figures.append((f"prefill left with {last.name}", hours(last.prefill_hours), without))
    return [*figures, ("ceiling", words.share(plan.ceiling.hits), unlimited)]
