"""A plan as data and as a page: one object for programs, its curve for spreadsheets and for the eye, its report."""

from __future__ import annotations

from typing import Any

from minikv.traffic.chart import Chart, chart_svg
from minikv.traffic.plan import Plan, PlanPoint
from minikv.traffic.plan.plan_words import PlanWords
from minikv.traffic.quantities import GIB
from minikv.traffic.report import NOTE, ReportPart, csv_text, document, escape, facts, table

_STYLE = """.curve svg { min-width: 30rem; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
"""  # the heading above a table says what its caption says


def plan_object(words: PlanWords) -> dict[str, Any]:
    """The plan as an object of JSON: shares from 0 to 1, sizes in blocks, in the trace's units and in bytes.

    >>> from minikv.traffic.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> plan_object(PlanWords(make_plan(TraceTree(), Terms(16))))["ceiling"]["hits"]
    0
    """
    plan, terms, each = words.plan, words.plan.terms, _each(words.plan)
    return {
        "requests": plan.requests, "seconds": plan.seconds, "warm_up": terms.warm_up, "blocks": plan.blocks,
        "block_size": terms.block_size, "unit": words.unit, "prompt_tokens": plan.tokens, "prefill_flops": plan.flops,
        "distinct_blocks": plan.distinct, "longest_request_blocks": plan.longest,
        f"bytes_per_token{each}": terms.token_bytes, f"memory{each}": terms.memory,
        "points": [_point(plan, point) for point in plan.points],
        "at_memory": plan.at_memory and _point(plan, plan.at_memory),
        "knee": _point(plan, plan.bend), "ceiling": _point(plan, plan.ceiling),
        "lru_reaches_ceiling_at_blocks": plan.reach,
        **_reuse(plan),
        "policies": {
            name: [{"blocks": size, "hits": hits, "hit_rate": _share(plan, hits)} for size, hits in found.items()]
            for name, found in words.policies.items()
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


def _each(plan: Plan) -> str:
    """What the names of bytes end in where a model is split: they are those of one GPU."""
    return "_per_gpu" if plan.terms.gpus > 1 else ""


def _share(plan: Plan, hits: int) -> float:
    return round(plan.rate(hits), 6)


def _point(plan: Plan, point: PlanPoint) -> dict[str, Any]:
    terms = plan.terms
    size = point.blocks * terms.block_size
    return {
        "blocks": point.blocks, "tokens": size, f"bytes{_each(plan)}": terms.token_bytes and size * terms.token_bytes,
        "hits": point.hits, "hit_rate": _share(plan, point.hits),
        "bound": point.bound, "bound_rate": _share(plan, point.bound),
        "own_conversation_hits": point.own, "tokens_saved": point.tokens_saved, "flops_saved": point.flops_saved,
        "requests_too_large": point.too_large,
    }  # fmt: skip


def curve_csv(words: PlanWords) -> str:
    """The curve as CSV, a line for each size; each policy has a column, which is empty where it was not replayed.

    >>> from minikv.traffic.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> curve_csv(PlanWords(make_plan(TraceTree(), Terms(16)))).splitlines()[1]
    '1,16,,0,0.0,0,0.0,,0,,0'
    """
    rows = [_point(words.plan, point) for point in words.plan.points]
    replayed = words.policies.items()
    return csv_text([row | {f"{name}_hits": hits.get(row["blocks"]) for name, hits in replayed} for row in rows])


def plan_curves(words: PlanWords) -> Chart:
    """The curve of the plan, to be drawn.

    >>> from minikv.traffic.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> list(plan_curves(PlanWords(make_plan(TraceTree(), Terms(16)))).lines)
    ['LRU', 'bound of any eviction']
    """
    plan = words.plan
    scale = words.block_bytes / GIB if words.block_bytes else plan.terms.block_size
    lines = {
        "LRU": [100 * plan.rate(point.hits) for point in plan.points],
        "bound of any eviction": [100 * plan.rate(point.bound) for point in plan.points],
    }
    marks = {"knee": plan.knee * scale}
    if plan.terms.capacity:
        marks["--memory"] = plan.terms.capacity * scale
    axis = f"GiB of cache{words.each}" if words.block_bytes else f"{words.unit} of cache"
    level = (f"ceiling {words.share(plan.ceiling.hits)}", 100 * plan.rate(plan.ceiling.hits))
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
    body += [_section(section) for section in words.sections()]
    return document("How much cache does this traffic need?", "\n".join(body), _STYLE)


def _figures(words: PlanWords) -> list[tuple[str, str, str]]:
    """The figures that matter most."""
    plan, figures = words.plan, []
    if point := plan.at_memory:
        best = f"LRU with {words.size(point.blocks)}; at most {words.share(point.bound)} with any eviction"
        figures.append(("hits with --memory", words.share(point.hits), best))
    figures.append(("knee", words.size(plan.bend.blocks), f"LRU hits {words.share(plan.bend.hits)} there"))
    unlimited = f"unlimited memory: {words.size(plan.distinct)}"
    return [*figures, ("ceiling", words.share(plan.ceiling.hits), unlimited)]


def _section(section: ReportPart) -> str:
    text = "".join(f"<p>{escape(sentence)}</p>" for sentence in section.sentences)
    if section.head:
        left = [at for at, name in enumerate(section.head) if name in ("policy", NOTE)]
        text += table(section.title, section.head, section.rows, left, section.marked)
    return f"<h2>{escape(section.title)}</h2>{text}"
