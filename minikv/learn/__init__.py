"""Exercises checked by counterexample, the record of what is solved, and two that look over a cache's shoulder."""

from minikv.learn.canary import Canary, CanaryError
from minikv.learn.canary_model import CanaryModel
from minikv.learn.exercises import check, progress
from minikv.learn.interleave import Exploration, Order, explore, follow
from minikv.learn.ledger import Ledger, LedgerError

__all__ = [
    "Canary", "CanaryError", "CanaryModel", "Exploration", "Ledger", "LedgerError", "Order", "check", "explore",
    "follow", "progress",
]  # fmt: skip
