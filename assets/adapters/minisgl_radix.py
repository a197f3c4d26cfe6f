"""mini-sglang's RadixPrefixCache behind `minikv.testing.Adapter`: minikv verify assets/adapters/minisgl_radix.py

Run by hand, with mini-sglang installed; README.md beside this file says with which version, when, and what was found.
It has no namespaces, and its `evict` asserts that there is as much to evict as is wanted.
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
