"""One pass instead of a replay for each size: equal to the replays, and worked by hand."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from traffic import NAMES, cut, random_prompts, replay_sizes, trace

from minikv import RadixCache
from minikv.traffic import Replay, replay
from minikv.traffic.reuse import ReuseBySize, Tails, clairvoyant_found, reuse_in
from minikv.traffic.trace_tree import TraceTree

pytestmark = pytest.mark.core


def segments(*prompts, largest=None):
    reuse = reuse_in(TraceTree(trace(*prompts)), largest)
    return list(zip(*(column.tolist() for column in reuse.columns)))


def test_the_segments_of_a_prompt_are_what_is_left_of_earlier_ones():
    """[1 2 3 4], then [1 2]: 3 and 4 are last used by request 0, behind the 2 blocks of request 1."""
    assert segments([1, 2, 3, 4], [1, 2], [1, 2, 3, 5]) == [
        (1, 0, 0, 2, 0),
        (2, 0, 2, 3, 2),
        (2, 1, 0, 2, 0),
    ]


def test_a_request_larger_than_the_cache_uses_nothing():
    prompts = [1, 2], [1, 2, 3], [1]
    assert segments(*prompts, largest=2) == [(2, 0, 0, 1, 0)]
    assert replay_sizes(TraceTree(trace(*prompts)), [2]) == [Replay(3, 6, 1, 0, 2, uncached_requests=1)]


def test_an_empty_trace_has_no_reuse():
    assert replay_sizes(TraceTree(), [1, None]) == [Replay(), Replay()]
    assert replay_sizes(TraceTree(trace([])), [1]) == [Replay(requests=1)]


def test_at_every_size_it_is_what_a_replay_by_pages_finds():
    for seed in range(500):
        requests = trace(*random_prompts(seed))
        tree = TraceTree(requests)
        sizes = [*range(1, tree.num_distinct + 2), None]
        replayed = [replay(requests, RadixCache(evict_by="page"), size) for size in sizes]
        assert replay_sizes(tree, sizes) == replayed, seed


def test_a_larger_cache_holds_what_a_smaller_one_does():
    tree = TraceTree(trace(*random_prompts(7, most=60)))
    reuse = reuse_in(tree)
    found = [reuse.found(size) for size in range(max(tree.lengths), tree.num_distinct + 1)]
    assert all((less <= more).all() for less, more in itertools.pairwise(found))
    assert (found[-1] == reuse.found()).all()


def test_sizes_that_serve_the_same_requests_share_a_pass():
    sizes = ReuseBySize(TraceTree(trace([1, 2, 3, 4], [1])))
    assert sizes.at(4) is sizes.at(900) is sizes.at(None)
    assert sizes.at(3) is sizes.at(2)
    assert sizes.at(3) is not sizes.at(4)


def test_a_segment_may_be_gone_for_another_reason():
    reuse = reuse_in(TraceTree(trace([1, 2], [3], [1, 2, 3], [3])))
    assert reuse.found(kept=np.array([False, True])).tolist() == [0, 0, 0, 1]
    assert reuse.found(2, kept=np.array([True, True])).tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_what_a_replay_of_real_requests_finds(name):
    requests = cut(name)
    tree = TraceTree(requests)
    longest, all_of_it = max(tree.lengths), tree.num_distinct
    spread = np.geomspace(longest // 8, all_of_it, 9).astype(int).tolist()
    sizes = [*sorted({*spread, longest - 1, longest}), None]
    assert replay_sizes(tree, sizes) == [replay(requests, RadixCache(evict_by="page"), size) for size in sizes]


# -- what requests keep besides their blocks --------------------------------------------------------------------------


def held_by_hand(prompts, tails, block, capacity):
    """The hits of each prompt, with a list of everything in the cache: the last used first, each with its bytes."""
    kept, found = [], []  # what and its bytes: a prefix, or what a request keeps besides
    for user, (prompt, tail) in enumerate(zip(prompts, tails)):
        path = [tuple(prompt[: depth + 1]) for depth in range(len(prompt))]
        if not prompt or len(prompt) + -(-tail // block) > capacity:
            found.append(0)
            continue
        places = dict(zip((what for what, _ in kept), itertools.accumulate(each for _, each in kept)))
        found.append(sum(places.get(prefix, math.inf) <= capacity * block for prefix in path))
        kept = [(prefix, block) for prefix in path] + [(user, tail)] + [item for item in kept if item[0] not in path]
    return found


@pytest.mark.parametrize("seed", range(150))
def test_what_is_kept_besides_blocks_is_in_the_cache_too(seed):
    """A block takes 7 bytes, and each prompt 0 to 20 besides."""
    dice, prompts = random.Random(seed), random_prompts(seed)
    tails = [dice.randint(0, 20) for _ in prompts]
    tree = TraceTree(trace(*prompts))
    sizes = ReuseBySize(tree, Tails(np.array(tails), 7))
    for capacity in (1, 2, 3, 5, 8, 13, 40):
        reuse = sizes.at(capacity)
        assert reuse.found(capacity).tolist() == held_by_hand(prompts, tails, 7, capacity)
        best = clairvoyant_found(reuse, capacity)
        assert (best <= sizes.at().found()).all()
        assert best.sum() >= reuse.found(capacity).sum()
    assert sizes.at().kept == -(-sum(tail for tail, prompt in zip(tails, prompts) if prompt) // 7)
