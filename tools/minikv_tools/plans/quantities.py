"""Sizes, shares, counts and times as a person reads them."""

from __future__ import annotations

GIB = 2**30


def hours(number: float) -> str:
    """A time in hours as text, in hours, minutes or seconds.

    >>> hours(141.234), hours(0.072977), hours(0.00019), hours(0)
    ('141.2 h', '4.4 min', '0.684 s', '0 s')
    """
    for unit, size in (("h", 1), ("min", 60)):
        if number * size >= 1:
            return f"{number * size:,.1f}".removesuffix(".0") + f" {unit}"
    return f"{number * 3600:.3g} s"


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

    >>> count(9_999), count(655_360), count(3.2e9), count(400e12)
    ('9,999', '655.4k', '3.2G', '400T')
    """
    if number < 10_000:
        return f"{number:,.0f}"
    letters = "kMGTPE"
    power = next((power for power in range(1, len(letters)) if number < 999.95 * 1000**power), len(letters))
    return f"{number / 1000**power:,.1f}".removesuffix(".0") + letters[power - 1]
