"""Amounts as people write and read them: capacities (20k, 1e6, unlimited), memory (80GiB), shares and counts."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from minikv.errors import bounded

GIB = 2**30
_RULE = "expected a whole number of at least 1, such as 20000, 20k (k is 1,000), 1.5M or 1e6"
_NUMBER = re.compile(r"(\d{1,20}(?:\.\d{0,20})?(?:[eE]\+?\d{1,2})?)([kM]?)", re.ASCII)
_TIMES = {"": 1, "k": 1000, "M": 1000**2}
UNLIMITED = "unlimited"
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([KMGTP]?)(i?)B", re.ASCII)
_POWERS = {letter: power for power, letter in enumerate(("", "K", "M", "G", "T", "P"))}


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


def read_memory(name: str, text: str) -> int:
    """A number of bytes, of at least 1; KiB, MiB, GiB and TiB count by 1024, kB, MB, GB and TB by 1000.

    `ValueError` begins with `name` and says what was expected.

    >>> read_memory("--memory", "80GiB") == 80 * 2**30, read_memory("--memory", "1.5 TB")
    (True, 1500000000000)
    >>> read_memory("--memory", "80")
    Traceback (most recent call last):
    ValueError: --memory is '80': expected a number and its unit, such as 80GiB, 1.5TB or 500MiB
    """
    found = _SIZE.fullmatch(text.strip().replace("k", "K", 1))
    size = int(Decimal(found[1]) * (1024 if found[3] else 1000) ** _POWERS[found[2]]) if found else 0
    if not 1 <= size < 2**63:
        raise ValueError(f"{name} is {bounded(text)}: expected a number and its unit, such as 80GiB, 1.5TB or 500MiB")
    return size


def percent(share: float) -> str:
    """A share as a person reads it.

    >>> percent(0.36643)
    '36.6 %'
    """
    return f"{100 * share:.1f} %"


def gib(size: float) -> str:
    """Bytes in GiB, with as many digits as matter.

    >>> gib(80 * 2**30), gib(10**9), gib(5 * 2**42)
    ('80 GiB', '0.931 GiB', '20,480 GiB')
    """
    number = size / GIB
    digits = 0 if number >= 1000 else 1 if number >= 1 else 3
    return f"{number:,.{digits}f}".removesuffix(".0") + " GiB"


def count(number: float) -> str:
    """A number of tokens or FLOPs, short where it is large.

    >>> count(9_999), count(655_360), count(3.2e9), count(2.5e18)
    ('9,999', '655.4k', '3.2G', '2.5E')
    """
    if number < 10_000:
        return f"{number:,.0f}"
    letters = "kMGTPE"
    power = next((power for power in range(1, len(letters)) if number < 999.95 * 1000**power), len(letters))
    return f"{number / 1000**power:,.1f}{letters[power - 1]}"
