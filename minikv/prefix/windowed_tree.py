"""A radix tree that knows what windows it has: what splits and joins, matches and locks are where some have gone."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from hashlib import sha256
from itertools import accumulate
from typing import Any

from minikv.errors import LockError, whole_number
from minikv.pools.windowed import WindowedPool
from minikv.prefix.base_index import way_to
from minikv.prefix.contract import Handle, Match, require_limit
from minikv.prefix.eviction import EvictionOrder
from minikv.prefix.hash_blocks import sha256_key, spelled
from minikv.prefix.radix import RadixCache, RadixNode
from minikv.prefix.windows import WindowNode, Windows
from minikv.tokens import TOKEN_BYTES, TokensLike, common_bytes, pack

WINDOW = 4096  # tokens: what Mistral 7B reads


class WindowedTree(RadixCache):
    """A `RadixCache` whose matches and locks also need the last `window` tokens of the windowed layers.

    Nothing here loses a window: `SlidingWindowCache` inserts, and evicts.

    >>> tree = WindowedTree(window=2)
    >>> match = tree.insert([1, 2, 3, 4], range(4)); tree.lock(match)
    >>> tree.window_evictable_size, tree.window_protected_size, tree.has_tombstones
    (2, 2, False)
    """

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
        self.windows = Windows(-(-self.window // self.page_size) * self.page_size)

    # -- looking at it ----------------------------------------------------------------------------------------------

    @property
    def window_evictable_size(self) -> int:
        """Tokens whose window `evict` could free now."""
        return self.windows.evictable

    @property
    def window_protected_size(self) -> int:
        """Tokens whose window a lock holds."""
        return self.windows.protected

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

        >>> tree = WindowedTree()
        >>> a, b = (tree.insert([1, 2], [page, page + 1], namespace=f"lora {page}").node for page in (0, 2))
        >>> [name[:8] for name in tree.hashes_of(a)], tree.hashes_of(a) == tree.hashes_of(b)
        (['5ade60ba', '2de0fff5'], False)
        """
        path, stride = way_to(node), self._stride
        root: Any = path[-1].parent if path else node
        keys = b"".join(each.key_bytes for each in reversed(path))
        pages = (keys[at : at + stride] for at in range(0, len(keys), stride))
        names = [*accumulate(pages, sha256_key, initial=sha256(spelled(root.namespace)).digest())]
        return [name.hex() for name in names[len(names) - len(node.pages) :]]

    # -- split and join ---------------------------------------------------------------------------------------------

    def _split(self, node: Any, num_pages: int) -> RadixNode:
        upper: Any = super()._split(node, num_pages)
        self.windows.split(upper, node)
        return upper  # type: ignore[no-any-return]

    def _joinable(self, node: Any, top: RadixNode | None = None) -> list[Any]:
        found: list[Any] = super()._joinable(node, top)
        live_from = node.window.live_from
        for i, upper in enumerate(found):
            if not self.windows.joins(upper, node, live_from, use=top is not None):
                return found[:i]
            live_from = min(live_from, upper.window.live_from)
        return found

    def _join(self, node: Any, above: list[Any]) -> None:
        self.windows.join(node, above)
        super()._join(node, above)

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
        """Return how many bytes of the edge of `node`, in whole pages, `data[at_byte:end_byte]` begins with."""
        found = 0
        for run in node.key_runs:
            at = at_byte + found
            if not data.startswith(run, at, end_byte):
                return found + common_bytes(run, data, at, end_byte, self._stride)
            found += len(run)
        return found

    def _use(self, node: RadixNode, top: RadixNode) -> list[Any]:
        path: list[Any] = super()._use(node, top)
        self.windows.touch(path, self._clock)
        return path

    def _link(self, leaf: Any) -> RadixNode:
        self.windows.add(leaf, leaf.start)
        return super()._link(leaf)

    # -- lock -------------------------------------------------------------------------------------------------------

    def _protect(self, handle: Handle, path: list[Any]) -> None:
        """Lock the path for the full layers, and the window before its end for the others."""
        if self.has_tombstones:
            self._require_window(handle, path)
        super()._protect(handle, path)
        self.windows.lock(handle.node, handle.length)

    def _require_window(self, handle: Handle, path: list[Any]) -> None:
        """The end of `handle` must be valid: keys and values would be missing after it."""
        begin = handle.length - self.windows.span
        for node in path:
            if node.end > begin and node.window.live_from > max(node.start, begin):
                raise LockError(f"cannot lock the handle of length {handle.length}: the window before its end is gone")

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle: of its path, and of the window that it has held since."""
        held = isinstance(handle, Handle) and handle in self._held
        if held:
            self.windows.unlock(handle.node, handle.length)
        super().unlock(handle)
        if held:
            self.windows.touch(way_to(handle.node), self._clock)

    # -- the rest ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Recompute every size, link, order, lock and window from scratch; `InvariantError` names what disagrees."""
        super().check()
        self.windows.check([*self.nodes()], self._held, self.page_size)
