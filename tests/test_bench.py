"""The bench: fair to everybody, leaking nothing, and saying what it measured."""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikv import FreeListPool, RadixCache, cli
from minikv.measure import bench, race, read_trace
from minikv.measure.bench import CONTENDERS, Figures, Race, Result, Spread
from minikv.measure.race import Contender, Lap, Limit, life_of_a_request, prepare, run
from minikv.measure.report import promises, report
from minikv.measure.textbook import TextbookCache
from minikv.measure.workloads import WORKLOADS, Request, Workload, mooncake
from minikv.testing.canary import Canary
from minikv.testing.ledger import Ledger
from minikv.tokens import pack

PROMPT = st.lists(st.integers(0, 1), min_size=1, max_size=8)


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_the_same_every_time_and_a_short_one_is_its_beginning(name):
    long, again, short = WORKLOADS[name](40), WORKLOADS[name](40), WORKLOADS[name](8)
    assert long == again
    if name not in ("W2", "W5"):  # those draw all their places at once
        assert long.requests[:8] == short.requests
    assert long.name == name
    for request in long.requests:
        assert request.full.data.startswith(request.prompt.data)
        assert len(request.full) > len(request.prompt)


def test_a_trace_becomes_tokens():
    lines = [json.dumps({"timestamp": 0, "input_length": 600, "output_length": 7, "hash_ids": [3, 8]})]
    (request,) = mooncake(read_trace(lines)).requests
    assert (len(request.prompt), len(request.full)) == (600, 607)
    assert request.prompt[:2].tolist() == [1536, 1537]


@pytest.mark.parametrize("publish", [False, True])
@pytest.mark.parametrize("name", ["W1", "W4", "W5"])
def test_everybody_hits_the_same_tokens(name, publish):
    """The textbook tree and ours are the same cache; only pages of 16 may hit less, by the pages' ends."""
    workload = WORKLOADS[name](96)
    hits = {}
    for contender in CONTENDERS:
        hits[contender.name] = run(contender, prepare(contender, workload), 60_000, publish).hits
    same = {hits[name] for name in hits if name != "minikv, pages of 16"}
    assert len(same) == 1
    assert hits["minikv"] > 0
    assert 0 < hits["minikv, pages of 16"] <= hits["minikv"]


@settings(max_examples=60)
@given(st.lists(st.tuples(PROMPT, PROMPT), min_size=1, max_size=8), st.sampled_from([1, 2]), st.booleans())
def test_the_life_of_a_request_leaks_nothing(pairs, page, publish):
    """Under the ledger and the canary, with everybody in flight at once: in the end every slot is free or cached."""
    cache, pool = RadixCache(page), FreeListPool(256 // page)
    with Ledger(pool, cache, page) as ledger, Canary(cache):
        begin, finish = life_of_a_request(cache, pool, page)
        states = []
        for prompt, answer in pairs:
            packed = pack(prompt)
            request = (packed, packed + answer, len(prompt), len(prompt) + len(answer))
            states.append(begin(request, memoryview(bytearray(4 * 40)).cast("i"), publish))
        for state in states:
            finish(state)
        assert ledger.callers == []
    assert cache.protected_size == 0
    assert cache.total_size + pool.num_free * page == 256
    cache.check()


@settings(max_examples=60)
@given(st.lists(st.one_of(PROMPT, st.integers(1, 6)), max_size=12))
def test_the_textbook_tree_is_ours(steps):
    """The same slots, sizes and victims, for any row of matches, inserts and evictions."""
    ours, theirs = RadixCache(), TextbookCache()
    for number, step in enumerate(steps):
        if isinstance(step, int):
            assert ours.evict(step).tolist() == theirs.evict(step)
        else:
            slots = range(10 * number, 10 * number + len(step))
            assert ours.match_prefix(step).slots.tolist() == theirs.match_prefix(step).slots
            assert ours.insert(step, slots).prefix_length == theirs.insert(step, slots).prefix_length
        assert ours.evictable_size == theirs.evictable_size


def test_anything_with_the_five_verbs_can_be_raced():
    class Nothing:
        """Caches nothing, and so has nothing to evict."""

        def match_prefix(self, tokens):
            return dataclasses.make_dataclass("Found", ["length", "slots", "handle"])(0, [], None)

        def lock(self, handle):
            """Nothing to hold."""

        unlock = lock

        def insert(self, tokens, slots):
            return dataclasses.make_dataclass("Done", ["prefix_length", "length", "handle"])(0, 0, None)

        def evict(self, num_tokens):
            return []

    workload = Workload(
        "W0", "tiny", [Request(pack([1, 2]), pack([1, 2]) + pack([3])), Request(pack([1]), pack([1]) + pack([2]))]
    )
    found = race(workload, [CONTENDERS[0], Contender("nothing", Nothing, tokens=lambda t: t.tolist())], rounds=2)
    assert found.of("nothing").hit_rate == 0
    assert found.of("minikv").to_ours == Spread(1.0, 1.0, 1.0)


def figures():
    table = {"minikv": [1.0, 1.0, 2.5, 8.0], "textbook": [5.0, 9.0, None, None]}
    return Figures(
        "here", "2026-11-21", 1, False,
        evict={"leaves": [1, 2, 3, 4], **table}, match={"tokens": [1, 2, 3, 4], "minikv": [1.0, 1.0, 2.0, 9.0]},
        memory={"page size": [1, 16], "minikv": [18.0, 13.0]},
        pool={"slots": [1, 2], "FreeListPool": [4.0, 4.4], "TrustingPool": [1.0, 1.0]},
    )  # fmt: skip


def test_a_promise_is_kept_or_not():
    kept = {promise.name: promise.kept for promise in promises(figures())}
    assert kept["evict one leaf, of a million against of a thousand"] is False
    assert kept["match 100,000 tokens against 1,000"] is True
    assert kept["bytes a cached token, pages of 16"] is False
    text = report(figures())
    assert "✗ evict one leaf, of a million against of a thousand: 8.00 (<= 2)" in text
    assert "textbook" in text
    assert " - " in text
    assert promises(dataclasses.replace(figures(), quick=True)) == []


def test_the_command_prints_the_races(capsys):
    assert cli.main(["bench", "--quick", "--rounds", "1", "--only", "W3"]) == 0
    said = capsys.readouterr().out
    assert "W3 strangers, 300 requests, room for 10% of all they cache, prompts published after prefill" in said
    assert "minikv, guarded pool" in said


def test_the_command_prints_json_and_races_a_guest(capsys, tmp_path, monkeypatch):
    (tmp_path / "guest_index.py").write_text("from minikv.measure.textbook import TextbookCache as Mine\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    command = ["bench", "--quick", "--rounds", "1", "--only", "w4", "--json", "--race", "guest_index:Mine"]
    assert cli.main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert [result["name"] for result in found["races"][0]["results"]][-1] == "guest_index:Mine"
    assert found["races"][0]["results"][0]["to_ours"] == {"median": 1.0, "low": 1.0, "high": 1.0}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--only", "W9"], "'W9' is no workload: expected some of W1, W2"),
        (["--race", "nowhere:Thing"], "'nowhere:Thing' cannot be raced: No module named 'nowhere'"),
        (["--race", "json:JSONDecoder"], "cannot be raced: it has no match_prefix"),
        (["--rounds", "0"], "0 is less than 1"),
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
    assert cli.main(["bench", "--trace", str(tmp_path / "bad.jsonl")]) == 1
    assert "there is no timestamp" in capsys.readouterr().err


def test_the_bench_measures_a_trace_when_it_is_given_one():
    lines = [json.dumps({"timestamp": 0, "input_length": 900, "output_length": 5, "hash_ids": [1, i]}) for i in (2, 3)]
    found = bench(list(read_trace(lines)), only=["W6"], rounds=1, quick=True)
    assert [(r.workload, r.requests) for r in found.races] == [("W6", 2), ("W6", 2)]


def test_contenders_have_names_of_their_own():
    with pytest.raises(ValueError, match="contenders are minikv, minikv: each needs a name of its own"):
        race(WORKLOADS["W3"](4), [CONTENDERS[0], CONTENDERS[0]], rounds=1)
    with pytest.raises(ValueError, match="workload W3 has no requests"):
        race(Workload("W3", "none", []), [CONTENDERS[0]])
    with pytest.raises(ValueError, match="rounds is 0"):
        race(WORKLOADS["W3"](4), [CONTENDERS[0]], rounds=0)
    with pytest.raises(ValueError, match="workload is 'w3'"):
        bench(only=["w3"], rounds=1)


def test_the_limit_compares_two_and_fills_the_row():
    workload = WORKLOADS["W3"](3)
    limit = Limit(workload)
    for mine, twin in limit.prompts:
        assert mine == twin
        assert mine is not twin
    for number, slots in enumerate(limit.slots, start=1):
        slots[:] = memoryview(array("i", [number] * len(slots)))
    assert len(limit.run().times) == 3
    assert set(limit.row[: len(limit.slots[-1])]) == {3}


def test_figures_are_ratios_of_the_laps(monkeypatch):
    """With laps of known length: medians over the rounds, against what the limit usually took for each request."""
    laps = {"a": iter([Lap([6000, 2000], 3), Lap([8000, 4000], 3)]), "b": iter([Lap([60000, 20000], 3)] * 2)}
    floors = iter([Lap([90000, 1000]), Lap([1000, 1000]), *[Lap([1000, 90000])] + [Lap([1000, 1000])] * 2])
    module = sys.modules["minikv.measure.bench"]  # the name in the package is the function
    monkeypatch.setattr(module, "run", lambda contender, *_: next(laps[contender.name]))
    monkeypatch.setattr(module.Limit, "run", lambda self: next(floors))
    found = race(WORKLOADS["W3"](2), [Contender("a", RadixCache), Contender("b", RadixCache)], rounds=2)
    assert found.of("a").microseconds == Spread(5.0, 4.0, 6.0)
    assert found.of("a").to_limit == Spread(5.0, 4.0, 6.0)
    assert found.of("b").to_ours == Spread(8.333, 6.667, 10.0)
    with pytest.raises(KeyError):
        found.of("c")


def test_the_promises_of_a_race_are_found_in_it():
    def result(name, limit, median, ours):
        return Result(name, *(Spread(value, value, value) for value in (9.0, limit, median, ours)), 0.5)

    chat = Race("W1", "chat", 10, 12, False, 2, [result("minikv", 6.0, 6.0, 1.0), result("textbook", 99.0, 99.0, 30.0)])
    papers = Race("W2", "documents", 50, 50, False, 2, [result("minikv", 2.0, 9.0, 1.0)])
    trace = Race("W6", "mooncake", 10, 10, False, 2, [result("minikv", 9.0, 3.0, 1.0)])
    kept = [str(promise)[0] for promise in promises(Figures("here", "today", 1, False, [chat, papers, trace]))]
    assert kept == ["✗", "✓", "✓", "✓"]
    assert "W1 chat, 2 requests, room for 12% of all they cache" in report(Figures("here", "today", 1, False, [chat]))


def test_running_leaves_the_garbage_collector_as_it_was():
    run(CONTENDERS[0], prepare(CONTENDERS[0], WORKLOADS["W3"](3)), 60_000)
    assert gc.isenabled()


@pytest.mark.parametrize("publish", [False, True])
def test_of_two_equal_requests_in_flight_one_is_cached_and_the_other_freed(publish):
    cache, pool = RadixCache(), FreeListPool(64)
    with Ledger(pool, cache) as ledger, Canary(cache) as canary:
        begin, finish = life_of_a_request(cache, pool, 1)
        prompt = pack([1, 2, 3])
        request = (prompt, prompt + pack([4]), 3, 4)
        rows = [memoryview(array("i", bytes(40))) for _ in range(2)]
        states = [begin(request, row, publish) for row in rows]
        assert [state[4] for state in states] == [0, 3 if publish else 0]
        for state in states:
            finish(state)
        assert ledger.callers == []
        canary.read([1, 2, 3, 4], cache.match_prefix([1, 2, 3, 4]).slots)
    assert pool.num_free == 64 - 4
