"""The prompts of a trace as one tree, and each request as the node at which its prompt ends.

A trace of agents repeats the same 84.9 million blocks in 45,542 prompts; of different ones there are 3.1 million. A
radix tree keeps those, and one node for each place where a prompt ends or two prompts part. Whatever is asked of the
trace afterwards walks over nodes, never over blocks: from the end of a prompt up to the root.

Asked here: which prefixes are worth most, what a conversation sent before, which requests continue others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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

    def insert(self, data: bytes) -> tuple[int, int]:
        """Put in a prompt; returns how many bytes it shares with earlier ones, and the last node that it shares.

        Of a node that had to be cut there, that is the lower part, which keeps its number.
        """
        node, last, at, width = ROOT, ROOT, 0, self._width
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
            node = self._hang(node, data[at:], len(data))
        self.ends.append(node)
        return shared, last

    def _hang(self, node: int, edge: bytes, end_byte: int) -> int:
        """A new node below `node`."""
        child = len(self.parents)
        self.parents.append(node)
        self.depths.append(end_byte // self._width)
        self.edges.append(edge)
        self._children.append({})
        self._children[node][edge[: self._width]] = child
        return child

    def _split(self, node: int, cut: int) -> int:
        """Cut the edge of `node` after `cut` bytes; the new node is the upper part, so every prompt keeps its end."""
        parent, edge = self.parents[node], self.edges[node]
        upper = self._hang(parent, edge[:cut], self.depths[parent] * self._width + cut)
        self.parents[node], self.edges[node] = upper, edge[cut:]
        self._children[upper][edge[cut : cut + self._width]] = node
        return upper

    def children(self, node: int) -> list[int]:
        """The nodes below `node`, in the order in which they were put there."""
        return list(self._children[node].values())

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


# -- which prefixes are worth most ------------------------------------------------------------------------------------
#
# A prefix of d blocks with which n requests begin saves (n - 1) x d blocks: all but the first find it. Long prefixes
# contain short ones, so the list is made greedily, and a request is counted for one prefix only, as far as that
# reaches: after a prefix that was chosen, one that continues it counts what it adds, and a shorter one above it counts
# the other requests.


@dataclass(frozen=True)
class PrefixWorth:
    """A beginning of prompts: its `blocks`, how many `requests` have it, the first of them, and what it adds.

    It adds `saved` blocks for the `counted` requests that no longer prefix of the list explains, after the first
    `behind` blocks, which a shorter one explains. `conversations` is how many send it; 0 where that is not known.
    """

    blocks: int
    requests: int
    first: int
    counted: int
    behind: int
    saved: int
    conversations: int
    tokens_saved: int


def prefixes_worth_most(tree: TraceTree, block_size: int = 1, most: int = 10) -> list[PrefixWorth]:
    """At most `most` prefixes, by what each adds to those before it; the longer prefix first where two are equal.

    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> prompts = [1, 2, 3], [1, 2, 3], [1, 2, 3], [1], [1, 2], [1, 2]
    >>> tree = TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in prompts)
    >>> [(prefix.blocks, prefix.requests, prefix.saved) for prefix in prefixes_worth_most(tree)]
    [(2, 5, 8), (3, 3, 2)]
    """
    counts, order = tree.requests_through(), tree.top_down()
    found, chosen = list[PrefixWorth](), set[int]()
    left, behind = list(counts), [0] * len(counts)  # of each node: the requests to explain, the depth explained above
    while len(found) < most:
        sides = zip(left, tree.depths, behind)
        gains = [(max(0, count - 1) * (depth - above), depth) for count, depth, above in sides]
        saved, blocks = max(gains)
        if not saved:
            break
        node = gains.index((saved, blocks))
        first, conversations = _senders(tree, order, node)
        found.append(
            PrefixWorth(blocks, counts[node], first, left[node], behind[node], saved, conversations, saved * block_size)
        )
        explained = left[node]
        for above in itertools.takewhile(lambda node: node not in chosen, tree.path(node)):
            left[above] -= explained
        chosen.add(node)
        for below in order:
            parent = tree.parents[below]
            behind[below] = tree.depths[parent] if parent in chosen else behind[parent]
    return found


def _senders(tree: TraceTree, order: list[int], node: int) -> tuple[int, int]:
    """The first request through `node`, and how many conversations have requests through it."""
    below = {node}
    for other in order:
        if tree.parents[other] in below:
            below.add(other)
    through = [request for request, end in enumerate(tree.ends) if end in below]
    return min(through), len({tree.conversations[request] for request in through} - {None})


def own_depths(tree: TraceTree) -> Column | None:
    """For each request, the blocks at its beginning that its conversation had sent before; `None` if none is known.

    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> sent = [([1, 2], 0), ([1, 2, 3], 1), ([1, 2, 3], 0)]
    >>> own_depths(TraceTree(TraceRequest(0, 1000, 10, pack(ids), talk) for ids, talk in sent)).tolist()
    [0, 0, 2]
    """
    if not set(tree.conversations) - {None}:
        return None
    seen: dict[int | None, set[int]] = {}
    found = np.zeros(len(tree.ends), np.int64)
    for request, (end, conversation) in enumerate(zip(tree.ends, tree.conversations)):
        known = set[int]() if conversation is None else seen.setdefault(conversation, set())
        path = list(tree.path(end))
        found[request] = next((tree.depths[node] for node in path if node in known), 0)  # known: so are all above it
        known.update(path)
    return found


def continued_depths(tree: TraceTree) -> Column:
    """For each request, the length in blocks of the longest whole earlier prompt that it continues.

    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> prompts = [1, 2], [1, 2, 3], [1, 2, 3], [1, 9]
    >>> continued_depths(TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in prompts)).tolist()
    [0, 2, 2, 0]
    """
    ended: set[int] = set()
    found = np.zeros(len(tree.ends), np.int64)
    for request, end in enumerate(tree.ends):
        earlier = (tree.depths[node] for node in tree.path(end) if node != end and node in ended)
        found[request] = next(earlier, 0)
        ended.add(end)
    return found
