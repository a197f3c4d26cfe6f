"""The report of a plan as one HTML file: its figures, its curve, and every table."""

from __future__ import annotations

from minikv.traffic.page import document, escape, table
from minikv.traffic.plan.curve_svg import curve_svg
from minikv.traffic.plan.plan import Plan
from minikv.traffic.plan.plan_files import plan_curves
from minikv.traffic.plan.plan_words import PlanWords
from minikv.traffic.plan.quantities import percent
from minikv.traffic.plan.report_parts import NOTE, ReportPart

_STYLE = """.curve svg { min-width: 30rem; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
"""  # the heading above a table says what its caption says


def plan_page(plan: Plan, words: PlanWords, about: str) -> str:
    """The page; `about` says which trace it is, and for which model.

    >>> from minikv.traffic.plan.plan import Terms
    >>> from minikv.traffic.plan.planning import TraceTree, make_plan
    >>> plan = make_plan(TraceTree(), Terms(16))
    >>> "How much cache does this traffic need?" in plan_page(plan, PlanWords(plan), "day.jsonl")
    True
    """
    body = [f"<p>{escape(about)}</p>", f"<p>{escape(words.summary())}</p>", _facts(plan, words)]
    curves = plan_curves(plan, words)
    body.append(
        f'<figure><div class="scroll curve" tabindex="0" role="region" aria-label="the curve">{curve_svg(curves)}</div>'
        "<figcaption>The share of all blocks that a cache of each size finds, on a scale of powers. The table below "
        "has the same figures.</figcaption></figure>"
    )
    body += [_section(section) for section in words.sections()]
    return document("How much cache does this traffic need?", "\n".join(body), _STYLE)


def _facts(plan: Plan, words: PlanWords) -> str:
    """The figures that matter most, large."""
    bend, facts = plan.at(plan.knee) or plan.ceiling, []
    if point := plan.at(plan.terms.capacity):
        best = f"LRU with {words.size(point.blocks)}; at most {percent(plan.rate(point.bound))} with any eviction"
        facts.append(("hits with --memory", percent(plan.rate(point.hits)), best))
    facts.append(("knee", words.size(bend.blocks), f"LRU hits {percent(plan.rate(bend.hits))} there"))
    facts.append(("ceiling", percent(plan.rate(plan.ceiling.hits)), f"unlimited memory: {words.size(plan.distinct)}"))
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd><dd>{escape(more)}</dd></div>"
        for name, value, more in facts
    )
    return f'<dl class="facts">{cells}</dl>'


def _section(section: ReportPart) -> str:
    text = "".join(f"<p>{escape(sentence)}</p>" for sentence in section.sentences)
    if section.head:
        left = [at for at, name in enumerate(section.head) if name in ("policy", NOTE)]
        text += table(section.title, section.head, section.rows, left, section.marked)
    return f"<h2>{escape(section.title)}</h2>{text}"
