"""Small random traces, and cuts of three real ones."""

import random
from pathlib import Path

import numpy as np

from minikv import Replay, pack
from minikv.traffic import TraceRequest
from minikv.traffic.reuse import ReuseBySize
from minikv.traffic.traces import open_traffic

CUTS = Path(__file__).with_name("traces")
NAMES = "mooncake", "miniswe", "agents"


def cut(name):
    """The requests of a cut."""
    with open_traffic(CUTS / f"{name}.jsonl") as traffic:
        return list(traffic.requests)


def trace(*prompts, every=1000.0, conversations=None):
    """A request a second, each of which has the blocks given."""
    places = conversations or [None] * len(prompts)
    return [
        TraceRequest(every * number, 512 * len(blocks), 1, pack(blocks), place)
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


def replay_sizes(tree, capacities):
    """What `replay` finds with `RadixCache(evict_by="page")` at each capacity, told by the reuse: nothing is replayed.

    The cache grows with each block that is new to it until it is full, and stays full.
    """
    sizes, found = ReuseBySize(tree), []
    for capacity in capacities:
        reuse = sizes.at(capacity)
        served, hits = int(reuse.lengths.sum()), int(reuse.found(capacity).sum())
        distinct = served - int((reuse.stops - reuse.starts).sum())
        size = distinct if capacity is None else min(capacity, distinct)
        too_large = int((reuse.lengths != np.array(tree.lengths)).sum())
        found.append(Replay(len(tree.ends), sum(tree.lengths), hits, served - hits - size, size, too_large))
    return found
