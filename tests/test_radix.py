"""What is the radix tree's own: its nodes, its order and its cost, beyond the contract."""

import dataclasses
import random
from array import array

import pytest
from digits import edges, put
from hypothesis import given
from hypothesis import strategies as st
from refusals import said

from minikv import InvariantError, RadixCache, SlidingWindowCache, pack
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


@given(st.lists(st.integers(1, 5), min_size=1, max_size=40), st.sampled_from(EVICT_BY), st.data())
def test_a_conversation_of_many_turns_is_one_edge_of_few_parts_that_splits_and_goes_anywhere(turns, evict_by, data):
    cache, length = RadixCache(evict_by=evict_by), 0
    for turn in turns:
        match = cache.acquire(range(length))
        assert match.pages.tolist() == list(range(100, 100 + length))
        length += turn
        cache.insert(range(length), range(100, 100 + length), start=match)
        cache.unlock(match)
    cache.match_prefix(range(length))
    (node,) = cache.nodes()
    assert len(node.key_runs) <= 4
    cut = data.draw(st.integers(0, length), "cut")
    assert cache.match_prefix(range(cut)).pages.tolist() == list(range(100, 100 + cut))
    cache.check()
    gone = cache.evict(data.draw(st.integers(0, length - cut), "evicted")).tolist()
    tail = list(range(100 + length - len(gone), 100 + length))
    assert gone == (tail[::-1] if evict_by == "page" else tail)
    assert cache.match_prefix(range(length)).length == length - len(gone)
    cache.check()


def test_an_insert_raises_the_priority_before_it_joins():
    cache = RadixCache(policy="priority")
    put(cache, b"1234")
    put(cache, b"12", priority=1)
    assert edges(cache) == [b"12", b"34"]
    put(cache, b"1234", priority=1)
    assert edges(cache) == [b"1234"]


@pytest.mark.parametrize("made", [RadixCache, lambda: SlidingWindowCache(window=2)], ids=["radix", "window"])
def test_a_handle_is_the_same_before_and_after_its_lock(made):
    """Its own node was joined: where it ends now is found at each call, and kept nowhere."""
    cache = made()
    first, second = put(cache, b"12"), put(cache, b"1234")
    cache.match_prefix(b"1234")
    assert first.node.ref_count < 0, "it is a part of the longer edge"
    before = [getattr(first, field.name) for field in dataclasses.fields(first)]
    cache.lock(first)
    cache.lock(first)
    cache.check()
    put(cache, b"129", start=first)
    cache.unlock(first)
    cache.evict(99)
    cache.check()
    assert (cache.protected_size, cache.total_size) == (2, 2), "its end is found though the rest is gone"
    put(cache, b"127", start=first)
    cache.unlock(first)
    cache.check()
    assert before == [getattr(first, field.name) for field in dataclasses.fields(first)]
    assert cache.protected_size == 0
    assert said(cache.lock, second).endswith("its end was evicted")


def test_an_empty_handle_of_a_namespace_that_went_away_still_starts_an_insert():
    cache = RadixCache()
    handle = cache.acquire(b"12", namespace="lora")
    put(cache, b"5", namespace="lora")
    cache.evict(1)
    put(cache, b"12", namespace="lora", start=handle)
    assert cache.match_prefix(b"12", namespace="lora").length == 2
    cache.unlock(handle)
    cache.check()


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


def published(cache, handle, prompt, pages, how):
    """Insert all of `prompt`, or only what follows `handle`, and move the lock to its end, in one call or in three."""
    if how == "insert":
        done = cache.insert(prompt, [0] * (handle.length // cache.page_size) + pages, start=handle,
                            namespace=handle.namespace)  # fmt: skip
    else:
        rest = prompt[handle.length :].data
        done = cache.insert_after(handle, rest, array("i", pages).tobytes(), how == "move_lock")
        if how == "move_lock" and done.prefix_length == handle.length:
            return done
    cache.lock(done)
    cache.unlock(handle)
    return done


@pytest.mark.parametrize(("page_size", "policy"), [(1, "lru"), (4, "lru"), (1, "lfu"), (4, "mru"), (1, "slru")])
def test_what_follows_a_lock_is_cached_as_if_all_had_been_given_and_the_lock_may_move_with_it(page_size, policy):
    """Three caches, in each its own way to publish; several requests run at once."""
    rng, running, moved = random.Random(page_size), [], 0
    caches = {how: RadixCache(page_size, policy) for how in ("insert", "insert_after", "move_lock")}
    for turn in range(100):
        prompt = pack([rng.randrange(3) for _ in range(rng.randrange(1, 9) * page_size)])
        namespace, limit = rng.choice([None, "lora"]), rng.randrange(len(prompt))
        held = {how: cache.acquire(prompt, limit=limit, namespace=namespace) for how, cache in caches.items()}
        pages = list(range(100 * turn, 100 * turn + (len(prompt) - held["insert"].length) // page_size))
        done = {how: published(cache, held[how], prompt, pages, how) for how, cache in caches.items()}
        assert len({(end.prefix_length, end.length, end.namespace) for end in done.values()}) == 1
        moved += done["insert"].prefix_length == held["insert"].length
        running.append(done)
        gone = running.pop(rng.randrange(3)) if len(running) > 3 else {}
        states = []
        for how, cache in caches.items():
            if gone:
                cache.unlock(gone[how])
            evicted = cache.evict(2 * page_size).tolist() if turn % 3 == 0 else None
            cache.check()
            states.append((evicted, [repr(node) for node in cache.nodes()]))
        assert states[0] == states[1] == states[2]
    assert moved > 25


def test_nothing_is_cached_after_a_handle_that_is_not_locked():
    cache = RadixCache()
    says = said(cache.insert_after, cache.match_prefix(b"1"), bytes(4), bytes(4))
    assert says == "LockError: cannot insert after the handle of length 0 (node 0): it holds no lock"
    assert cache.total_size == 0
