"""The audit of an index finds whatever is spoiled in it, and says what: one small tree, and a row for each fact."""

import pytest
from digits import put

from minikv import HashBlockCache, InvariantError, RadixCache, SlidingWindowCache
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


def renamed(cache, nodes):
    """A namespace is kept under the name of another."""
    put(cache, b"8", namespace="a")
    cache._roots["b"] = cache._roots.pop("a")


def younger(cache, nodes):
    """A leaf was used after its parent."""
    put(cache, b"78")
    nodes[7].created = nodes[7].last_used = 0


def listed_elsewhere(cache, nodes):
    """A node is a child under another page than its first."""
    children = nodes[12].children
    children[b"next"] = children.pop(nodes[1234].key_bytes[:4])


def live_from(node, depth):
    """The window of a node begins elsewhere."""
    node.window.live_from = depth


# For each index: what the audit says, and what was done before. That is a field of the node that ends with this page
# (0: of the cache itself), set to a value, or whatever a function of the cache and its nodes does.
SPOILED = {
    "radix": {
        "node 4: ends at 9, but": (7, "end", 9),
        "node 1: 1 pages of 1 for 2 tokens": (1234, "page_runs", (bytes(4),)),
        "node 4: its parent is None": (7, "parent", None),
        "but its parent ends at 3": lambda cache, nodes: setattr(nodes[1234], "parent", nodes[125]),
        "its parent 2 does not list it": listed_elsewhere,
        "evictable_size is 4, but": (0, "_evictable", 4),
        "protected_size is 0, but": (0, "_protected", 0),
        "the ring of nodes, least recently used first and of a path the deepest first: node 4 belongs right after "
        "node 1, but node 1 links to the mark and node 4 back to nothing":
            lambda cache, nodes: cache._order.remove([nodes[7]]),
        "the mark belongs right after node 4, but node 4 links to node 3 and the mark back to node 3":
            lambda cache, nodes: cache._order.add([nodes[125]]),
        "but node 1 links to node 4 and node 4 back to nothing": (7, "older", None),
        "but node 1 links to nothing and node 4 back to node 1": (1234, "newer", None),
        "share 4 ids": (7, "id", 2),
        "next id to give out is 4": (0, "_next_id", 4),
        "node 4: 0 tokens on its edge are not whole pages": (7, "key_runs", (b"",)),
        "later than its parent": younger,
        "before it was cached at 99": (1234, "created", 99),
        "its locked handle at 9": lambda cache, nodes: setattr(next(iter(cache._held)), "length", 9),
        "kept as holding 0 locks": lambda cache, nodes: cache._held.update({cache.match_prefix(b"7"): 0}),
        "locked nodes [3] are not in the tree": lambda cache, nodes: nodes[12].children.pop(nodes[125].key_bytes),
        "root of None: not a root": lambda cache, nodes: setattr(cache.root, "key_runs", (b"x",)),
        "root of 'b': it says it is the root of another namespace": renamed,
        "root of 'lora': kept, but it holds nothing": lambda cache, nodes: cache._new_root("lora"),
        "priority 3 is higher than its parent's, 0": (125, "priority", 3),
        "page 0 is cached twice in node 2": (12, "page_runs", (bytes(8),)),
        "page 7 is cached in nodes 3 and 4": lambda cache, nodes: setattr(nodes[125], "page_runs", nodes[7].page_runs),
        "its runs of tokens have [8] bytes, those of its pages [4, 4]": (1234, "page_runs", (b"1234", b"5678")),
    },
    "heap": {
        "node 4: sorted by (1, 3), but its key is (9, 3)": (7, "hits", 9),
        "node 4: ref_count 0, not in the eviction order": (7, "newer", None),
    },
    "list": {
        "node 4: twice in the eviction order": lambda cache, nodes: cache._order.nodes.append(nodes[7]),
        "node 1: in the eviction order, but not in the tree":
            lambda cache, nodes: cache._order.nodes.append(put(RadixCache(), b"1").node),
        "the eviction order breaks off after 2 of its nodes": lambda cache, nodes: cache._order.nodes.append(None),
        "node 4: ref_count 0, not in the eviction order": lambda cache, nodes: cache._order.remove([nodes[7]]),
        "node 3: ref_count 1, in the eviction order": lambda cache, nodes: cache._order.add([nodes[125]]),
    },
    "window": {
        "node 2: live from 9, but a lock needs it from 1": lambda cache, nodes: live_from(nodes[12], 9),
        "node 2: live from 2, but a lock needs it from 1": lambda cache, nodes: live_from(nodes[12], 2),
        "node 4: live from 9, but its edge is [0, 1)": lambda cache, nodes: live_from(nodes[7], 9),
        "node 2: pins [], but its locks begin at [1]": lambda cache, nodes: nodes[12].window.pins.clear(),
        "node 4: 1 tokens may be freed, not in the ring":
            lambda cache, nodes: cache.windows.ring.remove([nodes[7].window]),
        "the ring of windows, least recently used first and of a path the nearest to the root first: node 1 belongs "
        "right after the mark, but the mark links to node 4 and node 1 back to node 2":
            lambda cache, nodes: cache.windows.ring.touch([nodes[1234].window]),
        "5 tokens are counted as dead, but the nodes have 0": lambda cache, nodes: setattr(cache.windows, "dead", 5),
        "node 4: a tombstone at the end of a path": lambda cache, nodes: cache.windows.move(nodes[7].window, 1),
    },
    "hash": {
        "node 4: its tokens do not lead to it": (1234, "key_bytes", bytes(4)),
        "node 4: its key is another's": (1234, "key", bytes(32)),
        "node 4: its parent is Block(id=3": lambda cache, nodes: cache._table.pop(nodes[123].key),
        "num_first is 9, not 2": lambda cache, nodes: setattr(cache.roots[None], "num_first", 9),
        "node 6: ends at 7": (7, "end", 7),
    },
}  # fmt: skip
ROWS = [(index, message) for index, rows in SPOILED.items() for message in rows]


@pytest.mark.parametrize(("index", "message"), ROWS)
def test_the_audit_says(index, message):
    cache, nodes = small_tree(index)
    cache.check()
    spoil = SPOILED[index][message]
    if callable(spoil):
        spoil(cache, nodes)
    else:
        page, field, value = spoil
        setattr(nodes[page] if page else cache, field, value)
    with pytest.raises(InvariantError) as caught:
        cache.check()
    assert message in str(caught.value)
