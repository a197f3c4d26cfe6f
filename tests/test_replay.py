"""Reading traces and replaying them: worked by hand, against a naive count, and line by malformed line."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import RadixCache, pack
from minikv.measure import Replay, TraceError, TraceRequest, read_trace, replay
from minikv.measure.traces import LONGEST_LINE, trace_lines
from minikv.testing.conformance.naive import NaiveCache


def trace(*prompts):
    return [TraceRequest(0, 512 * len(blocks), 1, pack(blocks)) for blocks in prompts]


def line(**changes):
    entry = {"timestamp": 0, "input_length": 900, "output_length": 20, "hash_ids": [0, 1], **changes}
    return json.dumps({key: value for key, value in entry.items() if value != "left out"})


def test_without_a_capacity_nothing_is_evicted():
    result = replay(trace([1, 2], [1, 2, 3], [4], [1, 2, 3]), RadixCache())
    assert (result.hits, result.blocks, result.evicted, result.peak_size) == (2 + 3, 9, 0, 4)
    assert result.hit_rate == 5 / 9


def test_with_room_for_three_blocks_the_longest_unused_go():
    """[1 2], then [3] fills it; [4] evicts... the oldest leaf, 2 by pages; [1] is still there, 2 is not."""
    result = replay(trace([1, 2], [3], [4], [1, 2]), RadixCache(evict_by="page"), capacity=3)
    assert (result.hits, result.evicted, result.peak_size) == (1, 1 + 1, 3)


def test_a_request_larger_than_the_capacity_is_served_uncached_and_counted():
    result = replay(trace([1, 2, 3], [1], [1, 2, 3], [1]), RadixCache(), capacity=2)
    assert (result.uncached_requests, result.requests, result.blocks, result.hits) == (2, 4, 8, 1)


def test_an_empty_trace_has_a_hit_rate_of_zero():
    assert replay([], RadixCache()).hit_rate == 0.0


@pytest.mark.parametrize(("capacity", "error"), [(0, ValueError), (-3, ValueError), (1.5, TypeError)])
def test_a_capacity_is_a_whole_number_of_blocks(capacity, error):
    with pytest.raises(error, match=f"capacity is {capacity}"):
        replay(trace([1]), RadixCache(), capacity)


def test_a_capacity_holds_a_page():
    with pytest.raises(ValueError, match="capacity is 3: a cache holds at least 1 page of 4"):
        replay(trace([1]), RadixCache(page_size=4), capacity=3)
    assert replay(trace([1, 2, 3]), RadixCache(page_size=2), capacity=3).uncached_requests == 1


def test_a_whole_trace_may_be_found_and_an_empty_request_finds_nothing():
    assert replay(trace([1, 2], [], [1, 2]), RadixCache()) == Replay(3, 4, hits=2, peak_size=2)


def test_a_replay_starts_with_an_empty_cache():
    cache = RadixCache()
    cache.insert([1], [0])
    with pytest.raises(ValueError, match="holds 1 tokens already"):
        replay(trace([1]), cache)


@given(
    st.lists(st.lists(st.integers(0, 2), max_size=7), max_size=12),
    st.none() | st.integers(3, 12),
    st.integers(1, 3),
    st.sampled_from(["node", "page"]),
)
def test_a_replay_is_what_the_naive_cache_makes_of_it(prompts, capacity, page_size, evict_by):
    cache = RadixCache(page_size, evict_by=evict_by)
    result = replay(trace(*prompts), cache, capacity)
    assert result == replay(trace(*prompts), NaiveCache(page_size, evict_by=evict_by), capacity)
    cache.check()
    assert cache.protected_size == 0
    assert capacity is None or result.peak_size <= capacity


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "the line is not JSON: Expecting property name"),
        ("[1, 2]", "the line holds a list: expected an object"),
        (line(timestamp="left out"), "there is no timestamp"),
        (line(hash_ids="left out"), "there is no hash_ids"),
        (line(hash_ids="abc"), "hash_ids is 'abc': expected a list"),
        (line(hash_ids=[1, -5]), r"hash_ids\[1\] is -5"),
        (line(hash_ids=[1.5]), r"hash_ids\[0\] is 1.5"),
        (line(hash_ids=[2**32]), r"hash_ids\[0\] is 4294967296"),
        (line(hash_ids=[[1]]), r"hash_ids\[0\] is \[1\]"),
        (line(hash_ids=[True]), r"hash_ids\[0\] is True"),
        (line(input_length=-1), "input_length is -1"),
        (line(input_length="9"), "input_length is '9'"),
        (line(output_length=1.5), "output_length is 1.5"),
        (line(timestamp=None), "timestamp is None"),
        (line(timestamp=float("nan")), "the line has the number NaN"),
        (line().replace(": 0,", ": 1e999,"), "timestamp is inf"),
        (line(hash_ids="x" * 10**6), "hash_ids is 'x{20,60}…: expected a list"),
        (line(output_length=2**53 + 1), "output_length is 9007199254740993"),
        (b"\xff\xfe{", "the line is not UTF-8"),
        ('{"timestamp": 0, "timestamp": 1}', "the line has the key 'timestamp' twice"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_malformed_line_is_named_with_its_number_and_the_reason(text, reason):
    lines = [line(), "", text]
    with pytest.raises(TraceError, match=rf"day.jsonl, line 3: .*{reason}"):
        list(read_trace(lines, "day.jsonl"))


def test_a_line_without_end_is_refused_when_it_is_too_long_and_not_read_to_its_end():
    file = io.BytesIO(line().encode() + b"\n" + b" " * 5 + b"1" * (2 * LONGEST_LINE))
    with pytest.raises(TraceError, match=f"day.jsonl, line 2: the line has over {LONGEST_LINE} bytes"):
        list(read_trace(trace_lines(file), "day.jsonl"))
    assert file.tell() < len(line()) + LONGEST_LINE + 10


def test_lines_are_read_one_by_one_and_blank_ones_passed_over():
    requests = read_trace(iter([line(timestamp=1.5), "  ", line(hash_ids=[]), "{"]))
    assert next(requests).timestamp == 1.5
    assert len(next(requests).blocks) == 0
    with pytest.raises(TraceError):
        next(requests)
