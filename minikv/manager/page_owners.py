"""Who owns which page: the pool, the cache, or a running sequence; and the steps by which pages change hands.

`CacheManager` makes the acts of a request's life of these steps. Each of them leaves nothing half done that `_leaving`
and `_loose` do not have: pages and locks that a failure kept from going back go with the next act.

The audit adds up for itself, by their own account. `minikv.testing.Ledger` looks on from outside and says at which
operation it went wrong; this one needs no onlooker, and says who has what now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from minikv.errors import InvariantError, OutOfPages, bounded, whole_number
from minikv.interrupts import Exclusive
from minikv.manager.fit import require_fit
from minikv.manager.host_moves import host_moves
from minikv.manager.sequence import FINISHED, RUNNING, Sequence, check_row
from minikv.pools import FreeListPool, Pages, SlotPool
from minikv.pools.contract import require_slots
from minikv.prefix import Handle, HashBlockCache, Insertion, PrefixCache, RadixCache, SlidingWindowCache, TokenTrie
from minikv.prefix.tiered import TieredCache
from minikv.tokens import PackedTokens

_NO_PAGES = np.empty(0, np.int32)
_TABLE_LIMIT = 2**24  # slots: with larger pages, the slots of each page are in a table of at most 64 MiB
_TRUSTED = (RadixCache, TieredCache, TokenTrie, HashBlockCache, SlidingWindowCache)  # no page is in them twice
Owners = dict[int, str]


def _every_slot(num_pages: int, page_size: int) -> Pages:
    """The slots of every page, (page, slot), where a table of them is worth its memory; else none."""
    is_table = page_size > 1 and num_pages * page_size <= _TABLE_LIMIT
    return np.arange(num_pages * page_size if is_table else 0, dtype=np.int32).reshape(-1, page_size)


def _default_cache(page_size: int, host: Any) -> PrefixCache:
    return RadixCache(page_size) if host is None else TieredCache(page_size, getattr(host, "num_pages", 0))


class PageOwners(Exclusive):
    """A pool of pages, a prefix cache over their slots, and the sequences that use both.

    >>> from minikv import CacheManager
    >>> manager = CacheManager(num_pages=4, page_size=2)
    >>> sequence = manager.start([1, 2, 3])
    >>> manager.available_size, manager.sequences, manager.owned()[1].tolist()
    (4, [Sequence(1, running, 3 tokens, cached=0, computed=0)], [0, 1, 2, 3])
    """

    def __init__(
        self,
        num_pages: int,
        page_size: int = 1,
        prefix_cache: PrefixCache | None = None,
        pool: SlotPool | None = None,
        store: Any = None,
        host: Any = None,
        worth_loading: Callable[[int, int], bool] | None = None,
    ):
        self.num_pages = whole_number("num_pages", num_pages, 1, "a manager has at least 1 page")
        self.page_size = whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        require_slots(self.num_pages, self.page_size)
        self.cache = _default_cache(page_size, host) if prefix_cache is None else prefix_cache
        self.pool: SlotPool = FreeListPool(num_pages) if pool is None else pool
        self.store = store
        self._running: dict[int, Sequence] = {}
        self._started = self._owned = 0  # sequences so far; pages that are the running ones' own
        self._every_slot = _every_slot(self.num_pages, self.page_size)
        self._leaving: list[Any] = []  # pages and locks that are still to be given back: none, unless something failed
        self._loose: list[Handle] = []
        self._trusting = type(self.cache) in _TRUSTED
        super().__init__()
        require_fit(self, host)
        self.host = host_moves(self.cache, store, host, worth_loading)

    @property
    def available_size(self) -> int:
        """Tokens that could be given slots now: whole free pages, and what the cache could evict."""
        with self._lock:
            leaving = sum(map(len, self._leaving))
            return (self.pool.num_free + leaving) * self.page_size + self.cache.evictable_size

    @property
    def sequences(self) -> list[Sequence]:
        """The running sequences, in the order in which they were started."""
        with self._lock:
            return list(self._running.values())

    def owned(self) -> dict[int, Pages]:
        """For each running sequence, by its number, the slots that are its own: what a `Ledger` asks for."""
        with self._lock:
            return {sequence.number: sequence.owned for sequence in self._running.values()}

    # -- the steps --------------------------------------------------------------------------------------------------

    def _require(self, sequence: Sequence, verb: str) -> None:
        """`sequence` must run here."""
        if not isinstance(sequence, Sequence):
            raise TypeError(f"cannot {verb} {bounded(sequence)}: expected a sequence that start() returned")
        if self._running.get(sequence.number) is sequence:
            return
        ended = "it has already finished" if sequence.state == FINISHED else "it was already aborted"
        why = "another manager started it" if sequence.state == RUNNING else ended
        raise ValueError(f"cannot {verb} sequence {sequence.number}: {why}")

    def _make_room(self, num_pages: int, spare: int = 0) -> None:
        """Evict until `num_pages` are free, if they and `spare` more are available; else `OutOfPages`.

        Lock first what you want to keep.

        Twin: `minikv.engine.ch04_05_cache.make_room`.
        """
        if self._leaving or self._loose:
            self._give_back()
        free = self.pool.num_free
        if num_pages + spare > free:
            evictable = self.cache.evictable_size // self.page_size
            if num_pages + spare > free + evictable:
                raise OutOfPages(num_pages + spare, free, evictable)
            if num_pages > free:
                self._take_back(self.cache.evict((num_pages - free) * self.page_size))

    def _take_back(self, evicted: Pages) -> None:
        """Give the pool what the cache evicted.

        Our own pool need not look at what our own index evicted, as long as all pages are accounted for. What anybody
        else evicts, and what was inserted or freed without the manager's knowledge, is looked at page by page.
        """
        counted = self.pool.num_free + self.cache.total_size // self.page_size + self._owned + len(evicted)
        self._leaving.append(evicted)
        self._carry_out()
        if self._trusting and counted == self.num_pages and type(self.pool) is FreeListPool:
            self.pool.free(evicted, sure=True)
            self._leaving.clear()
        else:
            self._give_back()

    def _carry_out(self) -> None:
        """Copy to host memory what the last insert or eviction says, before anybody gets the pages."""
        if self.host is not None:
            self.host.carry_out()

    def _allocate(self, sequence: Sequence, start: int, stop: int) -> None:
        """Take pages for the row's [start, stop)."""
        self.pool.alloc_to(sequence._row_of(start, stop))
        self._owned += stop - start

    def _publish(self, sequence: Sequence) -> Insertion | None:
        """Hand the computed whole pages to the cache, which keeps those that it does not have; `None` if none is new.

        row   [shared, prefix_length)   duplicates, still ours
              [.., length)              the cache's from now on
              [.., end of the row)      the rest, not offered or not kept: ours
        """
        end = sequence.publishable
        if end <= sequence.shared:
            return None
        all_computed = sequence.computed == sequence.length  # then no copy: the cache leaves out the tail itself
        tokens = sequence.tokens if all_computed else sequence.tokens[:end]
        sequence._first_own = pages = end // self.page_size  # what is on offer is not ours while it is
        try:
            return self._insert(sequence, tokens, sequence._row_of(0, pages))
        except BaseException:
            sequence._first_own = sequence.shared // self.page_size
            raise

    def _insert(self, sequence: Sequence, tokens: PackedTokens, row: memoryview) -> Insertion:
        return self.cache.insert(tokens, row, namespace=sequence.namespace, start=sequence._handle)

    def _follow(self, sequence: Sequence, done: Insertion) -> None:
        """Lock what was published and read it from where the cache has it; our duplicates and the old lock may go."""
        size, before = self.page_size, sequence._handle
        first, given, kept = sequence.shared // size, done.prefix_length // size, done.length // size
        duplicates = sequence._row[first:given].copy()
        if len(duplicates):  # another sequence was faster: the cache kept its pages
            match = self.cache.acquire(sequence.tokens, limit=done.length, namespace=sequence.namespace)
            match.copy_to(sequence._row_of(0, kept))
            sequence._read(done.length, match)
        else:
            self.cache.lock(done.handle)
            sequence._read(done.length, done.handle)
        self._owned -= kept - first
        self._give_back(duplicates, before)

    def _release(self, sequence: Sequence, state: str, done: Insertion | None = None) -> None:
        """The one way out: the sequence is over, and its lock and all pages that are its own go back, each once.

        Of what was just published the cache keeps [prefix_length, length), as `done` says.

        Twin: `minikv.engine.ch06_07_manager.release`.
        """
        size, handle, row = self.page_size, sequence._handle, sequence._row
        shared, end = sequence.shared // size, sequence._num_pages
        given = kept = shared
        if done is not None and done.length > sequence.shared:
            given, kept = done.prefix_length // size, done.length // size
        own = row[kept:end] if given == shared else np.concatenate((row[shared:given], row[kept:end]))
        self._owned -= end - shared
        self._running.pop(sequence.number, None)
        sequence._end(state)
        self._give_back(own, handle)

    def _give_back(self, pages: Any = _NO_PAGES, handle: Handle | None = None) -> None:
        """Unlock `handle` and free `pages`, and whatever else is still to be given back because something failed."""
        if handle is not None:
            self._loose.append(handle)
        if len(pages):
            self._leaving.append(pages)
        while self._loose:
            self.cache.unlock(self._loose[0])
            del self._loose[0]
        while self._leaving:
            self.pool.free(self._leaving[0])
            del self._leaving[0]


# -- the audit ------------------------------------------------------------------------------------------------------


def check_manager(manager: PageOwners) -> None:
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
    owned = sum(sequence._num_pages - sequence.shared // manager.page_size for sequence in manager.sequences)
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


def _check_count(manager: PageOwners, owners: Owners, counted: int) -> None:
    """Nothing is lost: `counted` pages are the cache's and have no name."""
    if len(owners) + counted != manager.num_pages:
        lost = [page for page in range(manager.num_pages) if page not in owners]
        named = f"page {lost[0]} has no owner: it is" if lost and not counted else f"{len(owners) + counted} pages are"
        raise InvariantError(f"{named} neither free, nor cached, nor a sequence's ({manager.num_pages} pages in all)")


def _check_shared(sequence: Sequence, owners: Owners) -> None:
    """Check that the part of the sequence that counts as cached is in the cache."""
    for page in sequence.pages[: sequence.shared // sequence.page_size].tolist():
        if not owners[page].startswith("node"):
            reader = f"the cache, from which sequence {sequence.number} reads it"
            raise InvariantError(f"page {page} has two owners: {owners[page]}, and {reader}")


def _check_locks(manager: PageOwners) -> None:
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
