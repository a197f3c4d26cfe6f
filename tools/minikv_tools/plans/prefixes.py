"""Which prefixes of a trace are worth most, what a conversation sent before, which requests continue others."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from minikv.traffic.trace_tree import Column, TraceTree

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


def prefixes_worth_most(tree: TraceTree, block_size: int = 1, most: int = 10,
                        warm_up: int = 0) -> list[PrefixWorth]:  # fmt: skip
    """At most `most` prefixes, by what each adds to those before it; the longer prefix first where two are equal.

    What the first `warm_up` requests find is not counted; what they leave is there for the others.

    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> prompts = [1, 2, 3], [1, 2, 3], [1, 2, 3], [1], [1, 2], [1, 2]
    >>> tree = TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in prompts)
    >>> [(prefix.blocks, prefix.requests, prefix.saved) for prefix in prefixes_worth_most(tree)]
    [(2, 5, 8), (3, 3, 2)]
    """
    counts, order = tree.requests_through(), tree.top_down()
    found, chosen = list[PrefixWorth](), set[int]()
    warm = Counter(node for end in tree.ends[:warm_up] for node in tree.path(end))
    left = [count - warm[node] for node, count in enumerate(counts)]  # the requests to explain
    behind = [0] * len(counts)  # the depth explained above
    while len(found) < most:
        sides = enumerate(zip(left, tree.depths, behind))
        gains = [(max(0, count - (node not in warm)) * (depth - above), depth)
                 for node, (count, depth, above) in sides]  # fmt: skip
        saved, blocks = max(gains)
        if not saved:
            break
        node = gains.index((saved, blocks))
        first, conversations, explained = *_senders(tree, order, node), left[node]
        found.append(PrefixWorth(blocks, counts[node], first, explained, behind[node], saved,
                                 conversations, saved * block_size))  # fmt: skip
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
    seen, found = defaultdict[int | None, set[int]](set), list[int]()
    for end, conversation in zip(tree.ends, tree.conversations):
        known = set[int]() if conversation is None else seen[conversation]
        found.append(_deepest(tree, end, known))
        known.update(tree.path(end))
    return np.array(found, np.int64)


def continued_depths(tree: TraceTree) -> Column:
    """For each request, the length in blocks of the longest whole earlier prompt that it continues.

    >>> from minikv.traffic import TraceRequest
    >>> from minikv.tokens import pack
    >>> prompts = [1, 2], [1, 2, 3], [1, 2, 3], [1, 9]
    >>> continued_depths(TraceTree(TraceRequest(0, 1000, 10, pack(ids)) for ids in prompts)).tolist()
    [0, 2, 2, 0]
    """
    ended, found = set[int](), list[int]()
    for end in tree.ends:
        found.append(_deepest(tree, tree.parents[end], ended))
        ended.add(end)
    return np.array(found, np.int64)


def _deepest(tree: TraceTree, node: int, known: set[int]) -> int:
    """The depth of the first known node on the way from `node` up to the root; 0 if there is none."""
    return next((tree.depths[above] for above in tree.path(node) if above in known), 0)
