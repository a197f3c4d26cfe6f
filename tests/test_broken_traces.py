"""Broken, huge and hostile traces: each of over 2,000 lines is a request, or one bounded line says why not."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import cli
from minikv.traffic import TraceError, exports, open_traffic
from minikv.traffic.trace_file import LONGEST_LINE, MOST_BLANK_LINES, located, open_trace
from minikv_tools.why.places import read_prompt

pytestmark = pytest.mark.core

SOUND = {
    "mooncake": {"timestamp": 3, "input_length": 900, "output_length": 20, "hash_ids": [0, 1], "session": "a"},
    "written": {"timestamp": 3, "input_length": 130, "output_length": 20, "block_size": 64, "unit": "bytes",
                "timed": False, "hash_ids": [0, 1]},
    "bailian": {"chat_id": 7, "parent_chat_id": -1, "timestamp": 1.5, "input_length": 40, "output_length": 20,
                "type": "text", "turn": 1, "hash_ids": [0, 1]},
    "agents": {"id": "a", "block_size": 64, "requests": [[0.0, 130, 9, 0, [[1, 2]], 1.5], [5, 200, 9, 1, [[7, 2]]]]},
    "chat": {"model": "m", "time": 5, "session_id": "s", "usage": {"completion_tokens": 3}, "tools": [{"name": "t"}],
             "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
    "prompt": {"request": {"prompt": "Once upon a time", "cache_salt": "x"}, "timestamp": "2026-01-01T00:00:00Z"},
}  # fmt: skip
NASTY = [
    None, True, False, 0, -1, 1, 1.5, -0.0, 1e300, 2**31, 2**32, 2**53 + 1, 2**63, 2**64, 10**400, "", "x", "1", "\0",
    "\ud800", "x" * 100_000, [], [[]], [None], [True], [-1], [2**32], [1.5], ["a"], [[0, 2**32]], [[0, 1, 2]], {},
    {"a": {"b": {}}}, [0] * 1000, [{}], {"": None},
]  # fmt: skip
SPELLED = ["NaN", "-Infinity", "1e999", "[" * 100 + "]" * 100, "[" * 50_000, "0x1", "9" * 5000, '{"a": 1, "a": 1}', ""]


def places(value, path=()):
    """The paths of every value in a nested one."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def with_value(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_value(value[path[0]], path[1:], new)
    return copy


def broken(entry):
    """Lines that differ from the sound one in a value, lack a key, are cut off, or have bytes that are not UTF-8."""
    for path in places(entry):
        yield from (json.dumps(with_value(entry, path, value)).encode() for value in NASTY)
        marked = json.dumps(with_value(entry, path, "@@")).encode()
        yield from (marked.replace(b'"@@"', spelled.encode()) for spelled in SPELLED)
    for key in entry:
        yield json.dumps({other: value for other, value in entry.items() if other != key}).encode()
    text = json.dumps(entry).encode()
    yield from (text[:at] for at in range(len(text)))
    yield from (text[:at] + b"\xff" + text[at + 1 :] for at in range(0, len(text), 3))


def write(path, content):
    """To a file that is new: to empty one that is there waits for the disk, and 6,000 times for long."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def outcome(path):
    """What was said of a trace that could not be read to its end, or nothing."""
    said = ""
    try:
        with open_traffic(path) as traffic:
            for _ in traffic.requests:
                pass
    except TraceError as error:
        said = str(error) or "nothing"
    assert said.startswith(str(path) if said else "")
    assert len(said) < len(str(path)) + 420
    assert said.isprintable()
    return said


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
    "a line without end": b'{"prompt": "' + b"a" * (LONGEST_LINE + 10),
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


PROMPTS = {
    "blank lines without end": (b"\n" * (MOST_BLANK_LINES + 1), MOST_BLANK_LINES + 1),
    "a list with blank lines without end": (b"[\n" + b" \n" * (MOST_BLANK_LINES + 1), MOST_BLANK_LINES + 2),
}


@pytest.mark.parametrize("name", PROMPTS)
def test_a_prompt_that_unpacks_to_blank_lines_is_one_line_as_a_log_of_them_is(name, tmp_path, capsys):
    content, line = PROMPTS[name]
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(content, mtime=0))
    assert path.stat().st_size < 10_000
    said = []
    for files in ([str(path)], [str(path), str(path)]):
        assert cli.main(["why", *files]) == 2
        said += [each for each in capsys.readouterr().err.splitlines() if each.startswith("minikv: ")]
    assert len(said) == 2
    assert all(each.endswith(f", line {line}: over {MOST_BLANK_LINES:,} lines are blank") for each in said), said


@pytest.mark.parametrize("begins", [b"", b"[\n"], ids=["a prompt", "a list"])
def test_many_short_lines_take_little_more_memory_than_their_bytes(begins, tmp_path):
    content = begins + b"1\n" * 200_000
    path = tmp_path / "short.gz"
    path.write_bytes(gzip.compress(content, mtime=0))
    tracemalloc.start()
    with contextlib.suppress(TraceError), open_trace(str(path)) as file:
        for _ in exports.request_lines(file) if begins else [read_prompt(str(path))]:
            pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * len(content)
