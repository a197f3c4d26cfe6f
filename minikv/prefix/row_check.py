"""The audit of a `RowCache`: every count, link and pin, recomputed from scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikv.errors import InvariantError

if TYPE_CHECKING:
    from minikv.prefix.row_cache import RowCache
    from minikv.prefix.versioned_trie import RowNode


def check_rows(cache: RowCache) -> None:
    """Raise `InvariantError` for the first fact of `cache` that does not agree with its trie.

    >>> from minikv import RowCache
    >>> cache = RowCache(2)
    >>> cache.finish(cache.start([1, 2])); next(cache.nodes()).pins = 3
    >>> check_rows(cache)
    Traceback (most recent call last):
    minikv.errors.InvariantError: node 1: pinned 3 times, but 0 sequences hold it
    """
    nodes = list(cache.nodes())
    _require(len(nodes) == cache.num_nodes, f"num_nodes is {cache.num_nodes}, the trie has {len(nodes)}")
    _require(len(nodes) <= cache.max_nodes, f"the trie has {len(nodes)} nodes, max_nodes is {cache.max_nodes}")
    _require(len({node.id for node in nodes}) == len(nodes), f"{len(nodes)} nodes share fewer ids")
    for node in nodes:
        parent = node.parent
        linked = parent is not None and parent.children.get(node.token) is node and node.depth == parent.depth + 1
        _require(linked, f"node {node.id}: its parent does not link to it by {node.token}")
    _check_rows(cache, nodes)
    _check_pins(cache, nodes)
    _check_order(cache, nodes)


def _check_rows(cache: RowCache, nodes: list[RowNode]) -> None:
    """A row is in use where a sequence runs in it; a row's nodes are counted, and lie on one path."""
    cache.pool.check()
    for row in range(cache.pool.size):
        runs = row in cache._running
        _require(cache.pool.is_free(row) != runs, f"row {row}: {'free' if not runs else 'in use'} in the pool only")
        named = [node for node in nodes if node.row == row and cache.is_current(node)]
        _require(len(named) == cache._named[row], f"row {row}: {cache._named[row]} nodes counted, {len(named)} name it")
        depths = {node.depth for node in named}
        _require(len(depths) == len(named), f"row {row}: two nodes of one depth name it")


def _check_pins(cache: RowCache, nodes: list[RowNode]) -> None:
    pins: dict[int, int] = {}
    for sequence in cache._running.values():
        for node in sequence.held:
            pins[node.id] = pins.get(node.id, 0) + 1
    for node in nodes:
        held = pins.pop(node.id, 0)
        _require(node.pins == held, f"node {node.id}: pinned {node.pins} times, but {held} sequences hold it")
    _require(not pins, f"nodes {sorted(pins)[:8]} are held, but not in the trie")


def _check_order(cache: RowCache, nodes: list[RowNode]) -> None:
    """The ring holds every unpinned node and no other, each before its parent."""
    place = {node.id: at for at, node in enumerate(cache._ring)}
    for node in nodes:
        _require((node.id in place) == (not node.pins), f"node {node.id}: pinned {node.pins} times, or not in the ring")
        parent = node.parent
        if parent is not None and parent.id in place and node.id in place:
            _require(place[node.id] < place[parent.id], f"node {node.id}: stands behind its parent in the ring")
    strangers = place.keys() - {node.id for node in nodes}
    _require(not strangers, f"nodes {sorted(strangers)[:8]} are in the ring, but not in the trie")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvariantError(message)
