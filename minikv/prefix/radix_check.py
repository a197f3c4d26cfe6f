"""The radix tree's own audit: everything it keeps up to date, recomputed from scratch.

Separate from `radix.py` so that the tree stays short, and so that the audit walks and adds up for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikv.errors import InvariantError, bounded
from minikv.prefix.contract import brief
from minikv.prefix.eviction import LeastRecentlyUsed, SmallestKeyFirst
from minikv.tokens import TOKEN_BYTES

if TYPE_CHECKING:
    from minikv.prefix.radix import RadixCache, RadixNode


def check_radix(cache: RadixCache) -> None:
    """Raise `InvariantError` for the first fact of `cache` that does not agree with the tree itself.

    >>> from minikv import RadixCache
    >>> cache = RadixCache()
    >>> node = cache.insert([1, 2], [0, 1]).handle.node
    >>> node.ref_count = 3
    >>> check_radix(cache)
    Traceback (most recent call last):
    minikv.errors.InvariantError: node 1: ref_count is 3, but the locks on its path make 0
    """
    nodes = list(cache.nodes())
    for node in nodes:
        _check_edge(cache, node)
    _check_roots(cache)
    _check_ids(cache, nodes)
    _check_locks(cache, nodes)
    _check_order(cache, nodes)
    _check_sizes(cache, nodes)
    _check_pages(nodes)


def _require(true: bool, what: str) -> None:
    if not true:
        raise InvariantError(what)


def _check_edge(cache: RadixCache, node: RadixNode) -> None:
    """Links, page alignment and lengths of one node, seen from its parent."""
    name, length, parent = f"node {node.id}", len(node.key_bytes) // TOKEN_BYTES, node.parent
    _require(parent is not None, f"{name}: reachable from a root, but its parent is None")
    assert parent is not None
    whole = length > 0 and length % cache.page_size == 0
    _require(whole, f"{name}: {length} tokens on its edge are not whole pages of {cache.page_size}")
    listed = parent.children.get(node.key_bytes[: TOKEN_BYTES * cache.page_size]) is node
    _require(listed, f"{name}: its parent {parent.id} does not list it under its first page")
    pages = len(node.pages)
    _require(pages * cache.page_size == length, f"{name}: {pages} pages of {cache.page_size} for {length} tokens")
    runs = len(node.key_runs), len(node.page_runs)
    _require(runs[0] == runs[1], f"{name}: {runs[0]} runs of tokens and {runs[1]} of pages")
    for keys, held in zip(node.key_runs, node.page_runs):
        fits = bool(held) and len(keys) == len(held) * cache.page_size
        _require(fits, f"{name}: a run of {len(keys) // TOKEN_BYTES} tokens has {len(held) // TOKEN_BYTES} pages")
    _require(
        node.end == parent.end + length,
        f"{name}: ends at {node.end}, but its parent ends at {parent.end} and its edge has {length} tokens",
    )


def _check_roots(cache: RadixCache) -> None:
    for namespace, root in cache.roots.items():
        same = root.namespace is namespace or root.namespace == namespace  # type: ignore[attr-defined]
        _require(same, f"root of {bounded(namespace)}: it says it is the root of another namespace")
        _require(
            root.end == 0 and not root.key_bytes and root.parent is None, f"root of {bounded(namespace)}: not a root"
        )
        needed = namespace is None or root.children
        _require(bool(needed), f"root of {bounded(namespace)}: kept, but it holds nothing")


def _check_ids(cache: RadixCache, nodes: list[RadixNode]) -> None:
    ids = [node.id for node in nodes] + [root.id for root in cache.roots.values()]
    _require(len(set(ids)) == len(ids), f"{len(ids)} nodes share {len(set(ids))} ids")
    _require(max(ids) < cache._next_id, f"node {max(ids)}: the next id to give out is {cache._next_id}")


def _check_locks(cache: RadixCache, nodes: list[RadixNode]) -> None:
    """A node's `ref_count` is the number of locks on handles at or below it."""
    expected: dict[int, int] = {}
    for handle, count in cache._held.items():
        node = handle.node
        _require(count > 0, f"node {node.id}: a handle of length {handle.length} is kept as holding {count} locks")
        _require(node.end == handle.length, f"node {node.id}: ends at {node.end}, its locked handle at {handle.length}")
        while node.parent is not None:
            expected[node.id] = expected.get(node.id, 0) + count
            node = node.parent
    for node in nodes:
        locks = expected.pop(node.id, 0)
        _require(
            node.ref_count == locks,
            f"node {node.id}: ref_count is {node.ref_count}, but the locks on its path make {locks}",
        )
    _require(not expected, f"locked nodes {brief(sorted(expected))} are not in the tree")


def _check_order(cache: RadixCache, nodes: list[RadixNode]) -> None:
    """The eviction order holds every unlocked leaf and no locked node, each before its parent.

    A ring holds all unlocked nodes and a heap no inner ones; what an order of one's own does is its own affair.
    """
    ring, heap = (isinstance(cache._order, kind) for kind in (LeastRecentlyUsed, SmallestKeyFirst))
    place: dict[int, int] = {}
    for node in cache._order:
        _require(node is not None, f"the eviction order breaks off after {len(place)} of its nodes")
        _require(node.id not in place, f"node {node.id}: twice in the eviction order")
        place[node.id] = len(place)
    for node in nodes:
        there = node.id in place
        free = ring or (there and not heap) if node.children else True
        fits = there == (free and not node.ref_count)
        _require(fits, f"node {node.id}: ref_count {node.ref_count}, {'in' if there else 'not in'} the eviction order")
    strangers = sorted(place.keys() - {node.id for node in nodes})
    _require(not strangers, f"nodes {brief(strangers)} are in the eviction order, but not in the tree")
    for node in nodes:
        _check_age(cache, node, place)
    if ring:
        _check_ring(cache)
    elif isinstance(cache._order, SmallestKeyFirst):
        _check_heap(cache._order)


def _check_age(cache: RadixCache, node: RadixNode, place: dict[int, int]) -> None:
    """A node is no older than its tokens, no younger than the clock, nor than its parent, unless that is in use."""
    used, parent = f"node {node.id}: used at {node.last_used}", node.parent
    _require(node.last_used <= cache._clock, f"{used}, but the clock is at {cache._clock}")
    _require(node.created <= node.last_used, f"{used}, before it was cached at {node.created}")
    if parent is not None and parent.parent is not None:
        what = f"node {node.id}: its priority {node.priority} is higher than its parent's, {parent.priority}"
        _require(parent.priority >= node.priority, what)
    if parent is not None and parent.parent is not None and not parent.ref_count:
        _require(parent.last_used >= node.last_used, f"{used}, later than its parent {parent.id} at {parent.last_used}")
        after = node.id in place and parent.id in place and place[node.id] > place[parent.id]
        _require(not after, f"node {node.id}: stands after its parent {parent.id} in the order")


def _check_ring(cache: RadixCache) -> None:
    """Neighbours in the ring link to each other, and none stands behind a younger one."""
    oldest = cache._order.first()
    if oldest is not None:
        _require(oldest.older is cache._order, f"node {oldest.id}: it is the oldest, but links to an older one")
    for node in cache._order:
        _require(node.newer.older is node, f"node {node.id}: its neighbour does not link back")
        _require(
            node.newer is cache._order or node.newer.last_used >= node.last_used,
            f"node {node.id}: used at {node.last_used}, but stands before an older one",
        )


def _check_heap(order: SmallestKeyFirst) -> None:
    """Every leaf knows its place in the heap, has the key that its fields make, and sorts behind the one above it."""
    heap = order._heap
    for place, (key, number, node) in enumerate(heap):
        _require(node.newer == place, f"node {node.id}: at {place} in the heap, but thinks it is at {node.newer}")
        current = order.key(node)
        _require(key == current, f"node {node.id}: sorted by {key}, but its key is {current}")
        above = heap[(place - 1) // 2] if place else (key, number)
        _require(above[:2] <= (key, number), f"node {node.id}: key {key} stands below the larger {above[0]}")


def _check_sizes(cache: RadixCache, nodes: list[RadixNode]) -> None:
    evictable = sum(len(node.tokens) for node in nodes if not node.ref_count)
    protected = sum(len(node.tokens) for node in nodes if node.ref_count)
    _require(
        cache.evictable_size == evictable,
        f"evictable_size is {cache.evictable_size}, the unlocked nodes hold {evictable} tokens",
    )
    _require(
        cache.protected_size == protected,
        f"protected_size is {cache.protected_size}, the locked nodes hold {protected} tokens",
    )


def _check_pages(nodes: list[RadixNode]) -> None:
    """No page is cached twice: it can hold the keys and values of one run of tokens only."""
    holder: dict[int, int] = {}
    for node in nodes:
        for page in node.pages:
            where = (
                f"twice in node {node.id}"
                if holder.get(page) == node.id
                else f"in nodes {holder.get(page)} and {node.id}"
            )
            _require(page not in holder, f"page {page} is cached {where}")
            holder[page] = node.id
