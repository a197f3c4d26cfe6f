"""The folder of a checkpoint: its config, and its weights, as safetensors in one file or in shards.

A setting that would change the logits, and that the decoder of `llama.py` does not have, is an error: wrong logits look
like right ones, and a cache cannot be blamed for them. The `safetensors` library maps a file, so a weight comes off the
disk when it is used for the first time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import pi
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from minikv.errors import bounded, shown
from minikv.files import FileName
from minikv.sizing import KVShape
from minikv.untrusted import bool_field, float_field, int_field, read_json, refusal, refused, token_ids

_ATTENTION = "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"
_MLP = "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"
_BIASED: dict[Any, tuple[str, ...]] = {"llama": (), "mistral": (), "qwen2": _ATTENTION[:3]}  # always, by model_type
_SIZES = "hidden_size", "intermediate_size", "vocab_size"
_DEFAULTS = {"max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10000.0}
_SETTINGS = {  # what must be so; a setting that is absent is so
    "hidden_act": ("silu",),
    "quantization_config": (None,),
    "partial_rotary_factor": (1.0, None),
}
_SCALING: dict[str, dict[str, float]] = {  # the numbers that each type of RoPE needs, and the least that each may be
    "default": {},
    "linear": {"factor": 1},
    "llama3": {
        "factor": 1,
        "low_freq_factor": 1e-6,
        "high_freq_factor": 1e-6,
        "original_max_position_embeddings": 1,
    },
}


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes and switches of one decoder, as `Llama` needs them.

    `shape` is what a KV store must hold; `rope_theta` and `rope_scaling` are RoPE's; `biased` are the projections that
    have a bias; `eos` are the ids that end a sequence, `bos` the one that begins it, if any; `max_length` is in tokens.

    >>> sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    >>> config = LlamaConfig.read({"model_type": "llama", "vocab_size": 257, "num_key_value_heads": 2, **sizes})
    >>> config.shape.attention, config.shape.head_dim, config.rope_theta
    ('GQA', 16, 10000.0)
    >>> LlamaConfig.read({"model_type": "llama", "vocab_size": 257, "hidden_act": "gelu", **sizes})
    Traceback (most recent call last):
    ValueError: hidden_act is 'gelu': this decoder knows only 'silu'
    """

    shape: KVShape
    num_heads: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    max_length: int
    eos: frozenset[int]
    bos: int | None
    norm_eps: float
    rope_theta: float
    rope_scaling: Mapping[str, float]
    tied: bool
    biased: frozenset[str]

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> LlamaConfig:
        """Read a `config.json`; `ValueError` names the first setting that this decoder does not have."""
        kind = config.get("model_type")
        if str(kind) not in _BIASED:
            raise ValueError(f"model_type is {bounded(kind)}: expected one of {', '.join(_BIASED)}")
        settings = _settings(config)
        shape = KVShape.from_config(config)
        if shape.head_dim % 2:
            raise ValueError(f"head_dim is {shape.head_dim}: RoPE turns pairs of numbers, so it must be even")
        biased = _BIASED[kind]
        if bool_field(config, "attention_bias"):
            biased = biased or _ATTENTION
        return cls(
            shape=shape,
            num_heads=shape.num_heads or shape.num_kv_heads,
            **{name: int_field(name, config.get(name)) for name in _SIZES},
            max_length=int_field("max_position_embeddings", settings["max_position_embeddings"]),
            eos=frozenset(token_ids(config, "eos_token_id")),
            bos=next(iter(token_ids(config, "bos_token_id")), None),
            norm_eps=float_field("rms_norm_eps", settings["rms_norm_eps"], 1e-30, 1),
            rope_theta=float_field("rope_theta", settings["rope_theta"], least=1),
            rope_scaling=_scaling(settings),
            tied=bool_field(config, "tie_word_embeddings"),
            biased=frozenset(biased + (_MLP if bool_field(config, "mlp_bias") else ())),
        )


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config with defaults, and with RoPE's settings from either of the two places in which they are written.

    `ValueError` for a setting that would change the logits in a way that this decoder does not know.
    """
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    found = {**_DEFAULTS, "rope_type": rope.get("type", "default"), **config, **rope}
    for name, known in _SETTINGS.items():
        if found.get(name, known[0]) not in known:
            raise ValueError(f"{name} is {bounded(found[name])}: this decoder knows only {known[0]!r}")
    return found


def _scaling(settings: Mapping[str, Any]) -> dict[str, float]:
    kind = settings["rope_type"]
    if str(kind) not in _SCALING:
        raise ValueError(f"rope_type is {bounded(kind)}: expected one of {', '.join(_SCALING)}")
    found = {
        name: float_field(f"{name} of RoPE type {kind}", settings.get(name), least)
        for name, least in _SCALING[kind].items()
    }
    if kind == "llama3" and found["low_freq_factor"] >= found["high_freq_factor"]:
        raise ValueError(f"low_freq_factor is {found['low_freq_factor']:g}: expected less than high_freq_factor")
    return found


def read_llama_config(folder: FileName) -> LlamaConfig:
    """The config of a checkpoint folder; the end tokens are those of its `generation_config.json`, if that names any.

    `FileNotFoundError` where there is no `config.json`.

    >>> from minikv.files import asset
    >>> sorted(read_llama_config(asset("model")).eos)
    [256]
    """
    path, generation = Path(folder) / "config.json", Path(folder) / "generation_config.json"
    if not path.exists():
        raise FileNotFoundError(f"{folder} has no config.json: expected the folder of a checkpoint")
    settings = read_json(path)
    ends = read_json(generation).get("eos_token_id") if generation.exists() else None
    with refused(str(path)):
        return LlamaConfig.read(settings if ends is None else {**settings, "eos_token_id": ends})


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
    if "low_freq_factor" not in scaling:
        return [turn / scaling.get("factor", 1) for turn in plain]
    factor, low, high, context = (scaling[name] for name in _SCALING["llama3"])
    turns = [turn * context / (2 * pi) for turn in plain]  # in the original context
    kept = [min(1.0, max(0.0, (many - low) / (high - low))) for many in turns]
    return [turn * (share + (1 - share) / factor) for turn, share in zip(plain, kept)]


# -- weights ----------------------------------------------------------------------------------------------------------


def read_weights(folder: FileName) -> dict[str, Tensor]:
    """All tensors of a checkpoint folder: `model.safetensors`, or its shards `model-00001-of-00003.safetensors`.

    They share the files' pages in memory until they are changed. `FileNotFoundError` says what was looked for;
    `ValueError` names a file that is cut off, or is no safetensors file.

    >>> from minikv.files import asset
    >>> read_weights(asset("model"))["model.norm.weight"].dtype
    torch.float16
    """
    whole, found = Path(folder) / "model.safetensors", dict[str, Tensor]()
    files = [whole] if whole.exists() else sorted(Path(folder).glob("model-*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder} has neither model.safetensors nor shards model-*.safetensors")
    for path in files:
        try:
            found |= load_file(path)
        except SafetensorError as error:
            raise refusal(f"{path} is not a safetensors file", error) from None
    return found


def weight_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Every weight that a checkpoint of this config has, by Hugging Face's name, and its shape.

    >>> from minikv.files import asset
    >>> weight_shapes(read_llama_config(asset("model")))["model.layers.0.self_attn.k_proj.weight"]
    (64, 192)
    """
    hidden, wide, head = config.hidden_size, config.intermediate_size, config.shape.head_dim
    queries, keys = config.num_heads * head, config.shape.num_kv_heads * head
    parts = {
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "mlp.gate_proj": (wide, hidden),
        "mlp.up_proj": (wide, hidden),
        "mlp.down_proj": (hidden, wide),
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config.vocab_size, hidden)}
    for layer in range(config.shape.num_layers):
        name = f"model.layers.{layer}"
        for part, shape in parts.items():
            shapes[f"{name}.{part}.weight"] = shape
            if part in config.biased:
                shapes[f"{name}.{part}.bias"] = shape[:1]
    shapes["model.norm.weight"] = (hidden,)
    return shapes if config.tied else {**shapes, "lm_head.weight": (config.vocab_size, hidden)}


def check_weights(config: LlamaConfig, weights: Mapping[str, Tensor], whose: str = "the checkpoint") -> None:
    """Raise the `ValueError` that names a weight that is missing, unknown, or of another shape than by the config."""
    shapes = weight_shapes(config)
    for name, shape in shapes.items():
        if name not in weights:
            raise ValueError(f"{whose} has no {name}, which its config asks for")
        found = tuple(weights[name].shape)
        if found != shape:
            raise ValueError(f"{name} of {whose} is {bounded(found)}: its config asks for {shape}")
    for name in weights:
        if name not in shapes:
            raise ValueError(f"{whose} has {shown(name)}, which its config does not mention")
