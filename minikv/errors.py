"""The errors that every layer shares: out of pages, a wrong lock, a broken invariant.

Bad input is an ordinary `TypeError` or `ValueError`. These three are for what goes wrong
with good input; `whole_number` is the one check that every layer makes.
"""

from __future__ import annotations

import operator
from typing import Any


class OutOfPages(RuntimeError):
    """There is not enough room, and nothing was taken.

    `needed`, `free` and `evictable` are counts in the unit of whoever raised it: pages for a pool.

    >>> raise OutOfPages(needed=3, free=1)
    Traceback (most recent call last):
    minikv.errors.OutOfPages: 3 needed, but only 1 free and 0 evictable
    """

    def __init__(self, needed: int, free: int, evictable: int = 0):
        super().__init__(f"{needed} needed, but only {free} free and {evictable} evictable")
        self.needed, self.free, self.evictable = needed, free, evictable


class LockError(RuntimeError):
    """A lock that cannot be taken or given back: not held, evicted, of another cache, or from before a reset.

    >>> from minikv import RadixCache
    >>> cache = RadixCache()
    >>> handle = cache.insert([1, 2], [0, 1]).handle
    >>> cache.unlock(handle)
    Traceback (most recent call last):
    minikv.errors.LockError: cannot unlock the handle of length 2 (node 1): it holds no lock
    """


class InvariantError(AssertionError):
    """A structure's `check()` found two facts that disagree; the message names the place and both numbers.

    It says that there is a bug in the structure, never in the caller's input.

    >>> from minikv import FreeListPool
    >>> pool = FreeListPool(4)
    >>> pool._top = 3
    >>> pool.check()
    Traceback (most recent call last):
    minikv.errors.InvariantError: FreeListPool: page 0 is marked free but the stack does not hold it
    """


def whole_number(name: str, value: Any, at_least: int, rule: str) -> int:
    """`value` as an int of at least `at_least`, or the error that names it and the rule.

    >>> whole_number("page_size", 16, 1, "a page holds at least 1 token")
    16
    >>> whole_number("page_size", 0, 1, "a page holds at least 1 token")
    Traceback (most recent call last):
    ValueError: page_size is 0: a page holds at least 1 token
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}), not a whole number: {rule}")
    number = operator.index(value)
    if number < at_least:
        raise ValueError(f"{name} is {number}: {rule}")
    return number
