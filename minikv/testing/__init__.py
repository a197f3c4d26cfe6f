"""The tools that check any engine from outside: the ledgers, the canary and its model, the explorer of interleavings.

Nothing here draws or needs a widget, and nothing below knows that it is watched.
"""

from minikv.testing.canary import Canary, CanaryError, CanaryModel, WindowCanaryModel
from minikv.testing.interleave import Exploration, Interleaving, explore
from minikv.testing.ledger import Ledger, LedgerError

__all__ = [
    "Canary",
    "CanaryError",
    "CanaryModel",
    "Exploration",
    "Interleaving",
    "Ledger",
    "LedgerError",
    "WindowCanaryModel",
    "explore",
]  # fmt: skip
