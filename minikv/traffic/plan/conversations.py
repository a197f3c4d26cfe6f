"""How much of a prompt its own conversation had sent before: what sharing between conversations adds to the rest.

Some traces name the conversation of each request. Of the others it can only be said which prompts go on from a whole
earlier one, as the next turn of a conversation does.
"""

from __future__ import annotations

import numpy as np

from minikv.traffic.reuse import Column
from minikv.traffic.trace_tree import TraceTree


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
