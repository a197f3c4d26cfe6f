"""Copies inside one allocation: as few and as long runs of bytes as the slots allow.

A plane is a view (outer, slot, items) whose last two dimensions are contiguous: `length` neighbouring slots of it are
`outer` runs of bytes. All copies here give what they would give if everything were read before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from minikv.store.slots import Ids, Slots

LONG_RUN = 4096  # bytes; from here on a run is copied by itself, below it all rows of a plane are gathered at once


def move(planes: Sequence[torch.Tensor], src: Slots, dst: Slots) -> None:
    """Copy the rows `src` of every plane to its rows `dst`, by whatever way is fastest on the planes' device.

    The checks are the caller's: as many of both, and no row twice in `dst`.

    >>> plane = torch.arange(5).view(1, 5, 1)
    >>> move([plane], Slots([0, 1, 2], limit=5), Slots([1, 2, 3], limit=5)); plane.flatten()
    tensor([0, 0, 1, 2, 4])
    """
    if not len(src):
        return
    if planes[0].device.type == "cpu":
        for plane in planes:
            move_on_cpu(plane, src.ids, dst.ids)
    elif planes[0].device.type == "cuda" and has_triton() and disjoint(src.ids, dst.ids):
        from minikv.store.triton_copy import move_rows

        for plane in planes:
            move_rows(plane, src.index, dst.index)
    else:
        for plane in planes:
            move_by_index(plane, src.index, dst.index)


def move_by_index(plane: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> None:
    """The same on any device by indexing alone: gather all, then scatter all; every other way is tested against it.

    >>> plane = torch.arange(5).view(1, 5, 1)
    >>> move_by_index(plane, torch.tensor([0, 4]), torch.tensor([4, 0])); plane.flatten()
    tensor([4, 1, 2, 3, 0])
    """
    plane.index_copy_(1, dst, plane.index_select(1, src))


def move_on_cpu(plane: torch.Tensor, src: Ids, dst: Ids) -> None:
    """The same in host memory: run by run where runs are long and nothing overlaps, else by one gather a row of slots.

    >>> plane = torch.arange(5).view(1, 5, 1)
    >>> move_on_cpu(plane, np.array([3, 4]), np.array([0, 1])); plane.flatten()
    tensor([3, 4, 2, 3, 4])
    """
    rows = plane.view(torch.uint8).numpy()  # the same memory: (outer, slot, bytes)
    outer, count, width = rows.shape
    firsts, lengths = runs(src, dst)
    if len(firsts) == 1 or (len(src) * width >= len(firsts) * LONG_RUN and disjoint(src, dst)):
        flat = np.lib.stride_tricks.as_strided(rows, (outer, count * width), (rows.strides[0], 1))
        pieces = zip((src[firsts] * width).tolist(), (dst[firsts] * width).tolist(), (lengths * width).tolist())
        for source, target, size in pieces:  # numpy looks whether the two overlap
            flat[:, target : target + size] = flat[:, source : source + size]
    else:
        for line in rows.view(f"V{width}")[..., 0]:  # one item a slot: a copy of an item is a memcpy
            line[dst] = line[src]


def runs(src: Ids, dst: Ids) -> tuple[Ids, Ids]:
    """Where the runs of neighbours in both `src` and `dst` begin in them, and how long they are.

    >>> runs(np.array([4, 5, 6, 1]), np.array([0, 1, 2, 3]))
    (array([0, 3]), array([3, 1]))
    """
    cuts = np.flatnonzero((src[1:] - src[:-1] != 1) | (dst[1:] - dst[:-1] != 1)) + 1
    firsts = np.concatenate(([0], cuts))
    return firsts, np.diff(firsts, append=len(src))


def disjoint(src: Ids, dst: Ids) -> bool:
    """Whether no number is in both; cheap where their ranges already part them.

    >>> disjoint(np.array([1, 5]), np.array([2, 3])), disjoint(np.array([1, 5]), np.array([5, 6]))
    (True, False)
    """
    if src.max() < dst.min() or dst.max() < src.min():
        return True
    return not np.isin(src, dst).any()


def has_triton() -> bool:
    """Whether Triton is installed, which the copy on an NVIDIA GPU prefers; nothing is imported to find out.

    >>> has_triton() in (True, False)
    True
    """
    from importlib.util import find_spec

    return find_spec("triton") is not None
