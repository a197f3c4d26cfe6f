"""The state machine over every index, and whether it would notice: bugs planted one by one, most of them real."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from machine import IndexAgainstModel
from naive import GOES_FIRST

from minikv import LockError, RadixCache


def under(policy):
    """The machine under one policy: each has its own hunt, so that none of them is tried in passing only."""
    return type(f"Under_{policy}", (IndexAgainstModel,), {"policy": policy})


@pytest.mark.parametrize("policy", GOES_FIRST)
def test_radix(policy):
    share = max(40, -(-settings().max_examples // len(GOES_FIRST)))
    run_state_machine_as_test(under(policy), settings=settings(stateful_step_count=50, max_examples=share))


def split_forgets_the_locks(patch):
    """The upper half of a locked node is left unlocked (pymllm's Mamba split keeps state with the wrong half)."""
    original = RadixCache._split

    def broken(self, node, at):
        upper = original(self, node, at)
        if upper.ref_count:
            upper.ref_count = 0
            self._order.add([upper])
        return upper

    patch.setattr(RadixCache, "_split", broken)


def split_forgets_to_refresh(patch):
    """The notebook and mini-sglang: a match that ends inside a node returns before it refreshes the node."""
    original = RadixCache._use

    def broken(self, node, top):
        if node is not top and node.id == self._next_id - 1 and node.children:  # just made by a split
            path = [node]
            while path[-1].parent is not top:
                path.append(path[-1].parent)
            return path
        return original(self, node, top)

    patch.setattr(RadixCache, "_use", broken)


def the_new_branch_hangs_on_the_lower_half(patch):
    """pymllm's sliding-window tree drops what the split returned, and serves keys and values of another prompt."""
    original = RadixCache._split

    def broken(self, node, at):
        original(self, node, at)
        return node

    patch.setattr(RadixCache, "_split", broken)


def insert_counts_twice(patch):
    """pymllm: extending a cached prefix counts the prefix as evictable again."""
    original = RadixCache.insert

    def broken(self, tokens, pages, **options):
        done = original(self, tokens, pages, **options)
        if 0 < done.prefix_length < done.length:
            self._evictable += done.prefix_length
        return done

    patch.setattr(RadixCache, "insert", broken)


def lock_stops_at_the_last_node(patch):
    """AstrAI, and mini-sglang#46: only the node at the end is pinned, not the path to it."""
    original = RadixCache.lock

    def broken(self, handle):
        original(self, handle)
        node = handle.node.parent
        if node is not None and node.parent is not None and node.ref_count == 1:
            node.ref_count = 0
            self._order.add([node])
            self._evictable += len(node.tokens)
            self._protected -= len(node.tokens)

    patch.setattr(RadixCache, "lock", broken)


def unlock_takes_what_was_never_locked(patch):
    """AstrAI floors at zero, SGLang and pymllm count to minus one: no word to the caller."""
    original = RadixCache.unlock

    def broken(self, handle):
        if handle.epoch is self._epoch and handle not in self._held:
            return
        original(self, handle)

    patch.setattr(RadixCache, "unlock", broken)


def duplicates_replace_the_trees_slots(patch):
    """Inserting what is there takes the caller's slots, which the caller then frees."""
    original = RadixCache.insert

    def broken(self, tokens, pages, **options):
        kept = array("i", [int(slot) for slot in slots])
        done = original(self, tokens, pages, **options)
        node, start = done.handle.node, options.get("start")
        if done.prefix_length == done.length > (start.length if start else 0):
            node.slots = kept[node.end - len(node.slots) : node.end]
        return done

    patch.setattr(RadixCache, "insert", broken)


def the_callers_buffer_is_kept(patch):
    """The notebook: slots are a view of the caller's tensor, which goes on changing."""
    original = RadixCache.insert

    def broken(self, tokens, pages, **options):
        done = original(self, tokens, pages, **options)
        node = done.handle.node
        if done.prefix_length == 0 and done.length == len(slots) == len(node.slots):
            node.slots = slots
        return done

    patch.setattr(RadixCache, "insert", broken)


def eviction_takes_the_parent_first(patch):
    """AstrAI: used nodes join the order from the root down, so that the oldest is a parent."""
    original = RadixCache._use

    def broken(self, node, top):
        path = original(self, node, top)
        self._order.touch([used for used in reversed(path) if not used.ref_count])
        return path

    patch.setattr(RadixCache, "_use", broken)


def evicted_nodes_stay_reachable(patch):
    """AstrAI: what is evicted stays linked to its parent, and is found again."""
    original = RadixCache._remove_leaf

    def broken(self, leaf):
        parent, first_page = leaf.parent, leaf.key[: self._step]
        slots = original(self, leaf)
        if parent.parent is not None and not parent.children:
            parent.children[first_page] = leaf
        return slots

    patch.setattr(RadixCache, "_remove_leaf", broken)


def eviction_counts_pages_for_tokens(patch):
    """mini-sglang#80: one side counts tokens, the other pages."""
    original = RadixCache.evict
    patch.setattr(RadixCache, "evict", lambda self, count: original(self, -(-count // self.page_size)))


def half_a_page_is_stored(patch):
    """pymllm: an insert that is not whole pages is stored, and can never be matched."""
    original = RadixCache.insert

    def broken(self, tokens, pages, **options):
        step, self._step = self._step, 4
        try:
            return original(self, tokens, pages, **options)
        finally:
            self._step = step

    patch.setattr(RadixCache, "insert", broken)


def namespaces_are_ignored(patch):
    """pymllm: the extra key is not part of what is compared, so two adapters share keys and values."""
    original = RadixCache._root_of
    patch.setattr(RadixCache, "_root_of", lambda self, namespace: original(self, None))


def use_is_not_counted(patch):
    """lfu that counts only what is inserted: what everybody reads is evicted first."""
    original = RadixCache.match_prefix

    def broken(self, tokens, *, namespace=None):
        match = original(self, tokens, namespace=namespace)
        node = match.handle.node
        while node.parent is not None:
            node.hits -= 1
            if not node.ref_count:
                self._order.rekey(node)
            node = node.parent
        return match

    patch.setattr(RadixCache, "match_prefix", broken)


MUTANTS = [
    split_forgets_the_locks,
    split_forgets_to_refresh,
    the_new_branch_hangs_on_the_lower_half,
    insert_counts_twice,
    lock_stops_at_the_last_node,
    unlock_takes_what_was_never_locked,
    duplicates_replace_the_trees_slots,
    the_callers_buffer_is_kept,
    eviction_takes_the_parent_first,
    evicted_nodes_stay_reachable,
    eviction_counts_pages_for_tokens,
    half_a_page_is_stored,
    namespaces_are_ignored,
    use_is_not_counted,
]


@pytest.mark.parametrize("plant", MUTANTS, ids=lambda plant: plant.__name__)
def test_the_machine_catches(plant, monkeypatch):
    """By an assertion, an audit or a refusal; a mutant that merely does not run would prove nothing."""
    plant(monkeypatch)
    machine = under("lfu" if plant is use_is_not_counted else "lru")
    hunt = settings(max_examples=600, stateful_step_count=30, phases=[Phase.generate])
    with pytest.raises((AssertionError, ValueError, LockError, KeyError)):
        run_state_machine_as_test(machine, settings=hunt)
