"""Broken, huge and hostile traces: each of over 2,000 lines is a request, or one bounded line says why not."""

from __future__ import annotations

import gzip
import json
import random

import pytest
from broken_lines import broken, outcome, write
from hypothesis import given
from hypothesis import strategies as st

from minikv import cli
from minikv.traffic import TraceError
from minikv.traffic.trace_file import LONGEST_LINE, MOST_BLANK_LINES, located

pytestmark = pytest.mark.core

SOUND = {
    "mooncake": {"timestamp": 3, "input_length": 900, "output_length": 20, "hash_ids": [0, 1], "session": "a"},
    "written": {"timestamp": 3, "input_length": 130, "output_length": 20, "block_size": 64, "unit": "bytes",
                "timed": False, "hash_ids": [0, 1]},
    "bailian": {"chat_id": 7, "parent_chat_id": -1, "timestamp": 1.5, "input_length": 40, "output_length": 20,
                "type": "text", "turn": 1, "hash_ids": [0, 1]},
    "agents": {"id": "a", "block_size": 64, "requests": [[0.0, 130, 9, 0, [[1, 2]], 1.5], [5, 200, 9, 1, [[7, 2]]]]},
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_a_line_is_a_request_or_is_named_in_one_bounded_line(name, tmp_path):
    path = tmp_path / "t.jsonl"
    sound = json.dumps(SOUND[name]).encode() + b"\n"
    path.write_bytes(sound * 3)
    assert outcome(path) == ""
    seen = set()
    for line in broken(SOUND[name]):
        for before in (b"", sound):  # the first line tells the format, a later one is only read
            write(path, before + line + b"\n")
            said = outcome(path)
            assert not said or f"line {2 if before else 1}: " in said or "is empty" in said
            seen.add(bool(said))
    assert seen == {True, False}


def test_these_are_over_2000_lines():
    assert sum(len(list(broken(entry))) for entry in SOUND.values()) > 2000


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_line(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    write(path, content)
    assert outcome(path)


@pytest.mark.parametrize("name", SOUND)
def test_a_packed_trace_with_wrong_bytes_is_read_or_named(name, tmp_path):
    path, draw = tmp_path / "t.gz", random.Random(1)
    packed = gzip.compress(json.dumps(SOUND[name]).encode(), mtime=0)
    for at in range(len(packed)):
        write(path, packed[:at])
        outcome(path)
        write(path, packed[:at] + bytes([draw.randrange(256)]) + packed[at + 1 :])
        outcome(path)


BOMBS = {
    "a line without end": b'{"hash_ids": "' + b"a" * (LONGEST_LINE + 10),
    "a line of blanks without end": b" " * (3 * LONGEST_LINE),
    "blank lines without end": b"\n" * (2 * MOST_BLANK_LINES),
    "blank lines behind a request": json.dumps(SOUND["mooncake"]).encode() + b"\n" * (2 * MOST_BLANK_LINES),
    "a list in a list without end": b"[" * LONGEST_LINE,
    "an id of very many digits": b'{"timestamp": 0, "hash_ids": [' + b"9" * 10**6 + b"]}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_unpacks_to_very_much_is_one_line(name, tmp_path, capsys):
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
