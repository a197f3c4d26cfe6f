"""The tools that check any engine from outside: the ledgers, the canary and its model, the explorer of interleavings.

Nothing here draws or needs a widget, and nothing below knows that it is watched.
"""

from __future__ import annotations

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
    "explore",
]  # fmt: skip
