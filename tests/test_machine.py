"""The state machine over every index, and whether it would notice: bugs planted one by one, most of them real."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from machine import IndexAgainstModel, PagesAgainstModel
from nightly import NIGHTLY, by_day
from policy_model import GOES_FIRST, READS

from minikv import LockError, RadixCache
from minikv.prefix import INDEXES
from minikv.prefix.contract import page_bytes
from minikv.prefix.eviction import POLICIES, LeastRecentlyUsed
from minikv.prefix.radix import _GONE
from minikv.tokens import pack

pytestmark = pytest.mark.core


def under(policy):
    """The machine under one policy: each has its own hunt, so that none of them is tried in passing only."""
    return type(f"Under_{policy}", (IndexAgainstModel,), {"policy": policy})


def test_the_model_spells_out_every_policy():
    assert set(GOES_FIRST) == set(READS) == set(POLICIES)
    assert {name: set(READS[name]) for name in READS} == {name: set(POLICIES[name].reads) for name in POLICIES}


def hunt(machine):
    """Drive it with a policy's share of the examples, for as many steps as find the mutants below."""
    share = max(40, -(-settings().max_examples // len(POLICIES)))
    steps = 50 if NIGHTLY else 30
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=steps, max_examples=share))


@pytest.mark.parametrize("policy", POLICIES)
def test_radix(policy):
    hunt(under(policy))


@pytest.mark.parametrize("name", [name for name in INDEXES if name != "radix"])
def test_another_design(name):
    whole_nodes = {"evicts_by": ("node",)} if name == "window" else {}
    hunt(type(f"Over_{name}", (PagesAgainstModel,), {"design": name, **whole_nodes}))


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


def duplicates_replace_the_trees_pages(patch):
    """Inserting what is there takes the caller's pages, which the caller then frees."""
    original = RadixCache.insert

    def broken(self, tokens, pages, **options):
        kept = page_bytes(pages, len(tokens), self.page_size)
        done = original(self, tokens, pages, **options)
        node, start = done.handle.node, options.get("start")
        if done.prefix_length == done.length > (start.length if start else 0):
            node.glue()
            node.page_runs = (kept[-len(node.page_bytes) :],)
        return done

    patch.setattr(RadixCache, "insert", broken)


def the_callers_buffer_is_kept(patch):
    """The notebook: pages are a view of the caller's tensor, which goes on changing."""
    original = RadixCache.insert

    def broken(self, tokens, pages, **options):
        done = original(self, tokens, pages, **options)
        node = done.handle.node
        if done.prefix_length == 0 and done.length == len(pages) * self.page_size == len(node.tokens):
            node.page_runs = (memoryview(pages).cast("B"),)
        return done

    patch.setattr(RadixCache, "insert", broken)


def eviction_takes_the_parent_first(patch):
    """AstrAI: used nodes join the order from the root down, so that the oldest is a parent."""
    original = LeastRecentlyUsed.add
    patch.setattr(LeastRecentlyUsed, "add", lambda self, path: original(self, path[::-1]))


def evicted_nodes_stay_reachable(patch):
    """AstrAI: what is evicted stays linked to its parent, and is found again."""
    original = RadixCache._remove_leaf

    def broken(self, leaf):
        parent, first_page, held = leaf.parent, leaf.key_bytes[: self._stride], (leaf.key_runs, leaf.page_runs)
        freed = original(self, leaf)
        if parent.parent is not None and not parent.children:
            leaf.key_runs, leaf.page_runs = held
            parent.children = {first_page: leaf}
        return freed

    patch.setattr(RadixCache, "_remove_leaf", broken)


def an_evicted_edge_gives_back_its_first_run_alone(patch):
    """A join only lines up the runs of its edges, and eviction forgets all but the first."""
    original = RadixCache._remove_leaf
    patch.setattr(RadixCache, "_remove_leaf", lambda self, leaf: original(self, leaf)[:1])


def eviction_counts_pages_for_tokens(patch):
    """mini-sglang#80: one side counts tokens, the other pages."""
    original = RadixCache.evict
    patch.setattr(RadixCache, "evict", lambda self, count: original(self, -(-count // self.page_size)))


def half_a_page_is_stored(patch):
    """pymllm: an insert that is not whole pages is stored, and can never be matched."""
    original = RadixCache.insert

    def broken(self, tokens, pages, **options):
        tail = -len(tokens) % self.page_size if len(pages) * self.page_size >= len(tokens) else 0
        return original(self, pack(tokens) + [0] * tail, pages, **options)

    patch.setattr(RadixCache, "insert", broken)


def namespaces_are_ignored(patch):
    """pymllm: the extra key is not part of what is compared, so two adapters share keys and values."""
    original = RadixCache._root_of
    patch.setattr(RadixCache, "_root_of", lambda self, namespace: original(self, None))


def use_is_not_counted(patch):
    """lfu that counts only what is inserted: what everybody reads is evicted first."""
    original = RadixCache.match_prefix

    def broken(self, tokens, *, limit=None, namespace=None):
        match = original(self, tokens, limit=limit, namespace=namespace)
        node = match.handle.node
        while node.parent is not None:
            node.hits -= 1
            if not node.ref_count:
                self._order.reorder(node)
            node = node.parent
        return match

    patch.setattr(RadixCache, "match_prefix", broken)


def nothing_is_joined(patch):
    """SGLang and mini-sglang: what a branch once cut stays cut when the branch is gone."""
    patch.setattr(RadixCache, "_joinable", lambda self, node, top=None: [])


def a_join_ignores_the_locks(patch):
    """A locked node becomes one with the unlocked node below it."""

    def broken(self, node, top=None):
        above = [node.parent]
        same = all(getattr(above[0], field) == getattr(node, field) for field in self._also_reads)
        return above if same and above[0].ref_count != node.ref_count and above[0] is not top else []

    patch.setattr(RadixCache, "_joinable", broken)


def a_join_ignores_what_the_policy_reads(patch):
    """A prefix that was used often becomes one with a tail that was used once."""
    original = RadixCache._joinable

    def broken(self, node, top=None):
        reads, self._also_reads = self._also_reads, ()
        try:
            return original(self, node, top)
        finally:
            self._also_reads = reads

    patch.setattr(RadixCache, "_joinable", broken)


def a_join_turns_the_pages_round(patch):
    """The nodes above are given nearest first, and their pages are joined in that order."""
    original = RadixCache._join

    def broken(self, node, above):
        turned = b"".join(part.page_bytes for part in [node, *above])
        original(self, node, above)
        node.glue()
        node.page_runs = (turned,)

    patch.setattr(RadixCache, "_join", broken)


def a_joined_handle_is_refused(patch):
    """A handle counts as stale as soon as its own node is gone, though its tokens are still cached."""
    original = RadixCache._find_again

    def broken(self, handle):
        if handle.node.ref_count == _GONE:
            raise LockError("stale")
        return original(self, handle)

    patch.setattr(RadixCache, "_find_again", broken)


def a_stale_handle_follows_the_joins(patch):
    """An evicted leaf forwards to its parent, and that to what it was joined with: other tokens, perhaps."""
    original = RadixCache._find_again

    def broken(self, handle):
        while handle.node.ref_count == _GONE:
            handle.node = handle.node.parent
        return original(self, handle)

    patch.setattr(RadixCache, "_find_again", broken)


MUTANTS = [
    split_forgets_the_locks,
    split_forgets_to_refresh,
    the_new_branch_hangs_on_the_lower_half,
    insert_counts_twice,
    lock_stops_at_the_last_node,
    unlock_takes_what_was_never_locked,
    duplicates_replace_the_trees_pages,
    the_callers_buffer_is_kept,
    eviction_takes_the_parent_first,
    evicted_nodes_stay_reachable,
    eviction_counts_pages_for_tokens,
    half_a_page_is_stored,
    namespaces_are_ignored,
    use_is_not_counted,
    an_evicted_edge_gives_back_its_first_run_alone,
    nothing_is_joined,
    a_join_ignores_the_locks,
    a_join_ignores_what_the_policy_reads,
    a_join_turns_the_pages_round,
    a_joined_handle_is_refused,
]
HUNTED_LONG = (split_forgets_the_locks, an_evicted_edge_gives_back_its_first_run_alone, nothing_is_joined)
BY_HITS = (use_is_not_counted, a_join_ignores_what_the_policy_reads)


@pytest.mark.parametrize(
    "plant", by_day(MUTANTS, lambda plant: plant not in HUNTED_LONG), ids=lambda plant: plant.__name__
)
def test_the_machine_catches(plant, monkeypatch):
    """By an assertion, an audit or a refusal; a mutant that merely does not run would prove nothing."""
    plant(monkeypatch)
    machine = under("lfu" if plant in BY_HITS else "lru")
    long = settings(max_examples=600, stateful_step_count=30, phases=[Phase.generate])
    with pytest.raises((AssertionError, ValueError, LockError, KeyError)):
        run_state_machine_as_test(machine, settings=long)


def a_stale_handle_after_a_join():
    """A handle whose leaf was evicted, and whose parent has been joined with another leaf of the same length since."""
    cache = RadixCache()
    cache.insert([1, 2], [0, 1])
    stale = cache.insert([1, 2, 3, 4], [0, 1, 2, 3])
    cache.evict(2)
    cache.insert([1, 2, 5, 6], [0, 1, 4, 5])
    assert cache.match_prefix([1, 2, 5, 6]).length == stale.length == 4
    assert [node.tokens for node in cache.nodes()] == [[1, 2, 5, 6]]
    cache.lock(stale)
    return cache


def test_a_stale_handle_does_not_follow_the_joins(monkeypatch):
    """Too rare for a random search: without the ends that gone nodes keep, it would lock another prompt's tokens."""
    with pytest.raises(LockError, match="its end was evicted"):
        a_stale_handle_after_a_join()
    a_stale_handle_follows_the_joins(monkeypatch)
    assert a_stale_handle_after_a_join().protected_size == 4
