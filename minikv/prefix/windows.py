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

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minikv.prefix.contract import Handle
from minikv.prefix.eviction import LeastRecentlyUsed
from minikv.prefix.radix import RadixNode
from minikv.prefix.tree_check import check_ring, require


class WindowNode(RadixNode):
    """A node that also knows which of its tokens the windowed layers still have."""

    __slots__ = ("window",)

    def __init__(self, node_id: int, key_run: bytes, page_run: bytes, parent: RadixNode | None, end: int, now: int):
        super().__init__(node_id, key_run, page_run, parent, end, now)
        self.window = WindowState(self)

    @property
    def start(self) -> int:
        """The depth, in tokens, at which the edge begins."""
        return self.parent.end if self.parent is not None else 0

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
        live = self.end - self.window.live_from
        return "" if live == self.end - self.start else f"window: the last {live}" if live > 0 else "no window"


class WindowState:
    """The state of one node for the windowed layers; positions are depths in tokens.

    `live_from` is where its dead part ends. `pins` are where the windows of its locks begin, one for each lock that
    reaches this edge. `used` is the clock's reading at the last use; `older` and `newer` belong to the ring.
    """

    __slots__ = ("live_from", "newer", "node", "older", "pins", "used")

    def __init__(self, node: WindowNode):
        self.node, self.live_from, self.used = node, node.start, node.last_used
        self.pins: Sequence[int] = ()
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


class WindowRing(LeastRecentlyUsed):
    """The edges with a window that may be freed, least recently used first; on a path, the one nearest the root first.

    The other way round than the ring of the tree: there the end of a path goes first, here its beginning, which the
    next token is furthest from.
    """

    __slots__ = ()

    def add_before(self, state: WindowState, newer: WindowState) -> None:
        """Insert `state` before `newer`, so that it is evicted just before it."""
        state.older, state.newer = newer.older, newer
        newer.older.newer = newer.older = state


class Windows:
    """The windowed layers' share of a tree: how much of it is live, how much locks need, and what goes first.

    `span` is how many tokens before its end a lock holds: the window, in whole pages.

    >>> from minikv import SlidingWindowCache
    >>> cache = SlidingWindowCache(window=2)
    >>> _ = cache.insert([1, 2, 3, 4, 5], range(5)); _ = cache.acquire([1, 2, 3, 4, 5])
    >>> cache.windows.evictable, cache.windows.protected
    (3, 2)
    """

    def __init__(self, span: int):
        self.span = span
        self.evictable = self.protected = 0  # live tokens
        self.dead = 0
        self.ring = WindowRing()

    # -- the tree changes -------------------------------------------------------------------------------------------

    def add(self, leaf: WindowNode, live_from: int) -> None:
        """A new leaf came into the tree, live from `live_from` on."""
        state = leaf.window
        state.live_from = live_from
        self.evictable += leaf.end - live_from
        self.dead += live_from - leaf.start
        self.ring.add((state,))

    def drop(self, leaf: WindowNode) -> None:
        """A leaf that no lock holds goes."""
        state = leaf.window
        self._enter(state, False)
        self.evictable -= leaf.end - state.live_from
        self.dead -= state.live_from - leaf.start

    def split(self, upper: WindowNode, node: WindowNode) -> None:
        """`node` was cut: `upper` takes what lies before the cut, and the locks whose windows reach it."""
        mine, other = node.window, upper.window
        other.live_from, mine.live_from = min(mine.live_from, upper.end), max(mine.live_from, upper.end)
        other.pins, other.used = [pin for pin in mine.pins if pin < upper.end], mine.used
        if mine.older is not None:
            if other.num_free:
                self.ring.add_before(other, mine)
            if not mine.num_free:
                self.ring.remove((mine,))

    def joins(self, upper: WindowNode, node: WindowNode, live_from: int, use: bool) -> bool:
        """Return whether an edge of `upper` and `node`, live from `live_from` on, is dead first and live after that.

        Where the two are not in `use` now, what may be freed of them must be equally recent as well.
        """
        above, mine = upper.window, node.window
        if live_from > upper.end and above.live_from < upper.end:
            return False
        return use or above.older is None or mine.older is None or above.used == mine.used

    def join(self, node: WindowNode, above: Iterable[WindowNode]) -> None:
        """`node` is to take over the edges of the nodes `above` it, nearest first; its own pins hold theirs too."""
        state = node.window
        for gone in above:
            other = gone.window
            if other.live_from < gone.end:
                state.live_from = other.live_from
            if other.older is not None:
                if state.older is None:
                    state.used = other.used
                    self.ring.add_before(state, other)
                self.ring.remove((other,))

    # -- it is used and locked --------------------------------------------------------------------------------------

    def touch(self, path: Sequence[WindowNode], now: int) -> None:
        """The nodes of `path`, deepest first, are used now."""
        states = []
        for node in reversed(path):
            state = node.window
            state.used = now
            if state.older is not None:
                states.append(state)
        self.ring.touch(states)

    def lock(self, node: Any, end: int) -> None:
        """A lock that ends at depth `end`, in `node`, holds the window before it, and nothing above that."""
        begin = end - self.span
        while (parent := node.parent) is not None and node.end > begin:
            self._pin(node.window, [*node.window.pins, begin], parent.end, node.end)
            node = parent

    def unlock(self, node: Any, end: int) -> None:
        """Give back what `lock` took for the same `end`; it asks for no more than where the lock ended."""
        begin = end - self.span
        while (parent := node.parent) is not None and node.end > begin:
            pins = [*node.window.pins]
            pins.remove(begin)
            self._pin(node.window, pins, parent.end, node.end)
            node = parent

    def _pin(self, state: WindowState, pins: Sequence[int], start: int, end: int) -> None:
        """The locks on the edge [start, end) begin at `pins` from now on."""
        before = max(start, min(state.pins)) if state.pins else end
        now = max(start, min(pins)) if pins else end
        state.pins = pins or ()
        if now != before:
            self.evictable -= before - now
            self.protected += before - now
            self._enter(state, state.live_from < now)

    def _enter(self, state: WindowState, free: bool) -> None:
        """An edge is in the ring as long as some of its window is `free` to go."""
        if free != (state.older is not None):
            (self.ring.add if free else self.ring.remove)((state,))

    # -- its windows go and come back -------------------------------------------------------------------------------

    def bury(self, state: WindowState, num_tokens: int) -> None:
        """The first `num_tokens` live tokens of an edge are dead from now on."""
        state.live_from += num_tokens
        self.evictable -= num_tokens
        self.dead += num_tokens
        self._enter(state, state.num_free > 0)

    def heal(self, state: WindowState, live_from: int) -> None:
        """The edge is live from `live_from` on again, where that is earlier than before."""
        count = state.live_from - live_from
        self.evictable += count
        self.dead -= count
        state.live_from = live_from
        self._enter(state, state.num_free > 0)

    # -- its audit --------------------------------------------------------------------------------------------------

    def check(self, nodes: Sequence[WindowNode], held: Mapping[Handle, int], page_size: int) -> None:
        """Raise `InvariantError` for the first fact that does not agree with the `nodes` and the locks that are `held`.

        >>> from minikv import SlidingWindowCache
        >>> cache = SlidingWindowCache(window=2)
        >>> cache.insert([1, 2, 3], [0, 1, 2]).node.window.live_from = 1
        >>> cache.check()
        Traceback (most recent call last):
        minikv.errors.InvariantError: window_evictable_size is 3, the nodes have 2 live tokens that no lock needs
        """
        pins = self._pins_of(held)
        for node in nodes:
            _check_state(node, page_size, sorted(pins.get(node.id, [])))
        free = sum(node.window.num_free for node in nodes)
        pinned = sum(node.end - max(node.window.pinned_from, node.window.live_from) for node in nodes)
        dead = sum(node.window.live_from - node.start for node in nodes)
        size = f"window_evictable_size is {self.evictable}"
        require(self.evictable == free, f"{size}, the nodes have {free} live tokens that no lock needs")
        require(self.dead == dead, f"{self.dead} tokens are counted as dead, the nodes have {dead}")
        size = f"window_protected_size is {self.protected}"
        require(self.protected == pinned, f"{size}, the locks need {pinned} tokens")
        states = (node.window for node in nodes if node.window.num_free)
        ring = "the ring of windows, least recently used first and of a path the nearest to the root first"
        check_ring(ring, self.ring, sorted(states, key=lambda state: (state.used, state.node.end)))

    def _pins_of(self, held: Mapping[Handle, int]) -> dict[int, list[int]]:
        """Return where the windows of all locks begin, for each node that they reach; no layer lacks anything there."""
        found: dict[int, list[int]] = {}
        for handle, count in held.items():
            begin, node = handle.length - self.span, handle.node
            while isinstance(node, WindowNode) and node.end > begin:
                live = node.window.live_from <= max(node.start, begin)
                require(live, f"node {node.id}: live from {node.window.live_from}, a lock needs it from {begin}")
                found.setdefault(node.id, []).extend([begin] * count)
                node = node.parent
        return found


def _check_state(node: WindowNode, page_size: int, pins: list[int]) -> None:
    """The parts of one edge are in order and in whole pages, its locks are known, and it is not a useless tombstone."""
    name, state = f"node {node.id}", node.window
    inside = node.start <= state.live_from <= node.end and state.live_from % page_size == 0
    require(inside, f"{name}: live from {state.live_from}, but its edge is [{node.start}, {node.end})")
    require(sorted(state.pins) == pins, f"{name}: pins {sorted(state.pins)}, but its locks begin at {pins}")
    require(bool(node.children) or not node.is_tombstone, f"{name}: a tombstone at the end of a path")
    there, free = state.older is not None, state.num_free
    require(there == (free > 0), f"{name}: {free} tokens may be freed, {'in' if there else 'not in'} the ring")
