"""Chapters 09 and 10: two designs that replace the tree.

A trie of tokens whose nodes say which row holds their prefix, with the locks and the eviction of chapters 04 and 05;
and a block pool with one dictionary instead of a tree, and one queue.

Their twins in the package, faster and complete:

    BlockPool    minikv.prefix.HashBlockCache
    FreeQueue    minikv.pools.QueuePool
"""

from minikv.engine.ch04_05_cache import RadixCache, Ring, evict, lock, touch, unlock

# isort: split
# %% given 9
from minikv import BitmaskPool


class TokenNode:
    """One token, and the row that holds the prefix ending here, with its version."""

    def __init__(self, token=None, parent=None):
        self.token, self.parent, self.children = token, parent, {}
        self.tokens = [] if parent is None else [token]
        self.row, self.version = None, 0
        self.locks = 0  # as in chapter 04
        self.older = self.newer = self  # as in chapter 05

    @property
    def slots(self):
        return [] if self.parent is None else [self.row]


class RowRequest:
    """A running request: its row, and the nodes of its cached prefix."""

    def __init__(self, tokens, row, path, is_copy):
        self.tokens, self.row, self.path, self.is_copy = tokens, row, path, is_copy
        self.found = len(path)

    def __repr__(self):
        how = "copied" if self.is_copy else "reused"
        found = f"{self.found} tokens {how}" if self.path else "nothing found"
        return f"row {self.row}, {found}"


class RowTrie:
    """Rows of keys and values, one per request, and a trie that knows what is in them."""

    def __init__(self, num_rows, max_nodes=1000):
        self.pool, self.root, self.ring = BitmaskPool(num_rows), TokenNode(), Ring()
        self.rows = [[] for _ in range(num_rows)]  # tokens represent keys and values
        self.max_nodes, self.evictable, self.protected = max_nodes, 0, 0

    def find(self, tokens):
        path = trie_find(self.root, tokens)
        while path and not is_current(path[-1], self.pool):
            path.pop()
        return path

    def start(self, tokens):
        path = self.find(tokens[:-1])  # the last token is always computed
        row, is_copy = take_row(self.pool, path)
        source = path[-1].row if is_copy else row
        # What is cached is there or copied, and the rest is computed.
        self.rows[row] = self.rows[source][: len(path)] + tokens[len(path) :]
        if path:
            lock(self, path[-1])
        return RowRequest(tokens, row, path, is_copy)

    def finish(self, request):
        self.pool.free([request.row])  # first: it refuses a request that is over
        there = len(trie_find(self.root, request.tokens))
        path = trie_insert(self.root, request.tokens, request.row, self.pool)
        self.evictable += len(path) - there
        touch(self.ring, path[-1])
        if request.path:
            unlock(self, request.path[-1])
        evict(self, self.evictable + self.protected - self.max_nodes)

    protect, expose = RadixCache.protect, RadixCache.expose  # as in chapter 04


# %% 9.1 trie_find
def trie_find(root, tokens):
    """Return the nodes that `tokens` lead through, as far as the trie goes."""
    node, path = root, []
    for token in tokens:
        if token not in node.children:
            break
        node = node.children[token]
        path.append(node)
    return path


# %% 9.2 is_current
def is_current(node, pool):
    """Return whether the row of `node` still holds what it did when `node` named it."""
    return node.row is not None and pool.version(node.row) == node.version


# %% 9.3 trie_insert
def trie_insert(root, tokens, row, pool):
    """Make new and stale nodes of `tokens` name `row`; return all nodes in order."""
    node, path = root, []
    for token in tokens:
        if token not in node.children:
            node.children[token] = TokenNode(token, node)
        node = node.children[token]
        if not is_current(node, pool):
            node.row, node.version = row, pool.version(row)
        path.append(node)
    return path


# %% 9.4 take_row
def take_row(pool, path):
    """Take a row for a request whose cached prefix is `path`.

    Return the row, and whether the prefix has to be copied into it.
    """
    if not path or not pool.is_free(path[-1].row):
        return int(pool.alloc(1)[0]), bool(path)
    row = path[-1].row
    pool.occupy(row, renew=True)
    for node in path:
        if not is_current(node, pool):
            node.row, node.version = row, pool.version(row)
    return row, False


# %% given 10
import hashlib

from minikv import pack


def sha_key(parent, tokens):
    """Return a 32-byte key for `tokens` after the block with the key `parent`."""
    return hashlib.sha256(parent + pack(tokens).data).digest()


class PoolBlock:
    """One page: its key while it is cached, and how many requests use it."""

    def __init__(self, page):
        self.page, self.key, self.users = page, None, 0
        self.before = self.after = self  # its neighbors in the queue


class FreeQueue:
    """The blocks that nobody uses; the first one is the next to be taken."""

    def __init__(self):
        self.mark = PoolBlock(None)  # sits between the last block and the first

    def add_first(self, block):
        self.add_after(self.mark, block)

    def add_last(self, block):
        self.add_after(self.mark.before, block)

    def add_after(self, before, block):
        block.before, block.after = before, before.after
        before.after.before = block
        before.after = block

    def remove(self, block):
        block.before.after, block.after.before = block.after, block.before
        block.before = block.after = block

    def __iter__(self):
        block = self.mark.after
        while block is not self.mark:
            yield block
            block = block.after


class BlockPool:
    """All pages, a dictionary of those that are cached, and a queue of those that nobody uses."""

    def __init__(self, size):
        self.size, self.table, self.queue = size, {}, FreeQueue()  # table: key -> block
        self.blocks = [PoolBlock(page) for page in range(size)]
        for block in self.blocks:
            self.queue.add_last(block)

    def is_free(self, page):
        return not self.blocks[page].users and self.blocks[page].key is None

    def touch(self, blocks):
        for block in blocks:
            if not block.users:
                self.queue.remove(block)
            block.users += 1

    def take(self, count):
        taken = [block for block, _ in zip(self.queue, range(count))]
        if len(taken) < count:
            raise MemoryError(f"blocks needed: {count}, free: {len(taken)}")
        for block in taken:  # what was cached in it is evicted
            if block.key is not None:
                del self.table[block.key]
                block.key = None
        self.touch(taken)
        return taken

    def publish(self, blocks, keys):
        for block, key in zip(blocks, keys):
            if key not in self.table:
                block.key, self.table[key] = key, block

    def give_back(self, blocks):
        give_back(self, blocks)


def open_request(pool, tokens, size, seed=b"", key_of=sha_key):
    """Begin a request: return its blocks, and how many were cached. The last token is always computed."""
    keys = block_keys(tokens, size, seed, key_of)
    hits = longest_hit(pool.table, keys[: (len(tokens) - 1) // size])
    pool.touch(hits)
    try:
        blocks = hits + pool.take(-(-len(tokens) // size) - len(hits))
    except MemoryError:  # the request does not begin, so it must not keep its hits
        pool.give_back(hits)
        raise
    pool.publish(blocks, keys)
    return blocks, len(hits)


# %% 10.1 block_keys
def block_keys(tokens, size, seed, key_of):
    """Return a key for each full block of `tokens`, made from the key before it."""
    keys, parent = [], seed
    for end in range(size, len(tokens) + 1, size):
        parent = key_of(parent, tokens[end - size : end])
        keys.append(parent)
    return keys


# %% 10.2 longest_hit
def longest_hit(table, keys):
    """Return the blocks of `keys`, up to the first key that is not in `table`."""
    hits = []
    for key in keys:
        if key not in table:
            break
        hits.append(table[key])
    return hits


# %% 10.3 give_back
def give_back(pool, blocks):
    """End a request: its blocks lose a user, and unused blocks join the queue."""
    for block in blocks:
        if not block.users:
            raise ValueError(f"block {block.page} is not in use")
    for block in reversed(blocks):
        block.users -= 1
        if not block.users and block.key is None:
            pool.queue.add_first(block)
        elif not block.users:
            pool.queue.add_last(block)


# %% 10.4 seed_of
def seed_of(lora, salt):
    """Return bytes that no other pair gives; each of the two is a string or None."""
    parts = ("lora", lora), ("salt", salt)
    return repr(parts).encode()
