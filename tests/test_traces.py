"""One way to read traffic: the format is recognised from the first line, said, and the same for every command."""

from __future__ import annotations

import gzip
import json

import pytest

from minikv import asset
from minikv.traffic import TraceError, open_traffic

pytestmark = pytest.mark.core

MOONCAKE = {"timestamp": 3, "input_length": 900, "output_length": 20, "hash_ids": [0, 1]}
BAILIAN = {"chat_id": 7, "parent_chat_id": -1, **MOONCAKE}
BODY = {"prompt": "ab" * 100}
AGENTS = {"block_size": 64, "requests": [[0, 130, 9, 0, [[1, 2]]], [5, 200, 9, 1, [[7, 2]]]]}


@pytest.fixture
def written(tmp_path):
    def write(*entries, pack=bytes):
        path = tmp_path / "day.jsonl"
        lines = (entry if isinstance(entry, str) else json.dumps(entry) for entry in entries)
        path.write_bytes(pack("".join(f"{line}\n" for line in lines).encode()))
        return path

    return write


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("entry", "said", "blocks"),
    [
        (MOONCAKE, "format mooncake, blocks of 512 tokens (as the number of ids says)", [0, 1]),
        (
            {**MOONCAKE, "block_size": 64, "unit": "bytes"},
            "format mooncake, blocks of 64 bytes (as the trace says)",
            [0, 1],
        ),
        (BAILIAN, "format bailian, blocks of 16 tokens (as Bailian has them)", [0, 1]),
        (BODY, "format log, blocks of 64 bytes (bytes of UTF-8: no tokenizer was given)", [0, 1, 2]),
        ({"request": BODY}, "format log, blocks of 64 bytes (bytes of UTF-8: no tokenizer was given)", [0, 1, 2]),
        (
            AGENTS,
            "format agents, blocks of 64 tokens (1 session, 2 requests; the sessions begin evenly over 8 h)",
            [1, 2],
        ),
    ],
)
def test_a_format_is_recognised_from_the_first_line_and_said(entry, said, blocks, pack, written):
    path = written("", " ", entry, pack=pack)
    with open_traffic(path) as traffic:
        assert str(traffic) == f"{path}: {said}"
        assert next(traffic.requests).blocks.tolist() == blocks
        assert len(list(traffic.requests)) == (1 if entry is AGENTS else 0)


def test_the_size_of_a_block_and_the_span_can_be_given(written):
    for entry, note in (
        (MOONCAKE, "as --block-size says"),
        (BAILIAN, "as --block-size says"),
        (BODY, "bytes of UTF-8"),
    ):
        with open_traffic(written(entry), block_size=32) as traffic:
            assert traffic.block_size == 32
            assert f"blocks of 32 {traffic.unit} ({note}" in str(traffic)
    with open_traffic(written(AGENTS, AGENTS), span_hours=2) as traffic:
        assert [request.timestamp for request in traffic.requests] == [0, 5000, 3_600_000, 3_605_000]


def test_a_tokenizer_cuts_a_log_into_tokens_and_is_refused_for_what_has_blocks_already(written, tmp_path):
    with open_traffic(written(BODY), tokenizer=asset("model")) as traffic:
        assert str(traffic).endswith(": format log, blocks of 16 tokens")
        (request,) = traffic.requests
        assert (request.input_length, len(request.blocks)) == (200, 12)
    for entry in (MOONCAKE, BAILIAN, AGENTS):
        reason = "day.jsonl has block ids already: a tokenizer is for a log of requests"
        with pytest.raises(ValueError, match=reason), open_traffic(written(entry), tokenizer=asset("model")):
            pass
    reason = "has no tokenizer that can be read: .*No such file"
    with pytest.raises(ValueError, match=reason), open_traffic(written(BODY), tokenizer=tmp_path / "none"):
        pass


def test_a_log_whose_first_line_has_no_time_is_not_timed(written):
    for entry, timed in ((BODY, False), ({**BODY, "time": 3}, True), (MOONCAKE, True)):
        with open_traffic(written(entry)) as traffic:
            assert traffic.timed is timed


def test_all_lines_are_read_though_only_some_are_looked_at_first(written):
    entries = [{**MOONCAKE, "timestamp": number} for number in range(500)]
    with open_traffic(written(*entries)) as traffic:
        assert [request.timestamp for request in traffic.requests] == list(range(500))


def test_an_error_names_its_line_wherever_it_stands(written):
    for before in (1, 50, 300):
        reason = f"day.jsonl, line {before + 2}: the line is not JSON"
        path = written("", *[MOONCAKE] * before, "{")
        with open_traffic(path) as traffic, pytest.raises(TraceError, match=reason):
            list(traffic.requests)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{}", "line 1: no format is known that has the keys 'none': expected hash_ids"),
        ('{"a": 1, "b": 2}', "line 1: no format is known that has the keys 'a, b'"),
        (json.dumps({"k" * 10**5: 1}), "line 1: no format is known that has the keys 'k{20,60}…"),
        ("[]", "line 1: the line holds a list"),
        ("{", "line 1: the line is not JSON"),
        ('{"hash_ids": [], "block_size": -1}', "line 1: block_size is -1"),
        ('{"requests": 5, "block_size": 0}', "line 1: block_size is 0"),
        ("", "day.jsonl is empty"),
    ],
)
def test_a_first_line_of_no_known_format_is_one_bounded_line(line, reason, written):
    with pytest.raises(TraceError, match=reason) as caught, open_traffic(written(line)):
        pass
    assert len(str(caught.value)) < 400


def test_blank_lines_before_the_first_take_no_memory_though_there_are_millions(tmp_path):
    path = tmp_path / "blank.gz"
    path.write_bytes(gzip.compress(b"\n" * 10**6 + b"{", mtime=0))
    with pytest.raises(TraceError, match="line 1000001: the line is not JSON"), open_traffic(path):
        pass


@pytest.mark.parametrize("block_size", [0, -1, 2**21, 2**70])
def test_a_block_size_is_in_its_range(block_size, written):
    with pytest.raises(ValueError, match="block_size is "), open_traffic(written(MOONCAKE), block_size=block_size):
        pass
