"""The command `minikv trace`: what it writes reads back with the same hits, and says nothing of the contents."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import RadixCache, asset, cli, pack
from minikv.traffic import TraceRequest, open_traffic, read_trace, replay
from minikv.traffic.mooncake import write_trace
from minikv_tools.logs import anonymous

MODEL = str(asset("model"))
ENTRIES = [
    {"time": 1_700_000_000 + at, "session_id": f"user-{at % 2}", "model": "secret-model", "messages": [
        {"role": "system", "content": "The password is swordfish. " * 9},
        {"role": "user", "content": f"Question {at}"}]}
    for at in range(4)
]  # fmt: skip


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in ENTRIES), "utf-8")
    return path


def said(capsys, *command):
    assert cli.main(list(map(str, command))) == 0
    return capsys.readouterr()


def hits_of(path, **options):
    with open_traffic(path, **options) as traffic:
        return traffic.block_size, traffic.unit, traffic.timed, replay(traffic.requests, RadixCache())


@pytest.mark.parametrize("name", ["trace.jsonl", "trace.jsonl.gz"])
@pytest.mark.parametrize("options", [[], ["--block-size", "16"], ["--tokenizer", MODEL, "--salt", "s"]])
def test_a_trace_reads_back_with_the_same_hits(name, options, log, tmp_path, capsys):
    path = tmp_path / name
    out = said(capsys, "trace", log, "-o", path, *options).out
    size = 16 if options else 64
    unit = "tokens" if "--tokenizer" in options else "bytes"
    found = hits_of(path)
    tokenizer = MODEL if unit == "tokens" else None
    assert found == hits_of(log, block_size=size, tokenizer=tokenizer)
    assert found[:3] == (size, unit, True)
    assert found[3].hits > 0
    assert out == f"{path}: 4 requests, {found[3].blocks} blocks of {size} {unit}\n"
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")


def test_nothing_of_the_contents_is_left(log, tmp_path, capsys):
    said(capsys, "trace", log, "-o", tmp_path / "trace.jsonl")
    text = (tmp_path / "trace.jsonl").read_text("utf-8")
    assert not [word for word in ("sword", "secret", "user", "Question", "17000") if word in text]
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["timestamp"] for line in lines] == [0, 1000, 2000, 3000]
    assert [line["session"] for line in lines] == [0, 1, 0, 1]
    ids = [block for line in lines for block in line["hash_ids"]]
    assert list(dict.fromkeys(ids)) == list(range(len(set(ids)))), "numbered as they first appear"


def test_the_same_log_gives_the_same_trace_whatever_the_salt(log, tmp_path, capsys):
    contents = set()
    for options in ([], [], ["--salt", "s"], ["--salt", "\udcff"]):
        said(capsys, "trace", log, "-o", tmp_path / "t.gz", *options)
        contents.add((tmp_path / "t.gz").read_bytes())
    assert len(contents) == 1


def test_without_a_file_it_goes_to_standard_output(log, tmp_path, capsys):
    said(capsys, "trace", log, "-o", tmp_path / "t")
    assert said(capsys, "trace", log).out == (tmp_path / "t").read_text("utf-8")


def test_a_log_without_times_makes_a_trace_that_says_so(tmp_path, capsys):
    log, path = tmp_path / "log.jsonl", tmp_path / "t"
    log.write_text('{"prompt": "a"}\n{"prompt": "b"}\n', "utf-8")
    said(capsys, "trace", log, "-o", path)
    assert hits_of(path)[2] is False
    assert [json.loads(line)["timed"] for line in path.read_text("utf-8").splitlines()] == [False, False]


ids = st.lists(st.integers(0, 2**32 - 1), max_size=4).map(pack)
times = st.integers(0, 10**6) | st.floats(0, 1e6).map(lambda time: round(time, 3))
requests = st.builds(TraceRequest, times, st.integers(0, 9999), st.integers(0, 99), ids, st.none() | st.integers(0, 2))


@given(st.lists(requests, min_size=1), st.sampled_from(["tokens", "bytes"]))
def test_what_is_written_is_read_again(requests, unit):
    numbers = {None: None}
    for request in requests:
        numbers.setdefault(request.conversation, len(numbers) - 1)
    expected = [request._replace(conversation=numbers[request.conversation]) for request in requests]
    assert list(read_trace(write_trace(requests, 64, unit))) == expected


@given(st.lists(requests))
def test_ids_are_numbered_anew_and_share_what_they_shared(requests):
    found = list(anonymous(requests))
    assert replay(found, RadixCache()) == replay(requests, RadixCache())
    seen = [block for request in found for block in request.blocks]
    assert list(dict.fromkeys(seen)) == list(range(len(set(seen))))
    assert not found or found[0].timestamp == 0


def test_a_trace_may_be_made_of_a_trace(tmp_path, capsys):
    sessions = tmp_path / "sessions.gz"
    line = '{"block_size": 64, "requests": [[0, 128, 1, 0, [[3, 2]]], [9, 256, 1, 2, [[9, 2]]]]}\n'
    sessions.write_bytes(gzip.compress(line.encode() * 3, mtime=0))
    said(capsys, "trace", sessions, "-o", tmp_path / "t", "--span", "1")
    assert hits_of(tmp_path / "t") == hits_of(sessions)
    first = json.loads((tmp_path / "t").read_text("utf-8").splitlines()[0])
    assert first == {"timestamp": 0, "input_length": 128, "output_length": 1, "block_size": 64, "unit": "tokens",
                     "session": 0, "hash_ids": [0, 1]}  # fmt: skip


def test_a_log_that_breaks_off_leaves_the_file_as_it_was(tmp_path, capsys):
    log, path = tmp_path / "log.jsonl", tmp_path / "trace.jsonl"
    log.write_text('{"prompt": "a"}\n{', "utf-8")
    path.write_text("old", "utf-8")
    assert cli.main(["trace", str(log), "-o", str(path)]) == 2
    assert "log.jsonl, line 2: the line is not JSON" in capsys.readouterr().err
    assert path.read_text("utf-8") == "old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["log.jsonl", "trace.jsonl"]


def test_a_place_where_it_cannot_be_written_is_one_line_before_the_log_is_read(log, tmp_path, capsys):
    before = log.read_bytes()
    (tmp_path / "link").symlink_to(log)
    for path, reason in (
        (tmp_path, "directory"),
        (tmp_path / "no" / "t", "Its folder does not exist"),
        (log, "is read, and would be overwritten: name another file"),
        (tmp_path / "link", "link is read, and"),
        ("a\0b", "a path has no NUL character"),
    ):
        assert cli.main(["trace", str(log), "-o", str(path)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert reason in err
    assert log.read_bytes() == before


def test_a_block_size_and_a_tokenizer_reach_what_reads_a_log_for_replay(log, capsys):
    assert "blocks of 8 bytes" in said(capsys, "replay", log, "--block-size", 8).err
    assert "blocks of 16 tokens" in said(capsys, "replay", log, "--tokenizer", MODEL).err
