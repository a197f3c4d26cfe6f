"""One node for each page: what the token trie and the hashed blocks have in common.

Both keep a node for a page of tokens, with a link to the node before it, and both keep the unlocked nodes in one queue
from least to most recently used, the deepest of a prompt first. So the first in the queue is always a leaf, and no node
is ever cached without the one before it. The two differ in how a node is found: `TokenTrie` looks among the children of
the node before it, `HashBlockCache` looks up a hash.

    queue    [ page 2 ] -> [ page 1 ] -> [ page 0 ]             of one prompt: page 2 is evicted first
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from minikv.errors import LockError
from minikv.pools.contract import Pages
from minikv.prefix.base_index import BaseIndex, IndexNode, described, way_to
from minikv.prefix.contract import (
    Handle,
    Insertion,
    Match,
    PagesLike,
    page_bytes,
    require_hashable,
    require_limit,
    require_wanted,
)
from minikv.prefix.eviction import LeastRecentlyUsed
from minikv.prefix.tree_check import check_nodes, require
from minikv.tokens import TOKEN_BYTES, TokensLike, pack


class PageNode(IndexNode):
    """One page of tokens that is cached: its tokens, packed, its page, and the node before it; a root has none of them.

    `end` is how many tokens lead to its end. `last_used` is the clock's reading at its last use. `older` and `newer`
    are its neighbors in the queue. An evicted node has no page, tokens or parent.

    >>> from minikv import TokenTrie
    >>> node = TokenTrie(page_size=2).insert([1, 2, 3, 4], [7, 8]).node
    >>> node, node.end, node.parent.tokens
    (TrieNode(id=2, tokens=[3, 4], pages=[8], ref_count=0), 4, [1, 2])
    """

    __slots__ = ("end", "id", "key_bytes", "last_used", "newer", "older", "page", "parent", "ref_count")

    def __init__(self, number: int, key_bytes: bytes, page: Any, parent: Any):
        self.id, self.key_bytes, self.page, self.parent = number, key_bytes, page, parent
        self.end: int = parent.end + len(key_bytes) // TOKEN_BYTES if parent is not None else 0
        self.ref_count = self.last_used = 0
        self.older: Any = None
        self.newer: Any = None

    @property
    def is_empty(self) -> bool:
        """Return whether it is a root that nothing follows."""
        return False

    @property
    def pages(self) -> array[int]:
        """The page of those tokens: one number."""
        return array("i", [] if self.parent is None else [self.page])

    @property
    def path(self) -> list[Any]:
        """This node and all nodes before it but the root, from the last to the first."""
        return way_to(self)

    def forget(self) -> None:
        """It is evicted: nothing is left but its number."""
        self.page = self.parent = None
        self.key_bytes = b""


class PageNodeCache(BaseIndex):
    """A prefix cache with a node for each page; keeps all rules of `PrefixCache` but 14, for it has nothing to join.

    `page_size` is in tokens. Eviction is least recently used, page by page, so it never frees one more than asked. Each
    page of a prompt costs a step whenever it is found, used or locked.
    """

    claims: ClassVar[frozenset[int]] = frozenset(range(1, 16)) - {14}  # of the rules; `minikv verify` asks

    def _clear(self) -> None:
        super()._clear()
        self._queue = LeastRecentlyUsed()
        self._roots[None] = self._new_root(0, None)

    def _new_root(self, number: int, namespace: Hashable) -> Any:
        """Return where the prompts of a namespace begin: a node that `is_empty` while nothing follows it."""
        raise NotImplementedError

    def _keys(self, node: Any, texts: list[bytes]) -> list[bytes]:
        """The keys of new pages of tokens after `node`; nothing is changed yet."""
        raise NotImplementedError

    def _make(self, key: bytes, text: bytes, page: int, parent: Any) -> Any:
        """A new node with the id that comes next, which `_follow` finds from now on."""
        raise NotImplementedError

    def _follow(self, node: Any, data: bytes) -> list[Any]:
        """The cached nodes of `data` after `node`, until a page is missing."""
        raise NotImplementedError

    def _unlink(self, node: Any) -> None:
        """An evicted node is found no more."""
        raise NotImplementedError

    def _find(self, tokens: TokensLike, limit: int | None, namespace: Hashable) -> tuple[Match, list[Any]]:
        """The match, and its nodes from the last to the first."""
        self._clock += 1
        data = pack(tokens).data
        most = require_limit(limit, len(data) // TOKEN_BYTES) * TOKEN_BYTES
        end = self._root_of(namespace)
        path = self._follow(end, data[:most])
        end = path[-1] if path else end
        pages = array("i", [node.page for node in path]).tobytes()
        return Match(self._epoch, end, end.end, namespace, data, [pages]), path[::-1]

    def _root_of(self, namespace: Hashable) -> Any:
        """The root of `namespace`; a new one, which is not kept, where it holds nothing."""
        require_hashable(namespace)
        return self._roots.get(namespace) or self._new_root(0, namespace)

    def insert(
        self, tokens: TokensLike, pages: PagesLike, *, namespace: Hashable = None, start: Handle | None = None
    ) -> Insertion:
        """Cache the whole pages of `tokens`, whose keys and values lie in `pages` (one for each whole page of tokens).

        Tokens already cached keep the pages they have: `prefix_length` says how many, and the caller frees its own
        duplicates. With `start`, a locked handle of a prefix of `tokens`, only the rest is looked up and
        counts as used.

        >>> from minikv import HashBlockCache
        >>> cache = HashBlockCache()
        >>> _ = cache.insert([1, 2, 3], [0, 1, 2])
        >>> cache.insert([1, 2, 4], [7, 8, 9])      # pages 7 and 8 are the caller's to free
        Insertion(prefix_length=2, length=3)
        """
        packed = pack(tokens)
        begin, end = 0, len(packed) // self.page_size * self.page_size
        if start is not None:
            self._require_start(start, packed, namespace)
            begin = start.length
        given = array("i", page_bytes(pages, len(packed), self.page_size, begin // self.page_size))
        top = start.node if start is not None and begin else self._root_of(namespace)
        data = packed.data[begin * TOKEN_BYTES : end * TOKEN_BYTES]
        found = self._follow(top, data)
        known = found[-1] if found else top
        new = self._append(known, data[len(found) * self._stride :], given[len(found) :])
        self._clock += 1
        self._touch([*found, *new][::-1])
        last = new[-1] if new else known
        return Insertion(self._epoch, last, end, namespace, packed.data, known.end)

    def _append(self, node: Any, data: bytes, pages: Sequence[int]) -> list[Any]:
        """Cache the tokens in `data`, which are new, after `node`."""
        texts, made = [data[at : at + self._stride] for at in range(0, len(data), self._stride)], []
        is_new = texts and node.is_empty and node.namespace is not None
        if is_new:
            node = self._new_root(self._next_id, node.namespace)
        keys = self._keys(node, texts)
        if is_new:
            self._roots[node.namespace] = node
            self._next_id += 1
        for key, text, page in zip(keys, texts, pages):
            node = self._make(key, text, page, node)
            self._next_id += 1
            made.append(node)
        self._evictable += len(made) * self.page_size
        return made

    def _touch(self, path: list[Any]) -> None:
        """The nodes of `path`, the last of the prompt first, are used now: the unlocked ones go to the queue's end."""
        for node in path:
            node.last_used = self._clock
        free = [node for node in path if not node.ref_count]
        self._queue.remove([node for node in free if node.older is not None])
        self._queue.add(free)

    def lock(self, handle: Handle) -> None:
        """Protect every node from the root to `handle` from eviction; locks nest. (vLLM's `touch`.)

        Raises `LockError` for a handle of another cache, from before a reset, or whose end has been evicted.
        """
        self._require(handle, "lock")
        if handle.node.page is None:
            raise LockError(f"cannot lock {described(handle)}: its end was evicted")
        self._protect(handle, handle.node.path)

    def _protect(self, handle: Handle, path: list[Any]) -> None:
        """Lock every node of `path`, which leads to the end of `handle`."""
        free = [node for node in path if not node.ref_count]
        self._queue.remove(free)
        for node in path:
            node.ref_count += 1
        self._evictable -= len(free) * self.page_size
        self._protected += len(free) * self.page_size
        super()._protect(handle, path)

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle; what it frees goes to the end of the queue, the deepest node first.

        Raises `LockError` when this handle holds no lock here. (vLLM's `free_blocks` of the blocks, reversed.)
        """
        self._give_back(handle)
        path, freed = handle.node.path, 0
        for node in path:
            node.ref_count -= 1
            freed += not node.ref_count
        self._evictable += freed * self.page_size
        self._protected -= freed * self.page_size
        self._clock += 1
        self._touch(path)

    def evict(self, num_tokens: int) -> Pages:
        """Free nodes from the head of the queue until `num_tokens` tokens are free or none is left; their pages.

        >>> from minikv import HashBlockCache
        >>> cache = HashBlockCache()
        >>> _ = cache.insert([1, 2, 3, 4], [10, 11, 12, 13])
        >>> cache.evict(1).tolist(), cache.evict(100).tolist()
        ([13], [12, 11, 10])
        """
        gone = list(islice(self._queue, -(-min(require_wanted(num_tokens), self._evictable) // self.page_size)))
        pages = array("i", [node.page for node in gone])
        self._queue.remove(gone)
        for node in gone:
            self._unlink(node)
            if node.parent.is_empty and node.parent.namespace is not None:
                self._roots.pop(node.parent.namespace, None)
            node.forget()
        self._evictable -= len(gone) * self.page_size
        return np.frombuffer(pages, np.int32)

    def check(self) -> None:
        """Recompute every link, key, lock, size and the queue's order; `InvariantError` names the node."""
        check_nodes(self, self._held, self._queue, self._check_node)

    def _check_node(self, node: Any) -> None:
        """Check what only this index knows of a node."""
        found = self._follow(node.parent, node.key_bytes) == [node]
        require(found, f"node {node.id}: its tokens do not lead to it")

    def __repr__(self) -> str:
        sizes = f"evictable={self.evictable_size}, protected={self.protected_size}"
        return f"{type(self).__name__}(page_size={self.page_size}, {sizes})"
