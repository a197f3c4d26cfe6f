"""The options of `minikv replay`: several capacities, tables for programs, a picture, and how a trace is read."""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import re
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tqdm import tqdm

from minikv import RadixCache, asset, cli, pack
from minikv.traffic import TraceRequest, replay
from minikv.traffic.mooncake import write_trace

pytestmark = pytest.mark.core

MODEL = str(asset("model"))
PROMPTS = [[1, 2, 3], [1, 2, 4], [5, 6], [1, 2, 3], [7], [5, 6], [1, 2, 3, 8]]


def written(path, prompts=PROMPTS):
    requests = [TraceRequest(at, 512 * len(ids), 1, pack(ids)) for at, ids in enumerate(prompts)]
    path.write_bytes(b"".join(write_trace(requests, 512, "tokens")))
    return requests


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "day.jsonl"
    written(path)
    return str(path)


def said(capsys, *command):
    assert cli.main(list(map(str, command))) == 0
    return capsys.readouterr()


def test_with_one_capacity_json_is_an_object_and_with_several_a_list(trace, capsys):
    one = json.loads(said(capsys, "replay", trace, "--capacity", "4", "--json").out)
    some = json.loads(said(capsys, "replay", trace, "--capacity", "4,1e1,unlimited", "--json").out)
    assert [entry.pop("capacity") for entry in some] == [4, 10, None]
    del one["requests_per_second"], some[0]["requests_per_second"]
    assert one == some[0]
    assert [entry["hits"] for entry in some] == sorted(entry["hits"] for entry in some)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    prompts=st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1, max_size=8),
    sizes=st.lists(st.integers(2, 9), min_size=2, max_size=4),
)
@pytest.mark.parametrize(("page_size", "evict_by"), [(2, "node"), (2, "page"), (1, "page")])
def test_several_capacities_find_what_each_finds_alone(page_size, evict_by, prompts, sizes, tmp_path, capsys):
    requests = written(tmp_path / "t.jsonl", prompts)
    command = ["replay", tmp_path / "t.jsonl", "--capacity", ",".join(map(str, sizes)), "--csv"]
    out = said(capsys, *command, "--page-size", page_size, "--evict-by", evict_by).out
    rows = list(csv.DictReader(io.StringIO(out)))
    for row, size in zip(rows, sizes):
        alone = replay(requests, RadixCache(page_size, evict_by=evict_by), size)
        assert (row["capacity"], row["hits"], row["evicted"]) == (str(size), str(alone.hits), str(alone.evicted))
        assert row["hit_rate"] == f"{round(alone.hit_rate, 6)}"


def test_for_people_there_is_a_row_for_each_capacity(trace, capsys):
    lines = said(capsys, "replay", trace, "--capacity", "4, 1k, unlimited").out.splitlines()
    assert lines[0] == "requests 7, blocks 18"
    assert lines[1].split() == ["capacity", "hits", "hit", "rate", "evicted", "peak", "size", "uncached", "requests"]
    assert [line.split()[0] for line in lines[2:]] == ["4", "1,000", "unlimited"]
    assert len({len(line) for line in lines[1:]}) == 1


def test_what_is_said_of_the_format_goes_to_standard_error(trace, capsys):
    out, err = said(capsys, "replay", trace, "--csv")
    assert err == f"{trace}: format mooncake, blocks of 512 tokens (as the trace says)\n"
    assert out.splitlines()[0].startswith("capacity,requests,blocks,hits,hit_rate,")
    assert out.splitlines()[1].startswith("unlimited,7,18,")


def test_a_span_reaches_the_reader(tmp_path, capsys):
    sessions = tmp_path / "sessions.jsonl"
    sessions.write_text('{"block_size": 64, "requests": [[0, 64, 1, 0, [[0, 1]]]]}\n', "utf-8")
    assert "begin evenly over 24 h" in said(capsys, "replay", sessions, "--span", "24").err


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("path", "shows"),
    [
        ("synthetic:chat?requests=200", r" 50%\|.+\| 100/200 \["),
        ("day.jsonl", r" 50%\|.+\| \S+k/\S+k \[\d\d:\d\d<"),
        ("day.jsonl.gz", r"\d\d%\|.+\| \S+/\S+ \[\d\d:\d\d<"),
        ("-", r"\d+ requests \["),
    ],
)
def test_on_a_terminal_a_bar_shows_how_much_was_read_and_goes_away(path, shows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "day.jsonl", [[1]] * 200)  # of which 100 are read at once
    lines = (tmp_path / "day.jsonl").read_bytes()
    (tmp_path / "day.jsonl.gz").write_bytes(gzip.compress(lines, mtime=0))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr("tqdm.tqdm.__init__", functools.partialmethod(tqdm.__init__, mininterval=0))
    assert cli.main(["replay", path]) == 0
    said = sys.stderr.getvalue()
    assert re.search(shows, said)
    assert not said.rpartition("\r")[0].rpartition("\r")[2].strip(), "it is wiped away"


@pytest.mark.parametrize("end", ["png", "svg"])
def test_a_curve_is_a_picture_of_the_hit_rates(end, trace, tmp_path, capsys):
    pytest.importorskip("resvg_py")
    path = tmp_path / f"hits.{end}"
    out = said(capsys, "replay", trace, "--capacity", "4,8,unlimited", "--policy", "slru", "--curve", path).out
    assert out.startswith("requests 7")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG" if end == "png" else b"<svg")
    said(capsys, "replay", trace, "--capacity", "8,4,unlimited", "--policy", "slru", "--curve", path)
    assert path.read_bytes() == content, "in the order of the capacities, and the same every time"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--curve", "x.pdf", "--capacity", "1,2"], "--curve is x.pdf: expected the name of a .png or an .svg"),
        (["--curve", "x.png"], "name at least two"),
        (["--curve", "x.png", "--capacity", "5,5,unlimited"], "name at least two"),
        (["--curve", "no/folder/x.svg", "--capacity", "1,2"], "cannot write no/folder/x.svg: Its folder does not"),
        (["--capacity", "8,1", "--page-size", "4"], "capacity is 1: a cache holds at least 1 page of 4"),
        (["--tokenizer", MODEL], "has block ids already"),
    ],
)
def test_options_that_do_not_go_together_are_one_line_and_nothing_is_written(options, reason, trace, capsys):
    assert cli.main(["replay", trace, *options]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert reason in err


def test_a_picture_without_resvg_is_one_line(trace, monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["replay", trace, "--curve", "x.png", "--capacity", "1,2"]) == 2
    said = "minikv: --curve needs resvg_py, which is not installed: pip install 'minikv[course]'\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("text", ["", "1,", "0", "x", "1.2", "1e30", "-1", "1," * 2000 + "1", "unlimited,no"])
def test_a_capacity_that_is_none_is_a_usage_error(text, trace, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["replay", trace, "--capacity", text])
    assert caught.value.code == 2
    assert "capacit" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "1e7"])
def test_a_span_that_is_none_is_a_usage_error(text, trace, capsys):
    assert cli.main(["replay", trace, f"--span={text}"]) == 2
    assert "expected a number from 0 to 1e+06" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["replay", trace, "--span=x"])
    assert "argument --span: invalid float value: 'x'" in capsys.readouterr().err


def test_tables_for_programs_exclude_each_other(trace, capsys):
    with pytest.raises(SystemExit):
        cli.main(["replay", trace, "--csv", "--json"])
    assert "not allowed with" in capsys.readouterr().err
