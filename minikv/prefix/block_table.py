"""The blocks of a cache, and the dictionary that leads from each key to its block.

A key is a hash (`block_hash.py`), so two blocks may have the same one. Then the dictionary has one of them, which leads
to the other as its `twin`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate
from operator import attrgetter
from typing import Any

from minikv.errors import InvariantError, bounded
from minikv.prefix.block_hash import KeyOf, spelled
from minikv.prefix.contract import brief
from minikv.prefix.namespaces import Roots
from minikv.tokens import TOKEN_BYTES, PackedTokens


class Block:
    """One page of tokens that is cached: its key, its tokens, its page, and the block before it.

    `last_used` is the clock's reading at its last use; of a locked block, at some use before. `older` and `newer` are
    its neighbors in the queue. `twin` is another block with the same key: there is one only where keys collide. An
    evicted block has no key, page, tokens or parent.

    >>> from minikv import HashBlockCache
    >>> block = HashBlockCache(page_size=2).insert([1, 2, 3, 4], [7, 8]).node
    >>> block, block.num_hashed_tokens, block.parent.tokens
    (Block(id=2, tokens=[3, 4], pages=[8], ref_count=0), 4, [1, 2])
    """

    __slots__ = (
        "id", "key", "key_bytes", "last_used", "newer", "num_hashed_tokens", "older", "page", "parent", "ref_count",
        "twin",
    )  # fmt: skip

    def __init__(self, number: int, key: Any, key_bytes: bytes, page: Any, parent: Block | None):
        self.id, self.key, self.key_bytes, self.page, self.parent = number, key, key_bytes, page, parent
        self.num_hashed_tokens: int = parent.num_hashed_tokens + len(key_bytes) // TOKEN_BYTES if parent else 0
        self.ref_count = self.last_used = 0
        self.older: Any = None
        self.newer: Any = None
        self.twin: Block | None = None

    @property
    def is_gone(self) -> bool:
        """Whether it has been evicted."""
        return self.key is None

    @property
    def tokens(self) -> list[int]:
        """The tokens of this block, as a list of ints."""
        return PackedTokens(self.key_bytes).tolist()

    @property
    def pages(self) -> array[int]:
        """The page of those tokens: one number."""
        return array("i", [] if self.page is None else [self.page])

    @property
    def slots(self) -> array[int]:
        """The slots of those tokens, one per token, in order."""
        size = len(self.key_bytes) // TOKEN_BYTES
        return array("i", [page * size + i for page in self.pages for i in range(size)])

    @property
    def path(self) -> list[Block]:
        """This block and all blocks before it, from the last to the first."""
        path, block = list[Block](), self
        while block.parent is not None:
            path.append(block)
            block = block.parent
        return path

    @property
    def children(self) -> dict[bytes, Block]:
        """The blocks right after this one, by their tokens; it does not know them, so this looks at all blocks."""
        root = self.path[-1].parent if self.path else self
        table = root.table if isinstance(root, BlockRoot) else ()
        return {block.key_bytes: block for block in table if block.parent is self}

    def twins(self) -> Iterator[Block]:
        """This block, and the others with its key that it leads to."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.twin

    def forget(self) -> None:
        """It is evicted: nothing is left but its number."""
        self.key = self.page = self.parent = self.twin = None
        self.key_bytes = b""

    def __repr__(self) -> str:
        return (
            f"Block(id={self.id}, tokens={brief(self.tokens)}, pages={brief(self.pages)}, ref_count={self.ref_count})"
        )


class BlockRoot(Block):
    """Where the prompts of one namespace begin: no tokens, and the seed of all keys; `num_first` blocks follow it."""

    __slots__ = ("namespace", "num_first", "table")

    def __init__(self, table: BlockTable, number: int, namespace: Hashable, seed: bytes):
        super().__init__(number, seed, b"", None, None)
        self.table, self.namespace, self.num_first = table, namespace, 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is cached in this namespace."""
        return not self.num_first

    def __repr__(self) -> str:
        return f"BlockRoot(id={self.id}, {self.num_first} first blocks)"


class BlockTable:
    """All cached blocks by their keys, and the `roots` of the namespaces; ids count the blocks from 1.

    `key_of` makes a key from the key of the block before and `stride` bytes of tokens, and `seed` goes into all of
    them. With `verify` the tokens of a block that a key leads to are compared; without, equal keys are taken for equal
    tokens.

    >>> from minikv.prefix.block_hash import sha256_key
    >>> table = BlockTable(sha256_key, stride=4, seed=b"", verify=True)
    >>> made = table.append(table.root_of(None), data=bytes(8), pages=[7, 9])
    >>> list(table), [block.page for block in table.follow(table.root_of(None), bytes(12))]
    ([Block(id=1, tokens=[0], pages=[7], ref_count=0), Block(id=2, tokens=[0], pages=[9], ref_count=0)], [7, 9])
    """

    def __init__(self, key_of: KeyOf, stride: int, seed: str | bytes, verify: bool):
        self.key_of, self.stride, self.seed, self.verify = key_of, stride, seed, verify
        self._by_key: dict[bytes | None, Block] = {}
        self._next_id = 1
        self._roots = Roots(self._new_root(0, None))

    @property
    def roots(self) -> Mapping[Hashable, BlockRoot]:
        """The root of every namespace that holds something, and the default one; read only."""
        return self._roots.by_name

    def root_of(self, namespace: Hashable) -> BlockRoot:
        """The root of `namespace`; a new one, which is not kept, where it holds nothing."""
        return self._roots.find(namespace) or self._new_root(self._next_id, namespace)

    def _new_root(self, number: int, namespace: Hashable) -> BlockRoot:
        try:
            name = spelled((self.seed, namespace))
        except TypeError:  # the namespace has no spelling of its own: a number stands for it
            name = spelled((self.seed, None, number))
        return BlockRoot(self, number, namespace, sha256(name).digest())

    def __iter__(self) -> Iterator[Block]:
        """Every block, in the order in which they were cached: parents before children."""
        blocks = [block for first in self._by_key.values() for block in first.twins()]
        return iter(sorted(blocks, key=attrgetter("id")))

    def follow(self, block: Block, data: bytes) -> list[Block]:
        """The cached blocks of `data` after `block`: the key of each is looked up, until one is missing."""
        by_key, key_of, stride, verify, found = self._by_key, self.key_of, self.stride, self.verify, list[Block]()
        for at in range(0, len(data) - stride + 1, stride):
            tokens = data[at : at + stride]
            child = by_key.get(key_of(block.key, tokens))
            while child is not None and (child.parent is not block or (verify and child.key_bytes != tokens)):
                child = child.twin
            if child is None:
                break
            found.append(child)
            block = child
        return found

    def append(self, block: Block, data: bytes, pages: Sequence[int]) -> list[Block]:
        """Cache the tokens in `data`, which are new, after `block`; all keys are made before anything changes."""
        texts = [data[at : at + self.stride] for at in range(0, len(data), self.stride)]
        keys = list(accumulate(texts, self.key_of, initial=block.key))[1:]
        if keys and isinstance(block, BlockRoot):
            self._open(block)
        made = list[Block]()
        for key, tokens, page in zip(keys, texts, pages):
            block = Block(self._next_id, key, tokens, page, block)
            block.twin, self._by_key[key] = self._by_key.get(key), block
            self._next_id += 1
            made.append(block)
        return made

    def _open(self, root: BlockRoot) -> None:
        """A block is about to be cached right after `root`."""
        if root.is_empty and root.namespace is not None:
            self._roots.add(root)
            self._next_id += root.id == self._next_id
        root.num_first += 1

    def remove(self, block: Block) -> None:
        """Take a block out, and the root of its namespace with the last one."""
        first = self._by_key[block.key]
        if first is not block:
            next(twin for twin in first.twins() if twin.twin is block).twin = block.twin
        elif block.twin is not None:
            self._by_key[block.key] = block.twin
        else:
            del self._by_key[block.key]
        root = block.parent
        if isinstance(root, BlockRoot):
            root.num_first -= 1
            if root.is_empty:
                self._roots.drop(root)
        block.forget()

    def check(self) -> None:
        """Recompute every key, link and count; `InvariantError` names the block."""
        blocks, roots = dict.fromkeys(self), self.roots
        first = Counter(id(block.parent) for block in blocks)
        for namespace, root in roots.items():
            counts = f"{root.num_first} blocks are said to follow it, {first[id(root)]} do"
            _require(root.num_first == first[id(root)], f"root of {bounded(namespace)}: {counts}")
        ids, pages = {root.id for root in roots.values()}, dict[int, int]()
        for block in blocks:
            name, known = f"block {block.id}", block.parent in roots.values() or block.parent in blocks
            _require(block.id not in ids and block.id < self._next_id, f"{name}: its id is taken, or not given out")
            _require(known, f"{name}: the block before it is not cached")
            self._check_block(name, block, block.parent)
            twice = f"page {block.page} is cached in nodes {pages.get(block.page)} and {block.id}"
            _require(block.page not in pages, twice)
            ids.add(block.id)
            pages[block.page] = block.id

    def _check_block(self, name: str, block: Block, parent: Any) -> None:
        key, end = self.key_of(parent.key, block.key_bytes), parent.num_hashed_tokens + len(block.tokens)
        _require(len(block.key_bytes) == self.stride, f"{name}: it has {len(block.tokens)} tokens")
        _require(block.num_hashed_tokens == end, f"{name}: it ends at {end}, not at {block.num_hashed_tokens}")
        _require(block.key == key, f"{name}: its key is not that of its tokens and of those before it")
        _require(key in self._by_key and block in self._by_key[key].twins(), f"{name}: its key does not lead to it")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvariantError(message)
