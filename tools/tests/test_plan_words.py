"""What is said of a plan: numbers as people read them, the points that are shown, and each section."""

import json
from dataclasses import asdict

import pytest
from golden_text import compare
from traffic import trace

from minikv.layers import KVLayers, LayerGroup
from minikv.tokens import pack
from minikv.traffic import TraceRequest
from minikv.traffic.trace_tree import TraceTree
from minikv_tools.cli.plan import hours_chart, plan_curves
from minikv_tools.plans import Terms
from minikv_tools.plans.plan_files import curve_csv, plan_object, plan_page
from minikv_tools.plans.plan_words import PlanWords, plan_text
from minikv_tools.plans.planning import make_plan
from minikv_tools.plans.prefill_cost import PrefillCost
from minikv_tools.plans.tiering import Tier
from minikv_tools.report import text_lines

PROMPTS = [[1, 2], [3], [4], [5], [1, 2]] * 3


def words(conversations=None, **terms):
    return PlanWords(make_plan(TraceTree(trace(*PROMPTS, conversations=conversations)), Terms(512, **terms)))


def text(**options):
    found = words(**options)
    return "\n".join([found.summary(), *text_lines(list(found.sections()))])


def test_without_a_model_sizes_are_in_the_units_of_the_trace():
    said = text(unit="bytes")
    assert "GiB" not in said
    assert "2,560 bytes" in said
    assert "FLOPs" not in said


def test_with_a_model_they_are_in_gib_and_the_memory_is_named():
    said = text(bytes_per_token=2**20, memory=2**30, cost=PrefillCost(100, 80, 4))
    assert "--memory, 1 GiB: LRU hits" in said
    assert "FLOPs saved" in said
    assert "[" not in said


def test_the_ceiling_the_knee_and_what_a_knee_is_are_said():
    said = text()
    assert "Ceiling: 57.1 % of the blocks hit" in said or "Ceiling: 76.2 %" in said
    assert "Knee: " in said
    assert "more memory gains less than the average of the whole curve" in said


def test_requests_that_do_not_fit_are_said():
    assert "Too large to be cached: 6 requests." in text(bytes_per_token=1, memory=512)


def test_the_longest_prompt_is_counted_in_tokens_not_in_whole_blocks():
    tree = TraceTree([TraceRequest(0, 7, 1, pack([1]))])
    assert "7 on average, 7 tokens at most" in PlanWords(make_plan(tree, Terms(512))).summary()


def test_a_time_to_live_is_a_row():
    said = text(lifetimes=(2, 3600))
    assert "  2 s" in said
    assert "3600 s" in said


def test_conversations_are_told_apart_or_not():
    assert "The trace names no conversations." in text()
    said = text(conversations=[0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2])
    assert "come from others (3 conversations)" in said


def test_the_table_has_every_named_point_and_every_other_one():
    found = words(bytes_per_token=1, memory=3 * 512)
    shown = [point.blocks for point in found.shown_points()]
    assert {3, found.plan.knee.blocks, found.plan.lru_reaches_ceiling_at_blocks} <= set(shown)
    named = [found.name(point) for point in found.shown_points()]
    assert sum("--memory" in name for name in named) == sum("knee" in name for name in named) == 1


# -- whole reports, small enough to be worked out by hand ----------------------------------------

GIB = 2**30
DAY = [[1, 2], [3], [1, 2, 4], [5, 6, 7], [1, 2, 4, 8], [3, 9], [1, 2]]
TALKS = [0, 1, 0, None, 2, 1, 3]
MODEL = {"bytes_per_token": 2**20, "memory": 3 * GIB}
TIERS = Tier("gpu", 3 * GIB, 1e12), Tier("host", 8 * GIB, 50e9)
LAYERS = KVLayers((
    LayerGroup("window", 2, per_token=2**18, window=1024),
    LayerGroup("state", 3, state=3 * 2**22, convention="sums in fp32"),
    LayerGroup("full attention", 4, per_token=2**20),
))  # fmt: skip
WINDOWS = KVLayers(LAYERS.groups[::2])
COST = PrefillCost(10**9, 8 * 10**8, 4)
TIMES = {"cost": COST, "tiers": TIERS, "warm_up": 0.2, "lifetimes": (2,)}
ALONE = {**MODEL, "memory": GIB, "layers": WINDOWS, "lifetimes": (2,)}
ONE = {**MODEL, **TIMES, "tiers": TIERS[:1]}


def day(talks=TALKS, **terms):
    return make_plan(TraceTree(trace(*DAY, conversations=talks)), Terms(512, **terms))


REPORTS = {
    "tiers of two GPUs": day(gpus=2, **MODEL, **TIMES),
    "layers on two GPUs": day(layers=LAYERS, gpus=2, **MODEL),
    "bytes without conversations": day(None, unit="bytes", lifetimes=(1.5,)),
    "one conversation": day([0] * 7, **ALONE),
    "one hit, one tier": make_plan(
        TraceTree(trace([1], [1], conversations=[5, 5])),
        Terms(512, **ONE),
    ),
    "an empty trace": make_plan(TraceTree(), Terms(512, lifetimes=(2,))),
}


@pytest.mark.parametrize("title", REPORTS)
def test_a_report_says_so(title):
    compare("plans.txt", title, plan_text(REPORTS[title]).split("\n"))


def test_layers_that_all_keep_the_same_have_no_table():
    assert "What the layers keep" not in plan_text(day(layers=KVLayers(LAYERS.groups[2:]), **MODEL))


@pytest.mark.parametrize("title", ["tiers of two GPUs", "one conversation"])
def test_as_data_it_is(title):
    found = plan_object(REPORTS[title])
    points = curve_csv(REPORTS[title]).split()
    assert len(found.pop("points")) == len(points) - 1
    found = [f"{name}: {json.dumps(value)}" for name, value in found.items()]
    compare("plans.txt", f"{title}, as data", [*found, *points])


CHARTS = [("tiers of two GPUs", hours_chart), ("layers on two GPUs", plan_curves)]


@pytest.mark.parametrize(("title", "more"), CHARTS)
def test_the_page_has_its_points_and_curves(title, more):
    words = PlanWords(REPORTS[title])
    page = plan_page(words, "day.jsonl", "")
    named = [point for point in words.shown_points() if words.name(point)]
    assert page.count('<tr class="marked">') == len(named) >= 3
    curves = [f"{name}: {value}" for name, value in asdict(more(words)).items()]
    compare("plans.txt", f"{title}, on the page", curves)
