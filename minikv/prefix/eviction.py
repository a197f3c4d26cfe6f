"""What goes first: the policies of the field, each a class that says by which key, and its name.

How an order is kept up to date is in `eviction_order.py`: `LeastRecentlyUsed`, and `SmallestKeyFirst` for the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from minikv.errors import bounded
from minikv.prefix.eviction_order import READABLE, EvictionOrder, Key, LeastRecentlyUsed, SmallestKeyFirst

__all__ = [
    "POLICIES", "READABLE", "EvictionOrder", "FirstInFirstOut", "FirstInLastOut", "LeastFrequentlyUsed",
    "LeastRecentlyUsed", "LowestPriority", "MostRecentlyUsed", "SegmentedLRU", "SmallestKeyFirst", "order_named",
]  # fmt: skip


class LeastFrequentlyUsed(SmallestKeyFirst):
    """lfu: the leaf that was used least often, and of those the least recently used."""

    __slots__ = ()
    reads: ClassVar[tuple[str, ...]] = ("hits", "last_used")

    def key(self, node: Any) -> Key:
        """How often, then how recently."""
        return node.hits, node.last_used


class FirstInFirstOut(SmallestKeyFirst):
    """fifo: the leaf whose tokens were cached first, however much it is used."""

    __slots__ = ()
    reads: ClassVar[tuple[str, ...]] = ("created",)

    def key(self, node: Any) -> Key:
        """When it was cached."""
        return (node.created,)


class MostRecentlyUsed(SmallestKeyFirst):
    """mru: the leaf that was used last; right when requests go round in a loop that does not fit."""

    __slots__ = ()
    reads: ClassVar[tuple[str, ...]] = ("last_used",)

    def key(self, node: Any) -> Key:
        """How recently, reversed."""
        return (-node.last_used,)


class FirstInLastOut(SmallestKeyFirst):
    """filo: the leaf whose tokens were cached last."""

    __slots__ = ()
    reads: ClassVar[tuple[str, ...]] = ("created",)

    def key(self, node: Any) -> Key:
        """When it was cached, reversed."""
        return (-node.created,)


class LowestPriority(SmallestKeyFirst):
    """priority: the leaf of the lowest priority, and of those the least recently used.

    A node has the largest priority of all inserts that went through it, so a path is never worth less than its end.
    """

    __slots__ = ()
    reads: ClassVar[tuple[str, ...]] = ("priority", "last_used")

    def key(self, node: Any) -> Key:
        """What it is worth, then how recently it was used."""
        return node.priority, node.last_used


class SegmentedLRU(SmallestKeyFirst):
    """slru: leaves used once go before leaves used again, each in the order of their last use.

    So one pass over a long document does not drive out what is asked for again and again.
    """

    __slots__ = ()
    reads: ClassVar[tuple[str, ...]] = ("hits", "last_used")

    def key(self, node: Any) -> Key:
        """In which segment, then how recently."""
        return int(node.hits > 1), node.last_used


POLICIES: dict[str, type[EvictionOrder]] = {
    "lru": LeastRecentlyUsed,
    "lfu": LeastFrequentlyUsed,
    "fifo": FirstInFirstOut,
    "mru": MostRecentlyUsed,
    "filo": FirstInLastOut,
    "priority": LowestPriority,
    "slru": SegmentedLRU,
}


_METHODS = ("key", "add", "touch", "reorder", "remove", "remove_leaf", "add_leaf", "first", "__iter__")


def order_named(policy: str | Callable[[], EvictionOrder]) -> tuple[str, Callable[[], EvictionOrder]]:
    """The name of `policy` and what makes an empty order of it: a name of `POLICIES`, or a class of one's own.

    Raises `ValueError` for an unknown name or for a class that reads what no node has, `TypeError` for a class that
    lacks a method of `EvictionOrder`.

    >>> class ShortestFirst(SmallestKeyFirst):
    ...     reads = ("end", "last_used")
    ...     def key(self, node): return node.end, node.last_used
    >>> order_named(ShortestFirst)[0], order_named("lru")[0]
    ('ShortestFirst', 'lru')
    >>> order_named("least")                                       # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: policy is 'least': expected one of lru, lfu, fifo, ... or a class
    """
    if isinstance(policy, str) and policy in POLICIES:
        return policy, POLICIES[policy]
    if isinstance(policy, str) or not callable(policy):
        raise ValueError(f"policy is {bounded(policy)}: expected one of {', '.join(POLICIES)}, or a class")
    name, made = getattr(policy, "__name__", type(policy).__name__), policy()
    for method in _METHODS:
        if not callable(getattr(made, method, None)):
            raise TypeError(f"policy {name} has no method {method}: expected those of EvictionOrder")
    reads = getattr(made, "reads", ())
    if isinstance(reads, str):
        raise ValueError(f"policy {name} has the string {bounded(reads)} as reads: expected a tuple of names")
    for field in reads:
        if field not in READABLE:
            raise ValueError(f"policy {name} reads {bounded(field)}: a node has {', '.join(READABLE)}")
    if not reads:
        raise ValueError(f"policy {name} does not say what it reads: some of {', '.join(READABLE)}")
    return name, policy
