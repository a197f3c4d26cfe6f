"""Which pages hold which prefix: one contract, and the indexes that keep it.

    RadixCache            radix    a tree whose edges are runs of tokens
    TokenTrie             trie     a tree with a node for each page
    HashBlockCache        hash     a dictionary from the hash of a block to the block
    SlidingWindowCache    window   a radix tree for models in which some layers forget
    TieredCache                    a radix tree, and host memory for what the device has no room for
    NoCache                        keeps nothing

The second column is what `--index` takes. `evict` of each index frees pages. Which leaf is the next victim is decided
in `eviction` for the radix trees, and in `token_trie` for the trie and the hashed blocks.
"""

from __future__ import annotations

from collections.abc import Callable

from minikv.errors import bounded
from minikv.prefix.base_index import NoCache
from minikv.prefix.contract import Handle, Insertion, Match, PrefixCache
from minikv.prefix.eviction import EvictionOrder, SmallestKeyFirst
from minikv.prefix.hash_blocks import HashBlockCache
from minikv.prefix.radix import RadixCache
from minikv.prefix.sliding_window import SlidingWindowCache
from minikv.prefix.tiered import TieredCache
from minikv.prefix.token_trie import TokenTrie

__all__ = [
    "INDEXES", "EvictionOrder", "Handle", "HashBlockCache", "Insertion", "Match", "NoCache", "PrefixCache",
    "RadixCache", "SlidingWindowCache", "SmallestKeyFirst", "TieredCache", "TokenTrie", "index_named",
]  # fmt: skip

INDEXES: dict[str, Callable[..., PrefixCache]] = {
    "radix": RadixCache,
    "trie": TokenTrie,
    "hash": HashBlockCache,
    "window": SlidingWindowCache,
}
BY_POLICY = ("radix", "window")  # trees that take a policy; the others have an order of their own


def index_named(
    name: str,
    page_size: int = 1,
    policy: str | Callable[[], EvictionOrder] | None = None,
    evict_by: str | None = None,
) -> PrefixCache:
    """An empty index of the design `name`, with pages of `page_size` tokens.

    `policy` and `evict_by` are those of `RadixCache`, and of the window index, which is a radix tree as well. The other
    designs have one order of eviction, so for them it is a `ValueError` to give either.

    >>> index_named("radix", page_size=16, evict_by="page")
    RadixCache(page_size=16, policy='lru', evict_by='page', evictable=0, protected=0)
    >>> index_named("btree")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: index is 'btree': expected one of radix, trie...
    """
    if name not in INDEXES:
        raise ValueError(f"index is {bounded(name)}: expected one of {', '.join(INDEXES)}")
    if name in BY_POLICY:
        return INDEXES[name](page_size, policy or "lru", evict_by or "node")
    for option, value in (("policy", policy), ("evict_by", evict_by)):
        if value is not None:
            raise ValueError(f"{option} is {bounded(value)}: index {name!r} has one order of eviction, its own")
    return INDEXES[name](page_size)
