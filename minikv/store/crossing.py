"""Pages on their way from one store into another, layer by layer: out to host memory and back.

A model computes layer after layer, and a layer's attention needs the keys and values of that layer alone. So a load
need not be over before the computing begins: the layers cross in order, and each is waited for when it is looked at.
Then both together take as long as the longer of them, and one layer:

    cross      | layer 0 | layer 1 | layer 2 | layer 3 |
    compute              | layer 0   | layer 1   | layer 2   | layer 3   |

On a GPU the crossing is on a stream of its own. The rows of a layer are gathered or scattered on the device, in the
order of everything else that runs there; between the device and host memory go runs of neighbouring slots. In host
memory alone there is nothing to overlap, and a layer is copied when it is first looked at: the order is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from minikv.errors import bounded
from minikv.pools.page_table import page_slots
from minikv.store.moves import runs
from minikv.store.slots import Slots

if TYPE_CHECKING:
    from minikv.store.kv_store import KVStore


class Crossing:
    """Some slots of `source` that cross into `target`, until every layer has arrived; made by `KVStore.take_pages`.

    It may be used by one thread at a time, as the stores.

    >>> from minikv import KVShape, KVStore
    >>> store = KVStore(KVShape(num_layers=3, num_kv_heads=1, head_dim=2), num_pages=4)
    >>> crossing = store.in_host_memory(num_pages=8).take_pages(store, [1], [5], later=True)
    >>> _ = crossing.target.read(0, [5]); crossing
    Crossing(1 slots, 2 of 3 layers to come)
    >>> crossing.finish(); crossing.done
    True
    """

    def __init__(self, source: KVStore, src: Slots, target: KVStore, dst: Slots):
        self.source, self.target, self.src, self.dst = source, target, src, dst
        self._to_come = dict.fromkeys(range(source.shape.num_layers))
        self._events: dict[int, Any] = {}
        self._staged: dict[int, list[Tensor]] = {}
        self._stream = target._side or source._side
        if self._stream is not None and source.device != target.device:
            self._set_out()

    @property
    def on_a_stream(self) -> bool:
        """Return whether it is on its way already: then what the source held at the start is what arrives."""
        return bool(self._events)

    @property
    def to_come(self) -> list[int]:
        """The layers that nobody has looked at yet."""
        return list(self._to_come)

    @property
    def done(self) -> bool:
        """Return whether every layer has been looked at, or finished; does not wait."""
        return not self._to_come

    def arrive(self, layer: int) -> None:
        """Have `layer` in the target, for whoever looks at it next."""
        if layer not in self._to_come:
            return
        sides = zip(self.source._layers[layer], self.target._layers[layer])
        if layer not in self._events:
            for theirs, mine in zip(self.source._layer(layer), self.target._layers[layer]):
                rows = theirs.index_select(0, self.src.index).to(self.target.device)
                mine.index_copy_(0, self.dst.index, rows.view(mine.dtype))
        elif self.target._side is None:
            self._events[layer].synchronize()
        else:
            current = torch.cuda.current_stream(self.target.device)
            current.wait_event(self._events[layer])
            for rows, (_, mine) in zip(self._staged.pop(layer), sides):
                rows.record_stream(current)
                mine.index_copy_(0, self.dst.index, rows)
        del self._to_come[layer]

    def finish(self) -> None:
        """Have all layers in the target."""
        for layer in list(self._to_come):
            self.arrive(layer)

    def _set_out(self) -> None:
        """Start all layers on the device's own stream for it, in the order in which they will be looked at."""
        device = self.target.device if self.target._side is not None else self.source.device
        current = torch.cuda.current_stream(device)
        for layer in self._to_come:
            out = self.source._side is not None
            mine = self.target._layers[layer]
            packed = [side.index_select(0, self.src.index) for side in self.source._layer(layer)] if out else []
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                if out:
                    self._to_runs(packed, mine)
                else:
                    self._staged[layer] = self._from_runs(self.source._layers[layer])
                self._events[layer] = torch.cuda.Event()  # type: ignore[no-untyped-call]
                self._events[layer].record(self._stream)
            for rows in packed:
                rows.record_stream(self._stream)

    def _to_runs(self, packed: list[Tensor], sides: Any) -> None:
        """Copy packed rows on the device to runs of slots in host memory."""
        for at, begin, length in runs(torch.arange(len(self.dst)).numpy(), self.dst.numbers):
            for rows, side in zip(packed, sides):
                side[begin : begin + length].copy_(rows[at : at + length], non_blocking=True)

    def _from_runs(self, sides: Any) -> list[Tensor]:
        """Copy runs of slots in host memory to packed rows on the device."""
        packed = [side.new_empty((len(self.src), side.shape[1]), device=self.target.device) for side in sides]
        for at, begin, length in runs(torch.arange(len(self.src)).numpy(), self.src.numbers):
            for rows, side in zip(packed, sides):
                rows[at : at + length].copy_(side[begin : begin + length], non_blocking=True)
        return packed

    def __repr__(self) -> str:
        layers = f"{len(self._to_come)} of {self.source.shape.num_layers} layers to come"
        return f"Crossing({len(self.src)} slots, {layers})"


def cross(source: KVStore, src_pages: Any, target: KVStore, dst_pages: Any, later: bool = False) -> Crossing:
    """Do what `KVStore.take_pages` says.

    >>> cross(None, [], None, [])
    Traceback (most recent call last):
    TypeError: source is None: expected a KVStore
    """
    for name, store in (("source", source), ("target", target)):
        if not hasattr(store, "_crossings"):
            raise TypeError(f"{name} is {bounded(store)}: expected a KVStore")
    for name in ("shape", "page_size", "dtype"):
        theirs, mine = getattr(source, name), getattr(target, name)
        if theirs != mine:
            raise ValueError(f"the target has {name} {bounded(mine)}: the source has {bounded(theirs)}")
    src, dst = _slots_of(source, src_pages, "src_pages"), _slots_of(target, dst_pages, "dst_pages").once("dst_pages")
    if len(src) != len(dst):
        raise ValueError(f"src_pages have {len(src)} slots and dst_pages have {len(dst)}: expected as many")
    crossing = Crossing(source, src, target, dst)
    if not later and not crossing.on_a_stream:
        crossing.finish()
    else:
        target._crossings.append(crossing)
    return crossing


def _slots_of(store: KVStore, pages: Any, name: str) -> Slots:
    numbers = Slots(pages, store.num_pages, store.device, name).numbers
    return store.slots(page_slots(numbers, store.page_size) if store.page_size > 1 else numbers)
