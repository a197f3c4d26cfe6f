"""The report of a plan: one page with every table and the curve, safe whatever the trace is called."""

from __future__ import annotations

from test_page import Tags
from traffic import trace

from minikv.traffic.plan.plan import Terms
from minikv.traffic.plan.plan_page import plan_page
from minikv.traffic.plan.plan_words import PlanWords
from minikv.traffic.plan.planning import make_plan
from minikv.traffic.trace_tree import TraceTree


def page(about="day.jsonl", **terms):
    plan = make_plan(TraceTree(trace([1, 2], [3], [1, 2])), Terms(512, **terms))
    return plan, plan_page(plan, PlanWords(plan), about)


def test_every_section_of_the_text_is_on_the_page():
    plan, found = page(token_bytes=2**20, memory=2**30, lifetimes=(60,))
    for section in PlanWords(plan).sections():
        assert f"<h2>{section.title}</h2>" in found
        for row in section.rows:
            assert all(cell in found for cell in row)
    assert "hits with --memory" in found


def test_it_is_closed_loads_nothing_and_has_one_picture_with_a_name():
    seen = Tags(page()[1])
    assert seen.open == []
    tags = [tag for tag, _ in seen.seen]
    assert tags.count("svg") == tags.count("h1") == 1
    assert "script" not in tags
    assert next(attributes for tag, attributes in seen.seen if tag == "svg")["aria-label"]


def test_the_name_of_a_trace_cannot_break_it():
    assert "<script>" not in page("<script>alert(1)</script>")[1]
