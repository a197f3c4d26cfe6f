"""A trie whose nodes name rows: one token a node, and the row, with its version, that holds the prefix ending there.

A row's version is counted up when the row is taken, and every node that names an older one is stale at once, so nothing
here has to be told. A stale node is not lost while a node below it is current: the row of that one begins with the same
tokens.

The trie has room for so many nodes. The least recently used leaf goes first, and a pinned path not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from minikv.errors import whole_number
from minikv.pools.bitmask import BitmaskPool
from minikv.prefix.contract import require_limit
from minikv.prefix.eviction import LeastRecentlyUsed
from minikv.tokens import TokensLike, pack


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


class VersionedTrie:
    """At most `max_nodes` nodes that name rows of `pool`, a page of which is a row.

    It takes no row and frees none: `RowCache` does, and says what is in them. Finding costs a step for each token.

    >>> from minikv import RowCache
    >>> cache = RowCache(1)
    >>> cache.finish(cache.start([1, 2, 3])); [node.token for node in cache.find([1, 2, 9])]
    [1, 2]
    >>> _ = cache.start([8]); cache.find([1, 2, 9])                # the row was taken for something else
    []
    """

    def __init__(self, pool: BitmaskPool, max_nodes: int):
        self.pool = pool
        self.max_nodes = whole_number("max_nodes", max_nodes, 1, "the trie has room for at least 1 node")
        self.root, self.num_nodes, self._next_id = RowNode(0, -1, None), 0, 1
        self._ring = LeastRecentlyUsed()
        self._named = [0] * pool.size  # how many nodes name a row as it is now

    def nodes(self) -> Iterator[RowNode]:
        """Every node but the root, parents before children."""
        stack = list(self.root.children.values())[::-1]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children.values()))

    def is_current(self, node: RowNode) -> bool:
        """Whether the row of `node` still holds what it held when the node was made."""
        return node.row >= 0 and self.pool.version(node.row) == node.version

    def find(self, tokens: TokensLike, limit: int | None = None) -> list[RowNode]:
        """The path of the longest prefix of `tokens`, of at most `limit`, that some row still holds; perhaps empty.

        Its last node names that row. Where it is stale a node below it may know one, and where none does, all of them
        go: each is looked at once, so that costs no more than it did to make them.

        >>> from minikv import RowCache
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
