"""Attention of one step: part by part, and joined by the log-sum-exp of the scores.

Attention over two sets of keys is a weighted mean of attention over each of them; the weights are known from the sum of
the exponentials of each set's scores, of which the logarithm is kept. So a prefix that many requests share is read
once, with the queries of them all, and a long chunk needs no mask over what lies before it.

After FlashAttention, which joins blocks of keys in this way, and the cascade attention of FlashInfer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from minikv.serving.batch import Batch, BatchPart

SCORES = 2**22  # numbers: where scores are kept at all, at most about so many at a time
Attended = tuple[Tensor, Tensor]  # means of values, and the log-sum-exp of their scores


def attend(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, mask: Tensor | None = None) -> Attended:
    """Attention of q (n, heads, rows, head_dim) over k and v (n, heads, length, head_dim), and its log-sum-exp.

    The first is shaped like `q`, the second (n, heads, rows). With `causal` query i sees keys 0 to i; a `mask`
    (n, 1, 1, length) is added to the scores. No (rows, length) tensor is kept whole: memory grows with either.

    >>> values = torch.tensor([10.0, 20.0]).view(1, 1, 2, 1)
    >>> out, lse = attend(torch.ones(1, 1, 1, 1), torch.zeros(1, 1, 2, 1), values)
    >>> out.item(), round(lse.exp().item(), 3)                 # equal keys: the mean of the values, e^0 + e^0
    (15.0, 2.0)
    """
    if q.device.type == "cpu" and q.dtype != torch.float64:  # its log-sum-exp is no more precise than float32
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        found: Attended = fused(q, k, v, 0.0, causal, attn_mask=mask)
        return found
    return attend_in_blocks(q, k, v, causal=causal, mask=mask)


def attend_in_blocks(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, mask: Tensor | None = None) -> Attended:
    """`attend`, written out: a block of queries at a time, on any device and in any dtype.

    >>> q, k = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)
    >>> all(torch.allclose(a, b, atol=1e-5) for a, b in zip(attend(q, k, k), attend_in_blocks(q, k, k)))
    True
    """
    n, heads, rows, dim = q.shape
    block = max(1, SCORES // (n * heads * k.shape[2]))
    wide = torch.promote_types(q.dtype, torch.float32)
    outs = []
    sums = []
    for first in range(0, rows, block):
        scores = (q[:, :, first : first + block] * dim**-0.5 @ k.mT).to(wide)
        if causal:
            scores = scores + torch.full_like(scores[0, 0], float("-inf")).triu(first + 1)
        if mask is not None:
            scores = scores + mask
        sums.append(scores.logsumexp(-1))
        outs.append((scores - sums[-1][..., None]).exp().to(v.dtype) @ v)
    return torch.cat(outs, 2), torch.cat(sums, 2)


def join(out: Tensor, lse: Tensor, rows: slice | Tensor, more: Tensor, more_lse: Tensor) -> None:
    """Let `rows` of `out` (tokens, heads, head_dim) and `lse` (tokens, heads) cover `more` keys as well, in place.

    >>> out, lse = torch.tensor([[[10.0]]]), torch.zeros(1, 1)
    >>> join(out, lse, slice(0, 1), torch.tensor([[[40.0]]]), torch.full((1, 1), 2.0).log())      # 1 key and 2 keys
    >>> round(out.item(), 3)
    30.0
    """
    before = lse[rows]
    share = torch.sigmoid(more_lse - before)  # of the weights, that `more` has
    out[rows] = out[rows].lerp(more.to(out.dtype), share[..., None])
    lse[rows] = torch.logaddexp(before, more_lse)


class StepAttention:
    """The attention of one step, layer after layer: `batch`'s new K and V go to `store`, and the rest is read there.

    In each layer, `write` comes first. The slots are checked here, once for all layers; without a store, `ValueError`.
    """

    def __init__(self, batch: Batch, store: Any):
        if store is None:
            raise ValueError("store is None: keys and values need one, as in CacheManager(8, store=KVStore(shape, 8))")
        self.store = store
        self.new = store.slots(batch.slots)
        reads = store.slots(batch.reads)
        self.parts = [(part, None if part.slots is None else reads[part.slots]) for part in batch.parts]
        self.num_own = batch.num_own
        longest = max((len(slots) for _, slots in self.parts if slots is not None and slots.run is None), default=0)
        self.room = store.rows(longest) if longest else None

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Store the new tokens' K and V of one layer, (tokens, kv_heads, head_dim)."""
        self.store.write(layer, self.new, k.to(self.store.dtype), v.to(self.store.dtype))

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend in one layer: q and the result are (tokens, heads, head_dim), k and v as before."""
        new = k.to(self.store.dtype), v.to(self.store.dtype)
        found = []
        for part, slots in self.parts:
            sides = [side[part.rows] for side in new] if slots is None else self.store.view(layer, slots, self.room)
            found.append(_attended(part, q[part.rows], *(side.to(q.dtype) for side in sides)))
        out, lse = map(concatenated, zip(*found[: self.num_own]))
        out = out.to(lse.dtype)
        for (part, _), more in zip(self.parts[self.num_own :], found[self.num_own :]):
            join(out, lse, part.rows, *more)
        return out.to(q.dtype)


def concatenated(parts: Sequence[Tensor]) -> Tensor:
    """The rows of all `parts`, which are not copied if there is only one part.

    >>> concatenated([torch.zeros(2, 3), torch.ones(1, 3)]).shape
    torch.Size([3, 3])
    """
    return parts[0] if len(parts) == 1 else torch.cat([*parts])


def _attended(part: BatchPart, q: Tensor, k: Tensor, v: Tensor) -> Attended:
    """The tokens of a part, q (tokens, heads, head_dim), attend to its keys and values (length, kv_heads, head_dim).

    The query heads of a KV head are stacked, as if they were separate tokens; for tokens that see different keys, each
    query head gets a KV head of its own instead.
    """
    group = q.shape[1] // k.shape[1]
    if part.slots is None:
        k = k.repeat_interleave(group, 1)
        v = v.repeat_interleave(group, 1)
        group = 1
    kv_heads, dim = k.shape[1:]
    k = k.view(part.size, -1, kv_heads, dim).transpose(1, 2)
    v = v.view(part.size, -1, kv_heads, dim).transpose(1, 2)
    if len(q) == part.size:
        out, lse = attend(q.reshape(part.size, kv_heads, group, dim), k, v, mask=part.mask)
        return out.flatten(1, 2), lse.flatten(1, 2)
    grouped = q.reshape(part.size, -1, kv_heads, group, dim).transpose(1, 2)
    out, lse = attend(grouped.flatten(2, 3), k, v, causal=part.slots is None)
    out = out.reshape(grouped.shape).transpose(1, 2)
    lse = lse.reshape(grouped.shape[:4]).transpose(1, 2)
    return out.reshape(q.shape), lse.reshape(q.shape[:2])
