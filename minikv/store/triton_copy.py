"""The batched copy on an NVIDIA GPU: one kernel launch for all layers, in place of one gather and one scatter.

A program moves one block of one row: it reads where its row comes from and where it goes, and copies the block from
there to there, so that nothing is written twice and no memory is taken. Imported only where Triton is installed and a
store is on a GPU; with `TRITON_INTERPRET=1` the same code runs on a CPU, where it is tested against `move_by_index`.
After the KV copy kernels of SGLang, which are given one pointer for each layer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # this file can be read, tested for its house rules and imported where there is no Triton
    triton = tl = None

BLOCK = 1024  # words that one program moves at the most: 8 KiB where a word has 8 bytes


# No types but `constexpr`: Triton would read `int` as 32 bits, and a stride may need more.
def _copy_rows(memory, src, dst, outer_stride, row_stride, words, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Copy block `program_id(1)` of row `src[program_id(0)]` to row `dst[program_id(0)]`, in line `program_id(2)`."""
    at = tl.program_id(1) * block + tl.arange(0, block)
    plane = memory + tl.program_id(2).to(tl.int64) * outer_stride
    source, target = tl.load(src + tl.program_id(0)), tl.load(dst + tl.program_id(0))
    values = tl.load(plane + source * row_stride + at, mask=at < words)
    tl.store(plane + target * row_stride + at, values, mask=at < words)


_kernel: Any = triton and triton.jit(_copy_rows)


def move_rows(plane: Tensor, src: Tensor, dst: Tensor) -> None:
    """Copy rows `src` of `plane` (outer, row, items) to its rows `dst`; no row may be in both, nor twice in `dst`."""
    if triton is None:
        raise ModuleNotFoundError("this copy needs triton, which is not installed")
    words = plane.view(torch.int64) if plane.itemsize > 8 else plane  # Triton has no 16-byte numbers
    outer, _, width = words.shape
    block = min(BLOCK, triton.next_power_of_2(width))
    grid = (len(src), triton.cdiv(width, block), outer)
    _kernel[grid](words, src, dst, words.stride(0), words.stride(1), width, block=block)
