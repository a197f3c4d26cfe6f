"""The two laws of the sliding-window index: a naive model agrees with it; without a window it is the radix tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test
from machine import LIMITS, NAMESPACES, PAGES, TOKENS, IndexAgainstModel
from nightly import NIGHTLY
from window_model import NaiveWindowCache
from window_pool import WindowLedger

from minikv import FreeListPool, LockError, RadixCache, SlidingWindowCache
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix import EVICT_BY
from minikv.prefix.windows import Windows
from minikv.testing.canary import Canary
from minikv.testing.ledger import Ledger

pytestmark = pytest.mark.core


class WindowIndexAgainstModel(IndexAgainstModel):
    """The machine of every index, with windows: budgets, offsets from which they are there, and a pool that listens."""

    policies = ("lru",)

    @initialize(page_size=st.integers(1, 3), window=st.integers(1, 6), number=st.integers(0, len(POLICIES) - 1))
    def start(self, page_size, window, number):
        self.policy = self.policies[number % len(self.policies)]
        self.model, self.windows = NaiveWindowCache(page_size, window, self.policy), WindowLedger()
        self.index = SlidingWindowCache(page_size, self.policy, "page", window=window, pool=self.windows)
        self.page_size, self.pool = page_size, FreeListPool(PAGES)
        self.ledger, self.canary = Ledger(self.pool, self.index, page_size), Canary(self.index)

    def free(self, pages):
        super().free(pages)
        self.windows.free(pages)

    def put(self, tokens, pages, namespace, pair=None, priority=0, window_start=0):
        at = pair[1].length // self.page_size if pair else 0
        first = max(at, -(-window_start // self.page_size))
        self.windows.alloc(pages[first - at :])
        return super().put(tokens, pages, namespace, pair, priority, window_start=window_start)

    def evict(self, num_tokens, window_tokens=0):
        self.windows.buried.clear()
        found = self.index.evict(num_tokens, window_tokens).tolist()
        freed, tombs = self.model.evict(num_tokens, window_tokens)
        assert (sorted(found), sorted(self.windows.buried)) == (sorted(freed), sorted(tombs))
        self.free(found)

    @rule(num_tokens=st.integers(0, 4), window_tokens=st.integers(0, 12))
    def evict_both(self, num_tokens, window_tokens):
        self.evict(num_tokens, window_tokens)

    @rule(tokens=TOKENS, namespace=NAMESPACES, window_start=st.integers(0, 12))
    def insert_late(self, tokens, namespace, window_start):
        if (pages := self.room_for(len(tokens))) is not None:
            self.put(tokens, pages, namespace, window_start=window_start)

    @rule(prompt=TOKENS, answer=TOKENS, window_start=st.integers(0, 12), namespace=NAMESPACES)
    def late_request(self, prompt, answer, window_start, namespace):
        pair, tokens = self.acquire(prompt, namespace), [*prompt, *answer]
        pages = self.room_for(len(tokens) - pair[1].length)
        if pages is not None:
            self.put(tokens, pages, namespace, pair, window_start=window_start)
        self.unlock(pair)

    @invariant()
    def the_windows_agree(self):
        if hasattr(self, "index"):
            for size in ("window_evictable_size", "window_protected_size"):
                assert getattr(self.index, size) == getattr(self.model, size)
            live = {self.model.pages[key].number for key in self.model.live}
            assert live == self.windows.live


class WindowIndexByPolicy(WindowIndexAgainstModel):
    """The same under each of the other policies, which say what goes for the full layers."""

    policies = tuple(policy for policy in POLICIES if policy != "lru")


@pytest.mark.parametrize("machine", [WindowIndexAgainstModel, WindowIndexByPolicy])
def test_the_index_agrees_with_a_model_that_recomputes_every_window(machine):
    most = max(60, settings().max_examples if NIGHTLY else 0)  # sixty find all that is planted below
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=30, max_examples=most))


def outcome(cache, handles, step, verb, which, tokens, namespace, extra):
    """What one operation on `cache` comes to; the handles that it has given so far are in `handles`."""
    handle, number = handles[which % len(handles)] if handles else None, step * 100
    try:
        if verb in ("match_prefix", "acquire"):
            found = getattr(cache, verb)(tokens, limit=extra, namespace=namespace)
        elif verb == "insert":
            found = cache.insert(tokens, range(number, number + len(tokens)), namespace=namespace)
        elif verb == "insert from a lock" and handle is not None:
            whole = [*np.frombuffer(handle.source, np.uint32)[: handle.length].tolist(), *tokens]
            found = cache.insert(whole, range(number, number + len(whole)), namespace=handle.namespace, start=handle)
        elif verb in ("lock", "unlock") and handle is not None:
            return getattr(cache, verb)(handle)
        else:
            return cache.evict(extra or 0).tolist() if verb == "evict" else None
    except (LockError, ValueError) as error:
        return str(error)
    handles.append(found)
    return found.length, getattr(found, "prefix_length", None), found.node.id


def anatomy(cache):
    """Every node with all that is kept on it, the eviction order and the sizes."""
    fields = ("id", "end", "key_runs", "page_runs", "ref_count", "last_used", "created", "hits")
    nodes = [(*(getattr(node, field) for field in fields), node.parent.id) for node in cache.nodes()]
    return nodes, [node.id for node in cache._order], cache.evictable_size, cache.protected_size


VERBS = st.sampled_from(
    ["match_prefix", "acquire", "insert", "insert", "insert from a lock", "lock", "unlock", "unlock", "evict"]
)
OPERATIONS = st.lists(st.tuples(VERBS, st.integers(0, 99), TOKENS, NAMESPACES, LIMITS), max_size=40)


@given(OPERATIONS, st.integers(1, 3), st.integers(1, 6), st.sampled_from([*POLICIES]), st.sampled_from(EVICT_BY))
def test_as_long_as_no_window_has_gone_it_is_the_radix_tree(operations, page_size, window, policy, evict_by):
    """The same nodes, ids and order; what is locked takes a window with it, and splits nothing."""
    radix = RadixCache(page_size, policy, evict_by)
    index = SlidingWindowCache(page_size, policy, evict_by, window=window)
    of_radix, of_index = [], []
    for step, operation in enumerate(operations):
        assert outcome(index, of_index, step, *operation) == outcome(radix, of_radix, step, *operation)
        assert anatomy(index) == anatomy(radix)
        assert index.window_evictable_size + index.window_protected_size == index.total_size
        index.check()


def a_lock_pins_a_token_less(patch):
    """The window that a lock holds begins too late."""
    original = Windows.lock
    patch.setattr(Windows, "lock", lambda self, node, end: original(self, node, end + 1 if end > 1 else end))
    original_unlock = Windows.unlock
    patch.setattr(Windows, "unlock", lambda self, node, end: original_unlock(self, node, end + 1 if end > 1 else end))


def a_split_gives_the_live_part_to_the_upper_half(patch):
    """pymllm's Mamba split."""
    original = Windows.split

    def broken(self, upper, node):
        live_from = node.window.live_from
        original(self, upper, node)
        if upper.start < live_from < upper.end:
            upper.window.live_from = upper.start

    patch.setattr(Windows, "split", broken)


def a_leaf_loses_its_last_window(patch):
    """Its pages stay in the tree, and no match can ever end there."""
    patch.setattr(Windows, "spare", lambda self, state: state.num_free)


def a_match_does_not_refresh_windows(patch):
    """What everybody reads loses its window first."""
    patch.setattr(Windows, "touch", lambda self, path, now: None)


def what_comes_in_is_taken_for_live(patch):
    """pymllm, where the offset equals the length; here wherever it is given."""
    insert = SlidingWindowCache.insert
    patch.setattr(SlidingWindowCache, "insert", lambda self, *args, window_start, **rest: insert(self, *args, **rest))


def the_counter_begins_at_zero(patch):
    """A short path is taken for invalid, though nothing on it is dead."""
    original = Windows.valid_length

    def broken(self, *args):
        found = original(self, *args)
        return found if found >= self.span else 0

    patch.setattr(Windows, "valid_length", broken)


def healing_forgets_the_pool(patch):
    """The tree takes a window that the pool still gives to the duplicate."""
    original = Windows.revive
    patch.setattr(Windows, "revive", lambda self, *args: original(self, *args[:-1], None))


MUTANTS = [
    a_lock_pins_a_token_less, a_split_gives_the_live_part_to_the_upper_half, a_leaf_loses_its_last_window,
    a_match_does_not_refresh_windows, what_comes_in_is_taken_for_live, the_counter_begins_at_zero,
    healing_forgets_the_pool,
]  # fmt: skip


@pytest.mark.parametrize("plant", MUTANTS, ids=lambda plant: plant.__name__)
def test_the_window_machine_catches(plant, monkeypatch):
    plant(monkeypatch)
    hunt = settings(max_examples=60, stateful_step_count=30, phases=[Phase.generate])
    with pytest.raises((AssertionError, LockError, ValueError, KeyError)):
        run_state_machine_as_test(WindowIndexAgainstModel, settings=hunt)
