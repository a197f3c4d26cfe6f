"""The prefixes that are worth most: which beginnings of prompts would save the most tokens if they stayed cached.

A prefix of d blocks with which n requests begin saves (n - 1) x d blocks: all but the first find it. Long prefixes
contain short ones, so the list is made greedily, and a request is counted for one prefix only, as far as that reaches:
after a prefix that was chosen, one that continues it counts what it adds, and a shorter one above it counts the other
requests.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minikv.traffic.reuse import Column
from minikv.traffic.trace_tree import TraceTree


class PrefixWorth(NamedTuple):
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


def prefixes_worth_most(tree: TraceTree, most: int = 10) -> list[PrefixWorth]:
    """At most `most` prefixes, by what each adds to those before it; the longer prefix first where two are equal.

    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> prompts = [1, 2, 3], [1, 2, 3], [1, 2, 3], [1], [1, 2], [1, 2]
    >>> tree = TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in prompts)
    >>> [(prefix.blocks, prefix.requests, prefix.saved) for prefix in prefixes_worth_most(tree)]
    [(2, 5, 8), (3, 3, 2)]
    """
    choice, found = _Choice(tree), []
    for _ in range(most):
        prefix = choice.best()
        if not prefix.saved:
            break
        found.append(prefix)
    return found


class _Choice:
    """Which prefixes were chosen, and for each node the requests `left` to explain and the depth explained above it."""

    def __init__(self, tree: TraceTree):
        self._tree, self._order, self._chosen = tree, tree.top_down(), set[int]()
        self._counts = tree.requests_through()
        self._left, self._behind = list(self._counts), [0] * len(self._counts)

    def best(self) -> PrefixWorth:
        """Choose the prefix that adds the most."""
        sides = zip(self._left, self._tree.depths, self._behind)
        gains = [(max(0, count - 1) * (depth - above), depth) for count, depth, above in sides]
        saved, blocks = max(gains)
        node = gains.index((saved, blocks))
        first, conversations = self._senders(node)
        prefix = PrefixWorth(
            blocks, self._counts[node], first, self._left[node], self._behind[node], saved, conversations
        )
        self._explain(node)
        return prefix

    def _explain(self, node: int) -> None:
        """Count out the requests through `node`: for it, for what is above it up to a chosen one, and below it."""
        explained = self._left[node]
        for above in self._tree.path(node):
            if above in self._chosen:
                break
            self._left[above] -= explained
        self._chosen.add(node)
        for below in self._order:
            above = self._tree.parents[below]
            self._behind[below] = self._tree.depths[above] if above in self._chosen else self._behind[above]

    def _senders(self, node: int) -> tuple[int, int]:
        """The first request through `node`, and how many conversations have requests through it."""
        below = {node}
        for other in self._order:
            if self._tree.parents[other] in below:
                below.add(other)
        through = [request for request, end in enumerate(self._tree.ends) if end in below]
        return min(through, default=0), len({self._tree.conversations[request] for request in through} - {None})


def own_depths(tree: TraceTree) -> Column | None:
    """For each request, the blocks at its beginning that its conversation had sent before; `None` if none is known.

    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> sent = [([1, 2], 0), ([1, 2, 3], 1), ([1, 2, 3], 0)]
    >>> own_depths(TraceTree(TraceRequest(0, 1000, 10, pack(ids), talk) for ids, talk in sent)).tolist()
    [0, 0, 2]
    """
    if all(conversation is None for conversation in tree.conversations):
        return None
    seen: dict[int, set[int]] = {}
    found = np.zeros(len(tree.ends), np.int64)
    for request, (end, conversation) in enumerate(zip(tree.ends, tree.conversations)):
        if conversation is not None:
            known = seen.setdefault(conversation, set())
            for node in tree.path(end):
                if node in known:  # and so are all above it
                    found[request] = tree.depths[node]
                    break
                known.add(node)
    return found


def continued_depths(tree: TraceTree) -> Column:
    """For each request, the length in blocks of the longest whole earlier prompt that it goes on from.

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
