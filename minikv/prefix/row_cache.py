"""Rows: the other way to use a token trie. A sequence has one slot for all of its keys and values, and nodes name it.

Here a slot is a *row* of arrays `[row, position, layer, ...]`, as long as the longest sequence. A node of the trie says
in which row the keys and values of its prefix lie, and which version that row had. Nothing is shared while two run: a
sequence that finds its prefix in a row takes that row over if nobody runs in it, and otherwise copies the prefix into
a row of its own.

A row has one of three states: a sequence runs in it; it is free; or it is free *and* cached, so its content may still
be used until the row is taken for something else. No list says which nodes that makes stale: their version does
(`versioned_trie.py`). A row that holds only what other rows are named for is free and not cached: a duplicate is lost.

After AstrAI's `PrefixCacheManager`, which takes a row over without a new version, so nodes of the old sequence go on
naming what the new one overwrites. It may be used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from minikv.errors import OutOfPages, bounded, whole_number
from minikv.pools.bitmask import BitmaskPool
from minikv.prefix.versioned_trie import RowNode, VersionedTrie
from minikv.tokens import TokensLike, pack

RUNNING, FREE, CACHED = "running", "free", "free, cached"


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


class RowCache(VersionedTrie):
    """A prefix cache over `num_rows` rows, whose trie has room for `max_nodes` nodes.

    `arrays` are the keys and the values, of shape [row, position, layer, ...]: of numpy or torch, or none: then only
    nodes and rows are tracked. `num_layers` says how many layers are copied (default: all), for a model that has
    fewer than the arrays. A start takes a step for each token, and a look at each row where a fresh one is needed; rows
    are few.

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
        super().__init__(BitmaskPool(whole_number("num_rows", num_rows, 1, "there is at least 1 row")), max_nodes)
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
        self._running: dict[int, RowSequence] = {}  # by row
        self._used, self._clock = [0] * self.pool.size, 0

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
