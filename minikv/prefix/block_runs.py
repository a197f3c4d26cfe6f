"""All runs of blocks, by namespace: where they begin, grow at their ends and shrink there again."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator
from operator import attrgetter

from minikv.prefix.block import Block, BlockRoot
from minikv.prefix.block_hash import frame
from minikv.prefix.block_index import BlockIndex, New
from minikv.prefix.block_run import BlockRun, RunPath
from minikv.prefix.namespaces import Roots


class BlockRuns:
    """The `roots` of the namespaces with their runs, and the `index` of all keys; ids count the blocks from 1.

    `seed` goes into every key, `stride` is the bytes of one page of tokens, and `index` looks into the same runs.

    >>> from minikv.prefix.block_hash import Crc32
    >>> runs = BlockRuns(BlockIndex(Crc32(), stride=4, verify=True), seed=b"")
    >>> root, page = runs.root_of(None), bytes(4)
    >>> path = runs.grow(root, [], New(["key"], None, None), page, page)
    >>> list(runs.blocks())
    [Block(id=1, tokens=[0], pages=[0], ref_count=0)]
    >>> runs.cut(path[0][0], 1).tolist(), list(runs.blocks())
    ([0], [])
    """

    def __init__(self, index: BlockIndex, seed: str | bytes):
        self.index, self.seed = index, seed
        self.roots = Roots(self._make_root(0, None))
        self.next_id = 1

    def root_of(self, namespace: Hashable) -> BlockRoot:
        """The root of `namespace`; a new one, which is not kept, where it holds nothing."""
        return self.roots.find(namespace) or self._make_root(self.next_id, namespace)

    def _make_root(self, root_id: int, namespace: Hashable) -> BlockRoot:
        """The seed and the name of a namespace are the beginning of all keys below its root."""
        seed = frame((self.seed, namespace)) or frame((self.seed, None, root_id))  # has no bytes of its own: a number
        assert seed is not None
        return BlockRoot(root_id, namespace, self.index.hash.begin(seed))

    def blocks(self) -> Iterator[Block]:
        """Every block, in the order in which they were cached."""
        runs = [run for root in self.roots.by_name.values() for run in root.runs]
        return iter(sorted((run.block(i) for run in runs for i in range(len(run.keys))), key=attrgetter("id")))

    def grow(self, top: Block | BlockRoot, path: RunPath, new: New, tokens: bytes, pages: bytes) -> RunPath:
        """Put new blocks behind `path`, which leads on from `top`: at the end of its run, or in a new run.

        The path to the last of them, from `top`.
        """
        run, count = path[0] if path else (top.run, top.count)
        if run is not None and count == len(run.keys):
            path = [(run, count + len(new.keys)), *path[1:]]
        else:
            if top.root.is_empty:
                self._open(top.root)
            if run is not None:
                run.keep_state(count, new.before)
            run = BlockRun(top.root, run, count, self.index.stride)
            top.root.runs[run] = None
            path = [(run, len(new.keys)), *path]
        run.grow(new.keys, tokens, pages, self.next_id)
        run.keep_state(len(run.keys), new.behind)
        self.index.add(new.keys, run)
        self.next_id += len(new.keys)
        return path

    def _open(self, root: BlockRoot) -> None:
        """Something is about to be cached in this namespace."""
        if root.namespace is not None:
            self.roots.add(root)
            self.next_id += root.id == self.next_id

    def cut(self, run: BlockRun, count: int) -> array[int]:
        """Take the last `count` blocks of `run` out; their pages, the deepest first. An empty run goes as well."""
        keys, pages = run.cut(count)
        self.index.discard(keys, run)
        if not run.keys:
            del run.root.runs[run]
            if run.root.is_empty:
                self.roots.drop(run.root)
        return pages
