"""The parts of made-up traffic: what prompts share, when they come, and that nothing grows without bound."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv.tokens import PackedTokens, common_prefix
from minikv.traffic import TraceError
from minikv.traffic.made_up import Author, MadeUpText, NextRequest, overlapping


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 70)), max_size=12), st.integers(1, 20))
def test_two_texts_share_the_whole_blocks_of_what_both_were_made_from(made, size):
    """Each text is made from one of those before it; the tokens are written out, each with a number of its own."""
    author, texts, written, numbers = Author(1, size), [MadeUpText()], [[]], itertools.count()
    for parent, tokens in made:
        parent %= len(texts)
        texts.append(author.more(texts[parent], tokens))
        written.append(written[parent] + list(itertools.islice(numbers, tokens)))
    for a, said in zip(texts, written):
        assert (a.length, len(a.ids) // 4) == (len(said), len(said) // size)
        for b, other in zip(texts, written):
            assert common_prefix(PackedTokens(a.ids), PackedTokens(b.ids)) == common_prefix(said, other) // size


@pytest.mark.parametrize(("draw", "asked", "typical"), [
    ("tokens", 100, np.median), ("wait", 3.0, np.mean), ("chance", 0.25, np.mean),
])  # fmt: skip
def test_numbers_are_around_what_was_asked_for(draw, asked, typical):
    author = Author(1, 16)
    found = [getattr(author, draw)(asked) for _ in range(4000)]
    assert typical(found) == pytest.approx(asked, rel=0.05)
    assert draw != "tokens" or min(found) >= 1


def test_the_first_are_popular():
    author = Author(1, 16)
    chosen = np.bincount([author.popular(4) for _ in range(8000)]) / 8000
    assert chosen == pytest.approx(np.array([12, 6, 4, 3]) / 25, abs=0.02)


def test_a_length_is_at_least_one_and_never_beyond_reason():
    author = Author(1, 16)
    assert author.tokens(0) == 1
    assert author.tokens(1e6, spread=0) == 10**6
    assert author.tokens(1e30) == 2**31


def test_with_no_time_between_beginnings_it_still_goes_on():
    author = Author(1, 16)
    found = itertools.islice(overlapping(author, lambda: iter([NextRequest(0, MadeUpText(1), 1)]), every=0), 50)
    assert [request.conversation for request in found] == list(range(50))


@pytest.mark.parametrize(("begun", "most"), [(0, 2**21), (2**32 - 5, 5)])
def test_a_prompt_that_is_too_long_and_ids_that_run_out_are_refused_before_it_is_made(begun, most):
    author = Author(1, 1)
    author._next = begun
    text = author.more(MadeUpText(), most)
    assert (text.length, text.ids[-4:]) == (most, np.uint32(begun + most - 1).tobytes())
    with pytest.raises(TraceError, match=f"a made-up prompt has {most + 1} tokens: expected fewer, or fewer requests"):
        author.more(text, 1)
