"""Which pages hold which prefix: one contract, and the indexes that keep it."""

from minikv.prefix.contract import Handle, Insertion, Match, PrefixCache
from minikv.prefix.eviction import EvictionOrder, SmallestKeyFirst
from minikv.prefix.indexes import INDEXES, index_named
from minikv.prefix.no_cache import NoCache
from minikv.prefix.radix import RadixCache

__all__ = [
    "INDEXES", "EvictionOrder", "Handle", "Insertion", "Match", "NoCache", "PrefixCache", "RadixCache",
    "SmallestKeyFirst", "index_named",
]  # fmt: skip
