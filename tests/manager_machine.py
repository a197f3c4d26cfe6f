"""A state machine that drives a cache manager through the lives of many requests, with everybody looking on.

The model is a book of prefixes: which whole pages are cached, and for each running sequence how many of its tokens are
the cache's, computed, and there at all. Which slots all this lies in, and who goes first when there is no room, the
model does not predict: the ledger finds one owner for each slot, and the canary reads every slot that anybody may read.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikv import CacheManager, Canary, Ledger, NoCache, OutOfPages, RadixCache
from minikv.testing.watch import watch

TRUNK = [0, 1, 0, 0, 1, 1, 0, 1]
PROMPTS = st.tuples(st.integers(0, 8), st.lists(st.integers(0, 1), max_size=4))
NAMESPACES = st.sampled_from([None, None, None, "lora"])
LIMITS = st.none() | st.integers(0, 40)  # in tokens; `None` is the manager's default, all but the last one
PICK = st.integers(0, 11)
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


class ManagerAgainstModel(RuleBasedStateMachine):
    """`twins` has what the model knows of the running sequences, `over` those to which nothing more may happen."""

    manager_type = CacheManager
    cache_type = RadixCache
    is_watched = True  # by a ledger and a canary; what watches `insert` keeps the manager from `insert_after`
    compares = True  # whether a difference from the model is a failure, or only the end of the story

    @initialize(
        page_size=st.sampled_from([1, 2, 16]),
        policy=st.sampled_from(["lru", "lru", "fifo", "slru"]),
        evict_by=st.sampled_from(["node", "page"]),
    )
    def begin(self, page_size, policy, evict_by):
        cache = NoCache(page_size) if self.cache_type is NoCache else RadixCache(page_size, policy, evict_by)
        self.size, self.manager = page_size, self.manager_type(PAGES, page_size, prefix_cache=cache)
        self.pages_kept = {}  # (namespace, tokens up to the end of the page) -> the page
        self.twins, self.over = {}, []
        watch(cache, ["evict"], self.hear_of_eviction)
        if self.is_watched:
            self.ledger = Ledger(self.manager.pool, cache, page_size, sequences=self.manager.owned)
            self.canary = Canary(cache, writes=False)
        else:
            self.ledger = SimpleNamespace(check=self.manager.check, callers=())
            self.canary = SimpleNamespace(write=do_nothing, read=do_nothing, sweep=do_nothing)

    # -- the model ----------------------------------------------------------------------------------------------------

    def tokens_of(self, prompt):
        """A prompt leaves the trunk somewhere; with large pages each letter is half a page of tokens."""
        cut, tail = prompt
        return [letter for letter in TRUNK[:cut] + tail for _ in range(max(1, self.size // 2))] + tail

    def keys(self, tokens, namespace, end):
        return [(namespace, tuple(tokens[:at])) for at in range(self.size, end + 1, self.size)]

    def compare(self, found, expected):
        if found != expected and not self.compares:
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
        """`act`, for which `pages` are needed: it must work exactly if there is room, or say why there is none."""
        free, evictable = self.free, len(self.pages_kept) - len(self.protected(*more))
        refused = None
        try:
            done = act()
        except OutOfPages as error:
            done, refused = None, (error.needed, error.free, error.evictable)
        self.manager.check()  # if it took what it may not have, the audit says what that was
        self.compare(refused, None if pages <= free + evictable else (pages, free, evictable))
        return done

    def hear_of_eviction(self, call):
        gone = set(call.result.tolist()) if call.error is None else set()
        self.pages_kept = {key: page for key, page in self.pages_kept.items() if page not in gone}

    def publish(self, sequence, act):
        """`act` publishes what is computed: the pages that are new are cached where the sequence had them."""
        twin, row = self.twins[sequence.number], sequence.pages.tolist()
        end = twin.computed // self.size * self.size if self.cache_type is not NoCache else 0
        act()
        for key in self.keys(twin.tokens, twin.namespace, end):
            self.pages_kept.setdefault(key, row[len(key[1]) // self.size - 1])
        twin.shared = end

    # -- the rules ----------------------------------------------------------------------------------------------------

    @rule(prompt=PROMPTS, namespace=NAMESPACES, limit=LIMITS)
    def start(self, prompt, namespace, limit):
        self.begin_request([*self.tokens_of(prompt), 7], namespace, limit)

    @precondition(lambda self: self.pages_kept)
    @rule(pick=PICK, more=st.integers(-1, 1), limit=LIMITS)
    def start_where_room_is_scarce(self, pick, more, limit):
        """Behind something cached, for as many pages as could be had if it were not read; one less, or one more."""
        namespace, prefix = list(self.pages_kept)[pick % len(self.pages_kept)]
        pages = self.free + len(self.pages_kept) - len(self.protected()) + more
        self.begin_request([*prefix, *[7] * (max(1, pages) * self.size)], namespace, limit)

    @precondition(lambda self: self.pages_kept)
    @rule(pick=PICK, short=st.integers(0, 20))
    def start_what_is_cached(self, pick, short):
        """A prompt that is cached to its end: of that, all but the last `short` tokens may be used."""
        namespace, prefix = list(self.pages_kept)[pick % len(self.pages_kept)]
        self.begin_request(list(prefix), namespace, max(0, len(prefix) - short))

    def begin_request(self, tokens, namespace, limit):
        length = self.cached(tokens[: len(tokens) - 1 if limit is None else limit], namespace)
        twin = Twin(tokens, namespace, length, length, -(-len(tokens) // self.size))
        pages = twin.row - length // self.size
        sequence = self.room(lambda: self.manager.start(tokens, namespace=namespace, limit=limit), pages, twin)
        if sequence is not None:
            self.twins[sequence.number] = twin
            self.compare(sequence.cached_length, length)

    @rule(prompt=PROMPTS)
    def start_two_alike(self, prompt):
        """Two identical prompts in one batch: neither knows of the other."""
        self.start(prompt, None, None)
        self.start(prompt, None, None)

    @precondition(lambda self: self.twins)
    @rule(pick=PICK, count=st.integers(0, 40))
    def compute(self, pick, count):
        """A forward step: attention reads all that was computed before, and writes what it computes."""
        sequence, twin = self.running(pick)
        if twin.computed + count > len(twin.tokens) + 20:
            with pytest.raises(ValueError, match="can compute 0 to"):
                self.manager.advance(sequence, count)
            return
        end = min(len(twin.tokens), twin.computed + count)
        self.read(sequence, twin)
        self.canary.write(twin.tokens[:end], sequence.slots[:end], twin.computed, twin.namespace)
        self.manager.advance(sequence, end - twin.computed)
        twin.computed = end

    @rule()
    def forward(self):
        """A whole step of an engine: all that runs is computed in one batch, and published one by one."""
        for pick in range(len(self.twins)):
            self.compute(pick, max(0, len(self.running(pick)[1].tokens) - self.running(pick)[1].computed))
        for pick in range(len(self.twins)):
            self.checkpoint(pick)

    @precondition(lambda self: self.twins)
    @rule(pick=PICK, more=st.lists(st.integers(0, 1), max_size=5))
    def extend(self, pick, more):
        sequence, twin = self.running(pick)
        pages = -(-(len(twin.tokens) + len(more)) // self.size) - twin.row
        if self.room(lambda: self.manager.extend(sequence, more) or True, pages):
            twin.tokens, twin.row = [*twin.tokens, *more], twin.row + pages

    @precondition(lambda self: self.twins)
    @rule(pick=PICK, less=st.integers(-1, 6))
    def truncate(self, pick, less):
        """A draft was wrong: its tokens go, computed or not, but nothing that the cache has."""
        sequence, twin = self.running(pick)
        length = len(twin.tokens) - less
        if less < 0 or length < max(1, twin.shared):
            with pytest.raises(ValueError, match=f"length is {length}: sequence {sequence.number} "):
                self.manager.truncate(sequence, length)
            return
        self.manager.truncate(sequence, length)
        twin.tokens, twin.computed = twin.tokens[:length], min(twin.computed, length)
        twin.row = -(-length // self.size)

    @precondition(lambda self: self.twins)
    @rule(pick=PICK)
    def checkpoint(self, pick):
        sequence, _ = self.running(pick)
        self.publish(sequence, lambda: self.manager.checkpoint(sequence))

    @precondition(lambda self: self.twins)
    @rule(pick=PICK)
    def finish(self, pick):
        sequence, _ = self.running(pick)
        self.publish(sequence, lambda: self.manager.finish(sequence))
        self.over.append(sequence)
        del self.twins[sequence.number]

    @precondition(lambda self: self.twins)
    @rule(pick=PICK)
    def abort(self, pick):
        sequence, _ = self.running(pick)
        self.manager.abort(sequence)
        self.over.append(sequence)
        del self.twins[sequence.number]

    @precondition(lambda self: self.over)
    @rule(pick=PICK, verb=st.sampled_from(["advance", "checkpoint", "finish", "abort"]))
    def touch_what_is_over(self, pick, verb):
        sequence = self.over[pick % len(self.over)]
        with pytest.raises(ValueError, match=f"cannot {verb} sequence {sequence.number}: it (has|was) already"):
            getattr(self.manager, verb)(sequence)

    # -- what must always be true -------------------------------------------------------------------------------------

    def running(self, pick):
        sequence = self.manager.sequences[pick % len(self.manager.sequences)]
        return sequence, self.twins[sequence.number]

    def read(self, sequence, twin):
        read = twin.tokens[: twin.computed], sequence.slots[: twin.computed]
        self.canary.read(*read, twin.namespace)

    @invariant()
    def all_agree(self):
        if not hasattr(self, "manager"):
            return
        manager = self.manager
        manager.check()
        self.ledger.check()
        self.canary.sweep()
        for sequence in manager.sequences:
            self.read(sequence, self.twins[sequence.number])
        self.compare(manager.pool.num_free, self.free)
        self.compare(manager.cache.total_size, len(self.pages_kept) * self.size)
        self.compare(manager.cache.protected_size, len(self.protected()) * self.size)
        found = [(s.tokens.tolist(), s.namespace, s.shared, s.computed) for s in manager.sequences]
        self.compare(found, [(t.tokens, t.namespace, t.shared, t.computed) for t in self.twins.values()])

    def teardown(self):
        """In the end everybody goes, and nothing is left behind."""
        if not hasattr(self, "manager") or sys.exc_info()[0] is not None:  # what failed first is what is told
            return
        for sequence in self.manager.sequences:
            self.manager.abort(sequence)
        self.twins.clear()
        self.all_agree()
        assert not self.ledger.callers
        assert self.manager.available_size == PAGES * self.size
