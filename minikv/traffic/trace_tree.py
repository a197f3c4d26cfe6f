"""The prompts of a trace as one tree, and each request as the node at which its prompt ends.

A trace of agents repeats the same 84.9 million blocks in 45,542 prompts; of different ones there are 3.1 million. A
radix tree keeps those, and one node for each place where a prompt ends or two prompts part. Whatever is asked of the
trace afterwards walks over nodes, never over blocks: from the end of a prompt up to the root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from minikv.errors import InvariantError
from minikv.tokens import TOKEN_BYTES, common_bytes
from minikv.traffic.trace_file import TraceRequest

ROOT = 0
Column = np.ndarray[Any, np.dtype[np.int64]]


class PrefixTree:
    """Every distinct prefix of the prompts that are put in, of symbols of `width` bytes, each held once.

    For each node, `parents` has the node above it, `depths` the symbols from the root to its end, and `edges` the
    bytes between the two. For each prompt, `ends` has the node at which it ends: the root for an empty one.

    >>> tree = PrefixTree()
    >>> tree.insert(b"Be brief. Why?"), tree.insert(b"Be brief. How?"), tree.insert(b"Be kind.")
    ((0, 0), (10, 1), (3, 2))
    >>> tree.edges, tree.requests_through()
    ([b'', b'Why?', b'brief. ', b'How?', b'Be ', b'kind.'], [3, 1, 2, 1, 3, 1])
    """

    def __init__(self, width: int = 1) -> None:
        self.parents, self.depths, self.edges = [ROOT], [0], [b""]
        self.ends: list[int] = []
        self._children: list[dict[bytes, int]] = [{}]
        self._width = width

    def insert(self, data: bytes, after: int = ROOT) -> tuple[int, int]:
        """Put in a prompt; returns how many bytes it shares with earlier ones, and the last node that it shares.

        Of a node that had to be cut there, that is the lower part, which keeps its number. `data` is what the prompt
        has `after` an earlier one, which ends at that node.
        """
        node, last, at, width = after, after, 0, self._width
        while at < len(data):
            child = self._children[node].get(data[at : at + width])
            if child is None:
                break
            last, edge = child, self.edges[child]
            if data.startswith(edge, at):
                node, at = child, at + len(edge)
            else:
                same = common_bytes(edge, data, at, len(data), width)
                node, at = self._split(child, same), at + same
        shared = at
        if at < len(data):
            node = self._hang(node, data[at:])
        self.ends.append(node)
        return shared, last

    def _hang(self, node: int, edge: bytes) -> int:
        """A new node below `node`."""
        child = len(self.parents)
        self.parents.append(node)
        self.depths.append(self.depths[node] + len(edge) // self._width)
        self.edges.append(edge)
        self._children.append({})
        self._children[node][edge[: self._width]] = child
        return child

    def _split(self, node: int, cut: int) -> int:
        """Cut the edge of `node` after `cut` bytes; the new node is the upper part, so every prompt keeps its end."""
        parent, edge = self.parents[node], self.edges[node]
        upper = self._hang(parent, edge[:cut])
        self.parents[node], self.edges[node] = upper, edge[cut:]
        self._children[upper][edge[cut : cut + self._width]] = node
        return upper

    @property
    def num_distinct(self) -> int:
        """The symbols that an unlimited cache would hold in the end."""
        return sum(map(len, self.edges)) // self._width

    def path(self, node: int) -> Iterator[int]:
        """The nodes from `node` up to the root, which is left out.

        >>> tree = PrefixTree(); _ = tree.insert(b"ab0"), tree.insert(b"ab1")
        >>> list(tree.path(3))
        [3, 2]
        """
        while node != ROOT:
            yield node
            node = self.parents[node]

    def top_down(self) -> list[int]:
        """Every node but the root, each after its parent.

        >>> tree = PrefixTree(); _ = tree.insert(b"ab0"), tree.insert(b"ab1")
        >>> tree.top_down()
        [2, 1, 3]
        """
        return sorted(range(ROOT + 1, len(self.parents)), key=self.depths.__getitem__)

    def requests_through(self) -> list[int]:
        """For each node, how many prompts begin with the prefix that ends there.

        >>> tree = PrefixTree(); _ = tree.insert(b"ab"), tree.insert(b"ac")
        >>> tree.requests_through()
        [2, 1, 2, 1]
        """
        counts = [0] * len(self.parents)
        for end in self.ends:
            counts[end] += 1
        for node in reversed(self.top_down()):
            counts[self.parents[node]] += counts[node]
        return counts

    def check(self) -> None:
        """Raise `InvariantError` if a node is not where its edge says, or at a depth that its parent's denies."""
        for node in range(ROOT + 1, len(self.parents)):
            parent, edge = self.parents[node], self.edges[node]
            depth = self.depths[parent] + len(edge) // self._width
            if not edge or depth != self.depths[node] or self._children[parent].get(edge[: self._width]) != node:
                raise InvariantError(f"PrefixTree: node {node} ends at {self.depths[node]}, {depth} by its parent")


class TraceTree(PrefixTree):
    """Every distinct prefix of `requests`, read once: it costs a memcmp of each prompt, and a step for each node.

    `times` has when each request came (ms), `inputs` its length in tokens, and `conversations` where it belongs, or
    `None`. The same id in two places is two blocks, and belongs to two nodes: what counts is the path.

    >>> from minikv.tokens import pack
    >>> tree = TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in ([1, 2, 3], [1, 2, 4], [1, 2, 3]))
    >>> tree.parents, tree.depths, tree.ends
    ([0, 2, 0, 2], [0, 3, 2, 3], [1, 3, 1])
    >>> tree.num_distinct
    4
    """

    def __init__(self, requests: Iterable[TraceRequest] = ()):
        super().__init__(TOKEN_BYTES)
        self.times: list[float] = []
        self.inputs: list[int] = []
        self.conversations: list[int | None] = []
        for request in requests:
            self.insert(request.blocks.data)
            self.times.append(request.timestamp)
            self.inputs.append(request.input_length)
            self.conversations.append(request.conversation)

    @property
    def lengths(self) -> list[int]:
        """The blocks of each prompt."""
        return [self.depths[node] for node in self.ends]
