"""Two tiers: the laws of host memory under a model of pages, and what a copy costs."""

import contextlib
import tracemalloc
from dataclasses import replace

import pytest
from digits import put
from hypothesis import Phase, settings
from machine import hunt
from nightly import NIGHTLY
from plant import plant
from tiered_machine import CASES, SUBJECTS, WatchedTiers

from minikv import FreeListPool, InvariantError, LockError
from minikv.prefix import host_memory
from minikv.prefix.host_memory import HostedNode, HostMemory, HostTree
from minikv.prefix.tiered import WRITES, TieredCache


def moved(cache):
    """The moves that are due, carried out."""
    found = []
    while (move := cache.next_move()) is not None:
        cache.settle(move)
        found.append((move.src.tolist(), move.dst.tolist()))
    return found


def test_what_is_loaded_is_of_the_namespace_that_asks():
    tree = TieredCache(host_pages=4, write="write_through")
    for namespace in ("a", None):
        tree.insert([1, 2], [0, 1], namespace=namespace)
        tree.settle(tree.next_move())
        tree.evict(2)
    move = tree.load(tree.acquire([1, 2], namespace="a"), FreeListPool(2).alloc(2))
    assert (move.namespace, move.src.tolist(), move.dst.tolist()) == ("a", [0, 1], [0, 1])


def test_no_more_is_loaded_than_there_are_pages_for():
    tree = TieredCache(host_pages=4)
    put(tree, b"123")
    tree.evict(3)
    moved(tree)
    move = tree.load(tree.acquire(b"123"), [5, 6])
    assert (len(move.src), move.dst.tolist()) == (2, [5, 6])


def test_what_is_wrong_is_said_and_nothing_changes():
    cache, other = TieredCache(host_pages=4), TieredCache(host_pages=4)
    put(cache, b"12")
    cache.evict(2)
    move = cache.next_move()
    for act, error, said in (
        (lambda: other.settle(move), LockError, "it is not under way here"),
        (lambda: TieredCache().settle(move), LockError, "there is no host memory"),
        (lambda: cache.load(cache.match_prefix(b"1"), [7]), LockError, "length 0: it is not locked"),
        (lambda: cache.load(other.acquire(b"1"), [7]), LockError, "another cache made it"),
        (lambda: cache.load(cache.acquire(b"1"), [-7]), ValueError, r"pages\[0\] is -7"),
        (lambda: cache.load(put(cache, b""), [7]), TypeError, r"load after Insertion\(.*: expected a match"),
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
    put(cache, b"12")
    with pytest.raises(ValueError, match="num_tokens is -1"):
        cache.evict(-1)
    assert moved(cache) == [([1, 12], [0, 1])]


# -- what it costs -----------------------------------------------------------------------------------------------------


PREFIX = list(range(20_000))


def add_leaves(cache, first, last):
    """Add leaves after the prefix of 20,000 tokens; a generator, which stops after each."""
    start = cache.acquire(PREFIX) if cache.total_size else cache.insert(PREFIX, PREFIX)
    cache.lock(start)
    for leaf in range(20_000 + first, 20_000 + last):
        yield cache.insert([*PREFIX, 70_000 + leaf], [*PREFIX, leaf], start=start)


def test_an_eviction_keeps_no_copy_of_the_path_to_each_leaf():
    """For 100 leaves, a copy of each path would take 16 MB."""
    cache = TieredCache(host_pages=30_000)
    list(add_leaves(cache, 0, 100))
    tracemalloc.start()
    try:
        assert len(cache.evict(100)) == 100
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 200_000
    assert len(moved(cache)) == 100


@pytest.fixture
def read(monkeypatch):
    """A list whose last item counts the bytes of tokens and pages that were read for copies."""
    counts, after = [0], host_memory._after

    def counted(path, length, runs="key_runs", page_size=1):
        counts[-1] += sum(len(run) for edge in path if edge.end > length for run in getattr(edge, runs))
        return after(path, length, runs, page_size)

    monkeypatch.setattr(host_memory, "_after", counted)
    return counts


@pytest.mark.parametrize(("write", "host_pages"), [*zip(WRITES, (30_000, 20_100, 1_000)), ("write_through", 1_000)])
def test_what_a_leaf_costs_does_not_depend_on_what_is_above_it(write, host_pages, read):
    """Also where host memory has no room for all that is above it: the part that it has is skipped."""
    cache = TieredCache(host_pages=host_pages, write=write, hot=1)
    for _ in add_leaves(cache, 0, 50):
        moved(cache)
        cache.evict(1)
        moved(cache)
        read.append(0)
    assert cache.host.index.total_size == min(20_050, host_pages)
    assert read[0] >= 8 * min(20_001, host_pages)
    assert sum(read[1:]) <= 50 * 12  # its token is read once more when its page has arrived


def test_an_eviction_of_many_leaves_reads_the_path_above_them_once(read):
    cache = TieredCache(host_pages=30_000)
    list(add_leaves(cache, 0, 50))
    assert read == [0]
    cache.evict(50)
    assert len(moved(cache)) == 50, "each leaf is one move, and the prefix goes with the first of them"
    assert cache.host.index.total_size == 20_050
    assert read[0] <= 12 * (20_000 + 2 * 50)


# -- where something breaks --------------------------------------------------------------------------------------------


class Breakdown(Exception):
    """A call that failed before it had done anything."""


@pytest.mark.parametrize(("part", "verbs"), [("pool", "alloc"), ("index", "acquire acquire_path insert_after evict")])
def test_whichever_call_fails_within_host_memory_no_page_is_lost(part, verbs):
    """The k-th call that a move makes fails, for every k."""
    for k in range(1, 20):
        cache, calls = TieredCache(host_pages=3), []

        def failing(call, *args, k=k, calls=calls, **options):
            calls.append(call)
            if len(calls) == k:
                raise Breakdown
            return call(*args, **options)

        with pytest.MonkeyPatch.context() as patch:
            plant(patch, getattr(cache.host, part), verbs, failing)
            for prompt in (b"12", b"34", b"56"):
                put(cache, prompt)
                cache.evict(2)
                with contextlib.suppress(Breakdown):
                    moved(cache)
                match = cache.acquire(prompt)
                with contextlib.suppress(Breakdown):
                    back = cache.load(match, [5, 6])
                    if back is not None:
                        cache.settle(back)
                cache.unlock(match)
                cache.check()
                assert not cache.host.moves
    assert len(calls) >= 3


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        (lambda host: host.pool.free([0]), "host page 0 has two owners: free, and node 1"),
        (lambda host: host.pool.alloc(1), "host page 2 has no owner"),
        (lambda host: host.index.acquire(b"12"), "2 tokens are locked in host memory, but the moves under way hold 0"),
    ],
)
def test_the_audit_finds_a_host_page_with_two_owners_or_none(breaks, said):
    cache = TieredCache(host_pages=4)
    put(cache, b"12")
    cache.evict(2)
    moved(cache)
    breaks(cache.host)
    with pytest.raises(InvariantError, match=said):
        cache.check()


# -- against the model, and whether that would notice ------------------------------------------------------------------


def test_both_tiers_agree_with_a_model_of_pages():
    most = settings().max_examples if NIGHTLY else 60  # sixty find all that is planted below
    hunt(SUBJECTS, CASES, WatchedTiers, max_examples=most)


def reads_without_a_lock(begin_load, self, match, pages):
    move = begin_load(self, match, pages)
    if move is not None:
        self.index.unlock(move.held)
        self.index.unlock = lambda handle: None
    return move


def copies_a_leaf_alone(begin_copy, self, path):
    last, start = path[-1], path[-2].end
    return begin_copy(self, [path[0], last._replace(end=last.end - start, node=HostedNode(*[None] * 6))])


def makes_a_mark_longer(join, self, node, above):
    known = getattr(above[0], "in_host", None)
    if known is not None:
        node.in_host = replace(known, length=node.end)
    join(self, node, above)


def counts_in_vain(init, self, size, host_pages, write, hot, *how):
    init(self, size, host_pages, write, 99, *how)


PLANTED = {
    "a host page is given to another prompt while it is read (sglang#27444)":
        (HostMemory, "begin_load", reads_without_a_lock),
    "a leaf is copied without what is above it, so no prompt reaches it":
        (HostMemory, "begin_copy", copies_a_leaf_alone),
    "the count that would make a page hot never gets there (sglang#4987 and #33714)":
        (TieredCache, "__init__", counts_in_vain),
    "a mark is believed for ever, whatever host memory has evicted since":
        (HostTree, "_what_is_left", lambda left, self, node, length: (node, min(length, node.end))),
    "a mark is taken for one of the whole edge after a join":
        (TieredCache, "_join", makes_a_mark_longer),
}  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("mistake", PLANTED)
def test_the_machine_notices(mistake, monkeypatch):
    plant(monkeypatch, *PLANTED[mistake])
    with pytest.raises(AssertionError, match="cache = Tiers"):
        hunt(SUBJECTS, CASES, WatchedTiers, max_examples=400, phases=[Phase.generate])
