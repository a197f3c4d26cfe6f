"""A trie as AstrAI had it, for the experiments of chapter 09."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from minikv.testing.attempt import attempt


class OrderedNode:
    """A token of an `OrderedTrie`: the row of its prefix, and how many requests have pinned it."""

    def __init__(self) -> None:
        self.children: dict[int, OrderedNode] = {}
        self.row, self.pins = -1, 0


class OrderedTrie:
    """A trie after AstrAI's: all nodes in one ordered dictionary, from which the oldest goes.

    >>> trie = OrderedTrie(capacity=10)
    >>> trie.insert([1, 2, 3], row=0)
    >>> trie.find([1, 2, 9])
    2
    """

    def __init__(self, capacity: int):
        self.root, self.capacity = OrderedNode(), capacity
        self.order: OrderedDict[OrderedNode, None] = OrderedDict()

    def insert(self, tokens: Sequence[int], row: int = 0) -> None:
        """Let every node of `tokens` name `row`, and pin the last one."""
        node = self.root
        for token in tokens:
            node = node.children.setdefault(token, OrderedNode())
            node.row = row
            self.order[node] = None
        node.pins += 1
        while len(self.order) > self.capacity:
            oldest = next(iter(self.order))
            if oldest.pins:
                self.order.move_to_end(oldest)
            else:
                del self.order[oldest]
                oldest.children.clear()

    def find(self, tokens: Sequence[int]) -> int:
        """How many tokens are there; they are used now."""
        path = self.path(tokens)
        for node in path:
            self.order.move_to_end(node)
        return len(path)

    def release(self, tokens: Sequence[int]) -> None:
        """Take a pin off the last node."""
        path = self.path(tokens)
        if len(path) == len(tokens) and path[-1].pins:
            path[-1].pins -= 1

    def path(self, tokens: Sequence[int]) -> list[OrderedNode]:
        """The nodes of `tokens`, as far as they are there."""
        found = [self.root]
        for token in tokens:
            if token not in found[-1].children:
                break
            found.append(found[-1].children[token])
        return found[1:]


def outcome(*steps: tuple[str, Sequence[int]]) -> str:
    """What comes of `steps`, pairs of a verb and tokens, in an `OrderedTrie` with room for three nodes.

    It is the number that the last step found, or the name of the error; a second is time enough.

    >>> outcome(("insert", [1, 2]), ("find", [1, 2, 3])), outcome(*(("insert", [token]) for token in range(4)))
    ('found 2', 'TooLong')
    """
    trie = OrderedTrie(capacity=3)
    found = attempt(lambda: [getattr(trie, verb)(tokens) for verb, tokens in steps][-1], seconds=1.0)
    return f"found {found.value}" if found.error is None else type(found.error).__name__
