"""Capacities as people write them: 20000, 20k, 1.5M, 1e6, unlimited."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from minikv.errors import bounded

_RULE = "expected a whole number of at least 1, such as 20000, 20k (k is 1,000), 1.5M or 1e6"
_NUMBER = re.compile(r"(\d{1,20}(?:\.\d{0,20})?(?:[eE]\+?\d{1,2})?)([kM]?)", re.ASCII)
_TIMES = {"": 1, "k": 1000, "M": 1000**2}
UNLIMITED = "unlimited"


def read_capacity(name: str, value: Any) -> int | None:
    """A capacity in [1, 2**63), from a number or a text; `None` for the text "unlimited".

    `ValueError` begins with `name` and says what was expected.

    >>> [read_capacity("capacity", value) for value in (20000, "20k", "1.5M", 1e6, "unlimited")]
    [20000, 20000, 1500000, 1000000, None]
    >>> read_capacity("capacity", "1.5")
    Traceback (most recent call last):
    ValueError: capacity is '1.5': expected a whole number of at least 1, such as 20000, 20k (k is 1,000), 1.5M or 1e6
    """
    if value == UNLIMITED:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 2**63
    found = _NUMBER.fullmatch(value if isinstance(value, str) else str(value) if is_number else "")
    number = Decimal(found[1]) * _TIMES[found[2]] if found else Decimal(0)
    if not 1 <= number < 2**63 or number != int(number):
        raise ValueError(f"{name} is {bounded(value)}: {_RULE}")
    return int(number)


def capacity_text(capacity: int | None) -> str:
    """A capacity as a person reads it.

    >>> capacity_text(20000), capacity_text(None)
    ('20,000', 'unlimited')
    """
    return UNLIMITED if capacity is None else f"{capacity:,}"
