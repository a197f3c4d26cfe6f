"""The prompts of a trace as one tree, and each request as the node at which its prompt ends.

A trace of agents repeats the same 84.9 million blocks in 45,542 prompts; of different ones there are 3.1 million. A
radix tree keeps those, and one node for each place where a prompt ends or two prompts part. Whatever is asked of the
trace afterwards walks over nodes, never over blocks: from the end of a prompt up to the root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minikv.tokens import TOKEN_BYTES, common_bytes
from minikv.traffic.traces import TraceRequest

ROOT = 0


class TraceTree:
    """Every distinct prefix of `requests`, read once: it costs a memcmp of each prompt, and a step for each node.

    For each node, `parents` has the node above it and `depths` the blocks from the root to its end. For each request,
    `ends` has the node at which its prompt ends (the root for an empty one), `times` when it came (ms), `inputs` its
    length in tokens, and `conversations` where it belongs, or `None`. The same id in two places is two blocks, and
    belongs to two nodes: what counts is the path.

    >>> from minikv.tokens import pack
    >>> tree = TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in ([1, 2, 3], [1, 2, 4], [1, 2, 3]))
    >>> tree.parents, tree.depths, tree.ends
    ([0, 2, 0, 2], [0, 3, 2, 3], [1, 3, 1])
    >>> tree.num_distinct
    4
    """

    def __init__(self, requests: Iterable[TraceRequest] = ()):
        self.parents, self.depths = [ROOT], [0]
        self.ends: list[int] = []
        self.times: list[float] = []
        self.inputs: list[int] = []
        self.conversations: list[int | None] = []
        self._edges = [b""]
        self._children: list[dict[bytes, int]] = [{}]
        for request in requests:
            self.add(request)

    def add(self, request: TraceRequest) -> int:
        """Take in the next request; returns the node at which its prompt ends.

        >>> from minikv.tokens import pack
        >>> TraceTree().add(TraceRequest(0, 1000, 10, pack([1, 2])))
        1
        """
        node, at, data = ROOT, 0, request.blocks.data
        while at < len(data):
            child = self._children[node].get(data[at : at + TOKEN_BYTES])
            if child is None:
                node, at = self._hang(node, data[at:], len(data)), len(data)
            elif data.startswith(self._edges[child], at):
                node, at = child, at + len(self._edges[child])
            else:
                same = common_bytes(self._edges[child], data, at, len(data), TOKEN_BYTES)
                node, at = self._split(child, same), at + same
        self.ends.append(node)
        self.times.append(request.timestamp)
        self.inputs.append(request.input_length)
        self.conversations.append(request.conversation)
        return node

    def _hang(self, node: int, edge: bytes, end_byte: int) -> int:
        """A new node below `node`."""
        child = len(self.parents)
        self.parents.append(node)
        self.depths.append(end_byte // TOKEN_BYTES)
        self._edges.append(edge)
        self._children.append({})
        self._children[node][edge[:TOKEN_BYTES]] = child
        return child

    def _split(self, node: int, cut: int) -> int:
        """Cut the edge of `node` after `cut` bytes; the new node is the upper part, so every request keeps its end."""
        parent, edge = self.parents[node], self._edges[node]
        end_byte = self.depths[parent] * TOKEN_BYTES + cut
        upper = self._hang(parent, edge[:cut], end_byte)
        self.parents[node], self._edges[node] = upper, edge[cut:]
        self._children[upper][edge[cut : cut + TOKEN_BYTES]] = node
        return upper

    @property
    def num_distinct(self) -> int:
        """The blocks that an unlimited cache would hold in the end."""
        return sum(map(len, self._edges)) // TOKEN_BYTES

    @property
    def lengths(self) -> list[int]:
        """The blocks of each prompt."""
        return [self.depths[node] for node in self.ends]

    def path(self, node: int) -> Iterator[int]:
        """The nodes from `node` up to the root, which is left out.

        >>> from minikv.tokens import pack
        >>> tree = TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in ([1, 2, 3], [1, 2, 4]))
        >>> list(tree.path(3))
        [3, 2]
        """
        while node != ROOT:
            yield node
            node = self.parents[node]

    def top_down(self) -> list[int]:
        """Every node but the root, each behind its parent.

        >>> from minikv.tokens import pack
        >>> TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in ([1, 2, 3], [1, 2, 4])).top_down()
        [2, 1, 3]
        """
        return sorted(range(ROOT + 1, len(self.parents)), key=self.depths.__getitem__)
