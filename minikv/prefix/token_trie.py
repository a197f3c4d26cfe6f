"""The token trie: the simplest index that works. One node a token, and one slot a node.

There is no edge to compare and none to split: a step down is a lookup in a dictionary, and two prompts part at a node
that is there already. So the whole index is a walk, and everything else follows from it. What it costs is a node for
each token: hundreds of bytes and most of a microsecond, where the radix tree pays for a page number and a memcmp.

With pages of more than one token a node stands for a page. Unlocked nodes stand in a ring from least to most recently
used, the deepest of a path first, so the oldest is always a leaf.

After the prefix cache of AstrAI, which calls itself a radix tree; its other half, in which a whole sequence has one
slot, is `RowCache`. Unlike the original it locks whole paths, evicts leaves, and ends. It may be used by one thread at
a time; a `CacheManager` takes care of that.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from minikv.errors import LockError, whole_number
from minikv.pools.contract import Pages
from minikv.prefix.contract import (
    Handle,
    Insertion,
    Match,
    PagesLike,
    page_bytes,
    require_limit,
)
from minikv.prefix.eviction import LeastRecentlyUsed
from minikv.prefix.namespaces import Roots
from minikv.prefix.receipts import Receipts, told
from minikv.tokens import TOKEN_BYTES, TokensLike, pack

TrieKey = int | tuple[int, ...]  # a token, or the tokens of a page
_GONE = -1  # the `ref_count` of a node that is no longer in the trie


class TrieNode:
    """One token, or one page of them, its page, and how many locks pass through.

    `end` is how many tokens lead to it from the root, its own among them. `last_used` is the clock's reading at the
    last use; `older` and `newer` belong to the ring.
    """

    __slots__ = (
        "children", "end", "id", "key", "last_used", "newer", "older", "page", "parent", "ref_count"
    )  # fmt: skip

    def __init__(self, node_id: int, key: TrieKey, page: int, parent: TrieNode | None, end: int):
        self.id, self.key, self.page, self.parent, self.end = node_id, key, page, parent, end
        self.children: dict[TrieKey, TrieNode] = {}
        self.ref_count = self.last_used = 0
        self.older: Any = None
        self.newer: Any = None

    @property
    def tokens(self) -> list[int]:
        """The tokens of this node alone: one, or those of its page."""
        if self.parent is None:
            return []
        return list(self.key) if isinstance(self.key, tuple) else [self.key]

    @property
    def pages(self) -> array[int]:
        """The page of those tokens."""
        return array("i", [] if self.parent is None else [self.page])

    @property
    def slots(self) -> array[int]:
        """The slots of those tokens, one a token."""
        size = len(self.tokens)
        return array("i", range(self.page * size, (self.page + 1) * size))

    def __repr__(self) -> str:
        return f"TrieNode(id={self.id}, tokens={self.tokens}, page={self.page}, ref_count={self.ref_count})"


class TrieRoot(TrieNode):
    """Where the prompts of one namespace begin; it has no token and is never evicted itself."""

    __slots__ = ("namespace",)

    def __init__(self, namespace: Hashable):
        super().__init__(0, (), -1, None, 0)
        self.namespace = namespace

    @property
    def is_empty(self) -> bool:
        """Whether nothing is cached in this namespace."""
        return not self.children


_NOTHING = TrieRoot(None)  # where an empty match ends; nothing is ever hung on it


class TokenTrie:
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

    claims = frozenset(range(1, 16)) - {14}

    def __init__(self, page_size: int = 1):
        self.page_size = whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        self._receipts = Receipts()
        self._clear()

    def _clear(self) -> None:
        self._evictable = self._protected = self._clock = 0  # sizes in pages
        self._ring = LeastRecentlyUsed()
        self._next_id = 1
        self._roots = Roots(TrieRoot(None))

    # -- looking at it ----------------------------------------------------------------------------------------------

    @property
    def evictable_size(self) -> int:
        """Tokens that `evict` could free now."""
        return self._evictable * self.page_size

    @property
    def protected_size(self) -> int:
        """Tokens held by locks."""
        return self._protected * self.page_size

    @property
    def total_size(self) -> int:
        """Tokens cached: evictable + protected."""
        return (self._evictable + self._protected) * self.page_size

    @property
    def roots(self) -> Mapping[Hashable, TrieNode]:
        """The root of every namespace that holds something, and the default one; read only."""
        return self._roots.by_name

    def nodes(self) -> Iterator[TrieNode]:
        """Every node but the roots, parents before children."""
        stack = [child for root in self.roots.values() for child in root.children.values()][::-1]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children.values()))

    # -- find -------------------------------------------------------------------------------------------------------

    def match_prefix(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """The longest cached page-aligned prefix of `tokens`, of at most `limit` tokens; refreshes its recency.

        >>> cache = TokenTrie(page_size=2)
        >>> _ = cache.insert([1, 2, 3, 4], [6, 7])
        >>> cache.match_prefix([1, 2, 3, 4]), cache.match_prefix([1, 2, 3, 4], limit=3)
        (Match(length=4, pages=[6, 7]), Match(length=2, pages=[6]))
        """
        match, path = self._find(tokens, limit, namespace)
        self._ring.touch(_unlocked(path))
        return match

    def acquire(self, tokens: TokensLike, *, limit: int | None = None, namespace: Hashable = None) -> Match:
        """`match_prefix` and `lock` in one act.

        >>> cache = TokenTrie()
        >>> _ = cache.insert([1, 2], [6, 7])
        >>> cache.acquire([1, 5]); cache.protected_size
        Match(length=1, pages=[6])
        1
        """
        match, path = self._find(tokens, limit, namespace)
        self._protect(match, path)
        return match

    def _find(self, tokens: TokensLike, limit: int | None, namespace: Hashable) -> tuple[Match, list[TrieNode]]:
        """The match and its path, deepest first, which is used now."""
        keys = self._keys(tokens, limit)
        path = _walk(self._root_of(namespace), keys)[::-1]
        self._use(path)
        end = path[0] if path else _NOTHING
        numbers = array("i", [node.page for node in reversed(path)])
        return Match(self._receipts.epoch, end, end.end, namespace, None, (numbers.tobytes(),)), path

    def _keys(self, tokens: TokensLike, limit: int | None = None) -> list[TrieKey]:
        """The keys of the whole pages of the first `limit` tokens: the tokens, or the tuples of a page."""
        data, size = pack(tokens).data, self.page_size
        count = require_limit(limit, len(data) // TOKEN_BYTES) // size
        numbers: list[Any] = memoryview(data)[: count * size * TOKEN_BYTES].cast("I").tolist()
        return numbers if size == 1 else list(zip(*[iter(numbers)] * size))

    def _root_of(self, namespace: Hashable) -> TrieRoot:
        """Where to begin; a namespace that holds nothing has a root that is not kept."""
        return self._roots.find(namespace) or TrieRoot(namespace)

    def _use(self, path: list[TrieNode]) -> None:
        self._clock += 1
        for node in path:
            node.last_used = self._clock

    # -- insert -----------------------------------------------------------------------------------------------------

    def insert(
        self, tokens: TokensLike, pages: PagesLike, *, namespace: Hashable = None, start: Handle | None = None
    ) -> Insertion:
        """Cache the whole pages of `tokens`, whose keys and values lie in `pages`.

        Tokens already cached keep the pages they have. With `start`, a locked handle of a prefix of `tokens`, the walk
        goes on from there, and its pages in `pages` are not looked at.

        >>> cache = TokenTrie()
        >>> _ = cache.insert([1, 2, 3], [0, 1, 2])
        >>> cache.insert([1, 2, 4], [7, 8, 9])      # pages 7 and 8 are the caller's to free
        Insertion(prefix_length=2, length=3)
        """
        packed = pack(tokens)
        keys = self._keys(packed)
        top = self._root_of(namespace) if start is None else self._start_of(start, keys, namespace)
        skip = top.end // self.page_size
        new = array("i", page_bytes(pages, len(packed), self.page_size, skip))
        found = _walk(top, keys[skip:])
        there = skip + len(found)
        path = [*found, *self._grow(found[-1] if found else top, keys[there:], new[len(found) :])][::-1]
        self._use(path)
        self._ring.touch(_unlocked(path))
        end = path[0] if path else top
        return Insertion(
            self._receipts.epoch, end, len(keys) * self.page_size, namespace, prefix_length=there * self.page_size
        )

    def _grow(self, node: TrieNode, keys: list[TrieKey], pages: array[int]) -> list[TrieNode]:
        """Add a node below `node` for each of `keys`; they stand in the ring, in no order yet."""
        if not keys:
            return []
        if isinstance(node, TrieRoot):
            self._roots.add(node)
        made = []
        for key, page in zip(keys, pages):
            child = TrieNode(self._next_id, key, page, node, node.end + self.page_size)
            self._next_id += 1
            node.children[key] = child
            made.append(child)
            node = child
        self._ring.add(made)
        self._evictable += len(made)
        return made

    def _start_of(self, start: Handle, keys: list[TrieKey], namespace: Hashable) -> TrieNode:
        """The node of `start`, which must be locked, in this namespace, and a prefix of the tokens."""
        self._receipts.require_start(start, namespace)
        if not start.length:
            return self._root_of(namespace)
        before = [node.key for node in reversed(_path_of(start.node))]
        if keys[: len(before)] != before:
            raise ValueError(f"start is not a prefix of the tokens: they part before tokens[{start.length}]")
        found: TrieNode = start.node
        return found

    # -- lock -------------------------------------------------------------------------------------------------------

    def lock(self, handle: Handle) -> None:
        """Protect every node from the root to `handle`; locks nest.

        Raises `LockError` for a handle of another cache, from before a reset, or whose end has been evicted.
        """
        self._receipts.require(handle, "lock")
        if handle.node.ref_count == _GONE:
            raise LockError(f"cannot lock {told(handle)}: its end was evicted")
        self._protect(handle, _path_of(handle.node))

    def _protect(self, handle: Handle, path: list[TrieNode]) -> None:
        newly = _unlocked(path)
        for node in path:
            node.ref_count += 1
        self._ring.remove(newly)
        self._evictable -= len(newly)
        self._protected += len(newly)
        self._receipts.take(handle)

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle; what it frees becomes the most recently used.

        Raises `LockError` when this handle holds no lock here.
        """
        self._receipts.require_lock(handle, "unlock")
        self._receipts.give_back(handle)
        path = _path_of(handle.node)
        self._use(path)
        for node in path:
            node.ref_count -= 1
        freed = _unlocked(path)
        self._ring.add(freed)
        self._evictable += len(freed)
        self._protected -= len(freed)

    # -- evict ------------------------------------------------------------------------------------------------------

    def evict(self, num_tokens: int) -> Pages:
        """Free unlocked leaves until at least `num_tokens` tokens are free or none is left; return their pages.

        >>> cache = TokenTrie()
        >>> _ = cache.insert([1, 2, 3, 4], [10, 11, 12, 13])
        >>> cache.evict(1).tolist(), cache.evict(100).tolist()
        ([13], [12, 11, 10])
        """
        wanted = -(-whole_number("num_tokens", num_tokens, 0, "evict frees 0 tokens or more") // self.page_size)
        freed = array("i")
        while len(freed) < wanted and (leaf := self._ring.first()) is not None:
            self._ring.remove((leaf,))
            self._remove_leaf(leaf)
            freed.append(leaf.page)
        self._evictable -= len(freed)
        return np.frombuffer(freed, np.int32)

    def _remove_leaf(self, leaf: TrieNode) -> None:
        """Unlink a leaf from its parent, and a root that holds nothing any more from its namespace."""
        parent: TrieNode = leaf.parent  # type: ignore[assignment]
        del parent.children[leaf.key]
        leaf.ref_count = _GONE
        if not parent.children and isinstance(parent, TrieRoot):
            self._roots.drop(parent)

    # -- the rest ---------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget everything, so that all handles are stale; `LockError` while any is locked."""
        self._receipts.forget(self.protected_size)
        self._clear()

    def check(self) -> None:
        """Recompute every size, link, order and lock from scratch; `InvariantError` names the node and the numbers."""
        from minikv.prefix.trie_check import check_trie

        check_trie(self)

    def __repr__(self) -> str:
        sizes = f"evictable={self.evictable_size}, protected={self.protected_size}"
        return f"TokenTrie(page_size={self.page_size}, {sizes})"


def _walk(node: TrieNode, keys: list[TrieKey]) -> list[TrieNode]:
    """The nodes below `node` that `keys` lead through, top down, as far as they are there."""
    path = []
    for key in keys:
        child = node.children.get(key)
        if child is None:
            break
        path.append(child)
        node = child
    return path


def _path_of(node: TrieNode) -> list[TrieNode]:
    """`node` and all above it but the root, deepest first."""
    path = []
    while (parent := node.parent) is not None:
        path.append(node)
        node = parent
    return path


def _unlocked(path: list[TrieNode]) -> list[TrieNode]:
    """The unlocked nodes of `path`, deepest first: no node has fewer locks than those below it."""
    if not path or not path[-1].ref_count:
        return path
    return [node for node in path if not node.ref_count]
