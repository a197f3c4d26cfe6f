"""Broken, huge and hostile traces: each of many lines is a request, or one bounded line says why not."""

import gzip
import itertools
import json
import random

import pytest
from broken_lines import SOUND, broken, outcome, with_value, write
from golden_text import replay, sections
from hypothesis import given
from hypothesis import strategies as st
from nightly import NIGHTLY
from refusals import said

from minikv import cli
from minikv.traffic import TraceError, read_trace
from minikv.traffic.agents import AgentSessions
from minikv.traffic.mooncake import read_bailian
from minikv.traffic.trace_file import LONGEST_LINE, located

READERS = {
    "mooncake": read_trace,
    "written": read_trace,
    "bailian": read_bailian,
    "agents": lambda *source: list(AgentSessions(*source)),
}
GOLDEN = "broken_traces.txt"


@pytest.mark.parametrize("name", sections(GOLDEN))
def test_a_value_that_cannot_be_is_named_with_its_line_and_the_rule(name):
    """In the place of a value in the sound line of a format."""

    def act(words):
        place, value = words.split(" ", 1)
        path = [int(key) if key.isdecimal() else key for key in place.split("/")]
        wrong = with_value(SOUND[name], path, json.loads(value))
        lines = [json.dumps(SOUND[name]), "", json.dumps(wrong)]
        says = said(lambda: list(READERS[name](lines, "day.jsonl")))
        return [says.removeprefix("TraceError: day.jsonl, line 3: ")]

    replay(GOLDEN, name, act)


@pytest.mark.parametrize("name", SOUND)
def test_a_line_is_a_request_or_is_named_in_one_bounded_line(name, tmp_path):
    """2,000 lines by night, and 300 by day."""
    path, sound = tmp_path / "t.jsonl", json.dumps(SOUND[name]).encode() + b"\n"
    path.write_bytes(sound * 3)
    assert outcome(path) == ""
    seen = set()
    for line in itertools.islice(broken(SOUND[name]), 0, None, 1 if NIGHTLY else 7):
        for before in (b"", sound):  # the first line tells the format, a later one is only read
            write(path, before + line + b"\n")
            said = outcome(path)
            assert not said or f"line {2 if before else 1}: " in said or "is empty" in said
            seen.add(bool(said))
    assert seen == {True, False}


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_line(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    write(path, content)
    assert outcome(path)


@pytest.mark.parametrize("name", SOUND)
def test_a_packed_trace_with_wrong_bytes_is_read_or_named(name, tmp_path):
    path, draw = tmp_path / "t.gz", random.Random(1)
    packed = gzip.compress(json.dumps(SOUND[name]).encode(), mtime=0)
    for at in range(0, len(packed), 1 if NIGHTLY else 5):
        for rest in (b"", bytes([draw.randrange(256)]) + packed[at + 1 :]):
            write(path, packed[:at] + rest)
            outcome(path)


BOMBS = {
    "a line without end": b'{"hash_ids": "' + b"a" * (LONGEST_LINE + 10),
    "a line of blanks without end": b" " * (3 * LONGEST_LINE),
    "blank lines without end": b"\n" * 2000,
    "blank lines behind a request": json.dumps(SOUND["mooncake"]).encode() + b"\n" * 2000,
    "a list in a list without end": b"[" * LONGEST_LINE,
    "an id of very many digits": b'{"timestamp": 0, "hash_ids": [' + b"9" * 10**6 + b"]}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_unpacks_to_very_much_is_one_line(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("minikv.traffic.trace_file.MOST_BLANK_LINES", 1000)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(BOMBS[name], compresslevel=1, mtime=0))
    assert path.stat().st_size < 500_000
    assert outcome(path)
    assert cli.main(["replay", str(path)]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("minikv: ")]
    assert len(said) == 1
    assert len(said[0]) < 600


def test_blank_lines_are_passed_over_up_to_a_limit(monkeypatch):
    monkeypatch.setattr("minikv.traffic.trace_file.MOST_BLANK_LINES", 3)
    assert list(located("t", ["", "{}", " ", "", "{}"], dict)) == [{}, {}]
    with pytest.raises(TraceError, match="t, line 5: over 3 lines are blank"):
        list(located("t", ["", "", "", "{}", "", "{}"], dict))
