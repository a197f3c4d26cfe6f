"""The radix tree as a structure: nodes and edges, how to walk down them, cut one, add a leaf and take one off.

What it means to match, to lock or to evict is `radix.py`'s business. What both share is the eviction order: an
unlocked node is in it from its making to its end.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from types import MappingProxyType

from minikv.prefix.eviction import EvictionOrder
from minikv.prefix.radix_node import RadixNode, RadixRoot, below
from minikv.tokens import TOKEN_BYTES, common_bytes


class RadixTree:
    """Nodes, edges and roots; an edge is packed bytes, a child is found by the bytes of its first page."""

    _step: int  # a page in bytes
    _order: EvictionOrder

    def _plant(self, step: int, order: EvictionOrder) -> None:
        """Begin anew with nothing but the root of the default namespace."""
        self._step, self._order, self._next_id = step, order, 1
        self._roots: dict[Hashable, RadixRoot] = {None: RadixRoot(0, None)}

    @property
    def root(self) -> RadixNode:
        """The root of the default namespace, for looking at."""
        return self._roots[None]

    @property
    def roots(self) -> Mapping[Hashable, RadixNode]:
        """The root of every namespace that holds something, and the default one; read only."""
        return MappingProxyType(self._roots)

    def nodes(self) -> Iterator[RadixNode]:
        """Every node but the roots, parents before children, in the order in which they came below each parent."""
        return below(self._roots.values())

    def _walk(self, node: RadixNode, data: bytes, at: int, end: int) -> tuple[RadixNode, int]:
        """Go down from `node` while edges agree with `data[at:end]` (bytes); split the edge on which they part."""
        step = self._step
        while at < end:
            child = node.children.get(data[at : at + step])
            if child is None:
                break
            edge = child.key
            if not data.startswith(edge, at):  # one memcmp, no slice; whole pages never reach beyond `end`
                same = common_bytes(edge, data, at, end, step)
                return self._split(child, same), at + same
            at += len(edge)
            node = child
        return node, at

    def _split(self, node: RadixNode, at: int) -> RadixNode:
        """Cut the edge of `node` after `at` bytes; return the new upper node.

        `node` itself stays the lower part, so that every handle that ends at it still ends where it did. The upper
        part takes over its locks: whoever holds the lower part holds the path through the upper one.

            parent --[ a b c d ]--> node        parent --[ a b ]--> upper --[ c d ]--> node
        """
        parent, step = node.parent, self._step
        assert parent is not None
        upper = RadixNode(self._take_id(), node.key[:at], node.slot_bytes[:at], parent, parent.end + at // TOKEN_BYTES)
        upper.ref_count, upper.created, upper.last_used = node.ref_count, node.created, node.last_used
        upper.hits, upper.priority = node.hits, node.priority
        parent.children[upper.key[:step]] = upper
        node.key, node.slot_bytes, node.parent = node.key[at:], node.slot_bytes[at:], upper
        upper.children[node.key[:step]] = node
        if not upper.ref_count:
            self._order.add((upper,))
        return upper

    def _new_leaf(self, parent: RadixNode, key: bytes, slot_bytes: bytes, now: int) -> RadixNode:
        """Hang a leaf below `parent`, used once, at `now`."""
        number = self._next_id
        self._next_id = number + 1
        leaf = RadixNode(number, key, slot_bytes, parent, parent.end + len(key) // TOKEN_BYTES, now, 1)
        if not (parent.children or parent.ref_count or parent.parent is None):
            self._order.covered(parent)
        parent.children[key[: self._step]] = leaf
        self._order.add((leaf,))
        return leaf

    def _remove_leaf(self, leaf: RadixNode) -> bytes:
        """Take a whole leaf out of the tree, and return its slots; its handles go stale."""
        parent, order = leaf.parent, self._order
        assert parent is not None
        order.remove((leaf,))
        children = parent.children
        del children[leaf.key[: self._step]]
        if not children:
            if parent.parent is not None:
                if not parent.ref_count:
                    order.bared(parent)
            elif isinstance(parent, RadixRoot) and parent.namespace is not None:
                del self._roots[parent.namespace]
        leaf.parent, leaf.end = None, -1
        return leaf.slot_bytes

    def _trim(self, leaf: RadixNode, keep: int) -> bytes:
        """Cut all but the first `keep` bytes off a leaf, and return their slots; handles that ended there go stale."""
        freed = leaf.slot_bytes[keep:]
        leaf.slot_bytes, leaf.key = leaf.slot_bytes[:keep], leaf.key[:keep]
        leaf.end -= len(freed) // TOKEN_BYTES
        return freed

    def _use(self, node: RadixNode, top: RadixNode, now: int) -> list[RadixNode]:
        """`node` and all above it, up to below `top`, are used now; this path, deepest first."""
        path, unlocked = [], 0
        while node is not top:
            node.last_used = now
            node.hits += 1
            path.append(node)
            if not node.ref_count:
                unlocked += 1
            node = node.parent  # type: ignore[assignment]
        if unlocked:  # the locked ones are at the upper end
            self._order.touch(path if unlocked == len(path) else path[:unlocked])
        return path

    def _raise_priority(self, node: RadixNode, priority: int) -> None:
        """The path to `node` is worth at least `priority`."""
        while (parent := node.parent) is not None:
            if node.priority < priority:
                node.priority = priority
                if not node.ref_count:
                    self._order.rekey(node)
            node = parent

    def _root_of(self, namespace: Hashable) -> RadixNode:
        """The root to search from; a namespace that holds nothing has none yet, and an empty one does as well."""
        try:
            return self._roots.get(namespace, _NOTHING)
        except TypeError:
            raise TypeError(f"namespace is {namespace!r}: a namespace must be hashable") from None

    def _new_root(self, namespace: Hashable) -> RadixRoot:
        self._roots[namespace] = root = RadixRoot(self._take_id(), namespace)
        return root

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1


_NOTHING = RadixRoot(0, None)  # the root of every namespace that holds nothing: nothing is ever added to it
