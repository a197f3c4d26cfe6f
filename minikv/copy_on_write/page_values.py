"""The contents of a page of keys and values: plain Python values, or the tensors of a `KVStore`.

Both classes have the same five verbs. `take` gives `values[start:stop]` in the form in which they are written, or an
error, so that `write` cannot fail.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence, Set
from typing import Any

from minikv.errors import bounded
from minikv.pools.page_table import page_slots


class PlainValues:
    """Any Python value for each token; they are copied on the way in and on the way out.

    >>> values = PlainValues(num_pages=2, page_size=2)
    >>> taken = values.take(["a", "b", "c"], 1, 3)
    >>> values.write(0, 0, taken, 0, 2); values.copy(0, 1); values.read([1], 2)
    ['b', 'c']
    """

    def __init__(self, num_pages: int, page_size: int):
        self._pages: list[list[Any]] = [[None] * page_size for _ in range(num_pages)]

    def count(self, values: Any) -> int:
        """Return how many there are; `TypeError` for what is not in order, or not several.

        >>> PlainValues(num_pages=2, page_size=2).count({1: "a"})
        Traceback (most recent call last):
        TypeError: values are {1: 'a'}: expected one for each token, in order
        """
        if isinstance(values, (Mapping, Set)) or not hasattr(values, "__len__"):
            raise TypeError(f"values are {bounded(values)}: expected one for each token, in order")
        return len(values)

    def take(self, values: Any, start: int, stop: int) -> list[Any]:
        """Copies of `values[start:stop]`; `TypeError` for what cannot be copied."""
        return copy.deepcopy(list(values[start:stop]))

    def write(self, page: int, at: int, taken: list[Any], start: int, stop: int) -> None:
        """Put `taken[start:stop]` into `page`, from its token number `at` on."""
        self._pages[page][at : at + stop - start] = taken[start:stop]

    def read(self, pages: Sequence[int], length: int) -> list[Any]:
        """Copies of the values of the first `length` tokens of `pages`."""
        return copy.deepcopy([value for page in pages for value in self._pages[page]][:length])

    def copy(self, source: int, target: int) -> None:
        """Copy the whole page `source` over the page `target`."""
        self._pages[target] = list(self._pages[source])  # nobody else has these values, and nobody changes them


class StoreValues:
    """The keys and values of a `KVStore`: for some tokens a pair (keys, values) of each layer, one row per token.

    >>> import torch
    >>> from minikv import KVShape, KVStore
    >>> store = KVStore(KVShape(num_layers=1, num_kv_heads=1, head_dim=2), num_pages=2, page_size=2, dtype="fp32")
    >>> values, ones = StoreValues(store), torch.ones(3, 1, 2)
    >>> values.write(0, 0, values.take([(ones, 2 * ones)], 1, 3), 0, 2); values.copy(0, 1)
    >>> [(keys, found)] = values.read([1], 2); found[:, 0, 0].tolist()
    [2.0, 2.0]
    """

    def __init__(self, store: Any):
        self.store = store

    def count(self, values: Any) -> int:
        """The rows of each of the tensors, which must be as many; `ValueError` if they are not, or layers are missing.

        >>> from types import SimpleNamespace as Fake
        >>> StoreValues(Fake(shape=Fake(num_layers=2))).count([([1], [2])])
        Traceback (most recent call last):
        ValueError: values are for 1 layers: the store has 2
        """
        layers = self.store.shape.num_layers
        if len(values) != layers:
            raise ValueError(f"values are for {len(values)} layers: the store has {layers}")
        counts = {len(part) for pair in values for part in pair}
        if len(counts) != 1:
            raise ValueError(f"values have {sorted(counts)} rows: expected the same number of each")
        return counts.pop()

    def take(self, values: Any, start: int, stop: int) -> list[Any]:
        """Rows [start, stop) of every layer; `ValueError` for what the store could not take.

        >>> import torch
        >>> from minikv import KVShape, KVStore
        >>> values = StoreValues(KVStore(KVShape(1, num_kv_heads=1, head_dim=2), num_pages=2, dtype="fp32"))
        >>> values.take([(torch.ones(3, 1, 2), torch.ones(3, 1, 4))], 0, 3)
        Traceback (most recent call last):
        ValueError: values of layer 0 are rows of torch.float32 (1, 4) on cpu: expected torch.float32 (1, 2) on cpu
        """
        expected = self.store.read(0, [])
        for layer, pair in enumerate(values):
            if len(pair) != 2:
                raise ValueError(f"values of layer {layer} have {len(pair)} parts: expected keys and values")
            for name, part, like in zip(("keys", "values"), pair, expected):
                what = f"{name} of layer {layer} are"
                if not isinstance(part, type(like)):
                    raise ValueError(f"{what} a {type(part).__name__}: expected a tensor")
                given, wanted = (f"{side.dtype} {tuple(side.shape[1:])} on {side.device}" for side in (part, like))
                if given != wanted:
                    raise ValueError(f"{what} rows of {given}: expected {wanted}")
        return [[part[start:stop] for part in pair] for pair in values]

    def write(self, page: int, at: int, taken: list[Any], start: int, stop: int) -> None:
        """Put rows [start, stop) of every layer into `page`, from its token number `at` on."""
        first = page * self.store.page_size + at
        slots = self.store.slots(range(first, first + stop - start))
        for layer, (keys, values) in enumerate(taken):
            self.store.write(layer, slots, keys[start:stop], values[start:stop])

    def read(self, pages: Sequence[int], length: int) -> list[Any]:
        """A pair (keys, values) of each layer, of the first `length` tokens of `pages`, as copies."""
        slots = self.store.slots(page_slots(pages, self.store.page_size)[:length])
        return [self.store.read(layer, slots) for layer in range(self.store.shape.num_layers)]

    def copy(self, source: int, target: int) -> None:
        """Copy the whole page `source` over the page `target`, in all layers."""
        self.store.copy_pages([source], [target])
