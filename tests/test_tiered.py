"""Two tiers: the laws of host memory under a model of pages, and that without it nothing is different."""

from __future__ import annotations

import contextlib
import itertools
import tracemalloc

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from machine import IndexAgainstModel
from nightly import NIGHTLY, by_day
from tiered_machine import Tiered, pages_of

from minikv import InvariantError, LockError, RadixCache
from minikv.prefix import host_memory
from minikv.prefix.eviction import POLICIES
from minikv.prefix.host_memory import HostedNode, HostMemory, HostTree
from minikv.prefix.tiered import WRITES, TieredCache

pytestmark = pytest.mark.core


def hunt(machine, examples=40):
    steps, share = (50, -(-settings().max_examples // 3)) if NIGHTLY else (30, examples)
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=steps, max_examples=share))


@pytest.mark.parametrize("policy", POLICIES)
def test_both_tiers_agree_with_a_model_of_pages(policy):
    hunt(type(f"Tiered_{policy}", (Tiered,), {"policy": policy}), 120 if policy == "lru" else 20)


# How it writes has nothing to write to: by day each policy is tried with one way, and each way with several policies.
ALONE = list(itertools.product(WRITES, POLICIES))
BY_DAY = list(zip(itertools.cycle(WRITES), POLICIES))


@pytest.mark.parametrize(("write", "policy"), by_day(ALONE, lambda pair: pair in BY_DAY))
def test_without_host_memory_it_is_a_radix_cache(policy, write):
    plain = type("Alone", (IndexAgainstModel,), {"policy": policy})
    plain.make = lambda self, page_size, policy, evict_by: TieredCache(page_size, 0, write, 2, policy, evict_by)
    hunt(plain, 10)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "match_prefix", "acquire", "unlock", "evict"]),
        st.lists(st.integers(0, 2), min_size=1, max_size=8),
        st.sampled_from([None, "B"]),
    )
)


def answers(cache, operations):
    """Everything that a cache says to these operations, and all that is in it after each."""
    held, page = [], 0
    for verb, tokens, namespace in operations:
        said = None
        if verb == "insert":
            done = cache.insert(tokens, range(page, page + len(tokens) // cache.page_size), namespace=namespace)
            said, page = (done.prefix_length, done.length), page + len(tokens)
        elif verb == "evict":
            said = cache.evict(len(tokens)).tolist()
        elif verb == "unlock" and held:
            cache.unlock(held.pop(0))
        elif verb != "unlock":
            match = getattr(cache, verb)(tokens, namespace=namespace)
            held += [match] if verb == "acquire" else []
            said = match.length, match.pages.tolist(), match.host_length
        nodes = [(n.id, n.tokens, n.pages.tolist(), n.end, n.ref_count, n.last_used, n.hits) for n in cache.nodes()]
        yield said, cache.evictable_size, cache.protected_size, list(cache.roots), nodes


@given(OPERATIONS, st.integers(1, 2), st.sampled_from(WRITES), st.sampled_from(list(POLICIES)), st.booleans())
def test_without_host_memory_every_answer_and_every_node_is_a_radix_caches(operations, size, write, policy, by_page):
    how = {"policy": policy, "evict_by": "page" if by_page else "node"}
    ours, theirs = TieredCache(size, 0, write, **how), RadixCache(size, **how)
    assert list(answers(ours, operations)) == list(answers(theirs, operations))
    assert ours.next_move() is None


@given(OPERATIONS, st.integers(1, 2), st.sampled_from(WRITES))
def test_what_is_in_host_memory_can_be_loaded_whatever_the_device_forgets(operations, size, write):
    """The rule about ancestors: every page before one that is there is there too, and `host_length` says all of it."""
    cache = TieredCache(size, 5, write, evict_by="page")
    for _ in answers(cache, operations):
        while (move := cache.next_move()) is not None:
            cache.settle(move)
    for handle in list(cache._held):
        cache.unlock(handle)
    cache.evict(10**6)
    moved(cache)
    prompts = [(space, tuple(tokens)) for verb, tokens, space in operations if verb == "insert"]
    for namespace, tokens in pages_of(cache.host.index):
        assert any((namespace, tokens) == (space, whole[: len(tokens)]) for space, whole in prompts)
        match = cache.acquire(tokens, namespace=namespace)
        assert (match.length, match.host_length) == (0, len(tokens))
        move = cache.load(match, range(100, 100 + len(tokens) // size))
        assert len(move.src) == len(tokens) // size
        cache.settle(move)


def moved(cache):
    """The moves that are due, carried out."""
    found = []
    while (move := cache.next_move()) is not None:
        cache.settle(move)
        found.append((move.src.tolist(), move.dst.tolist()))
    return found


def test_each_policy_copies_out_when_it_says():
    def story(write):
        cache, moves = TieredCache(host_pages=9, write=write, evict_by="page"), []
        for tokens, pages in (([1, 2, 3], [10, 11, 12]), ([1, 2, 4], [20, 21, 13])):
            cache.match_prefix(tokens)
            cache.insert(tokens, pages)
            moves.append([src for src, _ in moved(cache)])
        cache.evict(2)
        return [*moves, [src for src, _ in moved(cache)]]

    assert story("write_back") == [[], [], [[10, 11, 12], [13]]]
    assert story("write_through") == [[[10, 11, 12]], [[13]], []]
    assert story("write_through_selective") == [[], [[10, 11]], []]


def test_chunks_of_a_prompt_count_as_one_use_and_the_second_prompt_copies_it_out():
    """sglang#33714: its threshold was looked at only where a whole prompt was inserted at once."""
    cache = TieredCache(host_pages=9, write="write_through_selective")
    first = cache.insert([1, 2], [10, 11])
    cache.lock(first)
    done = cache.insert([1, 2, 3, 4], [10, 11, 12, 13], start=first)
    cache.unlock(first)
    assert moved(cache) == []
    match = cache.acquire([1, 2, 3, 4, 5])
    cache.insert([1, 2, 3, 4, 5], [0, 0, 0, 0, 14], start=match)
    assert moved(cache) == [([10, 11, 12, 13], [0, 1, 2, 3])]
    assert done.length == 4


def test_room_that_a_move_needs_is_not_made_in_what_another_reads():
    cache = TieredCache(host_pages=3)
    cache.insert([1, 2, 3], [10, 11, 12])
    cache.evict(3)
    moved(cache)
    match = cache.acquire([1, 2, 3])
    back = cache.load(match, [20, 21, 22])
    cache.insert([7, 8], [13, 14])
    cache.evict(2)
    assert cache.next_move() is None
    cache.settle(back)
    cache.insert([7, 8], [13, 14])
    cache.evict(2)
    assert moved(cache) == [([13, 14], [2, 1])]


def test_what_is_wrong_is_said_and_nothing_changes():
    cache, other = TieredCache(host_pages=4), TieredCache(host_pages=4)
    cache.insert([1, 2], [5, 6])
    cache.evict(2)
    move = cache.next_move()
    for act, error, said in (
        (lambda: other.settle(move), LockError, "it is not under way here"),
        (lambda: TieredCache().settle(move), LockError, "there is no host memory"),
        (lambda: cache.load(cache.match_prefix([1]), [7]), LockError, "length 0: it is not locked"),
        (lambda: cache.load(other.acquire([1]), [7]), LockError, "another cache made it"),
        (lambda: cache.load(cache.acquire([1]), [-7]), ValueError, r"pages\[0\] is -7"),
        (lambda: cache.load(cache.insert([], []), [7]), TypeError, r"load after Insertion\(.*: expected a match"),
        (lambda: TieredCache(write="back"), ValueError, "write is 'back': expected one of write_back, write_through"),
        (lambda: TieredCache(host_pages=-1), ValueError, "host_pages is -1: host memory has 0 or more pages"),
        (lambda: TieredCache(hot=0), ValueError, "hot is 0"),
        (cache.reset, LockError, "cannot reset: 1 move is under way"),
    ):
        with pytest.raises(error, match=said):
            act()
    cache.settle(move, arrived=False)
    cache.check()
    assert cache.host.pool.num_free == 4


def test_an_eviction_that_is_refused_forgets_no_move():
    cache = TieredCache(host_pages=4, write="write_through")
    cache.insert([1, 2], [5, 6])
    with pytest.raises(ValueError, match="num_tokens is -1"):
        cache.evict(-1)
    assert moved(cache) == [([5, 6], [0, 1])]


def test_an_eviction_of_many_leaves_looks_at_each_path_once():
    """Each leaf is one move: to tell, none is compared with all others."""
    cache = TieredCache(host_pages=6000)
    for leaf in range(2000):
        cache.insert([0, leaf + 1], [0, leaf + 1])
    cache.evict(2001)
    sent = [path for path in cache._outgoing.values() if path]
    assert len(sent) == 2000, "the node that they share goes with the first of them"
    assert len(moved(cache)) == 2000
    assert cache.host.index.total_size == 2001


def test_an_eviction_keeps_no_copy_of_the_path_to_each_leaf():
    """100 leaves after a prefix of 20,000 tokens: a copy of each path would take 16 MB."""
    cache, prefix = TieredCache(host_pages=30_000), list(range(20_000))
    cache.insert(prefix, prefix)
    for leaf in range(100):
        cache.insert([*prefix, 90_000 + leaf], [*prefix, 20_000 + leaf])
    tracemalloc.start()
    try:
        assert len(cache.evict(100)) == 100
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 200_000
    assert len(moved(cache)) == 100


def first_and_later_copies(monkeypatch, leaves, cache, leave):
    """The bytes of tokens and pages that were read for the first copy, and for all later ones."""
    counts, prefix = [0], list(range(20_000))

    def counted(path, length, runs="key_runs", page_size=1, after=host_memory._after):
        counts[-1] += sum(len(run) for edge in path if edge.end > length for run in getattr(edge, runs))
        return after(path, length, runs, page_size)

    monkeypatch.setattr(host_memory, "_after", counted)
    start = cache.insert(prefix, prefix)
    cache.lock(start)
    cache.insert([*prefix, 90_000], [*prefix, 20_000])
    leave(cache)
    counts.append(0)
    for leaf in range(1, leaves):
        cache.insert([*prefix, 90_000 + leaf], [*prefix, 20_000 + leaf], start=start)
        leave(cache)
    assert cache.host.index.total_size == min(20_000 + leaves, cache.host_pages)
    return counts


@pytest.mark.parametrize("host_pages", [30_000, 20_100, 1_000])
@pytest.mark.parametrize("write", WRITES)
def test_what_a_leaf_costs_does_not_depend_on_what_is_above_it(write, host_pages, monkeypatch):
    """Also where host memory has no room for all that is above it: the part that it has is skipped."""

    def leave(cache):
        moved(cache)
        cache.evict(1)
        moved(cache)

    cache = TieredCache(host_pages=host_pages, write=write, hot=1)
    first, later = first_and_later_copies(monkeypatch, 50, cache, leave)
    assert first >= 8 * min(20_001, host_pages)
    assert later <= 50 * 12  # its token is read once more when its page has arrived


def test_an_eviction_of_many_leaves_reads_the_path_above_them_once(monkeypatch):
    def leave(cache):
        if cache.total_size == 20_050:
            cache.evict(50)
            assert len(moved(cache)) == 50

    first, later = first_and_later_copies(monkeypatch, 50, TieredCache(host_pages=30_000), leave)
    assert first == 0
    assert later <= 12 * (20_000 + 2 * 50)


@pytest.mark.parametrize("part", ["pool", "index"])
def test_whichever_call_fails_within_host_memory_no_page_is_lost(part):
    """The k-th call that a move makes fails, for every k, before it has done anything."""

    class Breakdown(Exception):
        pass

    verbs, calls = {"pool": ("alloc",), "index": ("acquire", "acquire_path", "insert_after", "evict")}[part], []
    for k in range(1, 20):
        cache, calls = TieredCache(host_pages=3), []

        def failing(call, k=k, calls=calls):
            def guard(*args, **kwargs):
                calls.append(call)
                if len(calls) == k:
                    raise Breakdown
                return call(*args, **kwargs)

            return guard

        for verb in verbs:
            setattr(getattr(cache.host, part), verb, failing(getattr(getattr(cache.host, part), verb)))
        for start in (1, 11, 21):
            cache.insert([start, start + 1], [5, 6])
            cache.evict(2)
            with contextlib.suppress(Breakdown):
                moved(cache)
            match = cache.acquire([start, start + 1])
            with contextlib.suppress(Breakdown):
                back = cache.load(match, [5, 6])
                if back is not None:
                    cache.settle(back)
            cache.unlock(match)
            cache.check()
            assert not cache.host.moves
    assert len(calls) >= 3


def test_the_audit_finds_a_host_page_with_two_owners_or_none():
    for breaks, said in (
        (lambda host: host.pool.free([0]), "host page 0 has two owners: free, and node 1"),
        (lambda host: host.pool.alloc(1), "host page 2 has no owner"),
        (lambda host: host.index.acquire([1, 2]), "2 tokens are locked in host memory, but the moves under way hold 0"),
    ):
        cache = TieredCache(host_pages=4)
        cache.insert([1, 2], [5, 6])
        cache.evict(2)
        moved(cache)
        breaks(cache.host)
        with pytest.raises(InvariantError, match=said):
            cache.check()


# -- and whether the machine would notice ------------------------------------------------------------------------------


def reads_without_a_lock(patch):
    """sglang#27444: a host page is given to another prompt while it is read."""
    begin = HostMemory.begin_load

    def unlocked(self, match, pages):
        move = begin(self, match, pages)
        if move is not None:
            self.index.unlock(move.held)
            patch.setattr(self.index, "unlock", lambda handle: None)
        return move

    patch.setattr(HostMemory, "begin_load", unlocked)


def keeps_what_never_arrived(patch):
    settle = HostMemory.settle
    patch.setattr(HostMemory, "settle", lambda self, move, arrived=True: settle(self, move))


def forgets_the_pages_of_a_move_that_failed(patch):
    original = HostMemory.settle

    def settle(self, move, arrived=True):
        if not arrived and move.to_host:
            self._moves.pop(move)
            return self.index.unlock(move.held)
        return original(self, move, arrived)

    patch.setattr(HostMemory, "settle", settle)


def copies_a_leaf_without_what_is_above_it(patch):
    """It is in host memory, and no prompt reaches it: the other version of the rule, without its bookkeeping."""
    begin = HostMemory.begin_copy

    def alone(self, path):
        last, start = path[-1], path[-2].end
        return begin(self, [path[0], last._replace(end=last.end - start, node=HostedNode(*[None] * 6))])

    patch.setattr(HostMemory, "begin_copy", alone)


def mixes_namespaces(patch):
    acquire = HostTree.acquire_path

    def in_one(self, path):
        return acquire(self, [path[0]._replace(node=self.root), *path[1:]])

    patch.setattr(HostTree, "acquire_path", in_one)


def never_counts(patch):
    """sglang#4987 and #33714: the count that would make a page hot never gets there."""
    patch.setattr(TieredCache, "hot", property(lambda self: 10**9, lambda self, value: None), raising=False)


PLANTED = (
    reads_without_a_lock,
    keeps_what_never_arrived,
    forgets_the_pages_of_a_move_that_failed,
    copies_a_leaf_without_what_is_above_it,
    mixes_namespaces,
    never_counts,
)


HUNTED_LONG = reads_without_a_lock, never_counts


@pytest.mark.parametrize("bug", by_day(PLANTED, lambda bug: bug not in HUNTED_LONG), ids=lambda bug: bug.__name__)
def test_the_machine_notices(bug, monkeypatch):
    bug(monkeypatch)
    found = settings(stateful_step_count=40, max_examples=400, phases=[Phase.generate], database=None)
    with pytest.raises((AssertionError, LockError, KeyError, ValueError)):
        run_state_machine_as_test(Tiered, settings=found)


def test_a_small_difference_from_a_radix_cache_is_noticed(monkeypatch):
    """It counts hits though there is no host memory to ask for them."""
    clear = TieredCache._clear
    monkeypatch.setattr(TieredCache, "_clear", lambda self: (clear(self), setattr(self, "_counts_hits", True)))
    with pytest.raises(AssertionError):
        test_without_host_memory_every_answer_and_every_node_is_a_radix_caches()


def test_a_host_page_without_those_before_it_is_noticed(monkeypatch):
    copies_a_leaf_without_what_is_above_it(monkeypatch)
    with pytest.raises(AssertionError):
        test_what_is_in_host_memory_can_be_loaded_whatever_the_device_forgets()
