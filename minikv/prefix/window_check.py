"""The audit of a sliding-window tree: what its windows component keeps up to date, recomputed from scratch."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from minikv.errors import InvariantError
from minikv.prefix.contract import Handle
from minikv.prefix.page_hashes import HashedNode
from minikv.prefix.windows import WindowNode

if TYPE_CHECKING:
    from minikv.prefix.sliding_window import SlidingWindowCache


def check_windows(cache: SlidingWindowCache) -> None:
    """Raise `InvariantError` for the first fact about windows that does not agree with the tree and its locks.

    >>> from minikv import SlidingWindowCache
    >>> cache = SlidingWindowCache(window=2)
    >>> node = cache.insert([1, 2, 3], [0, 1, 2]).handle.node
    >>> node.window.live_from = 1
    >>> check_windows(cache)
    Traceback (most recent call last):
    minikv.errors.InvariantError: window_evictable_size is 3, the nodes have 2 live tokens that no lock needs
    """
    _check_hashes(cache)
    nodes = [node for node in cache.nodes() if isinstance(node, WindowNode)]
    pins = _pins(cache)
    for node in nodes:
        _check_node(cache, node, sorted(pins.get(node.id, [])))
    _check_sizes(cache, nodes)
    _check_ring(cache, nodes)


def _require(true: bool, what: str) -> None:
    if not true:
        raise InvariantError(what)


def _pins(cache: SlidingWindowCache) -> dict[int, list[int]]:
    """Where the windows of all locks begin, for each node that they reach."""
    found: dict[int, list[int]] = {}
    for handle, count in cache._held.items():
        begin, node = handle.length - cache.windows.span, handle.node
        while cache.window is not None and isinstance(node, WindowNode) and node.end > begin:
            found.setdefault(node.id, []).extend([begin] * count)
            node = node.parent
        _check_valid(cache, handle, begin)
    return found


def _check_valid(cache: SlidingWindowCache, handle: Handle, begin: int) -> None:
    """A lock holds a place at which no layer lacks anything."""
    node = handle.node
    while isinstance(node, WindowNode) and node.end > begin:
        live = node.window.live_from <= max(node.start, begin)
        _require(live, f"node {node.id}: live from {node.window.live_from}, a lock needs it from {begin}")
        node = node.parent


def _check_node(cache: SlidingWindowCache, node: WindowNode, pins: list[int]) -> None:
    """The parts of one edge are in order and in whole pages, its locks are known, and it is not a useless tombstone."""
    name, state = f"node {node.id}", node.window
    inside = node.start <= state.live_from <= node.end and state.live_from % cache.page_size == 0
    _require(inside, f"{name}: live from {state.live_from}, but its edge is [{node.start}, {node.end})")
    _require(sorted(state.pins) == pins, f"{name}: pins {sorted(state.pins)}, but its locks begin at {pins}")
    _require(bool(node.children) or not node.is_tombstone, f"{name}: a tombstone at the end of a path")
    there, free = state.older is not None, state.num_free
    _require(there == (free > 0), f"{name}: {free} tokens may be freed, {'in' if there else 'not in'} the ring")


def _check_sizes(cache: SlidingWindowCache, nodes: list[WindowNode]) -> None:
    free = sum(node.window.num_free for node in nodes)
    pinned = sum(node.end - max(node.window.pinned_from, node.window.live_from) for node in nodes)
    size = f"window_evictable_size is {cache.window_evictable_size}"
    _require(cache.window_evictable_size == free, f"{size}, the nodes have {free} live tokens that no lock needs")
    dead = sum(node.window.live_from - node.start for node in nodes)
    _require(cache.windows.dead == dead, f"{cache.windows.dead} tokens are counted as dead, the nodes have {dead}")
    size = f"window_protected_size is {cache.window_protected_size}"
    _require(cache.window_protected_size == pinned, f"{size}, the locks need {pinned} tokens")


def _check_ring(cache: SlidingWindowCache, nodes: list[WindowNode]) -> None:
    """The ring holds nodes of the tree, least recently used first, of equally recent ones the upper first."""
    ring, known = [state.node for state in cache.windows.ring], {node.id for node in nodes}
    for node in ring:
        _require(node.id in known, f"node {node.id}: in the ring of windows, but not in the tree")
    for before, after in pairwise(ring):
        keys = [(node.window.used, node.end) for node in (before, after)]
        what = f"node {before.id}: used at {keys[0][0]}, but stands before node {after.id}, used at {keys[1][0]}"
        _require(keys[0] < keys[1], f"{what}, in the ring of windows")


def _check_hashes(cache: SlidingWindowCache) -> None:
    """A node that keeps the names of its pages keeps one for each."""
    for node in cache.nodes():
        if isinstance(node, HashedNode) and node.hashes is not None:
            kept, pages = len(node.hashes), len(node.pages)
            _require(kept == pages, f"node {node.id}: {kept} hashes for {pages} pages")
