"""Copies inside one allocation: as few and as long runs of bytes as the slots allow.

All copies here give what they would give if everything were read before anything is written. Around a copy of a few
hundred kilobytes nothing is in the processor's caches any more but that copy, so that every numpy call which prepares
it costs several times what it costs alone: they are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from operator import sub

import numpy as np
import torch
from torch import Tensor

from minikv.store.slots import SlotNumbers, Slots

LONG_RUN = 4096  # bytes; from here on a run is copied by itself, below it all rows of a line are gathered at once
MANY = 512  # slots; from here on numpy is faster than Python at finding out whether two sets meet
WIDEST = 2**31 - 1  # bytes; numpy has no item wider than that
_NEXT = (1 << 32) + 1  # from (a, b) to (a + 1, b + 1), both packed into one number


class CopyView:
    """Rows to copy by: a tensor (line, slot, items) whose slots and items are contiguous, and its bytes as numpy.

    `lines` is that tensor, `width` the bytes of a row. In host memory, `memory` has the same bytes as (line, slot,
    byte), and `rows` as (line, slot), where an item is a whole row: numpy copies an item of up to `WIDEST` bytes with
    one memcpy. If rows are wider, as when one page is most of a store, `rows` is `None`.

    >>> view = CopyView(torch.zeros(2, 5, 3, dtype=torch.int16))
    >>> view.width, view.memory.shape, view.rows.shape
    (6, (2, 5, 6), (2, 5))
    """

    def __init__(self, lines: Tensor):
        self.lines = lines
        self.width = lines.shape[2] * lines.itemsize
        if lines.device.type == "cpu":
            self.memory = lines.view(torch.uint8).numpy()
            self.rows = self.memory.view(f"V{self.width}")[..., 0] if self.width <= WIDEST else None


def move(views: Sequence[CopyView], src: Slots, dst: Slots) -> None:
    """Copy the rows `src` of every view to its rows `dst`, in the way that is fastest on their device.

    The caller has checked that there are as many of both, and no row twice in `dst`.

    >>> view = CopyView(torch.arange(5).view(1, 5, 1))
    >>> move([view], Slots([0, 1, 2], limit=5), Slots([1, 2, 3], limit=5)); view.lines.flatten()
    tensor([0, 0, 1, 2, 4])
    """
    if not len(src):
        return
    device = views[0].lines.device.type
    if device == "cpu":
        move_on_cpu(views, src.numbers, dst.numbers)
    elif device == "cuda" and find_spec("triton") and disjoint(src.numbers, dst.numbers):
        from minikv.store.triton_copy import move_rows

        with torch.cuda.device(views[0].lines.device):  # a kernel starts on the current one, wherever its memory is
            for view in views:
                move_rows(view.lines, src.index, dst.index)
    else:
        for view in views:
            move_by_index(view.lines, src.index, dst.index)


def move_by_index(lines: Tensor, src: Tensor, dst: Tensor) -> None:
    """The same on any device by indexing alone: gather all, then scatter all; every other way is tested against it.

    >>> lines = torch.arange(5).view(1, 5, 1)
    >>> move_by_index(lines, torch.tensor([0, 4]), torch.tensor([4, 0])); lines.flatten()
    tensor([4, 1, 2, 3, 0])
    """
    lines.index_copy_(1, dst, lines.index_select(1, src))


def move_on_cpu(views: Sequence[CopyView], src: SlotNumbers, dst: SlotNumbers) -> None:
    """The same in host memory: run by run where runs are long and nothing overlaps, else line by line by indexing.

    >>> view = CopyView(torch.arange(5).view(1, 5, 1))
    >>> move_on_cpu([view], np.array([3, 4]), np.array([0, 1])); view.lines.flatten()
    tensor([3, 4, 2, 3, 4])
    """
    pieces = runs(src, dst)
    apart = len(pieces) == 1 or disjoint(src, dst)  # numpy itself checks whether a single run overlaps
    for view in views:
        if apart and len(src) * view.width >= len(pieces) * LONG_RUN:
            for source, target, length in pieces:
                view.memory[:, target : target + length] = view.memory[:, source : source + length]
        elif view.rows is None:
            move_by_index(view.lines, torch.from_numpy(src), torch.from_numpy(dst))
        else:
            for line in view.rows:
                line[dst] = line[src]


def runs(src: SlotNumbers, dst: SlotNumbers) -> list[tuple[int, int, int]]:
    """The runs of neighbours in both `src` and `dst`, in order: where each begins in both, and its length.

    >>> runs(np.array([4, 5, 6, 1]), np.array([0, 1, 2, 3]))
    [(4, 0, 3), (1, 3, 1)]
    """
    both = (src << 32) | dst
    breaks = (both[1:] - both[:-1] != _NEXT).nonzero()[0] + 1
    firsts = [0, *breaks.tolist()]
    ends = [*firsts[1:], len(src)]
    return list(zip(src.take(firsts).tolist(), dst.take(firsts).tolist(), map(sub, ends, firsts)))


def disjoint(src: SlotNumbers, dst: SlotNumbers) -> bool:
    """Return whether no number is in both.

    >>> disjoint(np.array([1, 5]), np.array([2, 3])), disjoint(np.array([1, 5]), np.array([5, 6]))
    (True, False)
    """
    if len(src) < MANY:
        return set(src.tolist()).isdisjoint(dst.tolist())
    read = np.zeros(max(int(src.max()), int(dst.max())) + 1, np.bool_)
    read[src] = True
    return not read[dst].any()
