"""The tree of chapters 03 to 05, as a class with the five verbs: what `minikv bench` races against.

Everything is done in the way that one would first write it down, and as most engines did: edges are lists of ints,
compared token by token in Python; every eviction visits the whole tree to find the leaves and makes a heap of them.
It is correct, and it has path locks and exact sizes; it has no pages, no namespaces and no checks of its input.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any


class TextbookNode:
    """One edge of the tree and the node at its end, in plain lists."""

    def __init__(self, tokens: list[int], slots: list[int], parent: TextbookNode | None):
        self.tokens, self.slots, self.parent = tokens, slots, parent
        self.children: dict[int, TextbookNode] = {}
        self.ref_count = self.last_used = 0

    def __lt__(self, other: TextbookNode) -> bool:
        return self.last_used < other.last_used


class TextbookFound:
    """What a match or an insert gives back, by the names that `PrefixCache` uses."""

    def __init__(self, length: int, prefix_length: int, slots: list[int], handle: TextbookNode):
        self.length, self.prefix_length, self.slots, self.handle = length, prefix_length, slots, handle


class TextbookCache:
    """The textbook tree: match, insert, lock, unlock and evict, as the notebooks build them.

    >>> cache = TextbookCache()
    >>> _ = cache.insert([1, 2, 3], [0, 1, 2])
    >>> cache.match_prefix([1, 2, 9]).slots, cache.evict(1), cache.evictable_size
    ([0, 1], [2], 2)
    """

    def __init__(self) -> None:
        self.root = TextbookNode([], [], None)
        self.clock = self.evictable_size = self.protected_size = 0

    def match_prefix(self, tokens: list[int]) -> TextbookFound:
        """The longest cached prefix; its path is the most recently used now."""
        node, length = self._walk(tokens)
        slots = [slot for step in reversed(list(self._path(node))) for slot in step.slots]
        self._use(node)
        return TextbookFound(length, length, slots, node)

    def insert(self, tokens: list[int], slots: Any) -> TextbookFound:
        """Cache `tokens` in `slots`; those already there keep the slots they have."""
        node, there = self._walk(tokens)
        if there < len(tokens):
            leaf = TextbookNode(list(tokens[there:]), list(slots[there:]), node)
            node.children[leaf.tokens[0]] = leaf
            self.evictable_size += len(leaf.tokens)
            node = leaf
        self._use(node)
        return TextbookFound(len(tokens), there, [], node)

    def lock(self, node: TextbookNode) -> None:
        """One more request uses the path to `node`."""
        for step in self._path(node):
            if step.ref_count == 0:
                self._protect(len(step.tokens))
            step.ref_count += 1

    def unlock(self, node: TextbookNode) -> None:
        """One request fewer uses the path to `node`."""
        for step in self._path(node):
            step.ref_count -= 1
            if step.ref_count == 0:
                self._protect(-len(step.tokens))
        self._use(node)

    def evict(self, num_tokens: int) -> list[int]:
        """Free unlocked leaves, least recently used first: visit every node, make a heap of the leaves, pop."""
        heap, freed = [node for node in self._nodes() if not node.children and node.ref_count == 0], list[int]()
        heapq.heapify(heap)
        while heap and len(freed) < num_tokens:
            leaf = heapq.heappop(heap)
            parent = leaf.parent
            assert parent is not None
            del parent.children[leaf.tokens[0]]
            freed += leaf.slots
            if parent.parent is not None and not parent.children and parent.ref_count == 0:
                heapq.heappush(heap, parent)
        self.evictable_size -= len(freed)
        return freed

    def _protect(self, num_tokens: int) -> None:
        self.evictable_size -= num_tokens
        self.protected_size += num_tokens

    def _walk(self, tokens: list[int]) -> tuple[TextbookNode, int]:
        node, at = self.root, 0
        while at < len(tokens) and tokens[at] in node.children:
            child, same = node.children[tokens[at]], 0
            for mine, theirs in zip(child.tokens, tokens[at:]):
                if mine != theirs:
                    break
                same += 1
            at += same
            if same < len(child.tokens):
                return self._split(child, same), at
            node = child
        return node, at

    def _split(self, node: TextbookNode, at: int) -> TextbookNode:
        parent = node.parent
        assert parent is not None
        upper = TextbookNode(node.tokens[:at], node.slots[:at], parent)
        upper.ref_count, upper.last_used = node.ref_count, node.last_used
        parent.children[upper.tokens[0]] = upper
        node.tokens, node.slots, node.parent = node.tokens[at:], node.slots[at:], upper
        upper.children[node.tokens[0]] = node
        return upper

    def _use(self, node: TextbookNode) -> None:
        self.clock += 1
        for step in self._path(node):
            step.last_used = self.clock

    def _path(self, node: TextbookNode) -> Iterator[TextbookNode]:
        while node.parent is not None:
            yield node
            node = node.parent

    def _nodes(self) -> Iterator[TextbookNode]:
        stack = list(self.root.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack += node.children.values()
