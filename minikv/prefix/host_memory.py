"""Host memory as a second place for cached pages, with its own pages, its own tree and its own eviction order.

Host memory is a prefix cache, too: a `RadixCache` says which host page holds which prefix, a pool has the free pages,
and pages are evicted one by one, the least recently used first. Moves are new: a move says from which pages and to
which pages a store copies. No bytes move here. A move out reserves its host pages, and they are cached once the bytes
have arrived. A move back keeps the host pages that it reads locked. So no host page is reused while it is being read
or written.

    free page --begin_copy--> reserved --settle--> cached --begin_load--> locked --settle--> cached --evicted--> free
                                       --failed--> free

A node of the device's tree remembers how much of its path has been copied to host memory (`in_host`, a handle of host
memory's tree). Nodes may split, join or be evicted in either tree, and nothing has to be updated: the tree can tell how
much of the handle's path is left. So an eviction reads and copies only the tokens after it. After SGLang's HiCache,
whose nodes have a `host_value`.

**The rule**: if a page is in host memory, so is every page before it on its path. Then a prefix in host memory can
always be loaded, whatever the device evicts. A weaker rule, that the pages before it are in *one* of the tiers, copies
less: a prefix that never leaves the device is never copied. But then an eviction on the device may leave pages in host
memory that no prompt can reach, and they have to be found and freed. SGLang's tree has had both rules
(sgl-project/sglang#28614).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from minikv.errors import LockError, bounded, brief, require, whole_number
from minikv.pools import FreeListPool
from minikv.pools.contract import Pages
from minikv.prefix.base_index import way_to
from minikv.prefix.contract import Handle, Match
from minikv.prefix.radix import RadixCache, RadixNode
from minikv.tokens import TOKEN_BYTES, PackedTokens

_NONE = np.empty(0, np.int32)


class HostedNode(RadixNode):
    """A node of the device's tree. If `in_host` is set, host memory has what is left of the path to that handle."""

    __slots__ = ("in_host",)


class Edge(NamedTuple):
    """A copy of an edge of the device's tree, made when its pages were to be copied out. A root counts as an edge."""

    node: Any  # a HostedNode, or the root
    key_runs: tuple[bytes, ...]
    page_runs: tuple[bytes, ...]
    end: int


@dataclass(slots=True, eq=False, repr=False)
class Move:
    """Pages to copy: those in `src`, one by one, to those in `dst`, out to host memory or back.

    They hold the end of `tokens`. `HostMemory.settle` ends the move, whether the bytes arrived or not.
    """

    to_host: bool
    src: Pages
    dst: Pages
    namespace: Hashable
    held: Handle  # locked: the prefix of `tokens` that host memory has
    end: int  # the number of `tokens`
    path: list[Edge]  # the edges from the root; the first `end` tokens on it are `tokens`

    @property
    def tokens(self) -> PackedTokens:
        """All tokens from the beginning of the prompt to the end of the last page that moves."""
        return PackedTokens(_after(self.path, 0))[: self.end]

    def __repr__(self) -> str:
        where = "to host" if self.to_host else "from host"
        return f"Move({where}, {brief(self.src)} -> {brief(self.dst)})"


class HostTree(RadixCache):
    """The tree of host memory, in which `acquire_path` reads only the tokens after the last `in_host` on a path.

    >>> from minikv.tokens import pack
    >>> tree, root = HostTree(evict_by="page"), Edge(RadixCache().root, (), (), 0)
    >>> _ = tree.insert([1, 2], [7, 8])
    >>> tree.acquire_path([root, Edge(None, (pack([1, 2, 3]).data,), (), 3)])
    Handle(length=2)
    """

    def acquire_path(self, path: list[Edge]) -> Handle:
        """Lock the longest prefix of `path` that this tree has; the first edge of `path` is the root."""
        namespace = path[0].node.namespace
        node, length = self._root_of(namespace), 0
        marked = next((edge for edge in reversed(path) if hasattr(edge.node, "in_host")), None)
        if marked is not None:
            known = marked.node.in_host
            below, length = self._what_is_left(known.node, min(known.length, marked.end))  # its end may be gone
            node = self._end_at(below, length) if length else node
        if node.children:  # more of the path may be here
            rest = _after(path, length)
            node, at_byte = self._walk(node, rest, 0, len(rest))
            length += at_byte // TOKEN_BYTES
        held = Handle(self._epoch, node, length, namespace)
        self._protect(held, way_to(node))
        return held


class HostMemory:
    """Which of `num_pages` host pages hold which prefixes, and the moves that are under way.

    `page_size` is in tokens. `index` has the cached pages and their sizes; all other pages are free or reserved for a
    move. `moves` are the moves under way, in the order in which they began.

    >>> from minikv.tokens import pack
    >>> host, root = HostMemory(num_pages=4), RadixCache().root
    >>> tokens, pages = pack([1, 2, 3]).data, np.array([7, 8, 9], np.int32).tobytes()
    >>> edge = Edge(HostedNode(1, tokens, pages, root, 3, 0), (tokens,), (pages,), 3)
    >>> move = host.begin_copy([Edge(root, (), (), 0), edge]); move
    Move(to host, [7, 8, 9] -> [0, 1, 2])
    >>> host.settle(move); host
    HostMemory(4 pages of 1, 1 free, 3 cached, 0 moves are under way)
    """

    def __init__(self, num_pages: int, page_size: int = 1):
        self.num_pages = whole_number("num_pages", num_pages, 1, "host memory has at least 1 page")
        self.index = HostTree(page_size, evict_by="page")
        self.page_size = self.index.page_size
        self.pool = FreeListPool(self.num_pages)
        self.moves: list[Move] = []

    def begin_copy(self, path: list[Edge]) -> Move | None:
        """Plan to copy out the pages on `path`, a list of edges from the root on, that host memory lacks.

        Evicts to make room. If there is not enough room, only the first pages are copied. `None` if nothing is copied.
        The part of the path that `in_host` marks is neither read nor copied.
        """
        held = self.index.acquire_path(path)
        move = Move(True, _NONE, _NONE, held.namespace, held, held.length, path)
        self.moves.append(move)
        try:
            move.dst = self._reserve((path[-1].end - held.length) // self.page_size)
        finally:
            if not len(move.dst):
                self.settle(move)
        if not len(move.dst):
            return None
        pages = _after(path, held.length, "page_runs", self.page_size)
        move.src = np.frombuffer(pages, np.int32)[: len(move.dst)]
        move.end += len(move.dst) * self.page_size
        return move

    def begin_load(self, match: Match, pages: Pages) -> Move | None:
        """Plan to copy the pages after `match` back into the device's `pages`, as many as both have.

        The host pages stay locked until the move is settled. `None` if host memory has no pages after the match.
        """
        source = match.source or b""
        most = match.length + min(match.host_length, len(pages) * self.page_size)
        held = self.index.acquire(PackedTokens(source), limit=most, namespace=match.namespace)
        src = held.pages[match.length // self.page_size :]
        if not len(src):
            self.index.unlock(held)
            return None
        path = Edge(None, (source,), (), len(source) // TOKEN_BYTES)
        self.moves.append(Move(False, src, pages[: len(src)], held.namespace, held, held.length, [path]))
        return self.moves[-1]

    def settle(self, move: Move, arrived: bool = True) -> None:
        """End `move`. Pages that were copied out are cached if their bytes `arrived`; else, or if that fails, free.

        Raises `LockError` for a move that is not under way here.
        """
        if not isinstance(move, Move) or move not in self.moves:
            raise LockError(f"cannot settle {bounded(move)}: it is not under way here")
        known, free = move.held, move.dst if move.to_host else _NONE
        try:
            if arrived and len(free):
                new = _after(move.path, known.length)[: len(free) * self.page_size * TOKEN_BYTES]
                known = done = self.index.insert_after(known, new, free.tobytes())
                free = free[: (done.prefix_length - move.held.length) // self.page_size]  # cached by then: duplicates
        finally:
            self.moves.remove(move)
            self.index.unlock(move.held)
            if len(free):
                self.pool.free(free)
        for above, edge in pairwise(move.path):
            if above.end < known.length:
                edge.node.in_host = known

    def _reserve(self, num_pages: int) -> Pages:
        """Take `num_pages` pages, or as many as there are after evicting all that are not locked."""
        lacking = num_pages - self.pool.num_free
        if lacking > 0:
            self.pool.free(self.index.evict(lacking * self.page_size), sure=True)  # each came from this pool, once
        return self.pool.alloc(min(num_pages, self.pool.num_free))

    def check(self) -> None:
        """Check that each host page is free, cached or reserved for one move, and that only moves hold locks."""
        self.index.check()
        self.pool.check()
        owners = [["free"] if self.pool.is_free(page) else [] for page in range(self.num_pages)]
        for node in self.index.nodes():
            for page in node.pages:
                owners[page].append(f"node {node.id}")
        for move in self.moves:
            for page in move.dst.tolist() if move.to_host else ():
                owners[page].append("a move")
        for page, named in enumerate(owners):
            require(named, f"host page {page} has no owner: it is neither free, nor cached, nor a move's")
            require(len(named) == 1, f"host page {page} has two owners: {', and '.join(named)}")
        locked = {node for move in self.moves for node in way_to(move.held.node)}
        tokens, protected = sum(len(node.tokens) for node in locked), self.index.protected_size
        held = f"{protected} tokens are locked in host memory, but the moves under way hold {tokens}"
        require(protected == tokens, held)

    def __repr__(self) -> str:
        count = self.index.total_size // self.page_size
        pages = f"{self.num_pages} pages of {self.page_size}, {self.pool.num_free} free, {count} cached"
        return f"HostMemory({pages}, {moves_under_way(len(self.moves))})"


def _after(path: list[Edge], length: int, runs: str = "key_runs", page_size: int = 1) -> bytes:
    """The bytes of a path after its first `length` tokens: of its tokens, or with "page_runs" of its pages."""
    data = b"".join([run for edge in path if edge.end > length for run in getattr(edge, runs)])
    return data[len(data) - (path[-1].end - length) // page_size * TOKEN_BYTES :]


def moves_under_way(count: int) -> str:
    """Return a number of moves in words.

    >>> moves_under_way(1), moves_under_way(2)
    ('1 move is under way', '2 moves are under way')
    """
    return f"{count} move{' is' if count == 1 else 's are'} under way"
