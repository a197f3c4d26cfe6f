"""One way to read traffic: the format is recognised from the first line, said, and the same for every command."""

from __future__ import annotations

import gzip
import json
from types import SimpleNamespace

import pytest

from minikv.tokens import pack
from minikv.traffic import TraceError, TraceRequest, Traffic, open_traffic

pytestmark = pytest.mark.core

MOONCAKE = {"timestamp": 3, "input_length": 900, "output_length": 20, "hash_ids": [0, 1]}
BAILIAN = {"chat_id": 7, "parent_chat_id": -1, **MOONCAKE}
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
    ):
        with open_traffic(written(entry), block_size=32) as traffic:
            assert traffic.block_size == 32
            assert f"blocks of 32 {traffic.unit} ({note}" in str(traffic)
    with open_traffic(written(AGENTS, AGENTS), span_hours=2) as traffic:
        assert [request.timestamp for request in traffic.requests] == [0, 5000, 3_600_000, 3_605_000]


def test_a_tokenizer_is_refused_for_what_has_blocks_already(written):
    for entry in (MOONCAKE, BAILIAN, AGENTS):
        reason = "day.jsonl has block ids already: a tokenizer is for a log of requests"
        with pytest.raises(ValueError, match=reason), open_traffic(written(entry), tokenizer="anywhere"):
            pass


def test_a_trace_is_timed_unless_it_says_otherwise(written):
    for more, timed in (({}, True), ({"timed": False}, False)):
        with open_traffic(written({**MOONCAKE, **more})) as traffic:
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
        ("{}", "line 1: no known format has the keys 'none': expected hash_ids"),
        ('{"a": 1, "b": 2}', "line 1: no known format has the keys 'a, b'"),
        (json.dumps({"k" * 10**5: 1}), "line 1: no known format has the keys 'k{20,60}…"),
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


class Shouted:
    """A format of somebody else: each line is a word, and each letter a block."""

    EXPECTED = "WORD (shouted)"

    @staticmethod
    def as_lines(lines):
        return (json.dumps({"WORD": line.decode().strip()}).encode() for line in lines)

    @staticmethod
    def recognizes(first):
        return first.keys() == {"WORD"}

    @staticmethod
    def read(source):
        words = [json.loads(line)["WORD"] for line in source.lines]
        requests = (TraceRequest(0, len(word), 1, pack(list(map(ord, word)))) for word in words)
        return Traffic(source.file.name, "shouted", source.block_size or 1, "letters", requests)


@pytest.fixture
def installed(monkeypatch):
    """Which formats other packages have installed."""

    def only(*formats):
        points = [SimpleNamespace(load=lambda found=found: found) for found in formats]
        found = {"minikv.formats": points}
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found[group])

    return only


def test_a_format_that_another_package_installs_is_read_as_ours_are(written, installed):
    installed(Shouted)
    with open_traffic(written("AB", "C"), block_size=3) as traffic:
        assert str(traffic).endswith("day.jsonl: format shouted, blocks of 3 letters")
        assert [request.blocks.tolist() for request in traffic.requests] == [[65, 66], [67]]
    with open_traffic(written(MOONCAKE)) as traffic:
        assert traffic.format == "mooncake"


def test_a_first_line_that_no_format_has_is_said_to_be_none_of_any(written, installed):
    installed(SimpleNamespace(EXPECTED="a word", as_lines=iter, recognizes=lambda first: False))
    reason = r"expected hash_ids \(Mooncake, Bailian\), requests \(sessions of agents\), a word$"
    with pytest.raises(TraceError, match=reason), open_traffic(written({"a": 1})):
        pass


@pytest.mark.parametrize("line", ['{"prompt": "Hi"}', "[", "INFO: ready"])
def test_without_the_tools_a_log_is_one_line_that_says_what_reads_it(line, written, installed):
    installed()
    reason = "line 1: .*; minikv-tools reads logs of requests and other JSON: pip install minikv-tools$"
    with pytest.raises(TraceError, match=reason), open_traffic(written(line)):
        pass
