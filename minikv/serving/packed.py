"""Linear layers whose weights are packed in blocks, which a CPU multiplies with a batch's rows up to twice as fast.

A step of many decoding requests multiplies each weight with a few dozen rows. At that size most of a plain product's
time goes into loading the weight in an order that suits the processor; oneDNN's blocked layout has that order in
memory. `torch.compile` packs weights in the same way when it freezes a model.

oneDNN compiles code for each number of rows that it meets: a millisecond and half a megabyte each time. So rows are cut
into blocks of 64, and the last block is padded to a multiple of 8: there are only eight numbers of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch.nn import functional

BLOCK_ROWS = 64
STEP_ROWS = 8  # fewer rows gain nothing from packed weights
_OPERATIONS = ("_reorder_linear_weight", "_linear_pointwise")  # those of `torch.compile`: another torch may lack them
MOST_BYTES = 2**31  # of weights: packed ones are kept beside the plain ones, so a larger model stays as it is


def can_pack(weights: Iterable[torch.Tensor]) -> bool:
    """Whether packing these weights pays: float32 on a CPU with AVX, not too many, and changes to them are counted.

    >>> can_pack([torch.zeros(2, 2, dtype=torch.float64)])
    False
    """
    found: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    found = found and torch.backends.cpu.get_cpu_capability().startswith("AVX")
    found = found and all(hasattr(torch.ops.mkldnn, name) for name in _OPERATIONS)
    size = 0
    for weight in weights:
        found = found and weight.device.type == "cpu" and weight.dtype == torch.float32 and not weight.is_inference()
        size += weight.nbytes
    return found and size <= MOST_BYTES


class PackedLinear:
    """The linear layers `weights`, (outputs, inputs) each, of the same input; `biases` has one for each, or `None`.

    Only where `can_pack` says so.

    >>> weight = torch.tensor([[1.0, 2.0]])
    >>> not can_pack([weight]) or PackedLinear([weight], [None])(torch.ones(8, 2))[0].tolist() == [[3.0]] * 8
    True
    """

    def __init__(self, weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor | None]):
        self._made_of = [(tensor, tensor._version) for tensor in (*weights, *biases) if tensor is not None]
        self._sizes = [len(weight) for weight in weights]
        self._weight = torch.ops.mkldnn._reorder_linear_weight(torch.cat([*weights]))
        given = [torch.zeros(len(w)) if bias is None else bias for w, bias in zip(weights, biases)]
        self._bias = None if all(bias is None for bias in biases) else torch.cat(given)

    def is_of(self, weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor | None]) -> bool:
        """Whether it was made of these tensors, and none was changed in place since then.

        >>> weight = torch.ones(1, 2)
        >>> layer = PackedLinear([weight], [None]) if can_pack([weight]) else None
        >>> weight += 1
        >>> layer is not None and layer.is_of([weight], [None])
        False
        """
        tensors = [tensor for tensor in (*weights, *biases) if tensor is not None]
        pairs = zip(self._made_of, tensors)
        return all(tensor is mine and tensor._version == version for (mine, version), tensor in pairs)

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """What each layer makes of x (rows, inputs): (rows, outputs) each."""
        if len(x) <= BLOCK_ROWS:
            out = self._block(x)
        else:
            out = torch.cat([self._block(block) for block in torch.split(x, BLOCK_ROWS)])
        return (out,) if len(self._sizes) == 1 else torch.split(out, self._sizes, dim=1)

    def _block(self, x: torch.Tensor) -> torch.Tensor:
        missing = -len(x) % STEP_ROWS
        padded = functional.pad(x, (0, 0, 0, missing)) if missing else x
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(padded, self._weight, self._bias, "none", [], "")
        return out[: len(x)]
