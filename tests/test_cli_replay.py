"""The options of `minikv replay`: several capacities, tables for programs, a picture, and how a trace is read."""

import csv
import functools
import gzip
import io
import json
import re
import sys

import pytest
from test_cli import ended, told, written
from tqdm import tqdm

from minikv import RadixCache, cli
from minikv.traffic import open_traffic, replay

PROMPTS = [[1, 2, 3], [1, 2, 4], [5, 6], [1, 2, 3], [7], [5, 6], [1, 2, 3, 8]]


@pytest.fixture
def trace(tmp_path):
    return written(tmp_path / "day.jsonl", PROMPTS)


def test_with_one_capacity_json_is_an_object_and_with_several_a_list(trace, capsys):
    command = "replay", trace, "--json", "--capacity"
    several = "4", "4,1e1,unlimited"
    one, some = (json.loads(told(capsys, *command, sizes).out) for sizes in several)
    assert [entry.pop("capacity") for entry in some] == [4, 10, None]
    del one["requests_per_second"], some[0]["requests_per_second"]
    assert one == some[0]


@pytest.mark.parametrize(("page_size", "evict_by"), [(1, "node"), (2, "page"), (1, "page")])
def test_several_capacities_find_what_each_finds_alone(page_size, evict_by, trace, capsys):
    how = "--csv", "--page-size", page_size, "--evict-by", evict_by
    out = told(capsys, "replay", trace, "--capacity", "3,2,6", *how).out
    rows = csv.DictReader(out.splitlines())
    with open_traffic(trace) as traffic:
        requests = [*traffic.requests]
    for row, size in zip(rows, (3, 2, 6), strict=True):
        found = replay(requests, RadixCache(page_size, evict_by=evict_by), size).row()
        assert row == {name: str(value) for name, value in {"capacity": size, **found}.items()}


def test_for_people_there_is_a_row_for_each_capacity_and_the_format_goes_to_standard_error(trace, capsys):
    out, err = told(capsys, "replay", trace, "--capacity", "4, 1k, unlimited")
    assert err == f"{trace}: format mooncake, blocks of 512 tokens (as the trace says)\n"
    head, *table = out.splitlines()
    assert head == "requests 7, blocks 18"
    assert [line.split()[0] for line in table] == ["capacity", "4", "1,000", "unlimited"]
    assert len({*map(len, table)}) == 1


def test_a_span_reaches_the_reader(tmp_path, capsys):
    sessions = tmp_path / "sessions.jsonl"
    sessions.write_text('{"block_size": 64, "requests": [[0, 64, 1, 0, [[0, 1]]]]}\n', "utf-8")
    assert "begin evenly over 24 h" in told(capsys, "replay", sessions, "--span", "24").err


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
    command = "replay", trace, "--policy", "slru", "--curve", path, "--capacity"
    out = told(capsys, *command, "4,8,unlimited").out
    assert out.startswith("requests 7")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG" if end == "png" else b"<svg")
    told(capsys, *command, "8,4,unlimited")
    assert path.read_bytes() == content, "in the order of the capacities, and the same every time"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--curve", "x.pdf", "--capacity", "1,2"], "--curve is x.pdf: expected the name of a .png or an .svg"),
        (["--curve", "x.png"], "name at least two"),
        (["--curve", "x.png", "--capacity", "5,5,unlimited"], "name at least two"),
        (["--curve", "no/folder/x.svg", "--capacity", "1,2"], "cannot write no/folder/x.svg: Its folder does not"),
        (["--capacity", "8,1", "--page-size", "4"], "capacity is 1: a cache holds at least 1 page of 4"),
        (["--tokenizer", "."], "has block ids already"),
        (["--span=1e7"], "expected a number from 0 to 1e+06"),
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


@pytest.mark.parametrize(("options", "reason"), [
    (["--capacity", ""], "the capacity is ''"),
    (["--capacity", "1," * 2000 + "1"], "there are 2001 capacities"),
    (["--span=x"], "argument --span: invalid float value: 'x'"),
    (["--csv", "--json"], "not allowed with"),
])  # fmt: skip
def test_what_is_no_option_is_a_usage_error(options, reason, trace, capsys):
    assert ended("replay", trace, *options) == 2
    assert reason in capsys.readouterr().err.splitlines()[-1]
