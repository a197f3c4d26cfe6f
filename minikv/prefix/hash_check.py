"""The hash index's own audit: everything it keeps up to date, recomputed from scratch."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from minikv.errors import InvariantError, bounded
from minikv.prefix.block_run import BlockRun, Use, path_to
from minikv.prefix.contract import brief
from minikv.tokens import TOKEN_BYTES

if TYPE_CHECKING:
    from minikv.prefix.hash_blocks import HashBlockCache


def check_hash_blocks(cache: HashBlockCache) -> None:
    """Raise `InvariantError` for the first fact of `cache` that does not agree with its blocks.

    >>> from minikv import HashBlockCache
    >>> cache = HashBlockCache()
    >>> run = cache.insert([1, 2], [0, 1]).node.run
    >>> run.pins[2] = 3
    >>> check_hash_blocks(cache)
    Traceback (most recent call last):
    minikv.errors.InvariantError: block 2: ref_count is 3, but the locks on its path make 0
    """
    runs = [run for root in cache.roots.values() for run in root.runs]
    for run in runs:
        _check_run(cache, run)
    _check_roots(cache)
    _check_ids(cache, runs)
    _check_index(cache, runs)
    _check_locks(cache, runs)
    for run in runs:
        _check_uses(cache, run)
    _check_queue(cache, runs)
    _check_sizes(cache, runs)
    _check_pages(runs)


def _require(true: bool, what: str) -> None:
    if not true:
        raise InvariantError(what)


def _last(run: BlockRun) -> str:
    """The last block of a run, as errors name it."""
    return f"block {run.id_of(len(run.keys) - 1)}"


def _check_run(cache: HashBlockCache, run: BlockRun) -> None:
    """It holds blocks, one page for each, behind a block that is cached; each key is that of all tokens so far."""
    count, above = len(run.keys), run.above
    _require(count > 0, f"a run behind {run.first} blocks is kept, but it holds nothing")
    name = _last(run)
    tokens, pages = len(run.tokens), len(run.pages)
    _require(tokens == count * cache._stride, f"{name}: its run has {tokens // TOKEN_BYTES} tokens in {count} pages")
    _require(pages == count, f"{name}: its run has {pages} page numbers for {count} pages")
    _require(run.stride == cache._stride, f"{name}: a page has {cache._stride} bytes, not {run.stride}")
    if above is not None:
        there = above in run.root.runs and 0 < run.above_count <= len(above.keys)
        _require(there, f"{name}: the block in front of its run is not cached")
    first = above.first + run.above_count if above is not None else 0
    _require(run.first == first, f"{name}: its run lies behind {run.first} blocks, expected {first}")
    data = b"".join(other.tokens[: reached * cache._stride] for other, reached in reversed(path_to(run, count)))
    ahead = cache._hash.after(run.root.state, memoryview(data)[: first * cache._stride], cache._stride)
    own = [data[at : at + cache._stride] for at in range(first * cache._stride, len(data), cache._stride)]
    for index, key in enumerate(cache._hash.keys(ahead, own)[0]):
        same = run.keys[index] == key
        _require(same, f"block {run.id_of(index)}: its key is not that of its {first + index + 1} pages of tokens")
    for reached, state in run.states():
        same = 0 < reached <= count and cache._hash.key(state) == run.keys[reached - 1]
        _require(same, f"{name}: its run keeps a hash state that is not the one behind {reached} blocks")


def _check_roots(cache: HashBlockCache) -> None:
    for namespace, root in cache.roots.items():
        name = f"root of {bounded(namespace)}"
        same = root.namespace is namespace or root.namespace == namespace
        _require(same, f"{name}: it says it is the root of another namespace")
        _require(all(run.root is root for run in root.runs), f"{name}: a run of it says it has another root")
        needed = namespace is None or root.runs or not cache._runs.roots.leads_to(namespace, root)
        _require(bool(needed), f"{name}: kept, but it holds nothing")


def _check_ids(cache: HashBlockCache, runs: list[BlockRun]) -> None:
    ids = [run.id_of(index) for run in runs for index in range(len(run.keys))]
    ids += [root.id for root in cache.roots.values()]
    _require(len(set(ids)) == len(ids), f"{len(ids)} blocks share {len(set(ids))} ids")
    _require(max(ids) < cache._runs.next_id, f"block {max(ids)}: the next id to give out is {cache._runs.next_id}")


def _check_index(cache: HashBlockCache, runs: list[BlockRun]) -> None:
    """Every key leads to its run, as often as that has it, and no key leads anywhere else."""
    index = cache._index
    found = Counter((key, run) for key in index.by_key for run in index.having(key))
    expected = Counter((key, run) for run in runs for key in run.keys)
    for run in runs:
        for at, key in enumerate(run.keys):
            _require(found[key, run] >= expected[key, run], f"block {run.id_of(at)}: it is not in the index")
    strange = found - expected
    _require(not strange, f"{strange.total()} keys in the index belong to no cached block")
    _require(index.twins.keys() <= index.by_key.keys(), "the index has twins of a key that it does not have")


def _check_locks(cache: HashBlockCache, runs: list[BlockRun]) -> None:
    """The pins of a run are where the locks on handles at or behind it end, and `locked` is the furthest."""
    expected: dict[BlockRun, Counter[int]] = {run: Counter() for run in runs}
    _require(cache._receipts.held.keys() == cache._paths.keys(), "paths are kept of other handles than the locked ones")
    for handle, locks in cache._receipts.held.items():
        node = handle.node
        name, end = f"block {node.id}", node.num_hashed_tokens
        _require(locks > 0, f"{name}: a handle is kept as holding {locks} locks")
        _require(end == handle.length, f"{name}: ends at {end}, its locked handle at {handle.length}")
        path = path_to(node.run, node.count)
        _require(cache._paths[handle] == path, f"{name}: the path that is kept of a locked handle is not its path")
        for run, count in path:
            known = run in expected and count <= len(run.keys)
            _require(known, f"{name}: it is locked, but not every block in front of it is in the index")
            expected[run][count] += locks
    for run in runs:
        for index in reversed(range(len(run.keys))):
            said, locks = run.locks_on(index), sum(n for count, n in expected[run].items() if count > index)
            fits = f"block {run.id_of(index)}: ref_count is {said}, but the locks on its path make {locks}"
            _require(said == locks, fits)
        locked = max(expected[run], default=0)
        _require(run.locked == locked, f"{_last(run)}: {run.locked} blocks of its run count as locked, not {locked}")
        _require(run.pins == expected[run], f"{_last(run)}: its run keeps a lock of nobody's")


def _check_uses(cache: HashBlockCache, run: BlockRun) -> None:
    """The uses of a run cover all of it, the deepest first and older than the next; and no parent is older."""
    name, ends = _last(run), [use.end for use in run.uses]
    _require(all(use.run is run for use in run.uses), f"{name}: its run lists a use of another one")
    _require(bool(ends) and ends[0] == len(run.keys), f"{name}: its last use ends at {ends[:1]}")
    falls = ends == sorted(set(ends), reverse=True) and ends[-1] > 0
    _require(falls, f"{name}: the uses of its run end at {brief(ends)}, not one before the other")
    for deeper, use in pairwise(run.uses):
        older = deeper.used <= use.used or run.locked >= use.end
        _require(older, f"{name}: used at {deeper.used}, later than its parent at {use.used}")
    _require(run.uses[-1].used <= cache._clock, f"{name}: used at {run.uses[-1].used}, after the clock")
    above = run.above
    if above is not None and above.locked < run.above_count:
        used = above.last_used(run.above_count - 1)
        _require(run.uses[-1].used <= used, f"{name}: its run is used at {run.uses[-1].used}, its parent at {used}")


def _check_queue(cache: HashBlockCache, runs: list[BlockRun]) -> None:
    """The queue holds every use that has an unlocked block, by last use and then the deepest first; its links agree."""
    most, queue = sum(len(run.uses) for run in runs), list[Use]()
    for use in cache._queue.uses():
        _require(use is not None, f"the queue breaks off after {len(queue)} uses")
        _require(len(queue) < most, "the queue runs in a circle, or holds what is gone")
        queue.append(use)
    for older, use in pairwise(queue):
        _require(use.older is older, f"{_last(use.run)}: its neighbour does not link back")
    here, free = set(map(id, queue)), {id(use) for run in runs for use in run.uses if use.end > run.locked}
    for run in runs:
        for use in run.uses:
            there = "in" if id(use) in here else "not in"
            fits = f"block {run.id_of(use.end - 1)}: {run.locked} of its run are locked, and it is {there} the queue"
            _require((id(use) in here) == (id(use) in free), fits)
    _require(here == free, "the queue holds blocks that are not in the index")
    law = sorted(queue, key=lambda use: (use.used, -use.run.first - use.end))
    _require(law == queue, "the queue's order is not that of the last use, and ties go to the deepest block")


def _check_sizes(cache: HashBlockCache, runs: list[BlockRun]) -> None:
    locked = sum(run.locked for run in runs) * cache.page_size
    free = sum(len(run.keys) for run in runs) * cache.page_size - locked
    said = cache.evictable_size, cache.protected_size
    _require(said[0] == free, f"evictable_size is {said[0]}, the unlocked blocks hold {free} tokens")
    _require(said[1] == locked, f"protected_size is {said[1]}, the locked blocks hold {locked} tokens")


def _check_pages(runs: list[BlockRun]) -> None:
    """No page is cached twice: it can hold the keys and values of one run of tokens only."""
    holder: dict[int, int] = {}
    for run in runs:
        for index, page in enumerate(run.pages):
            number = run.id_of(index)
            _require(page not in holder, f"page {page} is cached in nodes {holder.get(page)} and {number}")
            holder[page] = number
