"""The queue of unlocked blocks, linked in place: its order is the order of eviction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from minikv.prefix.block import Block


class BlockQueue:
    """A doubly linked list through the blocks' own `older` and `newer`; a block leaves from the middle in O(1).

    Not a `deque`: a block that is used again must leave from wherever it is, which a deque does in O(size). Blocks come
    and go by whole paths, the deepest block first, and what was used together mostly stands together, so a path is
    taken out in runs. Links of a block that has left mean nothing. After vLLM's `FreeKVCacheBlockQueue`; where a
    mark of its own closes the ring, so that no end is a special case.

    >>> queue = BlockQueue()
    >>> a, b, c = (Block(i, i, b"", i, None, 0, 0) for i in range(3))
    >>> queue.add([c, b, a]); queue.remove([b]); queue.add([b])
    >>> [block.id for block in queue]
    [2, 0, 1]
    """

    __slots__ = ("newer", "older")

    def __init__(self) -> None:
        self.newer: Any = self  # the head: the next block to go
        self.older: Any = self  # the tail

    def add(self, path: Sequence[Block]) -> None:
        """Append blocks to the tail, the first of them nearest to the head."""
        last: Any = self.older
        for block in path:
            block.older = last
            last.newer = block
            last = block
        last.newer = self
        self.older = last

    def remove(self, path: Sequence[Block]) -> None:
        """Take blocks out, from wherever they are: each run of neighbours with one cut."""
        if not path:
            return
        last = path[0]
        before = last.older
        for block in path:
            if last.newer is not block and last is not block:
                before.newer, last.newer.older = last.newer, before
                before = block.older
            last = block
        before.newer, last.newer.older = last.newer, before

    def first(self, count: int) -> list[Block]:
        """The `count` blocks at the head, or as many as there are: the next to go, in order."""
        found, block = list[Block](), self.newer
        while len(found) < count and block is not self:
            found.append(block)
            block = block.newer
        return found

    def __iter__(self) -> Iterator[Block]:
        """The blocks in the order in which they would be evicted."""
        block = self.newer
        while block is not self:
            yield block
            block = block.newer
