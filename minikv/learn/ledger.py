"""The ledger: after every operation, each slot has exactly one owner, or the ledger says which two it has.

It stands beside a pool and a cache and looks on (`minikv.watch`). It keeps its own book of who should have which
slot, from what the operations say they did, and after each one it compares the book with what the pool and the tree
really hold. Three owners are possible: the pool (the slot is free), a node of the cache, and the caller, who took it
and has not given it to either. vLLM counts blocks, SGLang sums sizes; a book of owners says *where* it went wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from minikv.errors import InvariantError, bounded
from minikv.show.snapshot import plain, snapshot
from minikv.watch import Call, watch

POOL_VERBS = ("alloc", "free", "take", "occupy")
CACHE_VERBS = ("match_prefix", "insert", "lock", "unlock", "evict", "reset")
FREE, CALLER, CACHE = "free", "the caller's", "cached"


class LedgerError(InvariantError):
    """A slot has two owners, or none; the message names both, the slot and the operation."""


class Entry(NamedTuple):
    """What the book says of a slot: its owner since operation number `step`, and what that operation was."""

    owner: str
    step: int
    words: str

    def __str__(self) -> str:
        return (
            f"{self.owner} since operation {self.step} ({self.words})" if self.step else f"{self.owner} from the start"
        )


class Ledger(AbstractContextManager["Ledger"]):
    """Watches `pool` and `cache` until it is closed; every operation is counted, and checked as soon as it is done.

    `page_size` is how many slots a page of the pool stands for. `sequences`, when given, is called for the running
    sequences by name, each with the slots that are its own: what is the caller's must then be one sequence's.
    Attach it while the cache is empty, so that the book starts true. Raises `LedgerError` at whoever called the
    operation.

    >>> from minikv import FreeListPool, RadixCache
    >>> pool, cache = FreeListPool(8), RadixCache()
    >>> with Ledger(pool, cache) as ledger:
    ...     slots = pool.alloc(3)
    ...     _ = cache.insert([1, 2, 3], slots)
    ...     print(ledger.owner(0), ledger.owner(5), sep="; ")
    ...     pool.free(slots)                              # but they are the cache's now
    Traceback (most recent call last):
    minikv.learn.ledger.LedgerError: operation 3, free [0, 1, 2]: slot 0 has two owners:
    given back to the pool, and cached since operation 2 (insert [1, 2, 3])
    """

    def __init__(
        self,
        pool: Any,
        cache: Any,
        page_size: int = 1,
        sequences: Callable[[], Mapping[Any, Any]] | None = None,
    ):
        self._pool, self._cache, self._page, self._sequences = pool, cache, page_size, sequences
        self.step = 0
        start = Entry(FREE, 0, "")
        self._book = dict.fromkeys(range(pool.size * page_size), start)
        self._stops = [watch(pool, POOL_VERBS, self._hear), watch(cache, CACHE_VERBS, self._hear)]
        self.check()

    def close(self) -> None:
        """Stop watching."""
        for stop in self._stops:
            stop()

    def __exit__(self, *_: Any) -> None:
        self.close()

    def owner(self, slot: int) -> Entry:
        """What the book says of `slot`."""
        return self._book[slot]

    @property
    def callers(self) -> list[int]:
        """The slots that have been taken and neither cached nor given back: at the end of a program, the leaks."""
        return [slot for slot, entry in self._book.items() if entry.owner == CALLER]

    def check(self) -> None:
        """Compare the book with what the pool, the cache and the sequences hold now."""
        self._compare(f"operation {self.step}, check()")

    # -- hearing of an operation ------------------------------------------------------------------------------------

    def _hear(self, call: Call) -> None:
        self.step += 1
        where = f"operation {self.step}, {words(call)}"
        if call.error is None and (note := getattr(self, f"_after_{call.verb}", None)):
            note(call, where)
        self._compare(where)

    def _after_alloc(self, call: Call, where: str) -> None:
        for slot in self._slots_of(call.result):
            if self._book[slot].owner != FREE:
                raise LedgerError(
                    f"{where}: slot {slot} has two owners:\ngiven out by the pool, and {self._book[slot]}"
                )
            self._write(slot, CALLER, call)

    def _after_free(self, call: Call, where: str) -> None:
        for slot in self._slots_of(next(iter(call.arguments.values()))):
            if self._book[slot].owner != CALLER:
                raise LedgerError(
                    f"{where}: slot {slot} has two owners:\ngiven back to the pool, and {self._book[slot]}"
                )
            self._write(slot, FREE, call)

    def _after_take(self, call: Call, where: str) -> None:
        for slot in self._slots_of(next(iter(call.arguments.values()))):
            self._write(slot, CALLER, call)

    _after_occupy = _after_take

    def _after_insert(self, call: Call, where: str) -> None:
        done, slots = call.result, plain(call.arguments["slots"])
        for slot in slots[done.prefix_length : done.length]:
            if slot not in self._book:
                raise LedgerError(f"{where}: slot {slot} is cached, but the pool has slots 0 to {len(self._book) - 1}")
            if self._book[slot].owner != CALLER:
                raise LedgerError(f"{where}: slot {slot} has two owners:\ncached now, and {self._book[slot]}")
            self._write(slot, CACHE, call)

    def _after_evict(self, call: Call, where: str) -> None:
        for slot in plain(call.result):
            if self._book[slot].owner != CACHE:
                raise LedgerError(f"{where}: slot {slot} is evicted, but it is {self._book[slot]}")
            self._write(slot, CALLER, call)

    def _after_reset(self, call: Call, where: str) -> None:
        if call.thing is self._cache:
            for slot in [slot for slot, entry in self._book.items() if entry.owner == CACHE]:
                self._write(slot, CALLER, call)

    def _write(self, slot: int, owner: str, call: Call) -> None:
        self._book[slot] = Entry(owner, self.step, words(call))

    def _slots_of(self, pages: Any) -> Iterator[int]:
        for page in plain(pages):
            yield from range(int(page) * self._page, (int(page) + 1) * self._page)

    # -- comparing the book with the world --------------------------------------------------------------------------

    def _compare(self, where: str) -> None:
        nodes = held_by_nodes(self._cache, where)
        for slot, entry in self._book.items():
            free = bool(self._pool.is_free(slot // self._page))
            if free != (entry.owner == FREE):
                pools = "the pool has it as free" if free else "the pool has it as in use"
                raise LedgerError(f"{where}: slot {slot}: {pools}, but it is\n{entry}")
            if entry.owner == CACHE and slot not in nodes:
                raise LedgerError(f"{where}: slot {slot} has no owner:\n{entry}, but no node holds it")
            if entry.owner != CACHE and slot in nodes:
                raise LedgerError(f"{where}: slot {slot} has two owners:\nheld by {nodes[slot]}, and {entry}")
        if self._sequences is not None:
            self._compare_sequences(where, self._sequences())

    def _compare_sequences(self, where: str, sequences: Mapping[Any, Any]) -> None:
        claimed: dict[int, Any] = {}
        for name, slots in sequences.items():
            for slot in plain(slots):
                if slot in claimed:
                    raise LedgerError(
                        f"{where}: slot {slot} has two owners:\nsequence {claimed[slot]!r}, and sequence {name!r}"
                    )
                if self._book[slot].owner != CALLER:
                    raise LedgerError(
                        f"{where}: slot {slot} has two owners:\nsequence {name!r}, and {self._book[slot]}"
                    )
                claimed[slot] = name


def held_by_nodes(cache: Any, where: str) -> dict[int, str]:
    """Every slot that a node of `cache` holds, with the node's name; `LedgerError` when two nodes hold the same.

    >>> from minikv import RadixCache
    >>> cache = RadixCache()
    >>> _ = cache.insert([1, 2], [8, 9])
    >>> held_by_nodes(cache, "now")
    {8: 'node 1 [1 2]', 9: 'node 1 [1 2]'}
    """
    found: dict[int, str] = {}
    for view in snapshot(cache, {}):
        name = f"node {view.label}" if view.id is None else f"node {view.id} {view.label}"
        for slot in view.slots:
            if slot in found:
                raise LedgerError(f"{where}: slot {slot} has two owners:\n{found[slot]}, and {name}")
            found[slot] = name
    return found


def words(call: Call) -> str:
    """An operation in words: its verb and what it was done to.

    >>> from minikv.watch import Call
    >>> words(Call(None, "evict", {"num_tokens": 3}, 0))
    'evict 3'
    """
    first = next(iter(call.arguments.values()), None)
    if first is None:
        return f"{call.verb}()"
    shown = plain(first) if hasattr(first, "__len__") and not isinstance(first, str) else first
    return f"{call.verb} {bounded(shown)}"
