"""The audit of a manager: every page has exactly one owner, and every row says so.

It adds up for itself, by their own account. `minikv.testing.Ledger` looks on from outside and says at which
operation it went wrong; this one needs no onlooker, and says who has what now.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from minikv.errors import InvariantError
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
    _check_count(manager, owners, counted=0 if nodes else manager.cache.total_size // manager.page_size)
    if manager._owned != owned:
        raise InvariantError(f"the manager counts {manager._owned} pages of its sequences: they have {owned}")
    for sequence in manager.sequences:
        check_row(sequence)
        if nodes:
            _check_shared(sequence, owners)
    _check_locks(manager)
    if manager.host is not None:
        manager.host.check()


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


def _check_shared(sequence: Sequence, owners: Owners) -> None:
    """Check that the part of the sequence that counts as cached is in the cache."""
    for page in sequence.pages[: sequence._first_own].tolist():
        if not owners[page].startswith("node"):
            reader = f"the cache, from which sequence {sequence.number} reads it"
            raise InvariantError(f"page {page} has two owners: {owners[page]}, and {reader}")


def _check_locks(manager: CacheManager) -> None:
    """Each sequence's lock ends where its own pages begin, and together they protect what is read and no more."""
    read: set[int] = set()
    for sequence in manager.sequences:
        read.update(sequence.pages[: sequence._first_own].tolist())
        locked = getattr(sequence._handle, "length", None)
        if locked != sequence.shared:
            raise InvariantError(
                f"sequence {sequence.number} reads {sequence.shared} cached tokens, its lock protects {locked}"
            )
    protected, tokens = manager.cache.protected_size, len(read) * manager.page_size
    if tokens > protected or (tokens < protected and not any(handle for _, handle in manager._returns)):
        raise InvariantError(f"the sequences read {tokens} cached tokens, the cache protects {protected}")


def check_row(sequence: Sequence) -> None:
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
