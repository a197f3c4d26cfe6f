"""Where the device's nodes say that host memory has their paths: random programs, against a model without marks.

A mark only saves work, so a wrong one shows late: in the pages of a move that leaves some out, or copies some twice.
The model is the dictionary of pages of `tiered_machine.py`, which says of each move what it copies. After each step,
whatever is left of a marked path must be in host memory, and it must be the path of its node.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from nightly import NIGHTLY
from tiered_machine import Carried, nodes_of, pages_of, ranks

from minikv import FreeListPool, InvariantError
from minikv.prefix.host_memory import Edge, HostTree
from minikv.prefix.tiered import WRITES, TieredCache

pytestmark = pytest.mark.core

STEPS = 40_000 if NIGHTLY else 400


class Program:
    """A device of a few pages and its host memory, and what a caller does with them, drawn from `seed`."""

    def __init__(self, seed):
        self.draw = draw = random.Random(seed)
        size, self.num_pages = draw.choice([1, 1, 2]), draw.randint(8, 24)
        how = WRITES[seed % 3], draw.choice(["lru", "lru", "lfu", "priority"]), draw.choice(["node", "page"])
        self.cache = Carried(size, *how, host_pages=draw.randint(4, 40))
        self.pool, self.held, self.trunks = FreeListPool(self.num_pages), [], [self.tokens(9) for _ in range(3)]

    def tokens(self, most):
        return [self.draw.randint(0, 1) for _ in range(self.draw.randint(1, most))]

    def prompt(self):
        trunk = self.draw.choice(self.trunks)
        return trunk[: self.draw.randint(0, len(trunk))] + self.tokens(5), self.draw.choice([None, None, "B"])

    def room_for(self, num_pages):
        lacking = num_pages - self.pool.num_free
        if lacking > 0:
            self.pool.free(self.cache.evict(lacking * self.cache.page_size))
        return self.pool.alloc(num_pages) if num_pages <= self.pool.num_free else None

    def put(self, tokens, namespace, match, pages):
        """Insert `tokens`, of which those after `match` are in `pages`, and free what the cache does not keep."""
        size, shared = self.cache.page_size, match.length // self.cache.page_size
        done = self.cache.insert(tokens, [0] * shared + pages.tolist(), namespace=namespace, start=match)
        self.pool.free(pages[: done.prefix_length // size - shared])
        self.pool.free(pages[done.length // size - shared :])

    def request(self):
        """The life of a request, which may load what host memory has, and may stay."""
        tokens, namespace = self.prompt()
        match, size = self.cache.acquire(tokens, namespace=namespace), self.cache.page_size
        if match.host_length and self.draw.random() < 0.7:
            self.load(match, namespace)
            self.cache.unlock(match)
            match = self.cache.acquire(tokens, namespace=namespace)
        pages = self.room_for(len(tokens) // size - match.length // size)
        if pages is not None:
            self.put(tokens, namespace, match, pages)
        self.held.append(match)

    def load(self, match, namespace):
        pages = self.room_for(match.host_length // self.cache.page_size)
        move = None if pages is None else self.cache.fetch(match, pages)
        if move is not None:
            self.cache.end(move)
            self.put(move.tokens.tolist(), namespace, match, pages[: len(move.dst)])
            pages = pages[len(move.dst) :]
        if pages is not None:
            self.pool.free(pages)

    def match(self):
        tokens, namespace = self.prompt()
        self.cache.match_prefix(tokens, limit=self.draw.choice([None, 3]), namespace=namespace)

    def unlock(self):
        for _ in range(self.draw.randint(0, len(self.held))):
            self.cache.unlock(self.held.pop(self.draw.randrange(len(self.held))))

    def evict(self):
        self.pool.free(self.cache.evict(self.draw.choice([1, 3, 8, 99])))

    def end_a_move(self):
        if self.cache.host.moves:
            self.cache.end(self.draw.choice(self.cache.host.moves), self.draw.random() < 0.8)

    def forget(self):
        if not self.cache.host.moves and self.draw.random() < 0.05:
            while self.held:
                self.cache.unlock(self.held.pop())
            self.pool.free([page for node in self.cache.nodes() for page in node.pages])
            self.cache.reset()

    def step(self):
        self.cache.mode = self.draw.choice(["arrive", "arrive", "arrive", "fail", "later"])
        verbs = ["request", "request", "match", "unlock", "unlock", "evict", "end_a_move", "end_a_move", "forget"]
        getattr(self, self.draw.choice(verbs))()

    def check(self):
        cache, model = self.cache, self.cache.model
        cache.check()
        for tree, held in ((cache, cache.on_device), (cache.host.index, cache.on_host)):
            assert all(held[page] == key for key, page in pages_of(tree).items())
        assert {*pages_of(cache.host.index)} == {*model.used}
        assert cache.host.pool.num_free == model.free()
        times = {k: n.last_used for k, n in nodes_of(cache.host.index).items() if k not in model.locked()}
        assert ranks(times) == ranks({key: model.used[key] for key in times})
        return sum(self.is_marked(key, node) for key, node in nodes_of(cache).items() if len(key[1]) == node.end)

    def is_marked(self, key, node):
        """Whether what is left of the path that a node says is in host memory is there, and is its own."""
        known = getattr(node, "in_host", None)
        if known is None:
            return False
        left, length = self.cache.host.index._what_is_left(known.node, min(known.length, node.end))
        path = []
        while left.parent is not None:
            path, left = [*left.tokens, *path], left.parent
        assert length == 0 or (left.namespace, tuple(path[:length])) == (key[0], key[1][:length])
        return length == node.end


def marks_met(seed, steps):
    """Run a program; return how many nodes were marked down to their ends, over all steps."""
    program, met = Program(seed), 0
    for _ in range(steps):
        program.step()
        met += program.check()
    return met


@pytest.mark.parametrize("seed", range(9))
def test_a_mark_says_what_is_in_host_memory_and_changes_no_move(seed):
    assert marks_met(seed, STEPS) > STEPS / 5


def is_believed_for_ever(patch):
    """A mark that does not see what host memory has evicted since."""
    patch.setattr(HostTree, "_what_is_left", lambda self, node, length: (node, min(length, node.end)))


def is_read_below_the_end_of_its_node(patch):
    """What was trimmed off a node says nothing about what was inserted below it later."""
    acquire = HostTree.acquire_path

    def endless(self, path):
        marks = [Edge(edge.node, (), (), 10**9) for edge in path if hasattr(edge.node, "in_host")]
        plain = [path[0], *(edge._replace(node=None) for edge in path[1:])]
        return acquire(self, [*plain, *marks, Edge(None, (), (), path[-1].end)])

    patch.setattr(HostTree, "acquire_path", endless)


def is_made_longer_by_a_join(patch):
    """The mark of an upper node is taken for one of the whole edge that it becomes a part of."""
    join = TieredCache._join

    def careless(self, node, above):
        known = getattr(above[0], "in_host", None)
        if known is not None:
            node.in_host = replace(known, length=node.end)
        join(self, node, above)

    patch.setattr(TieredCache, "_join", careless)


def is_all_that_is_there(patch):
    """What another path has brought to host memory since, below the mark, is copied again."""
    acquire = HostTree.acquire_path

    def no_further(self, path):
        marked = [i for i, edge in enumerate(path, 1) if hasattr(edge.node, "in_host")]
        return acquire(self, path[: marked[-1]] if marked else path)

    patch.setattr(HostTree, "acquire_path", no_further)


PLANTED = (
    is_believed_for_ever,
    is_read_below_the_end_of_its_node,
    is_made_longer_by_a_join,
    is_all_that_is_there,
)


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_wrong_mark_is_noticed(bug, monkeypatch):
    bug(monkeypatch)
    with pytest.raises((AssertionError, KeyError, ValueError, InvariantError)):
        [marks_met(seed, STEPS) for seed in range(9)]
