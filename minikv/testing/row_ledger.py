"""The ledger of rows: after every operation each row has one state, and is named only for what is in it.

It watches a cache of rows (`RowCache`, or the one that a learner builds) and its pool from outside. A row has one of
three states: a sequence runs in it, or it is free, or it is free and cached. In the third state nobody owns it and
nodes still name it, so an owner alone does not say enough. The record of a row also says which tokens it holds, and a
node that names the row under its present version must be on their path. An equal version means equal content: that is
the invariant of this design, and here it is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from minikv.errors import bounded, whole_number
from minikv.prefix.row_cache import CACHED, FREE, RUNNING
from minikv.testing.ledger import CALLER, POOL_VERBS, LedgerError, words
from minikv.testing.snapshot import plain
from minikv.testing.watch import Call, require_verbs, watch

ROW_VERBS = ("start", "find", "finish", "abort")


class RowEntry(NamedTuple):
    """The record of a row: its state since operation number `step`, what that was, and the tokens that may be named.

    Of a running sequence these are the ones that it found; the others are not computed yet.
    """

    state: str
    step: int = 0
    words: str = ""
    tokens: tuple[int, ...] = ()

    def __str__(self) -> str:
        since = f"since operation {self.step} ({self.words})" if self.step else "from the start"
        return f"{self.state} {since}" + (f", holding {bounded(list(self.tokens))}" if self.tokens else "")


class RowLedger(AbstractContextManager["RowLedger"]):
    """Watches `cache` and its pool until it is closed; every operation is counted, and checked as soon as it is done.

    `cache` has `start`, `finish` and perhaps `find` and `abort`; a `pool` with versions; and a `root`, whose nodes
    have `children`, a `token`, a `row` and a `version`. What `start` returns has `row`, `tokens` and `found`. Attach
    the ledger while all rows are free and no node names one. Raises `LedgerError` at the operation's caller; what an
    operation was blamed for is not entered.

    >>> from minikv import RowCache
    >>> cache = RowCache(2)
    >>> with RowLedger(cache) as ledger:
    ...     cache.finish(cache.start([1, 2, 3]))
    ...     print(ledger.states(), ledger.entry(0), sep="; ")
    ...     cache.pool.occupy(0)                             # by a stranger, who keeps its version
    Traceback (most recent call last):
    minikv.testing.ledger.LedgerError: operation 3, occupy 0: row 0 has two owners:
    cached for [1, 2, 3] under version 1, and the caller's since operation 3 (occupy 0)
    """

    def __init__(self, cache: Any):
        require_verbs("cache", cache, ROW_VERBS)
        pool: Any = getattr(cache, "pool", None)
        if not hasattr(cache, "root") or not callable(getattr(pool, "version", None)):
            raise TypeError(
                f"cache is {bounded(cache)}: expected a cache of rows, with a root and a pool with versions"
            )
        self._cache, self._pool = cache, pool
        self.step = 0
        self._book = [RowEntry(FREE)] * whole_number("size", self._pool.size, 1, "there is at least 1 row")
        self._running: dict[int, Any] = {}  # by row: what start() returned
        self._stops: list[Callable[[], None]] = []
        self.check()
        self._stops += [watch(cache, ROW_VERBS, self._hear), watch(pool, POOL_VERBS, self._hear_of_pool)]

    def close(self) -> None:
        """Stop watching."""
        for stop in self._stops:
            stop()

    def __exit__(self, *_: Any) -> None:
        self.close()

    def entry(self, row: int) -> RowEntry:
        """The record of `row`, with its state now; `ValueError` if the pool does not have it."""
        rule = f"this pool has rows 0 to {len(self._book) - 1}"
        number = whole_number("row", row, 0, rule)
        if number >= len(self._book):
            raise ValueError(f"row is {number}: {rule}")
        return self._book[number]._replace(state=self.states()[number])

    def states(self) -> list[str]:
        """The state of each row: running, free, or free and cached; or the caller's, who took it out of the pool."""
        named = {row for row, _ in self._named()}
        return [CACHED if entry.state == FREE and row in named else entry.state for row, entry in enumerate(self._book)]

    @property
    def running(self) -> list[int]:
        """The rows in which a sequence runs: at the end of a program, the leaks."""
        return sorted(self._running)

    def check(self) -> None:
        """Compare the records with what the pool, the nodes and the cache's own `states` say now."""
        self._compare(f"operation {self.step}, check()")

    # -- hearing of an operation ------------------------------------------------------------------------------------

    def _hear(self, call: Call) -> None:
        if call.verb == "find" and call.depth:
            return  # a step of start(): that one is heard of when it is over
        self.step += 1
        said = words(call) if "tokens" in call.arguments else f"{call.verb} row {_row_of(call)}"
        where = f"operation {self.step}, {said}"
        if call.error is None and call.verb == "start":
            self._begin(call.result, said, where)
        elif call.error is None and call.verb in ("finish", "abort"):
            self._end(call, said, where)
        self._compare(where)

    def _begin(self, sequence: Any, said: str, where: str) -> None:
        row, tokens = int(sequence.row), tuple(plain(sequence.tokens))
        found = tokens[: sequence.found]
        self._require(row, FREE, f"taken for {bounded(list(tokens))} now", where)
        if not any(entry.tokens[: len(found)] == found for entry in self._book):
            raise LedgerError(f"{where}: row {row} is to begin with {bounded(list(found))}, but no row held that")
        self._running[row] = sequence
        self._book[row] = RowEntry(RUNNING, self.step, said, found)

    def _end(self, call: Call, said: str, where: str) -> None:
        sequence = next(iter(call.arguments.values()))
        row = int(sequence.row)
        self._require(row, RUNNING, "given back", where)
        if self._running[row] is not sequence:
            raise LedgerError(f"{where}: row {row} has two owners:\nthe sequence that ended, and {self._book[row]}")
        tokens = self._book[row].tokens
        if call.verb == "finish":
            tokens = (*plain(sequence.tokens), *plain(call.arguments.get("generated", ())))
        del self._running[row]
        self._book[row] = RowEntry(FREE, self.step, said, tokens)

    def _hear_of_pool(self, call: Call) -> None:
        """Somebody took a row or gave one back without the cache; what the cache itself does is heard of elsewhere."""
        if call.depth:
            return
        self.step += 1
        where = f"operation {self.step}, {words(call)}"
        if call.error is None:
            pages = call.result if call.verb == "alloc" else next(iter(call.arguments.values()))
            giver, taker = (CALLER, FREE) if call.verb == "free" else (FREE, CALLER)
            for row in map(int, plain(pages)):
                self._require(row, giver, "given back to the pool" if taker == FREE else "taken out of the pool", where)
                self._book[row] = RowEntry(taker, self.step, words(call))
        self._compare(where)

    def _require(self, row: int, state: str, how: str, where: str) -> None:
        """The row changes hands: it must have been in `state`."""
        if self._book[row].state != state:
            raise LedgerError(f"{where}: row {row} has two owners:\n{how}, and {self._book[row]}")

    # -- comparing the records with the world -----------------------------------------------------------------------

    def _compare(self, where: str) -> None:
        for row, entry in enumerate(self._book):
            free = bool(self._pool.is_free(row))
            if free != (entry.state == FREE):
                pools = "the pool has it as free" if free else "the pool has it as in use"
                raise LedgerError(f"{where}: row {row}: {pools}, but it is\n{entry}")
        wrong = [(row, path) for row, path in self._named() if path]
        if wrong:
            row, path = max(wrong, key=lambda pair: len(pair[1]))
            cached = f"cached for {bounded(list(path))} under version {self._pool.version(row)}"
            raise LedgerError(f"{where}: row {row} has two owners:\n{cached}, and {self._book[row]}")
        if callable(say := getattr(self._cache, "states", None)):
            self._compare_states(where, say())

    def _compare_states(self, where: str, said: Sequence[str]) -> None:
        for row, (theirs, ours) in enumerate(zip(said, self.states(), strict=True)):
            if theirs != ours and ours != CALLER:
                raise LedgerError(f"{where}: row {row}: states() has it as {theirs}, but it is\n{self.entry(row)}")

    def _named(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Each row that a node names under its present version, with the path to that node where it is not in the row.

        A node that names the same row as its parent needs a look at its own token only.
        """
        path: list[int] = []
        stack = [(child, 0, -1) for child in self._cache.root.children.values()]
        while stack:
            node, depth, above = stack.pop()
            path[depth:] = [node.token]
            row = node.row if self._is_current(node) else -1
            if row >= 0:
                held = self._book[row].tokens
                same = held[depth : depth + 1] == (node.token,) if row == above else held[: depth + 1] == tuple(path)
                yield row, () if same else tuple(path)
                row = row if same else -1
            stack.extend((child, depth + 1, row) for child in node.children.values())

    def _is_current(self, node: Any) -> bool:
        return node.row is not None and node.row >= 0 and self._pool.version(node.row) == node.version


def _row_of(call: Call) -> Any:
    """The row of the sequence that a call was about, for its words."""
    return getattr(next(iter(call.arguments.values()), None), "row", None)
