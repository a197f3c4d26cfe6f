"""Chapter 14: a second tier in host memory, what is copied out to it, and what is loaded back.

The index is a dictionary as in chapter 10: the key of a block stands for everything up to the end of the block. The
bytes of a block are its key, so a read can say whose they are.

Its twin in the package, faster and complete:

    Tiers    minikv.prefix.TieredCache
"""

from minikv.engine.ch01_02_pool import Pool
from minikv.engine.ch06_07_manager import load_or_compute

# isort: split
# %% given 14
from minikv import InvariantError
from minikv.engine.ch09_10_rows_and_blocks import longest_hit


class Block:
    """A page of tokens, and where its keys and values are."""

    def __init__(self, key, parent=None):
        self.key, self.parent, self.children = key, parent, {}
        self.device = self.host = None  # its page on the device, and in host memory
        self.locks = self.host_locks = 0  # who reads or writes these pages now
        self.hits = 0  # how many requests have used it

    @property
    def tokens(self):
        return [self.key[-1]] if isinstance(self.key, str) else [self.key]

    @property
    def note(self):
        places = "D" * (self.device is not None) + "H" * (self.host is not None)
        return places + f", host locks: {self.host_locks}" * (self.host_locks != 0)


class Tiers:
    """Blocks on the device and in host memory, each tier in order of use, the oldest first."""

    def __init__(self, device_pages, host_pages, write="write_back", worth=None, hot=2):
        self.device, self.host = Pool(device_pages), Pool(host_pages)
        self.bytes_on_device, self.bytes_in_host = {}, {}  # page -> key
        self.root, self.blocks = Block(None), {}  # key -> block
        self.moves = {}  # block -> the host page that it is loaded from
        self.on_device, self.in_host = {}, {}  # the blocks of each tier, as keys of a dictionary
        self.write, self.worth, self.hot = write, worth, hot
        self.found = self.loaded = self.computed = self.copied = self.stalled = 0  # blocks

    def serve(self, keys):
        """Serve a request; return how many blocks it found, loaded and computed."""
        path = self.find(keys)
        near = [block for block in path if block.device is not None]
        for block in near:
            block.locks += 1
        self.use(path, self.on_device, self.in_host)
        is_worth = self.worth is None or self.worth(len(path) - len(near), len(near))
        coming = load_back(self, path) if is_worth and len(path) > len(near) else []
        rest = keys[len(near) + len(coming) :]
        pages = self.take(len(rest))
        self.arrive(coming)
        path = near + coming + self.compute(rest, pages, [self.root, *near, *coming][-1])
        for block in near:
            self.read(block)
            block.locks -= 1
        self.use(path, self.on_device, self.in_host)
        self.after_use(path, len(rest))
        counts = len(near), len(coming), len(rest)
        self.found, self.loaded, self.computed = map(sum, zip(self.totals, counts))
        return counts

    @property
    def totals(self):
        return self.found, self.loaded, self.computed

    def find(self, keys):
        """The blocks of a prompt that are cached: first those on the device, then those only in host memory."""
        return longest_hit(self.blocks, keys)

    def use(self, path, *tiers):
        """The blocks of `path` are the newest of these tiers now, a parent newer than its child."""
        for block in reversed(path):
            for tier in tiers:
                if block in tier:
                    tier[block] = tier.pop(block)

    def compute(self, keys, pages, parent):
        """Compute the blocks of `keys` into `pages`; return them."""
        made = []
        for key, page in zip(keys, pages):
            block = self.blocks.setdefault(key, Block(key, parent))
            parent.children[key] = parent = block
            self.bytes_on_device[page] = key
            block.device, self.on_device[block] = page, None
            made.append(block)
        return made

    def after_use(self, path, computed):
        """Copy out what the write policy says, after a request used `path` and computed so many blocks of it."""
        hot = {"write_back": float("inf"), "write_through": 1}.get(self.write, self.hot)
        for block in path:
            block.hits += 1
        wanted = [block for block in path if block.hits >= hot]
        if wanted:
            self.copied += copy_out(self, wanted)
            self.use(wanted, self.in_host)

    def take(self, count):
        """Take `count` device pages, or as many as there are; evict to make room."""
        missing = count - self.device.num_free
        free = (block for block in self.on_device if not block.locks)
        victims = [block for block, _ in zip(free, range(missing))]
        ends = set(victims) - {block.parent for block in victims}
        for block in victims:
            if self.write == "write_back" and block in ends:
                path = path_to(block)
                copies = copy_out(self, path)
                self.copied, self.stalled = self.copied + copies, self.stalled + copies
                self.use(path, self.in_host)
        for block in victims:
            self.device.free([block.device])
            block.device = None
            del self.on_device[block]
            self.forget(block)
        return list(self.device.alloc(min(count, self.device.num_free)))

    def host_page(self):
        """A free page of host memory, for which a victim may have to go; None if there is none."""
        if self.host.num_free == 0:
            victim = host_victim(self.in_host)
            if victim is None:
                return None
            self.drop(victim)
        return self.host.alloc(1)[0]

    def drop(self, block):
        """Take a block out of host memory."""
        self.host.free([block.host])
        block.host = None
        del self.in_host[block]
        self.forget(block)

    def forget(self, block):
        """Leave out a block that is in neither tier."""
        is_known = self.blocks.get(block.key) is block
        if is_known and block.device is None and block.host is None:
            del self.blocks[block.key], block.parent.children[block.key]

    def copy(self, block, page):
        """Copy a block from the device to this page of host memory."""
        self.bytes_in_host[page] = self.bytes_on_device[block.device]
        block.host, self.in_host[block] = page, None

    def start(self, block, page):
        """Begin to copy a block to this page of the device; `arrive` says that it is there."""
        if block.host is None:
            raise InvariantError(f"block {block.key!r} is being loaded, but it is no longer in host memory")
        self.moves[block], block.device = block.host, page

    def arrive(self, coming):
        """The bytes of some blocks arrive on the device: from now on nobody reads their host pages."""
        for block in coming:
            self.bytes_on_device[block.device] = self.bytes_in_host[self.moves.pop(block)]
            self.on_device[block] = None
            block.host_locks -= 1
            self.read(block)

    def read(self, block):
        """Read a block on the device; raise an error if the bytes are not its own."""
        found = self.bytes_on_device[block.device]
        if found != block.key:
            raise InvariantError(f"block {block.key!r} was read, but its page has the bytes of {found!r}")


def path_to(block):
    """All blocks of the prefix that ends with `block`, from the first on."""
    path = []
    while block.parent is not None:
        path.append(block)
        block = block.parent
    return path[::-1]


# %% 14.1 worth_loading
def worth_loading(num_tokens, cached, token_bytes, link, token_flops, attention_flops, speed):
    """Return whether loading `num_tokens` tokens after `cached` ones is faster."""
    flops = token_flops + 2 * cached * attention_flops
    return load_or_compute(num_tokens, token_bytes, link, flops, attention_flops, speed) == "load"


# %% 14.2 host_victim
def host_victim(in_host):
    """Return the oldest block that may leave host memory, or None."""
    for block in in_host:
        is_needed = any(child.host is not None for child in block.children.values())
        if not block.host_locks and not is_needed:
            return block
    return None


# %% 14.3 copy_out
def copy_out(tiers, path):
    """Copy the blocks of `path` that host memory lacks; return how many."""
    copied = 0
    for block in path:
        block.host_locks += 1
    for block in path:
        if block.host is None:
            page = tiers.host_page()
            if page is None:
                break
            tiers.copy(block, page)
            copied += 1
    for block in path:
        block.host_locks -= 1
    return copied


# %% 14.4 load_back
def load_back(tiers, path):
    """Start to load the blocks of `path` that are only in host memory; return them."""
    coming = [block for block in path if block.device is None]
    for block in coming:
        block.host_locks += 1
    pages = tiers.take(len(coming))
    for block, page in zip(coming, pages):
        tiers.start(block, page)
    for block in coming[len(pages) :]:
        block.host_locks -= 1
    return coming[: len(pages)]


# %% 14.5 overlapped
def overlapped(loads, computes):
    """Return when the last layer is computed; a layer loads before it computes."""
    arrived = done = 0
    for load, compute in zip(loads, computes):
        arrived += load
        done = max(arrived, done) + compute
    return done
