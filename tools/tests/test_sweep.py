"""A sweep finds what `replay` finds, wherever it runs; and whatever ends it, what was done is not done again."""

import contextlib
import csv
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import time

import pytest

from minikv import cli
from minikv.prefix import BY_POLICY, INDEXES, index_named
from minikv.prefix.eviction import POLICIES
from minikv.traffic import replay
from minikv.traffic.traces import TraceError, open_traffic
from minikv_tools import sweep
from minikv_tools.journal import JournalError
from minikv_tools.sweep import Sweep, SweepRun, sweep_runs
from minikv_tools.sweep.sweep_config import read_sweep_config

CONFIG = """
traces = ["day.jsonl", "night.jsonl"]
capacities = ["0.02k", 50, "unlimited"]
page_sizes = [1, 4]
indexes = ["radix", "hash"]
policies = ["lru", "fifo", "lfu"]
evict_by = ["page", "node"]
"""


def write_trace(path, requests, seed):
    """Conversations that take turns: each request is the last one of its conversation and some blocks more."""
    lines, prompts = [], [[seed], [seed, 2], [3]]
    for number in range(requests):
        prompt = prompts[number * number * seed % 3]
        prompt += range(100 * number, 100 * number + number % 5)
        lines.append(
            {"timestamp": number, "input_length": 512 * len(prompt), "output_length": 1, "hash_ids": prompt[:40]}
        )
        del prompt[1 + number % 7 :: 9]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


@pytest.fixture
def folder(tmp_path):
    """A config with the two traces that it names."""
    write_trace(tmp_path / "day.jsonl", 60, 1)
    write_trace(tmp_path / "night.jsonl", 40, 2)
    (tmp_path / "sweep.toml").write_text(CONFIG, "utf-8")
    return tmp_path


def config_of(folder, text=CONFIG):
    (folder / "sweep.toml").write_text(text, "utf-8")
    return read_sweep_config(folder / "sweep.toml")


# -- what runs --------------------------------------------------------------------------------------------------------


def test_every_combination_is_run_once_in_the_order_of_the_config(folder):
    runs, _ = sweep_runs(config_of(folder))
    assert len(runs) == len(set(runs)) == 2 * 2 * 3 * (3 * 2 + 1)
    first = [(run.trace, run.page_size, run.index, run.evict_by, run.policy, run.capacity) for run in runs]
    assert first[:4] == [
        ("day.jsonl", 1, "radix", "page", "lru", 20),
        ("day.jsonl", 1, "radix", "page", "lru", 50),
        ("day.jsonl", 1, "radix", "page", "lru", None),
        ("day.jsonl", 1, "radix", "page", "fifo", 20),
    ]
    assert first[-1] == ("night.jsonl", 4, "hash", None, None, None)


def test_what_does_not_exist_is_left_out_and_said_once(folder):
    text = CONFIG.replace('"0.02k"', "3").replace('["radix", "hash"]', '"all"')
    runs, left_out = sweep_runs(config_of(folder, text))
    assert {run.index for run in runs if run.policy and run.evict_by} == {"radix", "window"}
    assert not [run for run in runs if run.index in ("trie", "hash") and (run.policy or run.evict_by)]
    assert not [run for run in runs if run.capacity == 3 and run.page_size == 4]
    own_order = [name for name in INDEXES if name not in BY_POLICY]
    assert left_out == [
        f"left out: policies and evict_by of {', '.join(own_order)}: each has one order of eviction, its own",
        "left out: 28 combinations with a capacity that holds no page",
    ]


def test_all_stands_for_all_there_are_and_nothing_is_said_where_nothing_is_left_out(folder):
    text = 'traces = "day.jsonl"\ncapacities = 9\nindexes = "all"'
    runs, left_out = sweep_runs(config_of(folder, text))
    assert ([run.index for run in runs], left_out) == (list(INDEXES), [])
    assert {run.policy for run in runs} == {"lru", None}
    runs, _ = sweep_runs(config_of(folder, 'traces = "day.jsonl"\ncapacities = 9\npolicies = "all"'))
    assert [run.policy for run in runs] == list(POLICIES)


def test_a_trace_may_be_named_all_and_what_is_not_said_is_a_radix_tree_of_blocks(folder):
    (run,), _ = sweep_runs(config_of(folder, 'traces = "all"\ncapacities = 9'))
    assert run == SweepRun("all", 1, "radix", "lru", "node", 9)


# -- what is found ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What `replay` finds, run by run."""
    folder = tmp_path_factory.mktemp("expected")
    write_trace(folder / "day.jsonl", 60, 1)
    write_trace(folder / "night.jsonl", 40, 2)
    found = []
    for run in sweep_runs(config_of(folder))[0]:
        with open_traffic(folder / run.trace) as traffic:
            cache = index_named(run.index, run.page_size, run.policy, run.evict_by)
            found.append(replay(traffic.requests, cache, run.capacity))
    assert len({result.hits for result in found}) > 20
    return found


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_run_finds_what_replay_finds_in_the_same_order(jobs, folder, expected):
    assert Sweep(config_of(folder, f"{CONFIG}jobs = {jobs}")).run(folder / "journal") == expected


def test_a_trace_is_read_once_for_all_runs_that_follow_each_other(folder, monkeypatch):
    opened = []
    monkeypatch.setattr(sweep, "open_traffic", lambda path, *how, **more: opened.append(path) or open_traffic(path))
    a_sweep = Sweep(config_of(folder, f"{CONFIG}jobs = 1"))
    del opened[:]
    a_sweep.run(folder / "journal")
    assert opened == [str(folder / "day.jsonl"), str(folder / "night.jsonl")]


def test_a_log_of_requests_is_swept_as_it_is_replayed(folder):
    prompts = ["one " * 100, "one " * 100 + "two " * 100, "three " * 50, "one " * 100 + "two " * 60]
    (folder / "log.jsonl").write_text("\n".join(json.dumps({"prompt": prompt}) for prompt in prompts), "utf-8")
    config = config_of(folder, 'traces = "log.jsonl"\ncapacities = "unlimited"\njobs = 1')
    with open_traffic(folder / "log.jsonl") as traffic:
        expected = replay(traffic.requests, index_named("radix"), None)
    assert Sweep(config).run(folder / "journal") == [expected]
    assert expected.hits > 5


def test_made_up_traffic_is_swept_without_a_file(folder):
    config = config_of(folder, 'traces = "synthetic:chat?requests=50"\ncapacities = ["200", "unlimited"]\njobs = 1')
    found = Sweep(config).run(folder / "journal")
    assert [result.requests for result in found] == [50, 50]
    assert 0 < found[0].hits < found[1].hits


def test_a_sweep_that_was_stopped_goes_on_and_does_nothing_twice(folder, expected, monkeypatch):
    config = config_of(folder, f"{CONFIG}jobs = 1")
    served = []

    def stops(requests, cache, capacity):
        served.append(cache)
        if len(served) % 20 == 0:
            raise KeyboardInterrupt
        return replay(requests, cache, capacity)

    monkeypatch.setattr(sweep, "replay", stops)
    for _ in range(len(expected) // 20):
        with pytest.raises(KeyboardInterrupt):
            Sweep(config).run(folder / "journal")
    assert Sweep(config).run(folder / "journal") == expected
    assert len(served) == len(expected) + len(expected) // 20
    assert Sweep(config).run(folder / "journal") == expected
    assert len(served) == len(expected) + len(expected) // 20, "a sweep that is done does nothing"


# -- killed -----------------------------------------------------------------------------------------------------------

LONGER = """
traces = "long.jsonl"
capacities = [60, 100, 200, "unlimited"]
policies = ["lru", "fifo", "slru"]
page_sizes = [1, 2]
"""


def swept(folder, *options):
    command = [sys.executable, "-m", "minikv", "sweep", str(folder / "sweep.toml"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def records(journal):
    """How many runs a journal has; none before it is begun."""
    with contextlib.closing(sqlite3.connect(journal)) as database, contextlib.suppress(sqlite3.OperationalError):
        return database.execute("SELECT count(*) - 1 FROM minikv_journal").fetchone()[0]
    return 0


@pytest.mark.skipif(os.name != "posix", reason="kills as POSIX does")
def test_killed_half_way_and_started_again_it_prints_the_same_table(tmp_path, capsys):
    write_trace(tmp_path / "long.jsonl", 800, 1)
    (tmp_path / "sweep.toml").write_text(LONGER, "utf-8")
    journal = tmp_path / "sweep.toml.journal"
    command = [sys.executable, "-m", "minikv", "sweep", str(tmp_path / "sweep.toml"), "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        while records(journal) < 3 and run.poll() is None:
            time.sleep(0.005)
        run.kill()
        said = run.communicate()
    done = records(journal)
    assert 3 <= done < 24, said
    assert said[0] == ""
    again = swept(tmp_path, "--jobs", "1")
    assert f"minikv sweep: {done} of 24 steps done, now" in again.stderr
    another = ["--jobs", "1", "--journal", str(tmp_path / "another")]
    assert cli.main(["sweep", str(tmp_path / "sweep.toml"), *another]) == 0
    assert again.stdout == capsys.readouterr().out
    assert sorted(os.listdir(tmp_path)) == ["another", "long.jsonl", "sweep.toml", "sweep.toml.journal"]


# -- what does not belong together ------------------------------------------------------------------------------------


def test_a_journal_of_another_config_or_of_a_changed_trace_is_refused_by_name(folder):
    quick = "jobs = 1"
    Sweep(config_of(folder, CONFIG + quick)).run(folder / "journal")
    for change in ("50", "60"), ('"lfu"', '"slru"'), ("[1, 4]", "1"), ("policies", "span_hours = 2\npolicies"):
        with pytest.raises(JournalError, match=r"is a journal of other work: .* there and .* here"):
            Sweep(config_of(folder, CONFIG.replace(*change) + quick)).run(folder / "journal")
    write_trace(folder / "night.jsonl", 41, 2)
    with pytest.raises(JournalError, match=r"content of night\.jsonl is \"[0-9a-f]+\" there and \"[0-9a-f]+\" here"):
        Sweep(config_of(folder, CONFIG + quick)).run(folder / "journal")


def test_how_many_at_once_is_not_other_work(folder, expected):
    Sweep(config_of(folder, CONFIG + "jobs = 1")).run(folder / "journal")
    assert Sweep(config_of(folder, CONFIG + "jobs = 9")).run(folder / "journal") == expected


def test_a_trace_that_changes_while_it_is_swept_ends_the_sweep(folder):
    a_sweep = Sweep(config_of(folder, CONFIG + "jobs = 1"))
    write_trace(folder / "day.jsonl", 61, 1)
    with pytest.raises(TraceError, match=r"day\.jsonl has changed since the sweep began"):
        a_sweep.run(folder / "journal")


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def command(folder, capsys):
    """Call `minikv sweep` in this process, on one core; returns its status and what it printed."""

    def call(*options, text=CONFIG):
        (folder / "sweep.toml").write_text(text, "utf-8")
        status = cli.main(["sweep", str(folder / "sweep.toml"), "--jobs", "1", *options])
        return status, *capsys.readouterr()

    return call


def test_the_table_has_a_part_for_each_trace_and_page_size(command, expected):
    status, out, err = command()
    assert status == 0
    parts = out.split("\n\n")
    assert [part.partition(";")[0] for part in parts[::2]] == [
        "day.jsonl: 60 requests, 816 blocks",
        "night.jsonl: 40 requests, 478 blocks",
    ]
    _, head, first, *rows = parts[0].splitlines()
    assert (head, len(rows)) == ("index  policy   evict by    20    50  unlimited", 6)
    assert first.split() == ["radix", "lru", "page", *(f"{100 * found.hit_rate:.1f}" for found in expected[:3])]
    assert err.startswith("day.jsonl: format mooncake, blocks of 512 tokens")
    assert err.count("left out: ") == 1
    assert f"minikv sweep: 0 of 84 steps done, now {FIRST}, capacity 20\n" in err


def test_csv_and_json_have_every_run(command, folder, expected):
    status, out, _ = command("--json", "--csv", str(folder / "found.csv"))
    rows = json.loads(out)
    assert status == 0
    assert [(row["hits"], row["evicted"], row["peak_size"]) for row in rows] == [
        (found.hits, found.evicted, found.peak_size) for found in expected
    ]
    assert list(rows[0]) == ["trace", "page_size", "index", "policy", "evict_by", "capacity", "requests", "blocks",
                             "hits", "hit_rate", "evicted", "peak_size", "uncached_requests"]  # fmt: skip
    lines = list(csv.DictReader(io.StringIO((folder / "found.csv").read_text("utf-8"))))
    unlimited = [{**row, "capacity": row["capacity"] or "unlimited"} for row in rows]
    assert lines == [{name: "" if value is None else str(value) for name, value in row.items()} for row in unlimited]


DAY = 'traces = "day.jsonl"\n'
FIRST = "day.jsonl, pages of 1, radix lru page"


@pytest.mark.parametrize(("capacities", "many"), [("3", "1 combination"), ("2, 3", "2 combinations")])
def test_a_cache_that_holds_no_page_is_said_with_how_many_are_like_it(capacities, many, folder):
    config = config_of(folder, f"{DAY}capacities = [{capacities}, 9]\npage_sizes = 4")
    assert sweep_runs(config)[1] == [f"left out: {many} with a capacity that holds no page"]


def test_ctrl_c_says_where_what_is_done_is_kept(command, folder, monkeypatch):
    def interrupted(requests, cache, capacity):
        if capacity is None:
            raise KeyboardInterrupt
        return replay(requests, cache, capacity)

    monkeypatch.setattr(sweep, "replay", interrupted)
    status, out, err = command()
    journal = folder / "sweep.toml.journal"
    said = f"stopped; finished runs are in {journal}, and the same command continues from there\nminikv: interrupted\n"
    assert (status, out, records(journal)) == (130, "", 2)
    assert err.endswith(said)
    monkeypatch.undo()
    assert f"minikv sweep: 2 of 84 steps done, now {FIRST}, capacity unlimited\n" in command()[2]


def test_the_option_stands_in_place_of_what_the_config_says(folder, monkeypatch):
    (folder / "sweep.toml").write_text(f"{DAY}capacities = 9\njobs = 2", "utf-8")
    asked = []
    monkeypatch.setattr(Sweep, "run", lambda self, *_: asked.append(self.config.jobs) or [None])
    monkeypatch.setattr("minikv_tools.cli.sweep.need", lambda *_: None)
    monkeypatch.setattr("minikv_tools.cli.sweep._report", lambda *_: 0)
    for options in ([], ["--jobs", "5"]):
        assert cli.main(["sweep", str(folder / "sweep.toml"), *options]) == 0
    assert asked == [2, 5]


def test_what_is_said_twice_runs_once(folder):
    found = config_of(folder, f"{DAY}capacities = [20, '0.02k', 'unlimited']\npolicies = ['lru', 'lru']")
    assert (found.capacities, found.policies) == ((20, None), ("lru",))


def test_a_config_may_be_long(folder):
    names, sizes = [f"{'x' * 996}{n}" for n in range(1000, 1002)], list(range(1, 1001))
    found = config_of(folder, f"traces = {names}\ncapacities = {sizes}\njobs = 1")
    assert (found.traces, found.capacities, found.jobs) == (tuple(names), tuple(sizes), 1)


BROKEN = [
    ("traces", "is not TOML: Expected '='"),
    ("a = 1", "there is no key 'a' in a sweep: expected traces, capacities, "),
    ("", "traces is missing: a sweep needs traces and capacities"),
    ('traces = "day.jsonl"', "capacities is missing: a sweep needs"),
    (CONFIG.replace('"lru"', '"best"'), r"policies\[0\] is 'best': expected one of lru, "),
    (CONFIG.replace("50", "-5"), r"capacities\[1\] is -5: expected a whole number of at least 1"),
    (CONFIG.replace("50", "1979-05-27"), r"capacities\[1\] is datetime.date\(1979, 5, 27\): expected a whole number"),
    (CONFIG.replace("[1, 4]", "[]"), "page_sizes is an empty list: expected at least 1 value"),
    (CONFIG.replace("day.jsonl", "x" * 1001), "expected a text of 1 to 1000 printable characters"),
    (CONFIG.replace("day.jsonl", ""), "expected a text of 1 to 1000 printable characters"),
    (CONFIG.replace("[1, 4]", "[1, 0]"), r"page_sizes\[1\] is 0: a page has at least 1 block"),
    (CONFIG.replace("[1, 4]", str(2**31)), "page_sizes is 2147483648: expected at most"),
    (CONFIG.replace("[1, 4]", "{}"), r"page_sizes is {} \(dict\), not a whole number"),
    (CONFIG.replace('"hash"', '"btree"'), r"indexes\[1\] is 'btree': expected one of radix, trie"),
    (CONFIG.replace('"page"', '"token"'), r"evict_by\[0\] is 'token': expected one of node, page"),
    (CONFIG.replace("day.jsonl", "none.jsonl"), r"cannot use .*none\.jsonl: No such file"),
    (CONFIG.replace("day.jsonl", "synthetic:none"), "synthetic traffic 'none' is unknown: expected chat"),
    (CONFIG.replace("day.jsonl", "-"), "cannot use .*-: No such file or directory"),
    (CONFIG.replace("day.jsonl", r"a\u0000b"), r"traces\[0\] is 'a\\x00b': expected a text"),
    (CONFIG.replace('"day.jsonl"', "5"), r"traces\[0\] is 5: expected a text"),
    (CONFIG.replace("day.jsonl", "sweep.toml"), r"sweep\.toml, line 2: the line is not JSON"),
    (CONFIG + 'backend = "loky"', "there is no key 'backend' in a sweep: expected traces"),
    (CONFIG + "jobs = 0", "jobs is 0: at least 1 run at once"),
    (CONFIG + "span_hours = nan", "span_hours is nan: expected a number from 0"),
    (CONFIG + "block_size = 0", "block_size is 0: a block has at least 1 token"),
    ("a = " + "[" * 100_000, "it is not TOML: "),
    ("a = " + "9" * 100_000, "it is not TOML: "),
    (
        f"{DAY}capacities = {list(range(1000, 2000))}\npage_sizes = {list(range(1, 103))}",
        "more than 100,000 combinations",
    ),
    (
        f"{DAY}capacities = [2, 3]\npage_sizes = [4, 5]",
        "no combination is left: left out: 4 combinations with a capacity that holds no page\n",
    ),
    ("# " + "x" * 2**20, "has more than 1048576 bytes"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN, ids=[said[:30] for _, said in BROKEN])
def test_a_broken_config_is_one_line_before_anything_runs(text, said, command, folder, monkeypatch):
    monkeypatch.setattr(Sweep, "run", lambda *_: pytest.fail("it runs"))
    status, out, err = command(text=text)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert len(err) < 1050
    assert not (folder / "sweep.toml.journal").exists()
    assert re.search(said, err), err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["none.toml"], "cannot use none.toml: No such file or directory"),
        (["."], ". is not a regular file"),
        (["sweep.toml", "--csv", "none/x"], "cannot write none/x: Its folder does not exist"),
        (["sweep.toml", "--csv", "./sweep.toml"], "./sweep.toml is read, and would be overwritten"),
        (["sweep.toml", "--jobs", "0"], "usage: "),
    ],
)
def test_options_that_cannot_be_are_said_before_anything_runs(options, said, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(Sweep, "run", lambda *_: pytest.fail("it runs"))
    try:
        status = cli.main(["sweep", *options])
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert said in capsys.readouterr().err


def test_what_is_wrong_later_is_one_line_and_keeps_what_was_done(command, folder):
    with open(folder / "night.jsonl", "a", encoding="utf-8") as file:
        file.write("{}\n")
    status, out, err = command()
    assert (status, out) == (2, "")
    assert re.search(r"\nminikv: .*night\.jsonl, line 41: there is no timestamp\n$", err)
    assert records(folder / "sweep.toml.journal") == 2 * 3 * 7


def test_another_sweeps_journal_is_one_line_that_says_what_to_do(command):
    command()
    status, out, err = command(text=CONFIG.replace("50", "60"))
    assert (status, out) == (2, "")
    assert err.endswith(
        "capacities is [20, 50, null] there and [20, 60, null] here; delete it, or name another with --journal\n"
    )


def test_joblib_that_is_not_installed_is_one_line(folder, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["sweep", str(folder / "sweep.toml")]) == 2
    said = "minikv: a sweep without --jobs 1 needs joblib, which is not installed: pip install 'minikv-tools[sweep]'\n"
    assert capsys.readouterr().err == said
