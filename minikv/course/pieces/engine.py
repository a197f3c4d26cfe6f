"""The engine that the learner builds: the classes that the chapters show, and the pieces, as we would write them.

A section begins with `# %%`. Those of pieces ("3.1 split") are printed by `solution`, run where the learner's own is
not right yet, and say what is expected. Those that are given ("given 3") join them. `my_minikv.py` is this file with
the learner's pieces in it. A section calls the others as globals, so whatever stands there now is what runs.

Pages are the unit from chapter 04 on: a tree over pages of 16 tokens is the same tree, whose "tokens" are tuples of
16, with one number for each. The engine makes no claim to rule 14 of the contract: it joins nothing.
"""
# A later chapter may replace a piece of an earlier one, as chapter 04 does with `split`, which is to keep locks.


# %% 1.1 bytes_per_token
def bytes_per_token(layers, kv_heads, head_dim, tp=1, number_bytes=2):
    """The bytes of one token's keys and values on each of `tp` GPUs."""
    if kv_heads % tp and tp % kv_heads:
        raise ValueError(f"{kv_heads} KV heads do not divide among {tp} GPUs")
    heads = max(1, kv_heads // tp)
    return layers * 2 * heads * head_dim * number_bytes


# %% 1.2 pages_that_fit
def pages_that_fit(memory, percent, weights, activations, graphs, page_bytes):
    """How many whole pages fit; raise a MemoryError if there is no room for one."""
    left = memory * percent // 100 - weights - activations - graphs
    pages = left // page_bytes
    if pages < 1:
        raise MemoryError(f"{left} bytes are left, and a page takes {page_bytes}")
    return pages


# %% given 2
from array import array

from minikv import OutOfPages, pack
from minikv.course.pieces.shell import CacheShell, ManagerShell, SequenceShell


class Pool:
    """Which pages are free: a stack of them, and a mark for each page in use."""

    def __init__(self, size):
        self.size = size
        self.stack = list(range(size))[::-1]  # the top is the end, so page 0 goes first
        self.in_use = [False] * size

    @property
    def num_free(self):
        return len(self.stack)

    def is_free(self, page):
        return not self.in_use[page]

    def alloc(self, count):
        return alloc(self, count)

    def free(self, pages):
        free(self, pages)


# %% 2.1 alloc
def alloc(pool, count):
    """Take `count` pages off the stack, or raise a MemoryError and take none."""
    if count > len(pool.stack):
        raise MemoryError(f"{count} pages wanted, {len(pool.stack)} free")
    pages = [pool.stack.pop() for _ in range(count)]
    for page in pages:
        pool.in_use[page] = True
    return pages


# %% 2.2 guard
def guard(pool, pages):
    """The first of `pages` that must not be given back, or None if all of them may."""
    seen = set()
    for page in pages:
        if page in seen or not 0 <= page < pool.size or not pool.in_use[page]:
            return page
        seen.add(page)
    return None


# %% 2.3 free
def free(pool, pages):
    """Give all `pages` back, the first one on top, or raise a ValueError."""
    wrong = guard(pool, pages)
    if wrong is not None:
        raise ValueError(f"page {wrong} cannot be given back")
    for page in reversed(pages):
        pool.in_use[page] = False
        pool.stack.append(page)


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

    The ring itself closes it: `ring.newer` was used longest ago, `ring.older` just now.
    """

    def __init__(self):
        self.older = self.newer = self


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


# %% 6.1 runs
def runs(slots):
    """The runs of consecutive slots, in order: (start, length) for each."""
    found = []
    for slot in slots:
        if found and slot == sum(found[-1]):
            start, length = found[-1]
            found[-1] = (start, length + 1)
        else:
            found.append((slot, 1))
    return found


# %% 6.2 moves
def moves(src, dst):
    """The fewest moves, (from, to) each, that copy `src` to `dst` as if read at once.

    A slot that must be saved is moved to "spare", the one spare slot, and on from it.
    """
    comes_from = {to: at for at, to in zip(src, dst) if at != to}
    order = []
    while comes_from:
        ready = [slot for slot in comes_from if slot not in comes_from.values()]
        if ready:
            to = ready[0]
            at = comes_from.pop(to)
        else:
            at, to = next(iter(comes_from)), "spare"
        order.append((at, to))
        for reader in comes_from:
            if comes_from[reader] == at:
                comes_from[reader] = to
    return order


# %% 6.3 load_or_compute
def load_or_compute(num_tokens, token_bytes, link, token_flops, attention_flops, speed, latency=0):
    """What brings `num_tokens` evicted tokens back sooner: "load" or "compute".

    `link` is in bytes a second, `speed` in FLOPs a second, `latency` in seconds.
    """
    load = latency + num_tokens * token_bytes / link
    flops = num_tokens * token_flops + num_tokens**2 * attention_flops
    return "load" if load < flops / speed else "compute"


# %% given 7
class Sequence(SequenceShell):
    """A request: its tokens, and the row of pages in which their keys and values lie."""

    def __init__(self, tokens, namespace=None):
        super().__init__()
        self.tokens, self.namespace = pack(tokens), namespace
        self.row = []  # the page of each run of tokens: first the cache's, then its own
        self.handle = None  # its lock on the cache's pages
        self.shared = 0  # how many tokens lie in the cache's pages
        self.computed = 0  # how many tokens have keys and values


class CacheManager(ManagerShell):
    """A pool, a cache and the requests that run on both."""

    def __init__(self, num_pages, page_size=1, store=None):
        super().__init__(num_pages, page_size, store)
        self.pool, self.cache = Pool(num_pages), RadixCache(page_size)

    def start(self, tokens, *, namespace=None, spare=0):
        sequence = start(self, self.prompt(tokens), namespace)
        return self.started(sequence, spare)

    def extend(self, sequence, tokens):
        self.require(sequence)
        longer = sequence.tokens + pack(tokens)
        needed = self.pages_for(len(longer)) - len(sequence.row)
        self.make_room(needed)
        sequence.row += self.pool.alloc(needed)
        sequence.tokens = longer

    def checkpoint(self, sequence):
        self.require(sequence)
        if sequence.computed // self.page_size * self.page_size > sequence.shared:
            checkpoint(self, sequence)

    def finish(self, sequence):
        self.checkpoint(sequence)
        self.end(sequence, "finished")

    def abort(self, sequence):
        self.end(sequence, "aborted")

    def end(self, sequence, state):
        self.require(sequence)
        release(self, sequence)
        sequence.row, sequence.state = [], state


# %% 7.1 start
def start(manager, tokens, namespace=None):
    """Admit a request and give it a row: first the pages it found, then its own."""
    found, own = admit(manager.cache, manager.pool, tokens, namespace)
    sequence = Sequence(tokens, namespace)
    sequence.row = [*found.pages.tolist(), *own]
    sequence.handle = found
    sequence.shared = sequence.computed = found.length
    manager.running.append(sequence)
    return sequence


# %% 7.2 checkpoint
def checkpoint(manager, sequence):
    """Publish the computed whole pages, and read them from the cache from now on."""
    size, namespace = manager.page_size, sequence.namespace
    pages = sequence.computed // size
    tokens = sequence.tokens[: pages * size]
    done = manager.cache.insert(tokens, sequence.row[:pages], namespace=namespace)
    found = manager.cache.acquire(tokens, namespace=namespace)
    duplicates = sequence.row[sequence.shared // size : done.prefix_length // size]
    sequence.row[:pages] = found.pages.tolist()
    manager.pool.free(duplicates)
    manager.cache.unlock(sequence.handle)
    sequence.handle, sequence.shared = found, found.length


# %% 7.3 release
def release(manager, sequence):
    """The one way out: give back the lock and every page of its own, each once."""
    manager.running.remove(sequence)
    manager.pool.free(sequence.row[sequence.shared // manager.page_size :])
    manager.cache.unlock(sequence.handle)


# %% given 8
import torch

from minikv import serving
from minikv.course.pieces.serving_shell import AttentionShell


class SlotAttention(AttentionShell):
    """The attention of one step, chunk by chunk: each reads its whole past through its slots."""

    def __call__(self, layer, q, k, v):
        parts = []
        for rows, slots in self.chunks:
            keys, values = self.read(layer, slots, q)
            parts.append(attention(q[rows], keys, values))
        return self.together(parts)


class Scheduler(serving.Scheduler):
    """The package's scheduler, which takes the shares of a step from `schedule` and calls `preempt`."""

    def share(self, left, budget):
        return schedule(left, budget)

    def preempt(self):
        preempt(self).preemptions += 1


# %% 8.1 attention
def attention(q, keys, values):
    """What the last `len(q)` tokens of a sequence attend to, each up to itself.

    `q` is (new tokens, heads, dim), `keys` and `values` are (all tokens, heads, dim).
    """
    new, length, dim = len(q), len(keys), q.shape[-1]
    scores = torch.einsum("qhd,khd->hqk", q, keys) / dim**0.5
    position = torch.arange(length - new, length)
    hidden = torch.arange(length) > position[:, None]
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return torch.einsum("hqk,khd->qhd", weights, values)


# %% 8.2 schedule
def schedule(left, budget):
    """How many of the `left` tokens of each request the next step computes."""
    counts = [0] * len(left)
    decoding = [i for i in range(len(left)) if left[i] == 1]
    reading = [i for i in range(len(left)) if left[i] > 1]
    for i in decoding + reading:
        counts[i] = min(left[i], budget)
        budget -= counts[i]
    return counts


# %% 8.3 preempt
def preempt(scheduler):
    """Let the youngest running request wait again, at the front; return it."""
    youngest = scheduler.running.pop()
    scheduler.manager.finish(youngest.sequence)
    youngest.sequence = None
    scheduler.waiting.insert(0, youngest)
    return youngest
