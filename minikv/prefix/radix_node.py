"""A node of the radix tree: what it holds, and how to visit all of them."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from minikv.prefix.contract import brief
from minikv.tokens import PackedTokens


class RadixNode:
    """One edge of the tree and the node at its end: `tokens`, their `slots`, and how many locks pass through.

    `key` and `slot_bytes` are those two as they are stored, four bytes each and never changed in place. `end` is the
    depth in tokens at which the edge ends. For the eviction policies: `created` and `last_used` are the clock's
    readings when it was cached and used last, `hits` the matches and inserts that went through it, `priority` the
    largest of theirs. `older` and `newer` belong to the eviction order.
    """

    __slots__ = (
        "children", "created", "end", "hits", "id", "key", "last_used", "newer", "older", "parent", "priority",
        "ref_count", "slot_bytes",
    )  # fmt: skip

    def __init__(
        self,
        node_id: int,
        key: bytes,
        slot_bytes: bytes,
        parent: RadixNode | None,
        end: int,
        now: int = 0,
        hits: int = 0,
    ):
        self.id, self.key, self.slot_bytes, self.parent, self.end = node_id, key, slot_bytes, parent, end
        self.children: dict[bytes, RadixNode] = {}
        self.ref_count = self.priority = 0
        self.created = self.last_used = now
        self.hits = hits
        self.older: Any = None
        self.newer: Any = None

    @property
    def tokens(self) -> list[int]:
        """The tokens on this edge, as a list of ints."""
        return PackedTokens(self.key).tolist()

    @property
    def slots(self) -> array[int]:
        """The slots of those tokens, in order."""
        return array("i", self.slot_bytes)

    def __repr__(self) -> str:
        held = f"tokens={brief(self.tokens)}, slots={brief(self.slots)}"
        return f"RadixNode(id={self.id}, {held}, ref_count={self.ref_count})"


class RadixRoot(RadixNode):
    """Where the prompts of one namespace begin; it holds no tokens and is never evicted by name."""

    __slots__ = ("namespace",)

    def __init__(self, node_id: int, namespace: Hashable):
        super().__init__(node_id, b"", b"", None, 0)
        self.namespace = namespace


def below(roots: Iterable[RadixNode]) -> Iterator[RadixNode]:
    """Every node below `roots`, parents before children, siblings in the order in which they came."""
    stack = [child for root in roots for child in root.children.values()][::-1]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children.values()))
