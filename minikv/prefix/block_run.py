"""A run of blocks: what was cached in one go, or in several behind each other, is kept in one piece.

A thousand blocks of a prompt are matched, locked and freed together, so a thousand objects would say the same a
thousand times. A run keeps the keys, the tokens and the pages of its blocks as four arrays, and where a use or a lock
ends as a position. It is never split and never joined: a prompt that leaves it in the middle begins a run of its own.

    run 1   [ a ][ b ][ c ][ d ]          locks on its first 2 blocks, last used as [ a b ] and [ c d ]
                   |
    run 2          [ x ][ y ]             above: run 1, the first 2 blocks

It grows and shrinks at its end alone: of what was used together the last block is evicted first.
"""

from __future__ import annotations

from array import array
from bisect import bisect
from collections.abc import Hashable, Sequence
from operator import itemgetter
from typing import Any

from minikv.prefix.block import Block, BlockRoot
from minikv.prefix.block_hash import HashState
from minikv.tokens import common_bytes

RunPath = list[tuple["BlockRun", int]]  # a prefix: its runs, and how many blocks of each, deepest first


class Use:
    """Blocks of one run that were last used together, at `used`: those up to `end` that no younger use covers.

    `older` and `newer` belong to the queue, which holds those uses that have an unlocked block.
    """

    __slots__ = ("end", "newer", "older", "run", "used")

    def __init__(self, run: BlockRun):
        self.run, self.end, self.used = run, 0, 0
        self.older: Any = None
        self.newer: Any = None

    @property
    def begin(self) -> int:
        """Where its blocks begin that no lock holds."""
        uses, locked = self.run.uses, self.run.locked
        at = uses.index(self) + 1
        return max(uses[at].end, locked) if at < len(uses) else locked


class BlockRun:
    """Blocks behind each other: their `keys`, `tokens` (packed) and `pages`, in order.

    The first one follows the first `above_count` blocks of the run `above`, or the root; `first` blocks lie in front of
    it. `stride` is the bytes of a page of tokens. `pins` says how many locks end behind which number of blocks, and
    `locked` is the largest such number. `uses` are the blocks by their last use: the deepest and oldest first. `blocks`
    are those that somebody has looked at, by their index. Two states of the hash are kept, so that prompts need not be
    hashed again: the one behind the last block, and the one where a prompt last left the run.
    """

    __slots__ = (
        "_births", "_end_state", "_parting", "above", "above_count", "blocks", "first", "keys", "locked", "pages",
        "pins", "root", "stride", "tokens", "uses",
    )  # fmt: skip
    worth_a_state = 2048  # bytes of tokens: hashing them takes a microsecond, keeping a state of SHA-256 250 bytes

    def __init__(self, root: BlockRoot, above: BlockRun | None, above_count: int, stride: int):
        self.root, self.above, self.above_count, self.stride = root, above, above_count, stride
        self.first: int = above.first + above_count if above is not None else 0
        self.keys: list[Hashable] = []
        self.tokens, self.pages = bytearray(), array("i")
        self.pins: dict[int, int] = {}
        self.uses: list[Use] = []
        self.locked = 0
        self._births: list[tuple[int, int]] = []  # from which block on ids are counted, and from which id
        self.blocks: dict[int, Block] = {}
        self._end_state: HashState | None = None
        self._parting: tuple[int, HashState] | None = None  # behind how many blocks a prompt left, and the state there

    def grow(self, keys: Sequence[Hashable], tokens: bytes, pages: bytes, first_id: int) -> None:
        """Put new blocks behind the last one; their ids count up from `first_id`."""
        self._births.append((len(self.keys), first_id))
        self.keys += keys
        self.tokens += tokens
        self.pages.frombytes(pages)
        self._end_state = None

    def cut(self, count: int) -> tuple[list[Hashable], array[int]]:
        """Take the last `count` blocks off; their keys and pages, the deepest first."""
        left, births, blocks = len(self.keys) - count, self._births, self.blocks
        keys, pages = self.keys[: -count - 1 : -1], self.pages[: -count - 1 : -1]
        del self.keys[left:], self.pages[left:], self.tokens[left * self.stride :]
        while births and births[-1][0] >= left:
            births.pop()
        if blocks and max(blocks) >= left:
            self.blocks = {index: block for index, block in blocks.items() if index < left}
        if self._parting is not None and self._parting[0] > left:
            self._parting = None
        self._end_state = None
        return keys, pages

    def agreeing(self, count: int, data: bytes, at: int, end: int) -> int:
        """How many blocks, right behind the first `count`, have the tokens of `data[at:end]`.

        A prompt has the whole run, or a search finds where it leaves. The place where the last prompt left comes before
        the search: if this one goes on there, the key of the next block says so.
        """
        stride = self.stride
        begin = count * stride
        most = min(len(self.tokens) - begin, end - at)
        if most <= 0:
            return 0
        tokens = memoryview(self.tokens)[begin : begin + most]
        if data.startswith(tokens, at):
            return most // stride
        near = self._parting[0] * stride - begin if self._parting is not None else 0
        if 0 < near < most and data.startswith(tokens[:near], at):
            return near // stride
        return common_bytes(tokens, data, at, end, stride) // stride

    def keep_state(self, count: int, state: HashState) -> None:
        """Keep the state of the hash behind the first `count` blocks, unless these are quickly hashed again."""
        if count * self.stride >= self.worth_a_state:
            if count == len(self.keys):
                self._end_state = state
            else:
                self._parting = count, state

    def state_behind(self, count: int) -> HashState | None:
        """The state of the hash behind the first `count` blocks, if it is kept."""
        if count == len(self.keys) and self._end_state is not None:
            return self._end_state
        return self._parting[1] if self._parting is not None and self._parting[0] == count else None

    def states(self) -> list[tuple[int, HashState]]:
        """The states that are kept, each with the number of blocks that it has read."""
        kept = [] if self._end_state is None else [(len(self.keys), self._end_state)]
        return kept if self._parting is None else [*kept, self._parting]

    def block(self, index: int) -> Block:
        """The block at `index`: always the same object."""
        found = self.blocks.get(index)
        if found is None:
            found = self.blocks[index] = Block(self, index, self.id_of(index))
        return found

    def tokens_at(self, index: int) -> bytes:
        """The tokens of the block at `index`, packed."""
        return bytes(self.tokens[index * self.stride : (index + 1) * self.stride])

    def id_of(self, index: int) -> int:
        """The id of the block at `index`."""
        begin, first_id = self._births[-1]
        if index < begin:
            begin, first_id = self._births[bisect(self._births, index, key=itemgetter(0)) - 1]
        return first_id + index - begin

    def locks_on(self, index: int) -> int:
        """How many locks hold the block at `index`: those that end behind it."""
        return sum(locks for count, locks in self.pins.items() if count > index)

    def last_used(self, index: int) -> int:
        """When the block at `index` was last used."""
        return next((use.used for use in reversed(self.uses) if use.end > index), 0)

    def __repr__(self) -> str:
        return f"BlockRun({len(self.keys)} blocks behind {self.first}, {self.locked} locked)"


def path_to(run: BlockRun | None, count: int) -> RunPath:
    """The prefix that ends with the first `count` blocks of `run`; of no run it is empty."""
    path: RunPath = []
    while run is not None:
        path.append((run, count))
        count, run = run.above_count, run.above
    return path
