"""Numbers as people read them."""

from __future__ import annotations

import pytest

from minikv.traffic.plan.quantities import count, gib, percent


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (gib(2**30), "1 GiB"), (gib(1.5 * 2**30), "1.5 GiB"), (gib(2**50), "1,048,576 GiB"), (gib(2**20), "0.001 GiB"),
        (gib(1000 * 2**30), "1,000 GiB"), (gib(10 * 2**30), "10 GiB"),
        (count(0), "0"), (count(9999), "9,999"), (count(10_000), "10.0k"), (count(1e15), "1.0P"),
        (count(999_949), "999.9k"), (count(999_999), "1.0M"), (count(2e21), "2,000.0E"),
        (percent(0), "0.0 %"), (percent(1), "100.0 %"),
    ],
)  # fmt: skip
def test_numbers_as_people_read_them(found, expected):
    assert found == expected
