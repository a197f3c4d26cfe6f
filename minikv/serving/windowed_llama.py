"""A decoder some of whose layers see only the last tokens, with a store for each kind of layer.

    full layers        attention over everything before a token       `store.full`, a slot for each token of the row
    windowed layers    over a token and the window - 1 before it      `store.windows`, fewer slots: a map says which

The map is the pool's: a row names full slots alone. As Mistral 7B (all layers windowed), Gemma 2 and 3 and gpt-oss
(some of them); their servers keep such a map as well, SGLang by slots, vLLM by groups of blocks.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from minikv.errors import bounded, whole_number
from minikv.pools import Pages, WindowedPool
from minikv.serving.attention import StepAttention
from minikv.serving.batch import Batch
from minikv.serving.llama import Llama
from minikv.sizing import KVShape
from minikv.store import KVStore, Slots


class WindowedStore:
    """Keys and values of a model with windowed layers: one `KVStore` for each kind of layer, over the pages of `pool`.

    `shape` is the whole model's, `windowed` the numbers of its windowed layers. All else goes to both stores.

    >>> pool = WindowedPool(64, num_window_pages=16)
    >>> store = WindowedStore(KVShape(num_layers=4, num_kv_heads=1, head_dim=8), {1, 3}, pool); store
    WindowedStore(2 full layers in 64 pages, 2 windowed layers in 16 pages, 5,120 bytes)
    >>> row = pool.alloc(3); pool.free_window(row[:1]); pool.free_window(row[2:]); late = pool.alloc(1)
    >>> store.window_slots(late).tolist()
    [2]
    """

    def __init__(
        self, shape: KVShape, windowed: Collection[int], pool: WindowedPool, page_size: int = 1, **options: Any
    ):
        self.shape, self.pool, self.page_size = shape, pool, page_size
        self.num_pages = pool.size  # full ones
        self.windowed = require_layers(windowed, shape.num_layers)
        kinds = [layer in self.windowed for layer in range(shape.num_layers)]
        self.places = [kinds[:layer].count(kind) for layer, kind in enumerate(kinds)]  # in the store of its kind
        self.full, self.windows = (
            KVStore(replace(shape, num_layers=kinds.count(kind)), pages, page_size, **options)
            for kind, pages in ((False, pool.size), (True, pool.windows.size))
        )

    def window_slots(self, slots: Any) -> Pages:
        """The window slots that belong to full `slots`; `ValueError` names the first that has none."""
        numbers = np.asarray(slots, np.int64)
        pages, offsets = np.divmod(numbers, self.page_size)
        windows = self.pool.window_of[pages]
        missing = np.flatnonzero(windows < 0)
        if missing.size:
            at = missing[0]
            raise ValueError(f"slots[{at}] is {numbers[at]}: page {pages[at]} has no window page")
        return (windows.astype(np.int64) * self.page_size + offsets).astype(np.int32)

    def __repr__(self) -> str:
        full, windows = self.full, self.windows
        return (
            f"WindowedStore({full.shape.num_layers} full layers in {full.num_pages} pages, "
            f"{windows.shape.num_layers} windowed layers in {windows.num_pages} pages, "
            f"{full.nbytes + windows.nbytes:,} bytes)"
        )


def require_layers(windowed: Collection[int], num_layers: int) -> frozenset[int]:
    """The numbers of the windowed layers: some of `num_layers`, and not all, for the full ones lead the tree.

    >>> require_layers([1, 5], num_layers=4)
    Traceback (most recent call last):
    ValueError: windowed is [1, 5]: expected some of layers 0 to 3, and not all of them
    """
    found = frozenset(whole_number("windowed", layer, 0, "layers count from 0") for layer in windowed)
    if not found or len(found) >= num_layers or max(found) >= num_layers:
        rule = f"expected some of layers 0 to {num_layers - 1}, and not all of them"
        raise ValueError(f"windowed is {bounded(sorted(found))}: {rule}")
    return found


class WindowedAttention:
    """The attention of one step where `windowed` layers see a token and the `window - 1` before it.

    The full layers are left to `StepAttention`. A windowed layer reads its window from the store, chunk by chunk.
    """

    def __init__(self, batch: Batch, store: WindowedStore, window: int):
        if not isinstance(store, WindowedStore):
            raise ValueError(f"store is {bounded(store)}: a model with windowed layers needs a WindowedStore")
        self.store, self.full, self.window = store, StepAttention(batch, store.full), window
        self.new = store.windows.slots(store.window_slots(batch.slots))
        self.reads: list[tuple[slice, Slots, Tensor]] = []
        for rows, slots in batch.rows:
            count = rows.stop - rows.start
            seen = slots[1 - count - window :]
            where = store.windows.slots(store.window_slots(seen))
            self.reads.append((rows, where, _sees(count, len(where), window).to(batch.tokens.device)))

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Store the new tokens' K and V of one layer, (tokens, kv_heads, head_dim), where its kind has them."""
        place, windows = self.store.places[layer], self.store.windows
        if layer in self.store.windowed:
            windows.write(place, self.new, k.to(windows.dtype), v.to(windows.dtype))
        else:
            self.full.write(place, k, v)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend in one layer: q and the result are (tokens, heads, head_dim)."""
        place = self.store.places[layer]
        if layer not in self.store.windowed:
            return self.full(place, q, k, v)
        out = torch.empty_like(q)
        for rows, where, sees in self.reads:
            sides = (side.to(q.dtype).transpose(0, 1) for side in self.store.windows.read(place, where))
            keys, values = (side.repeat_interleave(q.shape[1] // len(side), 0) for side in sides)
            found = functional.scaled_dot_product_attention(q[rows].transpose(0, 1), keys, values, attn_mask=sees)
            out[rows] = found.transpose(0, 1)
        return out


def _sees(count: int, length: int, window: int) -> Tensor:
    """Return which of `length` tokens each of the last `count` sees: itself and the `window - 1` before it.

    >>> _sees(2, 4, window=3).int().tolist()
    [[1, 1, 1, 0], [0, 1, 1, 1]]
    """
    distance = torch.arange(length - count, length)[:, None] - torch.arange(length)
    return (distance >= 0) & (distance < window)


def windowed_llama(model: Llama, window: int) -> Llama:
    """`model` with windowed layers, which see only the last `window` tokens, themselves among them.

    Which layers those are is said by the `WindowedStore` that it runs with.

    >>> from minikv import Engine, Llama, WindowedManager, asset
    >>> model, pool = windowed_llama(Llama.from_folder(asset("model")), window=16), WindowedPool(256, 64)
    >>> store = WindowedStore(model.shape, {1, 3}, pool, dtype=model.dtype)
    >>> engine = Engine(model, WindowedManager(pool, window=16, store=store))
    >>> cold, warm = (engine.generate([[*b"The sliding window moves on, and"]], 8)[0] for _ in range(2))
    >>> cold.tokens == warm.tokens, engine.manager.cache.total_size, engine.manager.cache.window_evictable_size
    (True, 39, 24)
    """
    seen = whole_number("window", window, 1, "a windowed layer sees at least 1 token")
    return Llama(model.config, model.weights, partial(WindowedAttention, window=seen))
