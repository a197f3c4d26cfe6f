"""How many FLOPs it takes to prefill a prompt, and so what a cached prefix saves: from a model's `config.json`.

A multiplication and the addition after it are two FLOPs. Each token is multiplied once with every matrix that is
active for it: those of attention, and of the MLP or of the experts that it is sent to. And its query meets the keys and
values of every position up to its own:

    a token at position p      2 x active parameters  +  2 x layers x heads x (key size + value size) x p
    a prefix of n tokens       2 x active parameters x n  +  2 x layers x heads x (key size + value size) x n(n + 1)/2

With values as long as keys the second term is 4 x layers x heads x head size x p. After PaLM (Chowdhery et al., 2022,
appendix B), where a training step is three times a forward pass: 6N + 12 x layers x heads x head size x length.

The embedding is a lookup, and the output head is needed for the last token of a prompt alone, so neither counts. Every
layer counts as full attention, as in `sizing`; `require_full_attention` refuses a model of which that is not true.
Latent attention (DeepSeek) counts as its prefill runs, with keys and values decompressed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minikv.errors import bounded
from minikv.sizing import ConfigSource, KVShape, read_config, whole_config
from minikv.untrusted import bool_field, int_field

_TWO_MATRICES = {"gpt_neox", "nemotron", "phi", "starcoder2"}  # an MLP without a gate
_TIED = {"gemma", "gemma2", "gemma3_text"}  # tied unless their config says otherwise
# Fields of a config that change what layers keep, and the values with which a layer keeps K and V of every token.
_FULL: dict[str, tuple[object, ...]] = {
    "layer_types": ("full_attention",), "layers_block_type": ("attention",), "block_types": ("attention",),
    "attn_type_list": (1,), "hybrid_override_pattern": (), "full_attention_interval": (1,), "attn_layer_period": (1,),
    "attn_layer_indices": (), "linear_attn_config": (), "linear_num_key_heads": (), "mamba_d_state": (),
    "ssm_state_size": (), "use_sliding_window": (), "sliding_window": (), "sliding_window_pattern": (),
    "attention_window_size": (), "attention_chunk_size": (), "num_kv_shared_layers": (), "index_topk": (),
    "index_n_heads": (), "index_head_dim": (), "kv_cache_quant_algo": (), "kv_cache_scheme": (),
}  # fmt: skip
_QUANTIZATION = ("quantization_config", "quantization", "compression_config")


def require_full_attention(source: ConfigSource) -> None:
    """Raise `ValueError`, which names the field, for a config whose cache is not of the size that is counted here.

    Layers with a window, a chunk, a recurrent state, an indexer, or the keys and values of another layer need more or
    less than full attention does, and so do keys and values that the checkpoint quantizes. Takes what
    `KVShape.from_config` takes.

    >>> require_full_attention({"sliding_window": 4096, "use_sliding_window": False})
    >>> require_full_attention({"sliding_window": 4096})
    Traceback (most recent call last):
    ValueError: sliding_window in the config is 4096: sizes are known only for full attention that is not quantized
    """
    whole, name = whole_config(source)
    text = read_config(source)[0]
    parts = [whole, text, *(config.get(key) for config in (whole, text) for key in _QUANTIZATION)]
    for config in (part for part in parts if isinstance(part, Mapping)):
        for field, full in _FULL.items():
            value = config.get(field)
            values = value if isinstance(value, list) else [value] if value else []
            partial = [item for item in values if item not in full]
            if partial and (field != "sliding_window" or config.get("use_sliding_window") is not False):
                found = f"{field} in {name} {'has' if values is value else 'is'} {bounded(partial[0])}"
                raise ValueError(f"{found}: sizes are known only for full attention that is not quantized")


@dataclass(frozen=True)
class PrefillCost:
    """The cost of computing a prompt: `active` parameters for each token, `per_pair` FLOPs for each two positions.

    `total` is all parameters, the embedding and the output head too, which are one where they are tied; biases, which
    are below a thousandth, are left out.

    >>> cost = PrefillCost.from_config("llama-3.1-8b")
    >>> cost.total, cost.active, cost.per_pair
    (8030261248, 6979321856, 524288)
    >>> f"{cost.flops(1000):.4g}"
    '1.422e+13'
    """

    total: int
    active: int
    per_pair: int

    def flops(self, tokens: int) -> int:
        """The FLOPs of the first `tokens` tokens of a prompt.

        >>> PrefillCost(total=10, active=8, per_pair=4).flops(3)
        72
        """
        return 2 * self.active * tokens + self.per_pair * (tokens * (tokens + 1) // 2)

    @classmethod
    def from_config(cls, source: ConfigSource) -> PrefillCost:
        """Read the cost from a Hugging Face `config.json`, as `KVShape.from_config` does; experts included.

        >>> deepseek = PrefillCost.from_config("deepseek-v3")
        >>> f"{deepseek.total / 1e9:.1f} billion, of which {deepseek.active / 1e9:.1f} billion compute a token"
        '671.0 billion, of which 35.7 billion compute a token'
        """
        shape = KVShape.from_config(source)
        config = _Fields(*read_config(source))
        hidden, layers = config.need("hidden_size"), shape.num_layers
        attention, pair = _latent(config, hidden) if shape.latent_dim else _grouped(shape, config, hidden)
        all_mlps, active_mlps = _mlps(config, hidden, layers)
        tied = config.get("tie_word_embeddings") is None and config.get("model_type") in _TIED
        embeddings = 1 if tied or bool_field(config.config, "tie_word_embeddings") else 2
        outside = embeddings * config.need("vocab_size") * hidden + (2 * layers + 1) * hidden  # and the norms
        return cls(layers * attention + all_mlps + outside, layers * attention + active_mlps, 2 * layers * pair)


class _Fields:
    """The fields of a config, each checked when it is read."""

    def __init__(self, config: Mapping[str, Any], name: str):
        self.config, self._name = config, name
        self.get = config.get

    def need(self, key: str) -> int:
        if self.get(key) is None:
            raise ValueError(f"{self._name} has no {key}: its parameters cannot be counted")
        return int_field(f"{key} in {self._name}", self.get(key))

    def count(self, *keys: str, default: int = 0) -> int:
        """The first of `keys` that is there, 0 or more."""
        for key in keys:
            if self.get(key) is not None:
                return int_field(f"{key} in {self._name}", self.get(key), "0 or more", least=0)
        return default


def _grouped(shape: KVShape, config: _Fields, hidden: int) -> tuple[int, int]:
    """The parameters of one layer's attention, and heads x (key size + value size)."""
    heads = config.need("num_attention_heads")
    keys, values = shape.head_dim, shape.v_head_dim or shape.head_dim
    return hidden * (heads + shape.num_kv_heads) * (keys + values), heads * (keys + values)


def _latent(config: _Fields, hidden: int) -> tuple[int, int]:
    """The same for latent attention: queries, and keys and values, are made from short vectors."""
    heads, latent = config.need("num_attention_heads"), config.need("kv_lora_rank")
    nope, rope, values = config.need("qk_nope_head_dim"), config.need("qk_rope_head_dim"), config.need("v_head_dim")
    short = config.count("q_lora_rank")
    queries = short * (hidden + heads * (nope + rope)) if short else hidden * heads * (nope + rope)
    compressed = hidden * (latent + rope) + latent * heads * (nope + values)
    return queries + compressed + heads * values * hidden, heads * (nope + rope + values)


def _mlps(config: _Fields, hidden: int, layers: int) -> tuple[int, int]:
    """The parameters of all layers' MLPs: all of them, and those that are active for a token."""
    matrices = 2 if config.get("model_type") in _TWO_MATRICES else 3
    experts = config.count("n_routed_experts", "num_local_experts", "num_experts")
    dense = matrices * hidden * (config.count("intermediate_size_mlp") or config.need("intermediate_size"))
    if not experts:
        return layers * dense, layers * dense
    width = config.count("moe_intermediate_size") or config.need("intermediate_size")
    shared = config.count("n_shared_experts") * width + config.count("shared_expert_intermediate_size")
    if config.get("interleave_moe_layer_step") is not None:  # Llama 4: one expert more, which every token meets
        shared += width
    chosen = config.need("num_experts_per_tok")
    sparse = _sparse_layers(config, layers)
    every, router = matrices * hidden * shared, hidden * experts
    all_of_it, active = (every + router + count * matrices * hidden * width for count in (experts, chosen))
    return (layers - sparse) * dense + sparse * all_of_it, (layers - sparse) * dense + sparse * active


def _sparse_layers(config: _Fields, layers: int) -> int:
    """How many layers have experts: not the first ones (DeepSeek), every n-th (Qwen, Llama 4), not those listed."""
    first = config.count("first_k_dense_replace")
    step = max(1, config.count("moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step", default=1))
    listed = config.get("mlp_only_layers")
    dense = set(listed) if isinstance(listed, list) and all(type(layer) is int for layer in listed) else set()
    offset = 0 if config.get("moe_layer_freq") is not None else 1
    return sum(1 for layer in range(first, layers) if (layer + offset) % step == 0 and layer not in dense)
