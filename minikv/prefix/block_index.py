"""The dictionary of hashed blocks: from keys to runs of blocks, and the longest cached prefix by bisection."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice, repeat

from minikv.prefix.block import Block, BlockRoot
from minikv.prefix.block_hash import BlockHash, HashState
from minikv.prefix.block_run import BlockRun, RunPath, path_to

Found = tuple[RunPath, int, HashState]  # a path, how many blocks of it were found, the state of the hash behind it


class BlockIndex:
    """The run of every key; where one is in it, the length of the prefix says. `twins` are further runs with a key.

    Only a collision makes twins. `stride` is the bytes of one page of tokens. With `verify` the tokens of what is found
    are compared; without, equal keys are taken for equal tokens.

    >>> from minikv.prefix.block_hash import Crc32
    >>> index, root = BlockIndex(Crc32(), stride=4, verify=True), BlockRoot(0, None, 0)
    >>> runs = [BlockRun(root, None, 0, 4) for _ in range(2)]
    >>> for run in runs: index.add(["key"], run)
    >>> list(index.having("key")) == runs
    True
    """

    def __init__(self, block_hash: BlockHash, stride: int, verify: bool):
        self.hash, self.stride, self.verify = block_hash, stride, verify
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

    def reach(self, top: Block | BlockRoot, state: HashState, data: bytes, at: int, end: int) -> Found:
        """The cached blocks of `data[at:end]` behind `top`, and the state of the hash behind them.

        Cached prefixes have no holes, since the end of a prompt goes first: so the longest one is found by bisection,
        and of a hundred keys seven are computed. A key of another run than the last one makes a good guess: the hit
        ends where that run ends. The path begins in the run of `top`, where anything was found in that.
        """
        stride, view, by_key, base = self.stride, memoryview(data), self.by_key, at // self.stride
        after, key = self.hash.after, self.hash.key
        low, high, there, run, guess = 0, (end - at) // stride, state, None, 1  # most misses end at the first block
        while low < high:
            middle = guess if low < guess <= high else (low + high + 1) // 2
            ahead = after(there, view[at + low * stride : at + middle * stride], stride)
            found = by_key.get(key(ahead))
            if found is None:
                high = middle - 1
                continue
            ends = found.first + len(found.keys) - base
            guess = middle + 1 if ends == middle else ends if found is not run and run is not None else 0
            low, run, there = middle, found, ahead
        if run is None:
            return [], 0, there
        path = self._path(top, run, base + low - run.first)
        if path is not None and (not self.verify or self._holds(path, data, at)):
            return path, low, there
        return self._walk(top, state, data, at, end)

    def _path(self, top: Block | BlockRoot, run: BlockRun, count: int) -> RunPath | None:
        """The path from `top` to the first `count` blocks of `run`; `None` if it leads elsewhere: keys collided."""
        if not 0 < count <= len(run.keys) or run.root is not top.root:
            return None
        path, last = path_to(run, count), top.run
        if last is None:
            return path
        for i, (above, reached) in enumerate(path):
            if above is last and reached >= top.count:
                return path[: i + (reached > top.count)]
        return None

    def _holds(self, path: RunPath, data: bytes, at: int) -> bool:
        """Whether the blocks of `path` hold the tokens of `data` from byte `at` on."""
        for run, count in path:
            first, end = run.first * self.stride, (run.first + count) * self.stride
            begin = max(first, at)
            if run.tokens[begin - first : end - first] != data[begin:end]:
                return False
        return True

    def _walk(self, top: Block | BlockRoot, state: HashState, data: bytes, at: int, end: int) -> Found:
        """What `reach` finds, where two prefixes have one key: block by block, by their tokens too."""
        run, count, view, found = top.run, top.count, memoryview(data), 0
        while at < end:
            ahead = self.hash.after(state, view[at : at + self.stride], self.stride)
            follower = self._follower(top.root, run, count, self.hash.key(ahead), data[at : at + self.stride])
            if follower is None:
                break
            run, count = follower
            found, state, at = found + 1, ahead, at + self.stride
        path = self._path(top, run, count) if run is not None and found else None
        return path or [], found, state

    def _follower(
        self, root: BlockRoot, run: BlockRun | None, count: int, key: Hashable, tokens: bytes
    ) -> tuple[BlockRun, int] | None:
        """The block with this key and these tokens right behind the first `count` of `run`: its run and its number."""
        for other in self.having(key):
            if other is run and other.tokens[count * self.stride : (count + 1) * self.stride] == tokens:
                return other, count + 1
            first = other.above is run and other.above_count == count and other.root is root
            if first and other.tokens[: self.stride] == tokens:
                return other, 1
        return None
