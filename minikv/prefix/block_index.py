"""The dictionary of hashed blocks, from keys to runs of blocks, and what of a prompt is found through it.

Hashing costs more than comparing, so a prompt is hashed as little as possible. A key leads to the first block of a run;
the tokens of the run then say how much of it the prompt has. And the state of the hash is read from the run, where it
is kept, so that a conversation is not hashed again from its beginning in every turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np

from minikv.prefix.block import Block, BlockRoot
from minikv.prefix.block_hash import BlockHash, HashState
from minikv.prefix.block_run import BlockRun, RunPath

Reading = tuple[HashState, int]  # a state of the hash, and how many bytes of the prompt it has read
Found = tuple[RunPath, int, Reading]  # a path, how many of its blocks were found, and how far the hash has read


class New(NamedTuple):
    """Blocks that are not cached yet: their keys, and the states of the hash before the first and behind the last."""

    keys: list[Hashable]
    before: HashState
    behind: HashState


class BlockIndex:
    """The run of every key; where one is in it, the length of the prefix says. `twins` are further runs with a key.

    Only a collision makes twins. `stride` is the bytes of one page of tokens. With `verify` the tokens of a block that
    a key leads to are compared; without, equal keys are taken for equal tokens.

    >>> from minikv.prefix.block_hash import Crc32
    >>> index, root = BlockIndex(Crc32(), stride=4, verify=True), BlockRoot(0, None, 0)
    >>> runs = [BlockRun(root, None, 0, 4) for _ in range(2)]
    >>> for run in runs: index.add(["key"], run)
    >>> list(index.having("key")) == runs
    True
    """

    def __init__(self, block_hash: BlockHash, stride: int, verify: bool):
        self.hash, self.stride, self.verify = block_hash, stride, verify
        self._page = np.dtype(f"V{stride}")
        self.by_key: dict[Hashable, BlockRun] = {}
        self.twins: dict[Hashable, list[BlockRun]] = {}

    def having(self, key: Hashable) -> Iterator[BlockRun]:
        """The runs that have a block with this key, one as often as it has such blocks."""
        if key in self.by_key:
            yield self.by_key[key]
            yield from self.twins.get(key, ())

    def add(self, keys: Sequence[Hashable], run: BlockRun) -> None:
        """Enter new blocks of `run`."""
        by_key = self.by_key
        before = len(by_key)
        for _ in map(by_key.setdefault, keys, repeat(run)):
            pass
        if len(by_key) - before == len(keys):
            return
        fresh = set(islice(reversed(by_key), len(by_key) - before))  # a dictionary keeps its newest keys last
        for key in keys:
            if key in fresh:
                fresh.remove(key)
            else:
                self.twins.setdefault(key, []).append(run)

    def discard(self, keys: Sequence[Hashable], run: BlockRun) -> None:
        """Take blocks of `run` out."""
        by_key, twins = self.by_key, self.twins
        for key in keys:
            if twins and (others := twins.get(key)):
                if by_key[key] is run:
                    by_key[key] = others.pop()
                else:
                    others.remove(run)
                if not others:
                    del twins[key]
            else:
                del by_key[key]

    def reach(self, top: Block | BlockRoot, reading: Reading, data: bytes, at: int, end: int) -> Found:
        """The cached blocks of `data[at:end]` behind `top`; `reading` has read at most `at` bytes of `data`.

        A key leads to the first block of a run. Equal tokens behind an equal prefix have equal keys, so the rest of the
        run takes one comparison of bytes and no hash. The path begins in the run of `top`, if any block of that run is
        found.
        """
        stride, begin, run, count = self.stride, at, top.run, top.count
        after, view, (state, read) = self.hash.after, memoryview(data), reading
        path: RunPath = []
        while at < end:
            if read < at:
                state, read = after(state, view[read:at], stride), at
            key = self.hash.key(after(state, view[at : at + stride], stride))
            found = self._follower(top.root, run, count, key, data, at)
            if found is None:
                break
            if found is run:
                count += 1
                del path[-1:]
            else:
                run, count = found, 1
            same = run.agreeing(count, data, at + stride, end)
            count, at = count + same, at + (same + 1) * stride
            path.append((run, count))
            if (known := run.state_behind(count)) is not None:
                state, read = known, at
        return path[::-1], (at - begin) // stride, (state, read)

    def _follower(
        self, root: BlockRoot, run: BlockRun | None, count: int, key: Hashable, data: bytes, at: int
    ) -> BlockRun | None:
        """The run with the block of `key` right behind the first `count` blocks of `run`: the one of `data` at `at`.

        There are several runs to look at only where keys collide.
        """
        found = self.by_key.get(key)
        if found is None:
            return None
        twins = self.twins.get(key, ()) if self.twins else ()
        for other in (found, *twins) if twins else (found,):
            index = count if other is run else 0
            behind = other is run or (other.above is run and other.above_count == count and other.root is root)
            fits = behind and index < len(other.keys) and other.keys[index] == key
            if fits and (not self.verify or data.startswith(other.tokens_at(index), at)):
                return other
        return None

    def known_and_new(
        self, top: Block | BlockRoot, reading: Reading, data: bytes, at: int, end: int
    ) -> tuple[RunPath, New]:
        """The path to the cached blocks of `data[at:end]` behind `top`, and the other blocks, which are new.

        Behind a matched prefix (`at` > 0) all blocks are new, unless another request was faster. There the keys are
        computed first, each once, and the first one tells which case it is.
        """
        path: RunPath = []
        matched = at > 0
        if not matched:
            path, count, reading = self.reach(top, reading, data, at, end)
            at += count * self.stride
        state = self._read(reading, data, at)
        keys, behind = self.hash.keys(state, np.frombuffer(data, self._page, (end - at) // self.stride, at).tolist())
        if matched and keys and keys[0] in self.by_key:
            path, count, reading = self.reach(top, (state, at), data, at, end)
            del keys[:count]
            state = self._read(reading, data, at + count * self.stride)
        return path, New(keys, state, behind)

    def _read(self, reading: Reading, data: bytes, at: int) -> HashState:
        """The state of the hash behind the first `at` bytes of `data`."""
        state, read = reading
        return state if read == at else self.hash.after(state, memoryview(data)[read:at], self.stride)
