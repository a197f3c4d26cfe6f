"""The workloads of the bench: the same tokens on every machine, and a trace written out as tokens."""

import hashlib

import pytest

from minikv.measure.workloads import WORKLOADS, w6_mooncake
from minikv.tokens import pack
from minikv.traffic.traces import TraceRequest

CHECKSUMS = {
    "W1": "cc2a317de291", "W2": "8379006a39fe", "W3": "3e12ddee9c75", "W4": "b60e43ffca81", "W5": "f6a31b0a7e69",
}  # fmt: skip


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_workload_is_the_same_everywhere_and_a_short_one_is_its_beginning(name):
    long, short = WORKLOADS[name](40), WORKLOADS[name](8)
    if name not in ("W2", "W5"):  # those draw all their places at once
        assert long.exchanges[:8] == short.exchanges
    assert long.name == name
    digest = hashlib.sha256()
    for prompt, answer, full in long.exchanges:
        assert full == prompt + answer
        digest.update(prompt.data + len(answer).to_bytes(4, "little") + answer.data)
    assert digest.hexdigest()[:12] == CHECKSUMS[name]


def trace(*lengths, blocks=(3, 8), answer=7):
    return [TraceRequest(0, length, answer, pack(blocks)) for length in lengths]


def test_the_prompts_of_a_trace_become_tokens_and_a_request_without_one_is_left_out():
    exchanges = w6_mooncake(trace(0, 5, 0, 600, 9), count=2).exchanges
    assert [(len(exchange.prompt), len(exchange.full)) for exchange in exchanges] == [(5, 12), (600, 607)]
    assert exchanges[1].prompt[510:514].tolist() == [2046, 2047, 4096, 4097]


LARGE = 3, 8, 2**23  # the last one has no tokens of 32 bits, and a prompt of 513 tokens needs only two


@pytest.mark.parametrize(("requests", "says"), [
    (trace(1025), "input_length is 1025: 2 blocks hold 512 tokens each"),
    (trace(1025, blocks=LARGE), "block id 8388608 is too large"),
    (trace(5) + trace(900, answer=2**53), f"request 2 brings the trace to {912 + 2**53} tokens: expected at most 1342"),
    (trace(5, 2**53), f"request 2 brings the trace to {19 + 2**53} tokens"),
    (trace(2**27 - 6), "request 1 brings the trace to 134217729 tokens"),
])  # fmt: skip
def test_a_trace_that_cannot_be_written_out_is_refused_before_it_is(requests, says):
    with pytest.raises(ValueError, match=says):
        w6_mooncake(requests)


def test_only_the_blocks_of_the_prompt_are_written_out_and_as_many_tokens_as_may_be(monkeypatch):
    monkeypatch.setattr("minikv.measure.workloads.MOST_TOKENS", 1040)
    short, long = w6_mooncake(trace(513, 513, blocks=LARGE)).exchanges
    assert short.prompt == long.prompt
    assert short.prompt[511:].tolist() == [2047, 4096]
