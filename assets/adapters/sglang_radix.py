"""SGLang's RadixCache behind `minikv.testing.Adapter`: minikv verify assets/adapters/sglang_radix.py

Run by hand, with SGLang installed; README.md beside this file says with which version, when, and what was found.
"""

from array import array

import torch
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey

from minikv.testing import Adapter


class Freed:
    """An allocator that keeps the slots that the cache gives back."""

    device = "cpu"

    def __init__(self):
        self.slots = []

    def free_segment(self, slots, start_pos):
        """Called by `evict` once for each node that goes."""
        self.slots += slots.tolist()


class SGLangRadixCache(Adapter):
    """A slot per token in the tree, a page per `page_size` of them in the contract; `extra_key` is the namespace."""

    def open(self):
        self.freed = Freed()
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
