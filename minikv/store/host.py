"""Slots in host memory: out of the store, and back into any store of the same shape.

On a GPU a copy takes two steps, so that the slow one does not hold up the rest. The slots are first gathered on the
device, in the order of everything else that runs there; then the packed result crosses to pinned memory on a stream of
its own. The way back is the same in reverse, and what is asked for later on the device waits until it has crossed. In
host memory a row is one token: layer 0 K V, layer 1 K V, ...
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from minikv.errors import whole_number
from minikv.sizing import KVShape
from minikv.store.layout import KeysAndValues, Layout
from minikv.store.slots import Slots


class HostCopy:
    """The keys and values of some slots, in all layers, in host memory; made by `KVStore.to_host`.

    `nbytes` is what was moved. Until `ready()` the bytes may still be on their way; `wait`, `read` and
    `KVStore.from_host` wait for them. A copy may be used by one thread at a time.

    >>> from minikv import KVShape, KVStore
    >>> store = KVStore(KVShape(num_layers=2, num_kv_heads=1, head_dim=2), num_pages=4)
    >>> copy = store.to_host([3, 1]); copy, copy.ready()
    (HostCopy(2 slots, 32 bytes), True)
    >>> store.from_host(copy, [0, 2])
    """

    def __init__(self, rows: Tensor, shape: KVShape, dtype: torch.dtype, arrived: Any = None):
        self.rows, self.dtype, self.num_layers = rows, dtype, shape.num_layers
        self.heads = (shape.num_kv_heads, shape.head_dim), (shape.num_kv_heads, shape.v_head_dim or shape.head_dim)
        self._arrived = arrived  # the event on the GPU after the last byte; None when there is nothing to wait for

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """The bytes of all rows."""
        return self.rows.nbytes

    def ready(self) -> bool:
        """Return whether every byte has arrived; does not wait."""
        return self._arrived is None or bool(self._arrived.query())

    def wait(self) -> HostCopy:
        """Wait until every byte has arrived; returns itself."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self

    def read(self, layer: int) -> KeysAndValues:
        """The keys and values of one layer, (n, num_kv_heads, head size), as views of this copy."""
        at = layer_number(layer, self.num_layers, "host copy")
        typed = self.wait().rows[:, at].view(self.dtype)
        (heads, k_dim), (_, v_dim) = self.heads
        k, v = typed[:, : heads * k_dim], typed[:, heads * k_dim :]
        return k.view(len(self), heads, k_dim), v.view(len(self), heads, v_dim)

    def __repr__(self) -> str:
        return f"HostCopy({len(self)} slots, {self.nbytes:,} bytes)"


def layer_number(layer: int, num_layers: int, what: str) -> int:
    """`layer` as an int, or the error that says which layers there are.

    >>> layer_number(2, 2, "store")
    Traceback (most recent call last):
    ValueError: layer is 2: this store has layers 0 to 1
    """
    return whole_number("layer", layer, 0, f"this {what} has layers 0 to {num_layers - 1}", num_layers)


def fetch(views: Layout, slots: Slots, shape: KVShape, dtype: torch.dtype, stream: Any = None) -> HostCopy:
    """Copy `slots` out of a store's views; with a CUDA `stream`, on that stream and into pinned memory."""
    packed = gather(views, slots.index)
    if stream is None:
        return HostCopy(packed.cpu(), shape, dtype)
    rows = torch.empty(packed.shape, dtype=packed.dtype, device="cpu", pin_memory=True)  # whatever the default device
    stream.wait_stream(torch.cuda.current_stream(packed.device))  # not before they have been gathered
    with torch.cuda.stream(stream):
        rows.copy_(packed, non_blocking=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record(stream)
    packed.record_stream(stream)  # its memory is not given to anybody else before the copy has read it
    return HostCopy(rows, shape, dtype, arrived)


def send(views: Layout, slots: Slots, copy: HostCopy, stream: Any = None) -> None:
    """Put a host copy into `slots` of a store's views; with a CUDA `stream`, the crossing is on that stream."""
    rows = copy.wait().rows.view(views.k.dtype)  # the bytes may have been arriving; items depend on the device
    if stream is None:
        scatter(views, slots.index, rows.to(slots.index.device))
        return
    current = torch.cuda.current_stream(slots.index.device)
    with torch.cuda.stream(stream):
        packed = rows.to(slots.index.device, non_blocking=True)
    current.wait_stream(stream)  # not before they have crossed
    packed.record_stream(current)
    scatter(views, slots.index, packed)


def gather(views: Layout, index: Tensor) -> Tensor:
    """The rows of `index` as one tensor (n, layer, items of K and V) on the views' device."""
    layers, k = views.k.shape[0], views.k.shape[2]
    if views.whole is not None:
        return views.whole.index_select(0, index).view(len(index), layers, k + views.v.shape[2])
    rows = views.k.new_empty(len(index), layers, k + views.v.shape[2])
    rows[..., :k] = views.k.index_select(1, index).transpose(0, 1)
    rows[..., k:] = views.v.index_select(1, index).transpose(0, 1)
    return rows


def scatter(views: Layout, index: Tensor, rows: Tensor) -> None:
    """Put what `gather` gave into the rows of `index`."""
    k = views.k.shape[2]
    if views.whole is not None:
        views.whole.index_copy_(0, index, rows.flatten(1))
    else:
        views.k.index_copy_(1, index, rows[..., :k].transpose(0, 1))
        views.v.index_copy_(1, index, rows[..., k:].transpose(0, 1))
