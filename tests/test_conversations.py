"""What a conversation had sent before, and which prompts go on from earlier ones: by hand and against a slow count."""

from __future__ import annotations

import random

import pytest
from traffic import random_prompts, trace

from minikv.tokens import common_prefix
from minikv.traffic.plan.conversations import continued_depths, own_depths
from minikv.traffic.trace_tree import TraceTree


def test_a_block_counts_for_the_conversation_that_sent_it():
    """Conversation 1 finds [1 2] as well, but only because conversation 0 sent it."""
    tree = TraceTree(trace([1, 2], [1, 2, 3], [1, 2, 4], [1, 2, 3], conversations=[0, 1, 1, 0]))
    assert own_depths(tree).tolist() == [0, 0, 2, 2]


def test_a_request_of_no_conversation_has_sent_nothing_before():
    tree = TraceTree(trace([1], [1], [1], conversations=[None, 0, None]))
    assert own_depths(tree).tolist() == [0, 0, 0]


def test_a_trace_may_name_no_conversations():
    assert own_depths(TraceTree(trace([1], [1]))) is None


def test_a_prompt_goes_on_from_the_longest_whole_earlier_one():
    """[1 2 3 4] goes on from [1 2 3], not from [1 2]; a repeated prompt goes on from what is shorter."""
    tree = TraceTree(trace([1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4], [1, 5]))
    assert continued_depths(tree).tolist() == [0, 2, 3, 3, 0]


@pytest.mark.parametrize("seed", range(40))
def test_both_are_what_a_comparison_with_every_earlier_prompt_finds(seed):
    prompts, dice = random_prompts(seed), random.Random(seed)
    places = [dice.choice([0, 1, 2]) for _ in prompts]
    tree = TraceTree(trace(*prompts, conversations=places))
    own, continued = own_depths(tree).tolist(), continued_depths(tree).tolist()
    for at, (prompt, place) in enumerate(zip(prompts, places)):
        earlier = [prompts[before] for before in range(at)]
        mine = [prompts[before] for before in range(at) if places[before] == place]
        assert own[at] == max((common_prefix(prompt, one) for one in mine), default=0)
        whole = [len(one) for one in earlier if len(one) < len(prompt) and prompt[: len(one)] == one]
        assert continued[at] == max(whole, default=0)
