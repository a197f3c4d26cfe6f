"""Host memory as a second place for cached pages, with its own pages, its own tree and its own eviction order.

Host memory is a prefix cache, too: a `RadixCache` says which host page holds which prefix, a pool has the free pages,
and pages are evicted one by one, the least recently used first. Moves are new: a move says from which pages and to
which pages a store copies. No bytes move here. A move out reserves its host pages, and they are cached once the bytes
have arrived. A move back keeps the host pages that it reads locked. So no host page is reused while it is being read
or written.

    free page --begin_copy--> reserved --settle--> cached --begin_load--> locked --settle--> cached --evicted--> free
                                       --failed--> free

**The rule**: if a page is in host memory, so is every page before it on its path. Then a prefix in host memory can
always be loaded, whatever the device evicts. A weaker rule, that the pages before it are in *one* of the tiers, copies
less: a prefix that never leaves the device is never copied. But then an eviction on the device may leave pages in host
memory that no prompt can reach, and they have to be found and freed. SGLang's tree has had both rules
(sgl-project/sglang#28614).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from minikv.errors import InvariantError, LockError, bounded, brief, whole_number
from minikv.pools import FreeListPool
from minikv.pools.contract import Pages
from minikv.prefix.base_index import way_to
from minikv.prefix.contract import Match
from minikv.prefix.radix import RadixCache
from minikv.tokens import PackedTokens

_NONE = np.empty(0, np.int32)


@dataclass(slots=True, eq=False, repr=False)
class Move:
    """Pages to copy: those in `src`, one by one, to those in `dst`, out to host memory or back.

    They hold the end of `tokens`. `HostMemory.settle` ends the move, whether the bytes arrived or not.
    """

    to_host: bool
    src: Pages
    dst: Pages
    tokens: PackedTokens
    namespace: Hashable
    held: Match  # the prefix of the tokens in host memory, locked

    def __repr__(self) -> str:
        where = "to host" if self.to_host else "from host"
        return f"Move({where}, {brief(self.src)} -> {brief(self.dst)})"


class HostMemory:
    """Which of `num_pages` host pages hold which prefixes, and the moves that are under way.

    `page_size` is in tokens. `index` has the cached pages and their sizes; all other pages are free or reserved for a
    move.

    >>> from minikv.tokens import pack
    >>> host = HostMemory(num_pages=4)
    >>> move = host.begin_copy(pack([1, 2, 3]), None, np.array([7, 8, 9], np.int32)); move
    Move(to host, [7, 8, 9] -> [0, 1, 2])
    >>> host.settle(move); host
    HostMemory(4 pages of 1, 1 free, 3 cached, 0 moves are under way)
    """

    def __init__(self, num_pages: int, page_size: int = 1):
        self.num_pages = whole_number("num_pages", num_pages, 1, "host memory has at least 1 page")
        self.index = RadixCache(page_size, evict_by="page")
        self.page_size = self.index.page_size
        self.pool = FreeListPool(self.num_pages)
        self._moves: dict[Move, None] = {}

    @property
    def moves(self) -> list[Move]:
        """The moves under way, in the order in which they began."""
        return list(self._moves)

    def begin_copy(self, tokens: PackedTokens, namespace: Hashable, pages: Pages) -> Move | None:
        """Plan to copy out the whole pages of `tokens` that host memory lacks; they are in the device's `pages`.

        Evicts to make room. If there is not enough room, only the first pages are copied. `None` if nothing is copied.
        """
        held = self.index.acquire(tokens, namespace=namespace)
        first, dst = held.length // self.page_size, _NONE
        try:
            dst = self._reserve(len(pages) - first)
        finally:
            if not len(dst):
                self.index.unlock(held)
        if not len(dst):
            return None
        end = first + len(dst)
        return self._begin(Move(True, pages[first:end], dst, tokens[: end * self.page_size], namespace, held))

    def begin_load(self, match: Match, pages: Pages) -> Move | None:
        """Plan to copy the pages after `match` back into the device's `pages`, as many as both have.

        The host pages stay locked until the move is settled. `None` if host memory has no pages after the match.
        """
        tokens = PackedTokens(match.source or b"")[: match.length + match.host_length]
        held = self.index.acquire(tokens, limit=match.length + len(pages) * self.page_size, namespace=match.namespace)
        src = held.pages[match.length // self.page_size :]
        if not len(src):
            self.index.unlock(held)
            return None
        return self._begin(Move(False, src, pages[: len(src)], tokens[: held.length], match.namespace, held))

    def settle(self, move: Move, arrived: bool = True) -> None:
        """End `move`. Pages that were copied out are cached if their bytes `arrived`; else, or if that fails, free.

        Raises `LockError` for a move that is not under way here.
        """
        if not isinstance(move, Move) or move not in self._moves:
            raise LockError(f"cannot settle {bounded(move)}: it is not under way here")
        free = move.dst if move.to_host else _NONE
        try:
            if move.to_host and arrived:
                first = move.held.length // self.page_size
                row = np.concatenate((np.zeros(first, np.int32), move.dst))
                done = self.index.insert(move.tokens, row, namespace=move.namespace, start=move.held)
                free = move.dst[: done.prefix_length // self.page_size - first]  # another move has copied them
        finally:
            del self._moves[move]
            self.index.unlock(move.held)
            self.pool.free(free)

    def _begin(self, move: Move) -> Move:
        self._moves[move] = None
        return move

    def _reserve(self, num_pages: int) -> Pages:
        """Take `num_pages` pages, or as many as there are after evicting all that are not locked."""
        lacking = num_pages - self.pool.num_free
        if lacking > 0:
            self.pool.free(self.index.evict(lacking * self.page_size))
        return self.pool.alloc(min(num_pages, self.pool.num_free))

    def check(self) -> None:
        """Check that each host page is free, cached or reserved for one move, and that only moves hold locks."""
        self.index.check()
        self.pool.check()
        owners = {page: "free" for page in range(self.num_pages) if self.pool.is_free(page)}
        claims = [(f"node {node.id}", node.pages) for node in self.index.nodes()]
        claims += [("a move", move.dst.tolist()) for move in self._moves if move.to_host]
        for owner, pages in claims:
            for page in pages:
                if page in owners:
                    raise InvariantError(f"host page {page} has two owners: {owners[page]}, and {owner}")
                owners[page] = owner
        if len(owners) != self.num_pages:
            lost = next(page for page in range(self.num_pages) if page not in owners)
            raise InvariantError(f"host page {lost} has no owner: it is neither free, nor cached, nor a move's")
        locked = {id(node): len(node.tokens) for move in self._moves for node in way_to(move.held.node)}
        if self.index.protected_size != sum(locked.values()):
            held = f"the moves under way hold {sum(locked.values())}"
            raise InvariantError(f"{self.index.protected_size} tokens are locked in host memory, {held}")

    def __repr__(self) -> str:
        count = self.index.total_size // self.page_size
        pages = f"{self.num_pages} pages of {self.page_size}, {self.pool.num_free} free, {count} cached"
        return f"HostMemory({pages}, {moves_under_way(len(self._moves))})"


def moves_under_way(count: int) -> str:
    """Return a number of moves in words.

    >>> moves_under_way(1), moves_under_way(2)
    ('1 move is under way', '2 moves are under way')
    """
    return f"{count} move{' is' if count == 1 else 's are'} under way"
