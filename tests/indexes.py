"""Every index that claims the contract, with the settings in which it is tested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from naive import NaiveCache

from minikv import RadixCache

FACTORIES: dict[str, Callable[..., Any]] = {
    "radix, nodes": lambda page_size=1: RadixCache(page_size),
    "radix, pages": lambda page_size=1: RadixCache(page_size, evict_by="page"),
    "radix, lfu": lambda page_size=1: RadixCache(page_size, policy="lfu"),
    "radix, slru by pages": lambda page_size=1: RadixCache(page_size, policy="slru", evict_by="page"),
    "naive, nodes": lambda page_size=1: NaiveCache(page_size),
    "naive, pages": lambda page_size=1: NaiveCache(page_size, evict_by="page"),
}

every_index = pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES.keys())
every_shipped_index = pytest.mark.parametrize(
    "make",
    [make for name, make in FACTORIES.items() if "naive" not in name],
    ids=[n for n in FACTORIES if "naive" not in n],
)
