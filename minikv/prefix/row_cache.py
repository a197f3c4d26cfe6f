"""Rows: the other way to use a token trie. A sequence has one slot for all of its keys and values, and nodes name it.

Here a slot is a *row* of arrays `[row, position, layer, ...]`, as long as the longest sequence. A node of the trie says
in which row the keys and values of its prefix lie, and which version that row had. A sequence that finds its prefix in
a row takes that row over if nobody runs in it, and otherwise copies the prefix into a row of its own.

A row is running, free, or free *and* cached: its content may be used until the row is taken for something else. Then
its version is counted up, and every node that names an older one is stale at once. A stale node is not lost while a
node below it is current: that one's row begins with the same tokens.

After AstrAI's `PrefixCacheManager`, which takes a row over without a new version. For one thread at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from minikv.errors import OutOfPages, bounded, whole_number
from minikv.pools.bitmask import BitmaskPool
from minikv.prefix.token_trie import TokenTrie, TrieNode
from minikv.prefix.tree_check import require
from minikv.tokens import TokensLike, pack

RUNNING, FREE, CACHED = "running", "free", "free, cached"


class RowNode(TrieNode):
    """One token, and the row, with its version, in which the keys and values of the prefix up to it lie."""

    __slots__ = ("row", "version")

    def __init__(self, number: int, key_bytes: bytes, page: int, parent: TrieNode | None):
        super().__init__(number, key_bytes, page, parent)
        self.row = self.version = -1

    def __repr__(self) -> str:
        return f"RowNode(id={self.id}, tokens={self.tokens}, row={self.row}, version={self.version})"


class VersionedTrie(TokenTrie):
    """A token trie whose nodes name rows; its pages do no more than number the nodes."""

    node_class = RowNode


@dataclass(eq=False)
class RowSequence:
    """A running sequence: its row, how many positions of it were `found`, and whether they had to be `copied`.

    >>> RowCache(2).start([1, 2])
    RowSequence(row=0, tokens=[1, 2], found=0, copied=False)
    """

    row: int
    tokens: list[int]
    found: int = 0
    copied: bool = False
    held: Any = field(default=None, repr=False)


class RowCache:
    """A prefix cache over `num_rows` rows, whose trie has room for `max_nodes` nodes.

    `arrays` are the keys and the values, [row, position, layer, ...], of numpy or torch; without them only nodes and
    rows are tracked. `rows` has the tokens of what was last in each row. A start takes a step for each token, and a
    look at all nodes where a fresh row is needed.

    >>> import numpy as np
    >>> keys = np.zeros((2, 8, 1))
    >>> cache = RowCache(2, arrays=(keys,))
    >>> first = cache.start([1, 2, 3]); keys[first.row, :3] = 7.5
    >>> cache.publish(first)                                                          # its prefill is over
    >>> second = cache.start([1, 2, 9]); second.row, second.found, second.copied      # the first still runs in row 0
    (1, 2, True)
    >>> cache.finish(first)
    >>> third = cache.start([1, 2, 8]); third.row, third.found, third.copied          # now nobody does
    (0, 2, False)
    >>> keys[1, :3, 0].tolist(), cache.states(), cache.rows
    ([7.5, 7.5, 0.0], ['running', 'running'], [[1, 2, 8], [1, 2, 9]])
    """

    def __init__(self, num_rows: int, max_nodes: int = 1000, arrays: Sequence[Any] = ()):
        self.pool = BitmaskPool(whole_number("num_rows", num_rows, 1, "there is at least 1 row"))
        self.max_nodes = whole_number("max_nodes", max_nodes, 1, "the trie has room for at least 1 node")
        self.arrays = tuple(arrays)
        for i, array in enumerate(self.arrays):
            if len(array.shape) < 3 or array.shape[0] != num_rows or array.shape[1] != self.arrays[0].shape[1]:
                rule = f"expected [{num_rows} rows, position, layer, ...], all of one length"
                raise ValueError(f"arrays[{i}] has the shape {tuple(array.shape)}: {rule}")
        self.max_length = self.arrays[0].shape[1] if self.arrays else None
        self.trie, self._free_numbers = VersionedTrie(), list[int]()  # numbers that nodes had
        self.rows = [list[int]() for _ in range(self.pool.size)]
        self._running: dict[int, RowSequence] = {}  # by row
        self._used, self._clock = [0] * self.pool.size, 0  # when each row was given back

    def start(self, tokens: TokensLike, limit: int | None = None) -> RowSequence:
        """Begin a sequence: find its prefix, and take over the row that has it, or copy the prefix into a fresh one.

        At most `limit` tokens are taken from the cache, by default all but the last, whose logits are to be computed.
        Raises `OutOfPages` when somebody runs in every row.
        """
        numbers = self._checked(pack(tokens).tolist())
        path = self.find(numbers, len(numbers) - 1 if limit is None else limit)
        if not self.pool.num_free:
            raise OutOfPages(needed=1, free=0)
        copied = bool(path) and not self.pool.is_free(path[-1].row)
        reused = [] if copied else path
        row = reused[-1].row if reused else self._fresh_row()
        self._take(row, reused)
        if copied:
            self._copy(path[-1].row, row, len(path))
        held = self.trie.acquire(numbers, limit=len(path))
        self.rows[row] = numbers
        self._running[row] = RowSequence(row, numbers, len(path), copied, held)
        return self._running[row]

    def _checked(self, numbers: list[int]) -> list[int]:
        if not numbers:
            raise ValueError("tokens are empty: a sequence has at least 1 token")
        if self.max_length is not None and len(numbers) > self.max_length:
            raise ValueError(f"{len(numbers)} tokens do not fit in a row of {self.max_length} positions")
        return numbers

    def _fresh_row(self) -> int:
        """A free row: one that no node names, or else the one that was given back first."""
        named, free = self._named(), filter(self.pool.is_free, range(self.pool.size))
        return min(free, key=lambda row: (row in named, self._used[row], row))

    def _named(self) -> set[int]:
        """The rows that some node names as they are now."""
        return {node.row for node in self.trie.nodes() if self.is_current(node)}

    def _take(self, row: int, path: list[RowNode]) -> None:
        """Take a free row with a new version, which of all nodes only those of `path` know."""
        self.pool.occupy(row, renew=True)
        self._name(path, row)

    def _copy(self, source: int, target: int, length: int) -> None:
        try:
            for array in self.arrays:
                array[target, :length] = array[source, :length]
        except BaseException:
            self.pool.free([target])
            raise

    def publish(self, sequence: RowSequence, generated: TokensLike = ()) -> None:
        """Cache a sequence after its prefill, or later with `generated` added, so that others can copy it meanwhile."""
        self._require(sequence)
        sequence.tokens = self._checked([*sequence.tokens, *pack(generated).tolist()])
        self.rows[sequence.row] = sequence.tokens
        count, free = len(sequence.tokens), self._free_numbers
        given = self.trie.total_size + len(free)
        free += range(given, given + count - len(free))
        done = self.trie.insert(sequence.tokens, free[:count])
        del free[done.prefix_length : count]  # which the new nodes have now
        self._name(done.node.path, sequence.row)
        self._make_room()

    def finish(self, sequence: RowSequence, generated: TokensLike = ()) -> None:
        """Publish a sequence and end it; its row stays cached until it is taken. `ValueError` if it is over."""
        self.publish(sequence, generated)
        self.abort(sequence)

    def abort(self, sequence: RowSequence) -> None:
        """End a sequence and publish nothing more of it; `ValueError` if it is over."""
        self._require(sequence)
        self._clock += 1
        self._used[sequence.row] = self._clock
        del self._running[sequence.row]
        self.trie.unlock(sequence.held)
        self.pool.free([sequence.row])

    def _require(self, sequence: RowSequence) -> None:
        if not isinstance(sequence, RowSequence):
            raise TypeError(f"the sequence is {bounded(sequence)}: expected what start() returned")
        if self._running.get(sequence.row) is not sequence:
            raise ValueError(f"the sequence in row {sequence.row} is over, or another cache started it")

    @property
    def root(self) -> Any:
        """The root of the trie."""
        return self.trie.roots[None]

    def is_current(self, node: Any) -> bool:
        """Return whether the row of `node` still holds what it held when the node named it."""
        return bool(node.row >= 0 and self.pool.version(node.row) == node.version)

    def find(self, tokens: TokensLike, limit: int | None = None) -> list[RowNode]:
        """The path of the longest prefix of `tokens`, of at most `limit`, that some row still holds; perhaps empty.

        Its last node names that row. If that one is stale, a node below it may know a row: each is looked at once.

        >>> cache = RowCache(2)
        >>> cache.finish(cache.start([1, 2, 3]))
        >>> [(node.tokens, node.row, node.version) for node in cache.find([1, 2, 9])]
        [([1], 0, 1), ([2], 0, 1)]
        """
        path: list[RowNode] = self.trie.match_prefix(tokens, limit=limit).node.path[::-1]
        looked_at = None
        while path and not self.is_current(path[-1]):
            below: list[Any] = path[-1:]
            for node in below:  # which grows meanwhile
                below += [child for child in node.children.values() if child is not looked_at]
            if current := next(filter(self.is_current, below), None):
                self._name(path[-1:], current.row)
            else:
                looked_at = path.pop()
        return path

    def _name(self, path: list[RowNode], row: int) -> None:
        """Let the stale nodes of `path` name `row` as it is now."""
        for node in path:
            if not self.is_current(node):
                node.row, node.version = row, self.pool.version(row)

    def _make_room(self) -> None:
        """Evict the least recently used leaves until the rest fits, or all of it is locked."""
        self._free_numbers += self.trie.evict(max(0, self.trie.total_size - self.max_nodes)).tolist()

    def states(self) -> list[str]:
        """The state of each row: running, free, or free and cached."""
        named = self._named()
        return [RUNNING if row in self._running else CACHED if row in named else FREE for row in range(self.pool.size)]

    def check(self) -> None:
        """Recompute the trie, the locks, and what nodes say of rows; `InvariantError` names the node or the row."""
        self.pool.check()
        self.trie.check()
        held = {node for sequence in self._running.values() for node in sequence.held.node.path}
        require(len(held) == self.trie.protected_size, f"{self.trie}: its locks are not those of what runs")
        require(self.trie.total_size <= self.max_nodes, f"{self.trie}: it has room for {self.max_nodes} nodes")
        for row in range(self.pool.size):
            require(self.pool.is_free(row) != (row in self._running), f"row {row}: free, or in use, in the pool only")
        for node in filter(self.is_current, self.trie.nodes()):
            prefix = [above.tokens[0] for above in reversed(node.path)]
            same = self.rows[node.row][: len(prefix)] == prefix
            require(same, f"{node}: it represents {prefix}, but row {node.row} holds {self.rows[node.row]}")

    def __repr__(self) -> str:
        rows = Counter(self.states())
        counts = f"{rows[RUNNING]} {RUNNING}, {rows[CACHED]} {CACHED}, {rows[FREE]} {FREE}"
        return f"RowCache({self.pool.size} rows: {counts}; {self.trie.total_size} of {self.max_nodes} nodes)"
