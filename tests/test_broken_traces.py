"""Broken, huge and hostile traces: each of many lines is a request, or one bounded line says why not."""

import gzip
import itertools
import json
import random

import pytest
from broken_lines import SOUND, broken, outcome, with_value, write
from hypothesis import given
from hypothesis import strategies as st
from nightly import NIGHTLY

from minikv import cli
from minikv.errors import bounded
from minikv.tokens import TOKEN_LIMIT
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
HUGE, WHOLE, ID = 2**53 + 1, "expected a whole number from 0 to 2**53", "a block id is an integer in [0, 2**32)"
NAMED = {  # of each format, the place of a value in the sound line, what is said of wrong ones, and some of those
    "mooncake": [
        ("timestamp", "timestamp is {}: expected a number from 0 to 2**53", None, -1),
        ("input_length", f"input_length is {{}}: {WHOLE}", -1, "9", True, HUGE),
        ("output_length", f"output_length is {{}}: {WHOLE}", 1.5),
        ("hash_ids", "hash_ids is {}: expected a list of block ids", "abc", "x" * 10**6),
        ("hash_ids/1", f"hash_ids[1] is {{}}: {ID}", True, -5, 2**32),
        ("session", "the name of the conversation is {}: expected a string of", [1], True, HUGE, "x" * 201),
    ],
    "written": [  # what the first line says of blocks and times is said by all
        ("block_size", "block_size is {}: the first line says 64", 16, None),
        ("unit", "unit is {}: the first line says 'bytes'", "tokens", None),
        ("timed", "timed is {}: the first line says False", True, None),
    ],
    "bailian": [
        ("chat_id", f"chat_id is {{}}: {WHOLE}", -5, None),
        ("parent_chat_id", "parent_chat_id is {}: -1 or a chat", -2),
        ("parent_chat_id", "parent_chat_id is {}: expected at most 9007199254740992", HUGE),
        ("timestamp", "timestamp is {}: expected a number from 0 to 1e", None, -1, 1e13),
        ("input_length", f"input_length is {{}}: {WHOLE}", 1.5),
        ("output_length", f"output_length is {{}}: {WHOLE}", 1.5),
        ("hash_ids/0", "hash_ids[0] is {}", "y" * 10**6),
    ],
    "agents": [
        ("block_size", "block_size is {}: a block has at least 1 token", 0),
        ("block_size", "block_size is {}: expected at most 1048576", 2**20 + 1),
        ("block_size", "block_size is {}: the first session has 64", 32),
        ("requests", "requests is {}: expected a list of requests", None, {"a": 1}),
        ("requests/1", "requests[1]: {} is not a list [t, input, output, shared, new", 7, [0, 64, 1, 0]),
        ("requests/0/0", "requests[0]: t is {}: expected a number from 0 to 1e+09", "0", -1, 2e9, "x" * 10**6),
        ("requests/0/0", "requests[1]: t is 5: the request before it has {}", 6),
        ("requests/0/1", "input is {}: a length is at least 0", -1),
        ("requests/0/2", "output is {}: expected at most 9007199254740992", HUGE),
        ("requests/0/3", "requests[0]: shared is {}: expected at most 0", 1),
        ("requests/1/3", "requests[1]: shared is {}: expected at most 2", 3),
        ("requests/1/3", "shared is {}: the request before has blocks 0 to 2", -1),
        ("requests/1/4", "new is {}: expected a list of runs [first, count]", 5),
        ("requests/1/4/0", "{} is not a run [first, count]", 5, [1, 2, 3]),
        ("requests/1/4/0/0", f"first is {{}}: {ID}", -1),
        ("requests/1/4/0/0", "first is {}: expected at most 4294967295", 2**32),
        ("requests/1/4/0/1", "count is {}: a run has at least 1 block", 0),
        ("requests/1/4/0", "count is 2: expected at most 1", [TOKEN_LIMIT - 1, 2]),
        ("requests/1/4/0/1", "requests[1]: it has over 2097152 blocks", 2**21),
        ("requests/1/4/0", "the sessions have over 2**32 block ids", [TOKEN_LIMIT - 1, 1]),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("name", "row"), [(name, row) for name in NAMED for row in NAMED[name]])
def test_a_value_that_cannot_be_is_named_with_its_line_and_the_rule(name, row):
    place, said, *values = row
    path = [int(key) if key.isdecimal() else key for key in place.split("/")]
    for value in values:
        lines = [json.dumps(SOUND[name]), "", json.dumps(with_value(SOUND[name], path, value))]
        with pytest.raises(TraceError) as caught:
            list(READERS[name](lines, "day.jsonl"))
        assert str(caught.value).startswith("day.jsonl, line 3: ")
        assert said.format(bounded(value)) in str(caught.value)


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
