"""Which tokens of a radix tree still have keys and values of the windowed layers: a component of the tree.

A windowed layer reads only the last few tokens, so what it wrote for earlier tokens can be freed long before the rest.
Seen from the root, each edge is dead first and live after that, and a lock pins a piece at its end:

    edge   [start, live_from)    dead: a tombstone; its pages hold the keys and values of the full layers alone
           [.., pinned_from)     live, and may be freed
           [.., end)             live, and some lock needs it

A position says all of it, so a lock or a freed window splits no edge. SGLang keeps a flag a node in such a component of
its tree, as it does for each kind of layer; another component, or a tier, would put its own state on a node likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minikv.errors import LockError
from minikv.pools.contract import Pages
from minikv.pools.windowed import WindowedPool
from minikv.prefix.eviction import LeastRecentlyUsed
from minikv.prefix.radix import RadixNode
from minikv.tokens import TOKEN_BYTES, common_bytes


class WindowNode(RadixNode):
    """A node that also knows which of its tokens the windowed layers still have."""

    __slots__ = ("window",)

    def __init__(self, *fields: Any):
        super().__init__(*fields)
        self.window = WindowState(self)

    @property
    def start(self) -> int:
        """The depth, in tokens, at which the edge begins."""
        above: int = self.parent.end
        return above

    @property
    def is_tombstone(self) -> bool:
        """Return whether the windowed layers have nothing left of this edge."""
        return self.window.live_from >= self.end

    @property
    def note(self) -> str:
        """The edge's note in a picture: empty while its whole window is there.

        >>> from minikv import SlidingWindowCache
        >>> cache = SlidingWindowCache(window=2)
        >>> cache.insert([1, 2, 3, 4], range(4), window_start=2).node.note
        'window: the last 2'
        """
        if self.window.live_from == self.start:
            return ""
        return "no window" if self.is_tombstone else f"window: the last {self.end - self.window.live_from}"


class WindowState:
    """The state of one node for the windowed layers; positions are depths in tokens.

    `live_from` is where its dead part ends. `pins` are where the windows of its locks begin, one for each lock that
    reaches this edge. `used` is the clock's reading at the last use; `older` and `newer` belong to the ring.
    """

    __slots__ = ("live_from", "newer", "node", "older", "pins", "used")

    def __init__(self, node: WindowNode):
        self.node, self.live_from, self.used = node, node.start, node.last_used
        self.pins: list[int] = []
        self.older: Any = None
        self.newer: Any = None

    @property
    def pinned_from(self) -> int:
        """Return where the part begins that locks need; the end of the edge when none does."""
        return max(self.node.start, min(self.pins)) if self.pins else self.node.end

    @property
    def num_free(self) -> int:
        """Live tokens that no lock needs."""
        return max(0, self.pinned_from - self.live_from)

    def lacks(self, begin: int) -> bool:
        """Return whether some of the edge that a window from depth `begin` on needs is dead."""
        return self.live_from > max(self.node.start, begin)


class Windows:
    """The windowed layers' share of a tree: how much is live, how much the locks need, and what is evicted first.

    `span` is how many tokens before its end a lock protects: the `window`, in whole pages. `evictable` counts the live
    tokens that no lock needs, `dead` the tokens whose window pages are gone. `ring` has the states of nodes with window
    pages that may be freed, least recently used first, and of one path the node nearest to the root first. In the
    tree's own ring, the end of a path comes first. But the next token looks back only one window from the end, so the
    windows at the beginning of a path are needed least.

    >>> from minikv import SlidingWindowCache
    >>> cache = SlidingWindowCache(window=2)
    >>> _ = cache.insert([1, 2, 3, 4, 5], range(5)); _ = cache.acquire([1, 2, 3, 4, 5])
    >>> cache.windows.evictable, cache.windows.dead, cache.window_protected_size
    (3, 0, 2)
    """

    def __init__(self, window: int, page_size: int):
        self.page_size = page_size
        self.span = -(-window // page_size) * page_size
        self.evictable = self.dead = 0
        self.ring = LeastRecentlyUsed()

    # -- the tree changes -------------------------------------------------------------------------------------------

    def add(self, leaf: WindowNode) -> None:
        """A new leaf came into the tree, all of it live."""
        self.evictable += leaf.end - leaf.start
        self.ring.add((leaf.window,))

    def drop(self, leaf: WindowNode) -> None:
        """A leaf that no lock holds goes."""
        self.move(leaf.window, leaf.end)
        self.dead -= leaf.end - leaf.start

    def split(self, upper: Any, node: WindowNode) -> None:
        """`node` was cut: `upper` takes what lies before the cut, and the locks whose windows reach it."""
        mine, other = node.window, upper.window
        other.live_from = min(mine.live_from, upper.end)
        mine.live_from = max(mine.live_from, upper.end)
        other.pins, other.used = [pin for pin in mine.pins if pin < upper.end], mine.used
        if mine.older is not None:
            if other.num_free:
                self._add_before(other, mine)
            self._enter(mine)

    def joinable(self, node: WindowNode, above: list[Any], use: bool) -> list[Any]:
        """Return those of the nodes `above`, nearest first, that make one edge with `node`: dead first, then live.

        Where they are not in `use` now, what may be freed of them must be equally recent as well.
        """
        mine = node.window
        live_from = mine.live_from
        for i, upper in enumerate(above):
            other = upper.window
            may_go = other.older is not None and mine.older is not None
            apart = may_go and not use and other.used != mine.used
            if apart or other.live_from < upper.end < live_from:
                return above[:i]
            live_from = min(live_from, other.live_from)
        return above

    def join(self, node: WindowNode, above: list[WindowNode]) -> None:
        """`node` is to take over the edges of the nodes `above` it, nearest first; its own pins hold theirs too."""
        state = node.window
        for gone in above:
            other = gone.window
            if other.live_from < gone.end:
                state.live_from = other.live_from
            if other.older is not None:
                if state.older is None:
                    state.used = other.used
                    self._add_before(state, other)
                self.ring.remove((other,))

    def _add_before(self, state: WindowState, newer: WindowState) -> None:
        """Insert `state` before `newer`, so that it is evicted just before it."""
        state.older, state.newer = newer.older, newer
        newer.older.newer = newer.older = state

    # -- it is used and locked --------------------------------------------------------------------------------------

    def touch(self, path: Sequence[Any], now: int) -> None:
        """The nodes of `path`, deepest first, are used now."""
        states = []
        for node in reversed(path):
            state = node.window
            state.used = now
            if state.older is not None:
                states.append(state)
        self.ring.touch(states)

    def lock(self, path: list[Any], end: int) -> None:
        """A lock of `path`, which ends at depth `end`, holds the window before it, and nothing above that.

        `LockError` where some of that window is gone: keys and values would be missing after its end.
        """
        if self.dead and any(each.window.lacks(end - self.span) for each in self.reached(path, end)):
            which = f"cannot lock the handle of length {end}"
            raise LockError(f"{which}: the window before its end is gone")
        self._pin(path, end, list.append)

    def unlock(self, path: list[Any], end: int) -> None:
        """Give back what `lock` took for the same `end`; it asks for no more than where the lock ended."""
        self._pin(path, end, list.remove)

    def _pin(self, path: list[Any], end: int, change: Callable[..., None]) -> None:
        """Change the pins of a lock of `path`, which ends at depth `end`."""
        for node in self.reached(path, end):
            state = node.window
            before = state.pinned_from
            change(state.pins, end - self.span)
            self.evictable += state.pinned_from - before
            self._enter(state)

    def reached(self, path: list[Any], end: int) -> list[Any]:
        """Those nodes of `path` that the window before depth `end` reaches, the deepest first."""
        return [node for node in path if node.end > end - self.span]

    def _enter(self, state: WindowState) -> None:
        """An edge is in the ring as long as some of its window is free to go."""
        free = state.num_free > 0
        if free != (state.older is not None):
            (self.ring.add if free else self.ring.remove)((state,))

    # -- its windows go and come back -------------------------------------------------------------------------------

    def move(self, state: WindowState, live_from: int) -> None:
        """An edge is live from depth `live_from` on: more of it is dead now, or less."""
        num_tokens = live_from - state.live_from
        self.evictable -= num_tokens
        self.dead += num_tokens
        state.live_from = live_from
        self._enter(state)

    def bury(self, node: WindowNode, num_tokens: int, pool: WindowedPool | None) -> None:
        """Make a tombstone of the first live `num_tokens` tokens of an edge."""
        begin = node.window.live_from
        end = begin + num_tokens
        if pool is not None:
            pool.free_window(self._between(node.page_bytes, node.start, begin, end))
        self.move(node.window, end)

    def revive(self, path: list[Any], live_from: int, new: bytes, skip: int, pool: Any) -> None:
        """Tombstones on `path` come back to life where `new`, the pages after depth `skip`, have a window."""
        begins, givers, takers = [], [], []
        for node in path:
            begin = max(live_from, node.start, skip)
            end = max(begin, node.window.live_from)
            theirs = self._between(new, skip, begin, end)
            mine = self._between(node.page_bytes, node.start, begin, end)
            same = np.flatnonzero(theirs == mine)  # a page of the tree: it has none to give
            first = int(same.max(initial=-1)) + 1
            givers.append(theirs[first:])
            takers.append(mine[first:])
            begins.append(begin + first * self.page_size)
        if pool is not None and any(map(len, givers)):
            pool.move_window(np.concatenate(givers), np.concatenate(takers))
        for node, begin in zip(path, begins):
            if begin < node.window.live_from:
                self.move(node.window, begin)

    def _between(self, pages: bytes, first: int, begin: int, end: int) -> Pages:
        """Of `pages`, which begin at depth `first`, those of the tokens from depth `begin` to `end`."""
        size = self.page_size
        return np.frombuffer(pages, np.int32)[(begin - first) // size : (end - first) // size]

    # -- where a match may end, and what may go -----------------------------------------------------------------------

    def spare(self, state: WindowState) -> int:
        """Return how many tokens of an edge can lose their window before a path that ends below becomes useless."""
        node: RadixNode = state.node
        end = node.end
        while len(node.children) == 1 and node.end < end + self.span:
            (node,) = node.children.values()
        before_last = node.end - self.span - state.live_from
        return state.num_free if node.children else min(state.num_free, before_last)

    def valid_length(self, node: Any, data: bytes, end_byte: int) -> int:
        """The longest cached prefix of `data[:end_byte]`, in tokens, at whose end no layer lacks anything.

        Only the end of the match and of live runs before a tombstone can be that. It looks, and splits nothing.
        """
        stride, at_byte, longest = TOKEN_BYTES * self.page_size, 0, 0
        begin = -self.span  # where the live run began; before the root, no layer lacks anything
        while at_byte < end_byte:
            child = node.children.get(data[at_byte : at_byte + stride])
            if child is None:
                break
            for run in child.key_runs:
                if not data.startswith(run, at_byte, end_byte):
                    at_byte += common_bytes(run, data, at_byte, end_byte, stride)
                    break
                at_byte += len(run)
            if child.window.live_from > child.start:
                begin = child.window.live_from
            reached = at_byte // TOKEN_BYTES
            if reached - begin >= self.span:
                longest = reached
            if reached < child.end:
                break
            node = child
        return longest
