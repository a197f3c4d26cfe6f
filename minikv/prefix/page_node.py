"""A node that stands for one page of tokens."""

from __future__ import annotations

from array import array
from typing import Any

from minikv.prefix.base_index import way_to
from minikv.prefix.contract import brief
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
        return way_to(self)

    def forget(self) -> None:
        """It is evicted: nothing is left but its number."""
        self.page = self.parent = None
        self.key_bytes = b""

    def __repr__(self) -> str:
        held = f"tokens={brief(self.tokens)}, pages={brief(self.pages)}"
        return f"{type(self).__name__}(id={self.id}, {held}, ref_count={self.ref_count})"
