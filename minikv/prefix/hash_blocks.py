"""Hashed blocks: one dictionary instead of a tree, from the hash of a prefix to the block at its end, and one queue.

A block is one page of tokens. Its key is a hash of all tokens up to its end (`block_hash.py`), so a prompt's blocks are
found without walking from node to node, and nothing is ever split or joined. Unlocked blocks are in a queue, and its
order is the order of eviction: the least recently used block first, and of the blocks of one prompt the last one first.
So no block is ever cached without the block before it.

    table    key 0 -> [ page 0 ]    key 1 -> [ page 1 ]    key 2 -> [ page 2 ]
    queue    [ page 2 ] -> [ page 1 ] -> [ page 0 ]             page 2 is evicted first

After vLLM's `KVCacheManager`, `BlockPool` and `FreeKVCacheBlockQueue`. There, free blocks are one queue, cached or
not, and a cached block leaves it when a request touches it. Here the pool is its own part: this queue holds what is
cached and not in use, `evict` takes from its head what vLLM's `get_new_blocks` would, and a page that was never cached
goes to the pool, where it is handed out before anything is evicted, as in vLLM. vLLM keeps equal blocks of two requests
both; here the second is the caller's to free (rule 4).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from itertools import islice, pairwise
from typing import Any

import numpy as np

from minikv.errors import InvariantError, LockError, bounded, whole_number
from minikv.pools.contract import Pages
from minikv.prefix.block_hash import KeyOf, hash_named, sha256_key
from minikv.prefix.block_table import Block, BlockRoot, BlockTable
from minikv.prefix.contract import Handle, Insertion, Match, PagesLike, page_bytes, require_limit
from minikv.prefix.eviction import LeastRecentlyUsed
from minikv.prefix.receipts import Receipts, told
from minikv.tokens import TOKEN_BYTES, PackedTokens, TokensLike, pack


class HashBlockCache:
    """A prefix cache in a dictionary of block hashes; keeps the rules of `PrefixCache` but 14, for nothing is joined.

    `page_size` is in tokens. `block_hash` is "sha256" (default), "crc32" (fast, for prompts that you trust), "python"
    (a warning) or a function of your own (`block_hash.py`); `seed` goes into every key, so that two deployments share
    none. With `verify` the tokens behind a key are compared, and a collision costs time; without, as in vLLM, equal
    keys are taken for equal tokens, and a collision serves another prompt's keys and values. By default they are
    compared for every hash but SHA-256, which nobody knows how to make collide. A namespace is part of the key
    (`extra_keys` makes one of an adapter, a salt or an image). Evicting frees single pages, never one more than asked.
    Each block of a prompt costs a hash, and a step whenever it is used or locked: this is made for pages of 16 or more.

    >>> cache = HashBlockCache(page_size=2)
    >>> cache.insert([1, 2, 3, 4], [10, 11])
    Insertion(prefix_length=0, length=4)
    >>> match = cache.match_prefix([1, 2, 9, 9])
    >>> match
    Match(length=2, pages=[10])
    >>> cache.lock(match.handle); cache.evict(4).tolist()   # the locked block stays
    [11]
    >>> cache.unlock(match.handle); cache
    HashBlockCache(page_size=2, block_hash='sha256', evictable=2, protected=0)
    """

    claims = frozenset(range(1, 16)) - {14}  # of the rules; `minikv verify` asks

    def __init__(
        self,
        page_size: int = 1,
        block_hash: str | KeyOf = "sha256",
        seed: str | bytes = b"",
        verify: bool | None = None,
    ):
        self.page_size = whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        self.block_hash, self._key_of = hash_named(block_hash)
        if not isinstance(seed, (str, bytes)):
            raise TypeError(f"seed is {bounded(seed)} ({type(seed).__name__}): expected text or bytes")
        self.seed, self.verify = seed, self._key_of is not sha256_key if verify is None else bool(verify)
        self._stride = TOKEN_BYTES * self.page_size  # the bytes of one page of tokens
        self._clear()

    def _clear(self) -> None:
        self._receipts = Receipts()
        self._table = BlockTable(self._key_of, self._stride, self.seed, self.verify)
        self._queue = LeastRecentlyUsed()  # the unlocked blocks
        self._evictable = self._protected = self._clock = 0

    @property
    def evictable_size(self) -> int:
        """Tokens that `evict` could free now."""
        return self._evictable

    @property
    def protected_size(self) -> int:
        """Tokens held by locks."""
        return self._protected

    @property
    def total_size(self) -> int:
        """Tokens cached: evictable + protected."""
        return self._evictable + self._protected

    @property
    def roots(self) -> Mapping[Hashable, BlockRoot]:
        """The root of every namespace that holds something, and the default one; read only."""
        return self._table.roots

    def nodes(self) -> Iterator[Block]:
        """Every block, in the order in which they were cached: parents before children."""
        return iter(self._table)

    def queue(self) -> Iterator[Block]:
        """The unlocked blocks in the order in which they would be evicted: by last use, then the deepest first.

        >>> cache = HashBlockCache()
        >>> _ = cache.insert([1, 2, 3], [4, 5, 6])
        >>> [block.tokens for block in cache.queue()]
        [[3], [2], [1]]
        """
        return iter(self._queue)

    def match_prefix(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """The longest cached page-aligned prefix of `tokens`, of at most `limit` tokens: its length, pages and handle.

        Refreshes the recency of what it matched. (vLLM's own lookup leaves out the last token; here `limit` does.)

        >>> cache = HashBlockCache(page_size=2)
        >>> _ = cache.insert([1, 2, 3, 4], [6, 7])
        >>> cache.match_prefix([1, 2, 3, 4]), cache.match_prefix([1, 2, 3, 4], limit=3)
        (Match(length=4, pages=[6, 7]), Match(length=2, pages=[6]))
        """
        match, path = self._find(tokens, limit, namespace)
        self._use(path)
        return match

    def acquire(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """`match_prefix` and `lock` in one act: vLLM's `touch` of what it has found.

        >>> cache = HashBlockCache()
        >>> _ = cache.insert([1, 2, 3, 4], [6, 7, 8, 9])
        >>> cache.acquire([1, 2, 5]); cache.evict(4).tolist(), cache.protected_size
        Match(length=2, pages=[6, 7])
        ([9, 8], 2)
        """
        match, path = self._find(tokens, limit, namespace)
        self._clock += 1
        self._protect(match, path)
        return match

    def _find(self, tokens: TokensLike, limit: int | None, namespace: Hashable) -> tuple[Match, list[Block]]:
        """The match, and its blocks from the last to the first."""
        data = (tokens if type(tokens) is PackedTokens else pack(tokens)).data
        most = require_limit(limit, len(data) // TOKEN_BYTES) * TOKEN_BYTES
        root = self._table.root_of(namespace)
        blocks = self._table.follow(root, data[:most])
        pages = array("i", [block.page for block in blocks]).tobytes()
        end = blocks[-1] if blocks else root
        return Match(self._receipts.epoch, end, end.num_hashed_tokens, namespace, data, [pages]), blocks[::-1]

    def insert(
        self, tokens: TokensLike, pages: PagesLike, *, namespace: Hashable = None, start: Handle | None = None
    ) -> Insertion:
        """Cache the whole pages of `tokens`, whose keys and values lie in `pages` (one for each whole page of tokens).

        Tokens already cached keep the pages they have: `prefix_length` says how many, and the caller frees its own
        duplicates. With `start`, a locked handle of a prefix of `tokens`, only what comes after it is looked for and
        counts as used.

        >>> cache = HashBlockCache()
        >>> _ = cache.insert([1, 2, 3], [0, 1, 2])
        >>> cache.insert([1, 2, 4], [7, 8, 9])      # pages 7 and 8 are the caller's to free
        Insertion(prefix_length=2, length=3)
        """
        packed = tokens if type(tokens) is PackedTokens else pack(tokens)
        begin, end = 0, len(packed) // self.page_size * self.page_size
        if start is not None:
            self._require_start(start, packed, namespace)
            begin = start.length
        given = array("i", page_bytes(pages, len(packed), self.page_size, begin // self.page_size))
        top: Block = start.node if start is not None and begin else self._table.root_of(namespace)
        data = packed.data[begin * TOKEN_BYTES : end * TOKEN_BYTES]
        blocks = self._table.follow(top, data)
        known = blocks[-1] if blocks else top
        new = self._table.append(known, data[len(blocks) * self._stride :], given[len(blocks) :])
        last = new[-1] if new else known
        self._evictable += len(new) * self.page_size
        self._use([*blocks, *new][::-1])
        return Insertion(self._receipts.epoch, last, end, namespace, packed.data, known.num_hashed_tokens)

    def _require_start(self, start: Handle, packed: PackedTokens, namespace: Hashable) -> None:
        """`start` must be locked, and a prefix of the tokens."""
        self._receipts.require_start(start, namespace)
        if start.source is not None and (start.source is packed.data or start.source is packed.head):
            return  # it was compared before
        begin = 0
        for block in reversed(start.node.path):
            end = block.num_hashed_tokens
            if block.key_bytes != packed.data[begin * TOKEN_BYTES : end * TOKEN_BYTES]:
                raise ValueError(f"start is not a prefix of the tokens: they part in tokens[{begin}:{end}]")
            begin = end

    def _use(self, path: list[Block]) -> None:
        """The blocks of `path`, the last of the prompt first, are used now: the unlocked ones go to the queue's end."""
        self._clock += 1
        for block in path:
            block.last_used = self._clock
        free = [block for block in path if not block.ref_count]
        self._queue.remove([block for block in free if block.older is not None])
        self._queue.add(free)

    def lock(self, handle: Handle) -> None:
        """Protect every block from `handle` to the root from eviction; locks nest. (vLLM's `touch`.)

        Raises `LockError` for a handle of another cache, from before a reset, or whose end has been evicted.
        """
        self._receipts.require(handle, "lock")
        if handle.node.is_gone:
            raise LockError(f"cannot lock {told(handle)}: its end was evicted")
        self._protect(handle, handle.node.path)

    def _protect(self, handle: Handle, path: list[Block]) -> None:
        """Lock every block of `path`, which leads to the end of `handle`."""
        free = [block for block in path if not block.ref_count]
        self._queue.remove(free)
        for block in path:
            block.ref_count += 1
        self._evictable -= len(free) * self.page_size
        self._protected += len(free) * self.page_size
        self._receipts.take(handle)

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle; what it frees goes to the end of the queue, the deepest block first.

        Raises `LockError` when this handle holds no lock here. (vLLM's `free_blocks` of the blocks, reversed.)
        """
        self._receipts.require_lock(handle, "unlock")
        self._receipts.give_back(handle)
        path, freed = handle.node.path, 0
        for block in path:
            block.ref_count -= 1
            freed += not block.ref_count
        self._evictable += freed * self.page_size
        self._protected -= freed * self.page_size
        self._use(path)

    def evict(self, num_tokens: int) -> Pages:
        """Free blocks from the head of the queue until `num_tokens` tokens are free or none is left; their pages.

        >>> cache = HashBlockCache()
        >>> _ = cache.insert([1, 2, 3, 4], [10, 11, 12, 13])
        >>> cache.evict(1).tolist(), cache.evict(100).tolist()
        ([13], [12, 11, 10])
        """
        if type(num_tokens) is not int or num_tokens < 0:
            num_tokens = whole_number("num_tokens", num_tokens, 0, "evict frees 0 tokens or more")
        gone = list(islice(self._queue, -(-min(num_tokens, self._evictable) // self.page_size)))
        pages = array("i", [block.page for block in gone])
        self._queue.remove(gone)
        for block in gone:
            self._table.remove(block)
        self._evictable -= len(gone) * self.page_size
        return np.frombuffer(pages, np.int32)

    def reset(self) -> None:
        """Forget everything; ids and the clock start again, and all handles become stale.

        Raises `LockError`, and forgets nothing, while any handle is locked.
        """
        self._receipts.forget(self._protected)
        self._clear()

    def check(self) -> None:
        """Recompute every key, link, lock, size and the queue's order; `InvariantError` names the block."""
        self._table.check()
        locks = Counter[Block]()
        for handle, held in self._receipts.held.items():
            _require(held > 0 and not handle.node.is_gone, f"{told(handle)} is kept as holding {held} locks")
            locks.update(dict.fromkeys(handle.node.path, held))
        for block in self._table:
            said = f"block {block.id}: ref_count is {block.ref_count}"
            _require(block.ref_count == locks[block], f"{said}, but the locks on its path make {locks[block]}")
            _require(block.last_used <= self._clock, f"block {block.id}: used at {block.last_used}, after the clock")
        self._check_queue()

    def _check_queue(self) -> None:
        """All unlocked blocks are in the queue, by their last use and then the deepest first."""
        queue: Any = self._queue
        free = [block for block in self._table if not block.ref_count]
        free.sort(key=lambda block: (block.last_used, -block.num_hashed_tokens))
        for before, after in pairwise([queue, *free, queue]):
            linked = before.newer is after and after.older is before
            _require(linked, f"the queue is not in the order of the last use, the deepest block first, at {after}")
        total = sum(1 for _ in self._table) * self.page_size
        sizes, expected = (self._evictable, self.total_size), (len(free) * self.page_size, total)
        _require(sizes == expected, f"evictable_size and total_size are {sizes}, the blocks hold {expected} tokens")

    def __repr__(self) -> str:
        how = f"page_size={self.page_size}, block_hash={self.block_hash!r}"
        return f"HashBlockCache({how}, evictable={self._evictable}, protected={self._protected})"


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvariantError(message)
