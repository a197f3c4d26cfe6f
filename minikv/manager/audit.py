"""The manager's own audit: whether its parts fit, and who owns each page by their own account.

Separate from `manager.py` so that it adds up for itself. `minikv.testing.Ledger` looks on from outside and says at
which operation it went wrong; this one needs no onlooker, and says who has what now.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from minikv.errors import InvariantError, bounded
from minikv.pools.contract import PAGE_LIMIT

if TYPE_CHECKING:
    from minikv.manager.manager import CacheManager
    from minikv.manager.sequence import Sequence

Owners = dict[int, str]


_CACHE_VERBS = ("acquire", "insert", "lock", "unlock", "evict", "check")
_POOL_VERBS = ("alloc_to", "free", "is_free", "check")


def require_slots(num_pages: int, page_size: int) -> None:
    """Raise `ValueError` when there are more slots than an int32 can number.

    >>> require_slots(num_pages=2**12, page_size=2**20)
    Traceback (most recent call last):
    ValueError: 4096 pages of 1048576 are 4294967296 slots: a slot is an integer in [0, 2**31)
    """
    if num_pages * page_size > PAGE_LIMIT:
        pages, slots = bounded(num_pages), bounded(num_pages * page_size)
        raise ValueError(f"{pages} pages of {bounded(page_size)} are {slots} slots: a slot is an integer in [0, 2**31)")


def require_fit(manager: CacheManager) -> None:
    """Raise `TypeError` for what cannot be a part of a manager, `ValueError` for a part that does not fit the others.

    >>> from minikv import CacheManager, RadixCache
    >>> CacheManager(num_pages=4, page_size=2, prefix_cache=RadixCache())
    Traceback (most recent call last):
    ValueError: page_size is 2: the prefix cache has pages of 1
    """
    pages, size = manager.num_pages, manager.page_size
    for name, part, verbs in (("prefix_cache", manager.cache, _CACHE_VERBS), ("pool", manager.pool, _POOL_VERBS)):
        missing = [verb for verb in verbs if not callable(getattr(part, verb, None))]
        if missing or isinstance(part, type):
            kind = "a PrefixCache" if name == "prefix_cache" else "a SlotPool"
            raise TypeError(f"{name} is {bounded(part)}, not {kind}" + (f": it has no {missing[0]}" if missing else ""))
    if manager.cache.page_size != size:
        raise ValueError(f"page_size is {size}: the prefix cache has pages of {manager.cache.page_size}")
    if manager.pool.size != pages:
        raise ValueError(f"num_pages is {pages}: the pool has {manager.pool.size}")
    for name, mine in (("num_pages", pages), ("page_size", size)):
        if getattr(manager.store, name, mine) != mine:
            raise ValueError(f"{name} is {mine}: the store has {getattr(manager.store, name)}")


def check_manager(manager: CacheManager) -> None:
    """Raise `InvariantError` for the first page with two owners or none, or the first row that disagrees with them.

    A cache that can list its `nodes` (each with its `slots`) has its pages named; of any other they are counted.

    >>> from minikv import CacheManager
    >>> manager = CacheManager(num_pages=4)
    >>> sequence = manager.start([1, 2])
    >>> manager.cache.insert([7], [1]).length
    1
    >>> check_manager(manager)
    Traceback (most recent call last):
    minikv.errors.InvariantError: page 1 has two owners: node 1 of the cache, and sequence 1
    """
    manager.pool.check()
    manager.cache.check()
    owners: Owners = {}
    free = [page for page in range(manager.num_pages) if manager.pool.is_free(page)]
    _claim(owners, free, "the pool, where it is free")
    nodes = getattr(manager.cache, "nodes", None)
    for node in nodes() if nodes else ():
        _claim(owners, node.pages, f"node {node.id} of the cache")
    for sequence in manager.sequences:
        _claim(owners, sequence.pages[sequence._first_own :], f"sequence {sequence.number}")
    for pages in manager._leaving:
        _claim(owners, pages, "nobody, on its way to the pool")
    _check_count(manager, owners, counted=0 if nodes else manager.cache.total_size // manager.page_size)
    for sequence in manager.sequences:
        _check_row(sequence)
        if nodes:
            _check_shared(sequence, owners)
    _check_locks(manager)


def _claim(owners: Owners, pages: Iterable[int], owner: str) -> None:
    for page in map(int, pages):
        if page in owners:
            raise InvariantError(f"page {page} has two owners: {owners[page]}, and {owner}")
        owners[page] = owner


def _check_count(manager: CacheManager, owners: Owners, counted: int) -> None:
    """Nothing is lost: `counted` pages are the cache's and have no name."""
    if len(owners) + counted != manager.num_pages:
        lost = [page for page in range(manager.num_pages) if page not in owners]
        named = f"page {lost[0]} has no owner: it is" if lost and not counted else f"{len(owners) + counted} pages are"
        raise InvariantError(f"{named} neither free, nor cached, nor a sequence's ({manager.num_pages} pages in all)")


def _check_row(sequence: Sequence) -> None:
    """The regions follow each other, and the row has a page for every token and no other."""
    name, size, pages = f"sequence {sequence.number}", sequence.page_size, sequence._num_pages
    shared, computed, length = sequence.shared, sequence.computed, sequence.length
    if (
        shared % size
        or sequence._first_own != shared // size
        or not shared <= computed <= length
        or pages != -(-length // size)
        or len(sequence._row) < pages
    ):
        regions = f"shared {shared}, computed {computed}, {length} tokens, a row of {pages} pages"
        raise InvariantError(f"{name}: {regions}, in pages of {size}")
    if len(sequence.tokens) != length:
        raise InvariantError(f"{name}: its length is {length}, but it has {len(sequence.tokens)} tokens")


def _check_shared(sequence: Sequence, owners: Owners) -> None:
    """What the sequence reads as cached is in the cache."""
    for page in sequence.pages[: sequence.shared // sequence.page_size].tolist():
        if not owners[page].startswith("node"):
            reader = f"the cache, from which sequence {sequence.number} reads it"
            raise InvariantError(f"page {page} has two owners: {owners[page]}, and {reader}")


def _check_locks(manager: CacheManager) -> None:
    """Each sequence's lock ends where its own pages begin, and together they protect what is read and no more."""
    for sequence in manager.sequences:
        locked = sequence._handle.length if sequence._handle is not None else None
        if locked != sequence.shared:
            raise InvariantError(
                f"sequence {sequence.number} reads {sequence.shared} cached tokens, its lock protects {locked}"
            )
    size = manager.page_size
    read = {int(page) for sequence in manager.sequences for page in sequence.pages[: sequence.shared // size]}
    protected, tokens = manager.cache.protected_size, len(read) * size
    if tokens > protected or (tokens < protected and not manager._loose):
        raise InvariantError(f"the sequences read {tokens} cached tokens, the cache protects {protected}")
