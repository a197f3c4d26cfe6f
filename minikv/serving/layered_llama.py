"""A decoder some of whose layers keep no keys and values, but one state: a sum over all tokens so far.

    full layers     attention over everything before a token            `store.full`, a slot for each token of the row
    state layers    state = gate * state + key x value, for each token  `store.states`, one for a whole prefix
                    output = query x state

Gated linear attention, as in Qwen3-Next, Kimi Linear or Nemotron, in its simplest form: the gate comes from the key, so
the layer needs no weights of its own. The state of a prefix is named by the slot of its last token (`StatePool`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from minikv.errors import bounded, whole_number
from minikv.manager.layered import StatePool
from minikv.serving.attention import StepAttention
from minikv.serving.batch import Batch
from minikv.serving.llama import Llama
from minikv.sizing import KVShape
from minikv.store import KVStore


class LayeredStore:
    """The memory of a model with state layers: a `KVStore` for its full layers, and the states of `pool`.

    `shape` is the whole model's, `recurrent` the numbers of its state layers, which are not the last one. All else goes
    to the `KVStore`; sums are kept in float32 or wider.

    >>> store = LayeredStore(KVShape(num_layers=4, num_kv_heads=1, head_dim=8), {0, 2}, StatePool(64, num_states=4))
    >>> store
    LayeredStore(2 full layers in 64 pages, 2 state layers with 4 states, 6,144 bytes)
    """

    def __init__(self, shape: KVShape, recurrent: Collection[int], pool: StatePool, **options: Any):
        self.shape, self.pool, self.page_size, self.num_pages = shape, pool, pool.page_size, pool.size
        self.recurrent = frozenset(whole_number("recurrent", layer, 0, "layers count from 0") for layer in recurrent)
        if max(self.recurrent, default=shape.num_layers) >= shape.num_layers - 1:
            rule = f"expected some of layers 0 to {shape.num_layers - 2}, for the last one keeps keys and values"
            raise ValueError(f"recurrent is {bounded(sorted(self.recurrent))}: {rule}")
        kinds = [layer in self.recurrent for layer in range(shape.num_layers)]
        self.places = [kinds[:layer].count(kind) for layer, kind in enumerate(kinds)]  # in the store of its kind
        self.full = KVStore(replace(shape, num_layers=kinds.count(False)), pool.size, pool.page_size, **options)
        size = kinds.count(True), pool.states.size, shape.num_kv_heads, shape.head_dim, shape.head_dim
        wide = torch.promote_types(self.full.dtype, torch.float32)
        self.states = torch.zeros(size, dtype=wide, device=self.full.device)

    def __repr__(self) -> str:
        full, (layers, count, *_) = self.full, self.states.shape
        size = full.nbytes + self.states.nbytes
        return (
            f"LayeredStore({full.shape.num_layers} full layers in {full.num_pages} pages, "
            f"{layers} state layers with {count} states, {size:,} bytes)"
        )


class LayeredAttention:
    """The attention of one step of a model with state layers; the full ones are left to `StepAttention`."""

    def __init__(self, batch: Batch, store: LayeredStore):
        if not isinstance(store, LayeredStore):
            raise ValueError(f"store is {bounded(store)}: a model with state layers needs a LayeredStore")
        self.store, self.full, self.rows = store, StepAttention(batch, store.full), batch.rows

    def write(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Store the new tokens' K and V of one layer, (tokens, kv_heads, head_dim), if it is a full one."""
        if layer not in self.store.recurrent:
            self.full.write(self.store.places[layer], k, v)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend in one layer: q and the result are (tokens, heads, head_dim).

        A state layer continues from the state that the slot before a chunk names, and leaves one at the chunk's last
        slot; the first one stays as it is, so a step that failed can be computed again.
        """
        place, pool = self.store.places[layer], self.store.pool
        if layer not in self.store.recurrent:
            return self.full(place, q, k, v)
        if not place:
            pool.begin()
        states, out = self.store.states[place], torch.empty_like(q)
        for rows, slots in self.rows:
            before = len(slots) - (rows.stop - rows.start)
            state = torch.zeros_like(states[0])
            if before:
                state = states[pool.state_of[int(slots[before - 1])]]
            out[rows], state = summed(q[rows], k[rows], v[rows], state)
            states[pool.put(int(slots[-1]))] = state
        return out


def summed(q: Tensor, k: Tensor, v: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Gated linear attention of q (tokens, heads, head_dim) over k and v, (tokens, kv_heads, head_dim), from a `state`.

    Returns what comes out, shaped like `q`, and the state after the last token, (kv_heads, head_dim, head_dim). It goes
    token by token, so that it is the same wherever a chunk ends.

    >>> k = v = torch.ones(2, 1, 1); q = torch.ones(2, 1, 1)
    >>> out, state = summed(q, k, v, torch.zeros(1, 1, 1)); out.flatten().tolist()
    [1.0, 1.7310585975646973]
    >>> summed(q[1:], k[1:], v[1:], summed(q[:1], k[:1], v[:1], torch.zeros(1, 1, 1))[1])[1].equal(state)
    True
    """
    dtype, group = state.dtype, q.shape[1] // k.shape[1]
    found = []
    for query, key, value in zip(q.to(dtype), k.to(dtype), v.to(dtype)):
        gate = torch.sigmoid(key.mean(-1))[:, None, None]
        state = gate * state + key[:, :, None] * value[:, None]
        found.append(query.view(len(state), group, -1) @ state * q.shape[2] ** -0.5)
    return torch.stack(found).view(q.shape).to(q.dtype), state


def layered_llama(model: Llama) -> Llama:
    """`model` with state layers: which ones is said by the `LayeredStore` that it runs with.

    >>> from minikv import Engine, LayeredManager, asset
    >>> model, pool = layered_llama(Llama.from_folder(asset("model"))), StatePool(256, num_states=8)
    >>> store = LayeredStore(model.shape, {0, 2}, pool, dtype=model.dtype)
    >>> engine = Engine(model, LayeredManager(pool, step=4, store=store))
    >>> cold, warm = (engine.generate([[*b"Two kinds of layers, one prefix."]], 8)[0] for _ in range(2))
    >>> cold.tokens == warm.tokens, cold.cached, warm.cached
    (True, 0, 28)
    """
    return Llama(model.config, model.weights, LayeredAttention)
