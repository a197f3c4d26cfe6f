"""Memory as people write it."""

from __future__ import annotations

import pytest

from minikv.cli.plan_options import read_memory


@pytest.mark.parametrize(
    ("text", "size"),
    [("1B", 1), ("80GiB", 80 * 2**30), ("80 GiB", 80 * 2**30), ("1.5TB", 15 * 10**11), ("500MiB", 500 * 2**20),
     ("2kB", 2000), ("2KiB", 2048), (" 1PiB ", 2**50)],
)  # fmt: skip
def test_units_count_by_1024_with_an_i_and_by_1000_without(text, size):
    assert read_memory("--memory", text) == size


@pytest.mark.parametrize(
    "text", ["", "80", "GiB", "-1GiB", "0B", "1e3GiB", "80 gib", "9" * 12 + "PiB", "8" * 99 + "B", "٣GiB"]
)
def test_anything_else_is_refused_in_one_bounded_line(text):
    with pytest.raises(ValueError, match="expected a number and its unit") as error:
        read_memory("--memory", text)
    assert len(str(error.value)) < 200
