"""What a sweep tries by day and by night: `HYPOTHESIS_PROFILE=nightly` runs all of it.

A sweep is one law over many cases. By day it takes so many of them that every planted mistake is still found; the test
or the case that waits for the night is marked `nightly`, and a sweep within one test asks `NIGHTLY` how far to go.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


def by_day(cases: Iterable[Case], taken: Callable[[Case], bool]) -> list[Any]:
    """`cases` for `parametrize`: those that are not `taken` by day wait for the night."""
    found = [(case, case if isinstance(case, tuple) else (case,)) for case in cases]
    return [case if taken(case) else pytest.param(*values, marks=pytest.mark.nightly) for case, values in found]
