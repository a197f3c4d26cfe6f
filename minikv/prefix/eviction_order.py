"""In which order unlocked nodes are evicted: a ring for those that were not used for longest, a heap for any other key.

A tree says when nodes become evictable (`add`), when they are used again (`touch`), when they are locked or gone
(`remove`), each time a whole path of them, deepest first; and when a node gets its first child or loses its last one,
for only a leaf may go. An order names the next victim (`first`). It never scans the tree.

Least recently used needs no sorting at all: a node that is used goes to the young end of a ring, so the old end is
always right. The tree keeps one promise that makes this enough: on a path, the deepest node is added first. Then a
parent is always younger than its children, and the oldest node in the ring is always a leaf.

    oldest                                                   youngest
    [tail of A] -> [A] -> [tail of B] -> [B] -> [shared prefix] -> (the ring's own mark) -> [tail of A] ...

Every other policy is a key: the leaf with the smallest key goes first, and of equal keys the node that was made
first. Their leaves stand in a heap in which each knows its place, so that one can be moved or taken out from the
middle, and nothing is ever sorted anew. After SGLang's `evict_policy.py`, where a policy is a key as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol

from minikv.errors import InvariantError

Key = tuple[int, ...]
READABLE = ("created", "end", "hits", "id", "last_used", "priority")  # the fields of a node that a policy may read


class EvictionOrder(Protocol):
    """What a tree needs from an eviction policy; every method is O(1) or O(log n).

    `reads` names the fields of a node that the policy looks at, some of `READABLE`: two nodes on a path that are equal
    in all of them may become one. `key(node)` is what the policy sorts by; where two keys are equal the older node goes
    first, so a policy whose keys tie should read `id` as well. Most policies are a `SmallestKeyFirst` with
    these two.
    """

    reads: ClassVar[tuple[str, ...]]

    def key(self, node: Any) -> Key:
        """What the policy sorts by: of two leaves the one with the smaller key goes first."""

    def add(self, path: Sequence[Any]) -> None:
        """The nodes of `path` have just become evictable; what made them so has used them, or is about to (a split)."""

    def touch(self, path: Sequence[Any]) -> None:
        """The nodes of `path`, which are evictable, were used."""

    def reorder(self, node: Any) -> None:
        """`node`, which is evictable, is worth more than before, though it was not used."""

    def remove(self, path: Sequence[Any]) -> None:
        """The nodes of `path`, which are evictable, were locked or freed."""

    def remove_leaf(self, node: Any) -> None:
        """`node`, which is evictable, got its first child: it may not go before that."""

    def add_leaf(self, node: Any) -> None:
        """`node`, which is evictable, lost its last child: it may go now."""

    def first(self) -> Any | None:
        """The leaf to evict next, or `None` when nothing is evictable."""

    def __iter__(self) -> Iterator[Any]:
        """The nodes that are here, in the order in which they would go."""


class LeastRecentlyUsed:
    """lru: a ring of nodes from oldest to youngest, linked through the nodes' own `older` and `newer` fields.

    Not an `OrderedDict`: at a million nodes a linked ring is three times as fast, and it needs no key and no second
    object for each node. After vLLM's free block queue and SGLang's LRU list.

    >>> from types import SimpleNamespace as Node
    >>> ring, a, b = LeastRecentlyUsed(), Node(name="a"), Node(name="b")
    >>> ring.add([a]); ring.add([b]); ring.touch([a])
    >>> [node.name for node in ring]
    ['b', 'a']
    """

    __slots__ = ("newer", "older")
    reads: ClassVar[tuple[str, ...]] = ("last_used",)

    def __init__(self) -> None:
        self.newer: Any = self  # the oldest node: the one after the mark
        self.older: Any = self  # the youngest

    def key(self, node: Any) -> Key:
        """The clock's reading at the last use; the ring never needs it, for its order is that of use."""
        return (node.last_used,)

    def add(self, path: Sequence[Any]) -> None:
        """Put the nodes at the young end, the first of them oldest."""
        last = self.older
        for node in path:
            node.older = last
            last.newer = node
            last = node
        last.newer = self
        self.older = last

    def remove(self, path: Sequence[Any]) -> None:
        """Take the nodes out, from wherever they are."""
        for node in path:
            older, newer = node.older, node.newer
            older.newer, newer.older = newer, older
            node.older = node.newer = None  # else one stale handle would keep all its neighbours' neighbours alive

    def touch(self, path: Sequence[Any]) -> None:
        """Move the nodes to the young end."""
        for node in path:
            older, newer = node.older, node.newer
            older.newer, newer.older = newer, older
        self.add(path)

    def reorder(self, node: Any) -> None:
        """Nothing to do: only use counts."""

    def remove_leaf(self, node: Any) -> None:
        """Nothing to do: a parent is younger than its child."""

    def add_leaf(self, node: Any) -> None:
        """Nothing to do: it is here already."""

    def first(self) -> Any | None:
        """The oldest node, or `None`."""
        return None if self.newer is self else self.newer

    def __iter__(self) -> Iterator[Any]:
        node = self.newer
        while node is not self:
            yield node
            node = node.newer

    def check(self) -> None:
        """Neighbors link to each other, and none stands before an older one; `InvariantError` names the first."""
        oldest = self.first()
        if oldest is not None and oldest.older is not self:
            raise InvariantError(f"node {oldest.id}: it is the oldest, but links to an older one")
        for node in self:
            if node.newer.older is not node:
                raise InvariantError(f"node {node.id}: its neighbor does not link back")
            if node.newer is not self and node.newer.last_used < node.last_used:
                raise InvariantError(f"node {node.id}: used at {node.last_used}, but stands before an older one")


class SmallestKeyFirst:
    """A binary heap of the unlocked leaves by `key` and then by node id; a policy says which key.

    A leaf keeps its place in the heap in its field `newer`, so that it is found in O(1) and moved in O(log n).

    >>> from types import SimpleNamespace as Node
    >>> class FirstInFirstOut(SmallestKeyFirst):
    ...     def key(self, node): return (node.created,)
    >>> order = FirstInFirstOut()
    >>> for number, birth in ((1, 30), (2, 10), (3, 20)):
    ...     order.add([Node(id=number, created=birth, children={}, newer=None)])
    >>> [node.id for node in order], order.first().id
    ([2, 3, 1], 2)
    """

    __slots__ = ("_heap",)
    reads: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._heap: list[tuple[Key, int, Any]] = []

    def key(self, node: Any) -> Key:
        """What this policy sorts by."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it sorts by")

    def add(self, path: Sequence[Any]) -> None:
        """Take in those that are leaves: the first of a path at most."""
        for node in path:
            if not node.children:
                self.add_leaf(node)

    def touch(self, path: Sequence[Any]) -> None:
        """Move those that are leaves to where their keys now belong."""
        for node in path:
            if node.newer is not None:
                self.reorder(node)

    def remove(self, path: Sequence[Any]) -> None:
        """Take out those that are here."""
        for node in path:
            if node.newer is not None:
                self.remove_leaf(node)

    def reorder(self, node: Any) -> None:
        """Move `node` to where its key now belongs, if it is here."""
        place = node.newer
        if place is not None:
            self._heap[place] = (self.key(node), node.id, node)
            self._sink(self._rise(place))

    def remove_leaf(self, node: Any) -> None:
        """Take out `node`, which is here: it is not a leaf any more, or not evictable."""
        place, last = node.newer, self._heap.pop()
        node.newer = None
        if last[2] is not node:
            self._heap[place] = last
            self._sink(self._rise(place))

    def add_leaf(self, node: Any) -> None:
        """Take in `node`, which is an evictable leaf now."""
        self._heap.append((self.key(node), node.id, node))
        self._rise(len(self._heap) - 1)

    def first(self) -> Any | None:
        """The leaf with the smallest key, or `None`."""
        return self._heap[0][2] if self._heap else None

    def __iter__(self) -> Iterator[Any]:
        return (node for _, _, node in sorted(self._heap, key=lambda entry: entry[:2]))

    def _rise(self, place: int) -> int:
        """Move the entry at `place` up past all that sort behind it; where it came to stand."""
        heap = self._heap
        entry = heap[place]
        while place and entry[:2] < heap[above := (place - 1) // 2][:2]:
            heap[place] = heap[above]
            heap[place][2].newer = place
            place = above
        heap[place] = entry
        entry[2].newer = place
        return place

    def _sink(self, place: int) -> None:
        """Move the entry at `place` down past all that sort before it."""
        heap = self._heap
        entry, count = heap[place], len(heap)
        while (below := 2 * place + 1) < count:
            if below + 1 < count and heap[below + 1][:2] < heap[below][:2]:
                below += 1
            if entry[:2] <= heap[below][:2]:
                break
            heap[place] = heap[below]
            heap[place][2].newer = place
            place = below
        heap[place] = entry
        entry[2].newer = place

    def check(self) -> None:
        """Every leaf knows its place, has the key that its fields make, and sorts after the one above it."""
        for place, (key, number, node) in enumerate(self._heap):
            if node.newer != place:
                raise InvariantError(f"node {number}: at {place} in the heap, but thinks it is at {node.newer}")
            if key != (current := self.key(node)):
                raise InvariantError(f"node {number}: sorted by {key}, but its key is {current}")
            above = self._heap[(place - 1) // 2] if place else (key, number)
            if above[:2] > (key, number):
                raise InvariantError(f"node {number}: key {key} stands below the larger {above[0]}")
