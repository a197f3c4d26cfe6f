"""The radix tree: prompts that share a prefix share its nodes, and so its pages.

In the order in which chapter 03 builds it: a node, walk, split, join; then what a cache does with them: match,
insert, lock, evict.

A node is an edge, a run of whole pages of tokens, and one page number for each of them. Edges are packed bytes, so
walking down costs one memcmp per node. Children are keyed by the bytes of their first page. Unlocked nodes are in an
eviction order (`eviction.py`), so evicting is a pop. Nothing here is linear in the size of the cache (cutting an
edge copies that edge).

The tree keeps track of pages and does not own them: it never allocates one, and it returns those that it evicts. It
may be used by one thread at a time; a `CacheManager` takes care of that.

After SGLang's RadixAttention (Zheng et al., 2023), mini-sglang and the notebook that taught it. Neither of them joins.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NoReturn

import numpy as np

from minikv.errors import InvariantError, LockError, bounded, whole_number
from minikv.pools.contract import Pages
from minikv.prefix.base_index import BaseIndex, IndexNode, described, end_of, way_to
from minikv.prefix.contract import (
    Handle,
    Insertion,
    Match,
    PagesLike,
    page_bytes,
    require_hashable,
    require_limit,
    require_wanted,
)
from minikv.prefix.eviction import EvictionOrder, order_named
from minikv.prefix.tree_check import check_nodes, check_tree_node
from minikv.tokens import TOKEN_BYTES, PackedTokens, TokensLike, common_bytes, pack

EVICT_BY = ("node", "page")
_PAGE_BYTES = 4  # of a page's number: an int32
_LONG_RUN = 4096  # bytes of pages
_MOST_RUNS = 4  # a join copies nothing until an edge has more runs than this: each costs a walk one more memcmp
_GONE = -1  # the `ref_count` of a node that is no longer in the tree
_NO_CHILDREN: dict[bytes, RadixNode] = {}  # shared by all leaves, so that a leaf needs no dictionary; never changed


# -- the node -----------------------------------------------------------------------------------------------------


class RadixNode(IndexNode):
    """One edge of the tree and the node at its end: its tokens, their pages, and how many locks pass through.

    `key_runs` and `page_runs` are the tokens and the pages as they are stored, four bytes per number. No run is ever
    changed in place: a node that was inserted has one of each, and a join, which copies nothing, lines up those of both
    edges. `end` is the depth, in tokens, at which the edge ends. `last_used` is the clock's reading at the last use.
    Three more are for policies that read them: `created` is the reading when the tokens were cached, `hits` counts the
    matches and inserts that went through (kept up only for a policy that reads it), and `priority` is the largest one
    given. `older` and `newer` belong to the eviction order.

    Twin: `minikv.engine.ch03_tree.Node`.
    """

    __slots__ = ("children", "created", "hits", "key_runs", "page_runs", "priority")

    def __init__(self, node_id: int, key_run: bytes, page_run: bytes, parent: Any, end: int, now: int):
        self.id, self.parent, self.end = node_id, parent, end
        self.key_runs: tuple[bytes, ...] = (key_run,)
        self.page_runs: tuple[bytes, ...] = (page_run,)
        self.children = _NO_CHILDREN
        self.ref_count = self.priority = 0
        self.created = self.last_used = now
        self.hits = 1
        self.older = self.newer = None

    @property
    def key_bytes(self) -> bytes:
        """The tokens on this edge as they are stored, in one piece."""
        return b"".join(self.key_runs)

    @property
    def page_bytes(self) -> bytes:
        """The pages of those tokens as they are stored, in one piece."""
        return b"".join(self.page_runs)

    def glue(self) -> None:
        """Make one run of all: what cuts an edge needs it in one piece."""
        if len(self.key_runs) > 1:
            self.key_runs, self.page_runs = (self.key_bytes,), (self.page_bytes,)

    @property
    def pages(self) -> array[int]:
        """The pages of those tokens, in order."""
        return array("i", self.page_bytes)


class RadixRoot(RadixNode):
    """The root of one namespace; it holds no tokens and is never evicted itself."""

    __slots__ = ("namespace",)

    def __init__(self, node_id: int, namespace: Hashable):
        super().__init__(node_id, b"", b"", None, 0, 0)
        self.namespace = namespace


_NOTHING = RadixRoot(0, None)  # the root of every namespace that holds nothing; no child is ever added to it


class RadixCache(BaseIndex):
    """A prefix cache in a radix tree; keeps the rules of `PrefixCache`.

    `page_size` is in tokens: whole pages are stored and matched. `policy` says what is evicted first: a name ("lru"),
    or a class of your own that keeps the contract of `EvictionOrder`. `evict_by` is "node" (whole leaves, so perhaps
    more than asked) or "page" (the pages at a leaf's end, never one more than needed). Nothing takes longer because
    more is cached, or because the cache has lived long: match and insert cost a memcmp of the prompt and a step for
    each node on its path, evict a step for each node freed; a split or a trim copies the edge that it changes, and of
    several joins one does.

    Twin: `minikv.engine.ch04_05_cache.RadixCache`.

    >>> cache = RadixCache()
    >>> cache.insert([1, 2, 3, 4], [10, 11, 12, 13])
    Insertion(prefix_length=0, length=4)
    >>> match = cache.match_prefix([1, 2, 9])
    >>> match
    Match(length=2, pages=[10, 11])
    >>> cache.lock(match.handle); cache.evict(4).tolist()   # only the tail may go
    [12, 13]
    >>> cache.unlock(match.handle); cache
    RadixCache(page_size=1, policy='lru', evict_by='node', evictable=2, protected=0)
    """

    unique_pages = True

    _make_node: type[RadixNode] = RadixNode  # a tree that keeps more on a node has its own
    _roots: dict[Hashable, RadixRoot]

    def __init__(self, page_size: int = 1, policy: str | Callable[[], EvictionOrder] = "lru", evict_by: str = "node"):
        if evict_by not in EVICT_BY:
            raise ValueError(f"evict_by is {bounded(evict_by)}: expected one of {', '.join(EVICT_BY)}")
        self.policy, self._make_order = order_named(policy)
        self.evict_by = evict_by
        super().__init__(page_size)

    def _clear(self) -> None:
        super()._clear()
        self._order = self._make_order()
        self._counts_hits = "hits" in self._order.reads
        self._also_reads = tuple(field for field in self._order.reads if field != "last_used")
        self._roots[None] = RadixRoot(0, None)

    # -- looking at it ----------------------------------------------------------------------------------------------

    @property
    def root(self) -> RadixNode:
        """The root of the default namespace."""
        return self._roots[None]

    # -- walk, split, join ------------------------------------------------------------------------------------------

    def _walk(self, node: RadixNode, data: bytes, at_byte: int, end_byte: int) -> tuple[RadixNode, int]:
        """Go down from `node` while edges agree with `data[at_byte:end_byte]`; split the edge on which they part.

        Twin: `minikv.engine.ch03_tree.walk`.
        """
        stride = self._stride
        while at_byte < end_byte:
            child = node.children.get(data[at_byte : at_byte + stride])
            if child is None:
                break
            start_byte = at_byte
            for run in child.key_runs:
                if not data.startswith(run, at_byte, end_byte):  # one memcmp, no slice
                    return self._part(child, data, start_byte, end_byte)
                at_byte += len(run)
            node = child
        return node, at_byte

    def _part(self, node: RadixNode, data: bytes, start_byte: int, end_byte: int) -> tuple[RadixNode, int]:
        """Split the edge of `node` where it parts from `data[start_byte:end_byte]`; their first page is the same."""
        node.glue()
        same = common_bytes(node.key_runs[0], data, start_byte, end_byte, self._stride)
        return self._split(node, same // self._stride), start_byte + same

    def _split(self, node: RadixNode, num_pages: int) -> RadixNode:
        """Cut the edge of `node` after `num_pages` pages; return the new upper node.

        `node` itself stays the lower part, so that every handle that ends at it still ends where it did. The upper
        part takes over its locks: a lock on the lower part holds the path through the upper one.

            parent --[ a b c d ]--> node        parent --[ a b ]--> upper --[ c d ]--> node

        Twin: `minikv.engine.ch03_tree.split`.
        """
        parent = node.parent
        stride = self._stride
        cut = num_pages * stride
        page_cut = num_pages * _PAGE_BYTES
        end = parent.end + num_pages * self.page_size
        node.glue()
        (keys,), (pages,) = node.key_runs, node.page_runs
        upper = self._make_node(self._next_id, keys[:cut], pages[:page_cut], parent, end, 0)
        self._next_id += 1
        upper.ref_count, upper.created, upper.last_used = node.ref_count, node.created, node.last_used
        upper.hits, upper.priority = node.hits, node.priority
        parent.children[keys[:stride]] = upper
        node.key_runs, node.page_runs, node.parent = (keys[cut:],), (pages[page_cut:],), upper
        upper.children = {keys[cut : cut + stride]: node}
        if not upper.ref_count:
            self._order.add((upper,))
        return upper

    def _join(self, node: RadixNode, above: list[RadixNode]) -> None:
        """Make one edge of `node` and the nodes `above` it, nearest first, each of which has no other child.

        It undoes splits that nothing needs any more, and adds the turns of a conversation up. `node` stays, so every
        handle that ends at it still ends where it did; for the others see `_what_is_left`.

            parent --[ a b ]--> upper --[ c d ]--> node        parent --[ a b c d ]--> node
        """
        parent = above[-1].parent
        if not node.ref_count:
            self._order.remove(above)
        for gone in above:
            node.key_runs, node.page_runs = gone.key_runs + node.key_runs, gone.page_runs + node.page_runs
            gone.key_runs = gone.page_runs = ()
            gone.children, gone.ref_count, gone.parent = _NO_CHILDREN, _GONE, node
        node.parent = parent
        parent.children[node.key_runs[0][: self._stride]] = node
        if len(node.key_runs) > _MOST_RUNS:
            node.glue()

    def _joinable(self, node: RadixNode, top: RadixNode | None = None) -> list[RadixNode]:
        """The nodes between `node` and `top` (or the root) that are one with `node`, nearest first.

        All of them were just used, or are locked and will be used when they are unlocked. They have no other child, the
        same locks, and are equal in whatever else the policy reads: nothing could tell them apart, so no victim
        changes.
        """
        found: list[RadixNode] = []
        upper = node.parent
        while upper is not top and upper.parent is not None and len(upper.children) == 1:
            if upper.ref_count != node.ref_count:
                break
            if self._also_reads and any(getattr(upper, field) != getattr(node, field) for field in self._also_reads):
                break
            found.append(upper)
            upper = upper.parent
        return found

    # -- match ------------------------------------------------------------------------------------------------------

    def _touch(self, path: list[RadixNode]) -> None:
        self._order.touch(_unlocked(path))

    def _find(self, tokens: TokensLike, limit: int | None, namespace: Hashable) -> tuple[Match, list[RadixNode]]:
        """The match and its path, deepest first; the path counts as used now, but keeps its place in the order.

        Twin: `minikv.engine.ch03_tree.match`.
        """
        data = (tokens if type(tokens) is PackedTokens else pack(tokens)).data
        most = len(data) // TOKEN_BYTES
        most = limit if type(limit) is int and 0 <= limit <= most else require_limit(limit, most)
        root = self._roots[None] if namespace is None else self._root_of(namespace)
        end, at_byte = self._walk(root, data, 0, most // self.page_size * self._stride)
        path = self._use(end, root)
        parts: list[bytes] = []
        for node in reversed(path):
            parts += node.page_runs
        return Match(self._epoch, end, at_byte // TOKEN_BYTES, namespace, data, parts), path

    def _use(self, node: RadixNode, top: RadixNode) -> list[RadixNode]:
        """`node` and all above it, up to below `top`, are used now, and joined; that path, deepest first."""
        self._clock = now = self._clock + 1
        path = []
        while node is not top:
            node.last_used = now
            path.append(node)
            upper = node.parent
            if len(upper.children) == 1 and upper is not top and (above := self._joinable(node, top)):
                self._join(node, above)
                upper = node.parent
            node = upper
        if self._counts_hits:
            for node in path:
                node.hits += 1
        return path

    # -- insert -----------------------------------------------------------------------------------------------------

    def insert(
        self,
        tokens: TokensLike,
        pages: PagesLike,
        *,
        namespace: Hashable = None,
        start: Handle | None = None,
        priority: int = 0,
    ) -> Insertion:
        """Cache the whole pages of `tokens`, whose keys and values lie in `pages` (one for each whole page of tokens).

        Tokens already cached keep the pages they have: `prefix_length` says how many, and the caller frees its own
        duplicates. With `start`, a locked handle of a prefix of `tokens`, the walk continues from there, its pages in
        `pages` are not read, and only later pages count as used (the rest is in use until it is
        unlocked, and counts then). `priority`, 0 or more, is for the policy of that name: the whole path is worth at
        least that much from now on.

        Twin: `minikv.engine.ch03_tree.insert`.

        >>> cache = RadixCache()
        >>> _ = cache.insert([1, 2, 3], [0, 1, 2])
        >>> cache.insert([1, 2, 4], [7, 8, 9])      # pages 7 and 8 are the caller's to free
        Insertion(prefix_length=2, length=3)
        """
        packed = pack(tokens)
        data = packed.data
        stride = self._stride
        top, skip_byte = self._start_of(start, packed, namespace)
        new = page_bytes(pages, len(data) // TOKEN_BYTES, self.page_size, skip_byte // stride)
        priority = whole_number("priority", priority, 0, "0 is the lowest priority")
        return self._put(top, data, skip_byte, new, namespace, priority, False)

    def insert_after(self, start: Handle, tokens: bytes, pages: bytes, move_lock: bool = False) -> Insertion:
        """Insert only what follows the locked `start`: whole pages of packed `tokens`, and `pages` as int32 bytes.

        With `move_lock`, one lock of `start` moves on to the insertion, unless tokens after `start` were cached already
        (then `prefix_length` is more than `start.length`). Only the lock is checked; the caller, a cache manager, is
        responsible for the tokens and pages.

        >>> cache = RadixCache()
        >>> match = cache.acquire([1])
        >>> cache.insert_after(match, pack([1, 2]).data, array("i", [7, 8]).tobytes())
        Insertion(prefix_length=0, length=2)
        >>> cache.insert_after(match, pack([1, 2, 3]).data, array("i", [7, 8, 9]).tobytes(), move_lock=True)
        Insertion(prefix_length=2, length=3)
        >>> cache.check()   # the lock stayed
        """
        if start not in self._held:
            self._refuse(start, "insert after")
        top = end_of(start) if start.length else self._root_of(start.namespace)
        done = self._put(top, tokens, 0, pages, start.namespace, 0, move_lock)
        done.source = None  # unknown: it would be all tokens from the root on
        if move_lock and not done.prefix_length:  # the leaf is locked already
            self._evictable -= done.length
            self._protected += done.length
            self._held[done] = 1
            self._give_back(start)
        done.length += start.length
        done.prefix_length += start.length
        return done

    def _put(
        self, node: RadixNode, data: bytes, skip_byte: int, new: bytes, namespace: Hashable, priority: int, locked: bool
    ) -> Insertion:
        """Cache `data` after `node`, from byte `skip_byte` on, in the pages `new`; `locked` if nothing is found."""
        top = node
        stride = self._stride
        end_byte = len(data) // stride * stride
        node, at_byte = self._walk(top, data, skip_byte, end_byte) if top.children else (top, skip_byte)
        if node is _NOTHING and at_byte < end_byte:
            top = node = self._new_root(namespace)
        duplicates = (at_byte - skip_byte) // stride * _PAGE_BYTES
        if priority:
            self._raise_priority(node, priority)
        upper = top.parent
        if upper is not None and len(upper.children) == 1 and (above := self._joinable(top)):
            self._join(top, above)  # else each insert that extends the last one would make the path longer
        node = self._extend(node, top, data[at_byte:end_byte], new[duplicates:], priority, locked)
        return Insertion(self._epoch, node, end_byte // TOKEN_BYTES, namespace, data, at_byte // TOKEN_BYTES)

    def _start_of(self, start: Handle | None, packed: PackedTokens, namespace: Hashable) -> tuple[RadixNode, int]:
        """Return where an insert begins: the node, and how many bytes of the tokens lie before it."""
        if start is not None:
            self._require_start(start, packed, namespace)
            if start.length:
                return end_of(start), start.length * TOKEN_BYTES
        return self._root_of(namespace), 0

    def _extend(
        self, node: RadixNode, top: RadixNode, keys: bytes, pages: bytes, priority: int, locked: bool
    ) -> RadixNode:
        """Use the path from `top` to `node` now, and add a leaf below it for what is new, if anything is.

        A policy of somebody else's may raise: the leaf is in the order first, and then in the tree.
        """
        path = [] if node is top else self._use(node, top)
        self._clock += node is top  # then only what is new is used
        leaf = None
        if keys:
            end = node.end + len(keys) // TOKEN_BYTES
            leaf = self._make_node(self._next_id, keys, pages, node, end, self._clock)
            self._next_id += 1
            leaf.priority = priority
            if locked and node is top:
                leaf.ref_count = 1
            else:
                self._order.add((leaf,))
        if path:
            try:
                self._order.touch(_unlocked(path))  # after the leaf, so that a parent is younger than its child
            except BaseException:
                if leaf is not None:
                    self._order.remove((leaf,))
                raise
        return node if leaf is None else self._link(leaf)

    def _link(self, leaf: RadixNode) -> RadixNode:
        """Put a new leaf below its parent."""
        parent = leaf.parent
        first_page = leaf.key_runs[0][: self._stride]
        if parent.children:
            parent.children[first_page] = leaf
        else:
            parent.children = {first_page: leaf}
            if not parent.ref_count and parent.parent is not None:
                self._order.remove_leaf(parent)
        self._evictable += leaf.end - parent.end
        return leaf

    def _raise_priority(self, node: RadixNode, priority: int) -> None:
        """The path to `node` is worth at least `priority`."""
        for each in way_to(node):
            if each.priority < priority:
                each.priority = priority
                if not each.ref_count:
                    self._order.reorder(each)

    # -- lock -------------------------------------------------------------------------------------------------------

    def lock(self, handle: Handle) -> None:
        """Protect the whole path from `handle` to the root from eviction; locks nest.

        Raises `LockError` for a handle of another cache, from before a reset, or whose end has been evicted.

        Twin: `minikv.engine.ch04_05_cache.lock`.
        """
        self._require(handle, "lock")
        node = handle.node
        if node.ref_count == _GONE or node.end != handle.length:
            node = self._find_again(handle)
        self._protect(handle, way_to(node))

    def _protect(self, handle: Handle, path: list[RadixNode]) -> None:
        """Lock every node of `path`, which leads to the end of `handle`, deepest first."""
        newly = []
        for node in path:
            if not node.ref_count:
                newly.append(node)
            node.ref_count += 1
        if newly:
            self._order.remove(newly)
            tokens = handle.length - newly[-1].parent.end
            self._evictable -= tokens
            self._protected += tokens
        self._held[handle] = self._held.get(handle, 0) + 1

    def _find_again(self, handle: Handle) -> RadixNode:
        """The node at the end of `handle`, whose own is gone: joined, evicted or trimmed."""
        node, length = self._what_is_left(handle.node, handle.length)
        if length < handle.length:
            raise LockError(f"cannot lock {described(handle)}: its end was evicted")
        return self._end_at(node, length)

    def _what_is_left(self, node: RadixNode, length: int) -> tuple[RadixNode, int]:
        """Return how much is left of the first `length` tokens on the path that led to `node`, and a node below it.

        A joined node forwards to the one that it became part of, an evicted one to its parent. Each keeps in `end`
        how much of it is still there, so whatever was cached after that is no part of it.
        """
        while node.ref_count == _GONE:
            length = min(length, node.end)
            node = node.parent
        return node, min(length, node.end)

    def _end_at(self, node: RadixNode, length: int) -> RadixNode:
        """Return the node that ends after `length` tokens on the path to `node`; may split the edge that continues."""
        while length <= node.parent.end:
            node = node.parent
        if length < node.end:
            node = self._split(node, (length - node.parent.end) // self.page_size)
        return node

    def unlock(self, handle: Handle) -> None:
        """Give back one lock of this handle; what it frees becomes the most recently used.

        Raises `LockError` when this handle holds no lock here.

        Twin: `minikv.engine.ch04_05_cache.unlock`.
        """
        self._give_back(handle)
        self._clock = now = self._clock + 1
        freed, node = [], end_of(handle)
        while (parent := node.parent) is not None:
            node.last_used = now
            node.ref_count = left = node.ref_count - 1
            if not left:
                freed.append(node)
            node = parent
        if freed:
            self._order.add(freed)  # deepest first, so that a parent is younger than its children
            tokens = handle.length - freed[-1].parent.end
            self._evictable += tokens
            self._protected -= tokens

    # -- evict ------------------------------------------------------------------------------------------------------

    def evict(self, num_tokens: int) -> Pages:
        """Free unlocked leaves until at least `num_tokens` tokens are free or none is left; return their pages.

        They come in the order in which they went: leaf by leaf, or by pages, those at the end of a leaf first.

        Twin: `minikv.engine.ch04_05_cache.evict`.

        >>> cache = RadixCache(evict_by="page")
        >>> _ = cache.insert([1, 2, 3, 4], [10, 11, 12, 13])
        >>> cache.evict(1).tolist(), cache.evict(100).tolist()
        ([13], [12, 11, 10])
        """
        wanted = -(-require_wanted(num_tokens) // self.page_size) * _PAGE_BYTES
        parts: list[bytes] = []
        got = 0
        by_page = self.evict_by == "page"
        while got < wanted:
            try:
                leaf = self._order.first()
                if leaf is None:
                    break
                if leaf.children or leaf.ref_count:
                    self._refuse_victim(leaf)
            except Exception:  # where the policy fails, what went before comes back, and the next call says why
                if not parts:
                    raise
                break
            for pages in self._evict_end(leaf, wanted - got) if by_page else self._remove_leaf(leaf):
                parts.append(pages)
                got += len(pages)
        self._evictable -= got // _PAGE_BYTES * self.page_size
        return np.frombuffer(bytearray().join(parts), np.int32)

    def _evict_end(self, leaf: RadixNode, num_bytes: int) -> tuple[bytes]:
        """Evict as many bytes of pages off the end of a leaf, or all that it has; the last page comes first."""
        if "end" in self._also_reads:
            num_bytes = _PAGE_BYTES  # what is left has another end, so the policy is asked again
        is_part = sum(map(len, leaf.page_runs)) > num_bytes
        freed = self._trim(leaf, num_bytes) if is_part else b"".join(self._remove_leaf(leaf))
        return (np.frombuffer(freed, np.int32)[::-1].tobytes(),)

    def _trim(self, leaf: RadixNode, num_bytes: int) -> bytes:
        """Cut `num_bytes` of pages off the end of a leaf, and return them; handles that ended there go stale.

        What is left of a long run is halved, and the next cut copies one half: so page after page costs O(log n).
        """
        runs, cut = list(zip(leaf.key_runs, leaf.page_runs)), b""
        while len(cut) < num_bytes:
            keys, pages = runs.pop()
            keep = max(0, len(cut) + len(pages) - num_bytes)
            cut = pages[keep:] + cut
            half = keep // 2 // _PAGE_BYTES * _PAGE_BYTES if keep > _LONG_RUN else 0
            for begin, end in (0, half), (half, keep):
                if begin < end:
                    runs.append((keys[begin * self.page_size : end * self.page_size], pages[begin:end]))
        leaf.key_runs, leaf.page_runs = zip(*runs)
        leaf.end -= len(cut) // _PAGE_BYTES * self.page_size
        self._order.reorder(leaf)  # a policy may read `end`
        return cut

    def _remove_leaf(self, leaf: RadixNode) -> tuple[bytes, ...]:
        """Take a whole leaf out of the tree, and return the runs of its pages; handles that ended in it go stale."""
        parent = leaf.parent
        order, freed = self._order, leaf.page_runs
        order.remove((leaf,))
        del parent.children[leaf.key_runs[0][: self._stride]]
        if not parent.children:
            parent.children = _NO_CHILDREN
            if parent.parent is None:
                if parent.namespace is not None:
                    self._roots.pop(parent.namespace, None)
            elif not parent.ref_count:
                order.add_leaf(parent)
        leaf.end, leaf.ref_count = parent.end, _GONE  # and `parent` is where to look for what is left of it
        leaf.key_runs = leaf.page_runs = ()
        return freed

    # -- the rest ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Recompute every size, link, order and lock from scratch; `InvariantError` names the node and the numbers.

        Twin: `minikv.engine.shells.CacheShell.check`.
        """
        of_node = partial(check_tree_node, self.page_size, self._clock, self._next_id)
        check_nodes(self, self._held, self._order, of_node)

    def _root_of(self, namespace: Hashable) -> RadixNode:
        """The root to search from; a namespace that holds nothing has none yet, and an empty one does as well."""
        require_hashable(namespace)
        return self._roots.get(namespace, _NOTHING)

    def _new_root(self, namespace: Hashable) -> RadixRoot:
        self._roots[namespace] = root = RadixRoot(self._next_id, namespace)
        self._next_id += 1  # last, for a namespace's own __hash__ may raise
        return root

    def _refuse_victim(self, node: RadixNode) -> NoReturn:
        why = "no longer in the tree" if node.ref_count == _GONE else "locked" if node.ref_count else "no leaf"
        raise InvariantError(f"node {node.id}: policy {self.policy!r} wants to evict it, but it is {why}")

    def __repr__(self) -> str:
        how = f"page_size={self.page_size}, policy={self.policy!r}, evict_by={self.evict_by!r}"
        return f"RadixCache({how}, evictable={self._evictable}, protected={self._protected})"


def _unlocked(path: list[RadixNode]) -> list[RadixNode]:
    """The unlocked nodes of `path`, deepest first: no node has fewer locks than those below it."""
    if not path or not path[-1].ref_count:
        return path
    return [node for node in path if not node.ref_count]
