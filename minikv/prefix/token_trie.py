"""The token trie: the simplest index that works. One node per token, and one slot per node.

There is no edge to compare and none to split: a step down is a lookup in a dictionary, and two prompts part at a node
that is there already. So the whole index is a walk, and everything else follows from it (`page_cache.py`). What it
costs is a node for each token: hundreds of bytes and most of a microsecond, where the radix tree pays for a page number
and a memcmp. With pages of more than one token, a node is a page.

After the prefix cache of AstrAI, which calls itself a radix tree; its other half, in which a whole sequence has one
slot, is the `RowTrie` of chapter 09 (`minikv.engine`). Unlike the original it locks whole paths, evicts leaves, and
ends. It may be used by one thread at a time; a `CacheManager` takes care of that.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from minikv.prefix.page_cache import PageNode, PageNodeCache


class TrieNode(PageNode):
    """One token, or one page of them, its page, and how many locks pass through; it knows the nodes that follow it."""

    __slots__ = ("children",)

    def __init__(self, number: int, key_bytes: bytes, page: int, parent: TrieNode | None):
        super().__init__(number, key_bytes, page, parent)
        self.children: dict[bytes, TrieNode] = {}


class TrieRoot(TrieNode):
    """The root of one namespace; it has no token and is never evicted itself."""

    __slots__ = ("namespace",)

    def __init__(self, number: int, namespace: Hashable):
        super().__init__(number, b"", -1, None)
        self.namespace = namespace

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is cached in this namespace."""
        return not self.children


class TokenTrie(PageNodeCache):
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

    node_class: type[TrieNode] = TrieNode

    def _new_root(self, number: int, namespace: Hashable) -> TrieRoot:
        return TrieRoot(number, namespace)

    def _follow(self, node: TrieNode, data: bytes) -> list[TrieNode]:
        found, stride = list[TrieNode](), self._stride
        for at in range(0, len(data) - stride + 1, stride):
            child = node.children.get(data[at : at + stride])
            if child is None:
                break
            found.append(child)
            node = child
        return found

    def _keys(self, node: TrieNode, texts: list[bytes]) -> list[bytes]:
        return texts

    def _make(self, key: bytes, text: bytes, page: int, parent: Any) -> TrieNode:
        node = parent.children[key] = self.node_class(self._next_id, text, page, parent)
        return node

    def _unlink(self, node: Any) -> None:
        del node.parent.children[node.key_bytes]
