"""The hash index's own audit: everything it keeps up to date, recomputed from scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikv.errors import InvariantError, bounded
from minikv.prefix.block import Block, BlockRoot, path_of
from minikv.prefix.contract import brief
from minikv.tokens import TOKEN_BYTES

if TYPE_CHECKING:
    from minikv.prefix.hash_blocks import HashBlockCache


def check_hash_blocks(cache: HashBlockCache) -> None:
    """Raise `InvariantError` for the first fact of `cache` that does not agree with its blocks.

    >>> from minikv import HashBlockCache
    >>> cache = HashBlockCache()
    >>> block = cache.insert([1, 2], [0, 1]).handle.node
    >>> block.ref_count = 3
    >>> check_hash_blocks(cache)
    Traceback (most recent call last):
    minikv.errors.InvariantError: block 2: ref_count is 3, but the locks on its path make 0
    """
    blocks = list(cache.nodes())
    listed = set(map(id, blocks))
    for block in blocks:
        _check_block(cache, block, listed)
    _check_roots(cache, blocks)
    _check_ids(cache, blocks)
    _check_locks(cache, blocks)
    _check_queue(cache, blocks)
    _check_sizes(cache, blocks)
    _check_pages(blocks)


def _require(true: bool, what: str) -> None:
    if not true:
        raise InvariantError(what)


def _check_block(cache: HashBlockCache, block: Block, listed: set[int]) -> None:
    """Its parent is cached, it holds one page, and its key is that of all tokens up to its end."""
    name, parent, size = f"block {block.id}", block.parent, cache.page_size
    _require(parent is not None, f"{name}: it is in the index, but its parent is None")
    assert parent is not None
    _require(
        isinstance(parent, BlockRoot) or id(parent) in listed, f"{name}: its parent {parent.id} is not in the index"
    )
    held = len(block.key_run) // TOKEN_BYTES
    _require(held == size, f"{name}: it holds {held} tokens, a page has {size}")
    end = parent.num_hashed_tokens + size
    _require(block.num_hashed_tokens == end, f"{name}: ends at {block.num_hashed_tokens}, expected {end}")
    path = path_of(block)
    root, data = path[-1].parent, b"".join(each.key_run for each in reversed(path))
    _require(isinstance(root, BlockRoot), f"{name}: its chain ends in no root")
    assert isinstance(root, BlockRoot)
    state = cache._hash.after(root.state, memoryview(data), cache._stride)
    _require(cache._hash.key(state) == block.key, f"{name}: its key is not that of its {len(path)} pages of tokens")


def _check_roots(cache: HashBlockCache, blocks: list[Block]) -> None:
    count: dict[int, int] = {}
    for block in blocks:
        if isinstance(block.parent, BlockRoot):
            count[id(block.parent)] = count.get(id(block.parent), 0) + 1
    for namespace, root in cache.roots.items():
        name, found = f"root of {bounded(namespace)}", count.pop(id(root), 0)
        same = root.namespace is namespace or root.namespace == namespace
        _require(same, f"{name}: it says it is the root of another namespace")
        _require(root.num_children == found, f"{name}: counts {root.num_children} first blocks, {found} are cached")
        needed = namespace is None or found or not cache._roots.leads_to(namespace, root)
        _require(bool(needed), f"{name}: kept, but it holds nothing")
    _require(not count, f"{sum(count.values())} first blocks belong to roots that are not listed")


def _check_ids(cache: HashBlockCache, blocks: list[Block]) -> None:
    ids = [block.id for block in blocks] + [root.id for root in cache.roots.values()]
    _require(len(set(ids)) == len(ids), f"{len(ids)} blocks share {len(set(ids))} ids")
    _require(max(ids) < cache._next_id, f"block {max(ids)}: the next id to give out is {cache._next_id}")


def _check_locks(cache: HashBlockCache, blocks: list[Block]) -> None:
    """A block's `ref_count` is the number of locks on handles at or behind it."""
    expected: dict[int, int] = {}
    for handle, count in cache._held.items():
        end = handle.node.num_hashed_tokens
        _require(count > 0, f"block {handle.node.id}: a handle is kept as holding {count} locks")
        _require(end == handle.length, f"block {handle.node.id}: ends at {end}, its locked handle at {handle.length}")
        known = cache._paths.get(handle) == path_of(handle.node)
        _require(known, f"block {handle.node.id}: the path that is kept of a locked handle is not its path")
        for block in path_of(handle.node):
            expected[block.id] = expected.get(block.id, 0) + count
    for block in blocks:
        locks = expected.pop(block.id, 0)
        fits = f"block {block.id}: ref_count is {block.ref_count}, but the locks on its path make {locks}"
        _require(block.ref_count == locks, fits)
    _require(not expected, f"locked blocks {brief(sorted(expected))} are not in the index")


def _check_queue(cache: HashBlockCache, blocks: list[Block]) -> None:
    """The queue holds the unlocked blocks, by last use and then the deepest first, and its links agree."""
    queue: list[Block] = []
    for block in cache.queue():
        _require(block is not None, f"the queue breaks off after {len(queue)} blocks")
        _require(len(queue) <= len(blocks), "the queue runs in a circle")
        queue.append(block)
    for before, block in zip([cache._queue, *queue], queue):
        _require(block.older is before, f"block {block.id}: its neighbour does not link back")
        _require(block.last_used <= cache._clock, f"block {block.id}: used at {block.last_used}, after the clock")
    here, free = {block.id for block in queue}, {block.id for block in blocks if not block.ref_count}
    for block in blocks:
        fits = f"block {block.id}: ref_count {block.ref_count}, {'in' if block.id in here else 'not in'} the queue"
        _require((block.id in here) == (block.id in free), fits)
    _require(here == free, f"blocks {brief(sorted(here - free))} are in the queue, but not in the index")
    law = sorted(queue, key=lambda block: (block.last_used, -block.num_hashed_tokens))
    _require(law == queue, "the queue's order is not that of the last use, and ties go to the deepest block")
    for block in queue:
        parent = block.parent
        assert parent is not None
        older = not isinstance(parent, BlockRoot) and not parent.ref_count and parent.last_used < block.last_used
        _require(not older, f"block {block.id}: used at {block.last_used}, later than its parent {parent.id}")


def _check_sizes(cache: HashBlockCache, blocks: list[Block]) -> None:
    free = sum(cache.page_size for block in blocks if not block.ref_count)
    locked = len(blocks) * cache.page_size - free
    said = cache.evictable_size, cache.protected_size
    _require(said[0] == free, f"evictable_size is {said[0]}, the unlocked blocks hold {free} tokens")
    _require(said[1] == locked, f"protected_size is {said[1]}, the locked blocks hold {locked} tokens")


def _check_pages(blocks: list[Block]) -> None:
    """No page is cached twice: it can hold the keys and values of one run of tokens only."""
    holder: dict[int, int] = {}
    for block in blocks:
        where = f"in nodes {holder.get(block.page)} and {block.id}"
        _require(block.page not in holder, f"page {block.page} is cached {where}")
        holder[block.page] = block.id
