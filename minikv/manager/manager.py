"""The cache manager: what happens to pages in the life of a request. It is written here, and nowhere else.

    start        match all but the last token and lock it -> is there room? -> evict -> allocate
    advance      keys and values have been computed into the next tokens' slots
    extend       a token was generated: it needs a slot, and perhaps a page
    truncate     the last tokens were only a draft: their pages go back
    checkpoint   publish the computed pages while the request continues; from then on it reads the tree's slots
    finish       publish what is computed; all else goes back
    abort        publish nothing; all goes back

Each of them is atomic: another thread waits until it is done, and so does Ctrl-C. Between start and the end every page
has exactly one owner: the pool, the prefix cache, or one sequence. `check` (`audit.py`) raises an error that names both
owners of a page with two. The manager looks for room only after it has locked the match; otherwise it might evict the
very pages that it just matched. A page is published only after its keys and values have been computed, which `advance`
records. If freeing pages or unlocking fails, `_returns` keeps those pages and locks, and the next act gives them back.

After the cache managers of SGLang and mini-sglang; one function releases what a sequence holds, however it ends
(SGLang freed the last slot of a request in two places, and so twice).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from minikv.errors import OutOfPages, bounded, whole_number
from minikv.interrupts import Exclusive, begin_act, end_act, exclusive
from minikv.manager.audit import check_manager
from minikv.manager.fit import default_cache, every_slot, require_fit
from minikv.manager.host_moves import host_moves
from minikv.manager.sequence import ABORTED, FINISHED, NO_ROW, RUNNING, Sequence
from minikv.pools import FreeListPool, Pages, SlotPool
from minikv.prefix import Handle, Insertion, Match, PrefixCache
from minikv.tokens import TOKEN_BYTES, PackedTokens, TokensLike, pack

_SPARE_ROWS = 8  # the memory of as many rows is kept for the next requests


class CacheManager(Exclusive):
    """A pool of pages, a prefix cache over their slots, and the sequences that use both.

    Any thread may call it: one act is done at a time. `page_size` is in tokens; page p has the slots `p * page_size`
    to `(p + 1) * page_size - 1`. `prefix_cache` is any `PrefixCache` of that page size (default
    `RadixCache(page_size)`), `pool` any `SlotPool` of `num_pages` pages (default `FreeListPool(num_pages)`), both of
    them new or kept for this manager alone. `store` is where the keys and values lie; the manager only carries it.
    `host` is the store of what the device has no room for, with a `TieredCache` (the default then): the manager has
    pages copied there and back. `worth_loading` says of a number of tokens in host memory, and of how many are before
    them, whether to copy them back instead of computing them; by default always. A store is for one thread at a time,
    so with `host` no other thread may use the store while the manager is called; an `Engine` takes care of that.
    The default pool takes 8 bytes per page; where a page is more than a slot, a table takes 4 per slot, 64 MiB at most.
    With 1,000,000 nodes a full garbage collection pauses for 250 ms on a quiet core, and for more than 600 ms on a busy
    one; after `gc.collect(); gc.freeze()`, once the cache is full, for less than half of that. Raises `TypeError` or
    `ValueError` when the parts do not fit each other.

    Twin: `minikv.engine.ch06_07_manager.CacheManager`.

    >>> manager = CacheManager(num_pages=8)
    >>> first = manager.start([1, 2, 3, 4])
    >>> manager.advance(first)                       # an engine has computed all of it
    >>> manager.finish(first)
    >>> second = manager.start([1, 2, 3, 9])
    >>> second.cached_length, second.slots.tolist()
    (3, [0, 1, 2, 4])
    >>> manager
    CacheManager(8 pages of 1, 3 free, 1 sequence running, 4 tokens available)
    """

    _started = _owned = 0  # sequences started so far; pages that running sequences own

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
        self._every_slot = every_slot(self.num_pages, self.page_size)
        self.cache = default_cache(page_size, host) if prefix_cache is None else prefix_cache
        self.pool: SlotPool = FreeListPool(num_pages) if pool is None else pool
        self.store, self._running = store, dict[int, Sequence]()
        self._rows: list[tuple[Pages, Pages]] = []  # the memory of earlier rows, to be used again
        self._returns: list[tuple[Any, Handle | None]] = []  # pages that could not be freed, each with its lock or None
        super().__init__()
        require_fit(self, host)
        self.host = host_moves(self.cache, store, host, worth_loading)
        own = vars(type(self.cache))  # a subclass says again what a manager may rely on
        self._trusting = own.get("unique_pages")
        self._passed_by = own.get("insert_after") and type(self.cache).insert.__get__(self.cache)

    @property
    def available_size(self) -> int:
        """Tokens that could be given slots now: whole free pages, and what the cache could evict."""
        with self._lock:
            returning = sum(len(pages) for pages, _ in self._returns)
            return min((free + returning) * self.page_size + evictable for free, evictable in self._kinds())

    def _kinds(self) -> list[tuple[int, int]]:
        """Of each kind of page, how many are free, and how many tokens the cache could evict."""
        return [(self.pool.num_free, self.cache.evictable_size)]

    @property
    def sequences(self) -> list[Sequence]:
        """The running sequences, in the order in which they were started."""
        with self._lock:
            return list(self._running.values())

    def owned(self) -> dict[int, Pages]:
        """For each running sequence, by its number, the slots that are its own: what a `Ledger` asks for."""
        with self._lock:
            return {sequence.number: sequence.owned for sequence in self._running.values()}

    # -- the life of a request --------------------------------------------------------------------------------------

    def start(
        self, tokens: TokensLike, *, namespace: Hashable = None, spare: int = 0, limit: int | None = None
    ) -> Sequence:
        """Begin a request: find what is cached of `tokens`, protect it, and take pages for all the rest.

        At most `limit` tokens are taken from the cache. By default at least the last token is left to compute, since
        its logits are what the request came for. `spare` pages are to remain available, for the next tokens of those
        that run. Raises `OutOfPages`, the spare ones among the needed, when there is no room; then nothing is held, and
        what was found of `tokens` counts as used. `ValueError` when there are no tokens.

        Twin: `minikv.engine.ch06_07_manager.start`.

        >>> manager = CacheManager(num_pages=4, page_size=2)
        >>> manager.start([1, 2, 3]).slots.tolist()
        [0, 1, 2]
        >>> manager.start(range(6))
        Traceback (most recent call last):
        minikv.errors.OutOfPages: 3 pages needed, but only 2 free and 0 evictable
        """
        outermost = begin_act(self._lock)
        try:
            prompt = tokens if type(tokens) is PackedTokens else pack(tokens)
            if spare or type(spare) is not int:
                spare = whole_number("spare", spare, 0, "0 or more pages remain")
            if not prompt.data:
                raise ValueError("tokens are empty: a request has at least 1 token")
            sequence = Sequence(self, prompt, namespace)
            most = sequence.length - 1 if limit is None else limit
            match = sequence._handle = self.cache.acquire(prompt, limit=most, namespace=namespace)
            try:
                self._run(sequence, match, spare)
            except BaseException:
                if sequence.state == RUNNING:
                    self._release(sequence, ABORTED)
                raise
            return sequence
        finally:
            end_act(outermost, self._lock)

    def advance(self, sequence: Sequence, num_tokens: int | None = None) -> None:
        """Mark the next `num_tokens` tokens (default: all that are left) as computed: their keys and values are stored.

        Raises `ValueError` when the sequence is over or has not so many left.

        Twin: `minikv.engine.shells.ManagerShell.advance`.

        >>> manager = CacheManager(num_pages=4)
        >>> sequence = manager.start([1, 2, 3])
        >>> manager.advance(sequence, 2); sequence
        Sequence(1, running, 3 tokens, cached=0, computed=2)
        """
        with self._lock:  # one step only, so Ctrl-C comes before it or after it
            if getattr(sequence, "_manager", None) is not self:
                self._require(sequence, "advance")
            if num_tokens is None:
                sequence.computed = sequence.length
                return
            left = sequence.length - sequence.computed
            rule = f"sequence {sequence.number} can compute 0 to {left} more tokens"
            sequence.computed += whole_number("num_tokens", num_tokens, 0, rule, left + 1)

    def extend(self, sequence: Sequence, tokens: TokensLike) -> None:
        """Append generated `tokens` to the sequence and allocate pages for them. They still have to be computed.

        It costs the same however long the sequence is. Raises `OutOfPages`, and nothing has changed, when there is no
        room.

        Twin: `minikv.engine.ch06_07_manager.extend`.

        >>> manager = CacheManager(num_pages=4)
        >>> sequence = manager.start([1, 2])
        >>> manager.extend(sequence, [3]); sequence.slots.tolist()
        [0, 1, 2]
        """
        outermost = begin_act(self._lock)
        try:
            if getattr(sequence, "_manager", None) is not self:
                self._require(sequence, "extend")
            more = tokens if type(tokens) is PackedTokens else pack(tokens)
            length = sequence.length + len(more.data) // TOKEN_BYTES
            pages = -(-length // self.page_size)
            if pages > sequence._num_pages:
                self._take(sequence, sequence._num_pages, pages)
            written = sequence._generated
            if type(written) is bytes:  # as long as they are the first ones
                sequence._generated = bytearray(written) + more.data if written else more.data
            else:
                written += more.data
            sequence._tokens, sequence.length = None, length
        finally:
            end_act(outermost, self._lock)

    @exclusive
    def truncate(self, sequence: Sequence, length: int) -> None:
        """Keep the first `length` tokens of the sequence and free the later pages. This undoes `extend`.

        A draft that was guessed wrong goes in this way, before it is said to be computed. What is published stays, so
        the first `sequence.shared` tokens do, and at least 1. Raises `ValueError`, and nothing has changed, for any
        other length.

        Twin: `minikv.engine.ch06_07_manager.truncate`.

        >>> manager = CacheManager(num_pages=8)
        >>> sequence = manager.start([1, 2]); manager.extend(sequence, [3, 4, 5])
        >>> manager.truncate(sequence, 3); sequence.tokens.tolist(), manager.pool.num_free
        ([1, 2, 3], 5)
        >>> manager.truncate(sequence, 0)
        Traceback (most recent call last):
        ValueError: length is 0: sequence 1 keeps 1 to 3 tokens, including those that the cache has
        """
        self._require(sequence, "truncate")
        least, most = max(1, sequence.shared), sequence.length
        rule = f"sequence {sequence.number} keeps {least} to {most} tokens, including those that the cache has"
        cut = sequence._cut(whole_number("length", length, least, rule, most + 1))
        self._owned -= len(cut)
        self._give_back(cut)

    def checkpoint(self, sequence: Sequence) -> None:
        """Publish the whole pages that are computed, so that others can use them while this sequence continues.

        What the cache had already (another sequence was faster) is read from there from now on: the row is rewritten
        and our duplicates are freed. A failure in the middle of it ends the sequence.

        Twin: `minikv.engine.ch06_07_manager.checkpoint`.

        >>> manager = CacheManager(num_pages=8)
        >>> a, b = manager.start([1, 2, 3]), manager.start([1, 2, 4])        # one batch: both compute 1 and 2
        >>> manager.advance(a); manager.advance(b)
        >>> manager.checkpoint(a); manager.checkpoint(b)
        >>> b.slots.tolist(), b.owned.tolist(), manager.pool.num_free
        ([0, 1, 5], [], 4)
        """
        outermost = begin_act(self._lock)
        try:
            self._require(sequence, "checkpoint")
            done = self._publish(sequence, move_lock=True)
            if done is not None:
                try:
                    self._follow(sequence, done)
                except BaseException:
                    self._release(sequence, ABORTED, done)
                    raise
                if self.host is not None:
                    self.host.carry_out()
        finally:
            end_act(outermost, self._lock)

    def finish(self, sequence: Sequence) -> None:
        """Finish the request: publish its computed whole pages and free the rest.

        If the cache fails to take that, the sequence continues. `ValueError`, and nothing changes, if it has finished.

        Twin: `minikv.engine.ch06_07_manager.CacheManager.finish`.

        >>> manager = CacheManager(num_pages=8, page_size=2)
        >>> sequence = manager.start([1, 2, 3])
        >>> manager.advance(sequence); manager.finish(sequence)
        >>> manager.cache.total_size, manager.pool.num_free                 # the third token does not fill a page
        (2, 7)
        >>> manager.finish(sequence)
        Traceback (most recent call last):
        ValueError: cannot finish sequence 1: it has already finished
        """
        outermost = begin_act(self._lock)
        try:
            if getattr(sequence, "_manager", None) is not self:
                self._require(sequence, "finish")
            done = self._publish(sequence)
            self._release(sequence, FINISHED, done)
            if done is not None and self.host is not None:
                self.host.carry_out()
        finally:
            end_act(outermost, self._lock)

    @exclusive
    def abort(self, sequence: Sequence) -> None:
        """Abort the request: publish nothing more, and free everything that it holds.

        What a checkpoint published stays in the cache. Raises `ValueError`, and changes nothing, when it is over.

        Twin: `minikv.engine.ch06_07_manager.CacheManager.abort`.

        >>> manager = CacheManager(num_pages=8)
        >>> manager.abort(manager.start([1, 2, 3])); manager.pool.num_free
        8
        """
        self._require(sequence, "abort")
        self._release(sequence, ABORTED)

    @contextlib.contextmanager
    def request(self, tokens: TokensLike, *, namespace: Hashable = None) -> Iterator[Sequence]:
        """`start` on the way in; on the way out `finish`, or `abort` when an exception passes through.

        >>> manager = CacheManager(num_pages=8)
        >>> with manager.request([1, 2, 3]) as sequence:
        ...     manager.advance(sequence)
        >>> sequence.state, manager.cache.total_size
        ('finished', 3)
        """
        opened: list[Sequence] = []
        try:
            self._open(opened, tokens, namespace)
            yield opened[0]
            if opened[0].state == RUNNING:
                self.finish(opened[0])
        finally:
            if opened and opened[0].state == RUNNING:
                self.abort(opened[0])

    @exclusive
    def check(self) -> None:
        """Every page has exactly one owner, every row says so; `InvariantError` names both owners if not.

        Twin: `minikv.engine.ch06_07_manager.CacheManager.check`.

        >>> manager = CacheManager(num_pages=4)
        >>> sequence = manager.start([1, 2])
        >>> manager.pool.free([1])
        >>> manager.check()
        Traceback (most recent call last):
        minikv.errors.InvariantError: page 1 has two owners: the pool, where it is free, and sequence 1
        """
        check_manager(self)

    def __repr__(self) -> str:
        many = f"{len(self._running)} sequence{'' if len(self._running) == 1 else 's'} running"
        pages = f"{self.num_pages} pages of {self.page_size}, {self.pool.num_free} free"
        return f"CacheManager({pages}, {many}, {self.available_size} tokens available)"

    # -- the steps --------------------------------------------------------------------------------------------------

    def _require(self, sequence: Any, verb: str) -> None:
        """`sequence` must run here."""
        if not isinstance(sequence, Sequence):
            raise TypeError(f"cannot {verb} {bounded(sequence)}: expected a sequence that start() returned")
        if sequence._manager is not self:
            ended = "it has already finished" if sequence.state == FINISHED else "it was already aborted"
            why = "another manager started it" if sequence.state == RUNNING else ended
            raise ValueError(f"cannot {verb} sequence {sequence.number}: {why}")

    def _make_room(self, num_pages: int, spare: int) -> None:
        """Evict until `num_pages` are free, if they and `spare` more are available; else `OutOfPages`.

        Lock first what you want to keep.

        Twin: `minikv.engine.ch04_05_cache.make_room`.
        """
        if self._returns:
            self._give_back(*self._returns.pop())
        size = self.page_size
        free = self.pool.num_free
        evictable = self.cache.evictable_size
        if num_pages + spare > free + evictable // size:
            raise OutOfPages(num_pages + spare, free, evictable // size)
        if num_pages > free:
            evicted = self.cache.evict((num_pages - free) * size)
            if self.host is not None:  # copies them before anybody gets the pages
                self._returns.append((evicted, None))
                self.host.carry_out()
                self._returns.pop()
            self._give_back(evicted)

    def _take(self, sequence: Sequence, before: int, num_pages: int, spare: int = 0) -> None:
        """Extend the row of `sequence` from `before` to `num_pages` pages, with new ones from the pool."""
        row = sequence._row
        missing = num_pages - before
        if self._returns or missing + spare > self.pool.num_free:
            self._make_room(missing, spare)
        if num_pages > len(row):
            row = sequence._reserve(num_pages)
        self.pool.alloc_to(row.data[before:num_pages])
        sequence._num_pages = num_pages
        self._owned += missing

    def _run(self, sequence: Sequence, match: Match, spare: int) -> None:
        """Fill the row of a sequence, first with the pages of `match`, which is locked; it runs from now on."""
        size = self.page_size
        length = match.length
        cached = length // size
        self._take(sequence, cached, -(-sequence.length // size), spare)
        sequence.cached_length = sequence.computed = sequence.shared = length
        sequence._first_own = cached
        row = sequence._row.data
        match.copy_to(row)
        sequence._manager = self
        self._started = sequence.number
        self._running[sequence.number] = sequence
        if self.host is not None and match.host_length:
            sequence.loaded = self.host.bring_back(match, row[cached : cached + match.host_length // size])
            sequence.cached_length = sequence.computed = length + sequence.loaded
            self.checkpoint(sequence)

    def _publish(self, sequence: Sequence, move_lock: bool = False) -> Insertion | None:
        """Hand the computed whole pages to the cache, which keeps those that it does not have; `None` if none is new.

        A cache with `insert_after` gets only what follows the lock, which may move on, unless its `insert` has been
        replaced to watch it.

        row   [shared, prefix_length)   duplicates, still ours
              [.., length)              the cache's from now on
              [.., end of the row)      the rest, not offered or not kept: ours
        """
        first = sequence._first_own
        pages = sequence.computed // self.page_size
        if pages <= first:
            return None
        cache: Any = self.cache
        row, end, handle = sequence._row.data, pages * self.page_size, sequence._handle
        sequence._first_own = pages  # what is on offer is not ours while it is
        try:
            if cache.insert == self._passed_by:
                tokens = sequence._packed(sequence.shared, end)
                done = cache.insert_after(handle, tokens, row[first:pages].tobytes(), move_lock)
                if move_lock and done.prefix_length == sequence.shared:
                    sequence._handle = done
            else:
                whole = sequence.tokens
                if sequence.computed < sequence.length:  # else no copy: the cache leaves out the tail itself
                    whole = whole[:end]
                windows = self._windows(sequence)
                done = cache.insert(whole, row[:pages], namespace=sequence.namespace, start=handle, **windows)
        except BaseException:
            sequence._first_own = first
            raise
        return done  # type: ignore[no-any-return]

    def _windows(self, sequence: Sequence) -> dict[str, int]:
        """More arguments for `insert`."""
        return {}

    def _follow(self, sequence: Sequence, done: Insertion) -> None:
        """Lock what was published and read it from where the cache has it; our duplicates and the old lock may go."""
        size = self.page_size
        before = sequence._handle
        first = sequence.shared // size
        given = done.prefix_length // size
        kept = done.length // size
        duplicates: Any = ()
        handle: Any = done
        if given > first:  # another sequence was faster: the cache kept its pages
            duplicates = sequence._row[first:given].copy()
            handle = self.cache.acquire(sequence.tokens, limit=done.length, namespace=sequence.namespace)
            handle.copy_to(sequence._row.data)
            sequence._num_expanded = 0
        elif before is done:  # the lock has moved on
            before = None
        else:
            self.cache.lock(handle)
        sequence.shared, sequence._first_own, sequence._handle = done.length, kept, handle
        self._owned -= kept - first
        self._give_back(duplicates, before)

    def _release(self, sequence: Sequence, state: str, done: Insertion | None = None) -> None:
        """The one way out: the sequence is over, and its lock and all pages that are its own go back, each once.

        Of what was just published the cache keeps [prefix_length, length), as `done` says.

        Twin: `minikv.engine.ch06_07_manager.release`.
        """
        size, row, end = self.page_size, sequence._row, sequence._num_pages
        first = given = kept = sequence.shared // size
        if done is not None and done.length > sequence.shared:
            given, kept = done.prefix_length // size, done.length // size
        own = row[kept:end] if given == first else np.concatenate((row[first:given], row[kept:end]))
        self._owned -= end - first
        self._running.pop(sequence.number, None)
        handle, memory = sequence._handle, (row, sequence._slots)
        sequence.state = state
        sequence._manager = sequence._handle = None
        sequence._row, sequence._slots = NO_ROW
        sequence._num_pages = 0
        self._give_back(own, handle)
        if len(self._rows) < _SPARE_ROWS:
            self._rows.append(memory)

    def _give_back(self, pages: Any, handle: Handle | None = None) -> None:
        """Free `pages` and unlock `handle`; if that fails, the next act tries again.

        Our own pool need not look at our own pages, nor at what our own index evicted, as long as all pages are
        accounted for. What anybody else evicts, and what was inserted or freed without the manager's knowledge, is
        looked at page by page.
        """
        while True:
            try:
                if handle is not None:
                    self.cache.unlock(handle)
                    handle = None
                if count := len(pages):
                    known = self.pool.num_free + self.cache.total_size // self.page_size + self._owned
                    if self._trusting and known + count == self.num_pages and type(self.pool) is FreeListPool:
                        self.pool.free(pages, sure=True)
                    else:
                        self.pool.free(np.array(pages))  # a pool may keep it; the row is used again
            except BaseException:
                self._returns.append((pages, handle))
                raise
            if not self._returns:
                return
            pages, handle = self._returns.pop()

    @exclusive
    def _open(self, opened: list[Sequence], tokens: TokensLike, namespace: Hashable) -> None:
        """`start`, and note it in `opened` before Ctrl-C or another thread can come in between."""
        opened.append(self.start(tokens, namespace=namespace))
