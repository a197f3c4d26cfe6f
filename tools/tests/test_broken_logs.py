"""Broken, huge and hostile logs: each line is a request, or one bounded line says why not."""

import contextlib
import gzip
import json
import random
import tracemalloc

import pytest
from broken_lines import broken, outcome, write
from nightly import NIGHTLY, by_day

from minikv import cli
from minikv.traffic import TraceError
from minikv.traffic.trace_file import LONGEST_LINE, MOST_BLANK_LINES, open_trace
from minikv_tools import explain, exports, survey
from minikv_tools.why.places import read_prompt

SOUND = {
    "chat": {"model": "m", "time": 5, "session_id": "s", "usage": {"completion_tokens": 3}, "tools": [{"name": "t"}],
             "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
    "prompt": {"request": {"prompt": "Once upon a time", "cache_salt": "x"}, "timestamp": "2026-01-01T00:00:00Z"},
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_a_line_is_a_request_or_is_named_in_one_bounded_line(name, tmp_path):
    path = tmp_path / "t.jsonl"
    sound = json.dumps(SOUND[name]).encode() + b"\n"
    path.write_bytes(sound * 3)
    assert outcome(path) == ""
    seen = set()
    for line in list(broken(SOUND[name]))[:: 1 if NIGHTLY else 7]:
        for before in (b"", sound):  # the first line tells the format, a later one is only read
            write(path, before + line + b"\n")
            said = outcome(path)
            assert not said or f"line {2 if before else 1}: " in said or "is empty" in said
            seen.add(bool(said))
    assert seen == {True, False}


def test_these_are_over_1000_lines():
    assert sum(len(list(broken(entry))) for entry in SOUND.values()) > 1000


@pytest.mark.parametrize("name", SOUND)
def test_a_packed_trace_with_wrong_bytes_is_read_or_named(name, tmp_path):
    path, draw = tmp_path / "t.gz", random.Random(1)
    packed = gzip.compress(json.dumps(SOUND[name]).encode(), mtime=0)
    for at in range(0, len(packed), 1 if NIGHTLY else 5):
        write(path, packed[:at])
        outcome(path)
        write(path, packed[:at] + bytes([draw.randrange(256)]) + packed[at + 1 :])
        outcome(path)


BOMBS = {
    "a prompt without end": b'{"prompt": "' + b"a" * (LONGEST_LINE + 10),
    "a list of prompts without end": b"[" + b'"a",' * LONGEST_LINE,
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


PROMPTS = {
    "blank lines without end": (b"\n" * (MOST_BLANK_LINES + 1), MOST_BLANK_LINES + 1),
    "a list with blank lines without end": (b"[\n" + b" \n" * (MOST_BLANK_LINES + 1), MOST_BLANK_LINES + 2),
}


@pytest.mark.parametrize("name", by_day(PROMPTS, lambda name: name.startswith("blank")))
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


@pytest.mark.parametrize("odd", [{"citations": {"a": 1}}, {"citations": 7}, {"response": {"attributes": [
    {"key": "k", "value": {"intValue": "1" * 5000}}]}}])  # fmt: skip
def test_an_odd_field_beside_the_prompt_does_not_end_a_log(odd):
    body = {"model": "claude-opus-5", "messages": [{"role": "user", "content": "Why? " * 3000}]}
    said = [{**body, "usage": {"input_tokens": 9000, "cache_read_input_tokens": 0}} for _ in range(3)]
    said[1] |= odd
    assert survey([json.dumps(one) for one in said]).requests == 3
    assert explain(body, body | odd).shared > 3000


def test_no_control_character_of_a_log_reaches_a_terminal():
    evil = "m\x1b[31m\x07\n" + "x" * 3000
    body = {"model": evil, "seed": "\x1b[31m", "messages": [{"role": "user", "content": "Why? " * 300}]}
    answer = {"usage": {"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 0}},
              "prompt_cache_diagnostics": {"type": evil}}  # fmt: skip
    shown = f"{survey([json.dumps({**body, 'response': answer})] * 2)}{explain(body, body | {'seed': evil[:9]})}"
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "x" * 100 not in shown
