"""The pool of a replay: it does what a `FreeListPool` does, and takes memory only for pages that were used."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import FreeListPool, InvariantError, OutOfPages
from minikv.traffic.growing_pool import GrowingPool


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=30))
def test_it_gives_and_takes_the_same_pages_as_a_free_list(acts):
    growing, plain, held = GrowingPool(8), FreeListPool(8), []
    for take, count in acts:
        if take and count <= plain.num_free:
            pages = plain.alloc(count).tolist()
            assert growing.alloc(count).tolist() == pages
            held += pages
        elif not take:
            back, held = held[:count], held[count:]
            plain.free(back)
            growing.free(back)
        assert growing.num_free == plain.num_free
        assert [growing.is_free(page) for page in range(8)] == [plain.is_free(page) for page in range(8)]
        growing.check()


def test_a_pool_without_an_end_makes_only_what_is_used():
    pool = GrowingPool(2**31)
    assert pool.alloc(3).tolist() == [0, 1, 2]
    assert pool.is_free(2**31 - 1)
    assert repr(pool) == "GrowingPool(2147483645 of 2147483648 free)"


@pytest.mark.parametrize(
    ("pages", "says"),
    [
        ([2], "cannot free pages\\[0\\]: page 2 is free already"),
        ([1, 1], "cannot free pages\\[1\\]: page 1 is given twice"),
        ([0, 9], "pages\\[1\\] is 9: this pool has pages 0 to 3"),
    ],
)
def test_what_cannot_be_freed_is_refused_and_nothing_changes(pages, says):
    pool = GrowingPool(4)
    pool.alloc(2)
    with pytest.raises(ValueError, match=says):
        pool.free(pages)
    assert pool.num_free == 2
    pool.check()


def test_more_than_there_is_is_refused():
    pool = GrowingPool(4)
    pool.alloc(3)
    with pytest.raises(OutOfPages):
        pool.alloc(2)
    assert pool.num_free == 1


def test_check_finds_a_page_that_is_returned_twice():
    pool = GrowingPool(4)
    pool.free(pool.alloc(2))
    pool._returned.append(1)
    with pytest.raises(InvariantError, match="3 pages are on the stack, 2 are marked free"):
        pool.check()
