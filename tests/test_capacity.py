"""Capacities as they are typed: what each spelling means, and one line for every other."""

from __future__ import annotations

import pytest

from minikv.traffic.sweep.capacity import read_capacity


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("20000", 20000), ("20k", 20_000), ("1.5k", 1500), ("0.001k", 1), ("2M", 2_000_000), ("1e6", 10**6),
     ("1E+3", 1000), ("1.25e2", 125), ("5.", 5), (7, 7), (1e6, 10**6), (2**63 - 1, 2**63 - 1), ("unlimited", None)],
)  # fmt: skip
def test_a_capacity_is_read(text, number):
    assert read_capacity("capacity", text) == number


@pytest.mark.parametrize(
    "text",
    ["", "0", "-5", "1.5", "10K", "10 k", "k", "1e-3", "0x10", "1_000", "nan", "inf", "٣", "1e99",
     "1e999999999", "1" * 5000, "9" * 19,
     0, -1, 1.5, 2**63, float("nan"), float("inf"), True, None, [1], "Unlimited", "1,000", 10**5000],
    ids=lambda text: repr(text)[:12] if not isinstance(text, int) or text < 2**64 else "huge",
)  # fmt: skip
def test_anything_else_is_refused_in_one_bounded_line(text):
    with pytest.raises(ValueError, match=r"^capacities\[1\] is .*: expected a whole number of at least 1") as caught:
        read_capacity("capacities[1]", text)
    assert len(str(caught.value)) < 200
