"""vLLM's KVCacheManager as a cache manager of the contract: minikv verify assets/adapters/vllm_manager.py

Not run by the tests: it needs vLLM. Run by hand on 2026-11-23 with vLLM 0.33.0's wheel, on a CPU, with stand-ins for
what the manager imports and doesn't use: ten rules hold, and none is broken.

The manager is asked to delay caching, as for blocks that arrive from elsewhere, because it
publishes blocks otherwise before they are computed: in vLLM, the step that allocates them computes them. It doesn't
claim rule 9, because a request that has published blocks still reads its own, nor 12: its input is not checked here.
"""

import itertools

import torch
from vllm import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request

from minikv.errors import OutOfPages

init_none_hash(sha256)


class Sequence:
    """A request, and the blocks that it has at the moment; block 0 is vLLM's null block."""

    def __init__(self, manager, request, cached_length):
        self.manager, self.request, self.cached_length = manager, request, cached_length
        self.is_over = False

    @property
    def slots(self):
        size, (ids,) = self.manager.page_size, self.manager.kv.get_block_ids(self.request.request_id)
        return [(block - 1) * size + i for block in ids for i in range(size)][: self.request.num_tokens]


class VLLMCacheManager:
    """A block per page, and one group of layers with full attention."""

    claims = (1, 2, 3, 4, 5, 6, 7, 8, 10, 11)

    def __init__(self, num_pages, page_size=1):
        self.page_size, self.names = page_size, itertools.count()
        spec = FullAttentionSpec(block_size=page_size, num_kv_heads=1, head_size=1, dtype=torch.float32)
        config = KVCacheConfig(num_pages + 1, [], [KVCacheGroupSpec(["layer"], spec)])
        self.kv = KVCacheManager(config, 1000, scheduler_block_size=page_size, hash_block_size=page_size)
        self.hasher = get_request_block_hasher(page_size, sha256)

    @property
    def available_size(self):
        return self.kv.block_pool.get_num_free_blocks() * self.page_size

    def start(self, tokens, *, namespace=None):
        salt = None if namespace is None else repr(namespace)
        name, params = str(next(self.names)), SamplingParams(max_tokens=1)
        request = Request(name, list(tokens), params, None, cache_salt=salt, block_hasher=self.hasher)
        blocks, found, _ = self.kv.get_computed_blocks(request)
        self.allocate(request, len(tokens) - found, found, blocks)
        request.num_computed_tokens = found
        return Sequence(self, request, found)

    def allocate(self, request, num_tokens, *found):
        if self.kv.allocate_slots(request, num_tokens, *found, delay_cache_blocks=True) is None:
            raise OutOfPages(-(-num_tokens // self.page_size), self.kv.block_pool.get_num_free_blocks())

    def advance(self, sequence, num_tokens=None):
        request = self.running(sequence)
        left = request.num_tokens - request.num_computed_tokens
        if (num_tokens or 0) > left:
            raise ValueError("more tokens than there are")
        request.num_computed_tokens += left if num_tokens is None else num_tokens

    def extend(self, sequence, tokens):
        request = self.running(sequence)
        self.allocate(request, request.num_tokens + len(tokens) - request.num_computed_tokens)
        request.append_output_token_ids(list(tokens))

    def checkpoint(self, sequence):
        request = self.running(sequence)
        self.kv.cache_blocks(request, request.num_computed_tokens)

    def finish(self, sequence):
        self.checkpoint(sequence)
        self.abort(sequence)

    def abort(self, sequence):
        self.kv.free(self.running(sequence))
        sequence.is_over = True

    def running(self, sequence):
        if sequence.is_over:
            raise ValueError("the request is over")
        return sequence.request
