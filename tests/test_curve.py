"""The curve of small traffic by hand, and of real requests against replays."""

import numpy as np
import pytest
from nightly import NIGHTLY
from traffic import NAMES, cut, trace

from minikv import RadixCache
from minikv.tokens import pack
from minikv.traffic import TraceRequest, replay
from minikv.traffic.curve import HitCurve, curve_sizes
from minikv.traffic.reuse import Tails
from minikv.traffic.trace_tree import TraceTree


def curve_of(*prompts, **more):
    return HitCurve(TraceTree(trace(*prompts)), **more)


@pytest.mark.parametrize(("prompts", "reach", "hits"), [
    ([[1], [1, 2, 3]], 3, [0, 0, 1]),  # found again at once, but only in a cache that can hold [1 2 3]
    ([[1, 2], [3], [4], [5], [1, 2]], 5, [0, 0, 0, 1, 2]),  # LRU needs room for all 5
    ([[1, 2], [3]], 1, [0]),
    ([], 1, [0]),
])  # fmt: skip
def test_it_reaches_as_far_as_a_larger_cache_finds_more(prompts, reach, hits):
    curve = curve_of(*prompts)
    assert (curve.reach, [curve.hits(size) for size in range(1, reach + 1)]) == (reach, hits)


def test_only_what_was_used_shortly_before_is_found_in_seconds():
    """A request a second: [1] is back after 2 seconds, [2] after 3."""
    curve = curve_of([1], [2], [1], [3], [2])
    for size, hits in ((None, [0, 1, 2]), (1, [0, 0, 0])):
        assert [curve.hits(size, seconds) for seconds in (1, 2, 3)] == hits


def test_only_the_counted_requests_are_counted():
    curve = curve_of([1, 2], [1, 2], [1, 2], [3], counts=np.array([False, False, True, True]))
    assert (curve.blocks, curve.hits(), curve.bound(2)) == (3, 2, 2)


def test_what_requests_keep_besides_takes_room():
    """Between the two uses of [1 2] come a block and what its request keeps: 4 blocks hold all of it, not 3."""
    curve = curve_of([1, 2], [9], [1, 2], tails=Tails(np.array([1, 1, 1]), 1))
    assert (curve.reach, [curve.hits(size) for size in (2, 3, 4)]) == (4, [0, 1, 2])


def test_lengths_that_no_machine_integer_can_add_up_are_added_up():
    curve = HitCurve(TraceTree([TraceRequest(0, 2**53, 1, pack([1]))] * 2000))
    assert curve.total(np.array(curve.tree.inputs)) == 2000 * 2**53


@pytest.mark.parametrize("name", NAMES)
def test_every_size_of_a_real_trace_is_what_a_replay_finds(name):
    requests = cut(name)
    curve = HitCurve(TraceTree(requests))
    for size in curve_sizes(10_000, curve.reach)[:: 3 if NIGHTLY else 6]:
        hits = replay(requests, RadixCache(evict_by="page"), size).hits
        assert curve.hits(size) == hits <= curve.bound(size) <= curve.hits()
    assert curve.hits(curve.reach) == curve.hits() > curve.hits(curve.reach - 1)


@pytest.mark.parametrize(("size", "largest"), [(1, 1), (10240, 3_032_595), (10, 9000), (5000, 12), (0.3, 7), (7.5, 8)])
def test_sizes_rise_from_1_or_more_and_have_the_given_one_and_the_end(size, largest):
    sizes = curve_sizes(size, largest)
    assert sizes == sorted({*sizes, largest, max(1, int(size))})
    assert sizes[0] >= 1
    assert all(blocks <= max(largest, size) for blocks in sizes)


def test_sizes_begin_at_an_eighth_and_double_in_two_steps():
    assert curve_sizes(1000, 100_000)[:9] == [125, 176, 250, 353, 500, 707, 1000, 1414, 2000]
