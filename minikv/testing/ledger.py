"""The ledger: after every operation, each slot has exactly one owner, or the ledger says which two it has.

It watches a pool and a cache from outside (`minikv.testing.watch`). From what the operations say they did it records
who should own each slot, and after each one it compares its records with what the pool and the tree really hold. Three
owners are possible: the pool (the slot is free), a node of the cache, and the caller, which took it and has not given
it to either. vLLM counts blocks, SGLang sums sizes; a record of owners says *where* it went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

from minikv.errors import InvariantError, bounded, require_method, whole_number
from minikv.testing.snapshot import Visit, plain, walk
from minikv.testing.watch import Call, require_verbs, watch

POOL_VERBS = ("alloc", "alloc_to", "free", "occupy")
CACHE_VERBS = ("match_prefix", "acquire", "insert", "lock", "unlock", "evict", "reset")
FREE, CALLER, CACHE = "free", "the caller's", "cached"
_MOVES = {  # who gives what a verb moves, who takes it, and how
    "alloc": (FREE, CALLER, "given out by the pool"), "alloc_to": (FREE, CALLER, "given out by the pool"),
    "occupy": (FREE, CALLER, "taken out of the pool"), "free": (CALLER, FREE, "given back to the pool"),
    "insert": (CALLER, CACHE, "cached now"), "evict": (CACHE, CALLER, "evicted now"),
    "reset": (CACHE, CALLER, "forgotten now"),
}  # fmt: skip


class LedgerError(InvariantError):
    """A slot has two owners, or none; the message names both, the slot and the operation.

    >>> from minikv import FreeListPool, RadixCache
    >>> pool, cache = FreeListPool(4), RadixCache()
    >>> ledger = Ledger(pool, cache)
    >>> _ = cache.insert([1], [2])
    Traceback (most recent call last):
    minikv.testing.ledger.LedgerError: operation 1, insert [1]: slot 2 has two owners:
    cached now, and free from the start
    """


class Entry(NamedTuple):
    """The record of a slot: its owner since operation number `step`, and what that operation was."""

    owner: str
    step: int
    words: str

    def __str__(self) -> str:
        return (
            f"{self.owner} since operation {self.step} ({self.words})" if self.step else f"{self.owner} from the start"
        )


class Ledger(ExitStack):
    """Watches `pool` and `cache` until it is closed; every operation is counted, and checked as soon as it is done.

    `page_size` is how many slots a page of the pool covers, by default the cache's. `sequences`, when given, is
    called for the running sequences by name, each with the slots that are its own: no other may own them, and `check`
    finds what the caller took and no sequence has. Attach it while the cache is empty and the pool full, so that the
    records start true. Raises `LedgerError` at the operation's caller; what an operation was blamed for is not
    entered, so all that follows is compared with the last correct state.

    >>> from minikv import FreeListPool, RadixCache
    >>> pool, cache = FreeListPool(8), RadixCache()
    >>> with Ledger(pool, cache) as ledger:
    ...     slots = pool.alloc(3)
    ...     _ = cache.insert([1, 2, 3], slots)
    ...     print(ledger.owner(0), ledger.owner(5), sep="; ")
    ...     pool.free(slots)                              # but they are the cache's now
    Traceback (most recent call last):
    minikv.testing.ledger.LedgerError: operation 3, free [0, 1, 2]: slot 0 has two owners:
    given back to the pool, and cached since operation 2 (insert [1, 2, 3])
    """

    def __init__(
        self,
        pool: Any,
        cache: Any,
        page_size: int | None = None,
        sequences: Callable[[], Mapping[Any, Any]] | None = None,
    ):
        page_size = getattr(cache, "page_size", 1) if page_size is None else page_size
        self._page = whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        self._num_slots = _require(pool, cache, sequences) * self._page
        self._pool, self._cache, self._sequences = pool, cache, sequences
        self.step = 0
        self._book = dict.fromkeys(range(self._num_slots), Entry(FREE, 0, ""))
        self.check()
        super().__init__()
        self.callback(watch(pool, POOL_VERBS, self._hear))
        self.callback(watch(cache, CACHE_VERBS, self._hear))

    def owner(self, slot: int) -> Entry:
        """The record of `slot`; `ValueError` if the pool does not have it."""
        rule = f"this pool has slots 0 to {self._num_slots - 1}"
        return self._book[whole_number("slot", slot, 0, rule, self._num_slots)]

    @property
    def callers(self) -> list[int]:
        """The slots that have been taken and neither cached nor given back: at the end of a program, the leaks."""
        return [slot for slot, entry in self._book.items() if entry.owner == CALLER]

    def check(self) -> None:
        """Compare the records with what the pool, the cache and the sequences hold now."""
        where = f"operation {self.step}, check()"
        claimed = self._compare(where)
        for slot in self.callers if self._sequences is not None else ():
            if slot not in claimed:
                raise LedgerError(f"{where}: slot {slot} has no owner:\n{self._book[slot]}, but no sequence has it")

    # -- hearing of an operation ------------------------------------------------------------------------------------

    def _hear(self, call: Call) -> None:
        if call.thing is self._pool and call.is_own:
            return  # a step of the pool's own: what it comes to is known when the outer one is over
        self.step += 1
        where = f"operation {self.step}, {call_words(call)}"
        if call.error is None and call.verb in _MOVES:
            self._move(self._slots_moved(call), *_MOVES[call.verb], call, where)
        self._compare(where)

    def _slots_moved(self, call: Call) -> list[int]:
        """The slots that change hands in a call."""
        if call.verb == "reset":
            return [slot for slot, entry in self._book.items() if entry.owner == CACHE]
        pages = call.result if call.verb in ("alloc", "evict") else next(iter(call.arguments.values()))
        if call.verb == "insert":
            new = slice(call.result.prefix_length // self._page, call.result.length // self._page)
            pages = plain(given_pages(call))[new]
        return [int(page) * self._page + place for page in plain(pages) for place in range(self._page)]

    def _move(self, slots: list[int], giver: str, taker: str, how: str, call: Call, where: str) -> None:
        """All of `slots` change hands, or the first that cannot is named and none does."""
        seen: set[int] = set()
        for slot in slots:
            entry = self._entry(slot, f"{where}: slot {slot} is {how}")
            if entry.owner != giver:
                raise LedgerError(f"{where}: slot {slot} has two owners:\n{how}, and {entry}")
            if slot in seen:
                raise LedgerError(f"{where}: slot {slot} has two owners:\n{how}, twice in one operation")
            seen.add(slot)
        self._book.update(dict.fromkeys(slots, Entry(taker, self.step, call_words(call))))

    def _entry(self, slot: int, what: str) -> Entry:
        if slot not in self._book:
            raise LedgerError(f"{what}, but the pool has slots 0 to {len(self._book) - 1}")
        return self._book[slot]

    # -- comparing the records with the world -----------------------------------------------------------------------

    def _compare(self, where: str) -> dict[int, Any]:
        """Raise `LedgerError` where the records are wrong; the slots that a sequence has, each with its name."""
        nodes = held_by_nodes(self._cache, where)
        for slot in nodes.keys() - self._book.keys():
            self._entry(slot, f"{where}: slot {slot} is held by {nodes[slot]}")
        is_free = list(map(self._pool.is_free, range(self._num_slots // self._page)))
        for slot, entry in self._book.items():
            if (free := bool(is_free[slot // self._page])) != (entry.owner == FREE):
                pools = "the pool has it as free" if free else "the pool has it as in use"
                raise LedgerError(f"{where}: slot {slot}: {pools}, but it is\n{entry}")
            if entry.owner == CACHE and slot not in nodes:
                raise LedgerError(f"{where}: slot {slot} has no owner:\n{entry}, but no node holds it")
            if entry.owner != CACHE and slot in nodes:
                raise LedgerError(f"{where}: slot {slot} has two owners:\nheld by {nodes[slot]}, and {entry}")
        return self._compare_sequences(where, self._sequences() if self._sequences is not None else {})

    def _compare_sequences(self, where: str, sequences: Mapping[Any, Any]) -> dict[int, Any]:
        claimed: dict[int, Any] = {}
        for name, slots in sequences.items():
            for slot in map(int, plain(slots)):
                if slot in claimed:
                    raise LedgerError(
                        f"{where}: slot {slot} has two owners:\nsequence {claimed[slot]!r}, and sequence {name!r}"
                    )
                entry = self._entry(slot, f"{where}: slot {slot} is sequence {name!r}'s")
                if entry.owner != CALLER:
                    raise LedgerError(f"{where}: slot {slot} has two owners:\nsequence {name!r}, and {entry}")
                claimed[slot] = name
        return claimed


def _require(pool: Any, cache: Any, sequences: Any) -> int:
    """The size of `pool`, if a ledger can watch these three."""
    require_method("pool", pool, "is_free", "a pool, with size and is_free()")
    require_verbs("cache", cache, CACHE_VERBS)
    if sequences is not None and not callable(sequences):
        raise TypeError(f"sequences is {bounded(sequences)}: expected a function that returns them")
    return whole_number("size", pool.size, 1, "a pool holds at least 1 page")


def held_by_nodes(cache: Any, where: str) -> dict[int, Visit]:
    """Every slot that a node of `cache` holds, and where in the tree; `LedgerError` when two nodes hold the same.

    >>> from minikv import RadixCache
    >>> cache = RadixCache()
    >>> _ = cache.insert([1, 2], [8, 9])
    >>> [(slot, str(visit)) for slot, visit in held_by_nodes(cache, "now").items()]
    [(8, 'node 1 [1 2]'), (9, 'node 1 [1 2]')]
    """
    found: dict[int, Visit] = {}
    for visit in walk(cache):
        for slot in visit.slots:
            if slot in found:
                raise LedgerError(f"{where}: slot {slot} has two owners:\n{found[slot]}, and {visit}")
            found[slot] = visit
    return found


def given_pages(call: Call) -> Any:
    """The pages that an insert was given; a cache of one's own, with pages of 1, may call them its slots.

    >>> from minikv.testing.watch import Call
    >>> given_pages(Call(None, "insert", {"tokens": [1], "slots": [7]}))
    [7]
    """
    return call.arguments["pages"] if "pages" in call.arguments else call.arguments["slots"]


def call_words(call: Call) -> str:
    """An operation in words: its verb and what it was done to.

    >>> from minikv.testing.watch import Call
    >>> call_words(Call(None, "insert", {"tokens": [1, 2], "pages": [7, 8]})), call_words(Call(None, "reset", {}))
    ('insert [1, 2]', 'reset()')
    """
    first = next(iter(call.arguments.values()), None)
    if first is None:
        return f"{call.verb}()"
    return f"{call.verb} {bounded(plain(first) if hasattr(first, '__len__') and not isinstance(first, str) else first)}"
