"""The token trie's own audit: everything it keeps up to date, recomputed from scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikv.errors import InvariantError

if TYPE_CHECKING:
    from minikv.prefix.token_trie import TokenTrie, TrieNode


def check_trie(cache: TokenTrie) -> None:
    """Raise `InvariantError` for the first fact of `cache` that does not agree with the trie itself.

    >>> from minikv import TokenTrie
    >>> cache = TokenTrie()
    >>> cache.insert([1, 2], [0, 1]).handle.node.ref_count = 3
    >>> check_trie(cache)
    Traceback (most recent call last):
    minikv.errors.InvariantError: node 2: ref_count is 3, but the locks on its path make 0
    """
    nodes = list(cache.nodes())
    _check_links(cache, nodes)
    _check_locks(cache, nodes)
    _check_ring(cache, nodes)
    for name, counted, found in (
        ("evictable_size", cache.evictable_size, [node for node in nodes if not node.ref_count]),
        ("protected_size", cache.protected_size, [node for node in nodes if node.ref_count]),
    ):
        size = len(found) * cache.page_size
        _require(counted == size, f"{name} is {counted}, the nodes hold {size} tokens")


def _check_links(cache: TokenTrie, nodes: list[TrieNode]) -> None:
    """Every node hangs where its key says, one page below its parent, and no number or page is there twice."""
    _require(len({node.id for node in nodes}) == len(nodes), f"{len(nodes)} nodes share fewer ids")
    holder: dict[int, int] = {}
    for node in nodes:
        _require(node.page not in holder, f"page {node.page} is cached in nodes {holder.get(node.page)} and {node.id}")
        holder[node.page] = node.id
        parent = node.parent
        linked = parent is not None and parent.children.get(node.key) is node
        _require(linked, f"node {node.id}: its parent does not link to it by {node.key}")
        above = parent.end if parent is not None else 0
        _require(node.end == above + cache.page_size, f"node {node.id}: ends at {node.end}, its parent at {above}")
        _require(len(node.tokens) == cache.page_size, f"node {node.id}: has {len(node.tokens)} tokens, not a page")
        _require(0 < node.id < cache._next_id, f"node {node.id}: the next id to give out is {cache._next_id}")
        _require(node.page >= 0, f"node {node.id}: its page is {node.page}")


def _check_locks(cache: TokenTrie, nodes: list[TrieNode]) -> None:
    """The `ref_count` of a node is the number of locks on handles at or below it."""
    expected: dict[int, int] = {}
    for handle, count in cache._receipts.held.items():
        node = handle.node
        _require(count > 0, f"the handle of length {handle.length} is kept as holding {count} locks")
        _require(node.end == handle.length, f"node {node.id}: ends at {node.end}, its locked handle at {handle.length}")
        while node.parent is not None:
            expected[node.id] = expected.get(node.id, 0) + count
            node = node.parent
    for node in nodes:
        locks = expected.pop(node.id, 0)
        what = f"node {node.id}: ref_count is {node.ref_count}, but the locks on its path make {locks}"
        _require(node.ref_count == locks, what)
    _require(not expected, f"locked nodes {sorted(expected)[:8]} are not in the trie")


def _check_ring(cache: TokenTrie, nodes: list[TrieNode]) -> None:
    """The ring holds every unlocked node and no other, each before its parent and none before an older one."""
    place: dict[int, int] = {}
    used = 0
    for node in cache._ring:
        _require(node.id not in place, f"node {node.id}: twice in the ring")
        _require(node.newer.older is node, f"node {node.id}: its neighbour in the ring does not link back")
        _require(used <= node.last_used <= cache._clock, f"node {node.id}: used at {node.last_used}, behind {used}")
        place[node.id], used = len(place), node.last_used
    for node in nodes:
        there = node.id in place
        where = "in" if there else "not in"
        _require(there == (not node.ref_count), f"node {node.id}: ref_count {node.ref_count}, {where} the ring")
        parent = node.parent
        if there and parent is not None and parent.id in place and parent.parent is not None:
            _require(place[node.id] < place[parent.id], f"node {node.id}: stands behind its parent in the ring")
    strangers = sorted(place.keys() - {node.id for node in nodes})
    _require(not strangers, f"nodes {strangers[:8]} are in the ring, but not in the trie")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise InvariantError(message)
