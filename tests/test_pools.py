"""The promises that all pools make, each pool against a list, and what the originals do wrong."""

import re

import numpy as np
import pytest
from golden_text import replay
from hypothesis import given
from hypothesis import strategies as st
from refusals import said

from minikv import BitmaskPool, FreeListPool, InvariantError, QueuePool
from minikv.errors import bounded
from minikv.pools import free_list
from minikv.pools.contract import pool_size, require_slots
from minikv.traffic.replay import GrowingPool

# For each pool the order of the free pages, of which the first is taken next, when some come back.
POOLS = {
    FreeListPool: lambda free, pages: [*pages, *free],
    BitmaskPool: lambda free, pages: sorted([*free, *pages]),
    QueuePool: lambda free, pages: [*free, *pages],
    GrowingPool: lambda free, pages: [*pages, *free],
}
every_pool = pytest.mark.parametrize("make", POOLS, ids=lambda pool: pool.__name__)
PAGE = st.integers(-1, 12)
FORMS = st.sampled_from([list, tuple, np.array, lambda pages: np.array(pages, np.int32)])


def why_not(pages, pool, free):
    """Why these pages cannot be freed; empty if they can."""
    for i, page in enumerate(pages):
        if not 0 <= page < pool.size:
            return f"ValueError: pages[{i}] is {page}: this pool has pages 0 to {pool.size - 1}"
    for i, page in enumerate(pages):
        if page in free or page in pages[:i]:
            why = "already free" if page in free else "given twice"
            return f"ValueError: cannot free pages[{i}]: page {page} is {why}"
    return ""


class PoolBesideList:
    """A pool and its free pages in order; each verb does the same to both."""

    def __init__(self, make, size):
        self.pool, self.free, self.given, self.versions = make(size), [*range(size)], [], [0] * size

    def alloc(self, count, pages, form, flag):
        """All or nothing. N3: the notebook broadcasts its last slot: seven tokens, one slot, no error."""
        if count > len(self.free):
            pages = "page" if count == 1 else "pages"
            words = f"OutOfPages: {count} {pages} needed, but only {len(self.free)} free"
            assert said(self.pool.alloc, np.uint8(count) if flag else count) == words
            return
        assert said(self.pool.alloc_to, memoryview(bytearray(count))).startswith("ValueError: memoryview")
        row = np.full(count, 99, np.int32)
        if flag:
            self.pool.alloc_to(row.data)
        else:
            row = self.pool.alloc(np.int64(count))
        taken, self.free = self.free[:count], self.free[count:]
        assert (row.dtype, row.tolist()) == (np.int32, taken)
        self.given.append((row, taken))
        for page in taken:
            self.versions[page] += 1

    def used(self, pages):
        """As many pages, each in use: some of them perhaps twice."""
        used = [page for page in range(self.pool.size) if page not in self.free]
        return [used[page % len(used)] for page in pages] if used else []

    def give_back(self, count, pages, form, flag):
        pages = [*dict.fromkeys(self.used(pages))]
        sure = {"sure": True} if flag and isinstance(self.pool, FreeListPool) else {}
        self.pool.free(np.array(pages, np.int32) if sure else form(pages), **sure)
        self.free = POOLS[type(self.pool)](self.free, pages)

    def free_any(self, count, pages, form, flag):
        """N3c: the notebook hands out 11 slots of 8 after a free page is freed. V2: vLLM's queue takes a block twice,
        counts 4 of 3 and loses two. A6: AstrAI's bitmask says nothing, and fails much later."""
        pages = self.used(pages) if flag else pages
        if words := why_not(pages, self.pool, self.free):
            assert said(self.pool.free, form(pages)) == words
        else:
            self.give_back(count, pages, form, False)

    def occupy(self, count, pages, form, flag):
        """A6: AstrAI's flips the bit, and so frees a page in use. V3: in vLLM the count goes wrong in silence."""
        page = count % self.pool.size
        if not hasattr(self.pool, "occupy"):
            return
        if page not in self.free:
            assert said(self.pool.occupy, page) == f"ValueError: cannot occupy page {page}: it is in use"
            return
        renew = {"renew": flag} if isinstance(self.pool, BitmaskPool) else {}
        self.pool.occupy(page, **renew)
        self.free.remove(page)
        self.versions[page] += flag

    def compare(self):
        pool, size = self.pool, self.pool.size
        pool.check()
        assert [pool.is_free(page) for page in range(size)] == [page in self.free for page in range(size)]
        assert repr(pool) == f"{type(pool).__name__}({len(self.free)} of {size} free)"
        if isinstance(pool, QueuePool):
            assert [*pool] == self.free
        if isinstance(pool, BitmaskPool):
            assert [pool.version(page) for page in range(size)] == self.versions
        assert all(row.tolist() == taken for row, taken in self.given)  # it does not write to what it gave out


VERBS = ["alloc", "give_back", "free_any", "occupy"]


@pytest.mark.parametrize(("make", "few"), [(FreeListPool, 0), *((make, 32) for make in POOLS)])
@given(
    st.sampled_from([1, 4, 9, 70]),
    st.lists(
        st.tuples(st.sampled_from(VERBS), st.integers(0, 12), st.lists(PAGE, max_size=6), FORMS, *[st.booleans()] * 2)
    ),
)
def test_a_pool_does_what_a_list_does(make, few, size, acts):
    """A stack takes a `few` pages one by one, and more of them in one step."""
    both = PoolBesideList(make, size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(free_list, "_FEW", few)
        for verb, *arguments, is_compared in acts:
            getattr(both, verb)(*arguments)
            assert both.pool.num_free == len(both.free)
            if is_compared:  # not always: a stack notes where pages are when somebody looks
                both.compare()
        both.compare()
        assert both.pool.alloc(len(both.free)).tolist() == both.free


REFUSED = [  # what else is no number of a page, test_tokens says
    *(("free", pages, "TypeError: pages") for pages in ([1.5], None, {1}, b"\1")),
    ("free", np.zeros((1, 1), int), "ValueError: pages have shape (1, 1)"),
    ("alloc", 1.0, "TypeError: num_pages is 1.0"),
    ("alloc", -1, "ValueError: num_pages is -1"),
    ("is_free", 4, "ValueError: page is 4"),
    ("__init__", None, "TypeError: size is None"),  # V1: there an IndexError about a list; others are in test_arguments
]


@every_pool
@pytest.mark.parametrize(("verb", "argument", "words"), REFUSED, ids=bounded)
def test_what_is_no_page_and_no_number_is_named_and_changes_nothing(make, verb, argument, words):
    pool = make(4)
    pool.alloc(3)
    assert said(getattr(pool, verb), argument).startswith(words)
    pool.check()
    assert pool.num_free == 1


def test_the_largest_pool_has_as_many_pages_as_the_message_says():
    assert pool_size(2**28) == 2**28
    require_slots(2**11, 2**20)  # of which the last is an int32
    assert said(pool_size, 2**28 + 1).startswith("ValueError: size is 268435457: a pool holds 1 to 2**28 pages")


@pytest.mark.parametrize(
    ("pages", "words"),
    [([0, 1], "page 1 is on the stack 2 times"), ([9], "page 9 is on the stack: this pool has")],
)
def test_a_page_that_was_wrongly_sure_is_found(pages, words):
    pool = FreeListPool(4)
    pool.alloc(3)
    pool.free([1])
    pool.free(np.array(pages, np.int32), sure=True)
    with pytest.raises(InvariantError, match=words):
        pool.check()


@pytest.mark.parametrize(
    ("pages", "is_sure", "why"),
    [
        ([0, 1, 2], True, "pages[2]: page 2 is already free"),
        ([0, 1, 1], False, "pages[2]: page 1 is given twice"),
        ([0, 2], False, "pages[1]: page 2 is already free"),
    ],
)
def test_of_many_pages_one_that_is_not_in_use_cannot_come_back(pages, is_sure, why, monkeypatch):
    monkeypatch.setattr(free_list, "_FEW", 0)
    pool = FreeListPool(4)
    pool.alloc(2)
    assert said(pool.free, np.array(pages, np.int32), sure=is_sure) == f"ValueError: cannot free {why}"
    assert pool.num_free == 2
    pool.check()


def test_pages_refused_for_no_reason_are_told_in_one_short_line(monkeypatch):
    pool = FreeListPool(1000)
    monkeypatch.setattr(pool, "_push_many", lambda ids, top: False)
    says = said(pool.free, pool.alloc(1000))
    assert re.match(r"InvariantError: pages \[0, 1, 2, .*… could not be freed, but each of them", says)
    assert len(says) < 150


def test_a_bitmask_gives_the_lowest_page_at_any_size():
    pool = BitmaskPool(64**2 + 5)
    pool.alloc(pool.size)
    pool.free([4100, 70, 4000])
    assert pool.alloc(3).tolist() == [70, 4000, 4100]
    pool.check()


def test_pages_may_be_taken_while_the_queue_is_walked():
    pool = QueuePool(4)
    for page in pool:
        pool.occupy(page)
    assert pool.num_free == 0
    pool.check()


@every_pool
def test_check_finds_a_corruption_and_names_the_place(make):
    """A pool of 100 pages, of which the first is taken, is spoiled: what its audit says."""

    def act(line):
        pool = make(100)
        pool.alloc(1)
        pool.check()
        exec(line, {"pool": pool})
        says = said(pool.check)
        assert says
        return [says]

    replay("spoiled_pools.txt", make.__name__, act)
