"""Which rows of slots begin alike: prefixes that one reading of keys and values can serve for several requests.

    row 0    10 11 12 13 | 40 41 | 70          Shared((0, 1, 2), 0, 4)    read once for all three
    row 1    10 11 12 13 | 40 41 | 80          Shared((0, 1), 4, 6)       read once for these two
    row 2    10 11 12 13 | 90                  what is left of each row is its own

Requests that share a prefix read it from the same slots of the tree, so it is enough to compare the rows themselves.
After the cascade attention of FlashInfer and vLLM.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

WORTH = 256  # a part of its own costs about as much as reading this many slots


class Shared(NamedTuple):
    """Places [start, stop) of the rows numbered `members`: the same slots in all of them."""

    members: tuple[int, ...]
    start: int
    stop: int


def shared_prefixes(rows: Sequence[Any], worth: int = WORTH) -> list[Shared]:
    """The prefixes that `rows`, int32 arrays of slots, share with each other, each run of slots once.

    The parts that a row is a member of lie one behind the other, from 0 on. A part that would save fewer than `worth`
    slots from being read is left out, and belongs to the rows that it would have served.

    >>> import numpy as np
    >>> rows = [np.array(row, np.int32) for row in ([1, 2, 3, 4, 5], [1, 2, 3, 4, 6], [1, 2, 9], [7])]
    >>> shared_prefixes(rows, worth=1)
    [Shared(members=(0, 1, 2), start=0, stop=2), Shared(members=(0, 1), start=2, stop=4)]
    """
    keys = [row.tobytes() for row in rows]
    order = sorted(range(len(rows)), key=keys.__getitem__)  # rows that begin alike are neighbours now
    common = [0, *(_common(rows[a], rows[b]) for a, b in pairwise(order))]
    found, groups = [], [(0, len(order), 0)]  # neighbours [first, last), and where their next part begins
    while groups:
        first, last, start = groups.pop()
        if last - first < 2:
            continue
        stop = min(common[first + 1 : last])
        if (last - first - 1) * (stop - start) >= worth:
            found.append(Shared(tuple(sorted(order[first:last])), start, stop))
            start = stop
        cuts = [first, *(at for at in range(first + 1, last) if common[at] == stop), last]
        groups += [(a, b, start) for a, b in pairwise(cuts)]
    return found


def _common(a: Any, b: Any) -> int:
    """How many leading numbers of two arrays are equal."""
    length = min(len(a), len(b))
    differs = a[:length] != b[:length]
    first = int(differs.argmax()) if length else 0
    return first if length and differs[first] else length
