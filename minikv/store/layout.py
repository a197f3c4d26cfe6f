"""Where each key and each value lies: two ways to cut one allocation.

    "page"    slot 0: layer 0 K V, layer 1 K V, ...   slot 1: layer 0 K V, ...     a slot is one run of bytes
    "layer"   layer 0 K: slot 0, slot 1, ...   layer 0 V: slot 0, ...   layer 1 K: ...     2 x layers runs

In the page layout a page holds the keys and values of all layers of its tokens, one token after the other, so that a
page, and any run of neighbouring slots, is copied in one go. In the layer layout the keys of one layer lie together,
as the attention of that layer reads them. After SGLang, whose host memory is "page_first" or "layer_first".
"""

from __future__ import annotations

from math import gcd
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minikv.errors import bounded
from minikv.sizing import KVShape, require_shape

KeysAndValues = tuple[Tensor, Tensor]
LAYOUTS = ("page", "layer")
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
# A row is moved in items as wide as it allows, since what a copy costs is counted in items.
_ITEMS = {16: torch.complex128, 8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}


class Layout(NamedTuple):
    """The views of one allocation: `k` and `v` (layer, slot, items), and `planes` (outer, slot, items) to copy by.

    The planes are as few as the layout allows, and together are everything.
    """

    k: Tensor
    v: Tensor
    planes: tuple[Tensor, ...]


def dtype_of(dtype: Any) -> torch.dtype:
    """A float dtype by its name here or its torch object; `ValueError` for anything else.

    >>> dtype_of("bf16"), dtype_of(torch.float64)
    (torch.bfloat16, torch.float64)
    """
    found = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ValueError(f"dtype is {bounded(dtype)}: expected one of {', '.join(DTYPES)} or a torch float dtype")
    return found


def row_bytes(shape: KVShape, dtype: torch.dtype) -> tuple[int, int]:
    """The bytes of one slot's keys, and of its values, in one layer.

    >>> row_bytes(KVShape(2, num_kv_heads=4, head_dim=8, v_head_dim=6), torch.float16)
    (64, 48)
    """
    heads = shape.num_kv_heads * dtype.itemsize
    return heads * shape.head_dim, heads * (shape.v_head_dim or shape.head_dim)


def cut(memory: Tensor, shape: KVShape, num_slots: int, dtype: torch.dtype, layout: str) -> Layout:
    """Cut `memory`, bytes in one dimension, into the views of a layout.

    >>> shape = KVShape(3, num_kv_heads=2, head_dim=4)
    >>> page = cut(torch.zeros(5 * 96, dtype=torch.uint8), shape, 5, torch.float16, "page")
    >>> page.k.shape, page.k.stride(), [plane.shape for plane in page.planes]
    (torch.Size([3, 5, 1]), (2, 6, 1), [torch.Size([1, 5, 6])])
    >>> layer = cut(torch.zeros(5 * 96, dtype=torch.uint8), shape, 5, torch.float16, "layer")
    >>> layer.k.shape, layer.k.stride(), [plane.shape for plane in layer.planes]
    (torch.Size([3, 5, 1]), (10, 1, 1), [torch.Size([6, 5, 1])])
    """
    k_bytes, v_bytes = row_bytes(shape, dtype)
    widest = 16 if memory.device.type in ("cpu", "cuda") else 8  # not every device has complex numbers
    width = gcd(widest, k_bytes, v_bytes)
    items, k, v = memory.view(_ITEMS[width]), k_bytes // width, v_bytes // width
    if layout == "page":
        rows = items.view(num_slots, shape.num_layers, k + v).transpose(0, 1)
        return Layout(rows[..., :k], rows[..., k:], (items.view(1, num_slots, -1),))
    layers, half = items.view(shape.num_layers, -1), num_slots * k
    keys = layers[:, :half].view(-1, num_slots, k)
    values = layers[:, half:].view(-1, num_slots, v)
    if k == v:  # of equal width, keys and values of all layers are one plane
        return Layout(keys, values, (items.view(-1, num_slots, k),))
    return Layout(keys, values, (keys, values))


def require_layout(shape: KVShape, layout: str) -> None:
    """Raise `ValueError` unless a store can keep keys and values of `shape` in the order of `layout`.

    >>> require_layout(KVShape(num_layers=1, num_kv_heads=1, head_dim=2), "rows")
    Traceback (most recent call last):
    ValueError: layout is 'rows': expected one of page, layer
    """
    require_shape(shape)
    if shape.latent_dim is not None:
        raise ValueError(f"latent_dim is {shape.latent_dim}: this store keeps K and V, not latent vectors")
    if layout not in LAYOUTS:
        raise ValueError(f"layout is {bounded(layout)}: expected one of {', '.join(LAYOUTS)}")


def rows_of(name: str, values: Any, size: tuple[int, ...], dtype: torch.dtype, like: Tensor) -> Tensor:
    """`values`, of a `size` and `dtype`, as rows of items `like` those of a view; the error names the argument.

    >>> rows_of("k", torch.zeros(2, 1, 4), (3, 1, 4), torch.float32, torch.zeros(1))
    Traceback (most recent call last):
    ValueError: k has shape (2, 1, 4): expected (3, 1, 4), a row for each slot
    """
    if not isinstance(values, Tensor):
        raise TypeError(f"{name} is a {type(values).__name__}: expected a tensor")
    if values.dtype != dtype:
        raise TypeError(f"{name} is of {values.dtype}: this store keeps {dtype}")
    if values.device != like.device:
        raise ValueError(f"{name} is on {values.device}: this store is on {like.device}")
    if values.shape != size:
        raise ValueError(f"{name} has shape {tuple(values.shape)}: expected {size}, a row for each slot")
    rows = values.contiguous().view(size[0], size[1] * size[2])
    if rows.storage_offset() * rows.itemsize % like.itemsize:  # it begins in the middle of an item
        rows = rows.clone()
    return rows.view(like.dtype)
