"""Hashed blocks: one dictionary instead of a tree, from the hash of a prefix to the page at its end.

A block is one page of tokens. Its key is a hash of all tokens up to its end (`block_hash.py`), so a prompt's blocks are
found without walking from node to node, and nothing is ever split or joined. Unlocked blocks stand in a queue, linked
in place, whose order is the order of eviction: what was used least recently first, and of what was used together the
end of the prompt first. So no block is ever cached without the one in front of it, and that has a price and a gain:
it must be kept up on every use, and it lets a match find the longest hit by bisection.

After vLLM's `KVCacheManager`, `BlockPool` and `FreeKVCacheBlockQueue`. There, free blocks are one queue, cached or
not, and a cached block leaves it when a request touches it. Here the pool is its own part: this queue holds what is
cached and not in use, `evict` takes from its head what vLLM's `get_new_blocks` would, and a page that was never cached
goes to the pool, where it is handed out before anything is evicted: as in vLLM, which puts such blocks in front. vLLM
keeps equal blocks of two requests both; here the second is the caller's to free (rule 4).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NoReturn

import numpy as np

from minikv.errors import LockError, bounded, whole_number
from minikv.pools.contract import Pages
from minikv.prefix.block import GONE, Block, BlockRoot, path_of, unlocked
from minikv.prefix.block_hash import BlockHash, HashState, Sha256, frame, hash_named
from minikv.prefix.block_index import BlockIndex
from minikv.prefix.block_queue import BlockQueue
from minikv.prefix.contract import Handle, Insertion, Match, PagesLike, page_bytes, require_limit
from minikv.prefix.namespaces import Roots
from minikv.tokens import TOKEN_BYTES, PackedTokens, TokensLike, pack

_PAGE_BYTES = 4  # of a page's number: an int32
_NOTHING = BlockRoot(0, None, None, ())  # the root of every namespace that holds nothing; nothing is ever hung on it


class HashBlockCache:
    """A prefix cache in a dictionary of block hashes; keeps the rules of `PrefixCache` but 14, for nothing is joined.

    `page_size` is in tokens. `block_hash` is "sha256" (default), "crc32" (fast, for prompts that you trust), "python"
    (a warning) or a class of your own (`BlockHash`); `seed` goes into every key, so that two deployments share none.
    With `verify` the tokens of a hit are compared, and a collision costs time; without, as in vLLM, equal keys are
    taken for equal tokens, and a collision serves another prompt's keys and values. By default they are compared for
    every hash but SHA-256, which nobody knows how to make collide. A namespace is part of
    the key (`extra_keys` makes one of an adapter, a salt or an image). Evicting frees single pages, never one more
    than asked.

    Match and insert cost one step for each page that is found or stored; so pages of 16 or more are what this index
    is made for.

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
        self._epoch = object()  # handles carry it: a reset, or another cache, has another one
        self._held: dict[Handle, int] = {}
        self._paths: dict[Handle, list[Block]] = {}  # of what is locked, deepest first
        self._states: dict[Handle, HashState] = {}  # of the hash, behind acquired matches: an insert goes on from there
        self._evictable = self._protected = self._clock = 0
        self._queue = BlockQueue()
        self._index = BlockIndex(self._hash, self._stride, self.verify)
        self._roots = Roots(self._root_for(0, None))
        self._next_id = 1

    def _root_for(self, root_id: int, namespace: Hashable) -> BlockRoot:
        """The root of a namespace: the seed and the name are the beginning of all keys below it."""
        seed = frame((self.seed, namespace)) or frame((self.seed, None, root_id))  # has no bytes of its own: a number
        assert seed is not None
        return BlockRoot(root_id, namespace, self._hash.begin(seed), self._index)

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
        return self._roots.by_name

    def nodes(self) -> Iterator[Block]:
        """Every block, in the order in which they were cached: parents before children."""
        return iter(sorted(self._index, key=attrgetter("id")))

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
        self._use([], path)
        return match

    def acquire(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """`match_prefix` and `lock` in one act: vLLM's `touch` of what it has found.

        >>> cache = HashBlockCache()
        >>> _ = cache.insert([1, 2, 3, 4], [6, 7, 8, 9])
        >>> cache.acquire([1, 2, 5]); cache.evict(4).tolist(), cache.protected_size
        Match(length=2, pages=[6, 7])
        ([9, 8], 2)
        """
        match, path, state = self._find(tokens, limit, namespace)
        self._clock += 1
        self._protect(match, path)
        self._states[match] = state
        return match

    def _find(self, tokens: TokensLike, limit: int | None, namespace: Hashable) -> tuple[Match, list[Block], HashState]:
        """The match, its path, deepest first, and the state of the hash behind it."""
        data = (tokens if type(tokens) is PackedTokens else pack(tokens)).data
        most = require_limit(limit, len(data) // TOKEN_BYTES)
        root = self._roots.find(namespace) or _NOTHING
        whole = most // self.page_size * self._stride if root.num_children else 0
        path, state = self._index.reach(root, root.state, data, 0, whole)
        pages = array("i", [block.page for block in reversed(path)])
        end = path[0] if path else root
        match = Match(self._epoch, end, len(path) * self.page_size, namespace, data, (pages.tobytes(),))
        return match, path, state

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
        root = self._roots.find(namespace) or self._root_for(self._next_id, namespace)
        skip = self._skip(start, packed, namespace) * TOKEN_BYTES
        new = page_bytes(pages, len(data) // TOKEN_BYTES, self.page_size, skip // stride)
        end = len(data) // stride * stride
        top = start.node if start is not None and skip else root
        state = self._states.get(start) if start is not None and skip else root.state
        if state is None:
            state = self._hash.after(root.state, memoryview(data)[:skip], stride)
        path, state = self._index.reach(top, state, data, skip, end)
        at = skip + len(path) * stride
        runs = [data[start : start + stride] for start in range(at, end, stride)]
        keys = self._hash.keys(state, runs)
        if keys and root.is_empty:
            self._open(root)
        fresh = self._make(path[0] if path else top, keys, runs, new[len(path) * _PAGE_BYTES :])
        self._use(fresh, path)
        last = (fresh or path or [top])[0]
        return Insertion(self._epoch, last, end // TOKEN_BYTES, namespace, data, at // TOKEN_BYTES)

    def _skip(self, start: Handle | None, packed: PackedTokens, namespace: Hashable) -> int:
        """How many tokens lie in front of where an insert begins: none, or those of `start`."""
        if start is None:
            return 0
        known = isinstance(start, Handle) and start in self._held and start.namespace is namespace
        if not known or (start.source is not packed.data and start.source is not packed.head) or start.source is None:
            self._check_start(start, packed, namespace)  # only what follows a matched prompt needs no look
        return start.length

    def _check_start(self, start: Handle, tokens: PackedTokens, namespace: Hashable) -> None:
        """`start` must be locked, in this namespace, and a prefix of `tokens`: else wrong pages would be cached."""
        if not isinstance(start, Handle) or start.epoch is not self._epoch:
            self._refuse(start, "start from")
        if start not in self._held:
            raise LockError(f"cannot start from {_told(start)}: it is not locked, so it may be evicted")
        if start.namespace is not namespace and start.namespace != namespace:
            raise ValueError(f"start is in namespace {bounded(start.namespace)}, the tokens in {bounded(namespace)}")
        for block in path_of(start.node):
            end = block.num_hashed_tokens
            if not tokens.data.startswith(block.key_run, (end - self.page_size) * TOKEN_BYTES):
                where = f"tokens[{end - self.page_size}:{end}]"
                raise ValueError(f"start is not a prefix of the tokens: they part in {where}")

    def _open(self, root: BlockRoot) -> None:
        """Something is about to be cached in this namespace."""
        if root.namespace is not None:
            self._roots.add(root)
            self._next_id += root.id == self._next_id

    def _make(self, parent: Block, keys: list[Hashable], runs: list[bytes], pages: bytes) -> list[Block]:
        """A new block for each of `keys`, in the index and not yet in the queue; deepest first."""
        size, now, number, end = self.page_size, self._clock + 1, self._next_id, parent.num_hashed_tokens
        if keys and isinstance(parent, BlockRoot):
            parent.num_children += 1
        made = list[Block]()
        for key, run, page in zip(keys, runs, memoryview(pages).cast("i")):
            end += size
            parent = Block(number, key, run, page, parent, end, now)
            made.append(parent)
            number += 1
        self._next_id = number
        self._evictable += len(keys) * size
        self._index.add(made)
        made.reverse()
        return made

    def _use(self, fresh: list[Block], path: list[Block]) -> None:
        """New blocks go to the tail of the queue, and those in front of them go behind them: deepest first."""
        self._clock = now = self._clock + 1
        for block in path:
            block.last_used = now
        self._queue.add(fresh)
        used = unlocked(path)
        self._queue.remove(used)
        self._queue.add(used)

    # -- lock -------------------------------------------------------------------------------------------------------

    def lock(self, handle: Handle) -> None:
        """Protect every block from `handle` to the root from eviction; locks nest. (vLLM's `touch`.)

        Raises `LockError` for a handle of another cache, from before a reset, or whose end has been evicted.
        """
        if not isinstance(handle, Handle) or handle.epoch is not self._epoch:
            self._refuse(handle, "lock")
        if handle.node.ref_count == GONE:
            raise LockError(f"cannot lock {_told(handle)}: its end was evicted")
        self._protect(handle, path_of(handle.node))

    def _protect(self, handle: Handle, path: list[Block]) -> None:
        """Lock every block of `path`, which leads to the end of `handle`, deepest first."""
        newly = unlocked(path)
        if newly:
            self._queue.remove(newly)
            self._evictable -= len(newly) * self.page_size
            self._protected += len(newly) * self.page_size
        for block in path:
            block.ref_count += 1
        self._held[handle] = self._held.get(handle, 0) + 1
        self._paths[handle] = path

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle; what it frees goes to the end of the queue, the deepest block first.

        Raises `LockError` when this handle holds no lock here. (vLLM's `free_blocks` of the request's blocks,
        reversed.)
        """
        if not isinstance(handle, Handle) or handle.epoch is not self._epoch:
            self._refuse(handle, "unlock")
        held = self._held.get(handle, 0)
        if not held:
            raise LockError(f"cannot unlock {_told(handle)}: it holds no lock")
        path = self._paths[handle]
        if held > 1:
            self._held[handle] = held - 1
        else:
            del self._held[handle], self._paths[handle]
            self._states.pop(handle, None)
        self._clock = now = self._clock + 1
        for block in path:
            block.ref_count -= 1
            block.last_used = now
        freed = unlocked(path)
        self._queue.add(freed)
        self._evictable += len(freed) * self.page_size
        self._protected -= len(freed) * self.page_size

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
        victims = self._queue.first(-(-num_tokens // self.page_size))
        self._queue.remove(victims)
        self._index.discard(victims)
        for block in victims:
            self._forget(block)
        self._evictable -= len(victims) * self.page_size
        return np.array([block.page for block in victims], np.int32)

    def _forget(self, block: Block) -> None:
        """Nothing leads to this block any more: handles that end in it go stale."""
        parent: Block = block.parent  # type: ignore[assignment]
        if isinstance(parent, BlockRoot):
            self._close(parent)
        block.ref_count, block.parent, block.older, block.newer = GONE, None, None, None

    def _close(self, root: BlockRoot) -> None:
        """One block less begins a chain in this namespace, perhaps the last one."""
        root.num_children -= 1
        if root.is_empty:
            self._roots.drop(root)

    # -- the rest ---------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget everything; ids and the clock start again, and all handles become stale.

        Raises `LockError`, and forgets nothing, while any handle is locked.
        """
        if self._held:
            locks = sum(self._held.values())
            held = "1 lock is held" if locks == 1 else f"{locks} locks are held"
            raise LockError(f"cannot reset: {held}, protecting {self._protected} tokens")
        self._clear()

    def check(self) -> None:
        """Recompute every key, link, lock, size and the queue's order; `InvariantError` names the block."""
        from minikv.prefix.hash_check import check_hash_blocks

        check_hash_blocks(self)

    def _refuse(self, handle: Any, verb: str) -> NoReturn:
        if not isinstance(handle, Handle):
            raise TypeError(f"cannot {verb} a {type(handle).__name__}: expected the handle of a match or an insertion")
        raise LockError(f"cannot {verb} {_told(handle)}: another cache made it, or reset() came after")

    def __repr__(self) -> str:
        how = f"page_size={self.page_size}, block_hash={self.block_hash!r}"
        return f"HashBlockCache({how}, evictable={self._evictable}, protected={self._protected})"


def _told(handle: Handle) -> str:
    return f"the handle of length {handle.length} (node {getattr(handle.node, 'id', None)})"
