"""Tiers of memory in a plan: by hand, against pages that really move, and in every form in which a plan is shown."""

from __future__ import annotations

import csv
import io
import json
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_report import Tags
from traffic import CUTS, random_prompts, trace
from two_tiers import SESSIONS, arrivals, bought, served, sessions_in

from minikv import cli
from minikv.tokens import PackedTokens
from minikv.traffic import TraceRequest, reuse
from minikv.traffic.curve import HitCurve
from minikv.traffic.trace_tree import TraceTree
from minikv_tools import plan
from minikv_tools.cli.plan import hours_chart, plan_picture
from minikv_tools.plans import Terms
from minikv_tools.plans.plan_files import curve_csv, plan_object, plan_page
from minikv_tools.plans.plan_words import PlanWords
from minikv_tools.plans.planning import make_plan
from minikv_tools.plans.prefill_cost import PrefillCost
from minikv_tools.plans.tiering import SPEED, Tier, Tiering, read_tiers

COST = PrefillCost(total=100, active=80, per_pair=4)
MOONCAKE = str(CUTS / "mooncake.jsonl")


def planned(*prompts, tiers="gpu=1024B@100FLOP/s,host=2048B@1B/s,disk=2560B@1B/s", cost=COST, **terms):
    levels = read_tiers(tiers) if isinstance(tiers, str) else tiers
    more = {"bytes_per_token": 1, "memory": levels[0].bytes, "cost": cost, "tiers": levels, **terms}
    return make_plan(TraceTree(trace(*prompts)), Terms(512, **more))


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_each_tier_finds_what_those_before_it_do_not():
    """[1 2] is back after [3] and [4 5]: its first block has place 4, its second 5; 5 follows 4 at once."""
    found = planned([1, 2], [3], [4, 5], [4, 5], [1, 2])
    assert [
        (tier.name, tier.blocks, tier.hits, tier.tokens_loaded, round(tier.load_hours * 3600)) for tier in found.tiers
    ] == [("gpu", 2, 2, 0, 0), ("host", 4, 1, 512, 512), ("disk", 5, 1, 512, 512)]
    total = 4 * COST.flops(1024) + COST.flops(512)
    saved = [COST.flops(1024), COST.flops(512), COST.flops(1024) - COST.flops(512)]
    left = [(total - sum(saved[: at + 1])) / 100 / 3600 for at in range(3)]
    assert [tier.prefill_hours for tier in found.tiers] == pytest.approx(left, abs=1e-6)
    assert found.hours_without_cache == total / 100 / 3600
    assert sum(tier.hits for tier in found.tiers) == found.ceiling.hits
    assert found.tiers[1].hit_rate == round(1 / 9, 6)


@pytest.mark.parametrize(("rate", "is_loaded"), [(0.625, False), (0.626, True)])
def test_what_takes_no_less_to_load_than_to_compute_is_computed(rate, is_loaded):
    """A token takes 160 FLOPs, or 1.6 seconds, and so it does over a link of 0.625 bytes per second."""
    tiers = Tier("gpu", 512, 100), Tier("host", 4096, rate)
    host = planned([1], [2], [1], tiers=tiers, cost=PrefillCost(100, 80, 0)).tiers[1]
    assert (host.hits, host.tokens_loaded) == (1, 512 if is_loaded else 0)
    assert (host.load_hours > 0) == is_loaded
    assert host.break_even_tokens == (1 if is_loaded else None)
    assert host.break_even_rate == 0.625


@pytest.mark.parametrize(
    ("prompts", "seconds", "is_loaded"),
    [
        (([1], [2], [3], [4], [1]), 11, True), (([1], [2], [3], [4], [1]), 12, False),
        (([1, 2], [1], [3], [4], [1, 2]), 32, True), (([1, 2], [1], [3], [4], [1, 2]), 33, False),
        (([1, 2, 3], [1, 2], [4], [1, 2, 3]), 52, True), (([1, 2, 3], [1, 2], [4], [1, 2, 3]), 53, False),
    ],
)  # fmt: skip
def test_the_deeper_in_a_prompt_a_block_is_the_slower_a_link_may_be(prompts, seconds, is_loaded):
    """To compute one of its tokens takes 11.9 s in block 1, 32.3 s in block 2, 52.8 s in block 3, on average."""
    tiers = Tier("gpu", 1536, 100), Tier("host", 4096, 1 / seconds)
    host = planned(*prompts, tiers=tiers).tiers[1]
    assert (host.hits, host.tokens_loaded) == (1, 512 * is_loaded)


def test_a_request_that_the_gpu_cannot_hold_uses_no_tier():
    found = planned([1, 2, 3], [1], [1, 2, 3], tiers="gpu=1024B,host=4096B@1B/s")
    assert [tier.hits for tier in found.tiers] == [0, 0]


def test_what_is_on_the_gpu_is_never_computed_again_however_slow_that_would_be_to_read():
    """512 tokens are computed once: 1,024 FLOPs of 100 a second."""
    tiers, small = "gpu=1MB@100FLOP/s,host=2MB@1B/s", PrefillCost(1, 1, 0)
    found = planned([1], [1], tiers=tiers, cost=small, bytes_per_token=1000)
    assert found.tiers[0].prefill_hours == round(1024 / 100 / 3600, 6)


def test_the_hours_at_a_size_fill_one_tier_after_the_other_and_the_last_has_the_rest():
    found = planned([1, 2], [3], [4, 5], [4, 5], [1, 2])
    hours = {at.blocks: at for at in found.hours}
    assert [hours[tier.blocks].prefill_hours for tier in found.tiers] == [tier.prefill_hours for tier in found.tiers]
    assert [at.blocks for at in found.hours] == [point.blocks for point in found.points]
    assert hours[5].load_hours == pytest.approx(1024 / 3600, abs=1e-6)
    assert hours[5].loaded_hours == pytest.approx((COST.flops(1024)) / 100 / 3600, abs=1e-6)
    assert hours[2].load_hours == hours[2].loaded_hours == 0
    alone = planned([1, 2], [3], [1, 2], tiers="gpu=1024B@100FLOP/s")
    assert [at.load_hours for at in alone.hours] == [0.0] * len(alone.hours)
    assert alone.hours[-1].prefill_hours < alone.tiers[0].prefill_hours


def test_several_gpus_compute_and_load_together_and_a_warm_up_is_not_counted():
    one, two = (planned([1], [2], [1], gpus=gpus) for gpus in (1, 2))
    assert two.tiers[1].prefill_hours == pytest.approx(one.tiers[1].prefill_hours / 2, abs=1e-6)
    assert planned([1], [2], [1], [2], warm_up=0.75, tiers="gpu=512B,host=1024B@1B/s").tiers[1].hit_rate == 1.0


# -- pages that move ---------------------------------------------------------------------------------------------------


def compared(requests, gpu, host, block=64, token_bytes=4, link=50e9, speed=SPEED, cost=COST, curve=None):
    """What `Tiering` says of two tiers, and what pages that move do: hit shares, hours of prefill and of loading."""
    if curve is None:
        curve = HitCurve(tree_of(requests))
    inputs = np.array(curve.tree.inputs, np.int64)
    tiers = Tier("gpu", gpu, speed), Tier("host", host, link)
    flops = sum(map(cost.flops, inputs.tolist()))
    tiering = Tiering(tiers, [gpu, host], block, token_bytes, cost, 1, curve, inputs, flops)
    near, far = tiering.points()
    found = list(served([path for path, _ in requests], gpu, host))
    moved = bought(requests, found, block, (2 * cost.active, cost.per_pair), token_bytes, link, speed)
    return (near.hit_rate, far.hit_rate, far.prefill_hours, far.load_hours), moved


def tree_of(requests):
    return TraceTree(
        TraceRequest(0, tokens, 1, PackedTokens(path.astype(np.uint32).tobytes())) for path, tokens in requests
    )


@given(st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 12), st.sampled_from([1, 30, 1e9]))
@example(1, 2, 3, 30)
def test_it_is_what_pages_that_move_do(seed, gpu, more, link):
    names: dict[tuple[int, ...], int] = {}
    prompts = random_prompts(seed, most=30)
    requests = [
        (np.array([names.setdefault(tuple(prompt[: at + 1]), len(names)) for at in range(len(prompt))], np.int64),
         max(0, 16 * len(prompt) - seed % 16))
        for prompt in prompts
    ]  # fmt: skip
    if not names:
        return
    ours, moved = compared(requests, gpu, gpu + more, block=16, link=link, speed=5000)
    assert ours == pytest.approx(moved, abs=1e-6)


@pytest.mark.parametrize(("gpu", "host"), [(6700, 9000), (7000, 30000)])
def test_on_some_sessions_of_agents_too(gpu, host):
    ours, moved = compared(arrivals(sessions_in(CUTS / "agents.jsonl"), hours=0.2), gpu, host)
    assert ours == pytest.approx(moved, abs=1e-6)
    assert ours[1] > 0.1


LLAMA_70B = PrefillCost(70_600_000_000, 70_600_000_000, 4 * 80 * 64 * 128)
PAIRS = [(1.4, 3), (1.4, 6.5), (1.4, 26), (1, 2), (1, 4), (1, 8), (2, 4), (2, 8), (4, 8), (4, 16)]  # millions of tokens
BLOCK, EACH, LINK = 64, 327_680, 8 * 50e9


@pytest.mark.nightly
@pytest.mark.skipif(not SESSIONS.exists(), reason="needs the trace of 692 sessions: MINIKV_SHARED names its folder")
def test_on_all_sessions_at_ten_pairs_of_sizes():
    """Eight GPUs as one."""
    requests = arrivals(sessions_in(SESSIONS))
    assert len(requests) == 42_906
    curve = HitCurve(tree_of(requests))
    for gpu, host in PAIRS:
        near, far = (int(millions * 1e6) // BLOCK for millions in (gpu, host))
        ours, moved = compared(requests, near, far, BLOCK, EACH, LINK, 8 * SPEED, LLAMA_70B, curve)
        assert ours == pytest.approx(moved, abs=1e-6)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tiers", "said"),
    [
        ("gpu=60GiB,host=1TiB", "'host=1TiB' is not a tier: expected one such as gpu=60GiB"),
        ("gpu=60GiB,host=1TiB@50", "'host=1TiB@50' is not a tier: expected one such as gpu=60GiB"),
        ("gpu=60GiB,host=1TiB@50Gb/s", "'host=1TiB@50Gb/s' is not a tier: expected one such as gpu=60GiB"),
        ("gpu=60GiB@", "'gpu=60GiB@' is not a tier: expected one such as gpu=60GiB"),
        ("gpu=60GiB@400TB", "'gpu=60GiB@400TB' is not a tier: expected one such as gpu=60GiB"),
        ("gpu=60GiB,host=1TiB@50GB", "'host=1TiB@50GB' is not a tier: expected one such as gpu=60GiB"),
        ("gpu=60GiB@400TB/s", "'gpu=60GiB@400TB/s' is not a tier: expected one such as gpu=60GiB"),
        ("gpu=60GiB,host=1TiB@0GB/s", "host is '0GB': expected a number and its unit"),
        ("gpu=60", "gpu is '60': expected a number and its unit"),
        ("gpu=0GiB", "gpu is '0GiB': expected a number and its unit"),
        ("gpu=60GiB,ssd=1TiB@5GB/s", "'ssd=1TiB@5GB/s' is not a tier: expected one such as gpu=60GiB"),
        ("60GiB", "'60GiB' is not a tier"),
        ("gpu=60GiB,", "'' is not a tier"),
        ("host=1TiB@50GB/s", "tiers are host: expected gpu, then host or disk or both, each once"),
        ("gpu=1GiB,disk=8TiB@1GB/s,host=9TiB@1GB/s", "tiers are gpu, disk, host: expected gpu, then host or disk"),
        ("gpu=1GiB,gpu=2GiB", "tiers are gpu, gpu: expected"),
        ("gpu=60GiB,host=60GiB@50GB/s", "host is 60 GiB: expected more than gpu, 60 GiB"),
    ],
)
def test_what_is_no_tier_is_named_with_its_value_and_the_rule(tiers, said, capsys):
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        read_tiers(tiers)
    assert cli.main(["plan", MOONCAKE, "--model", "llama-3.1-8b", "--tiers", tiers]) == 2
    assert f"minikv: {said}" in capsys.readouterr().err


def test_tiers_are_a_text():
    with pytest.raises(TypeError, match="tiers is 5: expected a text, such as gpu=60GiB,host=1TiB@50GB/s"):
        read_tiers(5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "tiers needs a model or bytes_per_token, and neither is given"),
        ({"model": "llama-3.1-8b", "memory": "1GiB"}, "memory is given twice"),
        ({"model": "gemma-3-12b"}, "which overestimates the hits, give bytes_per_token 65536 in place"),
    ],
)
def test_a_plan_that_tiers_do_not_fit_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        plan(MOONCAKE, tiers="gpu=60GiB,host=1TiB@50GB/s", **options)


# -- how it is shown ---------------------------------------------------------------------------------------------------

TIERS = "gpu=1GiB,host=4GiB@50GB/s,disk=8GiB@10GB/s"


def test_the_gpu_is_the_memory():
    found = plan(MOONCAKE, "llama-3.1-8b", tiers=TIERS)
    assert found.at_memory.blocks == found.tiers[0].blocks
    assert found.at_memory.hits == found.tiers[0].hits


def test_without_a_model_tiers_have_hits_and_load_all_of_them():
    model, given = plan(MOONCAKE, "llama-3.1-8b", tiers=TIERS), plan(MOONCAKE, bytes_per_token=2**17, tiers=TIERS)
    fields = ["hits", "tokens_loaded", "load_hours", "break_even_tokens", "break_even_rate", "prefill_hours"]
    found = [[getattr(tier, field) for field in fields] for tier in given.tiers]
    assert found == [[getattr(tier, field) for field in fields[:3]] + [None] * 3 for tier in model.tiers]
    section = next(one for one in PlanWords(given).sections() if one.title == "Tiers")
    assert (
        "Everything found is loaded: only a model's FLOPs tell what is worth loading and how much prefill is left."
        in section.sentences[1]
    )
    assert (section.head[4], len(section.head), [row[0] for row in section.rows]) == (
        "adds hits", 7, ["gpu", "host", "disk"],
    )  # fmt: skip
    indexer = plan("synthetic:chat?requests=9", "deepseek-v3.2", tiers=TIERS)
    assert [tier.prefill_hours for tier in indexer.tiers] == [None] * 3
    assert (given.hours, plan_picture(PlanWords(given)).count("<svg")) == ((), 1)
    assert "prefill left" not in plan_page(PlanWords(given), "", "").replace("the prefill left", "")


def test_without_tiers_nothing_is_said_of_them():
    found = plan(MOONCAKE, "llama-3.1-8b", "1GiB")
    assert (found.tiers, found.hours, found.hours_without_cache) == ((), (), 0.0)
    assert not {"tiers", "hours"} & set(plan_object(found))
    assert "hours" not in curve_csv(found)
    assert "Tiers" not in str(found)
    assert "--memory" in str(found)


def test_every_form_has_the_tiers(tmp_path, capsys):
    files = [tmp_path / "plan.csv", tmp_path / "plan.html"]
    options = ["--csv", str(files[0]), "--html", str(files[1])]
    assert cli.main(["plan", MOONCAKE, "--model", "llama-3.1-8b", "--tp", "2", "--tiers", TIERS, *options]) == 0
    said, found = capsys.readouterr().out, plan(MOONCAKE, "llama-3.1-8b", tiers=TIERS, tp=2)
    assert str(found) in said
    assert "computing a token is faster than loading it, so it is computed" in " ".join(said.split())
    table, page = (path.read_bytes() for path in files)
    (section,) = [one for one in PlanWords(found).sections() if one.title == "Tiers"]
    assert [row[0] for row in section.rows] == ["none", "gpu", "host", "disk"]
    assert all(cell in page.decode() for row in section.rows for cell in row)
    rows = csv.DictReader(io.StringIO(table.decode()))
    hours = {row["tier"]: float(row["prefill_hours"]) for row in rows if row["tier"]}
    assert hours == {tier.name: tier.prefill_hours for tier in found.tiers}
    told = json.loads(json.dumps(plan_object(found)))
    sizes = [(tier["bytes"], tier["rate"]) for tier in told["tiers"]]
    assert sizes == [(2**30, SPEED), (2**32, 50e9), (2**33, 10e9)]
    assert told["tiers"][1]["break_even_rate"] > 1e9
    assert len(told["hours"]) == len(told["points"])


def test_the_picture_has_both_charts_with_a_mark_for_each_tier():
    words = PlanWords(plan(MOONCAKE, "llama-3.1-8b", tiers=TIERS))
    chart = hours_chart(words)
    assert [*chart.marks.items()] == [("gpu", 1), ("host", 4), ("disk", 8)]
    assert chart.lines["loading"][0] is None
    picture = plan_picture(words)
    page = plan_page(words, "day.jsonl", picture)
    assert (picture in page, Tags(page).open) == (True, [])


def test_what_the_weights_take_is_no_part_of_the_gpu():
    found = plan(MOONCAKE, "llama-3.1-8b", tiers="gpu=20GiB,host=25GiB@50GB/s", weights="bf16")
    assert found.tiers[0].bytes == found.memory < 2**33
    assert found.tiers[0].blocks == found.at_memory.blocks


def test_tiers_of_as_many_blocks_are_all_named_in_the_csv():
    found = planned([1, 2], [3], [1, 2], tiers="gpu=1024B,host=1025B@1B/s,disk=2048B@1B/s")
    rows = {row["blocks"]: row["tier"] for row in csv.DictReader(io.StringIO(curve_csv(found)))}
    assert (rows["2"], rows["4"], rows["3"]) == ("gpu, host", "disk", "")


def test_tiers_take_no_more_passes_over_the_trace(monkeypatch):
    passes, pass_over = [], reuse.reuse_in
    monkeypatch.setattr(reuse, "reuse_in", lambda *of: passes.append(of) or pass_over(*of))
    chat = "synthetic:chat?requests=60", "llama-3.1-8b"  # most sizes are smaller than some request
    plan(*chat, "1GiB")
    without = len(passes)
    plan(*chat, tiers="gpu=1GiB,host=4GiB@50GB/s")
    assert 5 < len(passes) - without <= without


@pytest.mark.parametrize("tiers", ["gpu=1024B", "gpu=1024B,host=9999B@1B/s,disk=999999B@1B/s"])
def test_the_steps_are_not_more_than_were_said(tiers):
    progress = Mock()
    terms = Terms(512, bytes_per_token=1, memory=1024, cost=COST, tiers=read_tiers(tiers))
    make_plan(TraceTree(trace([1, 2], [3], [4, 5], [1, 2])), terms, progress)
    (said,) = progress.expect.call_args.args
    assert progress.call_count in {said - 1, said}  # the knee may be a size that is there anyway


def test_a_link_that_never_pays_is_said_to():
    words = PlanWords(planned([1], [2], [1], tiers="gpu=512B,host=1024B@1B/s", cost=PrefillCost(1, 1, 0)))
    (section,) = [one for one in words.sections() if one.title == "Tiers"]
    assert section.rows[2][4] == "never"
