"""`minikv bench`: what it measures, what it promises, and what it prints."""

from __future__ import annotations

import json
import sys

import pytest

from minikv import cli
from minikv.measure import bench
from minikv.measure.bench import Figures
from minikv.measure.race import Race, Result
from minikv.traffic import read_trace

pytestmark = [pytest.mark.core, pytest.mark.usefixtures("stays_frozen")]


def raced(workload, share, publish, **p50):
    p50["minikv, pages of 16"] = p50.pop("minikv_of_16")
    results = [Result(name.replace("_", " "), [took], [took], 0.5) for name, took in p50.items()]
    return Race(workload, "a title", share, share + 2, publish, 2, 2.0, 2.0, results)


def test_the_promises_of_a_race_are_found_in_it():
    races = [
        raced("W1", 10, False, minikv=15.0, bare_index=9.0, minikv_of_16=30.0),
        raced("W1", 10, True, minikv=38.0, bare_index=14.0, minikv_of_16=30.0),
        raced("W2", 50, False, minikv=30.0, bare_index=7.0, minikv_of_16=30.0),
        raced("W6", 10, False, minikv=40.0, bare_index=7.0, minikv_of_16=30.0),
    ]
    found = Figures("here", "today", 1, False, races)
    assert [(str(promise)[0], promise.found) for promise in found.promises()] == [
        ("✓", 7.5), ("✗", 19.0), ("✗", 3.5), ("✗", 2.0)
    ]  # fmt: skip
    assert list(found.promises())[-1].name.endswith("at its slowest (W1 at 10 %)")
    assert "W1 a title, 2 requests, room for 12% of all they cache" in found.report()
    assert "promised:" in found.report()
    assert "promised:" not in Figures("here", "today", 1, True, races).report()


def test_the_bench_ticks_as_often_as_it_says(monkeypatch):
    ticks, totals = [], []
    found = bench(only=["W3", "W3"], rounds=1, quick=True, tick=ticks.append, expect=totals.append)
    assert totals == [len(ticks)]
    assert [race.publish for race in found.races] == [False, True], "a workload that is named twice is raced once"


def test_the_command_prints_the_races(capsys):
    assert cli.main(["bench", "--quick", "--rounds", "1", "--only", "W3"]) == 0
    said = capsys.readouterr().out
    assert "W3 strangers, 300 requests, room for 10% of all they cache, prompts published after prefill" in said
    assert "bare index, pages of 16" in said


def test_the_command_prints_json_and_races_a_guest_and_the_other_designs(capsys, tmp_path, monkeypatch):
    (tmp_path / "guest_index.py").write_text("from minikv.measure.textbook import TextbookCache as Mine\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    command = ["bench", "--quick", "--rounds", "1", "--only", "w4", "--json", "--race", "guest_index:Mine"]
    assert cli.main([*command, "--index", "hash", "--index", "window", "--index", "radix"]) == 0
    for race in json.loads(capsys.readouterr().out)["races"]:
        assert len(race["results"][0]["p50"]) == 1
        found = {result["name"]: result["hit_rate"] for result in race["results"]}
        designs = ["hash, pages of 16", "bare hash, pages of 16", "window", "bare window"]
        assert [*found][-5:] == [*designs, "guest_index:Mine"]
        assert abs(found["hash, pages of 16"] - found["minikv, pages of 16"]) < 0.05
        assert abs(found["bare window"] - found["bare index"]) < 0.05


GUEST = """
from minikv.measure.textbook import TextbookCache

class NeedsMore(TextbookCache):
    def __init__(self, size):
        super().__init__()

class Fails(TextbookCache):
    def lock(self, handle):
        raise ValueError("mine\x1b[31m" + "x" * 9999)
"""


@pytest.mark.parametrize(("name", "status", "says"), [
    ("NeedsMore", 2, "argument --race: 'odd_index:NeedsMore' cannot be raced: NeedsMore.__init__() missing 1 required"),
    ("Fails", 1, "minikv: odd_index:Fails failed: ValueError: mine\N{REPLACEMENT CHARACTER}[31mxxx"),
])  # fmt: skip
def test_a_guest_that_fails_is_named(name, status, says, tmp_path, monkeypatch, capsys):
    (tmp_path / "odd_index.py").write_text(GUEST, "utf-8")
    monkeypatch.chdir(tmp_path)
    command = ["bench", "--quick", "--rounds", "1", "--only", "W3", "--race", f"odd_index:{name}"]
    try:
        found = cli.main(command)
    except SystemExit as ended:
        found = ended.code
    assert found == status
    line = capsys.readouterr().err.splitlines()[-1]
    assert says in line
    assert line.isprintable()
    assert len(line) < 300


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--only", "W9"], "'W9' is not a workload: expected some of W1, W2"),
        (["--race", "nowhere:Thing"], "'nowhere:Thing' cannot be raced: No module named 'nowhere'"),
        (["--race", "json:JSONDecoder"], "cannot be raced: it has no match_prefix"),
        (["--rounds", "0"], "0 is less than 1"),
        (["--index", "btree"], "argument --index: invalid choice: 'btree'"),
    ],
)
def test_a_wrong_call_is_one_clear_line(wrong, says, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", *wrong])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_a_trace_that_is_not_there(capsys, tmp_path):
    assert cli.main(["bench", "--only", "W6"]) == 2
    assert cli.main(["bench", "--trace", str(tmp_path / "none.jsonl")]) == 2
    (tmp_path / "bad.jsonl").write_text("{}\n", "utf-8")
    assert cli.main(["bench", "--trace", str(tmp_path / "bad.jsonl")]) == 2
    assert "no known format" in capsys.readouterr().err


def test_the_bench_measures_a_trace_when_it_is_given_one():
    lines = [json.dumps({"timestamp": 0, "input_length": 900, "output_length": 5, "hash_ids": [1, i]}) for i in (2, 3)]
    found = bench(list(read_trace(lines)), only=["W6"], rounds=1, quick=True)
    assert [(r.workload, r.requests) for r in found.races] == [("W6", 2), ("W6", 2)]


BAD = [
    ("[0, 1]", 2**53, "request 1 brings the trace to 9007199254741892 tokens: expected at most 134217728"),
    ("[0]", 1, "input_length is 900: 1 blocks hold 512 tokens each"),
]


@pytest.mark.parametrize(("ids", "output", "says"), BAD)
def test_a_trace_that_cannot_be_raced_is_one_line_before_any_race(ids, output, says, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["minikv.measure.bench"], "race", lambda *_: pytest.fail("it raced"))
    line = f'{{"timestamp": 0, "input_length": 900, "output_length": {output}, "hash_ids": {ids}}}'
    (tmp_path / "h.jsonl").write_text(line, "utf-8")
    assert cli.main(["bench", "--trace", str(tmp_path / "h.jsonl"), "--only", "W1,W6", "--quick"]) == 1
    assert capsys.readouterr().err == f"minikv: {says}\n"


def test_a_trace_without_a_prompt_is_refused_before_any_race(monkeypatch):
    monkeypatch.setattr(sys.modules["minikv.measure.bench"], "race", lambda *_: pytest.fail("it raced"))
    with pytest.raises(ValueError, match="workload W6 has no requests"):
        bench([], only=["W3", "W6"], quick=True)


def test_a_trace_and_w6_go_together():
    assert cli.main(["bench", "--trace", "day.jsonl", "--only", "W1"]) == 2
    for only, requests in ((["W6"], None), (["W1"], [])):
        with pytest.raises(ValueError, match="W6 is a trace: expected both of them, or neither"):
            bench(requests, only)


def test_an_unknown_workload_is_named():
    with pytest.raises(ValueError, match="workload is 'W9': expected one of W1, W2"):
        bench(only=["W9"])
    with pytest.raises(TypeError, match="only is 'W3': expected a sequence of names of workloads"):
        bench(only="W3")
