"""The tools that check any engine from outside: the ledgers, the canary and its model, the explorer of interleavings.

Nothing here draws or needs a widget, and nothing below knows that it is watched. `assert_prefix_stable` checks what
engines are sent: the prompts of an application.
"""

from minikv.testing.adapter import Adapter
from minikv.testing.canary import Canary, CanaryError, CanaryModel, WindowCanaryModel
from minikv.testing.interleave import explore
from minikv.testing.ledger import Ledger, LedgerError
from minikv.traffic.why.stable import assert_prefix_stable

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
