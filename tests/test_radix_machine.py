"""A state machine drives the radix tree and the naive model side by side, and compares everything after every step."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from naive import NaiveCache

from minikv import LockError, RadixCache

# Prompts leave one trunk at some point, so that most of them share something and many part inside a node.
TOKENS = st.builds(
    lambda cut, tail: [0, 1, 0, 0, 1, 1, 0, 1][:cut] + tail, st.integers(0, 8), st.lists(st.integers(0, 1), max_size=3)
)
NAMESPACES = st.sampled_from([None, None, "lora"])


class RadixAgainstModel(RuleBasedStateMachine):
    """Every rule does the same to both; `handles` holds pairs (the tree's, the model's)."""

    handles = Bundle("handles")

    @initialize(page_size=st.integers(1, 3), evict_by=st.sampled_from(["node", "page"]))
    def start(self, page_size, evict_by):
        self.tree = RadixCache(page_size, evict_by=evict_by)
        self.model = NaiveCache(page_size, evict_by)
        self.next_slot = 0

    def both(self, act):
        """`act` on the tree and on the model: both return, or both raise a `LockError`."""
        outcomes = []
        for cache, mine in ((self.tree, 0), (self.model, 1)):
            try:
                outcomes.append(act(cache, mine))
            except LockError:
                outcomes.append(LockError)
        assert (outcomes[0] is LockError) == (outcomes[1] is LockError)
        return outcomes

    def new_slots(self, count):
        self.next_slot += count
        return range(self.next_slot - count, self.next_slot)

    @rule(target=handles, tokens=TOKENS, namespace=NAMESPACES)
    def match(self, tokens, namespace):
        found, expected = self.both(lambda cache, _: cache.match_prefix(tokens, namespace=namespace))
        assert (found.length, found.slots.tolist()) == (expected.length, expected.slots.tolist())
        return found.handle, expected.handle

    @rule(target=handles, tokens=TOKENS, namespace=NAMESPACES)
    def insert(self, tokens, namespace):
        slots = self.new_slots(len(tokens))
        found, expected = self.both(lambda cache, _: cache.insert(tokens, slots, namespace=namespace))
        assert (found.prefix_length, found.length) == (expected.prefix_length, expected.length)
        return found.handle, expected.handle

    @rule(target=handles, pair=handles, more=TOKENS)
    def insert_from_a_handle(self, pair, more):
        tokens = [*pair[1].node[0], *more]
        slots, namespace = self.new_slots(len(tokens)), pair[1].namespace
        found, expected = self.both(
            lambda cache, mine: cache.insert(tokens, slots, namespace=namespace, start=pair[mine])
        )
        if found is LockError:
            return pair
        assert (found.prefix_length, found.length) == (expected.prefix_length, expected.length)
        return found.handle, expected.handle

    @rule(pair=handles)
    def lock(self, pair):
        self.both(lambda cache, mine: cache.lock(pair[mine]))

    @rule(pair=handles)
    def unlock(self, pair):
        self.both(lambda cache, mine: cache.unlock(pair[mine]))

    @rule(num_tokens=st.integers(0, 12))
    def evict(self, num_tokens):
        found, expected = self.both(lambda cache, _: sorted(cache.evict(num_tokens).tolist()))
        assert found == expected

    @rule()
    def reset(self):
        self.both(lambda cache, _: cache.reset())

    @invariant()
    def the_tree_is_sound_and_agrees(self):
        if not hasattr(self, "tree"):
            return
        self.tree.check()
        for size in ("evictable_size", "protected_size", "total_size"):
            assert getattr(self.tree, size) == getattr(self.model, size)
        assert contents(self.tree) == {key: (page.slots, page.last_used) for key, page in self.model.pages.items()}


def contents(tree: RadixCache) -> dict:
    """Every cached page of the tree with its age, read without a verb (a match would split and refresh)."""
    pages = {}
    for node in tree.nodes():
        prefix, walker = [], node
        while walker.parent is not None:
            prefix = [*walker.tokens, *prefix]
            walker = walker.parent
        above, size = len(prefix) - len(node.tokens), tree.page_size
        for at in range(0, len(node.tokens), size):
            age = node.last_used
            pages[walker.namespace, tuple(prefix[: above + at + size])] = node.slots[at : at + size].tolist(), age
    return pages


class TestRadix(RadixAgainstModel.TestCase):
    settings = settings(stateful_step_count=50)


# -- would the machine notice? Bugs planted in the tree, most of them real ones --------------------------------------


def split_forgets_the_locks(monkeypatch):
    """P-like: the upper half of a locked node is left unlocked."""
    original = RadixCache._split

    def broken(self, node, at):
        upper = original(self, node, at)
        if upper.ref_count:
            upper.ref_count = 0
            self._order.add(upper)
        return upper

    monkeypatch.setattr(RadixCache, "_split", broken)


def split_forgets_to_refresh(monkeypatch):
    """N5: a match that ends inside a node does not count as a use."""
    original = RadixCache.match_prefix

    def broken(self, tokens, *, namespace=None):
        known = self._next_id
        match = original(self, tokens, namespace=namespace)
        upper = match.handle.node
        if upper.id >= known and not upper.ref_count:  # put it back beside its lower half, as old as that
            (lower,) = upper.children.values()
            self._order.remove(upper)
            upper.older, upper.newer, upper.last_used = lower, lower.newer, lower.last_used
            upper.newer.older = lower.newer = upper
        return match

    monkeypatch.setattr(RadixCache, "match_prefix", broken)


def insert_counts_twice(monkeypatch):
    """P1: extending a cached prefix counts the prefix again."""
    original = RadixCache.insert

    def broken(self, tokens, slots, **options):
        inserted = original(self, tokens, slots, **options)
        if 0 < inserted.prefix_length < inserted.length:
            self._evictable += inserted.prefix_length
        return inserted

    monkeypatch.setattr(RadixCache, "insert", broken)


def lock_stops_at_the_last_node(monkeypatch):
    """A4b: only the node at the end is pinned, not the path to it."""
    original = RadixCache.lock

    def broken(self, handle):
        original(self, handle)
        node = handle.node.parent
        if node is not None and node.parent is not None and node.ref_count == 1:
            node.ref_count = 0
            self._order.add(node)
            self._evictable += len(node.slots)
            self._protected -= len(node.slots)

    monkeypatch.setattr(RadixCache, "lock", broken)


def duplicates_replace_the_trees_slots(monkeypatch):
    """Inserting what is there already takes the caller's slots instead of keeping the tree's."""
    original = RadixCache.insert

    def broken(self, tokens, slots, **options):
        inserted = original(self, tokens, slots, **options)
        node = inserted.handle.node
        if inserted.prefix_length == inserted.length > 0:
            node.slots[:] = type(node.slots)("i", list(slots)[node.end - len(node.slots) : node.end])
        return inserted

    monkeypatch.setattr(RadixCache, "insert", broken)


def eviction_takes_the_parent_first(monkeypatch):
    """A1: released nodes join the order from the root down, so that the oldest is a parent."""
    original = RadixCache._refresh

    def broken(self, node, stop):
        path = []
        walker = node
        while walker is not stop and walker.parent is not None:
            path.append(walker)
            walker = walker.parent
        original(self, node, stop)
        for walker in reversed(path):
            if not walker.ref_count:
                self._order.touch(walker)

    monkeypatch.setattr(RadixCache, "_refresh", broken)


MUTANTS = [
    split_forgets_the_locks,
    split_forgets_to_refresh,
    insert_counts_twice,
    lock_stops_at_the_last_node,
    duplicates_replace_the_trees_slots,
    eviction_takes_the_parent_first,
]


@pytest.mark.parametrize("plant", MUTANTS, ids=lambda plant: plant.__name__)
def test_the_machine_catches(plant, monkeypatch):
    plant(monkeypatch)
    hunt = settings(max_examples=400, stateful_step_count=30, phases=[Phase.generate])
    with pytest.raises(Exception):  # noqa: B017, PT011 - any failure will do, and most are InvariantErrors
        run_state_machine_as_test(RadixAgainstModel, settings=hunt)
