"""Pages on their way from one store into another, layer by layer: out to host memory and back.

A model computes layer after layer, and a layer's attention needs only the keys and values of that layer. So the model
can begin before the load has finished: the layers are copied in order, and the model waits for each layer when it reads
it. Then both together take as long as the slower of the two, plus one layer:

    cross      | layer 0 | layer 1 | layer 2 | layer 3 |
    compute              | layer 0   | layer 1   | layer 2   | layer 3   |

On a GPU, the copies have their own stream. The rows of a layer are gathered or scattered on the device, in the order
of everything else that runs there. Between the device and host memory, neighboring slots are copied together. Without a
GPU, nothing can overlap, and a layer is copied when it is first read. The order is the same.

A load may read host memory until the GPU gets there, also when it is `done`. A move out waits for that by itself; a
program that writes there in another way calls `torch.cuda.synchronize` first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from minikv.store.layout import KeysAndValues
from minikv.store.moves import runs
from minikv.store.slots import Slots


class End(NamedTuple):
    """One end of a crossing: its `slots`, the views of its layers, and a GPU's stream for copies."""

    slots: Slots
    layers: list[KeysAndValues]
    stream: Any


class Crossing:
    """A copy of slots of `source` into `target`, layer by layer; `KVStore.take_pages` makes it.

    It may be used by one thread at a time, as the stores.

    >>> from minikv import KVShape, KVStore
    >>> store = KVStore(KVShape(num_layers=3, num_kv_heads=1, head_dim=2), num_pages=4)
    >>> host = store.in_host_memory(num_pages=8)
    >>> crossing = host.take_pages(store, [1], [5], later=True)
    >>> _ = host.read(0, [5]); crossing
    Crossing(slots=1, 2 of 3 layers to come)
    >>> crossing.finish(); crossing.done
    True
    """

    def __init__(self, source: End, target: End):
        self.source = source
        self.target = target
        self.to_come = list(range(len(source.layers)))  # the layers that have not been read yet
        self._events: dict[int, Any] = {}
        self._staged: dict[int, list[Tensor]] = {}
        self._stream = target.stream or source.stream
        if self._stream and len(source.slots) and source.slots.device != target.slots.device:
            self._set_out()

    @property
    def on_a_stream(self) -> bool:
        """Return whether the copy has begun: what arrives is then what the source held at the beginning."""
        return bool(self._events)

    @property
    def done(self) -> bool:
        """Return whether every layer has arrived; does not wait."""
        return not self.to_come

    def arrive(self, layer: int) -> None:
        """Copy `layer` into the target, or wait until it is there; if that fails, the next read tries again."""
        if layer not in self.to_come:
            return
        packed = self._staged.get(layer, [])
        if layer not in self._events:
            packed = [side.index_select(0, self.source.slots.index) for side in self.source.layers[layer]]
        elif self.target.stream is None:
            self._events[layer].synchronize()
        else:
            current = torch.cuda.current_stream(self.target.slots.device)
            current.wait_event(self._events[layer])
            for rows in packed:
                rows.record_stream(current)
        for rows, side in zip(packed, self.target.layers[layer]):
            side.index_copy_(0, self.target.slots.index, rows.to(side.device).view(side.dtype))
        self._staged.pop(layer, None)
        self.to_come = [other for other in self.to_come if other != layer]

    def finish(self) -> None:
        """Copy all layers into the target, or wait until they are there."""
        for layer in self.to_come:
            self.arrive(layer)

    def _set_out(self) -> None:
        """Start to copy all layers on the stream for copies, in the order in which they will be read."""
        out = self.source.stream is not None
        device = (self.source if out else self.target).slots.device
        current = torch.cuda.current_stream(device)
        order = np.arange(len(self.source.slots))
        pieces = runs(order, self.target.slots.numbers) if out else runs(self.source.slots.numbers, order)
        for layer in self.to_come:
            rows: Any = self.source.layers[layer]
            if out:
                rows = [side.index_select(0, self.source.slots.index) for side in rows]
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                if out:
                    _copy_runs(pieces, rows, self.target.layers[layer])
                    for side in rows:
                        side.record_stream(self._stream)
                else:
                    self._staged[layer] = [side.new_empty((len(order), side.shape[1]), device=device) for side in rows]
                    _copy_runs(pieces, rows, self._staged[layer])
                self._events[layer] = torch.cuda.Event()  # type: ignore[no-untyped-call]
                self._events[layer].record(self._stream)

    def __repr__(self) -> str:
        layers = f"{len(self.to_come)} of {len(self.source.layers)} layers to come"
        return f"Crossing(slots={len(self.source.slots)}, {layers})"


def _copy_runs(pieces: list[tuple[int, int, int]], sources: Any, targets: Any) -> None:
    """Copy runs of rows between a device and host memory, without waiting until they have arrived."""
    for first, begin, length in pieces:
        for source, target in zip(sources, targets):
            target[begin : begin + length].copy_(source[first : first + length], non_blocking=True)
