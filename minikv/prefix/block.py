"""A cached block: one page of tokens, the page number, the key, and its place in the queue."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from minikv.pools.page_table import page_slots
from minikv.prefix.contract import brief
from minikv.tokens import TOKEN_BYTES, PackedTokens

GONE = -1  # the `ref_count` of a block that is no longer cached


class Block:
    """One page of tokens that is cached: `key_run` is its tokens, packed, and `page` the number of its page.

    `parent` is the block in front of it, or the root. `num_hashed_tokens` counts the tokens up to its end, all of which
    are in its `key`. `last_used` is the clock's reading at the last use. `older` and `newer` belong to the queue.
    `twin` is the next block with the same key, which only a collision makes.
    """

    __slots__ = (
        "id", "key", "key_run", "last_used", "newer", "num_hashed_tokens", "older", "page", "parent", "ref_count",
        "twin",
    )  # fmt: skip

    key: Hashable
    older: Any
    newer: Any
    twin: Block | None

    def __init__(
        self, block_id: int, key: Hashable, key_run: bytes, page: int, parent: Block | None, end: int, now: int
    ):
        self.id, self.key, self.key_run = block_id, key, key_run  # three at a time, which makes no tuple
        self.page, self.parent, self.num_hashed_tokens = page, parent, end
        self.last_used, self.ref_count, self.twin = now, 0, None

    @property
    def children(self) -> dict[bytes, Block]:
        """The blocks that follow, by their tokens: found by looking at all, for a block does not know them."""
        root = self
        while root.parent is not None:
            root = root.parent
        if not isinstance(root, BlockRoot):
            return {}
        return {block.key_run: block for block in root.cached if block.parent is self}

    @property
    def key_bytes(self) -> bytes:
        """The tokens of this block, packed."""
        return self.key_run

    @property
    def page_bytes(self) -> bytes:
        """The page of those tokens, packed."""
        return self.pages.tobytes()

    @property
    def tokens(self) -> list[int]:
        """The tokens of this block, as a list of ints."""
        return PackedTokens(self.key_run).tolist()

    @property
    def pages(self) -> array[int]:
        """The page of those tokens: one number."""
        return array("i", [self.page] if self.key_run else [])

    @property
    def slots(self) -> array[int]:
        """The slots of those tokens, one a token, in order."""
        return array("i", page_slots(self.pages, len(self.key_run) // TOKEN_BYTES or 1).tobytes())

    def __repr__(self) -> str:
        held = f"tokens={brief(self.tokens)}, pages={brief(self.pages)}"
        return f"Block(id={self.id}, {held}, ref_count={self.ref_count})"


class BlockRoot(Block):
    """Where the chains of one namespace begin: it holds no tokens, and the state of the hash that they start from.

    `cached` is all blocks of its cache.
    """

    __slots__ = ("cached", "namespace", "num_children", "state")

    def __init__(self, root_id: int, namespace: Hashable, state: Any, cached: Iterable[Block]):
        super().__init__(root_id, None, b"", 0, None, 0, 0)
        self.namespace, self.state, self.cached = namespace, state, cached
        self.num_children = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is cached in this namespace."""
        return not self.num_children


def path_of(block: Block, top: Block | None = None) -> list[Block]:
    """`block` and all in front of it up to below `top` or the root, deepest first."""
    path = []
    while block is not top and block.parent is not None:
        path.append(block)
        block = block.parent
    return path


def unlocked(path: Sequence[Block]) -> Sequence[Block]:
    """The unlocked blocks of `path`, deepest first: no block has fewer locks than those behind it."""
    if not path or not path[-1].ref_count:
        return path
    return [block for block in path if not block.ref_count]
