"""Chapters 06 and 07: how keys and values are moved, and the life of a request from its start to its release.

`CacheManager` works with the pool of chapter 02 and the cache of chapters 04 and 05.

Their twins in the package, faster and complete:

    Sequence        minikv.manager.Sequence
    CacheManager    minikv.manager.CacheManager
"""

from minikv.engine.ch01_02_pool import Pool
from minikv.engine.ch04_05_cache import RadixCache, admit, make_room


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


# %% 6.2 gather
def gather(rows, found, room):
    """Return the rows of the runs in `found`, in order, as one tensor.

    One run is a slice of `rows`. Several are copied to the beginning of `room`.
    """
    if len(found) == 1:
        start, length = found[0]
        return rows[start : start + length]
    end = 0
    for start, length in found:
        room[end : end + length] = rows[start : start + length]
        end += length
    return room[:end]


# %% 6.3 boxes
def boxes(layout, slots, num_layers, num_slots):
    """Return the numbers of all boxes that hold keys and values of `slots`, sorted."""
    found = []
    for slot in slots:
        for plane in range(2 * num_layers):
            if layout == "page":
                found.append(slot * 2 * num_layers + plane)
            else:
                found.append(plane * num_slots + slot)
    return sorted(found)


# %% 6.4 load_or_compute
def load_or_compute(num_tokens, token_bytes, link, token_flops, attention_flops, speed, latency=0):
    """Return the faster way to bring evicted tokens back, "load" or "compute".

    `link` is in bytes per second, `speed` in FLOPs per second, `latency` in seconds.
    """
    load = latency + num_tokens * token_bytes / link
    flops = num_tokens * token_flops + num_tokens**2 * attention_flops
    return "load" if load < flops / speed else "compute"


# %% given 7
from minikv import pack
from minikv.engine.shells import ManagerShell, SequenceShell


class Sequence(SequenceShell):
    """A request: its tokens and the row of pages that hold their keys and values."""

    def __init__(self, tokens, namespace=None):
        super().__init__()
        self.tokens, self.namespace = pack(tokens), namespace
        self.row = []  # the page of each run of tokens: first the cache's, then its own
        self.handle = None  # its lock on the cache's pages
        self.shared = 0  # how many tokens are in the cache's pages
        self.computed = 0  # how many tokens have keys and values


class CacheManager(ManagerShell):
    """A pool, a cache and the requests that use both."""

    def __init__(self, num_pages, page_size=1, store=None):
        super().__init__(num_pages, page_size, store)
        self.pool, self.cache = Pool(num_pages), RadixCache(page_size)

    def make_room(self, num_pages):
        make_room(self.cache, self.pool, num_pages)

    def start(self, tokens, *, namespace=None, spare=0):
        sequence = start(self, self.prompt(tokens), namespace)
        return self.started(sequence, spare)

    def extend(self, sequence, tokens):
        self.require(sequence)
        extend(self, sequence, pack(tokens))

    def truncate(self, sequence, length):
        self.require(sequence)
        truncate(self, sequence, self.allowed(sequence, length))

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

    def check(self):
        self.audit(owners(self))


# %% given 7
def start(manager, tokens, namespace=None):
    """Admit a request and give it a row: first the pages it found, then its own."""
    found, own = admit(manager.cache, manager.pool, tokens, namespace)
    sequence = Sequence(tokens, namespace)
    sequence.row = [*found.pages.tolist(), *own]
    sequence.handle = found
    sequence.shared = sequence.computed = found.length
    manager.running.append(sequence)
    return sequence


# %% 7.1 checkpoint
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


# %% given 7
def release(manager, sequence):
    """Give back the lock and every page of the request's own, exactly once."""
    manager.running.remove(sequence)
    manager.pool.free(sequence.row[sequence.shared // manager.page_size :])
    manager.cache.unlock(sequence.handle)


# %% given 7
def extend(manager, sequence, tokens):
    """Append `tokens` to the sequence; allocate the pages that they need."""
    longer = sequence.tokens + tokens
    needed = manager.pages_for(len(longer)) - len(sequence.row)
    manager.make_room(needed)
    sequence.row += manager.pool.alloc(needed)
    sequence.tokens = longer


# %% 7.2 truncate
def truncate(manager, sequence, length):
    """Keep the first `length` tokens; give back the pages that have none of them."""
    keep = manager.pages_for(length)
    manager.pool.free(sequence.row[keep:])
    sequence.row = sequence.row[:keep]
    sequence.tokens = sequence.tokens[:length]
    sequence.computed = min(sequence.computed, length)


# %% 7.3 owners
def owners(manager):
    """Return the list of owners of each page: one per page if all is well."""
    found = [[] for _ in range(manager.num_pages)]
    for page in range(manager.num_pages):
        if manager.pool.is_free(page):
            found[page].append("the pool")
    for node in manager.cache.nodes():
        for page in node.slots:
            found[page].append("the cache")
    for sequence in manager.running:
        for page in sequence.row[sequence.shared // manager.page_size :]:
            found[page].append(f"request {sequence.number}")
    return found
