"""The workloads of the bench: the same tokens on every machine, and a trace written out as tokens."""

from __future__ import annotations

import json

import pytest

from minikv.measure.workloads import MOST_TOKENS, WORKLOADS, w6_mooncake
from minikv.tokens import pack
from minikv.traffic import read_trace
from minikv.traffic.traces import TraceRequest

pytestmark = pytest.mark.core


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_the_same_every_time_and_a_short_one_is_its_beginning(name):
    long, again, short = WORKLOADS[name](40), WORKLOADS[name](40), WORKLOADS[name](8)
    assert long == again
    if name not in ("W2", "W5"):  # those draw all their places at once
        assert long.exchanges[:8] == short.exchanges
    assert long.name == name
    for exchange in long.exchanges:
        assert exchange.full == exchange.prompt + exchange.answer
        assert len(exchange.answer) > 0


def trace(*lengths):
    lines = [{"timestamp": 0, "input_length": n, "output_length": 7, "hash_ids": [3, 8]} for n in lengths]
    return read_trace(json.dumps(line) for line in lines)


def test_a_trace_becomes_tokens():
    (exchange,) = w6_mooncake(trace(600)).exchanges
    assert (len(exchange.prompt), len(exchange.full)) == (600, 607)
    assert exchange.prompt[:2].tolist() == [1536, 1537]


def test_a_request_without_a_prompt_is_left_out():
    assert [len(exchange.prompt) for exchange in w6_mooncake(trace(0, 5, 0, 9), count=2).exchanges] == [5, 9]


def test_a_trace_whose_blocks_do_not_hold_its_tokens_is_refused():
    with pytest.raises(ValueError, match="input_length is 1025: 2 blocks hold 512 tokens each"):
        w6_mooncake(trace(1025))


def test_only_the_blocks_of_the_prompt_are_written_out():
    """Four million blocks of 512 tokens would take 8 GB, and a prompt of 513 tokens needs two of them."""
    blocks = pack([3, 8, *range(2**23, 2**23 + 4_000_000)])
    (exchange,) = w6_mooncake([TraceRequest(0, 513, 1, blocks)]).exchanges
    assert exchange.prompt[511:].tolist() == [2047, 4096]
    with pytest.raises(ValueError, match="block id 8388608 is too large"):
        w6_mooncake([TraceRequest(0, 1025, 1, blocks)])


@pytest.mark.parametrize("lengths", [(900, 2**53), (2**53, 0)])
def test_a_trace_of_too_many_tokens_is_refused_before_they_are_made(lengths):
    many = TraceRequest(0, *lengths, pack([3, 8]))
    with pytest.raises(ValueError, match=f"request 2 brings the trace to {12 + sum(lengths)} tokens: expected at most"):
        w6_mooncake([TraceRequest(0, 5, 7, pack([3])), many])


def test_as_many_tokens_as_a_trace_may_have_pass(monkeypatch):
    monkeypatch.setattr("minikv.measure.workloads.MOST_TOKENS", 24)
    assert len(w6_mooncake(trace(5, 5)).exchanges) == 2
    assert MOST_TOKENS == 2**27
    with pytest.raises(ValueError, match="request 2 brings the trace to 25 tokens: expected at most 24"):
        w6_mooncake(trace(5, 6))
