"""The dictionary of hashed blocks: from keys to blocks, and the longest cached prefix by bisection."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from minikv.prefix.block import Block, path_of
from minikv.prefix.block_hash import BlockHash, HashState


class BlockIndex:
    """Blocks by their keys; those that share a key, as only a collision makes them, hang on each other as twins.

    `stride` is the bytes of one page of tokens. With `verify` the tokens of what is found are compared; without, equal
    keys are taken for equal tokens.

    >>> from minikv.prefix.block_hash import Crc32
    >>> index = BlockIndex(Crc32(), stride=4, verify=True)
    >>> index.add([Block(1, "key", b"abcd", 0, None, 1, 0), Block(2, "key", b"efgh", 1, None, 1, 0)])
    >>> [block.id for block in index]
    [1, 2]
    """

    def __init__(self, block_hash: BlockHash, stride: int, verify: bool):
        self.hash, self.stride, self.verify = block_hash, stride, verify
        self.by_key: dict[Hashable, Block] = {}

    def __iter__(self) -> Iterator[Block]:
        """All blocks; those with the key of another one come right behind that."""
        for first in self.by_key.values():
            block: Block | None = first
            while block is not None:
                yield block
                block = block.twin

    def add(self, blocks: Iterable[Block]) -> None:
        """Enter new blocks."""
        by_key = self.by_key
        for block in blocks:
            if (first := by_key.setdefault(block.key, block)) is not block:
                block.twin, first.twin = first.twin, block

    def discard(self, blocks: Iterable[Block]) -> None:
        """Take blocks out."""
        by_key = self.by_key
        for block in blocks:
            first = by_key.pop(block.key)
            if first is not block or block.twin is not None:
                by_key[block.key] = _without(first, block)
                block.twin = None

    def reach(self, top: Block, state: HashState, data: bytes, at: int, end: int) -> tuple[list[Block], HashState]:
        """The cached blocks of `data[at:end]` behind `top`, deepest first, and the state of the hash behind them.

        Cached prefixes have no holes, since the end of a prompt goes first: so the longest one is found by bisection,
        and of a hundred keys seven are computed.
        """
        stride, view, by_key = self.stride, memoryview(data), self.by_key
        after, key = self.hash.after, self.hash.key
        low, high, block, there = 0, (end - at) // stride, top, state
        while low < high:
            middle = (low + high + 1) // 2 if low else 1  # most misses end at the first block
            ahead = after(there, view[at + low * stride : at + middle * stride], stride)
            found = by_key.get(key(ahead))
            if found is None:
                high = middle - 1
            else:
                low, block, there = middle, found, ahead
        path = path_of(block, top)
        if len(path) == low and (not self.verify or _leads(top, path, data, at)):
            return path, there
        return self._walk(top, state, data, at, end)

    def _walk(self, top: Block, state: HashState, data: bytes, at: int, end: int) -> tuple[list[Block], HashState]:
        """What `reach` finds, where two prefixes have one key: block by block, by their tokens too."""
        path, view = list[Block](), memoryview(data)
        while at < end:
            ahead = self.hash.after(state, view[at : at + self.stride], self.stride)
            block = self.by_key.get(self.hash.key(ahead))
            while block is not None and not (block.parent is top and data.startswith(block.key_run, at)):
                block = block.twin
            if block is None:
                break
            path.append(block)
            top, state, at = block, ahead, at + self.stride
        return path[::-1], state


def _leads(top: Block, path: list[Block], data: bytes, at: int) -> bool:
    """Whether `path` starts right behind `top` and holds the tokens of `data` from byte `at` on."""
    if not path:
        return True
    return path[-1].parent is top and data.startswith(b"".join([block.key_run for block in reversed(path)]), at)


def _without(first: Block, block: Block) -> Block:
    """The blocks of one key, as `first` and its twins, less `block`; there are two or more."""
    if first is block:
        return block.twin  # type: ignore[return-value]
    last = first
    while last.twin is not block:
        last = last.twin  # type: ignore[assignment]
    last.twin = block.twin
    return first
