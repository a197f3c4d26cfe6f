"""Host memory as a second place for cached pages, with its own pages, its own tree and its own eviction order.

Host memory is a prefix cache, too: a `RadixCache` says which host page holds which prefix, a pool has the free pages,
and pages are evicted one by one, the least recently used first. Moves are new: a move says from which pages and to
which pages a store copies. No bytes move here. A move out reserves its host pages, and they are cached once the bytes
have arrived. A move back keeps the host pages that it reads locked. So no host page is reused while it is being read
or written.

    free page --begin_copy--> reserved --settle--> cached --begin_load--> locked --settle--> cached --evicted--> free
                                       --failed--> free

The device's nodes remember where host memory had their paths (`in_host`). That is a handle of host memory's tree, which
says how much is left of its path, so it needs no care when nodes split, join or are evicted in either tree. With it, an
eviction reads and copies only what follows. After SGLang's HiCache, whose nodes have a `host_value`.

**The rule**: if a page is in host memory, so is every page before it on its path. Then a prefix in host memory can
always be loaded, whatever the device evicts. A weaker rule, that the pages before it are in *one* of the tiers, copies
less: a prefix that never leaves the device is never copied. But then an eviction on the device may leave pages in host
memory that no prompt can reach, and they have to be found and freed. SGLang's tree has had both rules
(sgl-project/sglang#28614).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minikv.errors import InvariantError, LockError, bounded, brief, whole_number
from minikv.pools import FreeListPool
from minikv.pools.contract import Pages
from minikv.prefix.base_index import way_to
from minikv.prefix.contract import Handle, Insertion, Match
from minikv.prefix.radix import RadixCache, RadixNode
from minikv.tokens import TOKEN_BYTES, PackedTokens

_NONE = np.empty(0, np.int32)


class HostedNode(RadixNode):
    """A node of the device's tree; what is left of the path to `in_host`, if that is set, is in host memory."""

    __slots__ = ("in_host",)


@dataclass(slots=True, eq=False, repr=False)
class Edge:
    """An edge of the device's tree, as it was when its pages were to be copied out; a root is one, too."""

    node: Any  # a HostedNode, or the root
    key_runs: tuple[bytes, ...]
    page_runs: tuple[bytes, ...]
    end: int
    above: Any  # the edge before it on the path, or None

    def after(self, length: int) -> list[Edge]:
        """The edges on the path to the end of this one that end after `length` tokens, in order."""
        edges, edge = list[Edge](), self
        while edge is not None and edge.end > length:
            edges.append(edge)
            edge = edge.above
        return edges[::-1]


@dataclass(slots=True, eq=False, repr=False)
class Move:
    """Pages to copy: those in `src`, one by one, to those in `dst`, out to host memory or back.

    They hold the end of `tokens`. `HostMemory.settle` ends the move, whether the bytes arrived or not.
    """

    to_host: bool
    src: Pages
    dst: Pages
    held: Handle  # the prefix of the tokens that is in host memory, locked
    end: int  # how many tokens they are
    path: Edge  # the last edge of a path that begins with them

    @property
    def tokens(self) -> PackedTokens:
        """All tokens from the beginning of the prompt to the end of the last page that moves."""
        runs = [edge.key_runs for edge in self.path.after(0)]
        return PackedTokens(_last(runs, self.path.end))[: self.end]

    @property
    def namespace(self) -> Hashable:
        """The namespace of these tokens."""
        return self.held.namespace

    def __repr__(self) -> str:
        where = "to host" if self.to_host else "from host"
        return f"Move({where}, {brief(self.src)} -> {brief(self.dst)})"


class HostTree(RadixCache):
    """Host memory's tree: where the beginning of a path is known to be, the rest costs what it has.

    >>> tree = HostTree(evict_by="page")
    >>> root, tokens, pages = tree.place(None, 0, None), b"aaaabbbb", np.array([7, 8], np.int32)
    >>> done = tree.insert_after(tree.acquire_after(root, tokens), tokens, pages)
    >>> done, tree.acquire_after(tree.place(done.node, 1, None), b"bbbbcccc")
    (Insertion(prefix_length=0, length=2), Handle(length=2))
    """

    def place(self, node: Any, length: int, namespace: Hashable) -> Handle:
        """Return the end of what is left of the first `length` tokens on the path that led to `node`."""
        if length:
            node, length = self._what_is_left(node, length)
        node = self._end_at(node, length) if length else self._root_of(namespace)
        return Handle(self._epoch, node, length, namespace)

    def used(self, tokens: bytes, end_byte: int, namespace: Hashable) -> int:
        """Return how many tokens of `tokens[:end_byte]` are here. They count as used now."""
        root = self._root_of(namespace)
        end_byte = end_byte // self._stride * self._stride
        node, end_byte = self._walk(root, tokens, 0, end_byte)
        self._touch(self._use(node, root))
        return end_byte // TOKEN_BYTES

    def acquire_after(self, top: Handle, tokens: bytes) -> Handle:
        """Lock the path to `top`, and as many `tokens` after it as are here."""
        node, end_byte = self._walk(top.node, tokens, 0, len(tokens))
        length = top.length + end_byte // TOKEN_BYTES
        held = Handle(self._epoch, node, length, top.namespace)
        self._protect(held, way_to(node))
        return held

    def insert_after(self, top: Handle, tokens: bytes, pages: Pages) -> Insertion:
        """Cache `tokens` after the locked `top`, in `pages`; see `insert`."""
        namespace, start = top.namespace, top.node
        if not top.length:  # the root may have gone since, or come
            start = self._roots.get(namespace) or self._new_root(namespace)
        node, at_byte = self._walk(start, tokens, 0, len(tokens))
        known = at_byte // TOKEN_BYTES
        new_pages = pages[known // self.page_size :].tobytes()
        node = self._extend(node, start, tokens[at_byte:], new_pages, 0)
        length = top.length + len(tokens) // TOKEN_BYTES
        return Insertion(self._epoch, node, length, namespace, None, top.length + known)


class HostMemory:
    """Which of `num_pages` host pages hold which prefixes, and the moves that are under way.

    `page_size` is in tokens. `index` has the cached pages and their sizes; all other pages are free or reserved for a
    move.

    >>> from minikv.tokens import pack
    >>> host, root = HostMemory(num_pages=4), RadixCache().root
    >>> tokens, pages = pack([1, 2, 3]).data, np.array([7, 8, 9], np.int32).tobytes()
    >>> edge = Edge(HostedNode(1, tokens, pages, root, 3, 0), (tokens,), (pages,), 3, Edge(root, (), (), 0, None))
    >>> move = host.begin_copy(edge); move
    Move(to host, [7, 8, 9] -> [0, 1, 2])
    >>> host.settle(move); host
    HostMemory(4 pages of 1, 1 free, 3 cached, 0 moves are under way)
    """

    def __init__(self, num_pages: int, page_size: int = 1):
        self.num_pages = whole_number("num_pages", num_pages, 1, "host memory has at least 1 page")
        self.index = HostTree(page_size, evict_by="page")
        self.page_size = self.index.page_size
        self.pool = FreeListPool(self.num_pages)
        self._moves: dict[Move, None] = {}

    @property
    def moves(self) -> list[Move]:
        """The moves under way, in the order in which they began."""
        return list(self._moves)

    def begin_copy(self, edge: Edge) -> Move | None:
        """Plan to copy out the pages on the path to the end of `edge` that host memory lacks.

        Evicts to make room. If there is not enough room, only the first pages are copied. `None` if nothing is copied.
        What host memory is known to have of the path is neither read nor copied.
        """
        top, tokens, dst = self._known_of(edge), b"", _NONE
        edges = edge.after(top.length)
        if top.node.children:  # more of the path may be here
            tokens = _last([some.key_runs for some in edges], edge.end - top.length)
        held = self.index.acquire_after(top, tokens)
        try:
            _note(held, edges)
            dst = self._reserve((edge.end - held.length) // self.page_size)
        finally:
            if not len(dst):
                self.index.unlock(held)
        if not len(dst):
            return None
        pages = _last([some.page_runs for some in edges], (edge.end - held.length) // self.page_size)
        src, end = np.frombuffer(pages, np.int32), held.length + len(dst) * self.page_size
        return self._begin(Move(True, src[: len(dst)], dst, held, end, edge))

    def _known_of(self, edge: Edge) -> Handle:
        """Return where host memory is known to have the path to `edge`: at the root, or a mark's place."""
        while edge.above is not None:
            known = getattr(edge.node, "in_host", None)
            if known is not None:
                length = min(known.length, edge.end)  # of the node, the end may have been evicted
                return self.index.place(known.node, length, known.namespace)
            edge = edge.above
        return self.index.place(None, 0, edge.node.namespace)

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
        path = Edge(None, (source,), (), len(source) // TOKEN_BYTES, None)
        return self._begin(Move(False, src, pages[: len(src)], held, held.length, path))

    def settle(self, move: Move, arrived: bool = True) -> None:
        """End `move`. Pages that were copied out are cached if their bytes `arrived`; else, or if that fails, free.

        Raises `LockError` for a move that is not under way here.
        """
        if not isinstance(move, Move) or move not in self._moves:
            raise LockError(f"cannot settle {bounded(move)}: it is not under way here")
        free = move.dst if move.to_host else _NONE
        try:
            if move.to_host and arrived:
                start, edges = move.held.length, move.path.after(move.held.length)
                tokens = _last([edge.key_runs for edge in edges], move.path.end - start)
                new = tokens[: (move.end - start) * TOKEN_BYTES]
                done = self.index.insert_after(move.held, new, move.dst)
                free = move.dst[: (done.prefix_length - start) // self.page_size]  # copied twice
                _note(done, edges)
        finally:
            del self._moves[move]
            self.index.unlock(move.held)
            if len(free):
                self.pool.free(free)

    def _begin(self, move: Move) -> Move:
        self._moves[move] = None
        return move

    def _reserve(self, num_pages: int) -> Pages:
        """Take `num_pages` pages, or as many as there are after evicting all that are not locked."""
        lacking = num_pages - self.pool.num_free
        if lacking > 0:
            evicted = self.index.evict(lacking * self.page_size)
            self.pool.free(evicted, sure=True)  # they came from there, each once
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


def _last(runs: Sequence[tuple[bytes, ...]], count: int) -> bytes:
    """The last `count` numbers of these runs, four bytes each."""
    data = b"".join([run for some in runs for run in some])
    return data[len(data) - count * TOKEN_BYTES :]


def _note(known: Handle, edges: Sequence[Edge]) -> None:
    """Note on the nodes of a path, as far as it goes, that it is in host memory down to `known`."""
    for edge in edges:
        if known.length > edge.above.end:
            edge.node.in_host = known


def moves_under_way(count: int) -> str:
    """Return a number of moves in words.

    >>> moves_under_way(1), moves_under_way(2)
    ('1 move is under way', '2 moves are under way')
    """
    return f"{count} move{' is' if count == 1 else 's are'} under way"
