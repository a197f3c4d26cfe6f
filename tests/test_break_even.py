"""Load or compute: the smallest number of tokens that a link delivers sooner than the processor computes them."""

import math
from fractions import Fraction

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import said

from minikv import BreakEven, break_even_tokens
from minikv.engine import engine_world

SMALL, LOAD_OR_COMPUTE = st.integers(1, 50), engine_world()["load_or_compute"]


def faster_to_load(tokens, size, link, dense, speed, attention, latency):
    """The definition, in exact numbers."""
    load = latency + Fraction(tokens * size, link)
    return load < Fraction(tokens * dense + tokens**2 * attention, speed)


@given(SMALL, SMALL, SMALL, SMALL, SMALL, st.integers(0, 60), st.integers(0, 3), st.integers(0, 9))
@example(1, 1, 1, 1, 1, 0, 0, 0)  # a tie
@example(1, 4, 1, 4, 1, 0, 0, 0)  # both take as long, whatever the number of tokens
@example(2, 2, 1, 1, 1, 0, 1, 0)  # the attention of one token makes up for the second byte: from 2 tokens on
def test_what_is_worth_loading_follows_from_the_definition(
    tokens, size, link, dense, speed, before, attention, latency
):
    """And is what piece 6.4 says, of a power of two a second, where floats are exact."""
    options = {"attention_flops": attention, "latency": latency}
    flops = dense + 2 * before * attention
    even, first = BreakEven(size, link, dense, speed, **options), break_even_tokens(size, link, flops, speed, **options)
    assert even.tokens(before) == first

    def definition(number):
        return faster_to_load(number, size, link, flops, speed, attention, latency)

    # From 2 (s f / B) + t F + 1 tokens on loading wins, if it ever does.
    assert definition(first or 2 * size * speed + latency * speed * link + 2) == bool(first)
    assert first in (None, 1) or not definition(first - 1)
    assert even.worth_loading(tokens, before) == definition(tokens)
    assert not even.worth_loading(0, before)
    link, speed = 2 ** (link % 4), 2 ** (speed % 4)
    answer = LOAD_OR_COMPUTE(tokens, size, link, flops, attention, speed, latency)
    assert (answer == "load") == BreakEven(size, link, dense, speed, **options).worth_loading(tokens, before)


def test_numbers_of_any_size_and_library_are_taken():
    """A float can hold neither 3 x 10**400 nor the difference between 10**17 and the number after it."""
    assert break_even_tokens(10, 2.001, 30, 6) == 1
    assert break_even_tokens(0, 1, 1, 1) == 1  # nothing to load
    assert break_even_tokens(1, 1, 0, 1) is None  # nothing to compute
    assert break_even_tokens(10**400, 1, 3 * 10**400, 1) == 1
    assert break_even_tokens(10**17, 1, 10**17, 1) is None
    assert break_even_tokens(10**17, 1, 10**17 + 1, 1) == 1
    assert break_even_tokens(numpy.int64(10), numpy.float32(2), Fraction(30), 6, attention_flops=1, latency=1) == 3
    llama = 131_072, 3 * 10**9, 16_060_000_000, 400 * 10**12, 262_144  # whose products are beyond an int64
    *numbers, attention = map(numpy.int64, llama)
    assert break_even_tokens(*numbers, attention_flops=attention) == 5403


RIGHT = {"token_bytes": 1, "bytes_per_second": 1, "flops_per_token": 1, "flops_per_second": 1}


@pytest.mark.parametrize("name", [*RIGHT, "attention_flops", "latency"])
def test_a_number_that_makes_no_sense_is_named(name):
    for wrong in (-1, math.nan, math.inf):
        words = f"ValueError: {name} is {wrong}: expected a finite number, 0 or more"
        assert said(break_even_tokens, **{**RIGHT, name: wrong}) == words
    for wrong in ("1", None, True, 1j):
        assert said(break_even_tokens, **{**RIGHT, name: wrong}).startswith(f"TypeError: {name} is ")
    words = f"ValueError: {name} is 0: expected a rate above 0" if name.endswith("second") else ""
    assert said(break_even_tokens, **{**RIGHT, name: 0}) == words
    for count in "tokens", "before":
        counts = {"tokens": 1, "before": 0}
        worth = BreakEven(**RIGHT).worth_loading
        assert said(worth, **{**counts, count: -1}) == f"ValueError: {count} is -1: expected 0 or more tokens"
        assert said(worth, **{**counts, count: 1.5}).startswith(f"TypeError: {count} is 1.5")
