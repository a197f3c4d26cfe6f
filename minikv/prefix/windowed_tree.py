"""A radix tree that knows what windows it has: what splits and joins, matches and locks are where some have gone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from minikv.errors import InvariantError, LockError, whole_number
from minikv.prefix.base_index import way_to
from minikv.prefix.contract import Handle, Match, require_limit
from minikv.prefix.eviction import EvictionOrder
from minikv.prefix.page_hashes import HashedNode, page_hashes
from minikv.prefix.radix import RadixCache, RadixNode
from minikv.prefix.windows import WindowNode, Windows
from minikv.tokens import TOKEN_BYTES, TokensLike, common_bytes, pack


class WindowedTree(RadixCache):
    """A `RadixCache` whose matches and locks also need the last `window` tokens of the windowed layers.

    Nothing here loses a window: `SlidingWindowCache` inserts, and evicts.

    >>> tree = WindowedTree(window=2)
    >>> match = tree.insert([1, 2, 3, 4], range(4)); tree.lock(match)
    >>> tree.window_evictable_size, tree.window_protected_size, tree.has_tombstones
    (2, 2, False)
    """

    def __init__(
        self,
        page_size: int = 1,
        policy: str | Callable[[], EvictionOrder] = "lru",
        evict_by: str = "node",
        *,
        window: int | None = None,
    ):
        if window is not None:
            window = whole_number("window", window, 1, "windowed layers read at least 1 token before the next")
        self.window = window
        self._make_node = HashedNode if window is None else WindowNode
        super().__init__(page_size, policy, evict_by)

    def _clear(self) -> None:
        super()._clear()
        self.windows = Windows(-(-(self.window or 0) // self.page_size) * self.page_size)

    # -- looking at it ----------------------------------------------------------------------------------------------

    @property
    def window_evictable_size(self) -> int:
        """Tokens whose window `evict` could free now; without a window, 0."""
        return self.windows.evictable

    @property
    def window_protected_size(self) -> int:
        """Tokens whose window a lock holds; without a window, 0."""
        return self.windows.protected

    @property
    def has_tombstones(self) -> bool:
        """Whether any cached token has lost its window."""
        return self.windows.dead > 0

    def hashes_of(self, node: RadixNode) -> list[str]:
        """A name for each page of `node`, which no other tokens, position or namespace has: see `page_hashes`."""
        return page_hashes(node, self._stride)

    # -- split and join ---------------------------------------------------------------------------------------------

    def _split(self, node: Any, num_pages: int) -> RadixNode:
        upper: Any = super()._split(node, num_pages)
        if node.hashes is not None:
            upper.hashes, node.hashes = node.hashes[:num_pages], node.hashes[num_pages:]
        if self.window is not None:
            self.windows.split(upper, node)
        return upper  # type: ignore[no-any-return]

    def _joinable(self, node: Any, top: RadixNode | None = None) -> list[Any]:
        found: list[Any] = super()._joinable(node, top)
        if self.window is None:
            return found
        live_from = node.window.live_from
        for i, upper in enumerate(found):
            if not self.windows.joins(upper, node, live_from, use=top is not None):
                return found[:i]
            live_from = min(live_from, upper.window.live_from)
        return found

    def _join(self, node: Any, above: list[Any]) -> None:
        hashes = [part.hashes for part in (*above[::-1], node)]
        if self.window is not None:
            self.windows.join(node, above)
        super()._join(node, above)
        node.hashes = None if None in hashes else sum(hashes, ())

    # -- match ------------------------------------------------------------------------------------------------------

    def _find(self, tokens: TokensLike, limit: int | None, namespace: Hashable) -> tuple[Match, list[RadixNode]]:
        if self.has_tombstones:
            tokens = pack(tokens)
            most = require_limit(limit, len(tokens)) // self.page_size * self._stride
            limit = self._valid_length(self._root_of(namespace), tokens.data, most)
        return super()._find(tokens, limit, namespace)

    def _valid_length(self, node: Any, data: bytes, end_byte: int) -> int:
        """The longest cached prefix of `data[:end_byte]`, in tokens, at whose end no layer lacks anything.

        Only the end of the match and of live runs before a tombstone can be that. It looks, and splits nothing.
        """
        at_byte, longest, begin = 0, 0, None  # `begin`: where the live run began; None if that is the root
        while at_byte < end_byte:
            child = node.children.get(data[at_byte : at_byte + self._stride])
            if child is None:
                break
            same = self._same_bytes(child, data, at_byte, end_byte)
            at_byte += same
            if child.window.live_from > child.start:
                begin = child.window.live_from
            reached = at_byte // TOKEN_BYTES
            if begin is None or reached - begin >= self.windows.span:
                longest = reached
            if reached < child.end:
                break
            node = child
        return longest

    def _same_bytes(self, node: RadixNode, data: bytes, at_byte: int, end_byte: int) -> int:
        """How many bytes of the edge of `node`, in whole pages, `data[at_byte:end_byte]` begins with."""
        found = 0
        for run in node.key_runs:
            at = at_byte + found
            if not data.startswith(run, at, end_byte):
                return found + common_bytes(run, data, at, end_byte, self._stride)
            found += len(run)
        return found

    def _use(self, node: RadixNode, top: RadixNode) -> list[Any]:
        path: list[Any] = super()._use(node, top)
        if self.window is not None:
            self.windows.touch(path, self._clock)
        return path

    def _link(self, leaf: Any) -> RadixNode:
        if self.window is not None:
            self.windows.add(leaf, leaf.start)
        return super()._link(leaf)

    # -- lock -------------------------------------------------------------------------------------------------------

    def _protect(self, handle: Handle, path: list[Any]) -> None:
        """Lock the path for the full layers, and the window before its end for the others."""
        if self.has_tombstones:
            self._require_window(handle, path)
        super()._protect(handle, path)
        if self.window is not None:
            self.windows.lock(handle.node, handle.length)

    def _require_window(self, handle: Handle, path: list[Any]) -> None:
        """The end of `handle` must be valid: keys and values would be missing behind it."""
        begin = handle.length - self.windows.span
        for node in path:
            if node.end > begin and node.window.live_from > max(node.start, begin):
                raise LockError(f"cannot lock the handle of length {handle.length}: the window before its end is gone")

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle: of its path, and of the window that it has held since."""
        held = self.window is not None and isinstance(handle, Handle) and handle in self._held
        if held:
            self.windows.unlock(handle.node, handle.length)
        super().unlock(handle)
        if held:
            self.windows.touch(way_to(handle.node), self._clock)

    # -- the rest ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Recompute every size, link, order, lock and window from scratch; `InvariantError` names what disagrees."""
        super().check()
        for node in self.nodes():
            if node.hashes is not None and len(node.hashes) != len(node.pages):
                raise InvariantError(f"node {node.id}: {len(node.hashes)} hashes for {len(node.pages)} pages")
        if self.window is not None:
            self.windows.check([*self.nodes()], self._held, self.page_size)
