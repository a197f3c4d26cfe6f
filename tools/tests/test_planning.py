"""A plan for small traffic, every figure of it by hand, and for real requests against replays."""

from unittest.mock import Mock

import pytest
from traffic import NAMES, cut, trace

from minikv import RadixCache
from minikv.tokens import pack
from minikv.traffic import TraceRequest, replay
from minikv.traffic.trace_tree import TraceTree
from minikv_tools.plans import Lifetime, Terms
from minikv_tools.plans.planning import knee, make_plan
from minikv_tools.plans.prefill_cost import PrefillCost


def planned(*prompts, conversations=None, **terms):
    return make_plan(TraceTree(trace(*prompts, conversations=conversations)), Terms(512, **terms))


def test_the_curve_its_bound_and_its_ceiling():
    """[1 2] is back after [3], [4] and [5]: LRU needs room for all 5; an order that knows finds one with 2."""
    plan = planned([1, 2], [3], [4], [5], [1, 2], bytes_per_token=1, memory=4 * 512)
    assert plan.lru_reaches_ceiling_at_blocks == 5
    found = {point.blocks: (point.hits, point.bound) for point in plan.points}
    assert (found[2], found[4], found[5]) == ((0, 1), (1, 2), (2, 2))
    assert (plan.ceiling.hits, plan.blocks, plan.distinct_blocks, plan.longest_request_blocks) == (2, 7, 5, 2)
    assert plan.rate(plan.ceiling.hits) == 2 / 7


def test_the_memory_is_a_point_and_its_capacity_is_whole_blocks():
    plan = planned([1, 2], [3], [1, 2], bytes_per_token=10, memory=2 * 5120 + 5119)
    assert (plan.at_memory.blocks, plan.at_memory.hits) == (2, 1)


def test_what_does_not_fit_is_counted():
    assert planned([1, 2, 3], [1], bytes_per_token=1, memory=1024).at_memory.requests_too_large == 1


def test_tokens_saved_are_no_more_than_the_prompt_has():
    """Its last block holds 88 of 512 tokens, and is found when it comes again."""
    requests = [TraceRequest(0, 600, 1, pack([1, 2]))] * 2
    plan = make_plan(TraceTree(requests), Terms(512))
    assert plan.ceiling.tokens_saved == 600
    assert plan.prompt_tokens == 1200


def test_flops_are_those_of_the_first_tokens_of_each_prompt():
    cost = PrefillCost(total=100, active=80, per_pair=4)
    plan = planned([1, 2], [1, 3], [1, 2], cost=cost)
    assert plan.prefill_flops == 3 * cost.flops(1024)
    assert plan.ceiling.flops_saved == cost.flops(512) + cost.flops(1024)


def test_a_time_to_live_forgets_what_was_not_used_for_longer():
    """A request a second: [1] is back after 2 seconds, [2] after 3; with room for two blocks only [1] is."""
    plan = planned([1], [2], [1], [3], [2], lifetimes=(1, 2, 3), bytes_per_token=1, memory=1024)
    assert plan.time_to_live == (Lifetime(1, 0, 0.0, 0), Lifetime(2, 1, 0.2, 1), Lifetime(3, 2, 0.4, 1))


def test_hits_of_one_s_own_conversation_and_of_others():
    plan = planned([1, 2], [1, 2, 3], [1, 2, 3, 4], conversations=[0, 1, 1])
    assert (plan.ceiling.hits, plan.ceiling.own_conversation_hits, plan.conversations) == (2 + 3, 3, 2)
    assert (plan.continuing_requests, plan.hits_of_continuing_requests) == (2, 5)


def test_a_small_cache_finds_less_of_one_s_own():
    """With room for 3 blocks, 1 of the 2 that conversation 0 sent before is still there."""
    plan = planned([1, 2], [3], [4], [1, 2], conversations=[0, 1, 1, 0], bytes_per_token=1, memory=3 * 512)
    assert (plan.at_memory.blocks, plan.at_memory.hits, plan.at_memory.own_conversation_hits) == (3, 1, 1)
    assert plan.ceiling.own_conversation_hits == 2


def test_where_no_conversation_is_named_none_is_said():
    plan = planned([1, 2], [1, 2, 3])
    assert (plan.ceiling.own_conversation_hits, plan.conversations) == (None, None)


def test_a_warm_up_fills_the_cache_and_is_not_counted():
    plan = planned([1, 2], [1, 2], [1, 2], [3], warm_up=0.5)
    assert (plan.requests, plan.blocks, plan.ceiling.hits, plan.prompt_tokens) == (2, 3, 2, 3 * 512)
    assert plan.points[-1].bound == 2


def test_of_half_of_three_requests_one_is_a_warm_up():
    assert planned([1], [2], [3], warm_up=0.5).requests == 2


def test_requests_of_the_warm_up_that_are_too_large_are_not_counted():
    plan = planned([1, 2, 3], [1], [4, 5, 6], [1], warm_up=0.25, bytes_per_token=1, memory=512)
    assert plan.at_memory.requests_too_large == 1


def test_without_a_memory_sizes_are_round_and_begin_where_the_curve_does():
    """Blocks of 1,000 tokens; the last of them that is found has the place 512."""
    plan = make_plan(TraceTree(trace(range(512), range(512))), Terms(1000))
    sizes = [point.blocks for point in plan.points]
    assert (sizes[0], sizes[-1]) == (2, 512)
    assert {250, 500} <= set(sizes)
    terms = Terms(1000, bytes_per_token=2**20)  # GiB of 1.024 blocks each
    found = make_plan(TraceTree(trace(range(512), range(512))), terms)
    assert {131, 262} <= {point.blocks for point in found.points}


def test_lengths_that_no_machine_integer_can_add_up_are_added_up():
    requests = [TraceRequest(0, 2**53, 1, pack([1]))] * 2000
    plan = make_plan(TraceTree(requests), Terms(512, cost=PrefillCost(total=1, active=1, per_pair=4)))
    assert plan.prompt_tokens == 2000 * 2**53
    assert plan.prefill_flops == 2000 * PrefillCost(total=1, active=1, per_pair=4).flops(2**53)


def test_each_size_is_announced():
    progress = Mock()
    plan = make_plan(TraceTree(trace([1], [2], [1])), Terms(512), progress)
    assert progress.call_count == len(plan.points)
    assert abs(progress.expect.call_args.args[0] - len(plan.points)) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_every_point_of_a_real_trace_is_what_a_replay_finds(name):
    requests = cut(name)
    plan = make_plan(TraceTree(requests), Terms(16, bytes_per_token=1000, memory=10**8))
    for point in plan.points[::3]:
        found = replay(requests, RadixCache(evict_by="page"), point.blocks)
        assert (found.hits, found.uncached_requests) == (point.hits, point.requests_too_large)
        assert point.hits <= point.bound <= plan.ceiling.hits
    (reach,) = [point for point in plan.points if point.blocks == plan.lru_reaches_ceiling_at_blocks]
    assert reach.hits == plan.ceiling.hits > plan.points[0].hits


def test_the_knee_of_a_straight_rise_that_ends_is_where_it_ends():
    """It is between two points, at 192: sizes between them are tried, every 24th here."""
    tried = []

    def hits_at(size):
        tried.append(size)
        return min(96, size // 2)

    sizes = [64, 128, 256, 512, 1024]
    assert knee({size: hits_at(size) for size in sizes}, hits_at) == 128 + 3 * 24
    assert 0 < len(tried) <= 5 + 15


def test_a_curve_without_a_hit_has_its_knee_at_the_end():
    assert knee({1: 0, 2: 0}, lambda size: 0) == 2


def test_where_a_curve_is_straight_the_smallest_size_is_the_knee():
    assert knee({10: 1, 20: 2, 30: 3}, lambda size: size // 10) == 10
