"""Which slots hold which prefix: one contract, and the indexes that keep it."""

from minikv.prefix.contract import Handle, Insertion, Match, PrefixCache
from minikv.prefix.no_cache import NoCache
from minikv.prefix.radix import RadixCache

__all__ = ["Handle", "Insertion", "Match", "NoCache", "PrefixCache", "RadixCache"]
