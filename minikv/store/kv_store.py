"""The tensors of the slots: keys and values of all layers in one allocation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from minikv.errors import bounded, require, whole_number
from minikv.pools.page_table import page_slots
from minikv.sizing import KVShape
from minikv.store.crossing import Crossing, End
from minikv.store.layout import KeysAndValues, cut, dtype_of, require_layout, row_bytes, rows_of
from minikv.store.moves import CopyView, move
from minikv.store.slots import Slots, device_of


class KVStore:
    """The keys and values of `num_pages * page_size` tokens, in all layers, in one allocation.

    `shape` gives the sizes, `layout` ("page" or "layer") the order in memory, `dtype` is a name ("fp32", "fp16",
    "bf16", "fp8") or a torch float dtype. A new store is all zeros. Arguments are checked before a byte moves:
    `ValueError` for a slot, shape or device that does not fit, and for more bytes than its memory has room for;
    `TypeError` for anything but a tensor of the store's dtype. A store may be used by one thread at a time; an `Engine`
    takes care of that. After the K/V pools of SGLang and mini-sglang.

    >>> store = KVStore(KVShape(num_layers=2, num_kv_heads=1, head_dim=2), num_pages=4, page_size=2, dtype="fp32")
    >>> store.write(0, [5, 1], k=torch.ones(2, 1, 2), v=torch.full((2, 1, 2), 7.0))
    >>> store.copy([5, 1], [0, 7])
    >>> k, v = store.read(0, [0, 7, 2])
    >>> k[:, 0, 0], v[:, 0, 0]
    (tensor([1., 1., 0.]), tensor([7., 7., 0.]))
    """

    def __init__(
        self,
        shape: KVShape,
        num_pages: int,
        page_size: int = 1,
        *,
        layout: str = "page",
        device: torch.device | str = "cpu",
        dtype: torch.dtype | str = "fp16",
        pinned: bool = False,
    ):
        require_layout(shape, layout)
        self.shape, self.layout = shape, layout
        self.dtype = dtype_of(dtype)
        self.num_pages = whole_number("num_pages", num_pages, 1, "a store has at least 1 page")
        self.page_size = whole_number("page_size", page_size, 1, "a page holds at least 1 token")
        self.num_slots = self.num_pages * self.page_size
        if self.num_slots > 2**31:
            raise ValueError(f"num_pages x page_size is {bounded(self.num_slots)}: a store has at most 2**31 slots")
        self.slot_bytes = shape.num_layers * sum(row_bytes(shape, self.dtype))
        self.device, self._pinned = device_of(device), pinned
        self._crossings: list[Crossing] = []  # on their way into this store
        self._memory = self._allocate()
        self._heads = (shape.num_kv_heads, shape.head_dim), (shape.num_kv_heads, shape.v_head_dim or shape.head_dim)
        self._look()

    def _allocate(self) -> Tensor:
        size, what = self.num_slots * self.slot_bytes, f"num_pages is {self.num_pages}"
        if size >= 2**63:
            raise ValueError(f"{what}: a store has less than 2**63 bytes, not {bounded(size)}")
        try:
            with torch.inference_mode(False):  # else it could not be written to outside of that mode
                return torch.zeros(size, dtype=torch.uint8, device=self.device, pin_memory=self._pinned)
        except (RuntimeError, MemoryError) as error:  # each device says it in its own way
            rule = f"the memory of {self.device} has no room for a store of {size} bytes"
            raise ValueError(f"{what}: {rule}") from error

    def _look(self) -> None:
        """Make everything through which the allocation is seen."""
        with torch.inference_mode(False):
            k, v, planes = cut(self._memory, self.shape, self.num_slots, self.dtype, self.layout)
            self._layers = list(zip(k, v))
            self._slots = [CopyView(plane) for plane in planes]
            self._pages = [CopyView(plane.view(len(plane), self.num_pages, -1)) for plane in planes]
        self._side: Any = None
        if self.device.type == "cuda":
            self._side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

    def __getstate__(self) -> dict[str, Any]:
        """Return the data of a copy: one allocation, not the views of it."""
        self._wait()
        seen = ("_layers", "_slots", "_pages", "_side")
        return {name: value for name, value in vars(self).items() if name not in seen}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._look()

    @property
    def nbytes(self) -> int:
        """The bytes of all keys and values, which are all that is allocated."""
        return self._memory.nbytes

    @property
    def planes(self) -> tuple[Tensor, ...]:
        """The views (line, slot, items) that slots are copied by; together they cover every byte once.

        The items are as wide as the layout allows, so their dtype says nothing about keys and values.

        >>> shape = KVShape(num_layers=3, num_kv_heads=1, head_dim=8)
        >>> [KVStore(shape, 5, layout=layout).planes[0].shape for layout in ("page", "layer")]
        [torch.Size([1, 5, 6]), torch.Size([6, 5, 1])]
        """
        return tuple(view.lines for view in self._slots)

    # -- slots and tensors, checked before a byte moves ----------------------------------------------------------------

    def slots(self, slots: Any) -> Slots:
        """`slots` checked and on this store's device, for as many `write`s and `read`s as there are layers.

        Takes any sequence of integers, numpy array or tensor; every method that takes slots takes the result too.

        >>> store = KVStore(KVShape(2, num_kv_heads=1, head_dim=2), num_pages=4)
        >>> store.slots([3, 1])
        Slots([3, 1])
        """
        return self._numbers(slots, self.num_slots, "slots")

    def _numbers(self, numbers: Any, limit: int, name: str) -> Slots:
        if type(numbers) is Slots and numbers.limit == limit and numbers.device == self.device:
            return numbers
        return Slots(numbers, limit, self.device, name)

    def _layer(self, layer: int) -> KeysAndValues:
        """The views of a layer's keys and values, (slot, items)."""
        if type(layer) is not int or not 0 <= layer < len(self._layers):
            rule = f"this store has layers 0 to {len(self._layers) - 1}"
            layer = whole_number("layer", layer, 0, rule, len(self._layers))
        for crossing in self._crossings:
            crossing.arrive(layer)
        if self._crossings:
            self._crossings = [crossing for crossing in self._crossings if not crossing.done]
        return self._layers[layer]

    def _wait(self) -> None:
        """Have everything that crosses into this store."""
        for crossing in self._crossings:
            crossing.finish()
        self._crossings = []

    def take_pages(self, source: KVStore, src_pages: Any, dst_pages: Any, later: bool = False) -> Crossing:
        """Copy pages of another store to as many `dst_pages` of this one, where they are found from now on.

        With `later` a layer may be copied when it is first looked at, and until the crossing is done, nobody may write
        to the source's pages. Raises `ValueError` for a source of another shape, page size or dtype, and for pages that
        do not fit, before a byte moves.

        >>> store = KVStore(KVShape(num_layers=2, num_kv_heads=1, head_dim=1), num_pages=4, dtype="fp32")
        >>> store.write(0, [3], torch.ones(1, 1, 1), torch.ones(1, 1, 1))
        >>> host = store.in_host_memory(num_pages=8)
        >>> host.take_pages(store, [2, 3], [6, 7]).done, host.read(0, [6, 7])[0].flatten()
        (True, tensor([0., 1.]))
        """
        if not isinstance(source, KVStore) or source is self:
            raise TypeError(f"source is {bounded(source)}: expected another KVStore")
        for name in ("shape", "page_size", "dtype"):
            if (theirs := getattr(source, name)) != (mine := getattr(self, name)):
                raise ValueError(f"source has {name} {bounded(theirs)}: this store has {bounded(mine)}")
        src, dst = self._pair(source, src_pages, dst_pages, "pages")
        crossing = Crossing(source._end(src), self._end(dst))
        if later or crossing.on_a_stream:
            self._crossings.append(crossing)
        else:
            self._wait()  # for what came before, perhaps to the same pages
            crossing.finish()
        return crossing

    def _end(self, pages: Slots) -> End:
        if self.page_size > 1:
            pages = self.slots(page_slots(pages.numbers, self.page_size))
        return End(pages, self._layers, self._side)

    def in_host_memory(self, num_pages: int) -> KVStore:
        """An empty store like this one in host memory, for `take_pages`; pinned if this one is on a GPU."""
        gpu = self.device.type == "cuda"
        return KVStore(self.shape, num_pages, self.page_size, layout="layer", dtype=self.dtype, pinned=gpu)

    def _pair(self, source: KVStore, src: Any, dst: Any, unit: str) -> tuple[Slots, Slots]:
        """Return the checked pages or slots of a copy: as many of both, no destination twice; `source` is complete."""
        source._wait()
        count, target = f"num_{unit}", f"dst_{unit}"
        read = source._numbers(src, getattr(source, count), f"src_{unit}")
        written = self._numbers(dst, getattr(self, count), target)
        if len(read) != len(written):
            raise ValueError(f"src_{unit} are {len(read)} and {target} are {len(written)}: expected the same number")
        return read, written.once(target)

    # -- layer by layer, as a model does -------------------------------------------------------------------------------

    def write(self, layer: int, slots: Any, k: Tensor, v: Tensor) -> None:
        """Put the rows of `k` (n, num_kv_heads, head_dim) and `v` into n different `slots` of one layer."""
        all_keys, all_values = self._layer(layer)
        where = self.slots(slots).once()
        keys = rows_of("k", k, (len(where), *self._heads[0]), self.dtype, all_keys)
        values = rows_of("v", v, (len(where), *self._heads[1]), self.dtype, all_values)
        all_keys.index_copy_(0, where.index, keys)
        all_values.index_copy_(0, where.index, values)

    def read(self, layer: int, slots: Any) -> KeysAndValues:
        """The keys (n, num_kv_heads, head_dim) and values of n `slots` of one layer, in their order, as copies."""
        sides, where = self._layer(layer), self.slots(slots).index
        return self._by_head([side.index_select(0, where) for side in sides])

    def rows(self, count: int) -> KeysAndValues:
        """Memory for the keys and values of `count` slots in one layer, for `view` to gather into again and again.

        `count` may be more than the store has: several requests read a shared slot, and a padded row repeats its last.
        """
        count = whole_number("count", count, 0, "a view has 0 slots or more")
        k, v = (side.new_empty(count, side.shape[1]) for side in self._layers[0])
        return k, v

    def view(self, layer: int, slots: Any, room: KeysAndValues | None = None) -> KeysAndValues:
        """As `read`, but only to be looked at, and only until the next `write`, or `view` with the same `room`.

        Where each slot is the neighbour of the one before nothing is copied. Else they are gathered into `room`, which
        `rows` made for at least as many (`ValueError` if not): memory that is in use already is several times faster
        than new memory.

        >>> store = KVStore(KVShape(1, num_kv_heads=1, head_dim=2), num_pages=8, dtype="fp32")
        >>> keys, _ = store.view(0, [2, 3])
        >>> store.write(0, [3], k=torch.ones(1, 1, 2), v=torch.ones(1, 1, 2)); keys[1].tolist()
        [[1.0, 1.0]]
        """
        sides, where = self._layer(layer), self.slots(slots)
        if where.run is not None:
            found = [side[where.run] for side in sides]
        elif room is None:
            return self.read(layer, where)
        elif len(where) > (count := min(map(len, room))):
            raise ValueError(f"room is for {count} slots: the view has {len(where)}")
        else:
            found = [torch.index_select(s, 0, where.index, out=r[: len(where)]) for s, r in zip(sides, room)]
        return self._by_head(found)

    def _by_head(self, sides: Sequence[Tensor]) -> KeysAndValues:
        """Rows of keys and of values, (n, items), as (n, num_kv_heads, head size)."""
        k, v = (side.view(self.dtype).view(len(side), *heads) for side, heads in zip(sides, self._heads))
        return k, v

    # -- whole slots, as a cache does ----------------------------------------------------------------------------------

    def copy(self, src_slots: Any, dst_slots: Any) -> None:
        """Copy slots to slots in all layers, as if all were read before any is written: the two may overlap."""
        move(self._slots, *self._pair(self, src_slots, dst_slots, "slots"))

    def copy_pages(self, src_pages: Any, dst_pages: Any) -> None:
        """Copy whole pages to pages in all layers; the same as `copy` of all their slots, given as fewer numbers.

        >>> store = KVStore(KVShape(2, num_kv_heads=1, head_dim=2), num_pages=4, page_size=16)
        >>> store.copy_pages([0, 1], [3, 2])
        """
        move(self._pages, *self._pair(self, src_pages, dst_pages, "pages"))

    def pieces(self) -> list[tuple[str, int]]:
        """The items in memory, in order: keys (K) or values (V) with their layer and slot.

        >>> KVStore(KVShape(num_layers=1, num_kv_heads=1, head_dim=4), 2, layout="layer").pieces()
        [('K0', 0), ('K0', 1), ('V0', 0), ('V0', 1)]
        """
        found = []
        for layer, sides in enumerate(self._layers):
            for letter, side in zip("KV", sides):
                found += [(row.data_ptr(), f"{letter}{layer}", slot) for slot, row in enumerate(side)]
        return [(name, slot) for _, name, slot in sorted(found)]

    def check(self) -> None:
        """K and V of all layers, and the planes, are where the layout says, and each cover every byte once."""
        sizes = f"KVStore: {self.nbytes} bytes for {self.num_slots} x {self.slot_bytes}"
        require(self.nbytes == self.num_slots * self.slot_bytes, sizes)
        sides = [side for layer in self._layers for side in layer]
        for name, views in ("K and V", sides), ("the planes", self.planes):
            covered = sum(view.nbytes for view in views)
            require(covered == self.nbytes, f"KVStore: {name} cover {covered} of {self.nbytes} bytes")
        again = object.__new__(KVStore)
        again.__setstate__(vars(self))
        held = self._places()
        for name, place in again._places().items():
            require(held.get(name) == place, f"KVStore: {name} is not where the {self.layout!r} layout has it")

    def _places(self) -> dict[str, Any]:
        layers = enumerate(self._layers)
        found = {f"{name} of layer {at}": side for at, layer in layers for name, side in zip("kv", layer)}
        for name, views in ("slots", self._slots), ("pages", self._pages):
            found |= {f"{name} {at}": view.lines for at, view in enumerate(views)}
        return {name: (view.data_ptr(), view.shape, view.stride()) for name, view in found.items()}

    def __repr__(self) -> str:
        shape = self.shape
        sizes = f"{self.num_pages} pages of {self.page_size}, {shape.num_layers} layers, {shape.num_kv_heads} KV heads"
        return f"KVStore({sizes}, {self.dtype}, layout={self.layout!r}, {self.nbytes:,} bytes)"
