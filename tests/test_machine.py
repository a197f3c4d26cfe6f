"""The kit's strictest setting over every index, and whether it would notice: planted bugs, most of them real."""

from functools import partial

import pytest
from careless_caches import NeverJoins, SplitForgetsTheLocks
from hypothesis import Phase, settings
from hypothesis import strategies as st
from indexes import collides
from machine import Watched, hunt, subject_for
from policy_model import GOES_FIRST, READS

from minikv import HashBlockCache, LockError, RadixCache
from minikv.prefix import BY_POLICY, INDEXES
from minikv.prefix.contract import page_bytes
from minikv.prefix.eviction import POLICIES, LeastRecentlyUsed
from minikv.prefix.radix import _GONE
from minikv.testing.scenarios import taking_turns
from minikv.testing.search import find_breach
from minikv.tokens import pack


def test_the_model_spells_out_every_policy():
    assert set(GOES_FIRST) == set(READS) == set(POLICIES)
    assert {name: set(READS[name]) for name in READS} == {name: set(POLICIES[name].reads) for name in POLICIES}


def share():
    """The part of the examples that each of the policies and designs gets."""
    return max(40, -(-settings().max_examples // len(POLICIES)))


@pytest.mark.parametrize("policy", POLICIES)
def test_radix(policy):
    """Each policy has its own hunt, so that none of them is tried in passing only."""
    hunt(st.just(subject_for(policy=policy)), max_examples=share())


COLLIDING = partial(HashBlockCache, block_hash=collides)  # eight keys for all blocks


@pytest.mark.parametrize(
    "design", [*(name for name in INDEXES if name != "radix"), pytest.param(COLLIDING, id="eight keys")]
)
def test_another_design(design):
    hunt(st.just(subject_for(design, ["node" if design == "window" else "page"])), max_examples=share())


@pytest.mark.parametrize("name", INDEXES)
def test_requests_that_take_turns(name):
    subject = subject_for(name, ["node" if name in BY_POLICY else "page"])
    found = [find_breach(subject, scenario, set(), Watched) for scenario in taking_turns()]
    assert found == [None] * 60


class SplitForgetsToRefresh(RadixCache):
    """The notebook and mini-sglang: a match that ends inside a node returns before it refreshes the node."""

    def _use(self, node, top):
        if node is not top and node.id == self._next_id - 1 and node.children:  # just made by a split
            path = [node]
            while path[-1].parent is not top:
                path.append(path[-1].parent)
            return path
        return super()._use(node, top)


class TheNewBranchHangsOnTheLowerHalf(RadixCache):
    """pymllm's sliding-window tree drops what the split returned, and serves keys and values of another prompt."""

    def _split(self, node, at):
        super()._split(node, at)
        return node


class InsertCountsTwice(RadixCache):
    """pymllm: extending a cached prefix counts the prefix as evictable again."""

    def insert(self, tokens, pages, **options):
        done = super().insert(tokens, pages, **options)
        if 0 < done.prefix_length < done.length:
            self._evictable += done.prefix_length
        return done


class LockStopsAtTheLastNode(RadixCache):
    """AstrAI, and mini-sglang#46: only the node at the end is pinned, not the path to it."""

    def lock(self, handle):
        super().lock(handle)
        node = handle.node.parent
        if node is not None and node.parent is not None and node.ref_count == 1:
            node.ref_count = 0
            self._order.add([node])
            self._evictable += len(node.tokens)
            self._protected -= len(node.tokens)


class UnlockTakesWhatWasNeverLocked(RadixCache):
    """AstrAI floors at zero, SGLang and pymllm count to minus one: no word to the caller."""

    def unlock(self, handle):
        if handle.epoch is self._epoch and handle not in self._held:
            return
        super().unlock(handle)


class DuplicatesReplaceTheTreesPages(RadixCache):
    """Inserting what is there takes the caller's pages, which the caller then frees."""

    def insert(self, tokens, pages, **options):
        kept = page_bytes(pages, len(tokens), self.page_size)
        done = super().insert(tokens, pages, **options)
        node, start = done.handle.node, options.get("start")
        if done.prefix_length == done.length > (start.length if start else 0):
            node.glue()
            node.page_runs = (kept[-len(node.page_bytes) :],)
        return done


class TheCallersBufferIsKept(RadixCache):
    """The notebook: pages are a view of the caller's tensor, which goes on changing."""

    def insert(self, tokens, pages, **options):
        done = super().insert(tokens, pages, **options)
        node = done.handle.node
        if done.prefix_length == 0 and done.length == len(pages) * self.page_size == len(node.tokens):
            node.page_runs = (memoryview(pages).cast("B"),)
        return done


class ParentsFirst(LeastRecentlyUsed):
    """AstrAI: used nodes join the order from the root down, so that the oldest is a parent."""

    def add(self, path):
        super().add(path[::-1])


class EvictionTakesTheParentFirst(RadixCache):
    def __init__(self, page_size, policy, evict_by):
        super().__init__(page_size, ParentsFirst, evict_by)


class EvictedNodesStayReachable(RadixCache):
    """AstrAI: what is evicted stays linked to its parent, and is found again."""

    def _remove_leaf(self, leaf):
        parent, first_page, held = leaf.parent, leaf.key_bytes[: self._stride], (leaf.key_runs, leaf.page_runs)
        freed = super()._remove_leaf(leaf)
        if parent.parent is not None and not parent.children:
            leaf.key_runs, leaf.page_runs = held
            parent.children = {first_page: leaf}
        return freed


class AnEvictedEdgeGivesBackItsFirstRunAlone(RadixCache):
    """A join only lines up the runs of its edges, and eviction forgets all but the first."""

    def _remove_leaf(self, leaf):
        return super()._remove_leaf(leaf)[:1]


class EvictionCountsPagesForTokens(RadixCache):
    """mini-sglang#80: one side counts tokens, the other pages."""

    def evict(self, count):
        return super().evict(-(-count // self.page_size))


class HalfAPageIsStored(RadixCache):
    """pymllm: an insert that is not whole pages is stored, and can never be matched."""

    def insert(self, tokens, pages, **options):
        tail = -len(tokens) % self.page_size if len(pages) * self.page_size >= len(tokens) else 0
        return super().insert(pack(tokens) + [0] * tail, pages, **options)


class NamespacesAreIgnored(RadixCache):
    """pymllm: the extra key is not part of what is compared, so two adapters share keys and values."""

    def _root_of(self, namespace):
        return super()._root_of(None)


class UseIsNotCounted(RadixCache):
    """lfu that counts only what is inserted: what everybody reads is evicted first."""

    def match_prefix(self, tokens, *, limit=None, namespace=None):
        match = super().match_prefix(tokens, limit=limit, namespace=namespace)
        node = match.handle.node
        while node.parent is not None:
            node.hits -= 1
            if not node.ref_count:
                self._order.reorder(node)
            node = node.parent
        return match


class AJoinIgnoresTheLocks(RadixCache):
    """A locked node becomes one with the unlocked node below it."""

    def _joinable(self, node, top=None):
        above = [node.parent]
        same = all(getattr(above[0], field) == getattr(node, field) for field in self._also_reads)
        return above if same and above[0].ref_count != node.ref_count and above[0] is not top else []


class AJoinIgnoresWhatThePolicyReads(RadixCache):
    """A prefix that was used often becomes one with a tail that was used once."""

    def _joinable(self, node, top=None):
        reads, self._also_reads = self._also_reads, ()
        try:
            return super()._joinable(node, top)
        finally:
            self._also_reads = reads


class AJoinTurnsThePagesRound(RadixCache):
    """The nodes above are given nearest first, and their pages are joined in that order."""

    def _join(self, node, above):
        turned = b"".join(part.page_bytes for part in [node, *above])
        super()._join(node, above)
        node.glue()
        node.page_runs = (turned,)


class AJoinedHandleIsRefused(RadixCache):
    """A handle counts as stale as soon as its own node is gone, though its tokens are still cached."""

    def _find_again(self, handle):
        if handle.node.ref_count == _GONE:
            raise LockError("stale")
        return super()._find_again(handle)


BUGS = [
    SplitForgetsTheLocks,
    NeverJoins,
    SplitForgetsToRefresh,
    TheNewBranchHangsOnTheLowerHalf,
    InsertCountsTwice,
    LockStopsAtTheLastNode,
    UnlockTakesWhatWasNeverLocked,
    DuplicatesReplaceTheTreesPages,
    TheCallersBufferIsKept,
    EvictionTakesTheParentFirst,
    EvictedNodesStayReachable,
    AnEvictedEdgeGivesBackItsFirstRunAlone,
    EvictionCountsPagesForTokens,
    HalfAPageIsStored,
    NamespacesAreIgnored,
    UseIsNotCounted,
    AJoinIgnoresTheLocks,
    AJoinIgnoresWhatThePolicyReads,
    AJoinTurnsThePagesRound,
    AJoinedHandleIsRefused,
]
BY_HITS = (UseIsNotCounted, AJoinIgnoresWhatThePolicyReads)


@pytest.mark.nightly  # it tests the test above
@pytest.mark.parametrize("made", BUGS, ids=lambda made: made.__name__)
def test_the_machine_catches(made):
    subject = subject_for(made, policy="lfu" if made in BY_HITS else "lru")
    with pytest.raises(AssertionError, match="cache = Pooled"):
        hunt(st.just(subject), max_examples=600, phases=[Phase.generate])
