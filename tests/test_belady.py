"""The clairvoyant's bound: brute force finds no more on tiny traces, and no policy on random ones."""

from __future__ import annotations

import itertools
import random

import pytest
from traffic import random_prompts, trace

from minikv import RadixCache
from minikv.prefix.eviction import POLICIES
from minikv.traffic import replay
from minikv.traffic.reuse import ReuseBySize, clairvoyant_found
from minikv.traffic.trace_tree import TraceTree

pytestmark = pytest.mark.core


def prefixes(blocks):
    return frozenset(tuple(blocks[:end]) for end in range(1, len(blocks) + 1))


def is_tree(held):
    return all(len(path) == 1 or path[:-1] in held for path in held)


def most_hits(prompts, capacity):
    """Every choice of what to keep after every request: the most blocks that were there when they were asked for."""
    states = {frozenset(): 0}
    for blocks in prompts:
        path = prefixes(blocks)
        if not 0 < len(path) <= capacity:
            continue
        after = {}
        for held, hits in states.items():
            others = held - path
            for count in range(min(len(others), capacity - len(path)) + 1):
                for kept in itertools.combinations(others, count):
                    if is_tree(state := path | frozenset(kept)):
                        after[state] = max(after.get(state, 0), hits + len(held & path))
        states = after
    return max(states.values())


def clairvoyant(prompts, capacity):
    return int(clairvoyant_found(ReuseBySize(TraceTree(trace(*prompts))).at(capacity), capacity).sum())


def test_it_keeps_what_is_used_sooner():
    """[3] comes back before [1 2]: with room for 3, LRU drops 2 for [4], and so does the clairvoyant; then not 3."""
    assert clairvoyant([[1, 2], [3], [4], [3], [1, 2]], 3) == 1 + 1
    assert clairvoyant([[1, 2], [3], [4], [3], [1, 2]], 4) == 1 + 2


def test_with_room_for_everything_it_finds_the_ceiling():
    prompts = random_prompts(3)
    tree = TraceTree(trace(*prompts))
    assert clairvoyant(prompts, tree.num_distinct) == replay(trace(*prompts), RadixCache()).hits


def test_brute_force_finds_as_many():
    for seed in range(120):
        prompts = [blocks[:3] for blocks in random_prompts(seed, most=6)]
        for capacity in range(1, 6):
            assert clairvoyant(prompts, capacity) == most_hits(prompts, capacity), (prompts, capacity)


@pytest.mark.parametrize("hundred", range(10))
def test_no_policy_beats_it_on_a_thousand_random_traces(hundred):
    better = 0
    for seed in range(100 * hundred, 100 * hundred + 100):
        requests = trace(*random_prompts(seed))
        tree = TraceTree(requests)
        capacity = random.Random(seed).randint(1, tree.num_distinct + 1)
        best = clairvoyant_found(ReuseBySize(tree).at(capacity), capacity).sum()
        for policy, evict_by in itertools.product(POLICIES, ("node", "page")):
            hits = replay(requests, RadixCache(1, policy, evict_by), capacity).hits
            assert hits <= best, (seed, capacity, policy, evict_by)
            better += hits < best
    assert better
