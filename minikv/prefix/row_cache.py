"""Rows: the other way to use a token trie. A sequence has one slot for all of its keys and values, and nodes name it.

Here a slot is a *row* of arrays `[row, position, layer, ...]`, as long as the longest sequence. A node of the trie says
in which row the keys and values of its prefix lie, and which version that row had. Nothing is shared while two run: a
sequence that finds its prefix in a row takes that row over if nobody runs in it, and otherwise copies the prefix into
a row of its own.

A row has one of three states: somebody runs in it; it is free; or it is free *and* cached, so its content may still
be used until the row is taken for something else. No list says which nodes that makes stale. The row's version is
counted up, and every node that names an older one is stale at once. A stale node is not lost while a node below it is
current: the row of that one begins with the same tokens.

After AstrAI's `PrefixCacheManager`, which takes a row over without a new version, so nodes of the old sequence go on
naming what the new one overwrites. It may be used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from minikv.errors import OutOfPages, bounded, whole_number
from minikv.pools.bitmask import BitmaskPool
from minikv.prefix.contract import require_limit
from minikv.prefix.eviction import LeastRecentlyUsed
from minikv.tokens import TokensLike, pack

RUNNING, FREE, CACHED = "running", "free", "free, cached"


class RowNode:
    """One token, and the row, with its version, in which the keys and values of the prefix up to it lie.

    `pins` is how many sequences hold it; `older` and `newer` belong to the ring of what may be evicted.
    """

    __slots__ = ("children", "depth", "id", "newer", "older", "parent", "pins", "row", "token", "version")

    def __init__(self, node_id: int, token: int, parent: RowNode | None):
        self.id, self.token, self.parent = node_id, token, parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.children: dict[int, RowNode] = {}
        self.row = self.version = -1
        self.pins = 0
        self.older: Any = None
        self.newer: Any = None

    @property
    def tokens(self) -> list[int]:
        """The token of this node, in a list; the root has none."""
        return [] if self.parent is None else [self.token]

    @property
    def slots(self) -> list[int]:
        """The row that it names."""
        return [] if self.parent is None else [self.row]

    @property
    def ref_count(self) -> int:
        """How many sequences hold it: what a picture calls its locks."""
        return self.pins

    def __repr__(self) -> str:
        return f"RowNode(id={self.id}, token={self.token}, row={self.row}, version={self.version}, pins={self.pins})"


@dataclass(eq=False)
class RowSequence:
    """A running sequence: its row, how many positions of it were `found`, and whether they had to be `copied`.

    >>> RowCache(2).start([1, 2])
    RowSequence(row=0, tokens=[1, 2], found=0, copied=False, is_over=False)
    """

    row: int
    tokens: list[int]
    found: int = 0
    copied: bool = False
    is_over: bool = False
    held: list[RowNode] = field(default_factory=list, repr=False)


class RowCache:
    """A prefix cache over `num_rows` rows, whose trie has room for `max_nodes` nodes.

    `arrays` are the keys and the values, of shape [row, position, layer, ...]: of numpy or torch, or none, then only
    books are kept. `num_layers` says how many layers are copied (default: all), for a model that has fewer than the
    arrays. A start takes a step for each token, and a look at each row where a fresh one is needed; rows are few.

    >>> import numpy as np
    >>> keys = np.zeros((2, 8, 1))
    >>> cache = RowCache(2, arrays=(keys,))
    >>> first = cache.start([1, 2, 3]); keys[first.row, :3] = 7.5
    >>> cache.finish(first)
    >>> second = cache.start([1, 2, 9]); second.row, second.found, second.copied      # nobody runs in that row
    (0, 2, False)
    >>> third = cache.start([1, 2, 8]); third.row, third.found, third.copied          # now somebody does
    (1, 2, True)
    >>> keys[1, :, 0].tolist()[:3], cache.states()
    ([7.5, 7.5, 0.0], ['running', 'running'])
    """

    def __init__(self, num_rows: int, max_nodes: int = 1000, arrays: Sequence[Any] = (), num_layers: int | None = None):
        self.pool = BitmaskPool(whole_number("num_rows", num_rows, 1, "there is at least 1 row"))
        self.max_nodes = whole_number("max_nodes", max_nodes, 1, "the trie has room for at least 1 node")
        self.arrays = tuple(arrays)
        for i, array in enumerate(self.arrays):
            if len(array.shape) < 3 or array.shape[0] != num_rows or array.shape[1] != self.arrays[0].shape[1]:
                rule = f"expected [{num_rows} rows, position, layer, ...], all of one length"
                raise ValueError(f"arrays[{i}] has the shape {tuple(array.shape)}: {rule}")
        self.max_length = self.arrays[0].shape[1] if self.arrays else None
        self.num_layers = num_layers
        if num_layers is not None:
            whole_number("num_layers", num_layers, 1, "at least 1 layer is copied")
            for i, array in enumerate(self.arrays):
                if num_layers > array.shape[2]:
                    raise ValueError(f"num_layers is {num_layers}: arrays[{i}] has {array.shape[2]}")
        self.root, self.num_nodes, self._next_id = RowNode(0, -1, None), 0, 1
        self._ring = LeastRecentlyUsed()
        self._running: dict[int, RowSequence] = {}  # by row
        self._named = [0] * self.pool.size  # how many nodes name a row as it is now
        self._used, self._clock = [0] * self.pool.size, 0

    # -- the trie ---------------------------------------------------------------------------------------------------

    def is_current(self, node: RowNode) -> bool:
        """Whether the row of `node` still holds what it held when the node was made."""
        return node.row >= 0 and self.pool.version(node.row) == node.version

    def find(self, tokens: TokensLike, limit: int | None = None) -> list[RowNode]:
        """The path of the longest prefix of `tokens`, of at most `limit`, that some row still holds; perhaps empty.

        Its last node names that row. Where it is stale a node below it may know one, and where none does, all of them
        go: each is looked at once, so that costs no more than it did to make them.

        >>> cache = RowCache(2)
        >>> cache.finish(cache.start([1, 2, 3]))
        >>> [(node.token, node.row, node.version) for node in cache.find([1, 2, 9])]
        [(1, 0, 1), (2, 0, 1)]
        """
        numbers = pack(tokens).tolist()
        path = self._walk(numbers[: require_limit(limit, len(numbers))])
        while path and not self.is_current(path[-1]):
            below = self._below(path[-1])
            if (current := next(filter(self.is_current, below), None)) is not None:
                self._name(path[-1], current.row)
            else:
                path.pop()
                self._remove(node for node in reversed(below) if not node.pins and not node.children)
        self._touch(path)
        return path

    def _below(self, node: RowNode) -> list[RowNode]:
        """`node` and all below it, parents before children."""
        found = [node]
        for each in found:  # which grows meanwhile
            found.extend(each.children.values())
        return found

    def _remove(self, leaves: Iterable[RowNode]) -> None:
        """Take unpinned leaves out of the trie, one after the other."""
        for leaf in leaves:
            self._ring.remove((leaf,))
            del leaf.parent.children[leaf.token]  # type: ignore[union-attr]
            self.num_nodes -= 1
            if self.is_current(leaf):
                self._named[leaf.row] -= 1
            leaf.row = leaf.version = -1

    def _walk(self, numbers: list[int]) -> list[RowNode]:
        path, node = list[RowNode](), self.root
        for token in numbers:
            child = node.children.get(token)
            if child is None:
                break
            path.append(child)
            node = child
        return path

    def _touch(self, path: list[RowNode]) -> None:
        """The nodes of `path` are the most recently used, the deepest of them the first to go."""
        self._ring.touch([node for node in reversed(path) if not node.pins])

    def _pin(self, path: list[RowNode]) -> None:
        """Keep the nodes of a whole path from being evicted; pins nest."""
        self._ring.remove([node for node in path if not node.pins])
        for node in path:
            node.pins += 1

    def _release(self, path: list[RowNode]) -> None:
        """Give back one pin of each node of `path`."""
        for node in path:
            node.pins -= 1
        self._ring.add([node for node in reversed(path) if not node.pins])

    def _insert(self, numbers: list[int], row: int) -> list[RowNode]:
        """Say that `row` holds the keys and values of `numbers`; the path of what the trie has room for.

        New nodes name the row, and so do stale ones; a node whose own row is still good keeps it.
        """
        path = self._walk(numbers)
        self._pin(path)  # what is on the way does not make room for the rest
        try:
            self._make_room(len(numbers) - len(path))
        finally:
            self._release(path)
        more = numbers[len(path) : len(path) + self.max_nodes - self.num_nodes]
        path += self._grow(path[-1] if path else self.root, more)
        for node in path:
            if not self.is_current(node):
                self._name(node, row)
        self._touch(path)
        return path

    def _grow(self, node: RowNode, tokens: list[int]) -> list[RowNode]:
        made = []
        for token in tokens:
            child = RowNode(self._next_id, token, node)
            node.children[token] = child
            self._next_id += 1
            made.append(child)
            node = child
        self._ring.add(made[::-1])
        self.num_nodes += len(made)
        return made

    def _name(self, node: RowNode, row: int) -> None:
        """Let `node` name `row` as it is now."""
        if self.is_current(node):
            self._named[node.row] -= 1
        node.row, node.version = row, self.pool.version(row)
        self._named[row] += 1

    def _make_room(self, num_nodes: int) -> None:
        """Evict the least recently used leaves until `num_nodes` more fit, or until all that is left is pinned."""
        while self.num_nodes + num_nodes > self.max_nodes and (leaf := self._ring.first()) is not None:
            self._remove([leaf])

    # -- the rows ---------------------------------------------------------------------------------------------------

    def start(self, tokens: TokensLike, limit: int | None = None) -> RowSequence:
        """Begin a sequence: find its prefix, and take over the row that has it, or copy the prefix into a fresh one.

        At most `limit` tokens are taken from the cache, by default all but the last, whose logits are to be computed.
        Raises `OutOfPages`, and nothing has changed, when somebody runs in every row.
        """
        numbers = pack(tokens).tolist()
        self._require_length(numbers)
        path = self.find(numbers, max(len(numbers) - 1, 0) if limit is None else limit)
        source = path[-1].row if path else -1
        if not self.pool.num_free:
            raise OutOfPages(needed=1, free=0)
        takes_over = source >= 0 and self.pool.is_free(source)
        row = source if takes_over else self._fresh_row()
        self._take(row, path if takes_over else [])
        try:
            if path and not takes_over:
                self._copy(source, row, len(path))
        except BaseException:
            self.pool.free([row])
            raise
        self._pin(path)
        sequence = RowSequence(row, numbers, len(path), bool(path) and not takes_over, held=path)
        self._running[row] = sequence
        return sequence

    def _fresh_row(self) -> int:
        """A free row: one that no node names, or else the one that was given back longest ago."""
        free = [row for row in range(self.pool.size) if self.pool.is_free(row)]
        return min(free, key=lambda row: (self._named[row] > 0, self._used[row], row))

    def _take(self, row: int, path: list[RowNode]) -> None:
        """Take a free row with a new version, which only the nodes of `path` go on naming, and any stale ones on it."""
        kept = [node for node in path if node.row == row or not self.is_current(node)]
        self.pool.occupy(row, renew=True)
        self._named[row] = len(kept)
        for node in kept:
            node.row, node.version = row, self.pool.version(row)

    def _copy(self, source: int, target: int, length: int) -> None:
        for array in self.arrays:
            array[target, :length, : self.num_layers] = array[source, :length, : self.num_layers]

    def _require_length(self, numbers: list[int]) -> None:
        if not numbers:
            raise ValueError("tokens are empty: a sequence has at least 1 token")
        if self.max_length is not None and len(numbers) > self.max_length:
            raise ValueError(f"{len(numbers)} tokens do not fit in a row of {self.max_length} positions")

    def finish(self, sequence: RowSequence, generated: TokensLike = ()) -> None:
        """End a sequence whose keys and values are all in its row, those of `generated` behind its own: publish them.

        The row is free from now on, and cached until it is taken. `ValueError` if the sequence is over.
        """
        self._require(sequence, "finish")
        numbers = [*sequence.tokens, *pack(generated).tolist()]
        self._require_length(numbers)
        self._insert(numbers, sequence.row)
        self._leave(sequence)

    def abort(self, sequence: RowSequence) -> None:
        """End a sequence and publish nothing of it; `ValueError` if it is over."""
        self._require(sequence, "abort")
        self._leave(sequence)

    def _require(self, sequence: RowSequence, verb: str) -> None:
        if not isinstance(sequence, RowSequence):
            raise TypeError(f"cannot {verb} {bounded(sequence)}: expected a sequence that start() returned")
        if self._running.get(sequence.row) is not sequence:
            why = "is over" if sequence.is_over else "was started by another cache"
            raise ValueError(f"cannot {verb} the sequence in row {sequence.row}: it {why}")

    def _leave(self, sequence: RowSequence) -> None:
        self._clock += 1
        self._used[sequence.row] = self._clock
        del self._running[sequence.row]
        sequence.is_over = True
        self._release(sequence.held)
        sequence.held = []
        self.pool.free([sequence.row])

    # -- looking at it ----------------------------------------------------------------------------------------------

    def states(self) -> list[str]:
        """The state of each row: running, free, or free and cached."""
        return [
            RUNNING if row in self._running else CACHED if self._named[row] else FREE for row in range(self.pool.size)
        ]

    @property
    def rows(self) -> list[list[int]]:
        """The tokens of what runs in each row, or else of the longest cached prefix in it, or else none.

        >>> cache = RowCache(2)
        >>> cache.finish(cache.start([1, 2])); cache.rows
        [[1, 2], []]
        """
        ends: dict[int, RowNode] = {}
        for node in self.nodes():
            if self.is_current(node) and (node.row not in ends or node.depth > ends[node.row].depth):
                ends[node.row] = node
        found = [_tokens_to(ends.get(row)) for row in range(self.pool.size)]
        for row, sequence in self._running.items():
            found[row] = list(sequence.tokens)
        return found

    def nodes(self) -> Iterator[RowNode]:
        """Every node but the root, parents before children."""
        stack = list(self.root.children.values())[::-1]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children.values()))

    def check(self) -> None:
        """Recompute every count, pin and link from scratch; `InvariantError` names the node or the row."""
        from minikv.prefix.row_check import check_rows

        check_rows(self)

    def __repr__(self) -> str:
        states = self.states()
        counts = ", ".join(f"{states.count(state)} {state}" for state in (RUNNING, CACHED, FREE))
        return f"RowCache({self.pool.size} rows: {counts}; {self.num_nodes} of {self.max_nodes} nodes)"


def _tokens_to(node: RowNode | None) -> list[int]:
    """The tokens from the root to `node`."""
    found: list[int] = []
    while node is not None and node.parent is not None:
        found.append(node.token)
        node = node.parent
    return found[::-1]
