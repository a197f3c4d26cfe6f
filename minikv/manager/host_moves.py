"""The part of a cache manager for host memory: it has the stores carry out the moves of a `TieredCache`.

    out     after an eviction, before the pool gets the pages; also after a request's pages were published
    back    when a request starts, into pages that it owns, as if it had computed them

If a copy fails, the manager's caller gets the error, the host pages are free again, and no page is lost. Pages that an
eviction could not copy are no longer cached. A request whose load fails does not start. After a failed copy, the pages
of `checkpoint` and `finish` are published all the same. A load can arrive layer by layer while the model computes. Its
host pages stay locked until the last layer has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikv.errors import bounded, require
from minikv.prefix.contract import Match
from minikv.prefix.host_memory import Move, moves_under_way
from minikv.prefix.tiered import TieredCache


class HostMoves:
    """The moves between a manager's `store` and its `host` store, for `cache`; without stores nothing is copied.

    `worth(tokens, before)` says whether to load that many tokens after `before` others; by default they are loaded.
    """

    def __init__(self, cache: TieredCache, store: Any, host: Any, worth: Callable[[int, int], bool] | None = None):
        self.cache, self.store, self.host, self.worth = cache, store, host, worth
        self._coming: dict[Move, Any] = {}  # loads, each with the crossing that has layers to come

    def carry_out(self) -> None:
        """Copy out the pages that the last insert or eviction asks for.

        Twin: `minikv.engine.ch14_tiers.copy_out`.
        """
        self.look()
        while (move := self.cache.next_move()) is not None:
            self._copy(move)

    def bring_back(self, match: Match, row: memoryview) -> int:
        """Load the pages after the locked `match` from host memory into those in `row`; return the number of tokens.

        Twin: `minikv.engine.ch14_tiers.load_back`.
        """
        self.look()
        move = self.cache.load(match, row)  # making room may have evicted some of it: only now is it locked
        if move is None:
            return 0
        count, is_worth = len(move.dst) * self.cache.page_size, False
        try:
            is_worth = self.worth is None or bool(self.worth(count, match.length))
        finally:
            if not is_worth:
                self.cache.settle(move)
        if is_worth:
            self._copy(move)
        return count * is_worth

    def look(self) -> None:
        """Unlock the host pages of finished loads."""
        for move, crossing in list(self._coming.items()):
            if crossing.done:
                del self._coming[move]
                self.cache.settle(move)

    def _copy(self, move: Move) -> None:
        crossing = None
        arrived = False
        try:
            if self.store is not None:
                source, target = (self.store, self.host) if move.to_host else (self.host, self.store)
                crossing = target.take_pages(source, move.src, move.dst, later=not move.to_host)
            arrived = True
        finally:
            if crossing is not None and not move.to_host and not crossing.done:
                self._coming[move] = crossing
            else:
                self.cache.settle(move, arrived)

    def check(self) -> None:
        """Check that the moves under way are exactly the loads for which the manager still waits."""
        moves = self.cache.host.moves
        waits = f"{moves_under_way(len(moves))}, but the manager waits for {len(self._coming)}"
        require(moves == list(self._coming), waits)


def host_moves(cache: Any, store: Any, host: Any, worth: Callable[[int, int], bool] | None) -> HostMoves | None:
    """Return the `HostMoves` of a `TieredCache`. Any other cache has none, and `worth` raises `ValueError` for it."""
    if worth is not None:
        if not callable(worth):
            raise TypeError(f"worth_loading is {bounded(worth)}: expected a function of two numbers")
        if not isinstance(cache, TieredCache):
            raise ValueError(f"worth_loading is {bounded(worth)}: the prefix cache has no host memory")
    return HostMoves(cache, store, host, worth) if isinstance(cache, TieredCache) and cache.host else None
