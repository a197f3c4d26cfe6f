"""Sampling: what is picked of logits, and with which parameters."""

import re
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from refusals import said

from minikv import Sampler, SamplingParams
from minikv.serving.model import as_array


@pytest.mark.parametrize(
    ("temperature", "logits", "picked"),
    [
        (0, [1.0, 5.0, 5.0, 2.0], {1}),  # the lowest of equals
        (0.5, np.array([0.0, 2000.0, 2000.0], np.float32), {1, 2}),  # large ones do not overflow
        (5.0, [-np.inf, 0.0, -np.inf, 0.0], {1, 3}),  # a masked one is never picked
        (1e-310, [0.0, 3.0, 2.9], {1}),
        *[(heat, np.array([1, 5, 2], kind), {1}) for kind in ("i8", "i4", "u1", "f2") for heat in (0, 0.01)],
    ],
)
def test_what_is_picked(temperature, logits, picked, recwarn):
    sampler = Sampler(SamplingParams(temperature=temperature, seed=2))
    assert {sampler(np.array(logits)) for _ in range(100)} == picked
    assert not recwarn.list


def test_sampled_shares_are_those_of_the_softmax():
    sampler, logits = Sampler(SamplingParams(temperature=0.5, seed=1)), np.log(np.array([0.2, 0.3, 0.5]))
    counts = np.bincount([sampler(logits) for _ in range(4000)], minlength=3) / 4000
    expected = np.array([0.04, 0.09, 0.25]) / 0.38
    assert np.abs(counts - expected).max() < 0.03


def test_a_masked_token_is_not_sampled_even_by_the_smallest_number():
    sampler = Sampler(SamplingParams(temperature=1.0))
    sampler._generator = mock.Mock(random=lambda: 0.0)
    assert sampler(np.array([-np.inf, 0.0])) == 1


@pytest.mark.parametrize("half", [np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
def test_a_temperature_and_a_seed_are_numbers_of_any_library(half):
    assert SamplingParams(temperature=half) == SamplingParams(temperature=0.5)
    assert type(SamplingParams(seed=np.int64(3)).seed) is int


@pytest.mark.parametrize("temperature", [10**400, np.bool_(True), -1, float("nan"), "hot", True])
def test_a_temperature_is_a_number_from_0(temperature):
    is_number = isinstance(temperature, (int, float)) and temperature is not True
    with pytest.raises(ValueError if is_number else TypeError, match=r"temperature is .*: 0 picks the likeliest token"):
        SamplingParams(temperature=temperature)


def test_logits_may_be_torch():
    torch = pytest.importorskip("torch")
    assert as_array(torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16)).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("bad", [["a"], [[1.0]], [True], [None]])
def test_logits_are_a_row_of_numbers(bad):
    assert re.match("TypeError: logits are .*: expected a row of numbers", said(Sampler(1), np.array(bad)))
