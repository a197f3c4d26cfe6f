"""Small random traces, and cuts of three real ones."""

from __future__ import annotations

import json
import random
from pathlib import Path

from minikv import pack
from minikv.measure import TraceRequest, read_trace

CUTS = Path(__file__).with_name("traces")
NAMES = "mooncake", "miniswe", "agents"


def cut(name):
    """The requests of a cut; sessions of agents one after the other, each with ids of its own."""
    lines = (CUTS / f"{name}.jsonl").read_text("utf-8").splitlines()
    return list(read_trace(lines)) if name != "agents" else [request for line in lines for request in session(line)]


def session(line):
    entry, blocks = json.loads(line), []
    base = 10**6 * (entry["id"] if isinstance(entry["id"], int) else int(entry["id"].split("_")[-1]))
    for time, tokens, output, shared, new, _, _ in entry["requests"]:
        blocks = blocks[:shared] + [base + at for first, count in new for at in range(first, first + count)]
        yield TraceRequest(1000 * time, tokens, output, pack(blocks))


def trace(*prompts, every=1000.0, conversations=None):
    """A request a second, each of which has the blocks given."""
    places = conversations or [None] * len(prompts)
    return [
        TraceRequest(every * number, 512 * len(blocks), 1, pack(blocks))
        for number, (blocks, place) in enumerate(zip(prompts, places))
    ]


def random_prompts(seed, most=14):
    """Prompts over few ids, half of which go on from an earlier one: they nest, part, repeat and are empty."""
    dice = random.Random(seed)
    kinds, prompts = dice.randint(1, 3), []
    for _ in range(dice.randint(1, most)):
        head = dice.choice(prompts) if prompts and dice.random() < 0.5 else []
        head = head[: dice.randint(0, len(head))]
        prompts.append(head + [dice.randrange(kinds) for _ in range(dice.randint(0, 4))])
    return prompts
