"""Which pages hold which prefix: one contract, and the indexes that keep it."""

from minikv.prefix.contract import Handle, Insertion, Match, PrefixCache
from minikv.prefix.eviction import EvictionOrder, SmallestKeyFirst
from minikv.prefix.hash_blocks import HashBlockCache
from minikv.prefix.indexes import INDEXES, index_named
from minikv.prefix.no_cache import NoCache
from minikv.prefix.radix import RadixCache
from minikv.prefix.row_cache import RowCache, RowSequence
from minikv.prefix.sliding_window import SlidingWindowCache
from minikv.prefix.token_trie import TokenTrie, TrieNode

__all__ = [
    "INDEXES", "EvictionOrder", "Handle", "HashBlockCache", "Insertion", "Match", "NoCache", "PrefixCache",
    "RadixCache", "RowCache", "RowSequence", "SlidingWindowCache", "SmallestKeyFirst", "TokenTrie", "TrieNode",
    "index_named",
]  # fmt: skip
