"""The prefixes that are worth most, by hand; and that no block is counted twice."""

import random

import pytest
from traffic import random_prompts, trace

from minikv.tokens import common_prefix
from minikv.traffic.reuse import reuse_in
from minikv.traffic.trace_tree import TraceTree
from minikv_tools.plans.prefixes import continued_depths, own_depths, prefixes_worth_most


def found(*prompts, **more):
    return prefixes_worth_most(TraceTree(trace(*prompts, **more)))


def test_a_long_prefix_of_few_may_be_worth_more_than_a_short_one_of_many():
    """[1] begins all 5 prompts: 4 saved. [1 2 3 4 5 6] begins 2: 6 saved, and then [1] has 3 more requests."""
    long = [1, 2, 3, 4, 5, 6]
    prefixes = found(long, [*long, 7], [1], [1, 8], [1, 9])
    assert [(prefix.blocks, prefix.requests, prefix.counted, prefix.saved) for prefix in prefixes] == [
        (6, 2, 2, 6),
        (1, 5, 3, 2),
    ]


def test_a_prefix_that_goes_on_from_another_counts_what_it_adds():
    prefixes = found(*[[1, 2, 3, 9 + at] for at in range(6)], [1, 2, 3, 4, 5], [1, 2, 3, 4, 6])
    assert [(prefix.blocks, prefix.behind, prefix.saved) for prefix in prefixes] == [(3, 0, 21), (4, 3, 1)]


def test_a_shorter_prefix_counts_the_requests_that_no_longer_one_explains():
    """[1 2 3 4] has 5 requests, of which 2 go on with [5 6]; [1] has 3 others, which no prefix below it takes away."""
    ends = [[5, 6], [5, 6], [7], [8], [9]]
    prefixes = found(*[[1, 2, 3, 4, *end] for end in ends], [1, 20], [1, 21], [1, 22])
    assert [(prefix.blocks, prefix.counted, prefix.saved) for prefix in prefixes] == [(4, 5, 16), (6, 2, 2), (1, 3, 2)]


def test_it_says_where_a_prefix_came_first_and_how_many_conversations_send_it():
    prefixes = found([8], [1, 2], [1, 2], [1, 2, 3], conversations=[0, 1, 2, 2])
    assert (prefixes[0].first, prefixes[0].conversations) == (1, 2)


def test_nothing_is_worth_anything_where_nothing_is_shared():
    assert found([1], [2], []) == []
    assert prefixes_worth_most(TraceTree()) == []


def test_there_are_at_most_as_many_as_asked_for_or_ten():
    tree = TraceTree(trace(*[[first, 0] for first in range(12)] * 2))
    assert len(prefixes_worth_most(tree, most=4)) == 4
    assert len(prefixes_worth_most(tree)) == 10


@pytest.mark.parametrize("share", [0, 0.3, 0.9])
def test_no_hit_is_counted_twice_and_none_of_a_warm_up(share):
    for seed in range(40):
        tree = TraceTree(trace(*random_prompts(seed, most=40)))
        warm = int(share * len(tree.ends))
        prefixes = prefixes_worth_most(tree, warm_up=warm, most=100)
        found = reuse_in(tree).found()[warm:].sum()
        assert sum(prefix.saved for prefix in prefixes) <= found, seed


def test_what_a_warm_up_leaves_is_found_by_every_request_after_it():
    """Of five requests [1 2] two are a warm-up: three find both blocks; the first [3] none."""
    tree = TraceTree(trace([1, 2], [1, 2], [1, 2], [3], [1, 2], [3], [1, 2]))
    found = prefixes_worth_most(tree, warm_up=2)
    assert [(one.blocks, one.requests, one.counted, one.saved) for one in found] == [
        (2, 5, 3, 6),
        (1, 2, 2, 1),
    ]


def test_a_request_of_no_conversation_has_sent_nothing_before():
    tree = TraceTree(trace([1], [1], [1], conversations=[None, 0, None]))
    assert own_depths(tree).tolist() == [0, 0, 0]


def test_a_trace_may_name_no_conversations():
    assert own_depths(TraceTree(trace([1], [1]))) is None


def test_both_are_what_a_comparison_with_every_earlier_prompt_finds():
    for seed in range(40):
        prompts, dice = random_prompts(seed), random.Random(seed)
        places = [dice.choice([0, 1, 2]) for _ in prompts]
        tree = TraceTree(trace(*prompts, conversations=places))
        own, continued = own_depths(tree).tolist(), continued_depths(tree).tolist()
        for at, (prompt, place) in enumerate(zip(prompts, places)):
            earlier = [prompts[before] for before in range(at)]
            mine = [prompts[before] for before in range(at) if places[before] == place]
            assert own[at] == max((common_prefix(prompt, one) for one in mine), default=0), (seed, at)
            whole = [len(one) for one in earlier if len(one) < len(prompt) and prompt[: len(one)] == one]
            assert continued[at] == max(whole, default=0), (seed, at)
