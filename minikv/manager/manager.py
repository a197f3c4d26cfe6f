"""The cache manager: what happens to pages in the life of a request. It is written here, and nowhere else.

    start        match all but the last token and lock it -> is there room? -> evict -> allocate
    advance      keys and values have been computed into the next tokens' slots
    extend       a token was generated: it needs a slot, and perhaps a page
    truncate     the last tokens were only a draft: their pages go back
    checkpoint   publish the computed pages while the request continues; from then on it reads the tree's slots
    finish       publish what is computed; all else goes back
    abort        publish nothing; all goes back

Each of them is atomic: another thread waits until it is done, and so does Ctrl-C.
Between start and the end every page has exactly one owner: the pool, the prefix cache, or one sequence. `check`
says so, or names the two. The manager looks for room only when the match is locked: before that, it might find it in
the match itself. And a page is only published once its keys and values have been computed: `advance` says so.

After the cache managers of SGLang and mini-sglang; one function releases what a sequence holds, however it ends
(SGLang freed the last slot of a request in two places, and so twice).
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator

from minikv.errors import bounded, whole_number
from minikv.interrupts import exclusive
from minikv.manager.page_owners import PageOwners, check_manager
from minikv.manager.sequence import ABORTED, FINISHED, RUNNING, Sequence
from minikv.prefix.contract import Match
from minikv.tokens import TokensLike, pack


class CacheManager(PageOwners):
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
    With 1,000,000 nodes a full garbage collection pauses for up to 392 ms; `gc.collect(); gc.freeze()` once the cache
    is full makes that 162 ms. Raises `TypeError` or `ValueError` when the parts do not fit each other.

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

    # -- the life of a request --------------------------------------------------------------------------------------

    @exclusive
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
        prompt = pack(tokens)
        if spare or type(spare) is not int:
            spare = whole_number("spare", spare, 0, "0 or more pages remain")
        if not prompt.data:
            raise ValueError("tokens are empty: a request has at least 1 token")
        sequence = Sequence(self._started + 1, prompt, namespace, self.page_size, self._every_slot)
        limit = sequence.length - 1 if limit is None else limit
        match = sequence._handle = self.cache.acquire(prompt, limit=limit, namespace=namespace)
        cached = match.length // self.page_size
        try:
            self._make_room(sequence._num_pages - cached, spare)
            match.copy_to(sequence._row_of(0, cached))
            self._allocate(sequence, cached, sequence._num_pages)
        except BaseException:
            sequence._num_pages = 0
            self._release(sequence, ABORTED)
            raise
        self._run(sequence, match)
        return sequence

    def _run(self, sequence: Sequence, match: Match) -> None:
        """The sequence runs; what host memory has after `match` is loaded, as if it had been computed."""
        sequence._read(match.length, match)
        sequence.cached_length = sequence.computed = match.length
        self._started += 1
        self._running[sequence.number] = sequence
        if self.host is None or not match.host_length:
            return
        first, pages = match.length // self.page_size, match.host_length // self.page_size
        try:
            sequence.loaded = self.host.bring_back(match, sequence._row_of(first, first + pages))
            sequence.cached_length = sequence.computed = match.length + sequence.loaded
            self.checkpoint(sequence)
        except BaseException:
            if sequence.state == RUNNING:
                self._release(sequence, ABORTED)
            raise

    def advance(self, sequence: Sequence, num_tokens: int | None = None) -> None:
        """Say that the keys and values of the next `num_tokens` tokens (default: all) are in their slots now.

        Raises `ValueError` when the sequence is over or has not so many left.

        Twin: `minikv.engine.shells.ManagerShell.advance`.

        >>> manager = CacheManager(num_pages=4)
        >>> sequence = manager.start([1, 2, 3])
        >>> manager.advance(sequence, 2); sequence
        Sequence(1, running, 3 tokens, cached=0, computed=2)
        """
        with self._lock:  # one step only, so Ctrl-C comes before it or after it
            self._require(sequence, "advance")
            left = sequence.length - sequence.computed
            rule = "0 or more tokens are computed, at most those that are left"
            count = left if num_tokens is None else whole_number("num_tokens", num_tokens, 0, rule)
            if count > left:
                raise ValueError(
                    f"num_tokens is {count}: only {left} of sequence {sequence.number} are left to compute"
                )
            sequence.computed += count

    @exclusive
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
        self._require(sequence, "extend")
        more = pack(tokens)
        before, pages = sequence._num_pages, -(-(sequence.length + len(more)) // self.page_size)
        if pages > before:
            self._make_room(pages - before)
            sequence._reserve(pages)
            self._allocate(sequence, before, pages)
        sequence._append(more, pages)

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
        """
        self._require(sequence, "truncate")
        rule = f"sequence {sequence.number} keeps at least 1 token, and the {sequence.shared} that the cache has"
        length = whole_number("length", length, max(1, sequence.shared), rule)
        if length > sequence.length:
            raise ValueError(f"length is {bounded(length)}: sequence {sequence.number} has {sequence.length} tokens")
        cut = sequence._cut(length)
        self._owned -= len(cut)
        self._give_back(cut)

    @exclusive
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
        self._require(sequence, "checkpoint")
        done = self._publish(sequence)
        if done is not None:
            try:
                self._follow(sequence, done)
            except BaseException:
                self._release(sequence, ABORTED, done)
                raise
            self._carry_out()

    @exclusive
    def finish(self, sequence: Sequence) -> None:
        """End the request well: publish the whole pages that are computed, and give back all the rest.

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
        self._require(sequence, "finish")
        done = self._publish(sequence)
        self._release(sequence, FINISHED, done)
        if done is not None:
            self._carry_out()

    @exclusive
    def abort(self, sequence: Sequence) -> None:
        """End the request badly: publish nothing more, and give back everything that it holds.

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

    @exclusive
    def _open(self, opened: list[Sequence], tokens: TokensLike, namespace: Hashable) -> None:
        """`start`, and note it in `opened` before Ctrl-C or another thread can come in between."""
        opened.append(self.start(tokens, namespace=namespace))

    def __repr__(self) -> str:
        many = f"{len(self._running)} sequence{'' if len(self._running) == 1 else 's'} running"
        pages = f"{self.num_pages} pages of {self.page_size}, {self.pool.num_free} free"
        return f"CacheManager({pages}, {many}, {self.available_size} tokens available)"
