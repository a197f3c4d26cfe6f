"""One pass instead of a replay for each size: equal to replays and to counts by hand, and bounded by the clairvoyant.

Brute force finds as much as the clairvoyant on tiny traces; that no policy finds more is in test_real_traffic.
"""

import itertools
import math
import random

import numpy as np
import pytest
from nightly import NIGHTLY
from traffic import random_prompts, replay_sizes, trace

from minikv import RadixCache
from minikv.traffic import Replay, replay
from minikv.traffic.reuse import ReuseBySize, Tails, clairvoyant_found
from minikv.traffic.trace_tree import TraceTree


def tree_of(*prompts):
    return TraceTree(trace(*prompts))


def test_an_empty_trace_has_no_reuse():
    assert replay_sizes(TraceTree(), [1, None]) == [Replay(), Replay()]
    assert replay_sizes(tree_of([]), [1]) == [Replay(requests=1)]


def test_at_every_size_it_is_what_a_replay_by_pages_finds():
    for seed in range(500 if NIGHTLY else 150):
        requests = trace(*random_prompts(seed))
        tree = TraceTree(requests)
        sizes = [*range(1, tree.num_distinct + 2), None]
        replayed = [replay(requests, RadixCache(evict_by="page"), size) for size in sizes]
        assert replay_sizes(tree, sizes) == replayed, seed


def test_sizes_that_serve_the_same_requests_share_a_pass():
    sizes = ReuseBySize(tree_of([1, 2, 3, 4], [1]))
    assert sizes.at(4) is sizes.at(900) is sizes.at(None)
    small = sizes.at(2)
    assert sizes.at(3) is small is not sizes.at(4)


# -- what requests keep besides their blocks ----------------------------------------------------


def held_by_hand(prompts, tails, block, capacity):
    """The hits of each prompt, with a list of everything in the cache: the last used first, each with its bytes."""
    kept, found = [], []  # what and its bytes: a prefix, or what a request keeps besides
    for user, (prompt, tail) in enumerate(zip(prompts, tails)):
        path = [tuple(prompt[:end]) for end in range(1, len(prompt) + 1)]
        if not prompt or len(prompt) + -(-tail // block) > capacity:
            found.append(0)
            continue
        places = dict(zip((what for what, _ in kept), itertools.accumulate(size for _, size in kept)))
        found.append(sum(places.get(prefix, math.inf) <= capacity * block for prefix in path))
        old = [item for item in kept if item[0] not in path]
        kept = [(prefix, block) for prefix in path] + [(user, tail)] + old
    return found


@pytest.mark.parametrize("seed", range(150 if NIGHTLY else 50))
def test_what_is_kept_besides_blocks_is_in_the_cache_too(seed):
    """A block takes 7 bytes, and each prompt 0 to 20 besides."""
    dice, prompts = random.Random(seed), random_prompts(seed)
    tails = [dice.randint(0, 20) for _ in prompts]
    sizes = ReuseBySize(tree_of(*prompts), Tails(np.array(tails), 7))
    for capacity in (1, 2, 3, 5, 8, 13, 40):
        reuse = sizes.at(capacity)
        assert reuse.found(capacity).tolist() == held_by_hand(prompts, tails, 7, capacity)
        best = clairvoyant_found(reuse, capacity)
        assert (best <= sizes.at().found()).all()
        assert best.sum() >= reuse.found(capacity).sum()
    assert sizes.at().kept == -(-sum(tail for tail, prompt in zip(tails, prompts) if prompt) // 7)


# -- the clairvoyant's bound --------------------------------------------------------------------


def most_hits(prompts, capacity):
    """Every choice of what to keep after every request: the most blocks that were there when they were asked for."""
    states = {frozenset(): 0}
    for blocks in prompts:
        path = frozenset(tuple(blocks[:end]) for end in range(1, len(blocks) + 1))
        if not 0 < len(path) <= capacity:
            continue
        after = {}
        for held, hits in states.items():
            others = held - path
            for count in range(min(len(others), capacity - len(path)) + 1):
                for kept in itertools.combinations(others, count):
                    state = path.union(kept)
                    if all(prefix[:-1] in {(), *state} for prefix in state):  # it is a tree
                        after[state] = max(after.get(state, 0), hits + len(held & path))
        states = after
    return max(states.values())


def clairvoyant(tree, capacity):
    return int(clairvoyant_found(ReuseBySize(tree).at(capacity), capacity).sum())


def test_brute_force_finds_as_many():
    for seed in range(120):
        prompts = [blocks[:3] for blocks in random_prompts(seed, most=6)]
        for capacity in range(1, 6):
            assert clairvoyant(tree_of(*prompts), capacity) == most_hits(prompts, capacity), (prompts, capacity)
