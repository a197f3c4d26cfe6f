"""The textbook tree against ours."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from minikv import RadixCache
from minikv.measure.textbook import TextbookCache

PROMPT = st.lists(st.integers(0, 1), min_size=1, max_size=8)


@settings(max_examples=60)
@given(st.lists(st.one_of(PROMPT, st.integers(1, 6)), max_size=12))
def test_the_textbook_tree_is_ours(steps):
    """The same slots, sizes and victims, for any series of matches, inserts and evictions."""
    ours, theirs = RadixCache(), TextbookCache()
    for number, step in enumerate(steps):
        if isinstance(step, int):
            assert ours.evict(step).tolist() == theirs.evict(step)
        else:
            slots = range(10 * number, 10 * number + len(step))
            assert ours.match_prefix(step).slots.tolist() == theirs.match_prefix(step).slots
            assert ours.insert(step, slots).prefix_length == theirs.insert(step, slots).prefix_length
        assert ours.evictable_size == theirs.evictable_size
