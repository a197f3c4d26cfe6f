"""Chapter 15 against vLLM 0.33.0: its coordinator, its mask of states and its scheduler gave these answers.

`golden/layers_of_vllm.json` has random scenarios. A hit: the groups, the places that are saved for each, the tokens of
the prompt; then the hit, the places that each group is handed, and the junction. Checkpoints: the arguments, and the
states that its mask keeps. Chunks: start, end, the most tokens at once, the junction, the block; and the ends.
"""

import json

import pytest
from project import text_of

from minikv.engine.ch15_layers import Group, checkpoints, chunks, common_hit, grid, longest, needs

FOUND = json.loads(text_of("tests/golden/layers_of_vllm.json"))


@pytest.mark.parametrize("mix", FOUND["hits"])
def test_a_hit_what_is_handed_out_and_the_junction_are_those_of_vllm(mix):
    """There is a junction where full attention, or else the first group, could have continued longer."""
    for described, places, tokens, hit, handed, junction in FOUND["hits"][mix]:
        groups, saved = [Group(*each) for each in described], [set(each) for each in places]
        step = grid(groups)
        assert common_hit(groups, saved, tokens - 1, step) == hit
        assert [needs(group, hit) if hit else [] for group in groups] == handed
        alone = longest(groups[0], saved[0], tokens - 1, step)
        assert (alone if alone > hit else 0) == junction


def test_the_states_that_are_kept_are_those_of_vllm():
    for *arguments, kept in FOUND["checkpoints"]:
        assert checkpoints(*arguments) == kept


def test_chunks_end_where_those_of_vllm_do_and_each_kept_state_is_such_an_end():
    """vLLM rounds the most tokens down to whole blocks first, as it is here."""
    for start, end, most, fork, block, ends in FOUND["chunks"]:
        stops = checkpoints(end, start, fork, block)
        assert chunks(start, end, most, stops) == ends
        assert {*stops} <= {*ends}


def test_a_window_of_one_token_needs_nothing_here_and_one_block_in_vllm():
    """`find_longest_cache_hit` returns no length without a cached block, although the next token would read none."""
    groups, saved = [Group("full", 4), Group("window", 4, 1)], [{4, 8}, set()]
    assert common_hit(groups, saved, 11, 4) == 8
