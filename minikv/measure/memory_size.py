"""Memory as people write it: 80GiB, 1.5 TB, 500MiB."""

from __future__ import annotations

import re
from decimal import Decimal

from minikv.errors import bounded

_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([KMGTP]?)(i?)B", re.ASCII)
_POWERS = {letter: power for power, letter in enumerate(("", "K", "M", "G", "T", "P"))}


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
