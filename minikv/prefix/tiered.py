"""Two tiers: a radix tree over the device's pages, and host memory for what the device has no room for.

Keys and values are on the device, in host memory, or in both. A match says what is on the device and how much more is
in host memory. The caller decides whether to `load` that part or to compute it again. The write policy says when pages
are copied out:

    write_back                 when the device evicts them: no copy is wasted, but the eviction waits for the copy
    write_through              when they are inserted: an eviction need not wait, but many copies are never used
    write_through_selective    when they are inserted and were used `hot` times: a prompt sent once costs no copy

The methods are those of `PrefixCache`. Without host memory, they do exactly what those of `RadixCache` do. The tree
moves no bytes. After an insert or an eviction, `next_move` says what to copy. The caller has a store copy it and
settles the move, before it hands out evicted pages again:

    pages = cache.evict(n)
    while (move := cache.next_move()) is not None:
        store.copy(move); cache.settle(move)
    pool.free(pages)

After SGLang's HiCache, which keeps both tiers in one tree. Here each tier has its own tree, which keeps all the rules.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from minikv.errors import LockError, bounded, whole_number
from minikv.pools.contract import PAGE_LIMIT, Pages
from minikv.prefix.base_index import way_to
from minikv.prefix.contract import Match, PagesLike, require_wanted
from minikv.prefix.eviction import EvictionOrder
from minikv.prefix.host_memory import Edge, HostedNode, HostMemory, Move, moves_under_way
from minikv.prefix.radix import RadixCache, RadixNode
from minikv.tokens import PackedTokens, TokensLike, integers

WRITES = ("write_back", "write_through", "write_through_selective")


class TieredCache(RadixCache):
    """A radix tree over the device, and `host_pages` pages of host memory; keeps the rules of `PrefixCache`.

    `write` says when pages are copied out, one of `WRITES`; with "write_through_selective" after `hot` matches and
    inserts. The other arguments are those of `RadixCache`. `host` is the other tier, or `None` if it has no pages.

    If a page is in host memory, so is every page before it on its path. So an eviction copies out the part of the path
    that host memory lacks, and any prefix can be loaded, whatever the device has evicted. Compared with a `RadixCache`,
    the extra cost of an eviction or an insert grows with the tokens that are copied out and with the number of nodes on
    the path, but not with the tokens that host memory already has. Without host memory there is no extra cost.

    >>> cache = TieredCache(host_pages=8)
    >>> _ = cache.insert([1, 2, 3, 4], [10, 11, 12, 13])
    >>> pages, move = cache.evict(4), cache.next_move(); move
    Move(to host, [10, 11, 12, 13] -> [0, 1, 2, 3])
    >>> cache.settle(move)
    >>> match = cache.acquire([1, 2, 3, 9]); match
    Match(length=0, pages=[], host_length=3)
    >>> back = cache.load(match, [20, 21, 22]); back
    Move(from host, [0, 1, 2] -> [20, 21, 22])
    >>> cache.settle(back); cache.insert([1, 2, 3], back.dst, start=match); cache.unlock(match)
    Insertion(prefix_length=0, length=3)
    """

    unique_pages = True
    insert_after = RadixCache.insert_after

    def __init__(
        self,
        page_size: int = 1,
        host_pages: int = 0,
        write: str = "write_back",
        hot: int = 2,
        policy: str | Callable[[], EvictionOrder] = "lru",
        evict_by: str = "node",
    ):
        if write not in WRITES:
            raise ValueError(f"write is {bounded(write)}: expected one of {', '.join(WRITES)}")
        self.write = write
        self.host_pages = whole_number("host_pages", host_pages, 0, "host memory has 0 or more pages")
        self.hot = whole_number("hot", hot, 1, "what is used at least once may be copied out")
        super().__init__(page_size, policy, evict_by)

    def _clear(self) -> None:
        super()._clear()
        self.host: Any = HostMemory(self.host_pages, self.page_size) if self.host_pages else None
        self._outgoing = OrderedDict[RadixNode, Any]()  # nodes of the paths to copy out; the last of each has the path
        if self.host is None:
            return  # every verb is that of `RadixCache`, and costs the same
        self._make_node = HostedNode
        self._find, self._extend = self._find_in_both, self._extend_and_note  # type: ignore[assignment,method-assign]
        if self.write == "write_back":
            self._remove_leaf, self._trim = self._note_and_remove, self._note_and_trim  # type: ignore[method-assign]
        if self.write == "write_through_selective":
            self._counts_hits = True
            self._also_reads += ("hits",)

    # -- moves ------------------------------------------------------------------------------------------------------

    def next_move(self) -> Move | None:
        """Return the next pages to copy out after the last insert or eviction, or `None`; `settle` ends the move.

        Settle each move before you ask for the next one. Otherwise pages that both need are copied twice.
        """
        while self._outgoing:
            _, path = self._outgoing.popitem(last=False)
            move: Move | None = self.host.begin_copy(path) if path else None
            if move is not None:
                return move
        return None

    def load(self, match: Match, pages: PagesLike) -> Move | None:
        """Plan to copy what follows `match` from host memory into `pages` of the device; `None` if there is nothing.

        The caller owns the pages, as for tokens that it computes. Once the move is settled, the caller inserts them,
        and the next request has a longer match. `match` must be locked (`LockError` if not).
        """
        self._require(match, "load after")
        if not isinstance(match, Match):
            raise TypeError(f"cannot load after {bounded(match)}: expected a match")
        if match not in self._held:
            raise LockError(f"cannot load after a match of length {match.length}: it is not locked")
        given = integers(pages, "pages", "a page is an integer in [0, 2**31)", PAGE_LIMIT).astype(np.int32)
        if not match.host_length or not len(given):
            return None
        move: Move | None = self.host.begin_load(match, given)
        return move

    def settle(self, move: Move, arrived: bool = True) -> None:
        """End a move, whose bytes `arrived` or not; `LockError` if the move is not under way."""
        if self.host is None:
            raise LockError(f"cannot settle {bounded(move)}: there is no host memory")
        self.host.settle(move, arrived)

    def reset(self) -> None:
        """Forget everything in both tiers; `LockError` while anything is locked or a move is under way."""
        if self.host is not None and (count := len(self.host.moves)):
            raise LockError(f"cannot reset: {moves_under_way(count)}")
        super().reset()

    def evict(self, num_tokens: int) -> Pages:
        """Free unlocked leaves, as `RadixCache.evict`; `next_move` says what to copy before pages are reused."""
        if self._outgoing:
            require_wanted(num_tokens)
            self._outgoing.clear()
        return super().evict(num_tokens)

    # -- what the verbs do if there is host memory -------------------------------------------------------------------

    def _find_in_both(
        self, tokens: TokensLike, limit: int | None, namespace: Hashable
    ) -> tuple[Match, list[RadixNode]]:
        """Find the match and its path on the device; `host_length` says how much more host memory has."""
        match, path = super()._find(tokens, limit, namespace)
        known = self.host.index.match_prefix(PackedTokens(match.source or b""), limit=limit, namespace=namespace)
        match.host_length = max(0, known.length - match.length)
        return match, path

    def _extend_and_note(self, *new: Any) -> RadixNode:
        """Add new tokens to the device's tree, and note the path that the write policy copies out now, if any."""
        end = node = super()._extend(*new)
        self._outgoing.clear()
        if self.write == "write_back":
            return end
        least = self.hot if self.write == "write_through_selective" else 0
        while node.parent is not None and node.hits < least:
            node = node.parent
        self._note(node)
        return end

    def _note_and_remove(self, leaf: RadixNode) -> tuple[bytes, ...]:
        """Note that the path to a leaf must be copied out, and remove the leaf from the device's tree."""
        self._note(leaf)
        return super()._remove_leaf(leaf)

    def _note_and_trim(self, leaf: RadixNode, num_bytes: int) -> bytes:
        """Note that the path to a leaf must be copied out, and cut off the end of the leaf."""
        self._note(leaf)
        return super()._trim(leaf, num_bytes)

    def _note(self, node: RadixNode) -> None:
        """Note that the path to `node` must be copied out, unless a path through `node` is noted already."""
        path: list[Any] = way_to(node)
        if path and node not in self._outgoing:
            self._outgoing.update(dict.fromkeys(path))
            path.append(path[-1].parent)
            self._outgoing[node] = [Edge(at, at.key_runs, at.page_runs, at.end) for at in reversed(path)]

    def check(self) -> None:
        """Recompute both tiers from scratch; `InvariantError` names what differs."""
        super().check()
        if self.host is not None:
            self.host.check()

    def __repr__(self) -> str:
        how = f"page_size={self.page_size}, write={self.write!r}"
        return f"TieredCache({how}, evictable={self._evictable}, protected={self._protected}, host={self.host})"
