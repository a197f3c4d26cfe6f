"""One way to read traffic: the format is recognised from the first line, said, and the same for every command."""

import gzip
import json
from types import SimpleNamespace

import pytest
from broken_lines import SOUND

from minikv.tokens import pack
from minikv.traffic import TraceError, TraceRequest, Traffic, open_traffic

MOONCAKE, WRITTEN, BAILIAN, AGENTS, *_ = SOUND.values()


@pytest.fixture
def written(tmp_path):
    def write(*entries, pack=bytes):
        path = tmp_path / "day.jsonl"
        lines = (entry if isinstance(entry, str) else json.dumps(entry) for entry in entries)
        path.write_bytes(pack("".join(f"{line}\n" for line in lines).encode()))
        return path

    return write


SAID = [
    (MOONCAKE, {}, "mooncake, blocks of 512 tokens (as the number of ids says)"),
    (MOONCAKE, {"block_size": 32}, "mooncake, blocks of 32 tokens (as --block-size says)"),
    (WRITTEN, {}, "mooncake, blocks of 64 bytes (as the trace says)"),
    (BAILIAN, {}, "bailian, blocks of 16 tokens (as Bailian has them)"),
    (BAILIAN, {"block_size": 32}, "bailian, blocks of 32 tokens (as --block-size says)"),
    (AGENTS, {}, "agents, blocks of 64 tokens (1 session, 2 requests; the sessions begin evenly over 8 h)"),
]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(("entry", "options", "said"), SAID)
def test_a_format_is_recognised_from_the_first_line_and_said(entry, options, said, pack, written):
    path = written("", " ", entry, pack=pack)
    with open_traffic(path, **options) as traffic:
        assert str(traffic) == f"{path}: format {said}"
        assert f"blocks of {traffic.block_size} {traffic.unit}" in said
        assert next(traffic.requests).blocks.tolist() == [0, 1]
        assert len(list(traffic.requests)) == (entry is AGENTS)


def test_the_span_can_be_given(written):
    with open_traffic(written(AGENTS, AGENTS), span_hours=2) as traffic:
        assert "2 sessions, 4 requests" in traffic.note
        assert [request.timestamp for request in traffic.requests] == [0, 5000, 3_600_000, 3_605_000]


def test_a_tokenizer_is_refused_for_what_has_blocks_already(written):
    for path in (*map(written, (MOONCAKE, BAILIAN, AGENTS)), "synthetic:chat"):
        reason = "has block ids already: a tokenizer is for a log of requests"
        with pytest.raises(ValueError, match=reason), open_traffic(path, tokenizer="anywhere"):
            pass


def test_a_trace_is_timed_unless_it_says_otherwise(written):
    for entry, timed in ((MOONCAKE, True), (WRITTEN, False)):
        with open_traffic(written(entry)) as traffic:
            assert traffic.timed is timed


@pytest.mark.parametrize("before", [1, 50, 300])
def test_all_lines_are_read_though_only_some_are_looked_at_first_and_an_error_names_its_own(before, written):
    path = written("", *({**MOONCAKE, "timestamp": number} for number in range(before)), "{")
    with open_traffic(path) as traffic:
        assert [next(traffic.requests).timestamp for _ in range(before)] == [*range(before)]
        with pytest.raises(TraceError, match=f"day.jsonl, line {before + 2}: the line is not JSON"):
            next(traffic.requests)


UNKNOWN = {
    "{}": "line 1: no known format has the keys 'none': expected hash_ids",
    '{"a": 1, "b": 2}': "line 1: no known format has the keys 'a, b'",
    json.dumps({"k" * 10**5: 1}): "line 1: no known format has the keys 'k{20,60}…",
    "[]": "line 1: the line holds a list",
    '{"hash_ids": [], "block_size": -1}': "line 1: block_size is -1",
    "": "day.jsonl is empty",
    "\n" * 10**5 + "{": "line 100001: the line is not JSON",
}


@pytest.mark.parametrize("line", UNKNOWN, ids=range(len(UNKNOWN)))
def test_a_first_line_of_no_known_format_is_one_bounded_line(line, written):
    with pytest.raises(TraceError, match=UNKNOWN[line]) as caught, open_traffic(written(line)):
        pass
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("block_size", [0, 2**21])
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
        return first["WORD"].isupper()

    @staticmethod
    def read(source):
        words = (json.loads(line)["WORD"] for line in source.lines)
        requests = (TraceRequest(0, len(word), 1, pack([*map(ord, word)])) for word in words)
        return Traffic(source.file.name, "shouted", source.block_size or 1, "letters", requests)


@pytest.fixture
def installed(monkeypatch):
    """Which formats other packages have installed."""

    def only(*formats):
        points = {"minikv.formats": [SimpleNamespace(load=lambda found=found: found) for found in formats]}
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points[group])

    return only


def test_a_format_that_another_package_installs_is_read_as_ours_are(written, installed):
    installed(Shouted)
    with open_traffic(written("AB", "C"), block_size=3) as traffic:
        assert str(traffic).endswith("day.jsonl: format shouted, blocks of 3 letters")
        assert [request.blocks.tolist() for request in traffic.requests] == [[65, 66], [67]]
    with open_traffic(written(MOONCAKE)) as traffic:
        assert traffic.format == "mooncake"
    reason = r"expected hash_ids \(Mooncake, Bailian\), requests \(sessions of agents\), WORD \(shouted\)$"
    with pytest.raises(TraceError, match=reason), open_traffic(written("a")):
        pass


@pytest.mark.parametrize("line", ['{"prompt": "Hi"}', "INFO: ready"])
def test_without_the_tools_a_log_is_one_line_that_says_what_reads_it(line, written, installed):
    installed()
    reason = "line 1: .*; minikv-tools reads logs of requests and other JSON: pip install minikv-tools$"
    with pytest.raises(TraceError, match=reason), open_traffic(written(line)):
        pass
