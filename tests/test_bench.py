"""`minikv bench`: what it measures, what it promises, and what it prints."""

import dataclasses
import json
import sys
from contextlib import nullcontext

import pytest
from golden_text import compare
from refusals import said
from test_cli import ended, told

from minikv import cli
from minikv.measure import bench
from minikv.measure.bench import Figures
from minikv.measure.race import Race, Result
from minikv.traffic.traces import Traffic

pytestmark = pytest.mark.usefixtures("stays_frozen")


QUICK = ["bench", "--quick", "--rounds", "1"]


def raced(workload, share, publish, *p50):
    names = "minikv", "bare index", "minikv, pages of 16"
    results = [Result(name, [took], [took], 0.5) for name, took in zip(names, p50)]
    return Race(workload, "a title", share, share + 2, publish, 2, 2.0, 2.0, results)


def test_the_promises_of_a_race_are_found_in_it():
    races = [
        raced("W1", 10, False, 15.0, 9.0, 30.0),
        raced("W1", 10, True, 38.0, 14.0, 30.0),
        raced("W2", 50, False, 30.0, 7.0, 30.0),
        raced("W6", 10, False, 40610.0, 7.0, 30.0),
    ]
    found = Figures("here", "today", 1, False, races)
    compare("reports.txt", "races", found.report().splitlines())
    assert not [*dataclasses.replace(found, races=[]).promises()]


def test_the_bench_ticks_as_often_as_it_says():
    ticks, totals = [], []
    found = bench(only=["W3", "W3"], rounds=1, quick=True, tick=ticks.append, expect=totals.append)
    assert totals == [len(ticks)]
    raced = [(race.workload, race.share, race.publish) for race in found.races]
    assert raced == [("W3", 10, False), ("W3", 10, True)], "a workload that is named twice is raced once"


def test_the_command_prints_json_and_races_a_guest_and_the_other_designs(capsys, tmp_path, monkeypatch):
    (tmp_path / "guest_index.py").write_text("from minikv.measure.textbook import TextbookCache as Mine\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    guests = ["--race", "guest_index:Mine", *(f"--index={name}" for name in ("hash", "window", "radix"))]
    for race in json.loads(told(capsys, *QUICK, "--only", "w4", "--json", *guests).out)["races"]:
        found = {result["name"]: result["hit_rate"] for result in race["results"]}
        designs = ["hash, pages of 16", "bare hash, pages of 16", "window", "bare window"]
        assert [*found][-5:] == [*designs, "guest_index:Mine"]
        for one, same in (("hash, pages of 16", "minikv, pages of 16"), ("bare window", "bare index")):
            assert abs(found[one] - found[same]) < 0.05


GUEST = """
from minikv.measure.textbook import TextbookCache

class NeedsMore(TextbookCache):
    def __init__(self, size):
        super().__init__()

class Fails(TextbookCache):
    def lock(self, handle):
        raise ValueError("mine\x1b[31m" + "x" * 9999)
"""
WRONG = [
    (["--only", "W3", "--race", "odd_index:Fails"], 1, "minikv: odd_index:Fails failed: ValueError: mine\ufffd[31mxxx"),
    (["--race", "odd_index:NeedsMore"], 2, "'odd_index:NeedsMore' cannot be raced: NeedsMore.__init__() missing 1"),
    (["--race", "nowhere:Thing"], 2, "'nowhere:Thing' cannot be raced: No module named 'nowhere'"),
    (["--race", "json:JSONDecoder"], 2, "cannot be raced: it has no match_prefix"),
    (["--only", "W9"], 2, "'W9' is not a workload: expected some of W1, W2"),
    (["--only", "W6"], 2, "W6 is the workload of --trace: pass both of them, or neither"),
    (["--trace", "none.jsonl", "--only", "W1"], 2, "W6 is the workload of --trace: pass both of them, or neither"),
    (["--trace", "none.jsonl"], 2, "none.jsonl"),
    (["--trace", "odd_index.py"], 2, "odd_index.py, line 2: "),
]


@pytest.mark.parametrize(("options", "status", "says"), WRONG)
def test_a_wrong_call_and_a_guest_that_fails_are_one_clear_line(options, status, says, tmp_path, monkeypatch, capsys):
    (tmp_path / "odd_index.py").write_text(GUEST, "utf-8")
    monkeypatch.chdir(tmp_path)
    assert ended(*QUICK, *options) == status
    line = capsys.readouterr().err.splitlines()[-1]
    assert says in line
    assert line.isprintable()
    assert len(line) < 300


def write(path, blocks, output):
    line = {"timestamp": 0, "input_length": 900, "output_length": output, "hash_ids": blocks}
    path.write_text((json.dumps(line) + "\n") * 2, "utf-8")
    return str(path)


def test_the_command_races_on_a_trace_when_it_is_given_one(tmp_path, capsys):
    trace = write(tmp_path / "h.jsonl", [0, 1], 5)
    out = told(capsys, *QUICK, "--trace", trace, "--only", "W6").out
    for part in ("W6 mooncake, 2 requests, room for", "prompts published after prefill", "bare index, pages of 16"):
        assert part in out
    assert "promised:" not in out


def no_race(monkeypatch):
    monkeypatch.setattr(sys.modules["minikv.measure.bench"], "race", lambda *_: pytest.fail("it raced"))


@pytest.mark.parametrize(("blocks", "output", "says"), [
    ([0, 1], 2**53, "request 1 brings the trace to 9007199254741892 tokens: expected at most 134217728"),
    ([0], 1, "input_length is 900: 1 blocks hold 512 tokens each"),
])  # fmt: skip
def test_a_trace_that_cannot_be_raced_is_one_line_before_any_race(blocks, output, says, tmp_path, capsys, monkeypatch):
    no_race(monkeypatch)
    assert cli.main([*QUICK, "--trace", write(tmp_path / "h.jsonl", blocks, output), "--only", "W1,W6"]) == 1
    assert capsys.readouterr().err == f"minikv: {says}\n"


@pytest.mark.parametrize(("size", "unit"), [(512, "bytes"), (16, "tokens")])
def test_blocks_of_another_size_or_of_bytes_are_named(size, unit, tmp_path, monkeypatch, capsys):
    no_race(monkeypatch)
    traffic = Traffic("h.jsonl", "mooncake", size, unit, iter([]))
    monkeypatch.setattr("minikv.cli.bench.open_traffic", lambda path: nullcontext(traffic))
    assert cli.main([*QUICK, "--trace", write(tmp_path / "h.jsonl", [0, 1], 5)]) == 2
    assert capsys.readouterr().err.endswith(f"blocks of {size} {unit}: W6 needs blocks of 512 tokens\n")


@pytest.mark.parametrize(("trace", "only", "words"), [
    ([], ["W3", "W6"], "ValueError: workload W6 has no requests"),
    ([], ["W1"], "ValueError: W6 is a trace: expected both of them, or neither"),
    (None, ["W6"], "ValueError: W6 is a trace: expected both of them, or neither"),
    (None, ["W9"], "ValueError: workload is 'W9': expected one of W1, W2"),
    (None, "W3", "TypeError: only is 'W3': expected a sequence of names of workloads"),
])  # fmt: skip
def test_what_cannot_be_raced_is_refused_before_any_race(trace, only, words, monkeypatch):
    no_race(monkeypatch)
    assert words in said(bench, trace, only, quick=True)
