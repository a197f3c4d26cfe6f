"""The naive model of the sliding-window index: a flag a page, and validity recomputed from scratch every time."""

from policy_model import PolicyModel, worth_of

from minikv import LockError
from minikv.testing.model import NaiveCache, is_on_the_way


class NaiveWindowCache(PolicyModel):
    """`PolicyModel`, by pages, with a set of the pages that still have their window and when each was last used.

    A prefix is valid where the last `window` tokens before its end have their windows, or all of its tokens have.
    `policy` says what goes for the full layers; windows go least recently used first, whatever the policy is.
    """

    def __init__(self, page_size=1, window=4, policy="lru"):
        self.span = -(-window // page_size)  # pages
        super().__init__(page_size, policy, evict_by="page")

    def _clear(self):
        super()._clear()
        self.tombs = []  # the pages whose windows alone went in the last eviction
        self.live = {}  # of each page that has its window: the clock's reading at its last use

    def valid(self, path):
        return all(key in self.live for key in path[-self.span :])

    def match_prefix(self, tokens, *, limit=None, namespace=None):
        path = self.cached_path(namespace, tuple(tokens)[:limit])
        while not self.valid(path):
            path.pop()
        return super().match_prefix(tokens, limit=len(path) * self.page_size, namespace=namespace)

    def touch(self, path, verb, hits=1):
        super().touch(path, verb, hits)
        for key in path:
            if key in self.live:
                self.live[key] = self.clock

    def insert(self, tokens, pages, *, namespace=None, start=None, window_start=0):
        """What `insert` promises: new pages before `window_start` are tombstones, and duplicates heal those there."""
        tokens, size = tuple(tokens), self.page_size
        path, there = self.path(namespace, tokens), len(self.cached_path(namespace, tokens))
        first, self.priority = -(-window_start // size), worth_of(tokens)
        if first >= len(path):
            tokens, pages = tokens[: there * size], list(pages)[:there]
        done = NaiveCache.insert(self, tokens, pages, namespace=namespace, start=start)
        path = self.path(namespace, tokens)
        for number in range(max(first, start.length // size if start else 0), len(path)):
            self.live.setdefault(path[number], self.clock)
        return done

    def lock(self, handle):
        tokens, _ = handle.node
        there = handle.epoch is self.epoch and (handle.namespace, tokens) in self.pages
        if there and not self.valid(self.path(handle.namespace, tokens)):
            raise LockError("no window")
        super().lock(handle)

    def pinned(self, key):
        """Whether a lock needs the window of this page."""
        return any(
            is_on_the_way(key, handle.namespace, handle.node[0])
            and handle.length - self.span * self.page_size < len(key[1])
            for handle in self.held
        )

    @property
    def window_evictable_size(self):
        return self.page_size * sum(not self.pinned(key) for key in self.live)

    @property
    def window_protected_size(self):
        return self.page_size * sum(self.pinned(key) for key in self.live)

    def evict(self, num_tokens, window_tokens=0):
        size, before, freed = self.page_size, len(self.live), []
        self.tombs = []
        while len(freed) * size < num_tokens and (leaves := self.unlocked_leaves()):
            freed += self.remove(min(leaves, key=lambda leaf: self.goes_first(self.pages[leaf])))
        while (before - len(self.live)) * size < window_tokens:
            free = [key for key in self.live if not self.pinned(key)]
            if not free:
                break
            key = min(free, key=lambda key: (self.live[key], len(key[1])))
            if self.ends_within_a_window(key):
                for gone in sorted([*self.below(key), key], key=lambda gone: -len(gone[1])):
                    freed += self.remove(gone)
            else:
                del self.live[key]
                self.tombs.append(self.pages[key].number)
        return freed

    def ends_within_a_window(self, key):
        """Whether exactly one path goes on from `key`, and ends before a window is over."""
        lengths = [len(tokens) for _, tokens in self.below(key)]
        return len({*lengths}) == len(lengths) < self.span

    def remove(self, key):
        """Forget a page at the end of a path, and every tombstone above it that nothing follows."""
        freed = []
        while key in self.pages and not self.below(key):
            freed.append(self.pages.pop(key).number)
            self.live.pop(key, None)
            self.ends.discard(key)
            key = self.above(key)
            if key in self.live:
                break
        return freed
