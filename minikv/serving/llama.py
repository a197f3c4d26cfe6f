"""A decoder of the Llama architecture that keeps its keys and values in slots.

    x = embedding of each token
    per layer    h = RMSNorm(x);  q, k, v = h's projections;  q and k are rotated by their position (RoPE)
                 k and v are written to the tokens' slots, and what was computed before is read from its slots
                 x += output projection of attention(q, K, V)
                 h = RMSNorm(x);  x += down(silu(gate(h)) * up(h))          (SwiGLU)
    logits = RMSNorm(x) times the output embedding

That reading is the whole of paged attention as far as a cache is concerned: a slot is where a token's K and V are,
no matter which request computed them. After the Llama model of `transformers`, which the tests compare it with, and
nano-vllm's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from minikv.files import FileName
from minikv.serving.attention import StepAttention, concatenated
from minikv.serving.batch import Batch, last_chunks
from minikv.serving.checkpoint import (
    LlamaConfig,
    check_weights,
    read_llama_config,
    read_weights,
    rope_frequencies,
    weight_shapes,
)
from minikv.serving.model import Chunk

Weights = Mapping[str, Tensor]
BLOCK = 512  # tokens
STEP_ROWS, MOST_ROWS = 8, 64  # fewer and more rows gain nothing from packed weights
_OPERATIONS = ("_reorder_linear_weight", "_linear_pointwise")  # those of `torch.compile`: another torch may lack them
MOST_BYTES = 2**31  # of weights: packed ones are kept beside the plain ones, so a larger model stays as it is


class Llama:
    """A decoder with its weights; `forward` computes chunks of sequences, with K and V in a store.

    `weights` have Hugging Face's names and the shapes that `weight_shapes(config)` lists; all are of one dtype and on
    one device. `ValueError` names a weight that is missing, unknown or of another shape. `attention(batch, store)`
    makes the attention of a step, as `StepAttention` does. `shape` is what a store must hold, token ids are below
    `vocab_size`, and those in `eos` end a sequence; `dtype` and `device` are those of the weights. In float32 on a CPU,
    up to 2 GiB of weights are kept twice: steps of 8 to 64 tokens multiply with packed ones (`PackedLinear`).

    >>> from minikv import asset
    >>> model = Llama.from_folder(asset("model")); model
    Llama(5 layers, 6 heads on 2 KV heads of 32, vocabulary 257, torch.float32 on cpu)
    >>> model.shape.attention
    'GQA'
    """

    def __init__(self, config: LlamaConfig, weights: Weights, attention: Callable[[Batch, Any], Any] = StepAttention):
        check_weights(config, weights)
        self.config = config
        self.weights = weights
        self.attention = attention
        self.shape = config.shape
        self.vocab_size = config.vocab_size
        self.eos = config.eos
        embedding = weights["model.embed_tokens.weight"]
        self.dtype, self.device = embedding.dtype, embedding.device
        self._rope = torch.tensor(rope_frequencies(config), device=self.device)
        self._can_pack, self._packed = can_pack(weights.values()), dict[str, PackedLinear]()

    @classmethod
    def from_folder(cls, path: FileName, device: Any = "cpu", dtype: torch.dtype = torch.float32) -> Llama:
        """Read a checkpoint: a local folder with `config.json` and safetensors, in one file or in shards.

        It computes in `dtype`, whatever the checkpoint is stored in.
        """
        config, found = read_llama_config(path), read_weights(path)
        if config.tied:
            found.pop("lm_head.weight", None)  # some checkpoints store it twice
        found = {name: weight for name, weight in found.items() if not name.endswith("rotary_emb.inv_freq")}
        check_weights(config, found, str(path))
        return cls(config, {name: weight.to(device, dtype) for name, weight in found.items()})

    @classmethod
    def random(cls, config: LlamaConfig, seed: int = 0) -> Llama:
        """A model that knows nothing: norms are 1, biases 0, the rest drawn with standard deviation 1 / sqrt(fan-in).

        The same seed gives the same weights, in float32.
        """
        generator, weights = torch.Generator().manual_seed(seed), {}
        for name, shape in weight_shapes(config).items():
            weight = torch.randn(shape, generator=generator, dtype=torch.float64) * shape[-1] ** -0.5
            if len(shape) == 1:
                weight.fill_(not name.endswith("bias"))
            weights[name] = weight.float()
        return cls(config, weights)

    @torch.inference_mode()
    def forward(self, chunks: Sequence[Chunk], store: Any) -> Tensor:
        """The logits of the token after each chunk, (len(chunks), vocab_size); all chunks are computed in one step.

        A chunk with more `num_logits` has as many rows, in the order of its tokens.
        """
        return self.logits(chunks, store)

    def logits(self, chunks: Sequence[Chunk], store: Any) -> Tensor:
        """`forward`, in the mode that torch is in: for training, which needs gradients.

        They reach every weight when each chunk starts at token 0 and has at least 2 tokens; keys and values that
        attention reads from the store have none.
        """
        embedding, last = self.weights["model.embed_tokens.weight"], self.shape.num_layers - 1
        batch = Batch(chunks, self.vocab_size, embedding)
        attention, angles = self.attention(batch, store), self._angles(batch.positions)
        x = functional.embedding(batch.tokens, embedding)
        for layer in range(last):
            x = self._layer(x, layer, attention, angles)
        if torch.is_grad_enabled() or len(batch.tokens) == len(batch.last):
            x = self._layer(x, last, attention, angles)[batch.last]
        else:  # the last layer is needed at the ends alone, which read the keys and values of the others in the store
            ends = Batch(last_chunks(chunks), self.vocab_size, embedding)
            rows = batch.last[ends.last.argsort()]
            x = self._layer(x, last, attention, angles, (rows, self.attention(ends, store)))[ends.last]
        return self._linear(self._norm(x, "model.norm"), "model.embed_tokens" if self.config.tied else "lm_head")

    # -- the parts --------------------------------------------------------------------------------------------------

    def _linear(self, x: Tensor, name: str) -> Tensor:
        """Apply the linear layer `name` to x, (tokens, inputs)."""
        weight, bias = self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")
        if not self._can_pack or not STEP_ROWS <= len(x) <= MOST_ROWS or torch.is_grad_enabled():
            return functional.linear(x, weight, bias)
        packed = self._packed.get(name)
        if packed is None or not packed.is_of(weight):
            self._packed[name] = packed = PackedLinear(weight)
        return packed(x, bias)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)  # one pass over x, where a mean of squares is two
        mean_square = length * length * (1 / x.shape[-1])
        scale = torch.rsqrt(mean_square + self.config.norm_eps)
        normed = (wide * scale).to(x.dtype)
        return self.weights[f"{name}.weight"] * normed

    def _layer(
        self,
        x: Tensor,
        layer: int,
        attention: Any,
        angles: Sequence[Tensor],
        ends: tuple[Tensor, Any] | None = None,
    ) -> Tensor:
        """Attend and think: (tokens, hidden) to (tokens, hidden). With `ends` it continues with those rows only."""
        name, head = f"model.layers.{layer}", self.shape.head_dim
        h = self._norm(x, f"{name}.input_layernorm")
        k, v = (self._linear(h, f"{name}.self_attn.{part}_proj").view(len(h), -1, head) for part in "kv")
        k = apply_rotary(k, *angles)
        attention.write(layer, k, v)
        if ends is not None:
            rows, attention = ends
            x, h, k, v, *angles = (side[rows] for side in (x, h, k, v, *angles))
        q = self._linear(h, f"{name}.self_attn.q_proj").view(len(h), -1, head)
        out = attention(layer, apply_rotary(q, *angles), k, v)
        x = x + self._linear(out.flatten(1), f"{name}.self_attn.o_proj")
        return x + self._mlp(self._norm(x, f"{name}.post_attention_layernorm"), f"{name}.mlp")

    def _mlp(self, h: Tensor, name: str) -> Tensor:
        """SwiGLU, some tokens at a time, so that what is between the projections stays in the processor's cache."""
        found: list[Tensor] = []
        for block in torch.split(h, BLOCK):
            gate = self._linear(block, f"{name}.gate_proj")
            up = self._linear(block, f"{name}.up_proj")
            found.append(self._linear(functional.silu(gate) * up, f"{name}.down_proj"))
        return concatenated(found)

    def _angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """By which `positions` rotate: the cosines (tokens, 1, head_dim), twice over, and the sines, once."""
        angles = (positions[:, None].float() * self._rope)[:, None]
        cos, sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        return torch.cat([cos, cos], dim=-1), sin

    def __repr__(self) -> str:
        shape = self.shape
        heads = f"{shape.num_layers} layers, {self.config.num_heads} heads on {shape.num_kv_heads} KV heads"
        return f"Llama({heads} of {shape.head_dim}, vocabulary {self.vocab_size}, {self.dtype} on {self.device})"


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE: numbers i and i + head_dim / 2 of a head are a point in the plane, rotated by its position's angle.

    `x` is (tokens, heads, head_dim), `cos` (tokens, 1, head_dim) and `sin` (tokens, 1, head_dim / 2).

    >>> quarter = torch.zeros(1, 1, 2), torch.ones(1, 1, 1)                              # of a turn
    >>> apply_rotary(torch.tensor([[[3.0, 4.0]]]), *quarter).tolist()
    [[[-4.0, 3.0]]]
    """
    out, half = x * cos, x.shape[-1] // 2
    out[..., :half].addcmul_(x[..., half:], sin, value=-1)
    out[..., half:].addcmul_(x[..., :half], sin)
    return out


# -- packed weights --------------------------------------------------------------------------------------------------


def can_pack(weights: Collection[Tensor]) -> bool:
    """Whether packing these weights pays: float32 on a CPU with AVX, not too many, and changes to them are counted.

    >>> can_pack([torch.zeros(2, 2, dtype=torch.float64)])
    False
    """
    return all(
        [
            torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
            torch.backends.cpu.get_cpu_capability().startswith("AVX"),
            *(hasattr(torch.ops.mkldnn, name) for name in _OPERATIONS),
            *(w.device.type == "cpu" and w.dtype == torch.float32 and not w.is_inference() for w in weights),
            sum(weight.nbytes for weight in weights) <= MOST_BYTES,
        ]
    )


class PackedLinear:
    """A linear layer of `weight`, (outputs, inputs), in the order in memory that suits the processor.

    A step of many decoding requests multiplies each weight with a few dozen rows. At that size most of a plain
    product's time goes into loading the weight in an order that suits the processor; oneDNN's blocked layout has that
    order in memory. `torch.compile` packs weights in the same way when it freezes a model. oneDNN compiles code for
    each number of rows that it meets: a millisecond and half a megabyte each time. So rows are padded to a multiple of
    8, and up to 64 rows there are only eight numbers. A product of more rows, as in a prefill, is faster with the plain
    weight. Only where `can_pack` says so.

    >>> weight = torch.tensor([[1.0, 2.0]])
    >>> not can_pack([weight]) or PackedLinear(weight)(torch.ones(8, 2), None).tolist() == [[3.0]] * 8
    True
    """

    def __init__(self, weight: Tensor):
        self._made_of, self._version = weight, weight._version
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight)

    def is_of(self, weight: Tensor) -> bool:
        """Return whether it was made of this tensor, which was not changed in place since then.

        >>> weight = torch.ones(1, 2)
        >>> layer = PackedLinear(weight) if can_pack([weight]) else None
        >>> weight += 1
        >>> layer is not None and layer.is_of(weight)
        False
        """
        return weight is self._made_of and weight._version == self._version

    def __call__(self, x: Tensor, bias: Tensor | None) -> Tensor:
        """Apply the layer to x (rows, inputs): (rows, outputs)."""
        padded = functional.pad(x, (0, 0, 0, -len(x) % STEP_ROWS))
        out: Tensor = torch.ops.mkldnn._linear_pointwise(padded, self._weight, bias, "none", [], "")
        return out[: len(x)]
