"""Reading what a cache answers, whatever type it has: numbers, lists of pages, matches and insertions."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from minikv.errors import bounded


class UnreadableError(TypeError):
    """An answer does not have the form that the contract promises; the message says what is there instead."""


def read_number(value: Any, what: str) -> int:
    """A whole number, of any type that is one.

    >>> read_number(True, "length")
    Traceback (most recent call last):
    minikv.testing.conformance.reading.UnreadableError: length is True: expected a whole number
    """
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise UnreadableError(f"{what} is {bounded(value)}: expected a whole number")


def read_pages(values: Any, what: str) -> list[int]:
    """Pages as a list of whole numbers: from a list, a tuple, an array, a tensor.

    >>> import numpy as np
    >>> read_pages(np.array([3, 4]), "pages"), read_pages((), "pages")
    ([3, 4], [])
    """
    listed = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(listed, Iterable) or isinstance(listed, (str, bytes, dict)):
        raise UnreadableError(f"{what} is {bounded(values)}: expected a sequence of pages")
    return [read_number(value, f"{what}[{i}]") for i, value in enumerate(listed)]


def read_match(result: Any) -> dict[str, Any]:
    """The `length` and the `pages` of a match.

    >>> from minikv import RadixCache
    >>> read_match(RadixCache().match_prefix([1]))
    {'length': 0, 'pages': []}
    """
    _require(result, "length", "pages")
    return {"length": read_number(result.length, "length"), "pages": read_pages(result.pages, "pages")}


def read_insertion(result: Any) -> dict[str, Any]:
    """The `prefix_length` and the `length` of an insertion.

    >>> from minikv import RadixCache
    >>> read_insertion(RadixCache().insert([1], [7]))
    {'prefix_length': 0, 'length': 1}
    """
    _require(result, "prefix_length", "length")
    return {name: read_number(getattr(result, name), name) for name in ("prefix_length", "length")}


def _require(result: Any, *names: str) -> None:
    for name in names:
        if not hasattr(result, name):
            raise UnreadableError(f"the result is {bounded(result)}: expected an object with {' and '.join(names)}")


READERS = {
    "match_prefix": read_match,
    "acquire": read_match,
    "insert": read_insertion,
    "evict": lambda result: read_pages(result, "the result"),
}


def handle_of(result: Any) -> Any:
    """What `lock` takes for a match or an insertion: its `handle`, or the thing itself where it has none.

    >>> handle_of(7)
    7
    """
    return getattr(result, "handle", result)
