"""The tree of all prompts of a log: each text that several begin with is held once.

A radix tree over bytes. An edge holds text, a node counts the prompts that pass it and knows the latest one. So one
walk says how much of a prompt an unlimited cache would have reused, and which earlier prompt shares the most.
"""

from __future__ import annotations

from collections.abc import Iterator

from minikv.traffic.why.texts import shared_length


class PromptNode:
    """A piece of text that `count` prompts have in common; `latest` is the last of them that came."""

    __slots__ = ("children", "count", "latest", "text")

    def __init__(self, text: bytes, latest: int, count: int = 1):
        self.text, self.latest, self.count = text, latest, count
        self.children: dict[int, PromptNode] = {}

    def __repr__(self) -> str:
        return f"PromptNode({self.text[:20]!r}, count={self.count}, children={len(self.children)})"


class PromptTree:
    """Prompts by what they begin with; `size` is how many bytes are held.

    >>> tree = PromptTree()
    >>> tree.insert(b"Be brief. Why?", 0), tree.insert(b"Be brief. How?", 1), tree.insert(b"Be kind.", 2)
    ((0, None), (10, 0), (3, 1))
    >>> tree.size
    23
    """

    def __init__(self) -> None:
        self.root = PromptNode(b"", -1, 0)
        self.size = 0

    def insert(self, text: bytes, number: int) -> tuple[int, int | None]:
        """Add prompt `number`; returns how many bytes it shares with earlier ones, and the latest that shares them."""
        node, position, latest = self.root, 0, None
        node.count += 1
        while position < len(text) and (child := node.children.get(text[position])) is not None:
            latest = child.latest
            shared = self._shared(child.text, text, position)
            if shared < len(child.text):
                child = self._split(node, child, shared)
            child.latest, child.count = number, child.count + 1
            node, position = child, position + shared
        if position < len(text):
            node.children[text[position]] = PromptNode(text[position:], number)
            self.size += len(text) - position
        return position, latest

    @staticmethod
    def _shared(edge: bytes, text: bytes, position: int) -> int:
        if text.startswith(edge, position):
            return len(edge)
        return shared_length(edge, text[position : position + len(edge)])

    @staticmethod
    def _split(parent: PromptNode, child: PromptNode, at: int) -> PromptNode:
        """Cut the edge of `child` after `at` bytes; returns the new node above it."""
        upper = PromptNode(child.text[:at], child.latest, child.count)
        parent.children[upper.text[0]] = upper
        child.text = child.text[at:]
        upper.children[child.text[0]] = child
        return upper

    def check(self) -> None:
        """Raise `InvariantError` if a count, an edge or the size is wrong."""
        from minikv.errors import InvariantError

        held = 0
        for node in self.nodes():
            held += len(node.text)
            passing = sum(child.count for child in node.children.values())
            firsts = [child.text[:1] for child in node.children.values()]
            if passing > node.count or firsts != [bytes([first]) for first in node.children]:
                raise InvariantError(f"PromptTree: {node} has children of {passing} prompts, or a wrong first byte")
        if held != self.size:
            raise InvariantError(f"PromptTree: size is {self.size}, but {held} bytes are held")

    def nodes(self) -> Iterator[PromptNode]:
        """All nodes, the root first."""
        left = [self.root]
        while left:
            node = left.pop()
            yield node
            left.extend(node.children.values())
