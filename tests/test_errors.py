"""Errors: what they say is one bounded line, however large the numbers and broken the objects in it."""

from __future__ import annotations

import pytest

from minikv import BitmaskPool, FreeListPool, OutOfPages, QueuePool
from minikv.errors import bounded, whole_number

pytestmark = pytest.mark.core

TOO_LONG = 10**5000  # Python refuses to print it


class Unshown:
    def __repr__(self):
        raise LookupError("no repr")


def test_out_of_pages_says_how_many_of_each():
    assert str(OutOfPages(1, 0)) == "1 page needed, but only 0 free"
    assert str(OutOfPages(3, 1, 0)) == "3 pages needed, but only 1 free and 0 evictable"


def test_out_of_pages_says_numbers_that_python_does_not_print():
    error = OutOfPages(TOO_LONG, 1, -TOO_LONG)
    bits = "an integer of 16610 bits"
    assert str(error) == f"{bits} pages needed, but only 1 free and {bits} evictable"
    assert (error.needed, error.free, error.evictable) == (TOO_LONG, 1, -TOO_LONG)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        ("a" * 60, "'" + "a" * 58 + "…"),
        (-TOO_LONG, "an integer of 16610 bits"),
        ([TOO_LONG], "an object of type list that cannot be shown"),
        (Unshown(), "an object of type Unshown that cannot be shown"),
        (type("A" * 1000, (Unshown,), {})(), f"an object of type {'A' * 60} that cannot be shown"),
    ],
    ids=["short", "long", "integer", "list", "no repr", "long name"],
)
def test_any_value_is_shown_in_a_few_characters(value, text):
    assert bounded(value) == text


@pytest.mark.parametrize("make", [FreeListPool, BitmaskPool, QueuePool])
def test_a_pool_names_a_number_that_python_does_not_print(make):
    pool = make(4)
    for act, name in (
        (pool.alloc, "num_pages"),
        (pool.is_free, "page"),
        (lambda page: pool.free([page]), r"pages\[0\]"),
    ):
        with pytest.raises(ValueError, match=f"{name} is an integer of 16610 bits: "):
            act(TOO_LONG)
    assert pool.num_free == 4


def test_a_whole_number_is_named_with_its_rule_however_long():
    for value in (TOO_LONG, -TOO_LONG):
        with pytest.raises(ValueError, match=r"^size is an integer of 16610 bits: "):
            whole_number("size", value, 1, "at least 1")
