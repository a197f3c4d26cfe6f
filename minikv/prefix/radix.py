"""The radix tree: prompts that share a prefix share its nodes, and so its slots.

Each node holds an edge, a run of whole pages of tokens, and one slot for each of them. Edges are packed bytes, so
walking down costs one memcmp a node. Children are keyed by the bytes of their first page. Unlocked nodes stand in
an eviction order (`eviction.py`), so evicting is a pop. Nothing here is linear in the size of the cache (cutting an
edge copies that edge).

It keeps book of slots and does not own them: it never allocates one, and what it evicts it returns.

After SGLang's RadixAttention (Zheng et al., 2023), mini-sglang and the notebook that taught it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NoReturn

import numpy as np

from minikv.errors import LockError, whole_number
from minikv.prefix.contract import Handle, Insertion, Match, Slots, SlotsLike, slot_bytes
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix_node import RadixNode
from minikv.prefix.radix_tree import _NOTHING, RadixTree
from minikv.tokens import TOKEN_BYTES, PackedTokens, TokensLike, pack

EVICT_BY = ("node", "page")
_INT32 = np.dtype(np.int32)


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
        data = (tokens if type(tokens) is PackedTokens else pack(tokens)).data
        root = self._root_of(namespace)
        node, at = self._walk(root, data, 0, len(data) // self._step * self._step)
        self._clock = now = self._clock + 1
        parts = [step.slot_bytes for step in reversed(self._use(node, root, now))]
        return Match(self._epoch, node, at // TOKEN_BYTES, namespace, data, parts)

    def acquire(self, tokens: TokensLike, *, namespace: Hashable = None) -> Match:
        """`match_prefix` and `lock` in one act: the path is walked once, and nothing can come in between.

        >>> cache = RadixCache()
        >>> _ = cache.insert([1, 2, 3, 4], [6, 7, 8, 9])
        >>> cache.acquire([1, 2, 5]); cache.evict(4).tolist(), cache.protected_size
        Match(length=2, slots=[6, 7])
        ([8, 9], 2)
        """
        data = (tokens if type(tokens) is PackedTokens else pack(tokens)).data
        root = self._roots[None] if namespace is None else self._root_of(namespace)
        end, at = self._walk(root, data, 0, len(data) // self._step * self._step)
        self._clock = now = self._clock + 1
        parts, newly, length, node = [], [], at // TOKEN_BYTES, end
        while node is not root:
            node.last_used = now
            node.hits += 1
            if not node.ref_count:
                newly.append(node)
            node.ref_count += 1
            parts.append(node.slot_bytes)
            node = node.parent  # type: ignore[assignment]
        if newly:
            self._order.remove(newly)
            tokens_held = length - newly[-1].parent.end  # type: ignore[union-attr]
            self._evictable -= tokens_held
            self._protected += tokens_held
        parts.reverse()
        match = Match(self._epoch, end, length, namespace, data, parts)
        self._held[match] = 1
        return match

    def insert(
        self,
        tokens: TokensLike,
        slots: SlotsLike,
        *,
        namespace: Hashable = None,
        start: Handle | None = None,
        priority: int = 0,
    ) -> Insertion:
        """Cache the whole pages of `tokens`, whose keys and values lie in `slots` (one slot a token).

        Tokens already cached keep the slots they have: `prefix_length` says how many, and the caller frees its own
        duplicates. With `start`, a locked handle of a prefix of `tokens`, the walk goes on from there,
        `slots[:start.length]` are not looked at, and only what lies behind counts as used (the rest is in use until
        it is unlocked, and counts then). `priority`, 0 or more, is for the policy of that name: the whole path is
        worth at least that much from now on.

        >>> cache = RadixCache()
        >>> _ = cache.insert([1, 2, 3], [0, 1, 2])
        >>> cache.insert([1, 2, 4], [7, 8, 9])      # slots 7 and 8 are the caller's to free
        Insertion(prefix_length=2, length=3)
        """
        packed = tokens if type(tokens) is PackedTokens else pack(tokens)
        data, skip = packed.data, 0
        if start is not None:
            known = isinstance(start, Handle) and start in self._held and start.source is packed.head is not None
            if not (known and start.namespace is namespace):  # what follows a prompt that was matched needs no look
                self._check_start(start, packed, namespace)
            skip = start.length
        top: RadixNode = start.node if start is not None and skip else self._root_of(namespace)
        new_slots = slot_bytes(slots, len(data) // TOKEN_BYTES, skip)
        if type(priority) is not int or priority < 0:
            priority = whole_number("priority", priority, 0, "0 is the lowest priority")

        end = len(data) // self._step * self._step
        node, at = top, skip * TOKEN_BYTES
        if node.children:
            node, at = self._walk(top, data, at, end)
        prefix_length, length = at // TOKEN_BYTES, end // TOKEN_BYTES
        self._clock = now = self._clock + 1
        used = node
        if at < end:
            if node is _NOTHING:
                top = used = self._new_root(namespace)
            if len(new_slots) > end - at:  # less the duplicates and the tail
                new_slots = new_slots[at - skip * TOKEN_BYTES : end - skip * TOKEN_BYTES]
            node = self._new_leaf(used, data[at:end], new_slots, now)
            self._evictable += length - prefix_length
        if priority:
            self._raise_priority(node, priority)
        if used is not top:
            self._use(used, top, now)
        return Insertion(self._epoch, node, length, namespace, data, prefix_length)

    def lock(self, handle: Handle) -> None:
        """Protect the whole path from `handle` to the root from eviction; locks nest.

        Raises `LockError` for a handle of another cache, from before a reset, or whose end has been evicted.
        """
        if not isinstance(handle, Handle) or handle.epoch is not self._epoch:
            self._refuse(handle, "lock")
        node: RadixNode = handle.node
        if node.end != handle.length:
            raise LockError(f"cannot lock the handle of length {handle.length} (node {node.id}): its end was evicted")
        self._held[handle] = self._held.get(handle, 0) + 1
        # On the way up nobody has fewer locks than the one below: first come the unlocked, then the locked.
        newly = []
        while not node.ref_count and (parent := node.parent) is not None:
            node.ref_count = 1
            newly.append(node)
            node = parent
        tokens = handle.length - node.end
        while (parent := node.parent) is not None:
            node.ref_count += 1
            node = parent
        self._order.remove(newly)
        self._evictable -= tokens
        self._protected += tokens

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this very handle; what it frees becomes the most recently used.

        Raises `LockError` when this handle holds no lock here.
        """
        if not isinstance(handle, Handle) or handle.epoch is not self._epoch:
            self._refuse(handle, "unlock")
        held, node = self._held.get(handle, 0), handle.node
        if not held:
            raise LockError(f"cannot unlock the handle of length {handle.length} (node {node.id}): it holds no lock")
        if held > 1:
            self._held[handle] = held - 1
        else:
            del self._held[handle]
        self._clock = now = self._clock + 1
        freed = []
        while node.ref_count == 1 and (parent := node.parent) is not None:
            node.ref_count, node.last_used = 0, now
            freed.append(node)
            node = parent
        tokens = handle.length - node.end
        while (parent := node.parent) is not None:
            node.ref_count -= 1
            node.last_used = now
            node = parent
        self._order.add(freed)  # deepest first, so that a parent is younger than its children
        self._evictable += tokens
        self._protected -= tokens

    def evict(self, num_tokens: int) -> Slots:
        """Free unlocked leaves until at least `num_tokens` tokens are free or none is left; return their slots.

        >>> cache = RadixCache(evict_by="page")
        >>> _ = cache.insert([1, 2, 3, 4], [10, 11, 12, 13])
        >>> cache.evict(1).tolist(), cache.evict(100).tolist()
        ([13], [10, 11, 12])
        """
        return np.frombuffer(bytearray().join(self._evict(num_tokens)), _INT32)

    def evict_view(self, num_tokens: int) -> memoryview:
        """`evict` without an array: the slots as a memoryview of int32, which a pool takes back as it is.

        >>> cache = RadixCache()
        >>> _ = cache.insert([1, 2], [10, 11])
        >>> cache.evict_view(1).tolist()
        [10, 11]
        """
        parts = self._evict(num_tokens)
        return memoryview(parts[0] if len(parts) == 1 else b"".join(parts)).cast("i")

    def _evict(self, num_tokens: int) -> list[bytes]:
        if type(num_tokens) is not int or num_tokens < 0:
            num_tokens = whole_number("num_tokens", num_tokens, 0, "evict frees 0 tokens or more")
        page = self._step if self.evict_by == "page" else 0
        order, parts, got, wanted = self._order, [], 0, num_tokens * TOKEN_BYTES  # in bytes, four to a slot
        while got < wanted and (leaf := order.first()) is not None:
            keep = len(leaf.key) - -(-(wanted - got) // page) * page if page else 0
            freed = self._trim(leaf, keep) if keep > 0 else self._remove_leaf(leaf)
            got += len(freed)
            parts.append(freed)
        self._evictable -= got // TOKEN_BYTES
        return parts

    def reset(self) -> None:
        """Forget everything; node ids and the clock start again, and all handles become stale.

        Raises `LockError`, and forgets nothing, while any handle is locked.
        """
        if self._held:
            locks = sum(self._held.values())
            held = "1 lock is held" if locks == 1 else f"{locks} locks are held"
            raise LockError(f"cannot reset: {held}, protecting {self._protected} tokens")
        self._clear()

    def check(self) -> None:
        """Recompute every size, link, order and lock from scratch; `InvariantError` names the node and the numbers."""
        from minikv.prefix.radix_check import check_radix

        check_radix(self)

    def __repr__(self) -> str:
        how = f"page_size={self.page_size}, policy={self.policy!r}, evict_by={self.evict_by!r}"
        return f"RadixCache({how}, evictable={self._evictable}, protected={self._protected})"

    def _refuse(self, handle: Any, verb: str) -> NoReturn:
        if not isinstance(handle, Handle):
            raise TypeError(f"cannot {verb} a {type(handle).__name__}: expected the handle of a match or an insertion")
        raise LockError(
            f"cannot {verb} the handle of length {handle.length}: another cache made it, or reset() came after"
        )

    def _check_start(self, start: Handle, tokens: PackedTokens, namespace: Hashable) -> None:
        """`start` must be locked, in this namespace, and a prefix of `tokens`: else wrong slots would be cached."""
        if not isinstance(start, Handle) or start.epoch is not self._epoch:
            self._refuse(start, "start from")
        if start not in self._held:
            raise LockError(
                f"cannot start from the handle of length {start.length}: it is not locked, so it may be evicted"
            )
        if start.namespace is not namespace and start.namespace != namespace:
            raise ValueError(f"start is in namespace {start.namespace!r}, the tokens are in {namespace!r}")
        data, source = tokens.data, start.source
        if source is not None and (source is data or source is tokens.head or data.startswith(source)):
            return  # the common case: the prompt that was matched, and an answer behind it
        node, at = start.node, start.length * TOKEN_BYTES
        while node.parent is not None:
            at -= len(node.key)
            if not data.startswith(node.key, at):
                raise ValueError(
                    f"start is not a prefix of the tokens: they part in tokens[{at // TOKEN_BYTES}:{node.end}]"
                )
            node = node.parent
