"""The radix tree of a model with windowed layers: a prefix may keep its full keys and values and lose the window's.

Such a model keeps two sets of keys and values. Its full layers read everything before a token, its windowed layers
only the last `window` tokens. So the window's part of an old prefix can be freed long before the rest: what stays is a
tombstone. A match may end at a place only if the windowed layers still have the last `window` tokens before it, or
everything from the root on:

    root --[ . . . . . . ]-- tombstone --[ x x ]--> no: window 4 needs two of the dead tokens
                                         --[ x x x x x ]--> yes

Which tokens those are is kept by `windows.py`, a component of the tree. `windowed_tree.py` matches and locks with it.
Here is what makes windows come and go: insert and evict. After pymllm's radix tree and SGLang's, which has become a
component of its unified tree.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Any

import numpy as np

from minikv.errors import whole_number
from minikv.pools.contract import Pages
from minikv.prefix.contract import Handle, Insertion, PagesLike, page_bytes
from minikv.prefix.radix import RadixNode
from minikv.prefix.windowed_tree import WindowedTree
from minikv.prefix.windows import WindowNode
from minikv.tokens import TOKEN_BYTES, PackedTokens, TokensLike, pack

_PAGE_BYTES = 4  # of a page's number: an int32


class SlidingWindowCache(WindowedTree):
    """A radix tree whose nodes may lose the keys and values of windowed layers before those of the full ones.

    `window` is how many tokens before the next one the windowed layers read; one more, a model's `sliding_window`, is
    as good. `pool` gets window pages back; with `None` they are forgotten. The other arguments are `RadixCache`'s.
    `policy` says which leaves go for the full layers. Windows alone go least recently used first under every policy: on
    a path all but the last window is free to go, however much the path is worth.

    It keeps the fifteen rules of `PrefixCache`, as seen by the full layers, with these differences once windows have
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
        if type(window_start) is not int or window_start:
            window_start = whole_number("window_start", window_start, 0, "the first token that has a window")
        if not (window_start or self.has_tombstones):
            return super().insert(packed, pages, namespace=namespace, start=start, priority=priority)
        live_from = -(-window_start // self.page_size) * self.page_size
        packed, row = self._heal(live_from, packed, pages, namespace, start, priority)
        done = super().insert(packed, row, namespace=namespace, start=start, priority=priority)
        if done.prefix_length < done.length:
            self.windows.bury(done.node.window, max(0, live_from - done.node.start))
        return done

    def _heal(
        self, live_from: int, packed: PackedTokens, pages: PagesLike, namespace: Hashable, start: Any, priority: int
    ) -> tuple[PackedTokens, array[int]]:
        """Bring tombstones on the path of `packed` back to life; what is left to insert, and its pages."""
        top, skip_byte = self._start_of(start, packed, namespace)
        skip = skip_byte // self._stride
        new = page_bytes(pages, len(packed), self.page_size, skip)
        whole_number("priority", priority, 0, "0 is the lowest priority")
        length = len(packed) // self.page_size * self.page_size
        node, at_byte = self._walk(top, packed.data, skip_byte, length * TOKEN_BYTES)
        self._revive(node, top, live_from, new, skip * self.page_size)
        if live_from >= length:
            packed = packed[: at_byte // TOKEN_BYTES]
        return packed, array("i", bytes(skip * _PAGE_BYTES) + new)[: len(packed) // self.page_size]

    def _revive(self, node: Any, top: RadixNode, live_from: int, new: bytes, skip: int) -> None:
        """Tombstones between `top` and `node` come back to life where `new`, the pages after `skip`, have a window."""
        healed: list[tuple[WindowNode, int]] = []
        given, taken = [], []
        while node is not top:
            begin, end = max(live_from, node.start), node.window.live_from
            if begin < end:
                theirs = self._between(new, skip, begin, end)
                mine = self._between(node.page_bytes, node.start, begin, end)
                same = np.flatnonzero(theirs == mine)  # a page of the tree, handed back to it, has no window to give
                first = int(same[-1]) + 1 if len(same) else 0
                if first < len(mine):
                    healed.append((node, begin + first * self.page_size))
                    given.append(theirs[first:])
                    taken.append(mine[first:])
            node = node.parent
        if healed and self.pool is not None:
            self.pool.move_window(np.concatenate(given), np.concatenate(taken))
        for each, begin in healed:
            self.windows.heal(each.window, begin)

    def _between(self, pages: bytes, first: int, begin: int, end: int) -> Pages:
        """Of `pages`, which begin at depth `first`, those of the tokens from depth `begin` to `end`."""
        size = self.page_size
        return np.frombuffer(pages, np.int32)[(begin - first) // size : (end - first) // size]

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
        if type(window_tokens) is not int or window_tokens < 0:
            window_tokens = whole_number("window_tokens", window_tokens, 0, "evict frees 0 windows or more")
        before = self.windows.evictable
        pages = super().evict(num_tokens)
        left = window_tokens - before + self.windows.evictable
        if left > 0 and self.windows.evictable:
            more = self._evict_windows(left, keep_going=len(pages) > 0)
            self._evictable -= len(more) // _PAGE_BYTES * self.page_size
            pages = np.concatenate([pages, np.frombuffer(more, np.int32)])
        return pages

    def _evict_windows(self, wanted: int, keep_going: bool) -> bytearray:
        """Free the windows of `wanted` tokens; the pages of the leaves that went with theirs.

        Where the pool fails, what went before comes back, and the next call says why.
        """
        freed = bytearray()
        while wanted > 0 and (state := self.windows.ring.first()) is not None:
            count = self._spare(state)
            if self.evict_by == "page":
                count = min(count, -(-wanted // self.page_size) * self.page_size)
            if count <= 0:
                before = self.windows.evictable
                freed += self._remove_path(state.node)
                count = before - self.windows.evictable
            else:
                try:
                    self._bury(state.node, count)
                except Exception:
                    if not (freed or keep_going):
                        raise
                    break
            wanted -= count
        return freed

    def _spare(self, state: Any) -> int:
        """Return how many tokens of an edge can lose their window before a path that ends below it becomes useless."""
        node: RadixNode = state.node
        span, end = self.windows.span, node.end
        while len(node.children) == 1 and node.end < end + span:
            (node,) = node.children.values()
        most: int = state.num_free
        return most if node.children else min(most, node.end - span - state.live_from)

    def _bury(self, node: WindowNode, num_tokens: int) -> None:
        """Make a tombstone of the first live `num_tokens` tokens of an edge."""
        state = node.window
        if self.pool is not None:
            begin = state.live_from
            self.pool.free_window(self._between(node.page_bytes, node.start, begin, begin + num_tokens))
        self.windows.bury(state, num_tokens)

    def _remove_path(self, node: WindowNode) -> bytes:
        """Take `node` and the one path below it out of the tree, from its end on."""
        freed: list[bytes] = []
        while node.ref_count >= 0:
            leaf: RadixNode = node
            while leaf.children:
                (leaf,) = leaf.children.values()
            freed += self._remove_leaf(leaf)
        return b"".join(freed)

    def _remove_leaf(self, leaf: Any) -> tuple[bytes, ...]:
        """Take a leaf out, and every tombstone above it that has no other child."""
        freed: tuple[bytes, ...] = ()
        while True:
            parent = leaf.parent
            self.windows.drop(leaf)
            freed = super()._remove_leaf(leaf) + freed
            if not isinstance(parent, WindowNode) or parent.children or not parent.is_tombstone:
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

    # -- the rest ---------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        sizes = f"evictable={self.evictable_size}, protected={self.protected_size}"
        sizes += f", window_evictable={self.window_evictable_size}, window_protected={self.window_protected_size}"
        return f"SlidingWindowCache(page_size={self.page_size}, window={self.window}, {sizes})"
