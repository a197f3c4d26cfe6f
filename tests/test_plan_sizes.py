"""The sizes of a curve, and where its knee is."""

from __future__ import annotations

import pytest

from minikv.traffic.plan.plan_sizes import curve_sizes, knee


@pytest.mark.parametrize(("size", "largest"), [(1, 1), (10240, 3_032_595), (10, 9000), (5000, 12), (0.3, 7), (7.5, 8)])
def test_sizes_rise_from_1_or_more_and_have_the_given_one_and_the_end(size, largest):
    sizes = curve_sizes(size, largest)
    assert sizes == sorted(set(sizes))
    assert sizes[0] >= 1
    assert {largest, max(1, int(size))} <= set(sizes)
    assert all(blocks <= max(largest, size) for blocks in sizes)


def test_sizes_double_in_two_steps():
    sizes = curve_sizes(1000, 100_000)
    assert sizes[sizes.index(1000) :][:5] == [1000, 1414, 2000, 2828, 4000]
    assert sizes[0] == 125 * 1.0


def test_the_knee_of_a_straight_rise_that_ends_is_where_it_ends():
    """It is between two points, at 192: sizes between them are tried, every 24th here."""
    tried = []

    def hits_at(size):
        tried.append(size)
        return min(96, size // 2)

    sizes = [64, 128, 256, 512, 1024]
    assert knee(sizes, [hits_at(size) for size in sizes], hits_at) == 128 + 3 * 24
    assert 0 < len(tried) <= 5 + 15


def test_a_curve_without_a_hit_has_its_knee_at_the_end():
    assert knee([1, 2], [0, 0], lambda size: 0) == 2


def test_where_a_curve_is_straight_the_smallest_size_is_the_knee():
    assert knee([10, 20, 30], [1, 2, 3], lambda size: size // 10) == 10
