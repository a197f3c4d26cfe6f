"""What stands around the attention of chapter 08: which rows and slots each chunk has. It needs torch."""

from __future__ import annotations

from typing import Any

import torch

from minikv.serving.batch import Batch


class AttentionShell:
    """The part of a step's attention that no piece is about; the rest is `SlotAttention` in `engine.py`.

    `chunks` has for each chunk the rows of its new tokens and all slots of its sequence.
    """

    def __init__(self, batch: Batch, store: Any):
        self.store, self.new, self.chunks = store, store.slots(batch.slots), batch.rows
        self.size = len(batch.tokens)

    def write(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """Store the new tokens' K and V of one layer, (tokens, kv_heads, head_dim)."""
        self.store.write(layer, self.new, k.to(self.store.dtype), v.to(self.store.dtype))

    def read(self, layer: int, slots: Any, q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of a whole sequence, (tokens, heads, head_dim): a KV head once for each query head of its group."""
        keys, values = self.store.read(layer, slots)
        group = q.shape[1] // keys.shape[1]
        return keys.to(q.dtype).repeat_interleave(group, 1), values.to(q.dtype).repeat_interleave(group, 1)

    def together(self, parts: list[torch.Tensor]) -> torch.Tensor:
        """What each chunk gave, in the order of the rows."""
        out = torch.empty(self.size, *parts[0].shape[1:], dtype=parts[0].dtype, device=parts[0].device)
        for (rows, _), part in zip(self.chunks, parts):
            out[rows] = part
        return out
