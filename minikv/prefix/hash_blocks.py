"""Hashed blocks: one dictionary instead of a tree, from the hash of a prefix to the block at its end.

A block is one page of tokens. Its key is a hash of all tokens up to its end (`block_hash.py`), so a prompt's blocks are
found without walking from node to node (`block_index.py`), and nothing is ever split or joined. Unlocked blocks stand
in a queue (`block_queue.py`) whose order is the order of eviction: what was used least recently first, and of what was
used together the end of the prompt first. So no block is ever cached without the one in front of it, and that has a
price and a gain: the order must be kept up on every use, but blocks that were cached behind each other stay together as
one run (`block_run.py`). A match looks up the key of a run's first block and compares the tokens of all others at once.

After vLLM's `KVCacheManager`, `BlockPool` and `FreeKVCacheBlockQueue`. There, free blocks are one queue, cached or
not, and a cached block leaves it when a request touches it. Here the pool is its own part: this queue holds what is
cached and not in use, `evict` takes from its head what vLLM's `get_new_blocks` would, and a page that was never cached
goes to the pool, where it is handed out before anything is evicted: as in vLLM, which puts such blocks in front. vLLM
keeps equal blocks of two requests both; here the second is the caller's to free (rule 4). Where vLLM has an object for
each block, here blocks that were cached behind each other are one `BlockRun`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping

import numpy as np

from minikv.errors import LockError, bounded, whole_number
from minikv.pools.contract import Pages
from minikv.prefix.block import Block, BlockRoot
from minikv.prefix.block_hash import BlockHash, Sha256, hash_named
from minikv.prefix.block_index import BlockIndex, Reading
from minikv.prefix.block_queue import BlockQueue
from minikv.prefix.block_run import RunPath, path_to
from minikv.prefix.block_runs import BlockRuns
from minikv.prefix.contract import Handle, Insertion, Match, PagesLike, page_bytes, require_limit
from minikv.prefix.receipts import Receipts, told
from minikv.tokens import TOKEN_BYTES, PackedTokens, TokensLike, pack

_NO_PAGES = array("i")
_PAGE_BYTES = 4  # of a page's number: an int32
_NOTHING = BlockRoot(0, None, None)  # the root of every namespace that holds nothing; nothing is ever hung on it


class HashBlockCache:
    """A prefix cache in a dictionary of block hashes; keeps the rules of `PrefixCache` but 14, for nothing is joined.

    `page_size` is in tokens. `block_hash` is "sha256" (default), "crc32" (fast, for prompts that you trust), "python"
    (a warning) or a class of your own (`BlockHash`); `seed` goes into every key, so that two deployments share none.
    With `verify` the tokens behind a key are compared, and a collision costs time; without, as in vLLM, equal keys are
    taken for equal tokens, and a collision serves another prompt's keys and values. By default they are compared for
    every hash but SHA-256, which nobody knows how to make collide. A namespace is part of the key (`extra_keys` makes
    one of an adapter, a salt or an image). Evicting frees single pages, never one more than asked.

    A match looks up a key for each run of blocks and compares the rest; where a conversation goes on, nothing is hashed
    again. An insert makes a key for each new page, and an eviction takes one out for each page that goes. So pages of
    16 or more are what this index is made for.

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
        block_hash: str | Callable[[], BlockHash] = "sha256",
        seed: str | bytes = b"",
        verify: bool | None = None,
    ):
        self.page_size = whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        self.block_hash, self._hash = hash_named(block_hash)
        if not isinstance(seed, (str, bytes)):
            raise TypeError(f"seed is {bounded(seed)} ({type(seed).__name__}): expected text or bytes")
        self.seed, self.verify = seed, type(self._hash) is not Sha256 if verify is None else bool(verify)
        self._stride = TOKEN_BYTES * self.page_size  # the bytes of one page of tokens
        self._clear()

    def _clear(self) -> None:
        self._receipts = Receipts()
        self._paths: dict[Handle, RunPath] = {}  # of what is locked
        self._readings: dict[Handle, Reading] = {}  # of acquired matches: an insert goes on hashing from there
        self._evictable = self._protected = self._clock = 0
        self._queue = BlockQueue()
        self._index = BlockIndex(self._hash, self._stride, self.verify)
        self._runs = BlockRuns(self._index, self.seed)

    # -- looking at it ----------------------------------------------------------------------------------------------

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
        return self._runs.roots.by_name

    def nodes(self) -> Iterator[Block]:
        """Every block, in the order in which they were cached: parents before children."""
        return self._runs.blocks()

    def queue(self) -> Iterator[Block]:
        """The unlocked blocks in the order in which they would be evicted: by last use, then the deepest first.

        >>> cache = HashBlockCache()
        >>> _ = cache.insert([1, 2, 3], [4, 5, 6])
        >>> [block.tokens for block in cache.queue()]
        [[3], [2], [1]]
        """
        return iter(self._queue)

    # -- match ------------------------------------------------------------------------------------------------------

    def match_prefix(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """The longest cached page-aligned prefix of `tokens`, of at most `limit` tokens: its length, pages and handle.

        Refreshes the recency of what it matched. (vLLM's own lookup leaves out the last token; here `limit` does.)

        >>> cache = HashBlockCache(page_size=2)
        >>> _ = cache.insert([1, 2, 3, 4], [6, 7])
        >>> cache.match_prefix([1, 2, 3, 4]), cache.match_prefix([1, 2, 3, 4], limit=3)
        (Match(length=4, pages=[6, 7]), Match(length=2, pages=[6]))
        """
        match, path, _ = self._find(tokens, limit, namespace)
        self._clock += 1
        self._queue.use(path, self._clock)
        return match

    def acquire(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """`match_prefix` and `lock` in one act: vLLM's `touch` of what it has found.

        >>> cache = HashBlockCache()
        >>> _ = cache.insert([1, 2, 3, 4], [6, 7, 8, 9])
        >>> cache.acquire([1, 2, 5]); cache.evict(4).tolist(), cache.protected_size
        Match(length=2, pages=[6, 7])
        ([9, 8], 2)
        """
        match, path, reading = self._find(tokens, limit, namespace)
        self._clock += 1
        self._protect(match, path)
        self._readings[match] = reading
        return match

    def _find(self, tokens: TokensLike, limit: int | None, namespace: Hashable) -> tuple[Match, RunPath, Reading]:
        """The match, its path, and how far the hash has read."""
        data = (tokens if type(tokens) is PackedTokens else pack(tokens)).data
        most = require_limit(limit, len(data) // TOKEN_BYTES)
        root = self._runs.roots.find(namespace) or _NOTHING
        whole = most // self.page_size * self._stride if root.runs else 0
        path, count, reading = self._index.reach(root, (root.state, 0), data, 0, whole)
        parts = [run.pages[:reached].tobytes() for run, reached in reversed(path)]
        end = _end_of(path, root)
        return Match(self._receipts.epoch, end, count * self.page_size, namespace, data, parts), path, reading

    # -- insert -----------------------------------------------------------------------------------------------------

    def insert(
        self, tokens: TokensLike, pages: PagesLike, *, namespace: Hashable = None, start: Handle | None = None
    ) -> Insertion:
        """Cache the whole pages of `tokens`, whose keys and values lie in `pages` (one for each whole page of tokens).

        Tokens already cached keep the pages they have: `prefix_length` says how many, and the caller frees its own
        duplicates. With `start`, a locked handle of a prefix of `tokens`, only what lies behind it is looked for and
        counts as used.

        >>> cache = HashBlockCache()
        >>> _ = cache.insert([1, 2, 3], [0, 1, 2])
        >>> cache.insert([1, 2, 4], [7, 8, 9])      # pages 7 and 8 are the caller's to free
        Insertion(prefix_length=2, length=3)
        """
        packed = tokens if type(tokens) is PackedTokens else pack(tokens)
        data, stride = packed.data, self._stride
        skip = self._skip(start, packed, namespace) * TOKEN_BYTES
        packed_pages = page_bytes(pages, len(data) // TOKEN_BYTES, self.page_size, skip // stride)
        end = len(data) // stride * stride
        if start is not None and skip:  # its own root: the hash of the namespace may have changed since
            top, reading = start.node, self._reading(start)
        else:
            top = self._runs.root_of(namespace)
            reading = top.state, 0
        path, new = self._index.known_and_new(top, reading, data, skip, end)
        at = end - len(new.keys) * stride
        if new.keys:
            path = self._runs.grow(top, path, new, data[at:end], packed_pages[(at - skip) // stride * _PAGE_BYTES :])
            self._evictable += len(new.keys) * self.page_size
        self._clock += 1
        self._queue.use(path, self._clock)
        last, epoch = _end_of(path, top), self._receipts.epoch
        return Insertion(epoch, last, end // TOKEN_BYTES, namespace, data, at // TOKEN_BYTES)

    def _skip(self, start: Handle | None, packed: PackedTokens, namespace: Hashable) -> int:
        """How many tokens lie in front of where an insert begins: none, or those of `start`, which must be a prefix."""
        if start is None:
            return 0
        self._receipts.require_start(start, namespace)
        source = start.source
        if source is None or (source is not packed.data and source is not packed.head):  # else it was compared before
            for run, count in self._paths[start]:
                begin, end = run.first * self._stride, (run.first + count) * self._stride
                if run.tokens[: end - begin] != packed.data[begin:end]:
                    where = f"tokens[{begin // TOKEN_BYTES}:{end // TOKEN_BYTES}]"
                    raise ValueError(f"start is not a prefix of the tokens: they part in {where}")
        return start.length

    def _reading(self, start: Handle) -> Reading:
        """The state of the hash behind `start`, which is locked, or at some place before."""
        node = start.node
        kept = node.run.state_behind(node.count)
        if kept is not None:
            return kept, start.length * TOKEN_BYTES
        return self._readings.get(start, (node.root.state, 0))

    # -- lock -------------------------------------------------------------------------------------------------------

    def lock(self, handle: Handle) -> None:
        """Protect every block from `handle` to the root from eviction; locks nest. (vLLM's `touch`.)

        Raises `LockError` for a handle of another cache, from before a reset, or whose end has been evicted.
        """
        self._receipts.require(handle, "lock")
        if handle.node.is_gone:
            raise LockError(f"cannot lock {told(handle)}: its end was evicted")
        self._protect(handle, path_to(handle.node.run, handle.node.count))

    def _protect(self, handle: Handle, path: RunPath) -> None:
        """Lock every block of `path`, which leads to the end of `handle`."""
        newly = self._queue.lock(path) * self.page_size
        self._evictable -= newly
        self._protected += newly
        self._receipts.take(handle)
        self._paths[handle] = path

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle; what it frees goes to the end of the queue, the deepest block first.

        Raises `LockError` when this handle holds no lock here. (vLLM's `free_blocks` of the request's blocks,
        reversed.)
        """
        self._receipts.require_lock(handle, "unlock")
        path = self._paths[handle]
        if self._receipts.give_back(handle):
            del self._paths[handle]
            self._readings.pop(handle, None)
        self._clock += 1
        freed = self._queue.unlock(path, self._clock) * self.page_size
        self._evictable += freed
        self._protected -= freed

    # -- evict ------------------------------------------------------------------------------------------------------

    def evict(self, num_tokens: int) -> Pages:
        """Free blocks from the head of the queue until `num_tokens` tokens are free or none is left; their pages.

        >>> cache = HashBlockCache()
        >>> _ = cache.insert([1, 2, 3, 4], [10, 11, 12, 13])
        >>> cache.evict(1).tolist(), cache.evict(100).tolist()
        ([13], [12, 11, 10])
        """
        if type(num_tokens) is not int or num_tokens < 0:
            num_tokens = whole_number("num_tokens", num_tokens, 0, "evict frees 0 tokens or more")
        wanted, freed = -(-num_tokens // self.page_size), _NO_PAGES
        while len(freed) < wanted and (use := self._queue.first()) is not None:
            pages = self._runs.cut(use.run, self._queue.shorten(use, wanted - len(freed)))
            freed = freed + pages if freed else pages
        self._evictable -= len(freed) * self.page_size
        return np.frombuffer(freed, np.int32)

    # -- the rest ---------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget everything; ids and the clock start again, and all handles become stale.

        Raises `LockError`, and forgets nothing, while any handle is locked.
        """
        self._receipts.forget(self._protected)
        self._clear()

    def check(self) -> None:
        """Recompute every key, link, lock, size and the queue's order; `InvariantError` names the block."""
        from minikv.prefix.hash_check import check_hash_blocks

        check_hash_blocks(self)

    def __repr__(self) -> str:
        how = f"page_size={self.page_size}, block_hash={self.block_hash!r}"
        return f"HashBlockCache({how}, evictable={self._evictable}, protected={self._protected})"


def _end_of(path: RunPath, top: Block | BlockRoot) -> Block | BlockRoot:
    """The last block of `path`, or `top` if it is empty."""
    return path[0][0].block(path[0][1] - 1) if path else top
