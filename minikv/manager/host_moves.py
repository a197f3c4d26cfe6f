"""What a cache manager does for host memory: it has the store carry out the moves of a `TieredCache`.

    out     after an eviction, and before the pool gets the pages; after a request's pages were published
    back    at the start of a request, into pages of its own, as if it had computed them

A move that fails changes nothing: its host pages are free again, and the device has what it had. A load may take its
time, layer by layer, while the model computes. Until it is done its host pages stay locked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minikv.errors import InvariantError, bounded
from minikv.prefix.contract import Match
from minikv.prefix.host_memory import Move
from minikv.prefix.tiered import TieredCache


class HostMoves:
    """The moves between a manager's `store` and its `host` store, for `cache`; without stores nothing is copied.

    `worth` says of a number of tokens, and of how many come before them, whether to load them; by default always.
    """

    def __init__(self, cache: TieredCache, store: Any, host: Any, worth: Callable[[int, int], bool] | None = None):
        self.cache, self.store, self.host, self.worth = cache, store, host, worth
        self._on_the_way: list[tuple[Move, Any]] = []  # loads, each with the crossing that has layers to come

    def carry_out(self) -> None:
        """Copy out what the last insert or eviction says."""
        while (move := self.cache.next_move()) is not None:
            self._copy(move)

    def bring_back(self, match: Match, row: memoryview) -> int:
        """Load what host memory has after `match`, a locked one, into the pages in `row`; how many tokens that is."""
        self.look()
        if self.worth is not None and not self.worth(match.host_length, match.length):
            return 0
        move = self.cache.load(match, row)
        if move is None:
            return 0
        self._copy(move)
        return len(move.dst) * self.cache.page_size

    def look(self) -> None:
        """Unlock the host pages of loads that are done."""
        still = []
        for move, crossing in self._on_the_way:
            if crossing.done:
                self.cache.settle(move)
            else:
                still.append((move, crossing))
        self._on_the_way = still

    def finish(self) -> None:
        """Wait for all loads, and unlock their host pages."""
        for _, crossing in self._on_the_way:
            crossing.finish()
        self.look()

    def _copy(self, move: Move) -> None:
        crossing, arrived = None, False
        try:
            if self.store is not None:
                stores = (self.store, self.host) if move.to_host else (self.host, self.store)
                crossing = stores[1].take_pages(stores[0], move.src, move.dst, later=not move.to_host)
            arrived = True
        finally:
            if crossing is None or move.to_host or not arrived:
                self.cache.settle(move, arrived)
            else:
                self._on_the_way.append((move, crossing))

    def check(self) -> None:
        """Every move under way is a load whose crossing we wait for."""
        waiting = [move for move, _ in self._on_the_way]
        if self.cache.host is not None and self.cache.host.moves != waiting:
            raise InvariantError(f"{len(self.cache.host.moves)} moves are under way, the manager knows {len(waiting)}")


def require_host(cache: Any, store: Any, host: Any) -> None:
    """Raise `ValueError` unless `host` is the store of the host memory that `cache` counts on, if it does."""
    pages = cache.host_pages if isinstance(cache, TieredCache) else 0
    if host is None and (store is None or not pages):
        return
    if not pages:
        raise ValueError(f"host is {bounded(host)}: the prefix cache has no host memory")
    if host is None or getattr(host, "num_pages", pages) != pages:
        raise ValueError(f"host is {bounded(host)}: the prefix cache has {pages} host pages")
