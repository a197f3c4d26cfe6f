"""What a sweep tries by day and by night: `HYPOTHESIS_PROFILE=nightly` runs all of it.

A sweep is one law over many cases. By day it takes so many of them that every planted mistake is still found; the test
or the case that waits for the night is marked `nightly`, and a sweep within one test asks `NIGHTLY` how far to go.
"""

import os
from typing import TypeVar

import pytest

Case = TypeVar("Case")
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


def by_day(cases, taken):
    """`cases` for `parametrize`: those that are not `taken` by day wait for the night."""
    found = [(case, case if isinstance(case, tuple) else (case,)) for case in cases]
    return [case if taken(case) else pytest.param(*values, marks=pytest.mark.nightly) for case, values in found]
