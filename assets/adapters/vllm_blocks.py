"""vLLM's BlockPool behind `minikv.testing.Adapter`: minikv verify assets/adapters/vllm_blocks.py

Not run by the tests: it needs vLLM. Run by hand on 2026-11-30 with vLLM 0.33.0's wheel, on a CPU, with stand-ins for
what the pool imports and doesn't use: ten rules hold, and none is broken. With `place` for `reversed(place)`, it breaks
rule 9.

A match is followed by what `KVCacheManager` does for a request that runs and ends: touch its blocks, and free them, the
last first. Blocks that hold nothing are kept aside, so that the pool has only cached ones to evict.
"""

from types import SimpleNamespace

from vllm.utils.hashing import sha256
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_utils import hash_block_tokens, init_none_hash

from minikv.testing import Adapter

NUM_BLOCKS = 1000
init_none_hash(sha256)


class VLLMBlockPool(Adapter):
    """A block per page; the namespace is the extra key of the first block, as `cache_salt` is."""

    def open(self):
        self.pool = BlockPool(NUM_BLOCKS, enable_caching=True, hash_block_size=self.page_size)
        self.spare = self.pool.get_new_blocks(self.pool.get_num_free_blocks())
        self.page_of = {}

    def hashes(self, tokens, namespace):
        found, parent = [], None
        for end in range(self.page_size, len(tokens) + 1, self.page_size):
            extra = (repr(namespace),) if parent is None and namespace is not None else None
            parent = hash_block_tokens(sha256, parent, tokens[end - self.page_size : end], extra)
            found.append(parent)
        return found

    def cached(self, hashes):
        blocks = []
        for each in hashes:
            if (found := self.pool.get_cached_block(each, [0])) is None:
                break
            blocks += found
        return blocks

    def find(self, tokens, namespace):
        blocks = self.cached(self.hashes(tokens, namespace))
        self.hold(blocks)
        self.release(blocks)
        return [self.page_of[block.block_id] for block in blocks], blocks

    def store(self, tokens, pages, namespace):
        hashes = self.hashes(tokens, namespace)
        there = self.cached(hashes)
        self.hold(there)
        new = [self.spare.pop() for _ in hashes[len(there) :]]
        blocks, request = there + new, SimpleNamespace(block_hashes=hashes)
        self.pool.cache_full_blocks(request, blocks, len(there), len(blocks), self.page_size, 0)
        self.page_of |= {block.block_id: page for block, page in zip(new, pages[len(there) :])}
        self.release(blocks)
        return len(there) * self.page_size, blocks

    def hold(self, place):
        self.pool.touch(place)

    def release(self, place):
        self.pool.free_blocks(reversed(place))

    def free(self, num_tokens):
        wanted = min(-(-num_tokens // self.page_size), self.pool.get_num_free_blocks())
        gone = self.pool.get_new_blocks(wanted)
        self.spare += gone
        return [self.page_of.pop(block.block_id) for block in gone]

    def sizes(self):
        free = self.pool.get_num_free_blocks()
        return free * self.page_size, (NUM_BLOCKS - 1 - len(self.spare) - free) * self.page_size
