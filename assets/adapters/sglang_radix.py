"""SGLang's radix trees behind `minikv.testing.Adapter`: minikv verify assets/adapters/sglang_radix.py

Not run by the tests: it needs SGLang. Run by hand on 2026-11-30 with SGLang 0.5.23's wheel, on a CPU, with stand-ins
for what the trees import and don't use. Servers use `UnifiedRadixCache`, with its core in Rust; the same came out with
the core in Python (SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND=python) and with `RadixCache`: nine rules hold, and rule 8
is broken. A match that ends inside a node makes the rest of that node as recent as itself:

    cache.insert([1, 2, 3, 4], [0, 1, 2, 3])
    cache.insert([7, 8], [6, 7])
    cache.match_prefix([1, 2])
    cache.evict(2)
    # evicts page 6, although page 3 was used less recently

The Python core even says that a split does not access the suffix, a few lines before it renews its time. And a lock
that is given back is no use of what it protected. A request that ends inserts first, so this shows only without that:

    a = cache.insert([1], [1])
    cache.lock(a.handle)
    cache.insert([2], [2])
    cache.insert([3], [3])
    cache.unlock(a.handle)
    cache.evict(1)
    # evicts page 1, although page 2 was used less recently
"""

from array import array

import torch
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

from minikv.testing import Adapter


class Freed:
    """An allocator that keeps the slots that a tree gives back."""

    device = "cpu"

    def __init__(self, page_size):
        self.page_size, self.slots = page_size, []

    def free_segment(self, slots, start_pos=0):
        """Called once for each node that goes."""
        self.slots += slots.tolist()

    free_full_segment = free = free_segment


class SGLangRadixCache(Adapter):
    """A slot per token in the tree, a page per `page_size` of them in the contract; `extra_key` is the namespace."""

    def open(self):
        self.freed = Freed(self.page_size)
        self.cache = RadixCache.create_simulated(mock_allocator=self.freed, page_size=self.page_size)

    def key(self, tokens, namespace):
        return RadixKey(array("q", tokens), extra_key=None if namespace is None else repr(namespace))

    def find(self, tokens, namespace):
        match = self.cache.match_prefix(MatchPrefixParams(self.key(tokens, namespace)))
        slots = self.cache.path_device_indices(match.last_device_node)
        return (slots[:: self.page_size] // self.page_size).tolist(), match.last_device_node

    def store(self, tokens, pages, namespace):
        slots = torch.tensor([page * self.page_size + i for page in pages for i in range(self.page_size)])
        done = self.cache.insert(InsertParams(self.key(tokens, namespace), slots.long()))
        return done.prefix_len, done.last_device_node

    def hold(self, place):
        self.cache.inc_lock_ref(place)

    def release(self, place):
        self.cache.dec_lock_ref(place)

    def free(self, num_tokens):
        self.freed.slots.clear()
        self.cache.evict(EvictParams(num_tokens))
        return [slot // self.page_size for slot in self.freed.slots[:: self.page_size]]

    def sizes(self):
        return self.cache.evictable_size(), self.cache.protected_size()


class SGLangUnifiedRadixCache(SGLangRadixCache):
    """The tree that a server uses, here with full attention only; a lock gives a receipt, which unlocks it."""

    def open(self):
        self.freed, self.receipts = Freed(self.page_size), {}
        self.cache = UnifiedRadixCache(
            CacheInitParams(
                disable=False, req_to_token_pool=None, token_to_kv_pool_allocator=self.freed,
                page_size=self.page_size, tree_components=(ComponentType.FULL,),
            )
        )  # fmt: skip

    def hold(self, place):
        self.receipts.setdefault(place, []).append(self.cache.lock(place))

    def release(self, place):
        self.cache.unlock(self.receipts[place].pop())
