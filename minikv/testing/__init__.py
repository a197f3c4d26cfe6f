"""The tools that check any engine from outside: the ledgers, the canary and its model, the explorer of interleavings.

Nothing here draws or needs a widget, and nothing below knows that it is watched. `assert_prefix_stable` checks what
engines are sent, the prompts of an application: it is imported when it is asked for.
"""

from __future__ import annotations

from typing import Any

from minikv.testing.adapter import Adapter
from minikv.testing.canary import Canary, CanaryError, CanaryModel, WindowCanaryModel
from minikv.testing.interleave import explore
from minikv.testing.ledger import Ledger, LedgerError

__all__ = [
    "Adapter",
    "Canary",
    "CanaryError",
    "CanaryModel",
    "Ledger",
    "LedgerError",
    "WindowCanaryModel",
    "assert_prefix_stable",
    "explore",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "assert_prefix_stable":
        from minikv.traffic.why.stable import assert_prefix_stable

        return assert_prefix_stable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
