"""Memory and numbers as people write and read them; one line for what is none."""

import pytest

from minikv_tools.plans.quantities import count, gib, hours, percent
from minikv_tools.plans.tiering import memory_size


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (gib(2**30), "1 GiB"), (gib(1.5 * 2**30), "1.5 GiB"), (gib(2**50), "1,048,576 GiB"), (gib(2**20), "0.001 GiB"),
        (gib(1000 * 2**30), "1,000 GiB"), (gib(10 * 2**30), "10 GiB"),
        (gib(1234.6 * 2**30), "1,235 GiB"),
        (count(0), "0"), (count(9999), "9,999"), (count(10_000), "10k"), (count(1e15), "1P"),
        (count(999_949), "999.9k"), (count(999_999), "1M"), (count(2e21), "2,000E"),
        (hours(0.99996), "60 min"), (hours(1), "1 h"), (hours(0.000001), "0.0036 s"),
        (percent(0), "0.0 %"), (percent(1), "100.0 %"),
    ],
)  # fmt: skip
def test_numbers_as_people_read_them(found, expected):
    assert found == expected


@pytest.mark.parametrize(
    ("text", "size"),
    [("1B", 1), ("80GiB", 80 * 2**30), ("80 GiB", 80 * 2**30), ("1.5TB", 15 * 10**11), ("500MiB", 500 * 2**20),
     ("2kB", 2000), ("2KiB", 2048), (" 1PiB ", 2**50), ("1099511627776B", 2**40)],
)  # fmt: skip
def test_units_count_by_1024_with_an_i_and_by_1000_without(text, size):
    assert memory_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "80", "GiB", "-1GiB", "0B", "1e3GiB", "80 gib", "9" * 12 + "PiB", "8" * 99 + "B", "٣GiB"]
)
def test_any_other_memory_is_refused_in_one_bounded_line(text):
    with pytest.raises(ValueError, match="expected a number and its unit") as error:
        memory_size(text)
    assert len(str(error.value)) < 200
