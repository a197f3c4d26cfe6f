"""The kit's strictest setting over every index, and whether it would notice what is planted in a tree's own ways.

That the kit notices what any cache may get wrong, test_conformance says: its careless caches.
"""

import pytest
from careless_caches import NeverJoins, SplitForgetsTheLocks
from hypothesis import Phase, settings
from hypothesis import strategies as st
from indexes import DESIGNS
from machine import Watched, has_policy, hunt, subject_for
from policy_model import GOES_FIRST, READS

from minikv import LockError, RadixCache
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix import _GONE
from minikv.testing.scenarios import taking_turns
from minikv.testing.search import find_breach


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


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_another_design(design):
    hunt(st.just(subject_for(design, ["node" if design == "window" else "page"])), max_examples=share())


@pytest.mark.parametrize("design", ["radix", *DESIGNS.values()], ids=["radix", *DESIGNS])
def test_requests_that_take_turns(design):
    subject = subject_for(design, ["node" if has_policy(design) else "page"])
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
    LockStopsAtTheLastNode,
    EvictedNodesStayReachable,
    AnEvictedEdgeGivesBackItsFirstRunAlone,
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
