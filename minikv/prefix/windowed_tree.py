"""A radix tree that knows what windows it has: what splits and joins, matches and locks are where some have gone."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from minikv.errors import InvariantError, LockError, whole_number
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

    def _split(self, node: RadixNode, num_pages: int) -> RadixNode:
        upper = super()._split(node, num_pages)
        assert isinstance(upper, HashedNode)
        assert isinstance(node, HashedNode)
        if node.hashes is not None:
            upper.hashes, node.hashes = node.hashes[:num_pages], node.hashes[num_pages:]
        if isinstance(upper, WindowNode) and isinstance(node, WindowNode):
            self.windows.split(upper, node)
        return upper

    def _joinable(self, node: RadixNode, top: RadixNode | None = None) -> list[RadixNode]:
        found = super()._joinable(node, top)
        if not isinstance(node, WindowNode):
            return found
        live_from = node.window.live_from
        for i, upper in enumerate(found):
            assert isinstance(upper, WindowNode)
            if not self.windows.joins(upper, node, live_from, use=top is not None):
                return found[:i]
            live_from = min(live_from, upper.window.live_from)
        return found

    def _join(self, node: RadixNode, above: list[RadixNode]) -> None:
        parts = [part for part in [*above[::-1], node] if isinstance(part, HashedNode)]
        hashes = [part.hashes for part in parts if part.hashes is not None]
        if isinstance(node, WindowNode):
            self.windows.join(node, [part for part in above if isinstance(part, WindowNode)])
        super()._join(node, above)
        parts[-1].hashes = sum(hashes, ()) if len(hashes) == len(parts) else None

    # -- match ------------------------------------------------------------------------------------------------------

    def _find(self, tokens: TokensLike, limit: int | None, namespace: Hashable) -> tuple[Match, list[RadixNode]]:
        if self.has_tombstones:
            tokens = pack(tokens)
            most = require_limit(limit, len(tokens)) // self.page_size * self._stride
            limit = self._valid_length(self._root_of(namespace), tokens.data, most)
        return super()._find(tokens, limit, namespace)

    def _valid_length(self, node: RadixNode, data: bytes, end_byte: int) -> int:
        """The longest cached prefix of `data[:end_byte]`, in tokens, at whose end no layer lacks anything.

        Only the end of the match and of live runs before a tombstone can be that. It looks, and splits nothing.
        """
        at_byte, longest, begin = 0, 0, None  # `begin`: where the live run began; None if that is the root
        while at_byte < end_byte:
            child = node.children.get(data[at_byte : at_byte + self._stride])
            if not isinstance(child, WindowNode):
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

    def _use(self, node: RadixNode, top: RadixNode) -> list[RadixNode]:
        path = super()._use(node, top)
        if self.window is not None:
            self.windows.touch(path, self._clock)  # type: ignore[arg-type]
        return path

    def _link(self, leaf: RadixNode) -> RadixNode:
        if isinstance(leaf, WindowNode):
            self.windows.add(leaf, leaf.start)
        return super()._link(leaf)

    # -- lock -------------------------------------------------------------------------------------------------------

    def _protect(self, handle: Handle, path: list[RadixNode]) -> None:
        """Lock the path for the full layers, and the window before its end for the others."""
        if self.has_tombstones:
            self._require_window(handle, path)
        super()._protect(handle, path)
        if self.window is not None:
            self.windows.lock(handle.node, handle.length)

    def _require_window(self, handle: Handle, path: list[RadixNode]) -> None:
        """The end of `handle` must be valid: keys and values would be missing behind it."""
        begin = handle.length - self.windows.span
        for node in path:
            if isinstance(node, WindowNode) and node.end > begin and node.window.live_from > max(node.start, begin):
                raise LockError(f"cannot lock the handle of length {handle.length}: the window before its end is gone")

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle: of its path, and of the window that it has held since."""
        held = self.window is not None and isinstance(handle, Handle) and handle in self._held
        if held:
            self.windows.unlock(handle.node, handle.length)
        super().unlock(handle)
        if held:
            path, node = [], handle.node
            while isinstance(node, WindowNode):
                path.append(node)
                node = node.parent
            self.windows.touch(path, self._clock)

    # -- the rest ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Recompute every size, link, order, lock and window from scratch; `InvariantError` names what disagrees."""
        super().check()
        for node in self.nodes():
            if isinstance(node, HashedNode) and node.hashes is not None and len(node.hashes) != len(node.pages):
                raise InvariantError(f"node {node.id}: {len(node.hashes)} hashes for {len(node.pages)} pages")
        if self.window is not None:
            self.windows.check([*self.nodes()], self._held, self.page_size)
