"""The radix tree of a model with windowed layers: a prefix may keep its full keys and values and lose the window's.

Such a model keeps two sets of keys and values. Its full layers read everything before a token, its windowed layers
only the last `window` tokens. So the window's part of an old prefix can be freed long before the rest: what stays is a
tombstone. A match may end at a place only if the windowed layers still have the last `window` tokens before it, or
everything from the root on:

    root --[ . . . . . . ]-- tombstone --[ x x ]--> no: window 4 needs two of the dead tokens
                                         --[ x x x x x ]--> yes

Which tokens those are is kept by `windows.py`, a component of the tree. After the radix trees of pymllm and SGLang.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from hashlib import sha256
from typing import Any

import numpy as np

from minikv.errors import whole_number
from minikv.pools.contract import Pages
from minikv.pools.windowed import WindowedPool
from minikv.prefix.base_index import end_of, way_to
from minikv.prefix.contract import Handle, Insertion, Match, PagesLike, page_bytes, require_limit
from minikv.prefix.eviction import EvictionOrder
from minikv.prefix.hash_blocks import sha256_key, spelled
from minikv.prefix.radix import RadixCache, RadixNode
from minikv.prefix.tree_check import check_windows
from minikv.prefix.windows import WindowNode, Windows
from minikv.tokens import TOKEN_BYTES, TokensLike, pack

WINDOW = 4096  # tokens: what Mistral 7B reads
_PAGE_BYTES = 4  # of a page's number: an int32


class SlidingWindowCache(RadixCache):
    """A radix tree whose nodes may lose the keys and values of windowed layers before those of the full ones.

    `window` is how many tokens before the next one the windowed layers read; one more, a model's `sliding_window`, is
    as good. `pool` gets window pages back; with `None` they are forgotten. The other arguments are `RadixCache`'s.
    `policy` says which leaves go for the full layers. Windows alone go least recently used first under every policy: on
    a path all but the last window is free to go, however much the path is worth.

    It keeps the rules of `PrefixCache`, as seen by the full layers, with these differences once windows have
    gone: a match is the longest prefix that is valid for all layers; `lock` refuses one that is not valid any more;
    eviction by pages may free more pages than asked, for it leaves no tombstone at the end of a path. Joins wait until
    a window's tombstones and locks fit on one edge.

    >>> cache = SlidingWindowCache(window=2)
    >>> _ = cache.insert([1, 2, 3, 4], [10, 11, 12, 13]); _ = cache.insert([1, 2, 3, 4, 5, 6], range(10, 16))
    >>> cache.evict(0, window_tokens=4)                    # nobody reads the first four tokens' window
    array([], dtype=int32)
    >>> cache.match_prefix([1, 2, 3, 4]), cache.match_prefix([1, 2, 3, 4, 5, 6]).length
    (Match(length=0, pages=[]), 6)
    >>> cache
    SlidingWindowCache(page_size=1, window=2, evictable=6, protected=0, window_evictable=2, window_protected=0)
    """

    unique_pages = True
    insert_after: Any = None  # `insert` is told where windows begin
    _make_node = WindowNode

    def __init__(
        self,
        page_size: int = 1,
        policy: str | Callable[[], EvictionOrder] = "lru",
        evict_by: str = "node",
        *,
        window: int = WINDOW,
        pool: WindowedPool | None = None,
    ):
        self.pool = pool
        self.window = whole_number("window", window, 1, "windowed layers read at least 1 token before the next")
        super().__init__(page_size, policy, evict_by)

    def _clear(self) -> None:
        super()._clear()
        self.windows = Windows(self.window, self.page_size)

    @property
    def window_evictable_size(self) -> int:
        """Tokens whose window `evict` could free now."""
        return self.windows.evictable

    @property
    def window_protected_size(self) -> int:
        """Tokens whose window a lock holds."""
        return self.total_size - self.windows.dead - self.windows.evictable

    @property
    def has_tombstones(self) -> bool:
        """Return whether any cached token has lost its window."""
        return self.windows.dead > 0

    def hashes_of(self, node: RadixNode) -> list[str]:
        """A name for each page of `node`, in order, which no other tokens, position or namespace has: hexadecimal text.

        Each is a link of a chain, sha256(name of the page before, tokens of the page); the first link is the namespace.
        So it can represent the page in a log, or in another machine's memory. (pymllm restarts the chain where the
        parent has no hash yet, and leaves the namespace out: two prompts, one name.) Raises `TypeError` for a namespace
        that has no spelling of its own: an object shows nothing that would be the same in another process.

        >>> tree = SlidingWindowCache()
        >>> a, b = (tree.insert([1, 2], [page, page + 1], namespace=f"lora {page}").node for page in (0, 2))
        >>> [name[:8] for name in tree.hashes_of(a)], tree.hashes_of(a) == tree.hashes_of(b)
        (['5ade60ba', '2de0fff5'], False)
        """
        path = way_to(node)
        stride = self._stride
        root: Any = path[-1].parent if path else node
        keys = b"".join([each.key_bytes for each in reversed(path)])
        names = []
        name = sha256(spelled(root.namespace)).digest()
        for at in range(0, len(keys), stride):
            name = sha256_key(name, keys[at : at + stride])
            names.append(name.hex())
        return names[-len(node.pages) :]

    # -- match and lock ---------------------------------------------------------------------------------------------

    def _split(self, node: Any, num_pages: int) -> RadixNode:
        upper = super()._split(node, num_pages)
        self.windows.split(upper, node)
        return upper

    def _joinable(self, node: Any, top: RadixNode | None = None) -> list[Any]:
        return self.windows.joinable(node, super()._joinable(node, top), use=top is not None)

    def _join(self, node: Any, above: list[Any]) -> None:
        self.windows.join(node, above)
        super()._join(node, above)

    def _find(self, tokens: TokensLike, limit: int | None, namespace: Hashable) -> tuple[Match, list[RadixNode]]:
        if self.has_tombstones:
            tokens = pack(tokens)
            most = require_limit(limit, len(tokens)) // self.page_size * self._stride
            limit = self.windows.valid_length(self._root_of(namespace), tokens.data, most)
        return super()._find(tokens, limit, namespace)

    def _use(self, node: RadixNode, top: RadixNode) -> list[Any]:
        path = super()._use(node, top)
        self.windows.touch(path, self._clock)
        return path

    def _protect(self, handle: Handle, path: list[Any]) -> None:
        """Lock the window before the end of `handle`, which may be refused, and the path for the full layers."""
        self.windows.lock(path, handle.length)
        super()._protect(handle, path)

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle: of its path, and of the window that it has held since."""
        super().unlock(handle)
        path = way_to(end_of(handle))
        self.windows.unlock(path, handle.length)
        self.windows.touch(path, self._clock)

    # -- insert -----------------------------------------------------------------------------------------------------

    def insert(
        self,
        tokens: TokensLike,
        pages: PagesLike,
        *,
        namespace: Hashable = None,
        start: Handle | None = None,
        priority: int = 0,
        window_start: int = 0,
    ) -> Insertion:
        """Cache the whole pages of `tokens`; their `pages` still have a window from token `window_start` on.

        What comes before `window_start` is cached as a tombstone; if that is all, nothing new is cached, for nobody
        could use it. A tombstone that is in the tree comes back to life where the caller's duplicate has a window: that
        moves to the tree's page (`WindowedPool.move_window`), and the duplicate is the caller's to free, as always.

        >>> cache = SlidingWindowCache(window=2)
        >>> cache.insert([1, 2, 3, 4, 5], range(5), window_start=3)      # 1, 2 and 3 have no window any more
        Insertion(prefix_length=0, length=5)
        >>> cache.match_prefix([1, 2, 3]).length, cache.window_evictable_size
        (0, 2)
        >>> cache.insert([1, 2, 3], [7, 8, 9], window_start=1).prefix_length, cache.window_evictable_size
        (3, 4)
        """
        packed = pack(tokens)
        window_start = whole_number("window_start", window_start, 0, "the first token that has a window")
        live_from = -(-window_start // self.page_size) * self.page_size
        if live_from or self.has_tombstones:
            whole_number("priority", priority, 0, "0 is the lowest priority")
            top, skip_byte = self._start_of(start, packed, namespace)
            new = page_bytes(pages, len(packed), self.page_size, top.end // self.page_size)
            node, at_byte = self._walk(top, packed.data, skip_byte, len(packed.data))
            self.windows.revive(way_to(node), live_from, new, top.end, self.pool)
            if live_from > len(packed) - self.page_size:
                packed, pages = packed[: at_byte // TOKEN_BYTES], pages[: at_byte // self._stride]
        done = super().insert(packed, pages, namespace=namespace, start=start, priority=priority)
        if live_from and done.prefix_length < done.length:
            self.windows.move(done.node.window, max(live_from, done.node.start))
        return done

    def _link(self, leaf: Any) -> RadixNode:
        self.windows.add(leaf)
        return super()._link(leaf)

    # -- evict ------------------------------------------------------------------------------------------------------

    def evict(self, num_tokens: int, window_tokens: int = 0) -> Pages:
        """Free at least `num_tokens` tokens, and the windows of at least `window_tokens`, or all that can be freed.

        Leaves go first, with their windows. If those are not enough windows, tombstones are made: least recently used
        first, and on a path from its beginning on; the last window before the end of a path goes with that end, whose
        pages are returned as well. The pool hears of tombstones (`WindowedPool.free_window`); all window pages
        of what is returned are for the caller to free.

        >>> cache = SlidingWindowCache(window=2)
        >>> _ = cache.insert(range(5), range(5))
        >>> cache.evict(0, window_tokens=3).tolist(), cache.total_size, cache.window_evictable_size
        ([], 5, 2)
        >>> cache.evict(0, window_tokens=1).tolist()
        [0, 1, 2, 3, 4]
        """
        wanted = whole_number("window_tokens", window_tokens, 0, "evict frees 0 windows or more")
        goal = max(0, self.windows.evictable - wanted)
        pages, more = super().evict(num_tokens), bytearray()
        while self.windows.evictable > goal:
            state: Any = self.windows.ring.first()
            count = self.windows.spare(state)
            if self.evict_by == "page":
                num_pages = -(-(self.windows.evictable - goal) // self.page_size)
                count = min(count, num_pages * self.page_size)
            if count <= 0:  # the one path below needs it, so that goes from its end on
                while state.node.ref_count >= 0:
                    leaf = state.node
                    while leaf.children:
                        (leaf,) = leaf.children.values()
                    more += b"".join(self._remove_leaf(leaf))
                continue
            try:
                self.windows.bury(state.node, count, self.pool)
            except Exception:  # return what was freed before the failure; the next call raises the error
                if not (more or len(pages)):
                    raise
                break
        self._evictable -= len(more) // _PAGE_BYTES * self.page_size
        return np.concatenate([pages, np.frombuffer(more, np.int32)])

    def _remove_leaf(self, leaf: Any) -> tuple[bytes, ...]:
        """Take a leaf out, and every tombstone above it that has no other child."""
        freed: tuple[bytes, ...] = ()
        while True:
            parent = leaf.parent
            self.windows.drop(leaf)
            freed = super()._remove_leaf(leaf) + freed
            if parent.parent is None or parent.children or not parent.is_tombstone:
                return freed
            leaf = parent

    def _trim(self, leaf: Any, num_bytes: int) -> bytes:
        """Cut pages off the end of a leaf; if only a tombstone would be left of it, all of it goes."""
        count = num_bytes // _PAGE_BYTES * self.page_size
        if leaf.end - count <= leaf.window.live_from:
            return b"".join(self._remove_leaf(leaf))
        freed = super()._trim(leaf, num_bytes)
        self.windows.evictable -= count
        return freed

    def check(self) -> None:
        """Recompute every size, link, order, lock and window from scratch; `InvariantError` names what disagrees."""
        super().check()
        check_windows(self.windows, self.nodes(), self._held)

    def __repr__(self) -> str:
        windows = f"window_evictable={self.window_evictable_size}, window_protected={self.window_protected_size}"
        sizes = f"evictable={self._evictable}, protected={self._protected}, {windows}"
        return f"SlidingWindowCache(page_size={self.page_size}, window={self.window}, {sizes})"
