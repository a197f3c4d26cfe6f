"""The audit of an index: everything that it keeps up to date, recomputed from scratch over its `nodes()`.

One walk serves all indexes, and each adds what it knows of a node. It is apart from them, so that it walks and adds up
for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from minikv.errors import InvariantError, bounded, brief, require
from minikv.prefix.base_index import end_of, way_to
from minikv.prefix.contract import Handle
from minikv.prefix.eviction import EvictionOrder, LeastRecentlyUsed, SmallestKeyFirst
from minikv.tokens import TOKEN_BYTES


def check_nodes(cache: Any, held: Mapping[Handle, int], order: EvictionOrder, of_node: Callable[[Any], None]) -> None:
    """Raise `InvariantError` for the first fact of any index with `nodes()` that does not agree with them.

    A node has `id`, `parent`, `end`, `tokens`, `pages` and `ref_count`; `held` are the locks on handles, `order` is the
    order of the unlocked nodes, and `of_node` checks what only this index knows of a node.

    >>> from minikv import TokenTrie
    >>> cache = TokenTrie()
    >>> cache.insert([1, 2], [0, 1]).node.parent.ref_count = 3
    >>> cache.check()
    Traceback (most recent call last):
    minikv.errors.InvariantError: node 1: ref_count is 3, but the locks on its path make 0
    """
    nodes, roots = cache.nodes(), cache.roots
    known = {*nodes, *roots.values()}
    parents = {node.parent for node in nodes}
    for namespace, root in roots.items():
        _check_root(namespace, root, parents)
    ids = {node.id for node in known}
    require(len(ids) == len(known), f"{len(known)} nodes share {len(ids)} ids")
    for node in nodes:
        require(node.parent in known, f"node {node.id}: its parent is {node.parent}, which is not cached")
        _check_edge(cache.page_size, node)
        of_node(node)
    _check_locks(held, nodes)
    free = sum(len(node.tokens) for node in nodes if not node.ref_count)
    size = f"evictable_size is {cache.evictable_size}"
    require(cache.evictable_size == free, f"{size}, but the unlocked nodes hold {free} tokens")
    locked = sum(len(node.tokens) for node in nodes if node.ref_count)
    size = f"protected_size is {cache.protected_size}"
    require(cache.protected_size == locked, f"{size}, but the locked nodes hold {locked} tokens")
    _check_pages(nodes)
    _check_order(order, nodes)


def _check_edge(page_size: int, node: Any) -> None:
    """Whole pages of tokens, a page for each, after the parent's."""
    name, length, above, pages = f"node {node.id}", len(node.tokens), node.parent.end, len(node.pages)
    whole = length > 0 and length % page_size == 0
    require(whole, f"{name}: {length} tokens on its edge are not whole pages of {page_size}")
    require(pages * page_size == length, f"{name}: {pages} pages of {page_size} for {length} tokens")
    ends = f"{name}: ends at {node.end}, but its parent ends at {above} and its edge has {length} tokens"
    require(node.end == above + length, ends)


def check_tree_node(page_size: int, clock: int, next_id: int, node: Any) -> None:
    """Check what only a radix tree knows of a node; `clock` is its clock, `next_id` the next node's id.

    Its parent lists it under its first page, and each run of tokens has its run of pages. It was last used after it was
    cached, not after the clock's reading and, unless its parent is locked, not after its parent.

    >>> from minikv import RadixCache
    >>> cache = RadixCache()
    >>> cache.insert([1, 2], [0, 1]).node.last_used = 3
    >>> cache.check()
    Traceback (most recent call last):
    minikv.errors.InvariantError: node 1: used at 3, but the clock is at 1
    """
    name, parent = f"node {node.id}", node.parent
    listed = parent.children.get(node.key_bytes[: TOKEN_BYTES * page_size])
    require(listed is node, f"{name}: its parent {parent.id} does not list it under its first page")
    require(node.id < next_id, f"{name}: the next id to give out is {next_id}")
    keys, pages = ([*map(len, runs)] for runs in (node.key_runs, node.page_runs))
    fits = all(pages) and keys == [size * page_size for size in pages]
    require(fits, f"{name}: its runs of tokens have {keys} bytes, those of its pages {pages}")
    used = f"{name}: used at {node.last_used}"
    require(node.last_used <= clock, f"{used}, but the clock is at {clock}")
    require(node.created <= node.last_used, f"{used}, before it was cached at {node.created}")
    if parent.parent is not None:
        what = f"{name}: its priority {node.priority} is higher than its parent's, {parent.priority}"
        require(parent.priority >= node.priority, what)
        younger = parent.ref_count or parent.last_used >= node.last_used
        require(younger, f"{used}, later than its parent {parent.id} at {parent.last_used}")


def _check_root(namespace: Any, root: Any, parents: set[Any]) -> None:
    name, same = f"root of {bounded(namespace)}", root.namespace is namespace or root.namespace == namespace
    require(same, f"{name}: it says it is the root of another namespace")
    require(root.end == 0 and not root.key_bytes and root.parent is None, f"{name}: not a root")
    require(namespace is None or root in parents, f"{name}: kept, but it holds nothing")


def _check_locks(held: Mapping[Handle, int], nodes: Sequence[Any]) -> None:
    """A node's `ref_count` is the number of locks on handles at or below it."""
    expected = Counter[int]()
    for handle, count in held.items():
        node = end_of(handle)
        require(count > 0, f"node {node.id}: a handle of length {handle.length} is kept as holding {count} locks")
        require(node.end == handle.length, f"node {node.id}: ends at {node.end}, its locked handle at {handle.length}")
        for each in way_to(node):
            expected[each.id] += count
    for node in nodes:
        locks = expected.pop(node.id, 0)
        what = f"node {node.id}: ref_count is {node.ref_count}, but the locks on its path make {locks}"
        require(node.ref_count == locks, what)
    require(not expected, f"locked nodes {brief(sorted(expected))} are not in the tree")


def _check_order(order: Any, nodes: Sequence[Any]) -> None:
    """The eviction order holds every unlocked leaf and no locked node, each before its parent.

    A ring holds all unlocked nodes and a heap no inner ones; what an order of one's own does is its own affair.
    """
    if isinstance(order, LeastRecentlyUsed):
        free = sorted((node for node in nodes if not node.ref_count), key=lambda node: (node.last_used, -node.end))
        what = "the ring of nodes, least recently used first and of a path the deepest first"
        check_ring(what, order, free)
        return
    heap = isinstance(order, SmallestKeyFirst)
    known, place = {*nodes}, dict[Any, int]()
    for node in order:
        require(node is not None, f"the eviction order breaks off after {len(place)} of its nodes")
        require(node not in place, f"node {node.id}: twice in the eviction order")
        require(node in known, f"node {node.id}: in the eviction order, but not in the tree")
        place[node] = len(place)
    for node in nodes:
        there = node in place
        fits = there == (not node.ref_count and (not node.children or (there and not heap)))
        require(fits, f"node {node.id}: ref_count {node.ref_count}, {'in' if there else 'not in'} the eviction order")
        first = place.get(node, -1) < place.get(node.parent, len(place))
        require(first, f"node {node.id}: comes after its parent {node.parent.id} in the order")
    if heap:
        order.check()


def check_ring(what: str, ring: LeastRecentlyUsed, expected: Sequence[Any]) -> None:
    """The ring links what is expected, in that order, from the oldest to the youngest and back; `what` describes it."""

    names = {None: "nothing", ring: "the mark"}

    def named(member: Any) -> str:
        return names.get(member) or f"node {getattr(member, 'node', member).id}"  # or its window state

    for before, after in pairwise([ring, *expected, ring]):
        if before.newer is not after or after.older is not before:  # only now build the text: there are many nodes
            links = f"{named(before)} links to {named(before.newer)} and {named(after)} back to {named(after.older)}"
            raise InvariantError(f"{what}: {named(after)} belongs right after {named(before)}, but {links}")


def _check_pages(nodes: Sequence[Any]) -> None:
    """No page is cached twice: it can hold the keys and values of one run of tokens only."""
    holder: dict[int, int] = {}
    for node in nodes:
        for page in node.pages:
            other = holder.get(page)
            where = f"twice in node {node.id}" if other == node.id else f"in nodes {other} and {node.id}"
            require(other is None, f"page {page} is cached {where}")
            holder[page] = node.id


def check_windows(windows: Any, nodes: Sequence[Any], held: Mapping[Handle, int]) -> None:
    """Raise `InvariantError` for the first fact of `Windows` that does not agree with the `nodes` and the locks.

    >>> from minikv import SlidingWindowCache
    >>> cache = SlidingWindowCache(window=2)
    >>> cache.insert([1, 2, 3], [0, 1, 2]).node.window.live_from = 1
    >>> cache.check()
    Traceback (most recent call last):
    minikv.errors.InvariantError: window_evictable_size is 3, but the nodes have 2 live tokens that no lock needs
    """
    pins: dict[Any, list[int]] = {node: [] for node in nodes}  # where the windows of its locks begin
    for handle, count in held.items():
        for node in windows.reached(way_to(end_of(handle)), handle.length):
            pins[node] += [handle.length - windows.span] * count
    free = dead = 0
    for node in nodes:
        state = node.window
        _check_window(node, windows.page_size, sorted(pins[node]))
        free += state.num_free
        dead += state.live_from - node.start
    size = f"window_evictable_size is {windows.evictable}"
    require(windows.evictable == free, f"{size}, but the nodes have {free} live tokens that no lock needs")
    require(windows.dead == dead, f"{windows.dead} tokens are counted as dead, but the nodes have {dead}")
    states = (node.window for node in nodes if node.window.num_free)
    ring = "the ring of windows, least recently used first and of a path the nearest to the root first"
    check_ring(ring, windows.ring, sorted(states, key=lambda state: (state.used, state.node.end)))


def _check_window(node: Any, page_size: int, pins: list[int]) -> None:
    """The parts of one edge are in order and in whole pages, its locks are known, and it is not a useless tombstone."""
    name, state = f"node {node.id}", node.window
    live = f"{name}: live from {state.live_from}"
    require(sorted(state.pins) == pins, f"{name}: pins {sorted(state.pins)}, but its locks begin at {pins}")
    if pins:
        require(not state.lacks(pins[0]), f"{live}, but a lock needs it from {pins[0]}")
    inside = node.start <= state.live_from <= node.end and state.live_from % page_size == 0
    require(inside, f"{live}, but its edge is [{node.start}, {node.end})")
    require(node.children or not node.is_tombstone, f"{name}: a tombstone at the end of a path")
    there, free = state.older is not None, state.num_free
    require(there == (free > 0), f"{name}: {free} tokens may be freed, {'in' if there else 'not in'} the ring")
