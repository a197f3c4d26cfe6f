"""Slots that have been checked once, so that no layer of a model has to check them again, and where they are used."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from minikv.errors import bounded, brief, whole_number
from minikv.tokens import integers

SlotNumbers = npt.NDArray[np.int64]


class Slots:
    """Numbers in [0, limit), checked, with a copy of them on the device that will use them.

    Made by `KVStore.slots`. `numbers` is a numpy int64 array that cannot be written to, `index` the same as a tensor
    on the store's `device`. A slice of checked slots is checked. They may be used by one thread at a time, since they
    keep what was looked up once.

    >>> slots = Slots([4, 2, 7], limit=8)
    >>> slots[:2], slots.distinct, slots.index
    (Slots([4, 2]), True, tensor([4, 2, 7]))
    >>> Slots([4, 8], limit=8)
    Traceback (most recent call last):
    ValueError: slots[1] is 8: this store has slots 0 to 7
    """

    def __init__(self, slots: Any, limit: int, device: torch.device | str = "cpu", name: str = "slots"):
        self.limit = whole_number("limit", limit, 1, "a store has at least 1 slot")
        self.device = device if isinstance(device, torch.device) else device_of(device)
        self.numbers: SlotNumbers = _checked(slots.numbers if isinstance(slots, Slots) else slots, self.limit, name)
        self.numbers.flags.writeable = False

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, part: slice) -> Slots:
        """The same slots from `part.start` to `part.stop`, without another check."""
        if not isinstance(part, slice) or part.step not in (None, 1):
            raise TypeError(f"slots can be sliced without a step, not indexed with {bounded(part)}")
        found = object.__new__(Slots)
        found.numbers, found.limit, found.device = self.numbers[part], self.limit, self.device
        known = vars(self)
        if "index" in known:
            found.index = self.index[part]
        if known.get("distinct"):
            found.distinct = True
        return found

    @cached_property
    def index(self) -> Tensor:
        """The numbers as a tensor on the device; put there when first asked for."""
        return torch.from_numpy(self.numbers.copy()).to(self.device)

    @cached_property
    def distinct(self) -> bool:
        """Return whether no number is there twice; looked up once."""
        return len(set(self.numbers.tolist())) == len(self.numbers)

    @cached_property
    def run(self) -> slice | None:
        """The slots as a slice, where each is the neighbour of the one before; looked up once.

        >>> Slots([5, 6, 7], limit=8).run, Slots([5, 7], limit=8).run
        (slice(5, 8, None), None)
        """
        numbers = self.numbers
        if not len(numbers) or (numbers[1:] - numbers[:-1] != 1).any():
            return None
        return slice(int(numbers[0]), int(numbers[-1]) + 1)

    def once(self, name: str = "slots") -> Slots:
        """These slots, or the `ValueError` that names the first number that is there twice.

        >>> Slots([4, 2, 4], limit=8).once()
        Traceback (most recent call last):
        ValueError: slots[2] is 4: it appears twice, so one of the two would be lost
        """
        if not self.distinct:
            order = np.argsort(self.numbers, kind="stable")  # equal numbers stay in the order in which they were given
            at = order[1:][np.diff(self.numbers[order]) == 0].min()
            raise ValueError(f"{name}[{at}] is {self.numbers[at]}: it appears twice, so one of the two would be lost")
        return self

    def __repr__(self) -> str:
        return f"Slots({brief(self.numbers)})"


def device_of(device: Any) -> torch.device:
    """A device that torch can keep bytes on, here and now, with its number ("cuda" became "cuda:0"); or `ValueError`.

    >>> device_of("cpu")
    device(type='cpu')
    >>> device_of("meta")
    Traceback (most recent call last):
    ValueError: device is 'meta': expected one that keeps bytes
    """
    try:
        found = torch.empty(0, device=torch.device(device)).device
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:  # each build of torch says it in its own way
        raise ValueError(f"device is {bounded(device)}: torch has no such device here") from error
    if found.type == "meta":
        raise ValueError(f"device is {bounded(device)}: expected one that keeps bytes")
    return found


def _checked(numbers: Any, limit: int, name: str) -> SlotNumbers:
    """A copy of `numbers`, all in [0, limit), or the error that names the first that is not."""
    if type(numbers) is np.ndarray and numbers.ndim == 1 and numbers.dtype.kind == "i":
        found = numbers.astype(np.int64)
        if not len(found) or int(found.view(np.uint64).max()) < limit:  # a negative number is a huge one there
            return found
    unit = name.rpartition("_")[2]  # src_pages are pages
    return integers(numbers, name, f"this store has {unit} 0 to {limit - 1}", limit).astype(np.int64)
