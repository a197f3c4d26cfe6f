"""Errors: what they say is one bounded line, however large the numbers and broken the objects in it."""

import pytest
from refusals import said

from minikv import OutOfPages
from minikv.errors import bounded, brief, one_line, whole_number

TOO_LONG = 10**5000  # Python refuses to print it
BITS = "an integer of 16610 bits"


class Unshown:
    def __repr__(self):
        raise LookupError("no repr")


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((1, 0), "1 page needed, but only 0 free"),
        ((3, 1, 0), "3 pages needed, but only 1 free and 0 evictable"),
        ((TOO_LONG, 1, -TOO_LONG), f"{BITS} pages needed, but only 1 free and {BITS} evictable"),
    ],
    ids=["one", "three", "too many to print"],
)
def test_out_of_pages_says_how_many_of_each(counts, words):
    error = OutOfPages(*counts)
    assert str(error) == words
    assert (error.needed, error.free, error.evictable) == (*counts, None)[:3]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        ("a" * 60, "'" + "a" * 58 + "…"),
        (-TOO_LONG, BITS),
        ([TOO_LONG], "an object of type list that cannot be shown"),
        (Unshown(), "an object of type Unshown that cannot be shown"),
        (type("A" * 1000, (Unshown,), {})(), f"an object of type {'A' * 60} that cannot be shown"),
    ],
    ids=["short", "long", "integer", "list", "no repr", "long name"],
)
def test_any_value_is_shown_in_a_few_characters(value, text):
    assert bounded(value) == text


def test_many_numbers_and_long_lines_are_shown_in_part():
    assert brief(range(8)) == "[0, 1, 2, 3, 4, 5, 6, 7]"
    assert brief(range(9)) == "[0, 1, 2, 3, 4, 5, 6, 7, ... 9 in all]"
    assert [one_line("abcd", most) for most in (4, 3)] == ["abcd", "ab…"]


def test_a_whole_number_is_named_with_its_rule_however_long():
    assert (
        said(whole_number, "size", 1.5, 1, "at least 1")
        == "TypeError: size is 1.5 (float), not a whole number: at least 1"
    )
    for value in (TOO_LONG, -TOO_LONG):
        assert said(whole_number, "size", value, 1, "at least 1").startswith(f"ValueError: size is {BITS}: ")
