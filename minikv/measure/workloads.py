"""Six workloads that a serving engine meets, generated from a fixed seed: the same tokens on any machine.

W1 chat        turns of many conversations under a few system prompts: long prefixes, short new parts
W2 documents   a question about one of a few long documents, some of them popular
W3 strangers   random prompts that share nothing: here a cache only costs
W4 thoughts    trees of reasoning: many short branches off one trunk
W5 cuts        one long prompt, left at a random place: every request splits an edge
W6 mooncake    a real trace, each of its 512-token blocks written out as 512 tokens
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from minikv.errors import whole_number
from minikv.tokens import PackedTokens

BLOCK = 512
MOST_TOKENS = 2**27  # of a trace: a thousand requests of 128,000 tokens, or a gigabyte of memory
_VOCABULARY = 128_000
_Tokens = npt.NDArray[np.uint32]


class Exchange(NamedTuple):
    """One request: its `prompt`, its `answer`, and the `full` sequence, the prompt and then the answer."""

    prompt: PackedTokens
    answer: PackedTokens
    full: PackedTokens


class Workload(NamedTuple):
    """Requests in order of arrival, under a short name (`W1`) and a title."""

    name: str
    title: str
    exchanges: list[Exchange]

    @property
    def lengths(self) -> list[int]:
        """Tokens of each request, prompt and answer."""
        return [len(exchange.full) for exchange in self.exchanges]


class _Writer:
    """Random tokens for `count` requests; `RandomState`, though old, as its numbers are promised never to change."""

    def __init__(self, seed: int, count: int):
        self.random = np.random.RandomState(seed)
        self.count = whole_number("count", count, 0, "a workload has 0 requests or more")

    def text(self, low: int, high: int | None = None) -> _Tokens:
        """Between `low` and `high` random tokens, or exactly `low`."""
        length = low if high is None else self.random.randint(low, high + 1)
        return self.random.randint(0, _VOCABULARY, length).astype(np.uint32)

    def exchange(self, prompt: _Tokens, answer: _Tokens) -> Exchange:
        asked = PackedTokens(prompt.tobytes())
        answered = PackedTokens(answer.tobytes())
        return Exchange(asked, answered, asked + answered)


def w1_chat(count: int = 2048) -> Workload:
    """W1: 32 conversations at a time, each under one of 16 system prompts of 1,000 tokens, for 8 turns.

    >>> workload = w1_chat(64)
    >>> first, later = workload.exchanges[0], workload.exchanges[32]
    >>> later.prompt[: len(first.full)] == first.full          # the next turn brings the whole conversation again
    True
    """
    writer = _Writer(1, count)
    exchanges = list[Exchange]()
    systems = [writer.text(1000) for _ in range(16)]
    live: list[tuple[_Tokens, int]] = []
    for i in range(writer.count):
        seat = i % 32
        if len(live) <= seat:
            live.append((systems[seat % 16], seat % 8))  # not all at their first turn at once
        said, turn = live[seat]
        if turn == 8:
            said, turn = systems[writer.random.randint(16)], 0
        prompt = np.concatenate([said, writer.text(128, 512)])
        answer = writer.text(128, 512)
        exchanges.append(writer.exchange(prompt, answer))
        live[seat] = (np.concatenate([prompt, answer]), turn + 1)
    return Workload("W1", "chat", exchanges)


def w2_documents(count: int = 512) -> Workload:
    """W2: questions about 64 documents of 20,000 tokens; the k-th most popular is asked about 1/k as often.

    >>> max(len(request.prompt) for request in w2_documents(4).exchanges) > 20_000
    True
    """
    writer = _Writer(2, count)
    papers = [writer.text(20_000) for _ in range(64)]
    weights = 1 / np.arange(1, 65)
    exchanges = [
        writer.exchange(np.concatenate([papers[paper], writer.text(200, 1500)]), writer.text(100, 300))
        for paper in writer.random.choice(64, writer.count, p=weights / weights.sum())
    ]
    return Workload("W2", "documents", exchanges)


def w3_strangers(count: int = 2000) -> Workload:
    """W3: prompts of 1,000 random tokens that share nothing, not even their first token.

    >>> len(w3_strangers(3).exchanges[0].prompt)
    1000
    """
    writer = _Writer(3, count)
    exchanges = []
    for i in range(writer.count):
        prompt = writer.text(1000)
        prompt[0] = _VOCABULARY + i
        exchanges.append(writer.exchange(prompt, writer.text(50)))
    return Workload("W3", "strangers", exchanges)


def w4_thoughts(count: int = 1728) -> Workload:
    """W4: 27 problems, each a trunk of 900 tokens with three levels of four branches, walked depth first.

    >>> a, b = w4_thoughts(2).exchanges
    >>> a.prompt[:964] == b.prompt[:964]
    True
    """
    writer = _Writer(4, count)
    exchanges = []
    for _ in range(-(-writer.count // 64)):
        trunk = writer.text(900)
        steps = {}
        for depth in (1, 2, 3):
            for path in itertools.product(range(4), repeat=depth):
                steps[path] = writer.text(64)
        for path in itertools.product(range(4), repeat=3):
            prompt = np.concatenate([trunk, *(steps[path[:depth]] for depth in (1, 2, 3))])
            exchanges.append(writer.exchange(prompt, writer.text(32)))
    return Workload("W4", "thoughts", exchanges[: writer.count])


def w5_cuts(count: int = 2000) -> Workload:
    """W5: one prompt of 8,000 tokens, each request leaving it at a random place for 4 tokens of its own.

    >>> len(w5_cuts(5).exchanges)
    5
    """
    writer = _Writer(5, count)
    base = writer.text(8000)
    places = writer.random.randint(1, 8000, writer.count)
    return Workload("W5", "cuts", [writer.exchange(base[:at], writer.text(4)) for at in places])


def w6_mooncake(trace: Iterable[Any], count: int = 1000) -> Workload:
    """W6: the first `count` requests of a trace that have a prompt, as tokens.

    Each is a `TraceRequest`: its lengths in tokens, and the ids of its prompt's blocks. `ValueError` when its blocks do
    not hold a prompt, or when the requests have over `MOST_TOKENS` tokens together.

    >>> from minikv.tokens import pack
    >>> from minikv.traffic import TraceRequest
    >>> request = TraceRequest(0, 700, 3, pack([4, 9]))
    >>> w6_mooncake([request]).exchanges[0].prompt[510:514].tolist()
    [2558, 2559, 4608, 4609]
    """
    writer = _Writer(6, count)
    exchanges = list[Exchange]()
    total = 0
    for request in itertools.islice((request for request in trace if request.input_length), writer.count):
        total += request.input_length + request.output_length
        if total > MOST_TOKENS:
            rule = f"expected at most {MOST_TOKENS}"
            raise ValueError(f"request {len(exchanges) + 1} brings the trace to {total} tokens: {rule}")
        exchanges.append(writer.exchange(_written_out(request), writer.text(request.output_length)))
    return Workload("W6", "mooncake", exchanges)


def _written_out(request: Any) -> _Tokens:
    """The tokens of a prompt: `BLOCK` for each of its blocks, without what the last one has after its end."""
    length = request.input_length
    num_blocks = -(-length // BLOCK)
    blocks = np.frombuffer(request.blocks.data, np.uint32)[:num_blocks]
    if len(blocks) < num_blocks:
        raise ValueError(f"input_length is {length}: {len(blocks)} blocks hold {BLOCK} tokens each")
    if blocks.max() >= 2**32 // BLOCK:
        raise ValueError(f"block id {blocks.max()} is too large: its tokens would not fit 32 bits")
    tokens = np.repeat(blocks * np.uint32(BLOCK), BLOCK) + np.tile(np.arange(BLOCK, dtype=np.uint32), num_blocks)
    return tokens[:length]


WORKLOADS: dict[str, Callable[..., Workload]] = {
    "W1": w1_chat, "W2": w2_documents, "W3": w3_strangers, "W4": w4_thoughts, "W5": w5_cuts,
}  # fmt: skip
