"""mini-sglang's RadixPrefixCache behind `minikv.testing.Adapter`: minikv verify assets/adapters/minisgl_radix.py

Not run by the tests: it needs mini-sglang. Run by hand on 2026-11-30 with commit 20fcd7f, on a CPU, with a comparison
of keys in Python for the one in C++. It has no namespaces, and its `evict` asserts that there is as much to evict as is
wanted. Eight rules hold, and rule 8 is broken. The half of a node that a match found keeps the old time:

    cache.insert([1, 2, 3, 4], [0, 1, 2, 3])
    cache.insert([7, 8], [6, 7])
    cache.match_prefix([1, 2])
    cache.evict(2)
    cache.evict(1)
    # evicts page 0, although page 7 was used less recently

And a lock that is given back is no use of what it protected. A request that ends inserts first, so this shows only
without that:

    a = cache.insert([1], [1])
    cache.lock(a.handle)
    cache.insert([2], [2])
    cache.insert([3], [3])
    cache.unlock(a.handle)
    cache.evict(1)
    # evicts page 1, although page 2 was used less recently
"""

import torch
from minisgl.core import Context, set_global_ctx
from minisgl.kvcache.radix_cache import RadixPrefixCache

from minikv.testing import Adapter

CONTEXT = Context(page_size=1)
set_global_ctx(CONTEXT)


class MiniSGLRadixCache(Adapter):
    """A slot per token in the tree, a page per `page_size` of them in the contract."""

    claims = Adapter.claims - {10}

    def open(self):
        CONTEXT.page_size = self.page_size
        self.cache = RadixPrefixCache(torch.device("cpu"))

    def find(self, tokens, namespace):
        handle = self.cache.match_prefix(torch.tensor(tokens, dtype=torch.int32)).cuda_handle
        return self.pages(handle.get_matched_indices()) if handle.cached_len else [], handle

    def store(self, tokens, pages, namespace):
        slots = torch.tensor([page * self.page_size + i for page in pages for i in range(self.page_size)])
        done = self.cache.insert_prefix(torch.tensor(tokens, dtype=torch.int32), slots.int())
        return done.cached_len, done.handle

    def hold(self, place):
        self.cache.lock_handle(place)

    def release(self, place):
        self.cache.lock_handle(place, unlock=True)

    def free(self, num_tokens):
        return self.pages(self.cache.evict(min(num_tokens, self.cache.evictable_size)))

    def sizes(self):
        return self.cache.evictable_size, self.cache.protected_size

    def pages(self, slots):
        return (slots[:: self.page_size] // self.page_size).tolist()
