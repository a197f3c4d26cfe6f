"""The tree of chapters 03 to 05, with eviction as one would first write it down: what `minikv bench` races against.

Edges are lists of numbers, compared token by token in Python. There is no ring: every eviction visits the whole tree to
find the leaves and makes a heap of them, as most engines did.
"""

from __future__ import annotations

import heapq
from typing import Any

from minikv.engine import engine_world


class Clock:
    """In the ring's place: it counts how often something was used."""

    now = 0


def use_path(clock: Clock, node: Any) -> None:
    """The nodes from `node` up were used now."""
    clock.now += 1
    while node.parent is not None:
        node.last_used = clock.now
        node = node.parent


def evict_by_scan(cache: Any, num_pages: int) -> list[int]:
    """Free unlocked leaves, least recently used first: visit every node, make a heap of the leaves, pop."""
    # no two leaves were used at one time, so the heap never compares nodes
    heap = [(node.last_used, node) for node in cache.nodes() if not (node.children or node.locks)]
    heapq.heapify(heap)
    freed = list[int]()
    while heap and len(freed) < num_pages:
        _, leaf = heapq.heappop(heap)
        parent = leaf.parent
        del parent.children[leaf.tokens[0]]
        cache.evictable -= len(leaf.tokens)
        freed += leaf.slots
        if parent.parent is not None and not parent.children and not parent.locks:
            heapq.heappush(heap, (parent.last_used, parent))
    return freed


def _no_ring(*_: Any) -> None:
    """Do the work of `link` and `unlink`."""


_WORLD = engine_world(2, 3, 4, 5)
_WORLD |= {"Ring": Clock, "touch": use_path, "link": _no_ring, "unlink": _no_ring, "evict": evict_by_scan}
_TREE: Any = _WORLD["RadixCache"]


class TextbookCache(_TREE):  # type: ignore[misc]
    """The course's own tree without its ring.

    >>> cache = TextbookCache()
    >>> _ = cache.insert([1, 2, 3], [0, 1, 2])
    >>> cache.match_prefix([1, 2, 9]).slots.tolist(), cache.evict(1).tolist(), cache.evictable_size
    ([0, 1], [2], 2)
    >>> _ = cache.insert([1, 2, 4], [0, 1, 3]); match = cache.match_prefix([1, 2]); cache.lock(match)
    >>> cache.evict(9).tolist()   # the leaf below what is locked
    [3]
    """
