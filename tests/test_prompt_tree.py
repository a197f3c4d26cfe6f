"""The tree of prompts against a naive search, and how it is drawn."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv.errors import InvariantError
from minikv.traffic.why.prompt_tree import PromptTree
from minikv.traffic.why.tree_html import tree_html

TEXTS = st.lists(st.text("ab", max_size=12).map(str.encode), max_size=20)


@given(TEXTS)
def test_a_prompt_shares_what_it_shares_with_the_best_earlier_one(texts):
    tree = PromptTree()
    for number, text in enumerate(texts):
        shared, latest = tree.insert(text, number)
        by_hand = [len(os.path.commonprefix([text, other])) for other in texts[:number]]  # noqa: RUF071
        assert shared == max(by_hand, default=0)
        assert latest == max((n for n, size in enumerate(by_hand) if size == shared), default=None) or not shared
        tree.check()
    assert tree.root.count == len(texts)


def test_a_wrong_count_is_found():
    tree = PromptTree()
    tree.insert(b"a", 0)
    tree.root.children[ord("a")].count = 7
    with pytest.raises(InvariantError):
        tree.check()


def grown(*texts):
    tree = PromptTree()
    for number, text in enumerate(texts):
        tree.insert(text, number)
    return tree


def test_the_drawing_shows_what_most_prompts_begin_with():
    page = tree_html(grown(b"Be brief. A", b"Be brief. B", b"Be kind. C"), depth=6)
    assert page.index("3 prompts, 3 bytes") < page.index("2 prompts, 7 bytes") < page.index("+2 branches")
    assert "+1 more branch<" in page


def test_the_drawing_ends_at_its_depth():
    texts = [b"a", b"ab", b"abc", b"abcd", b"abcde"]
    assert tree_html(grown(*texts, *texts), depth=2).count("<code>") == 2


def test_the_drawing_of_a_wide_tree_stays_small():
    texts = [f"{first:03d} and {second}".encode() for first in range(99) for second in range(9)]
    assert tree_html(grown(*texts), depth=6).count("<code>") <= 80


def test_a_long_text_shows_both_ends_and_no_markup_of_its_own():
    long = b"<script>" + b"x" * 9000 + b"the end"
    page = tree_html(grown(long, long), depth=2)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "the end" in page
    assert len(page) < 1000


def test_bytes_that_are_no_text_are_drawn():
    assert "\N{REPLACEMENT CHARACTER}" in tree_html(grown("é".encode()[:1] * 2, "é".encode()[:1] * 2), depth=2)
