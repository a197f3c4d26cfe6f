"""The promises that all pools make, each pool against a set, and what the originals do wrong."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import BitmaskPool, FreeListPool, InvariantError, OutOfPages, QueuePool
from minikv.pools import free_list
from minikv.pools.contract import pool_size

pytestmark = pytest.mark.core

POOLS = [FreeListPool, BitmaskPool, QueuePool]
every_pool = pytest.mark.parametrize("make", POOLS, ids=lambda pool: pool.__name__)


def state(pool):
    return pool.num_free, [pool.is_free(page) for page in range(pool.size)]


@every_pool
def test_every_page_is_handed_out_once(make):
    pool = make(200)
    pages = [*pool.alloc(150).tolist(), *pool.alloc(50).tolist()]
    assert sorted(pages) == list(range(200))
    assert pages[:3] == [0, 1, 2]
    assert pool.num_free == 0
    pool.check()


@every_pool
def test_pages_are_int32_and_the_callers_own(make):
    pool = make(4)
    pages = pool.alloc(2)
    assert pages.dtype == np.int32
    pages[:] = 3
    pool.check()
    assert not pool.is_free(0)
    assert pool.is_free(3)


@every_pool
def test_alloc_gives_all_or_nothing(make):
    """N3: with one slot left, the notebook's allocate broadcasts it: seven tokens, one slot, no error."""
    pool = make(8)
    pool.alloc(7)
    before = state(pool)
    with pytest.raises(OutOfPages, match="7 pages needed, but only 1 free") as caught:
        pool.alloc(7)
    assert (caught.value.needed, caught.value.free) == (7, 1)
    assert state(pool) == before
    assert len(pool.alloc(0)) == 0
    pool.check()


@every_pool
@pytest.mark.parametrize(
    ("pages", "names"),
    [
        ([1, 5], r"pages\[1\]: page 5 is already free"),  # N3c: the notebook hands out 11 slots of 8 after this
        ([1, 2, 1], r"pages\[2\]: page 1 is given twice"),
        ([0, 9], r"pages\[1\] is 9"),  # A6: AstrAI's free(9) in a pool of 4 fails much later, with an IndexError
        ([0, -1], r"pages\[1\] is -1"),
    ],
)
def test_a_wrong_free_is_named_and_frees_nothing(make, pages, names):
    """V2: vLLM's queue takes a block twice, counts 4 of 3 and loses two; AstrAI's bitmask says nothing."""
    pool = make(8)
    pool.alloc(4)
    before = state(pool)
    with pytest.raises(ValueError, match=names):
        pool.free(pages)
    assert state(pool) == before
    pool.check()
    pool.free([0, 1, 2, 3])
    assert pool.num_free == 8


@every_pool
@pytest.mark.parametrize(
    "pages", [[1.5], ["1"], "12", None, 3, {1}, np.array([0.5]), [[1]], np.zeros((1, 1), int), b"\1"], ids=repr
)
def test_only_page_ids_can_be_freed(make, pages):
    pool = make(4)
    pool.alloc(4)
    with pytest.raises((TypeError, ValueError), match="pages"):
        pool.free(pages)
    assert pool.num_free == 0


@every_pool
def test_any_sequence_of_ids_can_be_freed(make):
    torch = pytest.importorskip("torch")
    pool = make(8)
    pool.alloc(8)
    for pages in ([0], (1,), range(2, 3), np.array([3]), torch.tensor([4]), [np.int64(5)], []):
        pool.free(pages)
    assert [pool.is_free(page) for page in range(8)] == [True] * 6 + [False] * 2


@every_pool
@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (-1, ValueError), (2.0, TypeError), (None, TypeError)])
def test_a_pool_of_nothing_is_refused(make, size, error):
    """V1: FreeKVCacheBlockQueue([]) is an IndexError about a list."""
    with pytest.raises(error, match=f"size is {size!r}"):
        make(size)


@every_pool
@pytest.mark.parametrize("count", [-1, 1.0, "2", None])
def test_alloc_wants_a_whole_number(make, count):
    with pytest.raises((TypeError, ValueError), match=f"num_pages is {count!r}"):
        make(4).alloc(count)


@every_pool
@pytest.mark.parametrize("page", [-1, 4, 1.0])
def test_a_foreign_page_is_neither_free_nor_in_use(make, page):
    with pytest.raises((TypeError, ValueError), match="page is"):
        make(4).is_free(page)


@every_pool
@given(st.data())
def test_a_pool_behaves_as_a_set(make, data):
    size = data.draw(st.integers(1, 150))
    pool, used = make(size), set()
    for _ in range(data.draw(st.integers(0, 12))):
        if data.draw(st.booleans()):
            count = data.draw(st.integers(0, size))
            if count > size - len(used):
                with pytest.raises(OutOfPages):
                    pool.alloc(count)
            else:
                pages = pool.alloc(count).tolist()
                assert len(set(pages)) == count
                assert not used.intersection(pages)
                used.update(pages)
        elif used:
            pages = data.draw(st.lists(st.sampled_from(sorted(used)), unique=True))
            pool.free(pages)
            used.difference_update(pages)
        pool.check()
        assert pool.num_free == size - len(used)
        assert {page for page in range(size) if not pool.is_free(page)} == used


def test_a_stack_reuses_what_was_freed_last():
    pool = FreeListPool(6)
    pool.alloc(4)
    pool.free([2, 0])
    assert pool.alloc(3).tolist() == [2, 0, 4]


def outcomes(size, in_use, frees):
    """What a pool says and gives out, when it goes from page to page, and when it takes many in one step."""
    found = []
    for few in (1000, 0):
        pool, said = FreeListPool(size), []
        pool.alloc(in_use)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(free_list, "_FEW", few)
            for pages in frees:
                try:
                    pool.free(np.array(pages, np.int32))
                except ValueError as error:
                    said.append(str(error))
                pool.check()
        said.append(pool.alloc(pool.num_free).tolist())
        pool.check()
        found.append(said)
    return found


@given(st.lists(st.lists(st.integers(-1, 12), max_size=8), max_size=8), st.integers(1, 12))
def test_every_way_to_free_has_the_same_outcome(frees, in_use):
    one_by_one, at_once = outcomes(12, in_use, frees)
    assert one_by_one == at_once


@given(st.data())
def test_pages_that_the_caller_is_sure_of_are_as_free_as_any(data):
    """They are given out in the same order, and refused when they are freed again; whatever is looked at between."""
    looking, sure, used = FreeListPool(40), FreeListPool(40), []
    for _ in range(data.draw(st.integers(1, 12))):
        used += looking.alloc(count := data.draw(st.integers(0, looking.num_free))).tolist()
        row = np.empty(count, np.int32)
        sure.alloc_to(row.data)
        assert row.tolist() == used[len(used) - count :]
        back = data.draw(st.lists(st.sampled_from(used), unique=True)) if used else []
        looking.free(np.array(back, np.int32))
        sure.free(np.array(back, np.int32), sure=data.draw(st.booleans()))
        used = [page for page in used if page not in back]
        if data.draw(st.booleans()):
            assert state(looking) == state(sure)
            sure.check()
        if looking.num_free and data.draw(st.booleans()):
            free = [page for page in range(40) if page not in used]
            with pytest.raises(ValueError, match="is already free"):
                sure.free([data.draw(st.sampled_from(free))] * data.draw(st.sampled_from([1, 50])))
    assert looking.alloc(looking.num_free).tolist() == sure.alloc(sure.num_free).tolist()


def test_more_pages_than_there_are_cannot_come_back():
    pool = FreeListPool(4)
    pool.alloc(1)
    with pytest.raises(ValueError, match=r"pages\[1\]: page 1 is already free"):
        pool.free(np.array([0, 1], np.int32), sure=True)
    assert pool.num_free == 3


def test_a_page_that_was_wrongly_sure_is_found():
    for pages, words in (([0, 1], "page 1 is on the stack 2 times"), ([9], "page 9 is on the stack: this pool has")):
        pool = FreeListPool(4)
        pool.alloc(3)
        pool.free([1])
        pool.free(np.array(pages, np.int32), sure=True)
        with pytest.raises(InvariantError, match=words):
            pool.check()


@every_pool
def test_pages_given_out_are_not_written_to_again(make):
    pool = make(8)
    first, second = pool.alloc(2), pool.alloc(2)
    pool.free(first)
    pool.alloc(3)
    assert (first.tolist(), second.tolist()) == ([0, 1], [2, 3])


@every_pool
def test_a_tensor_without_values_frees_nothing(make):
    torch = pytest.importorskip("torch")
    pool = make(4)
    pool.alloc(2)
    with pytest.raises(ValueError, match="pages are a tensor on meta, which has no values"):
        pool.free(torch.empty(2, dtype=torch.int32, device="meta"))
    assert pool.num_free == 2


@every_pool
def test_only_integers_in_one_dimension_are_pages(make):
    pool = make(8)
    pool.alloc(4)
    with pytest.raises(TypeError, match=r"pages\[0\] is 1.0"):
        pool.free(np.ones(1, np.float32))
    with pytest.raises(ValueError, match=r"pages have shape \(1, 1\)"):
        pool.free(np.ones((1, 1), np.int32))
    assert pool.num_free == 4


def test_many_pages_are_freed_and_refused_as_a_whole():
    pool = FreeListPool(10_000)
    pages = pool.alloc(9000)
    for wrong, words in (
        (np.concatenate([pages[3000:6000], pages[2000:5000]]), r"cannot free pages\[4000\]: page 3000 is given twice"),
        (np.arange(8000, 9500, dtype=np.int32), r"cannot free pages\[1000\]: page 9000 is already free"),
        (np.arange(9000, 10_001, dtype=np.int32), r"pages\[1000\] is 10000: this pool has pages 0 to 9999"),
        (np.arange(-1, 5000, dtype=np.int32), r"pages\[0\] is -1: this pool has pages 0 to 9999"),
    ):
        with pytest.raises(ValueError, match=words):
            pool.free(wrong)
        assert pool.num_free == 1000
        pool.check()
    pool.free(np.concatenate([pages[3000:6000], pages[:3000]]))
    assert pool.alloc(2).tolist() == [3000, 3001]
    pool.check()


def test_a_version_counts_how_often_a_page_was_handed_out():
    pool = BitmaskPool(2)
    assert pool.version(0) == 0
    for expected in (1, 2):
        pool.alloc(1)
        assert pool.version(0) == expected
        pool.free([0])
    pool.occupy(0)
    assert (pool.version(0), pool.is_free(0), pool.num_free) == (2, False, 1)


def test_a_page_is_taken_with_a_new_version_where_its_content_will_change():
    pool = BitmaskPool(2)
    pool.occupy(1)
    pool.free([1])
    pool.occupy(1, renew=True)
    assert (pool.version(0), pool.version(1)) == (0, 1)


def test_occupying_a_page_in_use_is_refused():
    """A6: AstrAI's occupy flips the bit, so it *frees* a page in use, and the next alloc gives it a second owner."""
    pool = BitmaskPool(2)
    pool.alloc(1)
    with pytest.raises(ValueError, match="page 0: it is in use"):
        pool.occupy(0)
    assert state(pool) == (1, [False, True])


def test_a_bitmask_gives_the_lowest_page_at_any_size():
    pool = BitmaskPool(64**2 + 5)
    pool.alloc(pool.size)
    pool.free([4100, 70, 4000])
    assert pool.alloc(3).tolist() == [70, 4000, 4100]
    pool.check()


def test_a_page_leaves_a_queue_from_anywhere():
    pool = QueuePool(5)
    for page in (2, 0, 4):
        pool.occupy(page)
    assert list(pool) == [1, 3]
    pool.check()
    with pytest.raises(ValueError, match="cannot occupy page 2"):  # V3: in vLLM the count goes wrong in silence
        pool.occupy(2)
    pool.free([4, 2])
    assert list(pool) == [1, 3, 4, 2]
    assert pool.alloc(4).tolist() == [1, 3, 4, 2]
    assert list(pool) == []
    pool.check()


def test_a_queue_reuses_the_end_of_a_prefix_before_its_beginning():
    """Freed head first, taking one page back kills the whole chain; freed tail first, its beginning survives."""
    pool = QueuePool(3)
    chain = pool.alloc(3)
    pool.free(chain[::-1])
    pool.alloc(1)
    assert pool.is_free(0)
    assert not pool.is_free(2)


def test_reprs_are_short():
    """V4: printing one of vLLM's early blocks prints all that it is linked to, and ends in a RecursionError."""
    assert [repr(make(2000)) for make in POOLS] == [f"{make.__name__}(2000 of 2000 free)" for make in POOLS]


def put(**fields):
    """A corruption: what a field of the pool is, or in a list of lists, what stands at a place of it."""

    def corrupt(pool):
        for name, value in fields.items():
            if isinstance(value, dict):
                for at, item in value.items():
                    getattr(pool, name)[at] = item
            else:
                setattr(pool, name, value)

    return corrupt


def put_word(level, word, value):
    return lambda pool: pool._levels[level].__setitem__(word, value)


# Pools of 100 pages of which the first is taken: the corruption, and what the audit says of it.
FREE_LIST = [
    (put(num_free=101), "101 of 100 pages are on the stack"),
    (put(num_free=-1), "-1 of 100 pages are on the stack"),
    (put(_memory={3: -1}), "page -1 is on the stack: this pool has pages 0 to 99"),
    (put(_memory={3: 100}), "page 100 is on the stack: this pool has pages 0 to 99"),
    (put(_memory={3: 99}), "page 99 is on the stack 2 times"),
    (put(_memory={3: 0}), "page 0 is on the stack, but not at place 0"),
    (put(_where={3: 4}), "page 3 is on the stack, but not at place 4"),
    (put(_where={0: 100}), "page 0 has place 100: places are 0 to 99"),
    (put(_where={0: -1}), "page 0 has place -1: places are 0 to 99"),
]
BITMASK = [
    (put(num_free=2), "99 bits are set, but num_free is 2"),
    (put_word(0, 1, 0), "word 0 of level 1 is 0x3: expected 0x1"),
    (put_word(1, 0, 0b10), "word 0 of level 1 is 0x2: expected 0x3"),
    (put_word(1, 0, 0b111), "word 0 of level 1 is 0x7: expected 0x3"),
    (put_word(0, 1, 1 << 36), "word 1 of level 0 is 0x1000000000: expected 0x0"),
    (put_word(0, 0, 1 << 64), "word 0 of level 0 is 0x10000000000000000: expected 0x0"),
    (put_word(0, 0, -1), "word 0 of level 0 is -0x1: expected 0xffffffffffffffff"),
    (lambda pool: pool._levels.append([1]), r"its levels have \[2, 1, 1\] words: expected \[2, 1\]"),
    (lambda pool: pool._levels[0].pop(), r"its levels have \[1, 1\] words: expected \[2, 1\]"),
    (lambda pool: pool._levels.clear(), r"its levels have \[\] words: expected \[2, 1\]"),
]
QUEUE = [
    (put(num_free=2), "99 pages are in the queue, but num_free is 2"),
    (put(_next={2: 1}), "after page 2 comes 1, whose previous page is 100"),
    (put(_next={2: 101}), "after page 2 comes 101, which is out of range"),
    (put(_previous={3: 1}), "after page 2 comes 3, whose previous page is 1"),
    (put(_previous={100: 3}), "the queue ends with page 99, but its tail is page 3"),
    (put(_next={0: 1}), "99 pages are in the queue, but 100 have a next page"),
]
CORRUPTIONS = [
    pytest.param(make, *pair, id=f"{make.__name__}: {pair[1]}")
    for make, pairs in ((FreeListPool, FREE_LIST), (BitmaskPool, BITMASK), (QueuePool, QUEUE))
    for pair in pairs
]


@pytest.mark.parametrize(("make", "corrupt", "says"), CORRUPTIONS)
def test_check_finds_a_corruption_and_names_the_place(make, corrupt, says):
    pool = make(100)
    pool.alloc(1)
    pool.check()
    corrupt(pool)
    with pytest.raises(InvariantError, match=f"^{make.__name__}: {says}$"):
        pool.check()


@every_pool
@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_any_whole_number_of_pages_may_be_taken(make, kind):
    pool = make(4)
    assert len(pool.alloc(kind(0))) == 0
    assert len(pool.alloc(kind(3))) == 3
    with pytest.raises(OutOfPages, match="2 pages needed, but only 1 free"):
        pool.alloc(kind(2))
    assert len(pool.alloc(kind(1))) == 1
    assert pool.num_free == 0


def test_the_largest_pool_has_as_many_pages_as_the_message_says():
    assert pool_size(2**28) == 2**28


def test_pages_refused_for_no_reason_are_told_in_one_short_line(monkeypatch):
    pool = FreeListPool(1000)
    pages = pool.alloc(1000)
    monkeypatch.setattr(pool, "_push_many", lambda ids, top: False)
    with pytest.raises(InvariantError, match=r"pages \[0, 1, 2, .*… could not be freed, but each of them") as caught:
        pool.free(pages)
    assert len(str(caught.value)) < 150


def test_pages_may_be_taken_while_the_queue_is_walked():
    pool = QueuePool(4)
    for page in pool:
        pool.occupy(page)
    assert pool.num_free == 0
    pool.check()


def test_a_pool_larger_than_any_memory_is_refused_in_words():
    for make in POOLS:
        for size in (10**10, 2**31, 2**31 - 1, 2**28 + 1):
            with pytest.raises(ValueError, match=rf"size is {size}: a pool holds 1 to 2\*\*28 pages"):
                make(size)


@every_pool
def test_pages_are_written_to_a_row_as_alloc_gives_them(make):
    pool, other, row = make(6), make(6), memoryview(array("i", [-1] * 5))
    pool.alloc_to(row[1:4])
    assert row.tolist() == [-1, *other.alloc(3).tolist(), -1]
    assert pool.num_free == 3
    assert not pool.is_free(2)
    pool.check()


@every_pool
def test_a_row_that_is_too_long_or_of_another_kind_gets_nothing(make):
    pool = make(3)
    with pytest.raises(OutOfPages, match="4 pages needed, but only 3 free"):
        pool.alloc_to(memoryview(array("i", [0] * 4)))
    for kind in "qIfb":
        with pytest.raises(ValueError, match="different structures"):
            pool.alloc_to(memoryview(array(kind, [0] * 2)))
    with pytest.raises(TypeError, match="read-only"):
        pool.alloc_to(memoryview(bytes(8)).cast("i"))
    assert pool.num_free == 3
    assert pool.alloc(3).tolist() == [0, 1, 2]
    pool.check()


@every_pool
def test_a_row_may_have_gaps(make):
    pool, row = make(6), memoryview(array("i", [-1] * 4))
    pool.alloc_to(row[::2])
    assert row.tolist() == [0, -1, 1, -1]
    assert (pool.num_free, pool.is_free(1), pool.is_free(2)) == (4, False, True)
    pool.check()


@every_pool
def test_pages_come_back_as_a_memoryview_too(make):
    pool, row = make(6), memoryview(array("i", [0] * 4))
    pool.alloc_to(row)
    pool.free(row[::2])
    assert pool.num_free == 4
    assert pool.is_free(2)
    assert not pool.is_free(1)
    pool.check()


def test_a_stack_looks_at_a_memoryview_page_by_page():
    pool = FreeListPool(4)
    pool.alloc(2)
    for wrong in ([0, 0], [0, 3], [1, 9], [-1]):
        with pytest.raises(ValueError, match="page"):
            pool.free(memoryview(array("i", wrong)))
    assert pool.num_free == 2
    pool.check()
