"""What is the radix tree's own: its nodes, its audit, its order and its cost, beyond the contract."""

from __future__ import annotations

import dataclasses
import random
from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import FreeListPool, InvariantError, LockError, RadixCache, SlidingWindowCache, pack
from minikv.prefix.eviction import FirstInFirstOut, LeastRecentlyUsed

pytestmark = pytest.mark.core


def small_tree():
    """root - [1 2] - {[3 4], [5]}, with [5] locked, and [7] beside; ids 3, 1, 2, 4."""
    cache = RadixCache()
    cache.insert([1, 2, 3, 4], range(4))
    held = cache.insert([1, 2, 5], [0, 1, 5]).handle
    cache.insert([7], [9])
    cache.lock(held)
    return cache, {tuple(node.tokens): node for node in cache.nodes()}


def test_nodes_come_parents_first_with_ids_in_the_order_of_their_making():
    cache, nodes = small_tree()
    assert [(node.id, node.tokens, node.end, node.ref_count) for node in cache.nodes()] == [
        (2, [1, 2], 2, 1),
        (1, [3, 4], 4, 0),
        (3, [5], 3, 1),
        (4, [7], 1, 0),
    ]
    assert repr(nodes[7,]) == "RadixNode(id=4, tokens=[7], pages=[9], ref_count=0)"
    assert repr(cache.root) == "RadixRoot(id=0, tokens=[], pages=[], ref_count=0)"


def test_a_long_node_has_a_short_repr():
    cache = RadixCache()
    node = cache.insert(range(5000), range(5000)).handle.node
    assert len(repr(node)) < 150
    eight = cache.insert([7] * 8, range(8)).handle.node
    nine = cache.insert([6] * 9, range(9)).handle.node
    assert "tokens=[7, 7, 7, 7, 7, 7, 7, 7], pages" in repr(eight)
    assert "tokens=[6, 6, 6, 6, 6, 6, 6, 6, ... 9 in all], pages" in repr(nine)


@pytest.mark.parametrize("setting", [{"page_size": 0}, {"page_size": -4}, {"policy": "newest"}, {"evict_by": "token"}])
def test_a_wrong_setting_is_named(setting):
    ((name, value),) = setting.items()
    with pytest.raises(ValueError, match=f"{name} is {value!r}"):
        RadixCache(**setting)


def test_a_page_size_is_a_whole_number():
    for wrong in (1.0, "1", None, True):
        with pytest.raises(TypeError, match="page_size is"):
            RadixCache(wrong)


CORRUPTIONS = {
    "ref_count is 5": lambda cache, nodes: setattr(nodes[5,], "ref_count", 5),
    "ends at 9": lambda cache, nodes: setattr(nodes[7,], "end", 9),
    "1 pages of 1 for 2 tokens": lambda cache, nodes: setattr(nodes[3, 4], "page_runs", (bytes(4),)),
    "its parent is None": lambda cache, nodes: setattr(nodes[7,], "parent", None),
    "but its parent ends at 3": lambda cache, nodes: setattr(nodes[3, 4], "parent", nodes[5,]),
    "does not list it": lambda cache, nodes: nodes[1, 2].children.update(
        {b"next": nodes[1, 2].children.pop(nodes[3, 4].key_bytes[:4])}
    ),
    "evictable_size is 4": lambda cache, nodes: setattr(cache, "_evictable", 4),
    "protected_size is 0": lambda cache, nodes: setattr(cache, "_protected", 0),
    "the ring of nodes, least recently used first and of a path the deepest first: node 4 belongs right after node 1, "
    "but node 1 links to the mark and node 4 back to nothing": lambda cache, nodes: cache._order.remove([nodes[7,]]),
    "the mark belongs right after node 4, but node 4 links to node 3 and the mark back to node 3":
        lambda cache, nodes: cache._order.add([nodes[5,]]),
    "node 1 belongs right after the mark, but the mark links to node 4 and node 1 back to node 4":
        lambda cache, nodes: cache._order.touch([nodes[3, 4]]),
    "share 4 ids": lambda cache, nodes: setattr(nodes[7,], "id", 2),
    "next id to give out is 3": lambda cache, nodes: setattr(cache, "_next_id", 3),
    "not whole pages": lambda cache, nodes: setattr(nodes[7,], "key_runs", (b"",)),
    "but node 1 links to node 4 and node 4 back to nothing": lambda cache, nodes: setattr(nodes[7,], "older", None),
    "but node 1 links to nothing and node 4 back to node 1":
        lambda cache, nodes: setattr(cache._order.first(), "newer", None),
    "but the clock is at": lambda cache, nodes: setattr(nodes[5,], "last_used", 99),
    "later than its parent": lambda cache, nodes: (
        cache.insert([7, 8], [9, 10]), setattr(nodes[7,], "created", 0), setattr(nodes[7,], "last_used", 0)
    ),
    "before it was cached at": lambda cache, nodes: setattr(nodes[3, 4], "created", 99),
    "its locked handle at 9": lambda cache, nodes: setattr(next(iter(cache._held)), "length", 9),
    "kept as holding 0 locks": lambda cache, nodes: cache._held.update({cache.match_prefix([7]).handle: 0}),
    "locked nodes [3] are not in the tree": lambda cache, nodes: nodes[1, 2].children.pop(nodes[5,].key_bytes),
    "not a root": lambda cache, nodes: setattr(cache.root, "key_runs", (b"x",)),
    "is the root of another namespace": lambda cache, nodes: (
        cache.insert([1], [8], namespace="a"), cache._roots.update(b=cache._roots.pop("a"))
    ),
    "priority 3 is higher than its parent's, 0": lambda cache, nodes: setattr(nodes[5,], "priority", 3),
    "page 0 is cached twice in node 2": lambda cache, nodes: setattr(nodes[1, 2], "page_runs", (bytes(8),)),
    "page 9 is cached in nodes 3 and 4": lambda cache, nodes: setattr(nodes[5,], "page_runs", nodes[7,].page_runs),
    "its runs of tokens have [8] bytes, those of its pages [4, 4]":
        lambda cache, nodes: setattr(nodes[3, 4], "page_runs", (b"1234", b"5678")),
    "kept, but it holds nothing": lambda cache, nodes: cache._new_root("lora"),
}  # fmt: skip


@pytest.mark.parametrize("message", CORRUPTIONS)
def test_check_finds(message):
    cache, nodes = small_tree()
    cache.check()
    CORRUPTIONS[message](cache, nodes)
    with pytest.raises(InvariantError, match=r"node|root of |_size is |page \d") as caught:
        cache.check()
    assert message in str(caught.value)


class Twice(FirstInFirstOut):
    """It lists a node again."""

    def __iter__(self):
        return (node for node in super().__iter__() for _ in range(2))


class Broken(FirstInFirstOut):
    """Its list ends in a link to nothing."""

    def __iter__(self):
        return iter([*super().__iter__(), None])


class Stranger(FirstInFirstOut):
    """It lists a node of another tree, too."""

    def __iter__(self):
        return iter([*super().__iter__(), RadixCache().insert([1], [1]).node])


@pytest.mark.parametrize(("policy", "message"), [
    (Twice, "node 1: twice in the eviction order"),
    (Stranger, "node 1: in the eviction order, but not in the tree"),
    (Broken, "the eviction order breaks off after 2 of its nodes"),
])  # fmt: skip
def test_check_finds_in_an_order_of_ones_own(policy, message):
    cache = RadixCache(policy=policy)
    for token in (1, 2):
        cache.insert([token], [token])
    with pytest.raises(InvariantError, match=f"^{message}$"):
        cache.check()


HEAP_CORRUPTIONS = {
    "but its key is": lambda order: setattr(order.first(), "hits", 9),
    "not in the eviction order": lambda order: setattr(order.first(), "newer", None),
}  # fmt: skip


@pytest.mark.parametrize("message", HEAP_CORRUPTIONS)
def test_check_finds_in_a_heap(message):
    cache = RadixCache(policy="lfu")
    for token in (1, 2, 3):
        cache.insert([token], [token])
    cache.check()
    HEAP_CORRUPTIONS[message](cache._order)
    with pytest.raises(InvariantError) as caught:
        cache.check()
    assert message in str(caught.value)


def test_a_tree_3_000_nodes_deep_needs_no_recursion():
    cache = RadixCache()
    tokens = pack(range(3000))
    for length in range(1, 3001):
        cache.insert(tokens[:length], range(length))
    handle = cache.match_prefix(tokens).handle
    cache.lock(handle)
    cache.check()
    cache.unlock(handle)
    assert len(cache.evict(3000)) == 3000


def test_evicting_never_scans(monkeypatch):
    """Evicting k of n leaves asks the order k times, whatever n is."""
    asked = []
    first = LeastRecentlyUsed.first
    monkeypatch.setattr(LeastRecentlyUsed, "first", lambda self: asked.append(1) or first(self))
    for n in (10, 1000):
        cache = RadixCache()
        for i in range(n):
            cache.insert([i, i], [2 * i, 2 * i + 1])
        monkeypatch.setattr(LeastRecentlyUsed, "__iter__", None)
        asked.clear()
        assert len(cache.evict(6)) == 6
        assert len(asked) == 3
        monkeypatch.undo()
        monkeypatch.setattr(LeastRecentlyUsed, "first", lambda self: asked.append(1) or first(self))


def test_an_evicted_namespace_leaves_nothing_behind():
    cache = RadixCache()
    for i in range(100):
        cache.match_prefix([1], namespace=f"asked {i}")
        cache.insert([1], [i], namespace=f"tenant {i}")
    assert len(cache.roots) == 101
    cache.evict(100)
    assert list(cache.roots) == [None]
    cache.check()


def test_an_empty_handle_of_a_namespace_that_went_away_still_starts_an_insert():
    cache = RadixCache()
    handle = cache.match_prefix([1, 2], namespace="lora").handle
    cache.lock(handle)
    cache.insert([5], [5], namespace="lora")
    cache.evict(1)
    cache.insert([1, 2], [0, 1], namespace="lora", start=handle)
    assert cache.match_prefix([1, 2], namespace="lora").length == 2
    cache.unlock(handle)
    cache.check()


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=6), min_size=1, max_size=12))
def test_the_ring_holds_children_before_their_parents(prompts):
    cache = RadixCache()
    for prompt in prompts:
        cache.insert(prompt, range(len(prompt)))
        cache.match_prefix(prompt[::-1])
    order = list(cache._order)
    assert all(older.last_used <= newer.last_used for older, newer in pairwise(order))
    assert all(order.index(node) < order.index(node.parent) for node in order if node.parent is not cache.root)


HEADS, HEAD = 3, 400


def old_and_new(requests, pages=4000):
    """A cache that has served so many requests that leave a hot head at a random place, and the same content afresh."""
    pick, old, pool = random.Random(1), RadixCache(), FreeListPool(pages)
    for number in range(requests):
        head = range(pick.randrange(HEADS) * HEAD, HEAD * HEADS)[: pick.randrange(1, HEAD)]
        prompt = [*head, *range(1000 * (number + 1), 1000 * (number + 1) + pick.randrange(1, 40))]
        match = old.acquire(prompt)
        pool.free(old.evict(max(0, len(prompt) - match.length - pool.num_free)))
        old.insert(prompt, [*match.pages, *pool.alloc(len(prompt) - match.length)], start=match)
        old.unlock(match)
    new = RadixCache()
    for leaf in sorted((node for node in old.nodes() if not node.children), key=lambda leaf: leaf.last_used):
        path = [leaf]
        while path[-1].parent is not old.root:
            path.append(path[-1].parent)
        new.insert(*([x for node in path[::-1] for x in getattr(node, what)] for what in ("tokens", "pages")))
    return old, new


def test_a_tree_that_has_lived_long_has_hardly_more_nodes_than_one_built_afresh():
    """Without joins it has three times as many after 1,500 requests, and the more, the longer it lives."""
    old, new = old_and_new(1500)
    old.check()
    new.check()
    assert old.total_size == new.total_size
    assert len(list(old.nodes())) <= 1.1 * len(list(new.nodes()))


def test_a_policy_that_names_a_node_that_may_not_go_is_found_before_anything_is_evicted():
    class Stubborn(LeastRecentlyUsed):
        def first(self):
            return victim or super().first()

    for evict_by in ("node", "page"):
        cache = RadixCache(policy=Stubborn, evict_by=evict_by)
        victim = cache.insert([1, 2, 3], [1, 2, 3]).node
        held = cache.insert([1, 2, 3, 4], [0, 0, 0, 4])
        for why in ("no leaf", "locked"):
            with pytest.raises(InvariantError, match=f"policy 'Stubborn' wants to evict it, but it is {why}"):
                cache.evict(1)
            victim = None
            assert cache.total_size == 4
            cache.check()
            cache.lock(held)
            victim = held.node


def test_the_unlock_of_a_handle_that_was_joined_again_and_again_gives_back_all():
    cache = RadixCache()
    handles = [cache.insert(range(length), range(length)).handle for length in range(1, 30)]
    cache.match_prefix(range(29))
    assert len(list(cache.nodes())) == 1
    for handle in handles:
        cache.lock(handle)
    cache.check()
    assert [node.ref_count for node in cache.nodes()] == list(range(29, 0, -1))
    for handle in handles:
        cache.unlock(handle)
    cache.match_prefix(range(29))
    cache.check()
    assert (len(list(cache.nodes())), cache.evictable_size) == (1, 29)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=40), st.sampled_from(["node", "page"]), st.data())
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


def test_publishing_a_running_sequence_again_and_again_leaves_a_short_path():
    """Each checkpoint starts from the last one's handle, so no insert walks over what was published before."""
    cache = RadixCache()
    held = cache.acquire([])
    for length in range(1, 100):
        done = cache.insert(range(length), range(length), start=held)
        cache.lock(done)
        cache.unlock(held)
        held = done
    cache.check()
    assert len(list(cache.nodes())) <= 3
    cache.unlock(held)
    assert sorted(cache.evict(99).tolist()) == list(range(99))


@pytest.mark.parametrize("verb", ["add", "touch"])
@pytest.mark.parametrize("below", [[1, 2], [1, 2, 3]], ids=["beside a leaf", "below a leaf"])
def test_an_insert_in_which_a_policy_fails_has_cached_nothing(verb, below):
    class Moody(LeastRecentlyUsed):
        bad = False

    def fail(self, path):
        if Moody.bad:
            raise RuntimeError("bad mood")
        getattr(LeastRecentlyUsed, verb)(self, path)

    setattr(Moody, verb, fail)
    cache = RadixCache(policy=Moody)
    cache.insert([1, 2, 3], [1, 2, 3])
    cache.match_prefix(below)
    before, Moody.bad = cache.total_size, True
    with pytest.raises(RuntimeError, match="bad mood"):
        cache.insert([*below, 7, 8], [0, 0, 0, 7, 8][-len(below) - 2 :])
    Moody.bad = False
    assert cache.total_size == before
    cache.check()
    assert cache.match_prefix([*below, 7, 8]).length == len(below)
    assert sorted(cache.evict(9).tolist()) == [1, 2, 3]


def test_a_policy_that_fails_half_way_through_an_eviction_keeps_no_page_that_went():
    class Tired(LeastRecentlyUsed):
        def first(self):
            if len(list(self)) == 2:
                raise RuntimeError("too tired")
            return super().first()

    cache = RadixCache(policy=Tired)
    for token in range(4):
        cache.insert([token], [token])
    assert cache.evict(4).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="too tired"):
        cache.evict(1)
    assert ([node.tokens for node in cache.nodes()], cache.evictable_size) == ([[2], [3]], 2)


def test_any_order_that_holds_every_unlocked_leaf_is_right():
    """A ring holds inner nodes too, a heap leaves alone: what else an order holds is its own affair."""

    class Plain:
        reads = ("last_used",)

        def __init__(self):
            self.nodes = {}

        def key(self, node):
            return (node.last_used,)

        def add(self, path):
            self.nodes.update((node.id, node) for node in path)

        def remove(self, path):
            for node in path:
                del self.nodes[node.id]

        def touch(self, path):
            self.remove(path)
            self.add(path)

        def reorder(self, node):
            pass

        remove_leaf = add_leaf = reorder

        def first(self):
            return next(iter(self.nodes.values()), None)

        def __iter__(self):
            return iter(self.nodes.values())

    cache = RadixCache(policy=Plain)
    cache.insert([1, 2], [0, 1])
    cache.insert([1, 3], [0, 3])
    cache.check()
    held = cache.acquire([1, 3])
    cache.check()
    leaf = cache.root.children[b"\1\0\0\0"].children[b"\2\0\0\0"]
    del cache._order.nodes[leaf.id]
    with pytest.raises(InvariantError, match=f"node {leaf.id}: ref_count 0, not in the eviction order"):
        cache.check()
    cache._order.add([leaf, held.node])
    with pytest.raises(InvariantError, match=f"node {held.node.id}: ref_count 1, in the eviction order"):
        cache.check()


def test_an_insert_raises_the_priority_before_it_joins():
    cache = RadixCache(policy="priority")
    cache.insert([1, 2, 3, 4], [0, 1, 2, 3])
    cache.insert([1, 2], [0, 1], priority=1)
    assert len(list(cache.nodes())) == 2
    cache.insert([1, 2, 3, 4], [0, 1, 2, 3], priority=1)
    assert len(list(cache.nodes())) == 1


def test_trimming_a_long_leaf_page_by_page_copies_little(monkeypatch):
    cache, length = RadixCache(evict_by="page"), 20_000
    cache.insert(range(length), range(length))
    copied, original = [], RadixCache._trim

    def counted(self, leaf, num_bytes):
        copied.append(len(leaf.page_runs[-1]))
        return original(self, leaf, num_bytes)

    monkeypatch.setattr(RadixCache, "_trim", counted)
    for page in range(length - 1, length - 5000, -1):
        assert cache.evict(1).tolist() == [page]
    cache.check()
    assert sum(copied) / len(copied) < 4096
    assert cache.match_prefix(range(length)).pages.tolist() == list(range(length - 4999))


@pytest.mark.parametrize("made", [RadixCache, lambda: SlidingWindowCache(window=2)], ids=["radix", "window"])
def test_a_handle_is_the_same_before_and_after_its_lock(made):
    """Its own node was joined: where it ends now is found at each call, and kept nowhere."""
    cache = made()
    first, second = cache.insert([1, 2], [5, 6]), cache.insert([1, 2, 3, 4], [5, 6, 7, 8])
    cache.match_prefix([1, 2, 3, 4])
    assert first.node.ref_count < 0, "it is a part of the longer edge"
    before = [getattr(first, field.name) for field in dataclasses.fields(first)]
    cache.lock(first)
    cache.lock(first)
    cache.check()
    cache.insert([1, 2, 9], [0, 0, 9], start=first)
    cache.unlock(first)
    cache.evict(99)
    cache.check()
    assert (cache.protected_size, cache.total_size) == (2, 2), "what it ends in is found though the rest is gone"
    cache.insert([1, 2, 7], [0, 0, 7], start=first)
    cache.unlock(first)
    cache.check()
    assert before == [getattr(first, field.name) for field in dataclasses.fields(first)]
    assert cache.protected_size == 0
    with pytest.raises(LockError, match="its end was evicted"):
        cache.lock(second)


@pytest.mark.parametrize("page_size", [1, 4])
def test_what_follows_a_lock_is_cached_as_if_all_had_been_given(page_size):
    rng = random.Random(page_size)
    whole, rest = RadixCache(page_size), RadixCache(page_size)
    for turn in range(60):
        prompt = pack([rng.randrange(2) for _ in range(rng.randrange(1, 9) * page_size)])
        namespace = rng.choice([None, "lora"])
        pages = array("i", range(100 * turn, 100 * turn + len(prompt) // page_size))
        limit = rng.randrange(len(prompt))
        a, b = (cache.acquire(prompt, limit=limit, namespace=namespace) for cache in (whole, rest))
        after = pages[a.length // page_size :].tobytes()
        one = whole.insert(prompt, pages, namespace=namespace, start=a)
        two = rest.insert_after(b, prompt[b.length :].data, after)
        assert (one.prefix_length, one.length, one.namespace) == (two.prefix_length, two.length, two.namespace)
        for cache, handle, done in ((whole, a, one), (rest, b, two)):
            cache.lock(done)
            cache.unlock(handle)
            cache.unlock(done)
            cache.check()
        if turn % 5 == 0:
            assert whole.evict(3).tolist() == rest.evict(3).tolist()
        assert [(n.id, n.tokens, n.pages, n.last_used) for n in whole.nodes()] == [
            (n.id, n.tokens, n.pages, n.last_used) for n in rest.nodes()
        ]


@pytest.mark.parametrize("policy", ["lru", "lfu", "mru", "slru"])
@pytest.mark.parametrize("page_size", [1, 4])
def test_a_lock_that_moves_on_is_as_good_as_a_new_one(page_size, policy):
    """Several requests run at once; with `move_lock` one call does what takes three without it."""
    rng = random.Random(page_size)
    caches = RadixCache(page_size, policy), RadixCache(page_size, policy)
    running, moved = [], []

    def publish(cache, handle, data, pages, is_moving):
        done = cache.insert_after(handle, data, pages, is_moving)
        if is_moving and done.prefix_length == handle.length:
            moved.append(done)
            return done
        cache.lock(done)
        cache.unlock(handle)
        return done

    for turn in range(200):
        prompt = pack([rng.randrange(3) for _ in range(rng.randrange(1, 9) * page_size)])
        namespace = rng.choice([None, "lora"])
        limit = rng.randrange(len(prompt))
        held = [cache.acquire(prompt, limit=limit, namespace=namespace) for cache in caches]
        rest = prompt[held[0].length :]
        pages = array("i", range(100 * turn, 100 * turn + len(rest) // page_size)).tobytes()
        done = [publish(cache, handle, rest.data, pages, cache is caches[1]) for cache, handle in zip(caches, held)]
        running.append(done)
        if len(running) > 3:
            for cache, handle in zip(caches, running.pop(rng.randrange(3))):
                cache.unlock(handle)
        if turn % 3 == 0:
            assert len({tuple(cache.evict(2 * page_size).tolist()) for cache in caches}) == 1
        for cache in caches:
            cache.check()
        one, two = ([(n.id, n.tokens, n.pages, n.ref_count) for n in cache.nodes()] for cache in caches)
        assert one == two
    assert len(moved) > 50
    for handles in running:
        for cache, handle in zip(caches, handles):
            cache.unlock(handle)
    assert len({tuple(cache.evict(10**6).tolist()) for cache in caches}) == 1


def test_a_lock_does_not_move_on_to_what_was_cached_already():
    cache = RadixCache()
    cache.insert([1, 2], [10, 11])
    match = cache.acquire([1, 2], limit=1)
    done = cache.insert_after(match, pack([2, 3]).data, array("i", [20, 21]).tobytes(), move_lock=True)
    assert (done.prefix_length, done.length, cache.protected_size) == (2, 3, 1)
    with pytest.raises(LockError):
        cache.unlock(done)
    cache.unlock(match)
    cache.check()


def test_nothing_is_cached_after_a_handle_that_is_not_locked():
    cache = RadixCache()
    match = cache.match_prefix([1])
    with pytest.raises(LockError, match=r"cannot insert after the handle of length 0 .*: it holds no lock"):
        cache.insert_after(match, pack([1]).data, array("i", [0]).tobytes())
    assert cache.total_size == 0
