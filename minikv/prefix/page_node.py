"""A node that stands for one page of tokens, and the check of all nodes of a cache."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from minikv.errors import InvariantError
from minikv.prefix.contract import Handle, brief
from minikv.tokens import TOKEN_BYTES, PackedTokens


class PageNode:
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
    def is_gone(self) -> bool:
        """Whether it has been evicted."""
        return self.page is None

    @property
    def is_empty(self) -> bool:
        """Whether it is a root that nothing follows."""
        return False

    @property
    def tokens(self) -> list[int]:
        """The tokens of this node alone, as a list of ints."""
        return PackedTokens(self.key_bytes).tolist()

    @property
    def pages(self) -> array[int]:
        """The page of those tokens: one number."""
        return array("i", [] if self.parent is None else [self.page])

    @property
    def slots(self) -> array[int]:
        """The slots of those tokens, one per token, in order."""
        size = len(self.tokens)
        return array("i", [page * size + i for page in self.pages for i in range(size)])

    @property
    def path(self) -> list[Any]:
        """This node and all nodes before it but the root, from the last to the first."""
        path, node = [], self
        while node.parent is not None:
            path.append(node)
            node = node.parent
        return path

    def forget(self) -> None:
        """It is evicted: nothing is left but its number."""
        self.page = self.parent = None
        self.key_bytes = b""

    def __repr__(self) -> str:
        held = f"tokens={brief(self.tokens)}, pages={brief(self.pages)}"
        return f"{type(self).__name__}(id={self.id}, {held}, ref_count={self.ref_count})"


def check_nodes(cache: Any, held: Mapping[Handle, int], queue: Any) -> None:
    """Raise `InvariantError` for the first fact of `cache` that does not agree with its nodes.

    `held` are the locks on its handles, and `queue` is the ring of unlocked nodes.

    >>> from minikv import TokenTrie
    >>> cache = TokenTrie()
    >>> cache.insert([1, 2], [0, 1]).node.ref_count = 3
    >>> cache.check()
    Traceback (most recent call last):
    minikv.errors.InvariantError: node 2: ref_count is 3, but the locks on its path make 0
    """
    nodes, locks = dict.fromkeys(cache.nodes()), Counter[PageNode]()
    _check_places(cache, nodes)
    for handle, count in held.items():
        require(count > 0 and handle.node.end == handle.length, f"{handle} is kept as holding {count} locks")
        locks.update(dict.fromkeys(handle.node.path, count))
    for node in nodes:
        expected = locks.pop(node, 0)
        said = f"node {node.id}: ref_count is {node.ref_count}, but the locks on its path make {expected}"
        require(node.ref_count == expected, said)
    require(not locks, f"nodes {brief(sorted(node.id for node in locks))} are locked, but not cached")
    _check_queue(cache, nodes, queue)


def _check_places(cache: Any, nodes: Mapping[PageNode, Any]) -> None:
    """Each node is one page after a root or a node that is cached, and no number or page is there twice."""
    roots = cache.roots.values()
    known, ids, holder = {*nodes, *roots}, {root.id for root in roots}, dict[int, int]()
    for node in nodes:
        name, parent = f"node {node.id}", node.parent
        require(parent in known, f"{name}: the node before it is not cached")
        require(node.end == parent.end + cache.page_size, f"{name}: ends at {node.end}, its parent at {parent.end}")
        require(len(node.tokens) == cache.page_size, f"{name}: has {len(node.tokens)} tokens, not a page")
        require(node.page not in holder, f"page {node.page} is cached in nodes {holder.get(node.page)} and {node.id}")
        require(node.id not in ids, f"{name}: another node has its id")
        holder[node.page] = node.id
        ids.add(node.id)


def _check_queue(cache: Any, nodes: Mapping[PageNode, Any], queue: Any) -> None:
    """All unlocked nodes are in the queue, by their last use and then the deepest first."""
    free = sorted((node for node in nodes if not node.ref_count), key=lambda node: (node.last_used, -node.end))
    for before, after in pairwise([queue, *free, queue]):
        linked = before.newer is after and after.older is before
        require(linked, f"the queue is not in the order of the last use, the deepest node first, at {after}")
    size = cache.page_size
    sizes, expected = (cache.evictable_size, cache.total_size), (len(free) * size, len(nodes) * size)
    require(sizes == expected, f"evictable_size and total_size are {sizes}, the nodes hold {expected} tokens")


def require(holds: bool, message: str) -> None:
    """Raise `InvariantError` with this message unless it holds."""
    if not holds:
        raise InvariantError(message)
