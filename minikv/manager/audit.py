"""The audit of a manager: every page has exactly one owner, and every row says so.

It adds up for itself, by their own account. `minikv.testing.Ledger` looks on from outside and says at which
operation it went wrong; this one needs no onlooker, and says who has what now.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from minikv.errors import InvariantError, require
from minikv.manager.sequence import Sequence

if TYPE_CHECKING:
    from minikv.manager.manager import CacheManager

Owners = dict[int, str]


def check_manager(manager: CacheManager) -> None:
    """Raise `InvariantError` for the first page with two owners or none, or the first row that disagrees with them.

    A cache that can list its `nodes` (each with its `slots`) has its pages named; of any other they are counted.

    Twin: `minikv.engine.ch06_07_manager.owners`.

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
    _claim(owners, filter(manager.pool.is_free, range(manager.num_pages)), "the pool, where it is free")
    nodes = getattr(manager.cache, "nodes", None)
    for node in nodes() if nodes else ():
        _claim(owners, node.pages, f"node {node.id} of the cache")
    owned = 0
    for sequence in manager.sequences:
        own = sequence.pages[sequence._first_own :]
        _claim(owners, own, f"sequence {sequence.number}")
        owned += len(own)
    for pages, _ in manager._returns:
        _claim(owners, pages, "nobody, on its way to the pool")
    _check_count(manager, owners, 0 if nodes else manager.cache.total_size // manager.page_size)
    require(manager._owned == owned, f"the manager counts {manager._owned} pages of its sequences: they have {owned}")
    _check_readers(manager, owners if nodes else {})
    if manager.host is not None:
        manager.host.check()


def _claim(owners: Owners, pages: Iterable[int], owner: str) -> None:
    for page in map(int, pages):
        require(page not in owners, f"page {page} has two owners: {owners.get(page)}, and {owner}")
        owners[page] = owner


def _check_count(manager: CacheManager, owners: Owners, counted: int) -> None:
    """Check that no page is lost; `counted` pages belong to a cache that does not name them."""
    if len(owners) + counted != manager.num_pages:
        lost = [page for page in range(manager.num_pages) if page not in owners]
        named = f"page {lost[0]} has no owner: it is" if lost and not counted else f"{len(owners) + counted} pages are"
        raise InvariantError(f"{named} neither free, nor cached, nor a sequence's ({manager.num_pages} pages in all)")


def _check_readers(manager: CacheManager, owners: Owners) -> None:
    """Check every row, that the shared pages it reads are in the cache, and that the locks protect exactly those."""
    read: set[int] = set()
    for sequence in manager.sequences:
        check_row(sequence)
        shared = sequence.pages[: sequence._first_own].tolist()
        read.update(shared)
        for page in shared if owners else ():
            reader = f"the cache, from which sequence {sequence.number} reads it"
            require(owners[page].startswith("node"), f"page {page} has two owners: {owners[page]}, and {reader}")
    protected, tokens = manager.cache.protected_size, len(read) * manager.page_size
    reads = tokens == protected or (tokens < protected and any(handle for _, handle in manager._returns))
    require(reads, f"the sequences read {tokens} cached tokens, the cache protects {protected}")


def check_row(sequence: Sequence) -> None:
    """Check that the regions are in order, that the pages are as many as needed, and that the lock ends at `shared`."""
    name, size, pages = f"sequence {sequence.number}", sequence.page_size, sequence._num_pages
    shared, computed, length = sequence.shared, sequence.computed, sequence.length
    in_order = (
        shared == sequence._first_own * size
        and shared <= computed <= length
        and pages == -(-length // size)
        and len(sequence._row) >= pages
    )
    regions = f"shared {shared}, computed {computed}, {length} tokens, a row of {pages} pages"
    require(in_order, f"{name}: {regions}, in pages of {size}")
    there = len(sequence.tokens)
    require(there == length, f"{name}: its length is {length}, but it has {there} tokens")
    locked = getattr(sequence._handle, "length", None)
    require(locked == shared, f"{name} reads {shared} cached tokens, its lock protects {locked}")
