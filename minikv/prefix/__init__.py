"""Which pages hold which prefix: one contract, and the indexes that keep it.

    RadixCache            radix    a tree whose edges are runs of tokens
    TokenTrie             trie     a tree with a node for each page; `RowCache` puts rows of slots on such a tree
    HashBlockCache        hash     a dictionary from the hash of a block to the block
    SlidingWindowCache    window   a radix tree for models in which some layers forget
    NoCache                        keeps nothing

The second column is what `--index` takes. `evict` of each index frees pages. Which leaf is the next victim is decided
in `eviction` for the radix trees, and in `page_cache` for the trie and the hashed blocks.
"""

from minikv.prefix.base_index import NoCache
from minikv.prefix.contract import Handle, Insertion, Match, PrefixCache
from minikv.prefix.eviction import EvictionOrder, SmallestKeyFirst
from minikv.prefix.hash_blocks import HashBlockCache
from minikv.prefix.indexes import INDEXES, index_named
from minikv.prefix.radix import RadixCache
from minikv.prefix.row_cache import RowCache, RowSequence
from minikv.prefix.sliding_window import SlidingWindowCache
from minikv.prefix.token_trie import TokenTrie, TrieNode

__all__ = [
    "INDEXES", "EvictionOrder", "Handle", "HashBlockCache", "Insertion", "Match", "NoCache", "PrefixCache",
    "RadixCache", "RowCache", "RowSequence", "SlidingWindowCache", "SmallestKeyFirst", "TokenTrie", "TrieNode",
    "index_named",
]  # fmt: skip
