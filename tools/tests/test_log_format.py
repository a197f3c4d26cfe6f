"""Logs as a format of traces: with the tools installed, what reads a trace reads a log."""

import gzip
import json
from importlib.metadata import entry_points

import pytest

from minikv import asset
from minikv.traffic import TraceError, open_traffic
from minikv_tools import log_format

BODY = {"prompt": "ab" * 100}
MOONCAKE = {"timestamp": 3, "input_length": 900, "output_length": 20, "hash_ids": [0, 1]}


@pytest.fixture
def written(tmp_path):
    def write(*entries, pack=bytes):
        path = tmp_path / "day.jsonl"
        lines = (entry if isinstance(entry, str) else json.dumps(entry) for entry in entries)
        path.write_bytes(pack("".join(f"{line}\n" for line in lines).encode()))
        return path

    return write


def test_the_tools_install_it():
    (point,) = entry_points(group="minikv.formats")
    assert point.load() is log_format


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("entry", [BODY, {"request": BODY}, [BODY]])
def test_a_log_is_recognised_from_the_first_line_and_said(entry, pack, written):
    path = written("", " ", entry, pack=pack)
    with open_traffic(path) as traffic:
        assert str(traffic) == f"{path}: format log, blocks of 64 bytes (bytes of UTF-8: no tokenizer was given)"
        assert [request.blocks.tolist() for request in traffic.requests] == [[0, 1, 2]]


def test_a_list_of_entries_of_a_trace_is_that_trace(written):
    with open_traffic(written([MOONCAKE, MOONCAKE])) as traffic:
        assert (traffic.format, len(list(traffic.requests))) == ("mooncake", 2)


def test_a_tokenizer_cuts_a_log_into_tokens(written, tmp_path):
    with open_traffic(written(BODY), tokenizer=asset("model")) as traffic:
        assert str(traffic).endswith(": format log, blocks of 16 tokens")
        (request,) = traffic.requests
        assert (request.input_length, len(request.blocks)) == (200, 12)
    reason = "has no tokenizer that can be read: .*No such file"
    with pytest.raises(ValueError, match=reason), open_traffic(written(BODY), tokenizer=tmp_path / "none"):
        pass


def test_a_log_whose_first_line_has_no_time_is_not_timed(written):
    for entry, timed in ((BODY, False), ({**BODY, "time": 3}, True)):
        with open_traffic(written(entry)) as traffic:
            assert traffic.timed is timed


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["", "{"], "line 1: the line is not JSON"),
        (["", "", {"a": 1}], r"line 3: no known format has the keys 'a': .*, messages or prompt \(a log\)$"),
        ([BODY, "{"], "line 2: the line is not JSON"),
        ([], "is empty: a trace has one request a line$"),
    ],
)
def test_what_is_no_log_either_is_one_line_as_ever(lines, reason, written):
    with pytest.raises(TraceError, match=reason), open_traffic(written(*lines)) as traffic:
        list(traffic.requests)
