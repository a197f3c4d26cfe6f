"""Every policy: the order that the field gives, the heap against sorting, and policies of one's own."""

import random
import re
from types import SimpleNamespace as Node

import pytest
from digits import edges, put
from refusals import said

from minikv import RadixCache, SmallestKeyFirst
from minikv.prefix.eviction import POLICIES, FirstInFirstOut, LeastFrequentlyUsed, LeastRecentlyUsed, order_named

# A is matched once, B has priority 5 and is inserted twice more, C is left alone (the orders that SGLang gives).
ORDERS = {"lru": "CAB", "lfu": "CAB", "slru": "CAB", "priority": "CAB", "mru": "BAC", "fifo": "ABC", "filo": "CBA"}


@pytest.mark.parametrize("policy", ORDERS)
def test_the_policies_give_the_orders_of_the_field(policy):
    cache = RadixCache(policy=policy)
    put(cache, b"1")
    put(cache, b"2", priority=5)
    put(cache, b"3")
    cache.match_prefix(b"1")
    put(cache, b"2", b"2")
    assert "".join("_ABC"[cache.evict(1)[0]] for _ in range(3)) == ORDERS[policy]


@pytest.mark.parametrize(("wrong", "kind"), [(-1, "Value"), ("", "Type"), (False, "Type")])
def test_a_priority_is_a_whole_number_of_at_least_0(wrong, kind):
    cache = RadixCache(policy="priority")
    assert said(put, cache, b"1", priority=wrong).startswith(f"{kind}Error: priority is {wrong!r}")
    assert cache.total_size == 0


# -- the heap ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", [1, 20])
def test_a_heap_of_many_old_entries_forgets_most_of_them_and_keeps_the_order_of_sorting(leaves):
    order, dice = FirstInFirstOut(), random.Random(1)
    nodes = [Node(id=number, created=number, children={}, newer=None) for number in range(leaves)]
    order.add(nodes)
    for clock in range(100, 1100):
        node = dice.choice(nodes)
        node.created = clock
        order.touch([node])
        if clock % 100 == 99:  # `first` forgets some, too
            assert len(order._heap) < 150
            expected = sorted(nodes, key=lambda node: node.created)
            assert (order.first(), [*order]) == (expected[0], expected)


def test_of_equal_keys_the_node_made_first_goes_first():
    order = LeastFrequentlyUsed()
    for number in (3, 1, 2):
        order.add([Node(id=number, hits=1, last_used=7, children={}, newer=None)])
    assert [node.id for node in order] == [1, 2, 3]


# -- a policy of one's own ------------------------------------------------------------------------------------------


def policy_of_ones_own(name, **body):
    return type(name, (SmallestKeyFirst,), body)


SHORTEST = policy_of_ones_own("ShortestFirst", reads=("end", "last_used"))


class OldestFirst(LeastRecentlyUsed):
    """lru under another name."""

    def __call__(self):
        return OldestFirst()


@pytest.mark.parametrize(
    ("evict_by", "expected"),
    [
        ("node", [[5, 56, 567], [123, 1234], [129, 1299, 12999], [1, 12]]),
        ("page", [[567], [56], [5], [1234], [123], [12999], [1299], [129], [12], [1]]),
    ],
)
def test_a_policy_of_ones_own_decides_what_goes(evict_by, expected):
    cache = RadixCache(policy=SHORTEST, evict_by=evict_by)
    put(cache, b"1234", b"567", b"12999")
    cache.match_prefix(b"567")
    for pages in expected:
        assert cache.evict(1).tolist() == pages
        cache.check()
    assert cache.total_size == 0
    cache.reset()
    put(cache, b"1")


def test_by_pages_the_policy_is_asked_after_each_page():
    """What is left of a leaf has another end, so another leaf may be the deepest now."""
    deepest = policy_of_ones_own(
        "DeepestFirst", reads=("end", "last_used"), key=lambda self, node: (-node.end, node.last_used)
    )
    cache = RadixCache(policy=deepest, evict_by="page")
    put(cache, b"123", b"456", b"78")
    assert cache.evict(9).tolist() == [123, 456, 12, 45, 78, 1, 4, 7]
    cache.check()


@pytest.mark.parametrize(
    ("policy", "name"),
    [(OldestFirst, "OldestFirst"), (lambda: OldestFirst(), "<lambda>"), (OldestFirst(), "OldestFirst")],
)
def test_a_policy_of_ones_own_may_be_a_ring_or_a_function(policy, name):
    cache = RadixCache(policy=policy)
    put(cache, b"1", b"2")
    cache.match_prefix(b"1")
    assert (cache.policy, cache.evict(1).tolist()) == (name, [2])
    cache.check()


@pytest.mark.parametrize(("policy", "expected"), [(SHORTEST, [b"12", b"3"]), (OldestFirst, [b"123"])])
def test_nodes_that_a_policy_of_ones_own_tells_apart_are_not_joined(policy, expected):
    cache = RadixCache(policy=policy)
    put(cache, b"12", b"123")
    cache.match_prefix(b"123")
    assert edges(cache) == expected


class LacksMethods:
    """It cannot be told of a lock."""

    reads = ("last_used",)
    key = add = touch = reorder = remove_leaf = add_leaf = first = __iter__ = lambda self: None


A_TUPLE = "expected a tuple of some of created"
REFUSED = {
    "another case": ("LRU", "ValueError: policy is 'LRU': expected one of lru, .*, or a class"),
    "an order, not its class": (LeastRecentlyUsed(), "ValueError: policy is .*: expected one of"),
    "another class": (int, "TypeError: policy int has no method key: expected those of EvictionOrder"),
    "a method is missing": (LacksMethods, "TypeError: policy LacksMethods has no method remove"),
    "reads nothing": (policy_of_ones_own("NoWords"), rf"ValueError: policy NoWords reads \(\): {A_TUPLE}"),
    "reads what is not there": (
        policy_of_ones_own("Misreads", reads=("last_used", "colour")),
        rf"ValueError: policy Misreads reads \('last_used', 'colour'\): {A_TUPLE}",
    ),
    "reads a string": (policy_of_ones_own("NoComma", reads="end"), f".*policy NoComma reads 'end': {A_TUPLE}"),
    "no key is returned": (
        policy_of_ones_own("NoReturn", reads=("end",), key=lambda self, node: None),
        "TypeError: policy NoReturn has None as the key of a node: expected",
    ),
    "reads more": (
        policy_of_ones_own("ReadsMore", reads=("end",), key=lambda self, node: node.hits),
        "AttributeError: 'node with only what ReadsMore reads' object has no attribute 'hits'",
    ),
    "a long name": ("x" * 10**6, "ValueError: policy is 'xxx"),
}


@pytest.mark.parametrize(("policy", "words"), REFUSED.values(), ids=REFUSED)
def test_a_policy_that_cannot_be_one_is_refused_in_a_short_line(policy, words):
    says = said(RadixCache, policy=policy)
    assert re.match(words, says)
    assert len(says) < 260


@pytest.mark.parametrize("policy", POLICIES.values())
def test_every_policy_says_what_it_reads(policy):
    """As a class it is judged like one of one's own: its key depends on the fields that it names, and on no other."""
    assert order_named(policy) == (policy.__name__, policy)
