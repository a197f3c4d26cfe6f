"""Which sizes a curve is drawn at, and where its knee is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

STEPS = 2  # points for each doubling
_LESS, _SPREAD = 8, 256  # the curve begins at an eighth of the given size, or further below the largest
_BETWEEN = 16  # sizes tried between two points, to place the knee

KNEE = "from the knee on, more memory gains less than the average of the whole curve"


def curve_sizes(size: float, largest: int) -> list[int]:
    """Sizes in blocks: `size` halved and doubled, with a step between, until the curve ends at `largest`.

    >>> curve_sizes(100.0, 300)
    [1, 2, 3, 4, 6, 8, 12, 17, 25, 35, 50, 70, 100, 141, 200, 282, 300]
    >>> curve_sizes(100.0, 10)
    [1, 2, 3, 4, 6, 8, 10, 100]
    """
    lowest = max(1.0, min(size / _LESS, largest / _SPREAD))
    first = math.ceil(STEPS * math.log2(lowest / size) - 1e-9)
    last = max(0, math.floor(STEPS * math.log2(largest / size)))
    found = {max(1, math.floor(size * 2 ** (step / STEPS) + 1e-9)) for step in range(first, last + 1)}
    return sorted({blocks for blocks in found if blocks < largest} | {largest, max(1, math.floor(size))})


def knee(sizes: Sequence[int], hits: Sequence[int], hits_at: Callable[[int], int]) -> int:
    """The size at which the curve is highest above the straight line from nothing to its last point.

    There, the next block of memory gains as much as the average block of the whole curve: before it more, after it
    less. (Kneedle, Satopää et al., 2011, on linear axes.) `hits_at` finds the hits at sizes between the given ones.

    >>> knee([100, 180, 300, 400], [40, 72, 80, 80], lambda size: min(80, 4 * size // 10))
    200
    """
    if not hits or not hits[-1]:
        return sizes[-1]
    slope = hits[-1] / sizes[-1]
    best = max(range(len(sizes)), key=lambda at: hits[at] - slope * sizes[at])
    low, high = sizes[max(0, best - 1)], sizes[min(len(sizes) - 1, best + 1)]
    near = {low + (high - low) * step // _BETWEEN for step in range(1, _BETWEEN)} - set(sizes)
    tried = {size: hits_at(size) for size in sorted(near)} | {sizes[best]: hits[best]}
    return max(sorted(tried), key=lambda size: tried[size] - slope * size)
