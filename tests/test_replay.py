"""Replaying traces: what is refused. What is found, test_reuse says, whose one pass finds the same.

Its pool is one of those of test_pools.
"""

import pytest
from traffic import trace

from minikv import RadixCache
from minikv.traffic import replay
from minikv.traffic.replay import read_capacity


def test_an_empty_trace_has_a_hit_rate_of_zero():
    assert replay([], RadixCache()).hit_rate == 0.0


def test_a_capacity_holds_a_page():
    with pytest.raises(ValueError, match="capacity is 3: a cache holds at least 1 page of 4"):
        replay(trace([1]), RadixCache(page_size=4), capacity=3)
    assert replay(trace([1, 2, 3]), RadixCache(page_size=2), capacity=3).uncached_requests == 1


def test_a_replay_starts_with_an_empty_cache():
    cache = RadixCache()
    cache.insert([1], [0])
    with pytest.raises(ValueError, match="holds 1 tokens already"):
        replay(trace([1]), cache)


READ = {
    "1": 1, "20000": 20000, "20k": 20_000, "1.5k": 1500, "0.001k": 1, "2M": 2_000_000, "1E+3": 1000, "1.25e2": 125,
    "5.": 5, 7: 7, 1e6: 10**6, 2**63 - 1: 2**63 - 1, "unlimited": None,
}  # fmt: skip
REFUSED = [
    "", "0", "-5", "1.5", "10K", "10 k", "k", "1e-3", "0x10", "1_000", "nan", "٣", "1e99", "1e999999999", "1" * 5000,
    "9" * 19, 0, -1, 1.5, 2**63, float("nan"), float("inf"), True, None, [1], "Unlimited", "1,000", 10**5000,
]  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_a_capacity_is_read(text):
    assert read_capacity("capacity", text) == READ[text]


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_any_other_capacity_is_refused_in_one_bounded_line(text):
    with pytest.raises(ValueError, match=r"^capacities\[1\] is .*: expected a whole number of at least 1") as caught:
        read_capacity("capacities[1]", text)
    assert len(str(caught.value)) < 200
