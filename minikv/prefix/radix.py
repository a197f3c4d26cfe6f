"""The radix tree: prompts that share a prefix share its nodes, and so its slots.

Each node holds an edge, a run of whole pages of tokens, and one slot for each of them. Edges are packed bytes, so
walking down costs one memcmp a node. Children are keyed by the bytes of their first page. Unlocked nodes stand in
an eviction order (`eviction.py`), so evicting is a pop. Nothing here is linear in the size of the cache (cutting an
edge copies that edge).

It keeps book of slots and does not own them: it never allocates one, and what it evicts it returns.

After SGLang's RadixAttention (Zheng et al., 2023), mini-sglang and the notebook that taught it.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable

import numpy as np

from minikv.errors import LockError, whole_number
from minikv.prefix.contract import Handle, Insertion, Match, Slots, SlotsLike, pack_slots
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix_node import RadixNode
from minikv.prefix.radix_tree import RadixTree
from minikv.tokens import TOKEN_BYTES, TokensLike, pack

EVICT_BY = ("node", "page")


class RadixCache(RadixTree):
    """A prefix cache in a radix tree; keeps the thirteen rules of `PrefixCache`.

    `page_size` is in tokens: whole pages are stored and matched. `policy` names who is evicted first ("lru").
    `evict_by` is "node" (whole leaves, so perhaps more than asked) or "page" (the pages at a leaf's end, never one
    more than needed). Nothing takes longer because more is cached: match and insert cost a memcmp of the prompt and a
    step for each node on its path, evict a step for each node freed; a split or a trim copies the edge that it cuts.

    >>> cache = RadixCache()
    >>> cache.insert([1, 2, 3, 4], [10, 11, 12, 13])
    Insertion(prefix_length=0, length=4)
    >>> match = cache.match_prefix([1, 2, 9])
    >>> match
    Match(length=2, slots=[10, 11])
    >>> cache.lock(match.handle); cache.evict(4).tolist()   # only the tail may go
    [12, 13]
    >>> cache.unlock(match.handle); cache
    RadixCache(page_size=1, policy='lru', evict_by='node', evictable=2, protected=0)
    """

    def __init__(self, page_size: int = 1, policy: str = "lru", evict_by: str = "node"):
        page_size = whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        if policy not in POLICIES:
            raise ValueError(f"policy is {policy!r}: expected one of {', '.join(POLICIES)}")
        if evict_by not in EVICT_BY:
            raise ValueError(f"evict_by is {evict_by!r}: expected one of {', '.join(EVICT_BY)}")
        self.page_size, self.policy, self.evict_by = page_size, policy, evict_by
        self._clear()

    def _clear(self) -> None:
        self._epoch = object()  # handles carry it: a reset, or another cache, has another one
        self._held: dict[Handle, int] = {}
        self._evictable = self._protected = self._clock = 0
        self._plant(TOKEN_BYTES * self.page_size, POLICIES[self.policy]())

    # -- the sizes ----------------------------------------------------------------------------------------------

    @property
    def evictable_size(self) -> int:
        """Tokens that `evict` could free now."""
        return self._evictable

    @property
    def protected_size(self) -> int:
        """Tokens held by locks."""
        return self._protected

    @property
    def total_size(self) -> int:
        """Tokens cached: evictable + protected."""
        return self._evictable + self._protected

    # -- the verbs ----------------------------------------------------------------------------------------------

    def match_prefix(self, tokens: TokensLike, *, namespace: Hashable = None) -> Match:
        """The longest cached page-aligned prefix of `tokens`: its length, its slots and a handle to lock.

        Refreshes the recency of what it matched. May split a node, which changes no size and nobody's handle.

        >>> cache = RadixCache(page_size=2)
        >>> _ = cache.insert([1, 2, 3, 4], [6, 7, 8, 9])
        >>> cache.match_prefix([1, 2, 3, 5, 6])
        Match(length=2, slots=[6, 7])
        """
        data = pack(tokens).data
        node, at = self._walk(self._root_of(namespace), data, 0, len(data) // self._step * self._step)
        self._clock = now = self._clock + 1
        end, order, parts = node, self._order, []
        while (parent := node.parent) is not None:
            if not node.ref_count:
                order.touch(node)
            node.last_used = now
            parts.append(node.slots)
            node = parent
        parts.reverse()
        length = at // TOKEN_BYTES
        return Match(length, _join(parts), Handle(self._epoch, end, length, namespace))

    def insert(
        self, tokens: TokensLike, slots: SlotsLike, *, namespace: Hashable = None, start: Handle | None = None
    ) -> Insertion:
        """Cache the whole pages of `tokens`, whose keys and values lie in `slots` (one slot a token).

        Tokens already cached keep the slots they have: `prefix_length` says how many, and the caller frees its own
        duplicates. With `start`, a locked handle of a prefix of `tokens`, the walk goes on from there and
        `slots[:start.length]` are not looked at.

        >>> cache = RadixCache()
        >>> _ = cache.insert([1, 2, 3], [0, 1, 2])
        >>> cache.insert([1, 2, 4], [7, 8, 9])      # slots 7 and 8 are the caller's to free
        Insertion(prefix_length=2, length=3)
        """
        data = pack(tokens).data
        node: RadixNode = self._root_of(namespace)
        at = 0
        if start is not None:
            self._check_start(start, data, namespace)
            if start.length:
                node, at = start.node, start.length * TOKEN_BYTES
        skip = at // TOKEN_BYTES
        new_slots = pack_slots(slots, len(data) // TOKEN_BYTES, skip)

        end = len(data) // self._step * self._step
        node, at = self._walk(node, data, at, end)
        prefix_length, length = at // TOKEN_BYTES, end // TOKEN_BYTES
        if at < end:
            if node.parent is None:
                node = self._roots.get(namespace) or self._new_root(namespace)
            node = self._new_leaf(node, data[at:end], new_slots[prefix_length - skip : length - skip])
            self._evictable += length - prefix_length
        self._refresh(node)
        return Insertion(prefix_length, length, Handle(self._epoch, node, length, namespace))

    def lock(self, handle: Handle) -> None:
        """Protect the whole path from `handle` to the root from eviction; locks nest.

        Raises `LockError` for a handle of another cache, from before a reset, or whose end has been evicted.
        """
        self._check_ours(handle, "lock")
        node: RadixNode = handle.node
        if node.end != handle.length:
            raise LockError(f"cannot lock the handle of length {handle.length} (node {node.id}): its end was evicted")
        self._held[handle] = self._held.get(handle, 0) + 1
        while (parent := node.parent) is not None:
            if not node.ref_count:
                self._order.remove(node)
                self._evictable -= len(node.slots)
                self._protected += len(node.slots)
            node.ref_count += 1
            node = parent

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this very handle; what it frees becomes the most recently used.

        Raises `LockError` when this handle holds no lock here.
        """
        self._check_ours(handle, "unlock")
        held, node = self._held.get(handle, 0), handle.node
        if not held:
            raise LockError(f"cannot unlock the handle of length {handle.length} (node {node.id}): it holds no lock")
        if held > 1:
            self._held[handle] = held - 1
        else:
            del self._held[handle]
        self._clock = now = self._clock + 1
        while (parent := node.parent) is not None:  # deepest first, so that a parent is younger than its children
            node.ref_count -= 1
            node.last_used = now
            if not node.ref_count:
                self._order.add(node)
                self._evictable += len(node.slots)
                self._protected -= len(node.slots)
            node = parent

    def evict(self, num_tokens: int) -> Slots:
        """Free unlocked leaves until at least `num_tokens` tokens are free or none is left; return their slots.

        >>> cache = RadixCache(evict_by="page")
        >>> _ = cache.insert([1, 2, 3, 4], [10, 11, 12, 13])
        >>> cache.evict(1).tolist(), cache.evict(100).tolist()
        ([13], [10, 11, 12])
        """
        needed = whole_number("num_tokens", num_tokens, 0, "evict frees 0 tokens or more")
        parts, page = [], self.page_size
        while needed > 0 and (node := self._order.first()) is not None:
            keep = len(node.slots) - -(-needed // page) * page if self.evict_by == "page" else 0
            freed = self._trim(node, keep) if keep > 0 else self._remove_leaf(node)
            needed -= len(freed)
            self._evictable -= len(freed)
            parts.append(freed)
        return _join(parts)

    def reset(self) -> None:
        """Forget everything; node ids and the clock start again, and all handles become stale.

        Raises `LockError`, and forgets nothing, while any handle is locked.
        """
        if self._held:
            locks = sum(self._held.values())
            raise LockError(f"cannot reset: {locks} locks are held, protecting {self._protected} tokens")
        self._clear()

    def check(self) -> None:
        """Recompute every size, link, order and lock from scratch; `InvariantError` names the node and the numbers."""
        from minikv.prefix.radix_check import check_radix

        check_radix(self)

    def __repr__(self) -> str:
        how = f"page_size={self.page_size}, policy={self.policy!r}, evict_by={self.evict_by!r}"
        return f"RadixCache({how}, evictable={self._evictable}, protected={self._protected})"

    def _refresh(self, node: RadixNode) -> None:
        """`node` and what is above it were used now; deepest first."""
        self._clock = now = self._clock + 1
        while (parent := node.parent) is not None:
            if not node.ref_count:
                self._order.touch(node)
            node.last_used = now
            node = parent

    def _check_ours(self, handle: Handle, verb: str) -> None:
        if not isinstance(handle, Handle):
            raise TypeError(f"cannot {verb} a {type(handle).__name__}: expected the handle of a match or an insertion")
        if handle.epoch is not self._epoch:
            raise LockError(
                f"cannot {verb} the handle of length {handle.length}: another cache made it, or reset() came after"
            )

    def _check_start(self, start: Handle, data: bytes, namespace: Hashable) -> None:
        """`start` must be locked, in this namespace, and a prefix of `data`: else wrong slots would be cached."""
        self._check_ours(start, "start from")
        if start not in self._held:
            raise LockError(
                f"cannot start from the handle of length {start.length}: it is not locked, so it may be evicted"
            )
        if start.namespace != namespace:
            raise ValueError(f"start is in namespace {start.namespace!r}, the tokens are in {namespace!r}")
        node, at = start.node, start.length * TOKEN_BYTES
        while node.parent is not None:
            at -= len(node.key)
            if not data.startswith(node.key, at):
                raise ValueError(
                    f"start is not a prefix of the tokens: they part in tokens[{at // TOKEN_BYTES}:{node.end}]"
                )
            node = node.parent


def _join(parts: list[array[int]]) -> Slots:
    """One int32 array of all parts, by one copy of their bytes."""
    return np.frombuffer(bytearray().join(parts), np.int32)
