"""A prefix cache of plain lists and dictionaries that keeps the contract in its own way: slow, and right.

It knows nothing of the package but its words and its errors. A match or an insertion is its own handle, pages are
lists, and one page goes after the other. It splits nothing and joins nothing.
"""

from minikv import InvariantError, LockError, pack
from minikv.prefix.contract import RULES, require_hashable, require_limit
from minikv.tokens import integers


class Place:
    """The end of a prefix: what a match, an insertion and a handle are."""

    def __init__(self, cache, keys, serial, length):
        self.cache, self.keys, self.serial, self.length = cache, keys, serial, length
        self.epoch = cache.epoch
        self.prefix_length = 0

    @property
    def pages(self):
        return list(self.found)


class Cached:
    """One page: its number, when it was used, how many locks it has, and a number of its own."""

    def __init__(self, page, serial):
        self.page, self.serial, self.used, self.locks = page, serial, 0, 0


class PlainCache:
    claims = frozenset(RULES) - {14}

    def __init__(self, page_size=1):
        self.page_size = page_size
        self.forget()

    def forget(self):
        self.table, self.held, self.epoch = {}, {}, object()
        self.clock = self.serial = self.free = self.kept = 0

    @property
    def evictable_size(self):
        return self.free * self.page_size

    @property
    def protected_size(self):
        return self.kept * self.page_size

    @property
    def total_size(self):
        return self.evictable_size + self.protected_size

    # -- what goes in ----------------------------------------------------------------------------------------------

    def tokens_of(self, tokens):
        return tuple(pack(tokens).tolist())

    def pages_of(self, pages, tokens, skip):
        found = integers(pages, "pages", "a page is an integer", 2**31, skip).tolist()
        if not len(tokens) // self.page_size <= len(found) <= -(-len(tokens) // self.page_size):
            raise ValueError("pages: one for each page of tokens")
        return found

    def keys_of(self, tokens, namespace):
        require_hashable(namespace)
        return [(namespace, tokens[:end]) for end in range(self.page_size, len(tokens) + 1, self.page_size)]

    def cached(self, keys):
        found = 0
        while found < len(keys) and keys[found] in self.table:
            found += 1
        return keys[:found]

    def use(self, keys):
        self.clock += 1
        for key in keys:
            self.table[key].used = self.clock

    def place(self, keys):
        serial = self.table[keys[-1]].serial if keys else 0
        return Place(self, keys, serial, len(keys) * self.page_size)

    # -- the verbs -------------------------------------------------------------------------------------------------

    def match_prefix(self, tokens, *, limit=None, namespace=None):
        tokens = self.tokens_of(tokens)
        keys = self.cached(self.keys_of(tokens[: require_limit(limit, len(tokens))], namespace))
        self.use(keys)
        match = self.place(keys)
        match.found = [self.table[key].page for key in keys]
        return match

    def acquire(self, tokens, *, limit=None, namespace=None):
        match = self.match_prefix(tokens, limit=limit, namespace=namespace)
        self.lock(match)
        return match

    def insert(self, tokens, pages, *, namespace=None, start=None):
        tokens = self.tokens_of(tokens)
        keys = self.keys_of(tokens, namespace)
        skip = 0
        if start is not None:
            skip = len(start.keys)
            if start not in self.held:
                raise LockError("the start is not locked")
            if start.keys != keys[:skip] or skip * self.page_size > len(tokens):
                raise ValueError("the start is another prefix")
        numbers = self.pages_of(pages, tokens, skip)
        there = self.cached(keys)
        for key, number in list(zip(keys, numbers))[len(there) :]:
            self.add(key, number)
        self.use(keys[skip:])
        done = self.place(keys)
        done.prefix_length = len(there) * self.page_size
        return done

    def add(self, key, number):
        self.serial += 1
        self.table[key] = Cached(number, self.serial)
        self.free += 1

    def lock(self, handle):
        last = self.table.get(handle.keys[-1]) if handle.keys else None
        if handle.epoch is not self.epoch or (handle.keys and (last is None or last.serial != handle.serial)):
            raise LockError("the handle is stale")
        self.held[handle] = self.held.get(handle, 0) + 1
        for key in handle.keys:
            self.count(self.table[key], 1)

    def unlock(self, handle):
        if handle.epoch is not self.epoch or handle not in self.held:
            raise LockError("the handle is not locked")
        self.held[handle] -= 1
        if not self.held[handle]:
            del self.held[handle]
        for key in handle.keys:
            self.count(self.table[key], -1)
        self.use(handle.keys)

    def count(self, cached, step):
        before, cached.locks = cached.locks > 0, cached.locks + step
        change = (cached.locks > 0) - before
        self.kept, self.free = self.kept + change, self.free - change

    def leaves(self):
        inner = {(name, tokens[: -self.page_size]) for name, tokens in self.table}
        return [key for key, cached in self.table.items() if key not in inner and not cached.locks]

    def evict(self, num_tokens):
        if num_tokens < 0:
            raise ValueError("num_tokens: 0 or more")
        freed = []
        while len(freed) * self.page_size < num_tokens and (leaves := self.leaves()):
            oldest = min(leaves, key=lambda key: self.table[key].used)
            freed.append(self.table.pop(oldest).page)
            self.free -= 1
        return freed

    def reset(self):
        if self.held:
            raise LockError("something is locked")
        self.forget()

    def check(self):
        numbers = [cached.page for cached in self.table.values()]
        locked = sum(cached.locks > 0 for cached in self.table.values())
        if len(set(numbers)) < len(numbers) or (self.free, self.kept) != (len(numbers) - locked, locked):
            raise InvariantError("something is wrong")
