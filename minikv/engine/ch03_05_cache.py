"""Chapters 03 to 05: the radix tree, the locks that protect what is in use, and the ring that says what goes first.

Pages are the unit from chapter 04 on: a tree over pages of 16 tokens is the same tree, whose "tokens" are tuples of
16, with one number for each. The engine makes no claim to rule 14 of the contract: it joins nothing. Chapter 04
replaces the `split` of chapter 03, to keep locks.
"""


# %% given 3
class Node:
    """One edge of the tree and the node at its end: a run of tokens, and a slot for each of them."""

    def __init__(self, tokens, slots, parent=None):
        self.tokens, self.slots, self.parent = tokens, slots, parent
        self.children = {}  # first token of the child -> the child
        self.locks = 0  # how many locks pass through (chapter 04)
        self.older = self.newer = self  # its neighbors in the ring (chapter 05)


def common(a, b):
    """How many tokens at the beginning of `a` and `b` are equal."""
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    return same


# %% 3.1 split
def split(node, at):
    """Cut the edge of `node` after `at` tokens; return the new upper node."""
    upper = Node(node.tokens[:at], node.slots[:at], node.parent)
    upper.parent.children[upper.tokens[0]] = upper
    node.tokens, node.slots = node.tokens[at:], node.slots[at:]
    node.parent = upper
    upper.children[node.tokens[0]] = node
    return upper


# %% 3.2 walk
def walk(root, tokens):
    """The node where `tokens` leave the tree, and how many of them were followed."""
    node, at = root, 0
    while at < len(tokens) and tokens[at] in node.children:
        child = node.children[tokens[at]]
        same = common(child.tokens, tokens[at : at + len(child.tokens)])
        at += same
        if same < len(child.tokens):
            return split(child, same), at
        node = child
    return node, at


# %% 3.3 insert
def insert(root, tokens, slots):
    """Cache `tokens`; return the node where they end, and how many were there."""
    node, there = walk(root, tokens)
    if there < len(tokens):
        leaf = Node(tokens[there:], slots[there:], node)
        node.children[tokens[there]] = leaf
        node = leaf
    return node, there


# %% 3.4 match
def match(root, tokens):
    """The node where the cached prefix of `tokens` ends, and its slots in order."""
    end, _ = walk(root, tokens)
    runs, node = [], end
    while node.parent is not None:
        runs.append(node.slots)
        node = node.parent
    return end, [slot for run in reversed(runs) for slot in run]


# %% given 4
from array import array

from minikv import OutOfPages
from minikv.engine.cache_shell import CacheShell


class RadixCache(CacheShell):
    """A prefix cache made of the pieces; a page is a "token" of the tree, with one number."""

    def clear(self):
        super().clear()
        self.roots, self.ring = {None: Node([], [])}, Ring()
        self.evictable = self.protected = 0  # in pages

    def match_prefix(self, tokens, *, limit=None, namespace=None):
        end, pages = match(self.root_of(namespace), self.pages_of(tokens, limit))
        touch(self.ring, end)
        return self.matched(end, pages, namespace)

    def acquire(self, tokens, *, limit=None, namespace=None):
        found = self.match_prefix(tokens, limit=limit, namespace=namespace)
        self.lock(found)
        return found

    def insert(self, tokens, pages, *, namespace=None, start=None):
        keys, root = self.pages_of(tokens), self.root_of(namespace, keep=True)
        end, there = insert(root, keys, self.numbers(pages, tokens, start, namespace))
        self.evictable += len(keys) - there
        touch(self.ring, end)
        return self.inserted(end, keys, there, namespace)

    def lock(self, handle):
        self.take_receipt(handle)
        lock(self, handle.node)

    def unlock(self, handle):
        self.give_receipt_back(handle)
        unlock(self, handle.node)
        touch(self.ring, handle.node)

    def protect(self, node):
        """The pages of `node` may not be evicted from now on."""
        self.evictable -= len(node.tokens)
        self.protected += len(node.tokens)
        unlink(node)

    def expose(self, node):
        """The pages of `node` may be evicted from now on."""
        self.protected -= len(node.tokens)
        self.evictable += len(node.tokens)
        link(self.ring, node)

    def evict(self, num_tokens):
        return array("i", evict(self, self.pages_for(num_tokens)))


# %% 4.1 lock
def lock(cache, node):
    """Lock the path from `node` up; tell `cache.protect` which nodes had no lock."""
    while node.parent is not None:
        node.locks += 1
        if node.locks == 1:
            cache.protect(node)
        node = node.parent


# %% 4.2 unlock
def unlock(cache, node):
    """Unlock the path from `node` up; tell `cache.expose` which have no lock left."""
    while node.parent is not None:
        node.locks -= 1
        if node.locks == 0:
            cache.expose(node)
        node = node.parent


# %% 4.3 split
def split(node, at):
    """Cut the edge of `node` after `at` tokens; return the upper node, locked alike."""
    upper = Node(node.tokens[:at], node.slots[:at], node.parent)
    upper.parent.children[upper.tokens[0]] = upper
    node.tokens, node.slots = node.tokens[at:], node.slots[at:]
    node.parent = upper
    upper.children[node.tokens[0]] = node
    upper.locks = node.locks
    return upper


# %% 4.4 admit
def admit(cache, pool, tokens, namespace=None):
    """Lock what is cached of all but the last token, and take pages for the rest.

    Return both; if there is no room, give the lock back and raise OutOfPages.
    """
    found = cache.acquire(tokens, limit=len(tokens) - 1, namespace=namespace)
    size = cache.page_size
    needed = -(-len(tokens) // size) - found.length // size
    evictable = cache.evictable_size // size
    if needed > pool.num_free + evictable:
        cache.unlock(found)
        raise OutOfPages(needed, pool.num_free, evictable)
    if needed > pool.num_free:
        pool.free(cache.evict((needed - pool.num_free) * size))
    return found, pool.alloc(needed)


# %% given 5
class Ring:
    """The unlocked nodes in a circle, from the least to the most recently used.

    The ring closes it: `ring.newer` is the least recently used node, `ring.older` the most.
    """

    def __init__(self):
        self.older = self.newer = self

    def first_wrong(self):
        return out_of_order(self)


# %% 5.1 link
def link(ring, node):
    """Put `node` at the end of the ring: it is the most recently used."""
    last = ring.older
    last.newer, node.older = node, last
    node.newer, ring.older = ring, node


# %% 5.2 unlink
def unlink(node):
    """Take `node` out of its ring, without a search; do nothing if it is in none."""
    node.older.newer, node.newer.older = node.newer, node.older
    node.older = node.newer = node


# %% 5.3 touch
def touch(ring, node):
    """Move the unlocked nodes from `node` up to the end, a child before its parent."""
    while node.parent is not None:
        if node.locks == 0:
            unlink(node)
            link(ring, node)
        node = node.parent


# %% 5.4 evict
def evict(cache, num_pages):
    """Remove the oldest leaves, `num_pages` pages or more in all; return the pages."""
    freed = []
    while len(freed) < num_pages and cache.ring.newer is not cache.ring:
        leaf = cache.ring.newer
        unlink(leaf)
        del leaf.parent.children[leaf.tokens[0]]
        cache.evictable -= len(leaf.tokens)
        freed += leaf.slots
    return freed


# %% 5.7 in_order
def in_order(ring):
    """Return a list of the nodes in the ring, from the oldest to the newest."""
    found, node = [], ring.newer
    while node is not ring:
        found.append(node)
        node = node.newer
    return found


# %% 5.8 out_of_order
def out_of_order(ring):
    """Return the oldest node that comes before one of its children, or None."""
    passed = set()
    for node in in_order(ring):
        for child in node.children.values():
            if child not in passed:
                return node
        passed.add(node)
    return None


# %% 5.9 make_room
def make_room(cache, pool, num_pages):
    """Evict until `num_pages` pages are free, or raise OutOfPages and evict nothing."""
    missing = num_pages - pool.num_free
    if missing > cache.evictable:
        raise OutOfPages(num_pages, pool.num_free, cache.evictable)
    if missing > 0:
        pool.free(cache.evict(missing * cache.page_size))
