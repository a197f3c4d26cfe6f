"""A cached block as it is shown: one page of tokens, its page number, its key, and how it is used."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from minikv.prefix.contract import brief
from minikv.tokens import TOKEN_BYTES, PackedTokens

if TYPE_CHECKING:
    from minikv.prefix.block_run import BlockRun

GONE = -1  # the `ref_count` of a block that is no longer cached


class Block:
    """One page of tokens that is cached, as the block at `index` of its `run`, which keeps its facts.

    There is at most one such object for a block, with an `id`: its number in the order in which blocks were cached.
    Once the block is evicted it has no key, page, tokens or parent, whatever comes in its place.

    >>> from minikv import HashBlockCache
    >>> block = HashBlockCache(page_size=2).insert([1, 2, 3, 4], [7, 8]).node
    >>> block, block.num_hashed_tokens, block.parent.tokens
    (Block(id=2, tokens=[3, 4], pages=[8], ref_count=0), 4, [1, 2])
    """

    __slots__ = ("id", "index", "run")

    def __init__(self, run: BlockRun, index: int, block_id: int):
        self.run, self.index, self.id = run, index, block_id

    @property
    def root(self) -> BlockRoot:
        """The root of its namespace."""
        return self.run.root

    @property
    def count(self) -> int:
        """How many blocks of its run lead to its end: itself, and those in front of it."""
        return self.index + 1

    @property
    def is_gone(self) -> bool:
        """Whether it has been evicted, even if another block is in its place now."""
        return self.run.blocks.get(self.index) is not self

    @property
    def key(self) -> Hashable:
        """The hash of all tokens up to its end."""
        return None if self.is_gone else self.run.keys[self.index]

    @property
    def page(self) -> int | None:
        """The number of its page."""
        return None if self.is_gone else self.run.pages[self.index]

    @property
    def num_hashed_tokens(self) -> int:
        """How many tokens the key covers."""
        return (self.run.first + self.count) * self.run.stride // TOKEN_BYTES

    @property
    def parent(self) -> Block | BlockRoot | None:
        """The block in front of it, or the root."""
        if self.is_gone:
            return None
        if self.index:
            return self.run.block(self.index - 1)
        return self.root if self.run.above is None else self.run.above.block(self.run.above_count - 1)

    @property
    def children(self) -> dict[bytes, Block]:
        """The blocks that follow, by their tokens: found by looking at all runs, for a block does not know them."""
        if self.is_gone:
            return {}
        found = [self.run.block(self.count)] if self.count < len(self.run.keys) else []
        return _by_tokens([*found, *self.root.blocks_behind(self.run, self.count)])

    @property
    def ref_count(self) -> int:
        """How many locks hold it, or `GONE`."""
        return GONE if self.is_gone else self.run.locks_on(self.index)

    @property
    def last_used(self) -> int:
        """The clock's reading at its last use; of a locked block, at some use before; of one that is gone, 0."""
        return 0 if self.is_gone else self.run.last_used(self.index)

    @property
    def key_bytes(self) -> bytes:
        """The tokens of this block, packed."""
        return b"" if self.is_gone else self.run.tokens_at(self.index)

    @property
    def page_bytes(self) -> bytes:
        """The page of those tokens, packed."""
        return self.pages.tobytes()

    @property
    def tokens(self) -> list[int]:
        """The tokens of this block, as a list of ints."""
        return PackedTokens(self.key_bytes).tolist()

    @property
    def pages(self) -> array[int]:
        """The page of those tokens: one number."""
        return array("i") if self.is_gone else self.run.pages[self.index : self.count]

    @property
    def slots(self) -> array[int]:
        """The slots of those tokens, one a token, in order."""
        size = self.run.stride // TOKEN_BYTES
        return array("i", [slot for page in self.pages for slot in range(page * size, (page + 1) * size)])

    def __repr__(self) -> str:
        held = f"tokens={brief(self.tokens)}, pages={brief(self.pages)}"
        return f"Block(id={self.id}, {held}, ref_count={self.ref_count})"


class BlockRoot:
    """Where the chains of one namespace begin: it holds no tokens, but the state of the hash that they start from.

    `runs` are all runs of blocks of the namespace, in the order in which they were begun.
    """

    __slots__ = ("id", "namespace", "runs", "state")
    parent = run = None
    count = num_hashed_tokens = ref_count = last_used = 0
    is_gone = False
    key_bytes = page_bytes = b""

    def __init__(self, root_id: int, namespace: Hashable, state: Any):
        self.id, self.namespace, self.state = root_id, namespace, state
        self.runs: dict[BlockRun, None] = {}

    @property
    def root(self) -> BlockRoot:
        """Itself."""
        return self

    @property
    def is_empty(self) -> bool:
        """Whether nothing is cached in this namespace."""
        return not self.runs

    @property
    def children(self) -> dict[bytes, Block]:
        """The first blocks of all prompts, by their tokens."""
        return _by_tokens(self.blocks_behind(None, 0))

    @property
    def tokens(self) -> list[int]:
        """None."""
        return []

    @property
    def pages(self) -> array[int]:
        """None."""
        return array("i")

    slots = pages

    def blocks_behind(self, run: BlockRun | None, count: int) -> list[Block]:
        """The first block of every run that goes on behind the first `count` blocks of `run`, or behind the root."""
        return [other.block(0) for other in self.runs if other.above is run and other.above_count == count]

    def __repr__(self) -> str:
        return f"BlockRoot(id={self.id}, {len(self.runs)} runs)"


def _by_tokens(blocks: list[Block]) -> dict[bytes, Block]:
    return {block.key_bytes: block for block in sorted(blocks, key=lambda block: block.id)}
