"""The tree of a trace's prompts: where prompts part and end, and what a node says."""

import os
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traffic import trace

from minikv import InvariantError
from minikv.traffic.trace_tree import PrefixTree, TraceTree

TEXTS = st.lists(st.text("ab", max_size=12).map(str.encode), max_size=20)


def test_a_request_keeps_its_time_its_length_and_its_conversation():
    tree = TraceTree(trace([1], [2, 3], conversations=[7, None]))
    assert (tree.times, tree.inputs, tree.conversations) == ([0, 1000], [512, 1024], [7, None])
    assert (tree.lengths, tree.num_distinct) == ([1, 2], 3)


def test_prompts_part_at_a_whole_id():
    """The first bytes of 256 and of 512 are the same."""
    tree = TraceTree(trace([1, 256], [1, 512]))
    assert (sorted(tree.depths), tree.num_distinct) == ([0, 1, 2, 2], 3)


@given(TEXTS)
def test_a_prompt_shares_what_it_shares_with_the_best_earlier_one(texts):
    tree = PrefixTree()
    for number, text in enumerate(texts):
        nodes = len(tree.parents)
        shared, last = tree.insert(text)
        by_hand = [len(os.path.commonprefix([text, other])) for other in texts[:number]]  # noqa: RUF071
        assert shared == max(by_hand, default=0)
        passed = {node for end in tree.ends[:number] for node in tree.path(end)}
        assert (last in passed and last < nodes) if shared else last == 0
        tree.check()
    through = Counter(node for end in tree.ends for node in tree.path(end))
    assert tree.requests_through() == [len(texts), *(through[node] for node in range(1, len(tree.parents)))]


@given(TEXTS)
def test_the_rest_of_a_prompt_goes_after_the_one_that_it_continues(texts):
    whole, tree = PrefixTree(), PrefixTree()
    for number, text in enumerate(texts):
        like = [earlier for earlier in range(number) if text.startswith(texts[earlier])]
        before = like[-1] if like else None
        begin, node = (0, 0) if before is None else (len(texts[before]), tree.ends[before])
        assert begin + tree.insert(text[begin:], node)[0] == whole.insert(text)[0]
        tree.check()
    assert [tree.depths[end] for end in tree.ends] == [*map(len, texts)]
    assert (tree.num_distinct, sorted(tree.requests_through())) == (
        whole.num_distinct,
        sorted(whole.requests_through()),
    )


@pytest.mark.parametrize(("column", "wrong"), [("depths", 7), ("edges", b"b")])
def test_a_wrong_depth_and_a_lost_node_are_found(column, wrong):
    tree = PrefixTree()
    tree.insert(b"a")
    getattr(tree, column)[1] = wrong
    with pytest.raises(InvariantError):
        tree.check()
