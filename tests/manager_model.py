"""A cache manager and a model of it, side by side: the machine of `manager_machine` before any of its rules.

The model is a book of prefixes: which whole pages are cached, and for each running sequence how many of its tokens are
the cache's, computed, and there at all. Which slots all this lies in, and who goes first when there is no room, the
model does not predict: the ledger finds one owner for each slot, and the canary reads every slot that anybody may read.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from minikv import BitmaskPool, CacheManager, Canary, FreeListPool, Ledger, NoCache, OutOfPages, QueuePool, RadixCache
from minikv.testing.watch import watch

TRUNK = [0, 1, 0, 0, 1, 1, 0, 1]
PAGES = 14


@dataclass
class Twin:
    """What the model knows of a running sequence; `row` is in pages, all else in tokens."""

    tokens: list[int]
    namespace: Any
    shared: int
    computed: int
    row: int


def do_nothing(*_):
    pass


UNWATCHED = SimpleNamespace(check=do_nothing, write=do_nothing, read=do_nothing, sweep=do_nothing, callers=())


class ManagerBesideModel(RuleBasedStateMachine):
    """`twins` has what the model knows of the running sequences, `over` those to which nothing more may happen.

    Unwatched, it is as an engine runs it: only what follows a lock is inserted, and the lock of a checkpoint moves on.
    """

    manager_type = CacheManager
    compares = True  # whether a difference from the model is a failure, or only the end of the story

    @initialize(
        page_size=st.sampled_from([1, 2, 16]),
        policy=st.sampled_from(["lru", "lru", "fifo", "slru", None]),
        evict_by=st.sampled_from(["node", "page"]),
        pool=st.sampled_from([FreeListPool, FreeListPool, BitmaskPool, QueuePool]),
        table_limit=st.sampled_from([2**24, 8]),
        is_watched=st.booleans(),
    )
    def begin(self, page_size, policy, evict_by, pool, table_limit, is_watched):
        """Without a policy there is no cache."""
        cache = RadixCache(page_size, policy, evict_by) if policy else NoCache(page_size)
        with mock.patch("minikv.manager.fit._TABLE_LIMIT", table_limit):
            self.manager = self.manager_type(PAGES, page_size, cache, pool(PAGES))
        self.size, self.is_cached = page_size, policy is not None
        self.pages_kept = {}  # (namespace, tokens up to the end of the page) -> the page
        self.twins, self.over = {}, []
        watch(cache, ["evict"], self.hear_of_eviction)
        self.ledger = self.canary = UNWATCHED
        if is_watched:
            self.ledger = Ledger(self.manager.pool, cache, page_size, sequences=self.manager.owned)
            self.canary = Canary(cache, writes=False)

    # -- the model ----------------------------------------------------------------------------------------------------

    def tokens_of(self, prompt):
        """A prompt leaves the trunk somewhere; with large pages each letter is half a page of tokens."""
        cut, tail = prompt
        return [letter for letter in TRUNK[:cut] + tail for _ in range(max(1, self.size // 2))] + tail

    def keys(self, tokens, namespace, end):
        return [(namespace, tuple(tokens[:at])) for at in range(self.size, end + 1, self.size)]

    def compare(self, found, expected):
        """If something is wrong in the books, the audit says so first."""
        if found != expected:
            self.manager.check()
            if not self.compares:
                reject()
        assert found == expected

    def cached(self, tokens, namespace):
        """How many of `tokens` are cached."""
        found = 0
        for key in self.keys(tokens, namespace, len(tokens)):
            if key not in self.pages_kept:
                break
            found = len(key[1])
        return found

    def protected(self, *more):
        twins = [*self.twins.values(), *more]
        return {key for twin in twins for key in self.keys(twin.tokens, twin.namespace, twin.shared)}

    @property
    def free(self):
        own = sum(twin.row - twin.shared // self.size for twin in self.twins.values())
        return PAGES - own - len(self.pages_kept)

    def room(self, act, pages, *more):
        """`act`, for which `pages` are needed: it must work exactly if there is room, or say why there is none.

        All counts are in pages (mini-sglang#80: one side counted tokens, the other pages).
        """
        free, evictable = self.free, len(self.pages_kept) - len(self.protected(*more))
        refused = None
        try:
            done = act()
        except OutOfPages as error:
            done, refused = None, (error.needed, error.free, error.evictable)
        self.compare(refused, None if pages <= free + evictable else (pages, free, evictable))
        return done

    def hear_of_eviction(self, call):
        gone = set(call.result.tolist()) if call.error is None else set()
        self.pages_kept = {key: page for key, page in self.pages_kept.items() if page not in gone}

    def publish(self, sequence, act):
        """`act` publishes what is computed: the pages that are new are cached where the sequence had them."""
        twin, row = self.twins[sequence.number], sequence.pages.tolist()
        end = twin.computed // self.size * self.size if self.is_cached else 0
        act()
        for key in self.keys(twin.tokens, twin.namespace, end):
            self.pages_kept.setdefault(key, row[len(key[1]) // self.size - 1])
        twin.shared = end

    def running(self, pick):
        sequence = self.manager.sequences[pick % len(self.manager.sequences)]
        return sequence, self.twins[sequence.number]

    def read(self, sequence, twin):
        read = twin.tokens[: twin.computed], sequence.slots[: twin.computed]
        self.canary.read(*read, twin.namespace)
