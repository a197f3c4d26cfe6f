"""The block pool of chapter 10: one dictionary instead of a tree, and one queue.

Its sections are the classes that the chapter shows, and the pieces, as we would write them.
"""

# %% given 10
import hashlib

from minikv import pack


def sha_key(parent, tokens):
    """A key of 32 bytes for `tokens` behind the block with the key `parent`."""
    return hashlib.sha256(parent + pack(tokens).data).digest()


class PoolBlock:
    """One page: its key while it is cached, and how many requests use it."""

    def __init__(self, page):
        self.page, self.key, self.users = page, None, 0
        self.before = self.after = self  # its neighbors in the queue


class FreeQueue:
    """The blocks that nobody uses; the first one is the next to be taken."""

    def __init__(self):
        self.mark = PoolBlock(None)  # stands between the last block and the first

    def add_first(self, block):
        self.add_behind(self.mark, block)

    def add_last(self, block):
        self.add_behind(self.mark.before, block)

    def add_behind(self, before, block):
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
            raise MemoryError(f"{count} blocks wanted, {len(taken)} free")
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
    """Begin a request: its blocks, and how many of them were cached. At least the last token is computed."""
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
    """A key for each whole block of `tokens`, made from the key in front of it."""
    keys, parent = [], seed
    for end in range(size, len(tokens) + 1, size):
        parent = key_of(parent, tokens[end - size : end])
        keys.append(parent)
    return keys


# %% 10.2 longest_hit
def longest_hit(table, keys):
    """The blocks of the first keys, up to the first key that is not in `table`."""
    hits = []
    for key in keys:
        if key not in table:
            break
        hits.append(table[key])
    return hits


# %% 10.3 give_back
def give_back(pool, blocks):
    """A request is over: its blocks lose a user; the unused ones go to the queue."""
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
    """Bytes that no other adapter and salt give; each of them is a text or None."""
    parts = ("lora", lora), ("salt", salt)
    return repr(parts).encode()
