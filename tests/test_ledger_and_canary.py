"""The ledger and the canary: each planted mistake is found at the operation that makes it, and explained."""

from array import array

import numpy as np
import pytest
from refusals import said

from minikv import BitmaskPool, CacheManager, FreeListPool, OutOfPages, QueuePool, RadixCache
from minikv.testing.canary import Canary, CanaryError
from minikv.testing.ledger import Ledger, LedgerError


class Trusting:
    """The notebook's pool: a stack of free pages, which believes what it is told."""

    def __init__(self, size):
        self.size, self.stack = size, list(range(size))[::-1]

    def alloc(self, num_pages):
        return [self.stack.pop() for _ in range(num_pages)]

    def free(self, pages):
        self.stack.extend(pages)

    def is_free(self, page):
        return page in self.stack


class Own(Trusting):
    """A learner's pool, written in the natural way: `alloc_to` calls `alloc`, and `alloc` gives an array."""

    def alloc(self, num_pages):
        if num_pages > len(self.stack):
            raise OutOfPages(num_pages, len(self.stack))
        return np.array(super().alloc(num_pages))

    def alloc_to(self, out):
        out[:] = array("i", self.alloc(len(out)))

    def check(self):
        """Nothing to check."""

    @property
    def num_free(self):
        return len(self.stack)


def world(pool=FreeListPool, size=12, **options):
    pool, cache = pool(size), RadixCache()
    return pool, cache, Ledger(pool, cache, **options)


def one_page(node, page):
    """A node is made to hold another page."""
    node.page_runs = (array("i", [page]).tobytes(),)


def test_a_clean_life_leaves_nothing_with_the_caller():
    pool, cache, ledger = world()
    slots = pool.alloc(4)
    assert ledger.callers == [0, 1, 2, 3]
    assert str(ledger.owner(1)) == "the caller's since operation 1 (alloc 4)"
    done = cache.insert([1, 2, 3], slots[:3])
    pool.free(slots[done.length :])
    pool.free(cache.evict(3))
    assert ledger.callers == []
    assert str(ledger.owner(0)) == "free since operation 5 (free [0, 1, 2])"
    assert str(ledger.owner(9)) == "free from the start"
    ledger.check()
    ledger.close()
    assert not {"alloc", "insert"} & {*vars(pool), *vars(cache)}


# What the ledger says of the last of what a caller does to a pool that believes everything.
BLAMED = {
    "operation 3, insert [5, 6]: slot 0 has two owners:\ncached now, and cached since operation 2 (insert [1, 2])": [
        ("alloc", 2), ("insert", [1, 2], [0, 1]), ("insert", [5, 6], [0, 1])
    ],
    "operation 1, insert [1]: slot 99 is cached now, but the pool has slots 0 to 11": [("insert", [1], [99])],
    "operation 3, free [0]: slot 0 has two owners:\ngiven back to the pool, and free since operation 2 (free [0])": [
        ("alloc", 2), ("free", [0]), ("free", [0])
    ],
    "operation 1, free [77]: slot 77 is given back to the pool, but the pool has slots 0 to 11": [("free", [77])],
    "operation 1, alloc 1: slot 77 is given out by the pool, but the pool has slots 0 to 11": [
        ("push", 77), ("alloc", 1)
    ],
    "operation 1, alloc 2: slot 1 has two owners:\ngiven out by the pool, twice in one operation": [
        ("push", 1), ("push", 1), ("alloc", 2)
    ],
}  # fmt: skip


@pytest.mark.parametrize("words", BLAMED)
def test_the_operation_is_blamed_that_gives_a_slot_two_owners(words):
    """N3c: after a double free the notebook's pool hands out the same slot twice."""
    pool, cache, ledger = world(Trusting)
    verbs = {"alloc": pool.alloc, "free": pool.free, "push": pool.stack.append, "insert": cache.insert}
    *before, (last, *given) = BLAMED[words]
    for verb, *arguments in before:
        verbs[verb](*arguments)
    owners = list(map(ledger.owner, range(12)))
    assert said(verbs[last], *given) == f"LedgerError: {words}"
    assert list(map(ledger.owner, range(12))) == owners, "a complaint is not entered in the book"


# What changes behind everybody's back, once slots 0 and 1 are cached by nodes 1 and 2 and slot 2 is the caller's.
TAMPERED = {
    "slot 0 has no owner:\ncached since operation 2 (insert [1]), but no node holds it":
        lambda pool, root, nodes: root.children.clear(),
    "slot 0 has two owners:\nnode 1 [1], and node 2 [2]": lambda pool, root, nodes: one_page(nodes[1], 0),
    "slot 50 is held by node 2 [2], but the pool has slots 0 to 11": lambda pool, root, nodes: one_page(nodes[1], 50),
    "slot 2: the pool has it as free, but it is\nthe caller's since operation 1 (alloc 3)":
        lambda pool, root, nodes: pool.stack.append(2),
    "slot 5: the pool has it as in use, but it is\nfree from the start": lambda pool, root, nodes: pool.stack.remove(5),
}  # fmt: skip


@pytest.mark.parametrize("words", TAMPERED)
def test_a_check_finds(words):
    pool, cache, ledger = world(Trusting)
    slots = pool.alloc(3)
    cache.insert([1], slots[:1])
    cache.insert([2], slots[1:2])
    ledger.check()
    TAMPERED[words](pool, cache.root, cache.nodes())
    assert said(ledger.check) == f"LedgerError: operation 3, check(): {words}"


def test_sequences_own_what_the_caller_took():
    pool, running = FreeListPool(8), {}
    ledger = Ledger(pool, RadixCache(), sequences=lambda: running)
    running["a"] = pool.alloc(2)
    ledger.check()
    for slots, words in (
        (running["a"], "slot 0 has two owners:\nsequence 'a', and sequence 'b'"),
        ([7], "slot 7 has two owners:\nsequence 'b', and free from the start"),
        ([9], "slot 9 is sequence 'b''s, but the pool has slots 0 to 7"),
    ):
        running["b"] = slots
        with pytest.raises(LedgerError, match=words):
            ledger.check()
    running.clear()
    with pytest.raises(LedgerError, match=r"slot 0 has no owner:\nthe caller's since operation 1.*no sequence has it"):
        ledger.check()


@pytest.mark.parametrize("given", [{}, {"page_size": 2}], ids=["the cache's size", "given"])
def test_a_page_is_several_slots(given):
    pool, cache = FreeListPool(4), RadixCache(page_size=2)
    ledger = Ledger(pool, cache, **given)
    pool.alloc(2)
    assert ledger.callers == [0, 1, 2, 3]
    cache.insert([1, 2], [1])
    assert ledger.callers == [0, 1]
    cache.insert([1, 2, 3, 4], [1, 0])
    assert ledger.callers == []
    with pytest.raises(LedgerError, match="slot 2 has two owners"):
        pool.free([1])


def test_a_ledger_that_cannot_begin_leaves_nothing_behind():
    pool = FreeListPool(4)
    pool.alloc(1)
    with pytest.raises(LedgerError, match="the pool has it as in use, but it is\nfree from the start"):
        Ledger(pool, RadixCache())
    assert "alloc" not in vars(pool)


def test_an_operation_that_fails_moves_nothing():
    pool, cache, ledger = world()
    with pytest.raises(ValueError, match="1 pages for 2 tokens"):
        cache.insert([1, 2], [0])
    with pytest.raises(ValueError, match="already free"):
        pool.free([0])
    assert (ledger.step, ledger.callers) == (2, [])


def test_what_is_reset_or_taken_out_of_a_queue_is_the_callers():
    pool, cache, ledger = world(QueuePool)
    cache.insert([1, 2], pool.alloc(2))
    cache.reset()
    pool.occupy(7)
    assert ledger.callers == [0, 1, 7]


@pytest.mark.parametrize("make", [FreeListPool, QueuePool, BitmaskPool, Own])
def test_any_pool_is_watched_under_a_manager(make):
    """An `alloc_to` that calls `alloc` gives pages out once."""
    pool, cache, ledger = world(make, 8)
    manager = CacheManager(8, 1, cache, pool)
    for prompt in ([1, 2, 3], [1, 2, 4], [5, 6, 7, 8, 9]):
        request = manager.start(prompt)
        manager.advance(request)
        manager.extend(request, [7])
        manager.finish(request)
    aborted = manager.start([1, 2, 3, 3])
    assert len(ledger.callers) == aborted.length - aborted.shared
    manager.abort(aborted)
    assert ledger.callers == []


@pytest.mark.parametrize("make", [QueuePool, BitmaskPool, Own])
def test_a_pool_whose_alloc_to_keeps_what_its_alloc_gave_out_is_blamed(make):
    class Forgets(make):
        def alloc_to(self, out):
            out[:] = array("i", self.alloc(len(out) + 1)[1:])

    pool, _, _ = world(Forgets)
    with pytest.raises(LedgerError, match=r"operation 1, alloc_to.*: the pool has it as in use, but it is\nfree"):
        pool.alloc_to(memoryview(array("i", [0, 0])))


# -- the canary ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "slots", "namespace", "words"),
    [
        (
            [9, 2],
            [5, 1],
            None,
            "slot 1 is read for token 2 at position 1 of [9, 2],\nbut holds that token after another",
        ),
        ([1], [2], None, "slot 2 is read for token 1 at position 0 of [1],\nbut holds token 3 at position 2, since"),
        ([1], [7], None, "slot 7 is read for token 1 at position 0 of [1],\nbut nothing was ever computed into it"),
        ([1, 2], [0, 1, 2], None, "3 slots are read for the 2 tokens [1, 2]"),
        ([1, 2], [0, 1], "lora", "slot 0 is read for token 1 at position 0 of [1, 2],\nbut holds that token after"),
    ],
)
def test_a_slot_is_good_for_its_own_prefix_in_its_own_namespace_only(tokens, slots, namespace, words):
    canary = Canary()
    canary.write([1, 2, 3], [0, 1, 2])
    canary.read([1, 2], [0, 1])
    canary.write([9], [5])
    says = said(canary.read, tokens, slots, namespace)
    assert says.startswith("CanaryError: ")
    assert words in says


def test_a_cache_that_serves_another_prompt_is_caught_at_once():
    cache = RadixCache()
    canary = Canary(cache)
    node = cache.insert([1, 2, 3], [0, 1, 2]).node
    node.page_runs = (array("i", [0, 0, 2]).tobytes(),)
    with pytest.raises(
        CanaryError, match=r"(?s)operation 2, match_prefix \[1, 2\].*written by operation 1 \(insert \[1, 2, 3\]\)"
    ):
        cache.match_prefix([1, 2])
    canary.close()
    cache.match_prefix([1, 2])


def test_namespaces_that_are_equal_are_one_and_those_that_look_alike_are_two():
    class Tenant:
        def __repr__(self):
            return "Tenant"

    cache = RadixCache()
    with Canary(cache) as canary:
        cache.insert([1, 2], [0, 1], namespace=1)
        assert cache.match_prefix([1, 2], namespace=True).length == 2
        one, other = Tenant(), Tenant()
        canary.write([1], [9], namespace=one)
        with pytest.raises(CanaryError, match="after another prefix"):
            canary.read([1], [9], namespace=other)


def test_an_engine_writes_by_itself_and_every_verb_that_gives_pages_reads():
    cache = RadixCache()
    canary = Canary(cache, writes=False)
    for act in (lambda tokens: cache.insert(tokens, [0, 1]), cache.acquire, cache.match_prefix):
        with pytest.raises(CanaryError, match="nothing was ever computed"):
            act([1, 2])
    canary.write([1, 2], [0, 1])
    assert cache.match_prefix([1, 2]).length == 2
    assert canary.step == 4


def test_two_canaries_mean_the_same_by_a_namespace_that_comes_up_later():
    device = Canary()
    host = device.beside(RadixCache())
    device.write([1], [0], namespace="a")
    device.write([1], [1], namespace="b")
    host.take_pages(device, [1], [0])
    host.read([1], [0], namespace="b")
