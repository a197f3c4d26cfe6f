"""The eviction order: a ring for least recently used, a heap for every policy that is a key, and their names.

A tree says when the nodes of a path change, deepest first, and an order names the next victim. Least recently used
needs no sorting at all: a node that is used goes to the young end of a ring, so the old end is always right. On a path,
the tree adds the deepest node first. Then a parent is always younger than its children, and the oldest node is a leaf.

    oldest                                                   youngest
    [tail of A] -> [A] -> [tail of B] -> [B] -> [shared prefix] -> (the ring's own mark) -> [tail of A] ...

Every other policy is a class that says by which key: the leaf with the smallest key goes first, and of equal keys the
node that was made first. Their leaves are in a heap. After SGLang's `evict_policy.py`, where a policy is a key, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar, Protocol

from minikv.errors import InvariantError, bounded

Key = tuple[int, ...]
READABLE = ("created", "end", "hits", "id", "last_used", "priority")  # the fields of a node that a policy may read
_FEW = 64  # old entries that a heap may have in any case


class EvictionOrder(Protocol):
    """The interface of an eviction policy for a tree; every method is O(1) or O(log n).

    `reads` names the fields of a node that the policy looks at, some of `READABLE`: two nodes on a path that are equal
    in all of them may become one. `key(node)` is what the policy sorts by; where two keys are equal the older node goes
    first, so a policy whose keys tie should read `id` as well. Most policies are a `SmallestKeyFirst` with these two.

    A class that inherits from this one sorts by what it reads, hears of each leaf that comes or is used by `add_leaf`
    and `reorder`, and does nothing where it overrides nothing.
    """

    reads: ClassVar[tuple[str, ...]] = ()

    def key(self, node: Any) -> Key:
        """The policy's sort key: of two leaves, the one with the smaller key is evicted first. What it reads."""
        return tuple([getattr(node, field) for field in self.reads])

    def add(self, path: Sequence[Any]) -> None:
        """The nodes of `path` have just become evictable; what made them so has used them, or is about to (a split)."""
        for node in path:
            if not node.children:
                self.add_leaf(node)

    def touch(self, path: Sequence[Any]) -> None:
        """The nodes of `path`, which are evictable, were used."""
        for node in path:
            self.reorder(node)

    def reorder(self, node: Any) -> None:
        """`node`, which is evictable, is worth more than before, though it was not used."""
        return

    def remove(self, path: Sequence[Any]) -> None:
        """The nodes of `path`, which are evictable, were locked or freed."""

    def remove_leaf(self, node: Any) -> None:
        """`node`, which is evictable, got its first child: it may not go before that."""
        return

    def add_leaf(self, node: Any) -> None:
        """`node`, which is evictable, lost its last child: it may go now."""
        return

    def first(self) -> Any | None:
        """The leaf to evict next, or `None` when nothing is evictable."""

    def __iter__(self) -> Iterator[Any]:
        """The nodes that are here, in the order in which they would go."""


class LeastRecentlyUsed(EvictionOrder):
    """lru: a ring of nodes from oldest to youngest, linked through the nodes' own `older` and `newer` fields.

    Not an `OrderedDict`: at a million nodes a linked ring is three times as fast, and it needs no key and no second
    object for each node. After vLLM's free block queue and SGLang's LRU list.

    >>> from types import SimpleNamespace as Node
    >>> ring, a, b = LeastRecentlyUsed(), Node(name="a"), Node(name="b")
    >>> ring.add([a]); ring.add([b]); ring.touch([a])
    >>> [node.name for node in ring]
    ['b', 'a']
    """

    reads = ("last_used",)  # the ring never needs it, for its order is that of use

    def __init__(self) -> None:
        self.newer: Any = self  # the oldest node: the one after the mark
        self.older: Any = self  # the youngest

    def add(self, path: Sequence[Any]) -> None:
        """Put the nodes at the young end, the first of them oldest."""
        last = self.older
        for node in path:
            node.older, last.newer = last, node
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
        self.remove(path)
        self.add(path)

    def first(self) -> Any | None:
        """The oldest node, or `None`."""
        return None if self.newer is self else self.newer

    def __iter__(self) -> Iterator[Any]:
        node = self.newer
        while node is not self:
            yield node
            node = node.newer


class SmallestKeyFirst(EvictionOrder):
    """A heap of the unlocked leaves by `key` and then by node id; a policy says which key, or only what it reads.

    A leaf has its entry of the heap in its field `newer`. A leaf that moves gets a new one, and one that goes forgets
    it. An old entry stays until it comes to the top, or until most entries are old and the heap is rebuilt.

    >>> from types import SimpleNamespace as Node
    >>> order = FirstInFirstOut()
    >>> for number, birth in ((1, 30), (2, 10), (3, 20)):
    ...     order.add([Node(id=number, created=birth, children={}, newer=None)])
    >>> [node.id for node in order], order.first().id
    ([2, 3, 1], 2)
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Key, int, Any]] = []
        self._most = _FEW  # with so many entries, the heap is rebuilt

    def remove(self, path: Sequence[Any]) -> None:
        """Take out those that are here."""
        for node in path:
            node.newer = None

    def reorder(self, node: Any) -> None:
        """Move `node` to where its key now belongs, if it is here."""
        if node.newer is not None:
            self.add_leaf(node)

    def remove_leaf(self, node: Any) -> None:
        """Take out `node`, which is here: it is not a leaf any more, or not evictable."""
        node.newer = None

    def add_leaf(self, node: Any) -> None:
        """Give `node`, which is now an evictable leaf, a new entry; its old entry, if any, is ignored from now on."""
        node.newer = entry = (self.key(node), node.id, node)
        if len(self._heap) >= self._most:
            self._heap = self._entries()
            heapify(self._heap)
            self._most = 2 * len(self._heap) + _FEW
        heappush(self._heap, entry)

    def _entries(self) -> list[tuple[Key, int, Any]]:
        return [entry for entry in self._heap if entry[2].newer is entry]

    def first(self) -> Any | None:
        """The leaf with the smallest key, or `None`."""
        heap = self._heap
        while heap and heap[0][2].newer is not heap[0]:
            heappop(heap)
        return heap[0][2] if heap else None

    def __iter__(self) -> Iterator[Any]:
        return (node for _, _, node in sorted(self._entries()))

    def check(self) -> None:
        """Check that each leaf is sorted by the key that its fields give now."""
        for key, number, node in self._entries():
            current = self.key(node)
            if key != current:
                raise InvariantError(f"node {number}: sorted by {key}, but its key is {current}")


class LeastFrequentlyUsed(SmallestKeyFirst):
    """lfu: the leaf that was used least often, and of those the least recently used."""

    reads = ("hits", "last_used")


class FirstInFirstOut(SmallestKeyFirst):
    """fifo: the leaf whose tokens were cached first, however much it is used."""

    reads = ("created",)


class MostRecentlyUsed(SmallestKeyFirst):
    """mru: the leaf that was used last; right when requests go round in a loop that does not fit."""

    reads = ("last_used",)

    def key(self, node: Any) -> Key:
        """How recently, reversed."""
        return (-node.last_used,)


class FirstInLastOut(SmallestKeyFirst):
    """filo: the leaf whose tokens were cached last."""

    reads = ("created",)

    def key(self, node: Any) -> Key:
        """When it was cached, reversed."""
        return (-node.created,)


class LowestPriority(SmallestKeyFirst):
    """priority: the lowest, then lru; a node has its inserts' largest, so a path is never worth less than its end."""

    reads = ("priority", "last_used")


class SegmentedLRU(SmallestKeyFirst):
    """slru: leaves used once go first, so that one long document does not drive out what is asked for repeatedly."""

    reads = ("hits", "last_used")

    def key(self, node: Any) -> Key:
        """In which segment, then how recently."""
        return int(node.hits > 1), node.last_used


POLICIES: dict[str, type[EvictionOrder]] = {
    "lru": LeastRecentlyUsed, "lfu": LeastFrequentlyUsed, "fifo": FirstInFirstOut, "mru": MostRecentlyUsed,
    "filo": FirstInLastOut, "priority": LowestPriority, "slru": SegmentedLRU,
}  # fmt: skip
_METHODS = ("key", "add", "touch", "reorder", "remove", "remove_leaf", "add_leaf", "first", "__iter__")


def order_named(policy: str | Callable[[], EvictionOrder]) -> tuple[str, Callable[[], EvictionOrder]]:
    """The name of `policy` and what makes an empty order of it: a name of `POLICIES`, or a class of one's own.

    Raises `ValueError` for an unknown name or for a class that reads what no node has, `TypeError` for a class that
    lacks a method of `EvictionOrder` or has no key, `AttributeError` for a key that looks at more than the class reads.

    >>> order_named(SegmentedLRU)[0], order_named("lru")[0]
    ('SegmentedLRU', 'lru')
    """
    if isinstance(policy, str) and policy in POLICIES:
        return policy, POLICIES[policy]
    if not callable(policy):
        raise ValueError(f"policy is {bounded(policy)}: expected one of {', '.join(POLICIES)}, or a class")
    name, made = getattr(policy, "__name__", type(policy).__name__), policy()
    for method in _METHODS:
        if not callable(getattr(made, method, None)):
            raise TypeError(f"policy {name} has no method {method}: expected those of EvictionOrder")
    reads = getattr(made, "reads", ())
    if not reads or not {*reads} <= {*READABLE}:
        raise ValueError(f"policy {name} reads {bounded(reads)}: expected a tuple of some of {', '.join(READABLE)}")
    node = type(f"node with only what {name} reads", (), dict.fromkeys(reads, 1))()
    if made.key(node) is None:
        raise TypeError(f"policy {name} has None as the key of a node: expected a tuple of numbers")
    return name, policy
