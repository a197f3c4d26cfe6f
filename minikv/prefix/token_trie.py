"""The token trie: the simplest index that works. One node for each page, and one number per node.

There is no edge to compare and none to split: a step down is a lookup in a dictionary, and two prompts part at a node
that is there already. So the whole index is a walk. What it costs is a node for each page: hundreds of bytes and most
of a microsecond, where the radix tree pays for a page number and a memcmp. With pages of one token, a node is a token.

All unlocked nodes are in one queue from least to most recently used, the deepest of a prompt first. So the first in the
queue is always a leaf, and no node is ever cached without the one before it.

    queue    [ page 2 ] -> [ page 1 ] -> [ page 0 ]             of one prompt: page 2 is evicted first

`HashBlockCache` is the same, but finds a node by a hash; the trie looks among the children of the node before it.
After the prefix cache of AstrAI, which calls itself a radix tree; its other half, in which a whole sequence has one
slot, is the `RowTrie` of chapter 09 (`minikv.engine`). Unlike the original it locks whole paths, evicts leaves, and
ends. It may be used by one thread at a time; a `CacheManager` takes care of that.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from minikv.errors import LockError, require
from minikv.pools.contract import Pages
from minikv.prefix.base_index import BaseIndex, IndexNode, described, way_to
from minikv.prefix.contract import (
    RULES,
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
from minikv.prefix.tree_check import check_nodes
from minikv.tokens import TOKEN_BYTES, TokensLike, pack


class PageNode(IndexNode):
    """One page of tokens that is cached: its tokens, packed, its page, and the node before it; a root has none of them.

    `end` is how many tokens lead to its end. `last_used` is the clock's reading at its last use. `older` and `newer`
    are its neighbors in the queue. An evicted node has no page, tokens or parent.

    >>> node = TokenTrie(page_size=2).insert([1, 2, 3, 4], [7, 8]).node
    >>> node, node.end, node.parent.tokens
    (TrieNode(id=2, tokens=[3, 4], pages=[8], ref_count=0), 4, [1, 2])
    """

    __slots__ = ("key_bytes", "page")

    def __init__(self, key_bytes: bytes, page: Any, parent: Any):
        self.key_bytes, self.page, self.parent = key_bytes, page, parent
        self.end: int = parent.end + len(key_bytes) // TOKEN_BYTES if parent is not None else 0
        self.id = self.ref_count = self.last_used = 0
        self.older = self.newer = None

    @property
    def pages(self) -> array[int]:
        """The page of those tokens: one number."""
        return array("i", [] if self.parent is None else [self.page])


class TrieNode(PageNode):
    """One page of tokens, and the nodes that follow it."""

    __slots__ = ("children",)
    children: dict[bytes, TrieNode]


class PageRoot(TrieNode):
    """Where the prompts of one namespace begin: it has no tokens, and `num_first` nodes follow it.

    The trie gives it `children`, as each of its nodes has; the hashed blocks give it a `key`, the seed of all keys.
    """

    __slots__ = ("key", "namespace", "num_first")
    key: bytes

    def __init__(self, namespace: Hashable):
        super().__init__(b"", -1, None)
        self.namespace, self.num_first = namespace, 0


class TokenTrie(BaseIndex):
    """A prefix cache in a trie of tokens; keeps all rules of `PrefixCache` but 14: it has no edges to join.

    `page_size` is in tokens, and a node is a page. Eviction is least recently used, page by page, so never one more
    than asked. Match, insert, lock and unlock take a step for each page of the prompt, evict one for each page freed.

    >>> cache = TokenTrie()
    >>> cache.insert([1, 2, 3, 4], [10, 11, 12, 13])
    Insertion(prefix_length=0, length=4)
    >>> match = cache.acquire([1, 2, 9]); match
    Match(length=2, pages=[10, 11])
    >>> cache.evict(4).tolist()                      # only the tail may go, its end first
    [13, 12]
    >>> cache.unlock(match); cache
    TokenTrie(page_size=1, evictable=2, protected=0)
    """

    unique_pages = True
    claims = frozenset(RULES) - {14}  # of the rules; `minikv verify` asks

    def _clear(self) -> None:
        super()._clear()
        self._queue = LeastRecentlyUsed()
        self._roots[None] = self._new_root(None)

    # -- how a node is found: what another index does in its own way ------------------------------------------------

    def _new_root(self, namespace: Hashable) -> PageRoot:
        """Return where the prompts of a namespace begin; it gets a number when something follows it."""
        root = PageRoot(namespace)
        root.children = {}
        return root

    def _child(self, node: Any, text: bytes) -> Any:
        """The node after `node` whose page has the packed tokens `text`, or `None`."""
        return node.children.get(text)

    def _make_node(self, text: bytes, page: int, parent: Any) -> Any:
        """A new node, which `_child` does not find yet."""
        node = TrieNode(text, page, parent)
        node.children = {}
        return node

    def _link(self, node: Any) -> None:
        """Let `_child` find a new node from now on."""
        node.parent.children[node.key_bytes] = node

    def _unlink(self, node: Any) -> None:
        """Let `_child` no longer find an evicted node."""
        del node.parent.children[node.key_bytes]

    def _follow(self, node: Any, data: bytes) -> list[Any]:
        """The cached nodes of `data` after `node`, until a page is missing."""
        found, stride = [], self._stride
        for at in range(0, len(data) - stride + 1, stride):
            node = self._child(node, data[at : at + stride])
            if node is None:
                break
            found.append(node)
        return found

    def _find(self, tokens: TokensLike, limit: int | None, namespace: Hashable) -> tuple[Match, list[Any]]:
        """The match, and its nodes from the last to the first."""
        self._clock += 1
        data = pack(tokens).data
        most = require_limit(limit, len(data) // TOKEN_BYTES) * TOKEN_BYTES
        root = self._root_of(namespace)
        path = self._follow(root, data[:most])
        end = path[-1] if path else root
        pages = array("i", [node.page for node in path]).tobytes()
        return Match(self._epoch, end, end.end, namespace, data, [pages]), path[::-1]

    def _root_of(self, namespace: Hashable) -> Any:
        """The root of `namespace`; a new one, which is not kept, where it holds nothing."""
        require_hashable(namespace)
        return self._roots.get(namespace) or self._new_root(namespace)

    def insert(
        self, tokens: TokensLike, pages: PagesLike, *, namespace: Hashable = None, start: Handle | None = None
    ) -> Insertion:
        """Cache the whole pages of `tokens`, whose keys and values lie in `pages` (one for each whole page of tokens).

        Tokens already cached keep the pages they have: `prefix_length` says how many, and the caller frees its own
        duplicates. With `start`, a locked handle of a prefix of `tokens`, only the rest is looked up and used.

        >>> cache = TokenTrie()
        >>> _ = cache.insert([1, 2, 3], [0, 1, 2])
        >>> cache.insert([1, 2, 4], [7, 8, 9])      # pages 7 and 8 are the caller's to free
        Insertion(prefix_length=2, length=3)
        """
        packed = pack(tokens)
        top = self._root_of(namespace)
        if start is not None:
            self._require_start(start, packed, namespace)
            if start.length:
                top = start.node
        given = array("i", page_bytes(pages, len(packed), self.page_size, top.end // self.page_size))
        path = [top, *self._follow(top, packed.data[top.end * TOKEN_BYTES :])]
        known = path[-1]
        path += self._append(known, packed.data[known.end * TOKEN_BYTES :], given[len(path) - 1 :])
        self._clock += 1
        self._touch(path[:0:-1])
        return Insertion(self._epoch, path[-1], path[-1].end, namespace, packed.data, known.end)

    def _append(self, top: Any, data: bytes, pages: Sequence[int]) -> list[Any]:
        """Cache the first tokens in `data`, as many as `pages` hold, as new nodes after `top`."""
        made, node, stride = [], top, self._stride
        for i, page in enumerate(pages):
            node = self._make_node(data[i * stride : (i + 1) * stride], page, node)
            made.append(node)
        if made and top.parent is None:
            if top.namespace not in self._roots:
                self._roots[top.namespace] = top
                self._number(top)
            top.num_first += 1
        for node in made:
            self._number(node)
            self._link(node)
        self._evictable += len(made) * self.page_size
        return made

    def _number(self, node: Any) -> None:
        node.id = self._next_id
        self._next_id += 1

    def _touch(self, path: list[Any]) -> None:
        """The nodes of `path`, the last of the prompt first, are used now: the unlocked ones go to the queue's end."""
        for node in path:
            node.last_used = self._clock
        free = [node for node in path if not node.ref_count]
        self._queue.remove([node for node in free if node.older is not None])
        self._queue.add(free)

    def lock(self, handle: Handle) -> None:
        """Protect every node from the root to `handle` from eviction; locks nest (vLLM's `touch`).

        Raises `LockError` for a handle of another cache, from before a reset, or whose end has been evicted.
        """
        self._require(handle, "lock")
        if handle.node.page is None:
            raise LockError(f"cannot lock {described(handle)}: its end was evicted")
        self._protect(handle, way_to(handle.node))

    def _protect(self, handle: Handle, path: list[Any]) -> None:
        """Lock every node of `path`, which leads to the end of `handle`."""
        free = [node for node in path if not node.ref_count]
        self._queue.remove(free)
        for node in path:
            node.ref_count += 1
        tokens = len(free) * self.page_size
        self._evictable -= tokens
        self._protected += tokens
        super()._protect(handle, path)

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle; what it frees goes to the end of the queue, the deepest node first.

        Raises `LockError` when this handle holds no lock here. (vLLM's `free_blocks` of the blocks, reversed.)
        """
        self._give_back(handle)
        path, freed = way_to(handle.node), 0
        for node in path:
            node.ref_count -= 1
            freed += not node.ref_count
        tokens = freed * self.page_size
        self._evictable += tokens
        self._protected -= tokens
        self._clock += 1
        self._touch(path)

    def evict(self, num_tokens: int) -> Pages:
        """Free nodes from the head of the queue until `num_tokens` tokens are free or none is left; their pages.

        >>> cache = TokenTrie()
        >>> _ = cache.insert([1, 2, 3, 4], [10, 11, 12, 13])
        >>> cache.evict(1).tolist(), cache.evict(100).tolist()
        ([13], [12, 11, 10])
        """
        gone = list(islice(self._queue, -(-min(require_wanted(num_tokens), self._evictable) // self.page_size)))
        pages = array("i", [node.page for node in gone])
        self._queue.remove(gone)
        for node in gone:
            self._unlink(node)
            root = node.parent
            if isinstance(root, PageRoot):
                root.num_first -= 1
                if not root.num_first and root.namespace is not None:
                    self._roots.pop(root.namespace, None)
            node.page = node.parent = None
            node.key_bytes = b""
        self._evictable -= len(gone) * self.page_size
        return np.frombuffer(pages, np.int32)

    def check(self) -> None:
        """Recompute every link, key, lock, size and the queue's order; `InvariantError` names the node."""
        check_nodes(self, self._held, self._queue, self._check_node)
        first = Counter(node.parent for node in self.nodes())
        for root in self.roots.values():
            require(root.num_first == first[root], f"{root}: num_first is {root.num_first}, not {first[root]}")

    def _check_node(self, node: Any) -> None:
        """Check what only this index knows of a node."""
        found = self._child(node.parent, node.key_bytes) is node
        require(found, f"node {node.id}: its tokens do not lead to it")

    def __repr__(self) -> str:
        sizes = f"evictable={self._evictable}, protected={self._protected}"
        return f"{type(self).__name__}(page_size={self.page_size}, {sizes})"
