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

from collections.abc import Callable, Mapping, Sequence
from math import pi
from os import PathLike
from typing import Any

import torch
from torch.nn import functional

from minikv.errors import bounded, shown
from minikv.serving.attention import StepAttention
from minikv.serving.batch import Batch, last_chunks
from minikv.serving.checkpoint import LlamaConfig, read_llama_config, read_weights
from minikv.serving.model import Chunk
from minikv.serving.packed import STEP_ROWS, PackedLinear, can_pack
from minikv.sizing import KVShape

Weights = Mapping[str, torch.Tensor]
Angles = tuple[torch.Tensor, torch.Tensor]  # cosines and sines
BLOCK = 512  # tokens


class Llama:
    """A decoder with its weights; `forward` computes chunks of sequences, with K and V in a store.

    `weights` have Hugging Face's names and the shapes that `weight_shapes(config)` lists; all are of one dtype and on
    one device. `ValueError` names a weight that is missing, unknown or of another shape. `attention(batch, store)`
    makes the attention of a step, as `StepAttention` does. In float32 on a CPU, up to 2 GiB of weights are kept twice:
    steps of many tokens multiply with packed ones (`packed.py`).

    >>> from minikv import asset
    >>> model = Llama.from_folder(asset("model")); model
    Llama(5 layers, 6 heads on 2 KV heads of 32, vocabulary 257, torch.float32 on cpu)
    >>> model.shape.attention
    'GQA'
    """

    def __init__(self, config: LlamaConfig, weights: Weights, attention: Callable[[Batch, Any], Any] = StepAttention):
        _check_weights(weight_shapes(config), weights)
        self.config, self.weights, self.attention = config, weights, attention
        self._rope = torch.tensor(rope_frequencies(config), device=self.device)
        self._norms_in = torch.promote_types(self.dtype, torch.float32)
        self._can_pack, self._packed = can_pack(weights.values()), dict[tuple[str, ...], PackedLinear]()

    @classmethod
    def from_folder(cls, path: str | PathLike[str], device: Any = "cpu", dtype: torch.dtype | None = None) -> Llama:
        """Read a checkpoint: a local folder with `config.json` and safetensors, in one file or in shards.

        Without a `dtype` it computes in float32 on a CPU, elsewhere in what the checkpoint is stored in.
        """
        config, found = read_llama_config(path), read_weights(path)
        if config.tied:
            found.pop("lm_head.weight", None)  # some checkpoints store it twice
        found = {name: weight for name, weight in found.items() if not name.endswith("rotary_emb.inv_freq")}
        _check_weights(weight_shapes(config), found)
        if dtype is None:
            cpu = torch.device(device).type == "cpu"
            dtype = torch.float32 if cpu else found["model.embed_tokens.weight"].dtype
        return cls(config, {name: weight.to(device, dtype) for name, weight in found.items()})

    @classmethod
    def random(cls, config: LlamaConfig, seed: int = 0, dtype: torch.dtype = torch.float32) -> Llama:
        """A model that knows nothing: norms are 1, biases 0, the rest drawn with standard deviation 1 / sqrt(fan-in).

        The same seed gives the same weights.
        """
        generator = torch.Generator().manual_seed(seed)
        weights = {}
        for name, shape in weight_shapes(config).items():
            drawn = torch.randn(shape, generator=generator, dtype=torch.float64) * shape[-1] ** -0.5
            if len(shape) == 1:
                drawn = torch.full(shape, 0.0 if name.endswith("bias") else 1.0)
            weights[name] = drawn.to(dtype)
        return cls(config, weights)

    @property
    def shape(self) -> KVShape:
        """What a store must hold for it."""
        return self.config.shape

    @property
    def vocab_size(self) -> int:
        """Token ids are below it."""
        return self.config.vocab_size

    @property
    def eos(self) -> frozenset[int]:
        """The ids that end a sequence."""
        return self.config.eos

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in."""
        return self.weights["model.embed_tokens.weight"].dtype

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.weights["model.embed_tokens.weight"].device

    @torch.inference_mode()
    def forward(self, chunks: Sequence[Chunk], store: Any) -> torch.Tensor:
        """The logits of the token after each chunk, (len(chunks), vocab_size); all chunks are computed in one step.

        A chunk with more `num_logits` has as many rows, in the order of its tokens.
        """
        return self.logits(chunks, store)

    def logits(self, chunks: Sequence[Chunk], store: Any) -> torch.Tensor:
        """`forward`, in the mode that torch is in: for training, which needs gradients.

        They reach every weight when each chunk starts at token 0 and has at least 2 tokens; keys and values that
        attention reads from the store have none.
        """
        embedding = self.weights["model.embed_tokens.weight"]
        batch = Batch(chunks, self.vocab_size, embedding)
        attention, angles = self.attention(batch, store), self._angles(batch.positions)
        x, last = functional.embedding(batch.tokens, embedding), self.shape.num_layers - 1
        for layer in range(last):
            x = self._layer(x, layer, attention, angles)
        if torch.is_grad_enabled() or len(batch.tokens) == len(batch.last):
            x = self._layer(x, last, attention, angles)[batch.last]
        else:  # the last layer is needed at the ends alone, which read the keys and values of the others in the store
            ends = Batch(last_chunks(chunks), self.vocab_size, embedding)
            x = self._layer(x, last, attention, angles, (batch.last[ends.last.argsort()], self.attention(ends, store)))
            x = x[ends.last]
        (logits,) = self._linears(self._norm(x, "model.norm"), "model.embed_tokens" if self.config.tied else "lm_head")
        return logits

    # -- the parts --------------------------------------------------------------------------------------------------

    def _linears(self, x: torch.Tensor, *names: str) -> tuple[torch.Tensor, ...]:
        """What each of the linear layers called `names` makes of x, (tokens, inputs)."""
        weights = [self.weights[f"{name}.weight"] for name in names]
        biases = [self.weights.get(f"{name}.bias") for name in names]
        if not self._can_pack or len(x) < STEP_ROWS or torch.is_grad_enabled():
            return tuple(map(functional.linear, [x] * len(names), weights, biases))
        packed = self._packed.get(names)
        if packed is None or not packed.is_of(weights, biases):
            self._packed[names] = packed = PackedLinear(weights, biases)
        return packed(x)

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        wide = x.to(self._norms_in)
        length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)  # one pass over x, where a mean of squares is two
        scale = torch.rsqrt(length * length * (1 / x.shape[-1]) + self.config.norm_eps)
        return self.weights[f"{name}.weight"] * (wide * scale).to(x.dtype)

    def _layer(
        self,
        x: torch.Tensor,
        layer: int,
        attention: Any,
        angles: Angles,
        ends: tuple[torch.Tensor, Any] | None = None,
    ) -> torch.Tensor:
        """Attend and think: (tokens, hidden) to (tokens, hidden). With `ends` it continues with those rows only."""
        name, head = f"model.layers.{layer}", self.shape.head_dim
        h = self._norm(x, f"{name}.input_layernorm")
        k_proj, v_proj, q_proj = (f"{name}.self_attn.{part}_proj" for part in "kvq")
        k, v, *q = self._linears(h, k_proj, v_proj, *([q_proj] if ends is None else []))
        k, v = apply_rotary(k.view(len(h), -1, head), *angles), v.view(len(h), -1, head)
        attention.write(layer, k, v)
        if ends is not None:
            rows, attention = ends
            x, k, v, angles = x[rows], k[rows], v[rows], (angles[0][rows], angles[1][rows])
            q = [*self._linears(h[rows], q_proj)]
        out = attention(layer, apply_rotary(q[0].view(len(x), -1, head), *angles), k, v)
        x = x + self._linears(out.flatten(1), f"{name}.self_attn.o_proj")[0]
        return x + self._mlp(self._norm(x, f"{name}.post_attention_layernorm"), f"{name}.mlp")

    def _mlp(self, h: torch.Tensor, name: str) -> torch.Tensor:
        """SwiGLU, some tokens at a time, so that what is between the projections stays in the processor's cache."""
        found: list[torch.Tensor] = []
        for block in [h] if len(h) <= BLOCK else torch.split(h, BLOCK):
            (gate,), (up,) = (self._linears(block, f"{name}.{part}_proj") for part in ("gate", "up"))
            found += self._linears(swiglu(gate, up), f"{name}.down_proj")
        return found[0] if len(found) == 1 else torch.cat(found)

    def _angles(self, positions: torch.Tensor) -> Angles:
        """By which `positions` rotate: the cosines (tokens, 1, head_dim), twice over, and the sines, once."""
        angles = (positions[:, None].float() * self._rope)[:, None]
        cos, sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        return torch.cat([cos, cos], dim=-1), sin

    def __repr__(self) -> str:
        shape = self.shape
        heads = f"{shape.num_layers} layers, {self.config.num_heads} heads on {shape.num_kv_heads} KV heads"
        return f"Llama({heads} of {shape.head_dim}, vocabulary {self.vocab_size}, {self.dtype} on {self.device})"


def rope_frequencies(config: LlamaConfig) -> list[float]:
    """How far RoPE turns each pair of a head's numbers per position, in radians; `head_dim / 2` of them, falling.

    Llama 3 stretches the slow ones, those that turn less than `low_freq_factor` times in the original context, by
    `factor`, leaves the fast ones, and blends in between. After "RoFormer" (Su et al.) and Llama 3.1's reference code.

    >>> sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    >>> rope_frequencies(LlamaConfig.read({"model_type": "llama", "vocab_size": 9, "rope_theta": 100, **sizes}))
    [1.0, 0.1]
    """
    dim = config.shape.head_dim
    plain = [config.rope_theta ** -(i / dim) for i in range(0, dim, 2)]
    scaling = config.rope_scaling
    if scaling is None:
        return plain
    if scaling["rope_type"] == "linear":
        return [turn / scaling["factor"] for turn in plain]
    names = "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"
    low, high, context = (scaling[name] for name in names)
    turns = [turn * context / (2 * pi) for turn in plain]  # in the original context
    kept = [min(1.0, max(0.0, (many - low) / (high - low))) for many in turns]
    return [turn * (share + (1 - share) / scaling["factor"]) for turn, share in zip(plain, kept)]


def apply_rotary(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
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


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up, in the memory of `gate`, unless gradients are needed: new memory is slow.

    >>> swiglu(torch.zeros(2), torch.ones(2)).tolist()
    [0.0, 0.0]
    """
    if gate.requires_grad:
        return functional.silu(gate) * up
    return functional.silu(gate, inplace=True).mul_(up)


def weight_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Every weight that a checkpoint of this config has, by Hugging Face's name, and its shape.

    >>> from minikv import asset
    >>> weight_shapes(read_llama_config(asset("model")))["model.layers.0.self_attn.k_proj.weight"]
    (64, 192)
    """
    hidden, wide, head = config.hidden_size, config.intermediate_size, config.shape.head_dim
    queries, keys = config.num_heads * head, config.shape.num_kv_heads * head
    linears = {
        "self_attn.q_proj": (queries, hidden, config.qkv_bias),
        "self_attn.k_proj": (keys, hidden, config.qkv_bias),
        "self_attn.v_proj": (keys, hidden, config.qkv_bias),
        "self_attn.o_proj": (hidden, queries, config.output_bias),
        "mlp.gate_proj": (wide, hidden, config.mlp_bias),
        "mlp.up_proj": (wide, hidden, config.mlp_bias),
        "mlp.down_proj": (hidden, wide, config.mlp_bias),
    }
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config.vocab_size, hidden)}
    for layer in range(config.shape.num_layers):
        name = f"model.layers.{layer}"
        for part, (outputs, inputs, bias) in linears.items():
            shapes[f"{name}.{part}.weight"] = (outputs, inputs)
            if bias:
                shapes[f"{name}.{part}.bias"] = (outputs,)
        shapes[f"{name}.input_layernorm.weight"] = shapes[f"{name}.post_attention_layernorm.weight"] = (hidden,)
    shapes["model.norm.weight"] = (hidden,)
    return shapes if config.tied else {**shapes, "lm_head.weight": (config.vocab_size, hidden)}


def _check_weights(shapes: Mapping[str, tuple[int, ...]], weights: Weights) -> None:
    for name, shape in shapes.items():
        if name not in weights:
            raise ValueError(f"the checkpoint has no {name}, which its config asks for")
        if tuple(weights[name].shape) != shape:
            raise ValueError(f"{name} is {bounded(tuple(weights[name].shape))}: by the config it is {shape}")
    for name in weights:
        if name not in shapes:
            raise ValueError(f"the checkpoint has {shown(name)}, of which its config says nothing")
