"""What is the radix tree's own: its nodes, its order and its cost, beyond the contract."""

import pytest
from digits import edges, put
from refusals import said

from minikv import InvariantError, RadixCache, pack
from minikv.prefix.eviction import LeastRecentlyUsed
from minikv.prefix.radix import EVICT_BY


def test_nodes_come_parents_first_with_ids_in_the_order_of_their_making_and_short_reprs():
    cache = RadixCache()
    cache.insert([1, 2, 3, 4], range(4))
    cache.lock(cache.insert([1, 2, 5], [0, 1, 5]))
    cache.insert(range(6, 15), range(6, 15))
    nine = "[6, 7, 8, 9, 10, 11, 12, 13, ... 9 in all]"
    assert [repr(node) for node in (cache.root, *cache.nodes())] == [
        "RadixRoot(id=0, tokens=[], pages=[], ref_count=0)",
        "RadixNode(id=2, tokens=[1, 2], pages=[0, 1], ref_count=1)",
        "RadixNode(id=1, tokens=[3, 4], pages=[2, 3], ref_count=0)",
        "RadixNode(id=3, tokens=[5], pages=[5], ref_count=1)",
        f"RadixNode(id=4, tokens={nine}, pages={nine}, ref_count=0)",
    ]


def test_a_wrong_way_to_evict_is_named():
    assert said(RadixCache, evict_by="token") == "ValueError: evict_by is 'token': expected one of node, page"


# -- what it costs -----------------------------------------------------------------------------------------------------


def test_a_tree_1_500_nodes_deep_needs_no_recursion():
    cache, tokens = RadixCache(), pack(range(1500))
    end = cache.insert(tokens, range(1500))
    for length in range(1499, 0, -1):
        cache.match_prefix(tokens[:length])
    assert len(cache.nodes()) == 1500
    cache.lock(end)
    cache.check()
    cache.unlock(end)
    assert cache.match_prefix(tokens).length == 1500
    assert len(cache.nodes()) == 1


class Counted(LeastRecentlyUsed):
    """It counts how often it is asked for the next victim, and refuses to be read as a whole."""

    asked = 0

    def first(self):
        self.asked += 1
        return super().first()

    def __iter__(self):
        raise AssertionError("a scan")


@pytest.mark.parametrize("leaves", [10, 1000])
def test_evicting_so_many_leaves_asks_the_order_as_often_however_many_there_are(leaves):
    cache = RadixCache(policy=Counted)
    for leaf in range(leaves):
        cache.insert([leaf, leaf], [2 * leaf, 2 * leaf + 1])
    assert len(cache.evict(6)) == 6
    assert cache._order.asked == 3


def test_a_handle_whose_end_was_trimmed_is_stale_whatever_was_cached_in_its_place():
    cache = RadixCache(evict_by="page")
    handle = cache.insert([1, 2, 3], [1, 2, 3])
    cache.evict(1)
    refused = [said(cache.lock, handle)]
    cache.insert([1, 2, 4], [1, 2, 4])
    cache.match_prefix([1, 2, 4])
    refused.append(said(cache.lock, handle))
    assert refused == ["LockError: cannot lock the handle of length 3 (node 1): its end was evicted"] * 2


def test_trimming_a_long_leaf_page_by_page_copies_little(monkeypatch):
    cache, length, copied = RadixCache(evict_by="page"), 20_000, []
    cache.insert(range(length), range(length))
    trim = cache._trim
    monkeypatch.setattr(
        cache, "_trim", lambda leaf, size: (copied.append(len(leaf.page_runs[-1])), trim(leaf, size))[1]
    )
    for page in range(length - 1, length - 5000, -1):
        assert cache.evict(1).tolist() == [page]
    cache.check()
    assert sum(copied) / len(copied) < 4096
    assert cache.match_prefix(range(length)).pages.tolist() == list(range(length - 4999))


# -- joins -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [1, 3])
def test_a_conversation_of_many_turns_is_one_edge_of_few_parts(turn):
    """That it splits and goes anywhere, the machine says."""
    cache = RadixCache()
    for length in range(turn, 40 * turn, turn):
        cache.insert(range(length), range(length))
        cache.match_prefix(range(length))
    (node,) = cache.nodes()
    assert len(node.key_runs) <= 4
    assert node.pages.tolist() == [*range(length)]


# -- policies that misbehave -------------------------------------------------------------------------------------------


class Stubborn(LeastRecentlyUsed):
    """It wants one node, whatever that is."""

    wants = None

    def first(self):
        return self.wants or super().first()


@pytest.mark.parametrize("evict_by", EVICT_BY)
def test_a_policy_that_names_a_node_that_may_not_go_is_found_before_anything_is_evicted(evict_by):
    cache = RadixCache(policy=Stubborn, evict_by=evict_by)
    inner, leaf = put(cache, b"123"), put(cache, b"1234")
    for end, why in ((inner, "no leaf"), (leaf, "locked")):
        cache._order.wants = end.node
        with pytest.raises(InvariantError, match=f"policy 'Stubborn' wants to evict it, but it is {why}"):
            cache.evict(1)
        assert cache.total_size == 4
        cache.check()
        cache.lock(leaf)


@pytest.mark.parametrize("verb", ["add", "touch"])
@pytest.mark.parametrize("below", [b"12", b"123"], ids=["beside a leaf", "below a leaf"])
def test_an_insert_in_which_a_policy_fails_has_cached_nothing(verb, below, monkeypatch):
    cache = RadixCache()
    put(cache, b"123")
    cache.match_prefix(below)
    with monkeypatch.context() as patch:
        patch.setattr(cache._order, verb, lambda path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            put(cache, below + b"78")
    assert cache.total_size == 3
    cache.check()
    assert cache.match_prefix(below + b"78").length == len(below)
    assert sorted(cache.evict(9).tolist()) == [1, 12, 123]


def test_a_policy_that_fails_half_way_through_an_eviction_keeps_no_page_that_went(monkeypatch):
    cache = RadixCache()
    put(cache, b"1", b"2", b"3", b"4")
    first = cache._order.first
    monkeypatch.setattr(cache._order, "first", lambda: first() if len(cache.nodes()) > 2 else 1 / 0)
    assert cache.evict(4).tolist() == [1, 2]
    with pytest.raises(ZeroDivisionError):
        cache.evict(1)
    assert (edges(cache), cache.evictable_size) == ([b"3", b"4"], 2)


# -- an insert after a lock --------------------------------------------------------------------------------------------


def test_nothing_is_cached_after_a_handle_that_is_not_locked():
    """That all else is as if the whole prompt had been given, test_race and test_scheduler say."""
    cache = RadixCache()
    says = said(cache.insert_after, cache.match_prefix(b"1"), bytes(4), bytes(4))
    assert says == "LockError: cannot insert after the handle of length 0 (node 0): it holds no lock"
    assert cache.total_size == 0
