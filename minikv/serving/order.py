"""In which order waiting requests are admitted: one small class for each answer.

An order only says which requests to prefer. The scheduler sees to it that none is overtaken forever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from minikv.errors import bounded, whole_number
from minikv.serving.request import Request

CachedLength = Callable[[Request], int]


class Order(Protocol):
    """Puts waiting requests in the order in which they should be admitted."""

    def arrange(self, waiting: Sequence[Request], cached: CachedLength) -> list[Request]:
        """`waiting`, which is in order of arrival, the preferred ones first; `cached` says how much is cached."""


class FirstComeFirstServed:
    """The request that came first goes first.

    >>> a, b = Request([1], 1), Request([1, 2], 1)
    >>> FirstComeFirstServed().arrange([a, b], lambda request: request.prompt_tokens) == [a, b]
    True
    """

    def arrange(self, waiting: Sequence[Request], cached: CachedLength) -> list[Request]:
        """As they came."""
        return list(waiting)

    def __repr__(self) -> str:
        return "FirstComeFirstServed()"


class LongestPrefixFirst:
    """The longest cached prefix goes first, before it is evicted; ties go to the earlier request.

    Only the first `window` of the waiting are looked at, since each look is a walk down the tree. After SGLang's
    longest-prefix-match order, which falls back to first come, first served in a long queue.

    >>> a, b = Request([1], 1), Request([1, 2], 1)
    >>> LongestPrefixFirst().arrange([a, b], lambda request: request.prompt_tokens) == [b, a]
    True
    """

    def __init__(self, window: int = 128):
        self.window = whole_number("window", window, 1, "at least 1 of the waiting is looked at")

    def arrange(self, waiting: Sequence[Request], cached: CachedLength) -> list[Request]:
        """By the length of their cached prefix, the longest first."""
        waiting = list(waiting)
        near = sorted(waiting[: self.window], key=lambda request: -cached(request))
        return [*near, *waiting[self.window :]]

    def __repr__(self) -> str:
        return f"LongestPrefixFirst(window={self.window})"


def require_order(order: Order) -> Order:
    """`order` itself; `TypeError` if it cannot arrange requests.

    >>> require_order(5)
    Traceback (most recent call last):
    TypeError: order is 5: expected an Order
    """
    if isinstance(order, type) or not callable(getattr(order, "arrange", None)):
        raise TypeError(f"order is {bounded(order)}: expected an Order")
    return order
