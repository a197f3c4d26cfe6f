"""A plan as JSON, as CSV, as curves and as one page: every point is there, safe whatever the trace is called."""

import json

from traffic import trace

from minikv.traffic.trace_tree import TraceTree
from minikv_tools.cli.plan import plan_curves, plan_picture
from minikv_tools.plans import Terms
from minikv_tools.plans.plan_files import plan_object, plan_page
from minikv_tools.plans.plan_words import PlanWords
from minikv_tools.plans.planning import make_plan

PLAN = make_plan(
    TraceTree(trace([1, 2], [3], [4], [1, 2], conversations=[0, 1, 1, 0])),
    Terms(512, bytes_per_token=2**20, memory=2**30, lifetimes=(60,)),
)


def test_the_object_is_json_and_has_what_the_tables_have():
    found = json.loads(json.dumps(plan_object(PLAN)))
    assert [point["blocks"] for point in found["points"]] == [point.blocks for point in PLAN.points]
    assert found["at_memory"]["blocks"] == 2
    assert found["at_memory"]["bytes"] == 2**30
    assert (found["ceiling"]["hits"], found["ceiling"]["own_conversation_hits"]) == (2, 2)
    assert found["knee"]["blocks"] == PLAN.knee.blocks
    assert found["time_to_live"][0]["hit_rate"] == round(2 / 6, 6)
    assert found["prefixes"][0]["tokens_saved"] == 2 * 512


def test_without_a_memory_there_is_no_point_at_it():
    plan = make_plan(TraceTree(trace([1])), Terms(512))
    assert plan_object(plan)["at_memory"] is None


def test_the_curves_are_over_gib_or_over_tokens():
    curves = plan_curves(PlanWords(PLAN))
    assert curves.axis == "GiB of cache"
    assert curves.marks["--memory"] == 1
    assert max(map(max, curves.lines.values())) <= curves.level[1]
    bare = make_plan(TraceTree(trace([1], [1])), Terms(512, unit="bytes"))
    assert plan_curves(PlanWords(bare)).axis == "bytes of cache"
    assert plan_curves(PlanWords(bare)).xs == [512]


def page(about="day.jsonl", **terms):
    plan = make_plan(TraceTree(trace([1, 2], [3], [1, 2])), Terms(512, **terms))
    words = PlanWords(plan)
    return plan, plan_page(words, about, plan_picture(words))


def test_every_section_of_the_text_is_on_the_page():
    plan, found = page(bytes_per_token=2**20, memory=2**30, lifetimes=(60,))
    for section in PlanWords(plan).sections():
        assert f"<h2>{section.title}</h2>" in found
        for row in section.rows:
            assert all(cell in found for cell in row)


def test_the_name_of_a_trace_cannot_break_it():
    assert "<script>" not in page("<script>alert(1)</script>")[1]
