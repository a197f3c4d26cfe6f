"""The state machine under those of windows and tiers: an index and its model, side by side over one pool.

After every step the index audits itself, its sizes and contents are compared with the model's, the ledger has found
one owner for each slot, and the canary has read every slot that the index holds.
"""

from __future__ import annotations

from array import array

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from policy_model import PolicyModel, worth_of

from minikv import FreeListPool, LockError, RadixCache
from minikv.prefix import index_named
from minikv.testing.canary import Canary
from minikv.testing.ledger import Ledger

# Prompts leave one trunk at some point, so that most of them share something and many part inside a node.
TOKENS = st.builds(
    lambda cut, tail: [0, 1, 0, 0, 1, 1, 0, 1][:cut] + tail, st.integers(0, 8), st.lists(st.integers(0, 1), max_size=3)
)
NAMESPACES = st.sampled_from([None, None, "lora"])
LIMITS = st.sampled_from([None, None, 0, 3, 5, 8])
PAGES = 24


class IndexAgainstModel(RuleBasedStateMachine):
    """Every rule does the same to both; `handles` holds pairs (the index's, the model's)."""

    handles = Bundle("handles")

    policy = "lru"
    evicts_by = "node", "page"
    has_priorities = True

    @initialize(page_size=st.integers(1, 3), number=st.integers(0, 1))
    def start(self, page_size, number):
        evict_by = self.evicts_by[number % len(self.evicts_by)]
        self.model = PolicyModel(page_size, self.policy, evict_by, self.has_priorities)
        self.index = self.make(page_size, self.policy, evict_by)
        self.page_size, self.pool = page_size, FreeListPool(PAGES)
        self.ledger, self.canary = Ledger(self.pool, self.index, page_size), Canary(self.index)

    def make(self, page_size, policy, evict_by):
        """The index that is driven."""
        return RadixCache(page_size, policy, evict_by)

    # -- doing something to both ------------------------------------------------------------------------------------

    def both(self, act):
        """`act` on the index and on the model: both return, or both raise a `LockError`."""
        outcomes = []
        for cache, mine in ((self.index, 0), (self.model, 1)):
            try:
                outcomes.append(act(cache, mine))
            except LockError:
                outcomes.append(LockError)
        assert (outcomes[0] is LockError) == (outcomes[1] is LockError)
        return outcomes

    def free(self, pages):
        self.pool.free([int(page) for page in pages])

    def room_for(self, num_tokens):
        """Pages for `num_tokens`, evicting for them; `None` when locks keep too much."""
        pages = -(-num_tokens // self.page_size)
        if pages > self.pool.num_free:
            self.evict((pages - self.pool.num_free) * self.page_size)
        return self.pool.alloc(pages) if pages <= self.pool.num_free else None

    def put(self, tokens, pages, namespace, pair=None, **more):
        """Insert into both and free what the index does not want; the pair of handles.

        The buffers are the caller's: they are written over as soon as the index has seen them.
        """
        at = pair[1].length // self.page_size if pair else 0
        outcomes = []

        def insert(cache, mine):
            keys, values = np.array(tokens, np.uint32), np.array([0] * at + [*pages], np.int32)
            start = pair[mine] if pair else None
            worth = {"priority": worth_of(tokens)} if self.has_priorities and not mine else {}
            done = cache.insert(keys, values, namespace=namespace, start=start, **worth, **more)
            keys[:], values[:] = 7, 7
            outcomes.append(done)
            return done

        found, expected = self.both(insert)
        if found is LockError:
            self.free(pages)
            return None
        assert (found.prefix_length, found.length) == (expected.prefix_length, expected.length)
        given, kept = found.prefix_length // self.page_size - at, found.length // self.page_size - at
        self.free([*pages[:given], *pages[kept:]])
        return found.handle, expected.handle

    # -- the rules --------------------------------------------------------------------------------------------------

    @rule(target=handles, tokens=TOKENS, limit=LIMITS, namespace=NAMESPACES)
    def match(self, tokens, namespace, limit=None):
        found, expected = self.both(lambda cache, _: cache.match_prefix(tokens, limit=limit, namespace=namespace))
        assert (found.length, found.pages.tolist()) == (expected.length, expected.pages.tolist())
        return found.handle, expected.handle

    @rule(target=handles, tokens=TOKENS, limit=LIMITS, namespace=NAMESPACES)
    def acquire(self, tokens, namespace, limit=None):
        found, expected = self.both(lambda cache, _: cache.acquire(tokens, limit=limit, namespace=namespace))
        row = memoryview(array("i", [-1] * len(tokens)))
        found.copy_to(row)
        pages = found.length // self.page_size
        assert row[:pages].tolist() == found.pages.tolist() == expected.pages.tolist()
        return found, expected

    @rule(target=handles, tokens=TOKENS, namespace=NAMESPACES)
    def insert(self, tokens, namespace):
        pages = self.room_for(len(tokens))
        if pages is None:
            return self.match(tokens, namespace)
        return self.put(tokens, pages, namespace)

    @rule(target=handles, prompt=TOKENS, answer=TOKENS, namespace=NAMESPACES)
    def request(self, prompt, answer, namespace):
        """The life of a request, as far as there is room for it."""
        pair, tokens = self.acquire(prompt, namespace), [*prompt, *answer]
        pages = self.room_for(len(tokens) - pair[1].length)
        done = pair if pages is None else self.put(tokens, pages, namespace, pair)
        self.unlock(pair)
        return done

    @rule(target=handles, pair=handles, more=TOKENS)
    def insert_from_a_handle(self, pair, more):
        tokens = [*pair[1].node[0], *more]
        pages = self.room_for(len(more))
        return pair if pages is None else self.put(tokens, pages, pair[1].namespace, pair) or pair

    @rule(pair=handles)
    def lock(self, pair):
        self.both(lambda cache, mine: cache.lock(pair[mine]))

    @rule(pair=handles)
    def unlock(self, pair):
        self.both(lambda cache, mine: cache.unlock(pair[mine]))

    @rule(target=handles, tokens=TOKENS, cut=st.integers(0, 8), namespace=NAMESPACES)
    def cut_and_join(self, tokens, cut, namespace):
        """A match cuts what was inserted; with nothing else cached the next use joins it, and both handles hold."""
        whole = self.insert(tokens, namespace)
        part = self.match(tokens, namespace, limit=cut)
        self.lock(whole)
        self.evict(PAGES * self.page_size)
        self.unlock(whole)
        self.match(tokens, namespace)
        self.lock(part)
        self.unlock(part)
        return part

    @rule(num_tokens=st.integers(0, 12))
    def evict(self, num_tokens):
        found, expected = self.both(lambda cache, _: cache.evict(num_tokens).tolist())
        assert found == expected
        self.free(found)

    @rule()
    def reset(self):
        cached = [page.number for page in self.model.pages.values()]
        outcome, _ = self.both(lambda cache, _: cache.reset())
        if outcome is not LockError:
            self.free(cached)

    @invariant()
    def the_index_is_sound_and_agrees(self):
        if not hasattr(self, "index"):
            return
        self.index.check()
        self.pool.check()
        for size in ("evictable_size", "protected_size", "total_size"):
            assert getattr(self.index, size) == getattr(self.model, size)
        assert not self.ledger.callers
        assert self.contents() == {
            key: (page.number, *self.use(page, self.model.locked(key))) for key, page in self.model.pages.items()
        }

    def use(self, item, locked) -> list:
        """What a policy may read of a node or a page; in use is not recent or old, and the unlock says when it was."""
        fields = ("last_used", *self.model.reads)
        return [None if locked and field == "last_used" else getattr(item, field) for field in fields]

    def contents(self) -> dict:
        """Every cached page with all that a policy may read, without a verb (a match would split and refresh)."""
        pages = {}
        for node in self.index.nodes():
            prefix, walker = [], node
            while walker.parent is not None:
                prefix = [*walker.tokens, *prefix]
                walker = walker.parent
            above, use = len(prefix) - len(node.tokens), self.use(node, node.ref_count > 0)
            for i, page in enumerate(node.pages):
                key = walker.namespace, tuple(prefix[: above + (i + 1) * self.page_size])
                pages[key] = (page, *use)
        return pages


class PagesAgainstModel(IndexAgainstModel):
    """The same for an index of one design, which evicts page by page, least recently used first."""

    evicts_by = ("page",)
    has_priorities = False
    design = ""

    def make(self, page_size, policy, evict_by):
        return index_named(self.design, page_size)
