"""The long run and what it is compared with: the same content in a tree built afresh."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minikv import RadixCache
from minikv.measure.long_run import built_afresh, long_run

PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=7), max_size=10)


@given(PROMPTS, st.integers(0, 6), st.sampled_from([1, 2]))
def test_a_tree_built_afresh_has_the_same_content(prompts, evicted, page_size):
    cache = RadixCache(page_size)
    for number, prompt in enumerate(prompts):
        cache.insert(prompt, range(10 * number, 10 * number + len(prompt) // page_size))
    cache.evict(evicted)
    fresh = built_afresh(cache)
    fresh.check()
    assert fresh.total_size == cache.total_size
    for prompt in prompts:
        assert fresh.match_prefix(prompt).pages.tolist() == cache.match_prefix(prompt).pages.tolist()


def test_a_tree_that_has_lived_long_has_few_nodes_more_than_one_built_afresh():
    """Without joins it would have half as many again by then: each cut in a hot head would stay."""
    ticks = []
    found = long_run(3000, ticks.append)
    assert found["nodes"] <= 1.1 * found["nodes, built afresh"]
    assert ticks == [f"long run, request {number:,} of 3,000" for number in (0, 1000, 2000)]
