"""Every policy: the order that the field gives, and the heap against sorting."""

from __future__ import annotations

from types import SimpleNamespace as Node

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import RadixCache, SmallestKeyFirst
from minikv.prefix.eviction import (
    POLICIES,
    READABLE,
    FirstInFirstOut,
    LeastFrequentlyUsed,
    LeastRecentlyUsed,
    order_named,
)

pytestmark = pytest.mark.core

# A is matched once, B has priority 5 and is inserted twice more, C is left alone (the orders that SGLang gives).
ORDERS = {"lru": "CAB", "lfu": "CAB", "slru": "CAB", "priority": "CAB", "mru": "BAC", "fifo": "ABC", "filo": "CBA"}


@pytest.mark.parametrize("policy", ORDERS)
def test_the_policies_give_the_orders_of_the_field(policy):
    cache = RadixCache(policy=policy)
    for token, priority in ((1, 0), (2, 5), (3, 0)):
        cache.insert([token], [token], priority=priority)
    cache.match_prefix([1])
    for _ in range(2):
        cache.insert([2], [2])
    assert "".join("_ABC"[cache.evict(1)[0]] for _ in range(3)) == ORDERS[policy]


@pytest.mark.parametrize("policy", POLICIES)
def test_only_leaves_go_whatever_the_policy(policy):
    cache = RadixCache(policy=policy)
    cache.insert([1, 2], [1, 2], priority=1)
    cache.insert([1, 2, 3], [0, 0, 3])
    cache.insert([1, 2, 4], [0, 0, 4], priority=9)
    seen = [cache.evict(1).tolist() for _ in range(3)]
    assert seen[2] == [1, 2], "the shared prefix goes last"
    assert cache.evict(1).tolist() == []


def priorities(cache):
    return {tuple(node.tokens): node.priority for node in cache.nodes()}


def test_a_priority_is_worth_it_to_the_whole_path():
    cache = RadixCache(policy="priority")
    cache.insert([1, 2], [1, 2])
    cache.insert([9], [9])
    handle = cache.match_prefix([1, 2]).handle
    cache.lock(handle)
    cache.insert([1, 2, 3], [0, 0, 3], start=handle, priority=5)
    assert priorities(cache) == {(1, 2): 5, (3,): 5, (9,): 0}
    cache.unlock(handle)
    cache.check()
    assert [cache.evict(1).tolist() for _ in range(3)] == [[9], [3], [1, 2]]


def test_a_lower_priority_takes_nothing_away():
    cache = RadixCache(policy="priority")
    cache.insert([1, 2], [1, 2], priority=5)
    cache.insert([1, 2, 3], [0, 0, 3], priority=2)
    assert priorities(cache) == {(1, 2): 5, (3,): 2}


def test_a_raised_priority_counts_at_once():
    cache = RadixCache(policy="priority")
    cache.insert([1], [1])
    cache.insert([2], [2])
    cache.insert([1], [1], priority=1)
    cache.check()
    assert cache.evict(1).tolist() == [2]


def test_a_use_under_a_lock_counts_for_lfu():
    cache = RadixCache(policy="lfu")
    handle = cache.insert([1], [1]).handle
    cache.lock(handle)
    for _ in range(3):
        cache.match_prefix([1])
    cache.unlock(handle)
    for _ in range(2):
        cache.insert([2], [2])
    assert cache.evict(1).tolist() == [2]


def test_slru_knows_two_segments_and_no_more():
    """Used five times long ago and used twice just now are the same segment: the older use goes first."""
    caches = {policy: RadixCache(policy=policy) for policy in ("slru", "lfu")}
    for cache in caches.values():
        for _ in range(5):
            cache.insert([1], [1])
        for _ in range(2):
            cache.insert([2], [2])
    assert [cache.evict(1).tolist() for cache in caches.values()] == [[1], [2]]


def test_a_split_half_inherits_what_its_tokens_are_worth():
    """The upper half is used once more than the lower one; who reads hits is the only one for whom they are counted."""
    for policy, hits in (("priority", (1, 1)), ("lfu", (3, 2))):
        cache = RadixCache(policy=policy)
        cache.insert([1, 2, 3], [1, 2, 3], priority=4)
        cache.match_prefix([1, 2, 3])
        upper = cache.match_prefix([1, 2, 9]).handle.node
        (lower,) = upper.children.values()
        assert (upper.priority, upper.created, upper.last_used, upper.hits) == (4, 1, 3, hits[0])
        assert (lower.priority, lower.created, lower.last_used, lower.hits) == (4, 1, 2, hits[1])
        cache.check()


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (-1, ValueError),
        (1.5, TypeError),
        (0.0, TypeError),
        ("high", TypeError),
        ("", TypeError),
        (None, TypeError),
        (False, TypeError),
        (True, TypeError),
    ],
)
def test_a_priority_is_a_whole_number_of_at_least_0(wrong, error):
    cache = RadixCache(policy="priority")
    with pytest.raises(error, match="priority is"):
        cache.insert([1], [1], priority=wrong)
    assert cache.total_size == 0


def test_every_policy_says_what_it_reads():
    """A key depends on the fields that its class names, and on nothing else."""
    fields = dict(zip(READABLE, range(1, 20)))
    for policy in POLICIES.values():
        order = policy()
        only = Node(**{name: fields[name] for name in order.reads})
        assert order.key(only) == order.key(Node(**fields))


STEPS = st.tuples(
    st.sampled_from(["add", "add", "touch", "touch", "remove", "cover", "bare", "pop"]), st.integers(0, 19)
)


@given(st.lists(STEPS, min_size=40, max_size=80))
def test_the_heap_keeps_the_order_of_sorting(steps):
    order, here, nodes = LeastFrequentlyUsed(), set(), {}
    for clock, (verb, number) in enumerate(steps, start=1):
        node = nodes.setdefault(number, Node(id=number, hits=0, last_used=0, children={}, newer=None))
        if verb == "add" and number not in here:
            node.last_used = clock
            order.add([node])
            here.add(number)
        elif verb == "touch" and number in here:
            node.hits, node.last_used = node.hits + 1, clock
            order.touch([node])
        elif verb == "remove" and number in here:
            order.remove([node])
            here.remove(number)
        elif verb == "cover" and number in here and not node.children:
            order.remove_leaf(node)
            node.children[0] = None
        elif verb == "bare" and number in here and node.children:
            node.children.clear()
            order.add_leaf(node)
        elif verb == "pop" and (first := order.first()) is not None:
            order.remove([first])
            here.remove(first.id)
        leaves = [nodes[n] for n in here if not nodes[n].children]
        expected = sorted(leaves, key=lambda leaf: (leaf.hits, leaf.last_used, leaf.id))
        assert [leaf.id for leaf in order] == [leaf.id for leaf in expected]
        assert order.first() is (expected[0] if expected else None)


def test_a_heap_forgets_most_of_its_old_entries():
    order, node = FirstInFirstOut(), Node(id=1, created=1, children={}, newer=None)
    order.add([node])
    for node.created in range(2, 1000):
        order.touch([node])
    assert (len(order._heap) < 100, order.first(), [*order]) == (True, node, [node])


def test_of_equal_keys_the_node_made_first_goes_first():
    order = LeastFrequentlyUsed()
    for number in (3, 1, 2):
        order.add([Node(id=number, hits=1, last_used=7, children={}, newer=None)])
    assert [node.id for node in order] == [1, 2, 3]


# -- a policy of one's own ------------------------------------------------------------------------------------------


class ShortestFirst(SmallestKeyFirst):
    """The shortest prompt goes first, and of those the least recently used."""

    reads = ("end", "last_used")

    def key(self, node):
        return node.end, node.last_used


class OldestFirst(LeastRecentlyUsed):
    """lru under another name."""


@pytest.mark.parametrize("evict_by", ["node", "page"])
def test_a_policy_of_ones_own_decides_what_goes(evict_by):
    cache = RadixCache(policy=ShortestFirst, evict_by=evict_by)
    cache.insert([1, 2, 3, 4], [1, 2, 3, 4])
    cache.insert([5, 6, 7], [5, 6, 7])
    cache.insert([1, 2, 9, 9, 9], [0, 0, 8, 9, 10])
    cache.match_prefix([5, 6, 7])
    seen = []
    while cache.total_size:
        seen.append(sorted(cache.evict(1).tolist()))
        cache.check()
    assert seen == {"node": [[5, 6, 7], [3, 4], [8, 9, 10], [1, 2]],
                    "page": [[7], [6], [5], [4], [3], [10], [9], [8], [2], [1]]}[evict_by]  # fmt: skip
    assert repr(cache).startswith("RadixCache(page_size=1, policy='ShortestFirst'")
    cache.reset()
    assert cache.insert([1], [1]).length == 1


def test_a_policy_of_ones_own_may_be_a_ring_or_a_function():
    class Settings:
        def __call__(self):
            return OldestFirst()

    for policy, name in ((OldestFirst, "OldestFirst"), (lambda: OldestFirst(), "<lambda>"), (Settings(), "Settings")):
        cache = RadixCache(policy=policy)
        for token in (1, 2):
            cache.insert([token], [token])
        cache.match_prefix([1])
        assert (cache.policy, cache.evict(1).tolist()) == (name, [2])
        cache.check()


def test_nodes_that_a_policy_of_ones_own_tells_apart_are_not_joined():
    found = []
    for policy in (ShortestFirst, OldestFirst):
        cache = RadixCache(policy=policy)
        cache.insert([1, 2], [1, 2])
        cache.insert([1, 2, 3], [0, 0, 3])
        cache.match_prefix([1, 2, 3])
        found.append(len(list(cache.nodes())))
    assert found == [2, 1]


class NoWords(SmallestKeyFirst):
    """It does not say what it reads."""


class Misreads(SmallestKeyFirst):
    """It reads what no node has."""

    reads = ("last_used", "colour")


class ForgotTheComma(SmallestKeyFirst):
    """Its tuple of one name is a string."""

    reads = "last_used"


class ForgotToReturn(SmallestKeyFirst):
    """Its key is None for every node."""

    reads = ("last_used",)

    def key(self, node):
        """Return nothing."""


class ReadsMore(SmallestKeyFirst):
    """Its key looks at a field that it does not name."""

    reads = ("last_used",)

    def key(self, node):
        """How often, then when."""
        return node.hits, node.last_used


class LacksMethods:
    """It cannot be told of a lock."""

    reads = ("last_used",)
    key = add = touch = reorder = remove_leaf = add_leaf = first = __iter__ = lambda self: None


REFUSED = {
    "an unknown name": ("newest", ValueError, r"policy is 'newest': expected one of lru, .*, or a class"),
    "another case": ("LRU", ValueError, "policy is 'LRU'"),
    "nothing": (None, ValueError, "policy is None"),
    "a list": (["lru"], ValueError, r"policy is \['lru'\]"),
    "an order, not its class": (LeastRecentlyUsed(), ValueError, "expected one of"),
    "another class": (int, TypeError, "policy int has no method key: expected those of EvictionOrder"),
    "a method is missing": (LacksMethods, TypeError, "policy LacksMethods has no method remove"),
    "reads nothing": (NoWords, ValueError, r"policy NoWords reads \(\): expected a tuple of some of created"),
    "reads what is not there": (
        Misreads,
        ValueError,
        r"policy Misreads reads \('last_used', 'colour'\): expected a tuple of some of created",
    ),
    "reads a string": (ForgotTheComma, ValueError, "reads 'last_used': expected a tuple of some of created"),
    "no key is returned": (ForgotToReturn, TypeError, "policy ForgotToReturn has None as the key of a node: expected"),
    "reads more": (ReadsMore, AttributeError, "'node with only what ReadsMore reads' object has no attribute 'hits'"),
    "a long name": ("x" * 10**6, ValueError, "policy is 'xxx"),
}


@pytest.mark.parametrize(("policy", "error", "names"), REFUSED.values(), ids=REFUSED)
def test_a_policy_that_cannot_be_one_is_refused_in_a_short_line(policy, error, names):
    for take in (order_named, lambda policy: RadixCache(policy=policy)):
        with pytest.raises(error, match=names) as caught:
            take(policy)
        assert len(str(caught.value)) < 250
