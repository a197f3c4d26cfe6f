"""Films of what learners make: their engine, and trees and pools with ways of their own."""

import re
from types import SimpleNamespace

from scripted_films import FILMS, filmed, refused

from minikv import CanaryModel, Engine, FreeListPool
from minikv.engine import engine_world


@filmed(lambda: engine_world()["CacheManager"](4, 2))
def the_learners_manager(manager, film):
    manager.advance(first := manager.start([1, 2, 3]))
    manager.finish(first)


@filmed(
    lambda: Engine(CanaryModel(64), engine_world()["CacheManager"](8)),
    label=lambda tokens: "".join(chr(64 + token) for token in tokens),
)
def the_learners_engine_with_letters_for_tokens(engine, film):
    engine.submit([1, 2, 3], 1)
    engine.step()


class Mine:
    """A split keeps the node of its upper part, nodes have no id, and verbs return plain things."""

    def __init__(self, *children):
        self.root, self.found = Node(children=children), None

    def match_prefix(self, tokens):
        slots = []
        for child in self.root.children:
            same = sum(a == b for a, b in zip(child.tokens, tokens))
            if same and same < len(child.tokens):
                lower = Node(child.tokens[same:], child.slots[same:])
                child.tokens, child.slots, child.children = child.tokens[:same], child.slots[:same], [lower]
            slots += child.slots if same else []
        return slots if self.found is None else self.found

    def insert(self, tokens, slots):
        self.root.children.append(Node(tokens, slots))
        return 0

    def evict(self, count):
        return self.root.children.pop().slots if count else 3


class Node:
    def __init__(self, tokens=(), slots=(), children=(), **more):
        self.tokens, self.slots, self.children = list(tokens), list(slots), list(children)
        vars(self).update(more)


class OwnPool:
    """A learner's, which counts in a way of its own and may give nothing."""

    size = 3

    def __init__(self):
        self.taken = set()

    def is_free(self, page):
        return page not in self.taken

    def num_free(self):
        return 3 - len(self.taken)

    def alloc(self, num_pages):
        return None

    def take(self, page):
        self.taken.add(page)

    def free(self, pages):
        self.taken.difference_update(pages)


@filmed(Mine, label=None)
def a_learners_own_tree(mine, film):
    mine.insert([1, 2, 3], [7, 8, 9])
    mine.match_prefix([1, 2, 5])
    mine.insert([4], [1])
    mine.evict(1)


FOUND = (
    [7, 8], ([7], object()), [], (2, None), [object()], 3, SimpleNamespace(slots=[7, 8]), SimpleNamespace(pages=[7, 8]),
)  # fmt: skip


@filmed(lambda: (Mine(Node([1, 2], [7, 8])), OwnPool()))
def a_learners_verb_may_return_anything(mine, pool, film):
    for mine.found in FOUND:
        mine.match_prefix([1, 2, 3])
    mine.evict(0)
    pool.alloc(1)
    for page in (1, 2):
        pool.take(page)
    pool.free([1, 2])


SHARED = Node([3], [2])


@filmed(lambda: Mine(Node([1], [0], [SHARED]), Node([2], [1], [SHARED, Node([4], [3])])))
def a_child_with_two_parents_is_shown_once(mine, film):
    mine.match_prefix([])


@filmed(lambda: Mine(Node([1], [0], id=0), Node([2], [1], id=0)))
def ids_that_are_not_unique_are_not_believed(mine, film):
    mine.match_prefix([])


class Refusing(FreeListPool):
    def alloc(self, num_pages):
        raise ValueError("there is no room " * num_pages)


@filmed(lambda: Refusing(2))
def an_error_is_told_and_a_long_one_is_cut(pool, film):
    refused(pool.alloc, 1)
    refused(pool.alloc, 99)


class Rows:
    """A sequence is whatever has slots."""

    def __init__(self):
        self.slots = []

    def extend_by(self, slots):
        self.slots = [*self.slots, *slots]

    def peek(self):
        return self.slots[-1]


@filmed(lambda: (FreeListPool(4), Rows()))
def a_sequence(pool, sequence, film):
    sequence.extend_by(pool.alloc(2))
    sequence.peek()


# A tree, and what it is after one operation: each token @ its slot, > a child, + a neighbor.
AFTERWARDS = {
    "a split that keeps neither node": ("1@0 2@1 3@2", "1@0 2@1 > 3@2"),
    "a node that was only built again": ("1@0 2@1", "1@0 2@1"),
    "a split whose lower part went at once": ("1@0 2@1 3@2", "1@0 2@1"),
    "a slot with another token is another node": ("1@0 2@1", "7@0 8@1"),
    "a join behind a new leaf": ("1@0 2@1 > 3@2", "1@0 2@1 3@2 4@3"),
    "a slot that holds another token was not joined": ("1@0 2@1 > 3@2", "7@0 8@1 3@2"),
    "a split whose lower part was cut short": ("n1 1@0 2@1 3@2 4@3", "n2 1@0 2@1 > n1 3@2"),
    "a node above another, which was cut short": ("n1 1@0 2@1", "n2 9@2 > n1 2@1"),
    "a leaf that moved into the node above it": ("n1 1@0 > n2 2@1", "n1 1@0 2@1"),
    "a split and a join at once": ("n1 1@0 2@1 > n2 3@2 4@3", "n3 1@0 2@1 3@2 > n2 4@3"),
    "an edge that grew": ("n1 1@0", "n1 1@0 2@1"),
    "an edge that is another": ("n1 1@0", "n1 7@0 8@1"),
    "a path that became one edge": ("n1 1@0 2@1 > n2 3@2", "n2 1@0 2@1 3@2"),
    "an eviction beside a join": (
        "n1 1@0 2@1 > n2 3@2 + n3 9@3", "n2 1@0 2@1 3@2"),
    "a ghost whose parent is another node now": ("1@0 2@1 > 3@2", "1@0 > 2@1"),
}  # fmt: skip


def nodes_in(text):
    top = parent = node = Node()
    for sign, key, pairs in re.findall(r"([>+]?) ?(?:n(\d+) )?((?:\d+@\d+ ?)+)", text):
        parent = node if sign == ">" else parent
        tokens, slots = zip(*(map(int, one.split("@")) for one in pairs.split()))
        node = Node(tokens, slots, **({"id": int(key)} if key else {}))
        parent.children.append(node)
    return top.children


def afterwards(before, after):
    mine = Mine(*nodes_in(before))
    vars(mine.root).update({"id": 0} if "n" in before else {})
    mine.evict = lambda count: setattr(mine.root, "children", nodes_in(after)) or 0
    return mine


for name, trees in AFTERWARDS.items():
    FILMS[name] = filmed(lambda trees=trees: afterwards(*trees))(lambda mine, film: mine.evict(1))
del FILMS["<lambda>"]
