"""Chapters 04 and 05: the locks that protect what is in use, and the ring that sets the eviction order.

From here on, pages are the unit: a tree over pages of 16 tokens is the same tree, whose "tokens" are tuples of 16,
with one number for each. The engine does not claim rule 14 of the contract: it never joins nodes.

Their twins in the package, faster and complete:

    RadixCache    minikv.prefix.RadixCache
    Ring          minikv.prefix.eviction.LeastRecentlyUsed
"""

from minikv.engine.ch03_tree import Node, insert, match, pages_of, walk

# isort: split
# %% given 4
from array import array

from minikv import LockError, OutOfPages
from minikv.engine.shells import CacheShell
from minikv.prefix.contract import Insertion, Match


class RadixCache(CacheShell):
    """A prefix cache made of the pieces; a page is a "token" of the tree, with one number."""

    def clear(self):
        super().clear()
        self.roots, self.ring = {None: Node([], [])}, Ring()
        self.evictable = self.protected = 0  # in pages

    def match_prefix(self, tokens, *, limit=None, namespace=None):
        end, pages = match(self.root_of(namespace), self.pages_of(tokens, limit))
        touch(self.ring, end)
        parts = [array("i", pages).tobytes()]
        return Match(self.epoch, end, len(pages) * self.page_size, namespace, None, parts)

    def acquire(self, tokens, *, limit=None, namespace=None):
        found = self.match_prefix(tokens, limit=limit, namespace=namespace)
        self.lock(found)
        return found

    def insert(self, tokens, pages, *, namespace=None, start=None):
        keys, root, size = self.pages_of(tokens), self.root_of(namespace), self.page_size
        numbers = self.numbers(pages, tokens, start)
        if start is not None and start.length:
            end, _ = walk(root, keys[: start.length // size])
            if end is not start.node:
                raise ValueError(f"start is {start}: it must be a locked prefix of the tokens, in their namespace")
        self.roots[namespace] = root
        end, there = insert(root, keys, numbers)
        self.evictable += len(keys) - there
        touch(self.ring, end)
        return Insertion(self.epoch, end, len(keys) * size, namespace, prefix_length=there * size)

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

    def give_receipt_back(self, handle):
        self.require(handle)
        return_receipt(self.held, handle)

    def cut(self, tokens):
        """The whole pages of `tokens`; with pages of one token, the tokens themselves."""
        return tokens if self.page_size == 1 else pages_of(tokens, self.page_size)

    def recounted(self):
        """The evictable and the protected pages, counted node by node."""
        return tuple(map(sum, zip(*map(recount, self.roots.values()))))


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


# %% 4.3 recount
def recount(root):
    """Count the evictable and the protected tokens below `root`; return both."""
    evictable, protected = 0, 0
    nodes = list(root.children.values())
    while nodes:
        node = nodes.pop()
        nodes += node.children.values()
        if node.locks > 0:
            protected += len(node.tokens)
        else:
            evictable += len(node.tokens)
    return evictable, protected


# %% 4.5 pages_needed
def pages_needed(length, found, size):
    """The pages that `length` tokens need if `found` of these tokens are cached."""
    pages = (length + size - 1) // size
    return pages - found // size


# %% 4.6 admit
def admit(cache, pool, tokens, namespace=None):
    """Lock what is cached of all but the last token, and take pages for the rest.

    Return both; if there is no room, give the lock back and raise OutOfPages.
    """
    found = cache.acquire(tokens, limit=len(tokens) - 1, namespace=namespace)
    size = cache.page_size
    needed = pages_needed(len(tokens), found.length, size)
    evictable = cache.evictable_size // size
    if needed > pool.num_free + evictable:
        cache.unlock(found)
        raise OutOfPages(needed, pool.num_free, evictable)
    if needed > pool.num_free:
        pool.free(cache.evict((needed - pool.num_free) * size))
    return found, pool.alloc(needed)


# %% 4.7 serve
def serve(cache, pool, prompt):
    """Admit and cache `prompt`, free duplicate slots, return a lock on all of it."""
    found, own = admit(cache, pool, prompt)
    row = [*found.slots, *own]
    done = cache.insert(prompt, row)
    pool.free(row[found.length : done.prefix_length])
    held = cache.acquire(prompt)
    cache.unlock(found)
    return held


# %% 4.8 return_receipt
def return_receipt(held, handle):
    """Note that `handle` holds one lock fewer; raise a LockError if it holds none."""
    if handle not in held:
        raise LockError(f"the handle of length {handle.length} holds no lock")
    held[handle] -= 1
    if held[handle] == 0:
        del held[handle]


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
    """Remove the oldest leaves, at least `num_pages` pages in all; return the pages."""
    freed = []
    while len(freed) < num_pages and cache.ring.newer is not cache.ring:
        leaf = cache.ring.newer
        unlink(leaf)
        del leaf.parent.children[leaf.tokens[0]]
        cache.evictable -= len(leaf.tokens)
        freed += leaf.slots
    return freed


# %% given 5
def in_order(ring):
    """Return a list of the nodes in the ring, from the oldest to the newest."""
    found, node = [], ring.newer
    while node is not ring:
        found.append(node)
        node = node.newer
    return found


# %% 5.5 out_of_order
def out_of_order(ring):
    """Return the oldest node that comes before one of its children, or None."""
    passed = set()
    for node in in_order(ring):
        for child in node.children.values():
            if child not in passed:
                return node
        passed.add(node)
    return None


# %% 5.6 make_room
def make_room(cache, pool, num_pages):
    """Evict until `num_pages` pages are free, or raise OutOfPages and evict nothing."""
    missing = num_pages - pool.num_free
    if missing > cache.evictable:
        raise OutOfPages(num_pages, pool.num_free, cache.evictable)
    if missing > 0:
        pool.free(cache.evict(missing * cache.page_size))
