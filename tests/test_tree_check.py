"""The audit of an index finds whatever is spoiled in it, and says what: one small tree, and a row for each fact."""

import pytest
from digits import put
from golden_text import replay
from refusals import said

from minikv import HashBlockCache, RadixCache, SlidingWindowCache
from minikv.prefix.eviction import EvictionOrder


class Listed(EvictionOrder):
    """A list of all unlocked nodes: what else than the unlocked leaves an order holds is its own affair."""

    reads = ("last_used",)

    def __init__(self):
        self.nodes = []

    def add(self, path):
        self.nodes += path

    def remove(self, path):
        self.nodes = [node for node in self.nodes if node not in path]

    def touch(self, path):
        self.remove(path)
        self.add(path)

    def first(self):
        return next(iter(self), None)

    def __iter__(self):
        return iter(self.nodes)


INDEXES = {
    "radix": RadixCache,
    "heap": lambda: RadixCache(policy="lfu"),
    "list": lambda: RadixCache(policy=Listed),
    "window": lambda: SlidingWindowCache(window=2),
    "hash": HashBlockCache,
}


def small_tree(index):
    """root - 12 - {34, 5}, with 125 locked, and 7 beside; in a radix tree the ids of 12, 34, 5 and 7 are 2, 1, 3, 4."""
    cache = INDEXES[index]()
    put(cache, b"1234", b"125", b"7")
    cache.acquire(b"125")
    return cache, {node.pages[-1]: node for node in cache.nodes()}


@pytest.mark.parametrize("index", INDEXES)
def test_the_audit_names_the_node_and_the_rule(index):
    """Something was done to the cache, or to the node that ends with a page."""

    def act(line):
        cache, nodes = small_tree(index)
        cache.check()
        exec(line, {**globals(), "cache": cache, "nodes": nodes})
        says = said(cache.check)
        assert says
        return [says]

    replay("spoiled_trees.txt", index, act)
