"""How many FLOPs it takes to prefill a prompt, and so what a cached prefix saves: from a model's `config.json`.

A multiplication and the addition after it are two FLOPs. Each token is multiplied once with every matrix that is
active for it: those of attention, and of the MLP or of the experts that it is sent to. And its query meets the keys and
values of every position up to its own:

    a token at position p      2 x active parameters  +  2 x layers x heads x (key size + value size) x p
    a prefix of n tokens       2 x active parameters x n  +  2 x layers x heads x (key size + value size) x n(n + 1)/2

With values as long as keys the second term is 4 x layers x heads x head size x p. After PaLM (Chowdhery et al., 2022,
appendix B), where a training step is three times a forward pass: 6N + 12 x layers x heads x head size x length.

The embedding is a lookup, and the output head is needed for the last token of a prompt alone, so neither counts. In a
layer with a window or a chunk a query meets fewer positions. Latent attention (DeepSeek) counts as its prefill runs,
with keys and values decompressed. Layers with a state or an indexer, and those that use others' keys, are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from minikv.model_types import ConfigSource, ModelConfig, model_of
from minikv.sizing import KVShape, shape_of
from minikv.untrusted import bool_field

_COUNTED = {"full_attention", "sliding_attention", "chunked_attention"}
_TWO_MATRICES = {"apertus", "arcee", "gpt_neox", "nemotron", "phi", "starcoder2"}  # an MLP without a gate


@dataclass(frozen=True)
class PrefillCost:
    """The cost of computing a prompt: `active` parameters for each token, `per_pair` FLOPs for each two positions.

    `total` is all parameters, the embedding and the output head too, which are one where they are tied; biases, which
    are below a thousandth, are left out. `windows` are the layers that see fewer tokens: how many, the FLOPs for each
    two positions, and whether they are chunks, which do not overlap.

    >>> cost = PrefillCost.from_config("llama-3.1-8b")
    >>> cost.total, cost.active, cost.per_pair
    (8030261248, 6979321856, 524288)
    >>> f"{cost.flops(1000):.4g}"
    '1.422e+13'
    """

    total: int
    active: int
    per_pair: int
    windows: tuple[tuple[int, int, bool], ...] = ()

    def flops(self, tokens: int) -> int:
        """The FLOPs of the first `tokens` tokens of a prompt.

        >>> PrefillCost(total=10, active=8, per_pair=4).flops(3)
        72
        """
        pairs = self.per_pair * _pairs(tokens)
        for window, per_pair, chunked in self.windows:
            if chunked:
                pairs += per_pair * (tokens // window * _pairs(window) + _pairs(tokens % window))
            else:
                pairs += per_pair * (_pairs(tokens) - _pairs(max(0, tokens - window)))
        return 2 * self.active * tokens + pairs

    @classmethod
    def from_config(cls, source: ConfigSource) -> PrefillCost:
        """Read the cost from a Hugging Face `config.json`, as `KVLayers.from_config` does; experts included.

        `ValueError` names what is not counted.

        >>> deepseek = PrefillCost.from_config("deepseek-v3")
        >>> f"{deepseek.total / 1e9:.1f} billion, of which {deepseek.active / 1e9:.1f} billion compute a token"
        '671.0 billion, of which 35.7 billion compute a token'
        """
        model = model_of(source)
        _require_counted(model)
        shape, hidden, layers = shape_of(model), model.need("hidden_size"), len(model.kinds)
        attention, pair = _latent(model, hidden) if shape.latent_dim else _grouped(shape, model, hidden)
        all_mlps, active_mlps = _mlps(model, hidden, layers)
        embeddings = 1 if bool_field(model.config, "tie_word_embeddings") else 2
        outside = embeddings * model.need("vocab_size") * hidden + (2 * layers + 1) * hidden  # and the norms
        windows = [
            (model.need(field), 2 * pair * model.kinds.count(kind), kind == "chunked_attention")
            for kind, field in (("sliding_attention", "sliding_window"), ("chunked_attention", "attention_chunk_size"))
            if kind in model.kinds
        ]
        total, active = layers * attention + all_mlps + outside, layers * attention + active_mlps
        return cls(total, active, 2 * model.kinds.count("full_attention") * pair, tuple(windows))


def _pairs(tokens: int) -> int:
    """How many positions the queries of so many tokens meet, each all up to its own."""
    return tokens * (tokens + 1) // 2


def _require_counted(model: ModelConfig) -> None:
    """Raise `ValueError` where a layer is no plain attention, or not all have the same heads and MLP."""
    other = [kind for kind in model.kinds if kind not in _COUNTED]
    for field in ("num_kv_shared_layers", "global_head_dim", "swa_head_dim", "moe_num_experts"):
        other += [field] if model.config.get(field) else []
    if other:
        raise ValueError(f"{model.name} has {other[0]}, whose parameters and FLOPs are not counted")


def _grouped(shape: KVShape, model: ModelConfig, hidden: int) -> tuple[int, int]:
    """The parameters of one layer's attention, and heads x (key size + value size)."""
    heads = model.need("num_attention_heads")
    keys, values = shape.head_dim, shape.v_head_dim or shape.head_dim
    return hidden * (heads + shape.num_kv_heads) * (keys + values), heads * (keys + values)


def _latent(model: ModelConfig, hidden: int) -> tuple[int, int]:
    """The same for latent attention: queries, and keys and values, are made from short vectors."""
    heads, latent = model.need("num_attention_heads"), model.need("kv_lora_rank")
    nope, rope, values = model.need("qk_nope_head_dim"), model.need("qk_rope_head_dim"), model.need("v_head_dim")
    short = model.count("q_lora_rank")
    queries = short * (hidden + heads * (nope + rope)) if short else hidden * heads * (nope + rope)
    compressed = hidden * (latent + rope) + latent * heads * (nope + values)
    return queries + compressed + heads * values * hidden, heads * (nope + rope + values)


def _mlps(model: ModelConfig, hidden: int, layers: int) -> tuple[int, int]:
    """The parameters of all layers' MLPs: all of them, and those that are active for a token."""
    matrices = 2 if model.config.get("model_type") in _TWO_MATRICES else 3
    experts = model.count("n_routed_experts", "num_local_experts", "num_experts")
    dense = matrices * hidden * (model.count("intermediate_size_mlp") or model.need("intermediate_size"))
    if not experts:
        return layers * dense, layers * dense
    width = model.count("moe_intermediate_size") or model.need("intermediate_size")
    shared = model.count("n_shared_experts") * width + model.count("shared_expert_intermediate_size")
    if model.config.get("interleave_moe_layer_step") is not None:  # Llama 4: one expert more, which every token meets
        shared += width
    chosen = model.need("num_experts_per_tok")
    sparse = _sparse_layers(model, layers)
    every, router = matrices * hidden * shared, hidden * experts
    all_of_it, active = (every + router + count * matrices * hidden * width for count in (experts, chosen))
    return (layers - sparse) * dense + sparse * all_of_it, (layers - sparse) * dense + sparse * active


def _sparse_layers(model: ModelConfig, layers: int) -> int:
    """How many layers have experts: not the first ones (DeepSeek), every n-th (Qwen, Llama 4), not those listed."""
    first = model.count("first_k_dense_replace")
    step = max(1, model.count("moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step", default=1))
    listed = model.config.get("mlp_only_layers")
    dense = set(listed) if isinstance(listed, list) and all(type(layer) is int for layer in listed) else set()
    offset = 0 if model.config.get("moe_layer_freq") is not None else 1
    return sum(1 for layer in range(first, layers) if (layer + offset) % step == 0 and layer not in dense)
