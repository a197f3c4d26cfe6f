"""The folder of a checkpoint: its config, which is checked before use, and its weights, as safetensors.

A setting that would change the logits, and that the decoder of `llama.py` does not have, is an error: wrong logits look
like right ones, and a cache cannot be blamed for them. Weights are in one file, or in shards with an index. The
`safetensors` library checks that the header has at most 100 MB and that the tensors cover the data without gaps or
overlaps, and maps the file: a weight comes off the disk when it is used for the first time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import pi
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from minikv.errors import bounded, shown
from minikv.files import FileName
from minikv.sizing import KVShape
from minikv.untrusted import (
    bool_field,
    float_field,
    inside,
    int_field,
    json_object,
    read_json,
    refusal,
    require_regular,
    token_ids,
)

_BIASES = {"llama": "", "mistral": "", "qwen2": "qkv"}  # model_type: projections that always have one
_SETTINGS = {  # what must be so; a setting that is absent is so
    "hidden_act": ("silu",),
    "quantization_config": (None,),
    "partial_rotary_factor": (None, 1, 1.0),
    "sliding_window": (None,),
    "text_config": (None,),
    "kv_lora_rank": (None,),
    "v_head_dim": (None,),
}
_MOST_LAYERS = 10_000  # everything else is compared with the weights before memory is taken for it
_SCALING = {  # what each type of RoPE needs
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
_DTYPES = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes and switches of one decoder, as `Llama` needs them.

    `shape` is what a KV store must hold; `rope_theta` and `rope_scaling` are RoPE's; `qkv_bias`, `output_bias` and
    `mlp_bias` say which projections have a bias; `eos` are the ids that end a sequence, `max_length` is in tokens.

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
    norm_eps: float
    rope_theta: float
    rope_scaling: Mapping[str, Any] | None
    tied: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> LlamaConfig:
        """Read a `config.json`; `ValueError` names the first setting that this decoder does not have."""
        kind = config.get("model_type")
        if not isinstance(kind, str) or kind not in _BIASES:
            raise ValueError(f"model_type is {bounded(kind)}: expected one of {', '.join(_BIASES)}")
        _check_settings(config)
        shape = KVShape.from_config(config)
        if shape.head_dim % 2:
            raise ValueError(f"head_dim is {shape.head_dim}: RoPE turns pairs of numbers, so it must be even")
        attention_bias, heads = bool_field(config, "attention_bias"), shape.num_heads or shape.num_kv_heads
        return cls(
            shape=shape,
            num_heads=heads,
            hidden_size=_size(config, "hidden_size"),
            intermediate_size=_size(config, "intermediate_size"),
            vocab_size=_size(config, "vocab_size"),
            max_length=_size(config, "max_position_embeddings", 2048),
            eos=frozenset(token_ids(config, "eos_token_id")),
            norm_eps=float_field("rms_norm_eps", config.get("rms_norm_eps", 1e-6), 1e-30, 1),
            **_rope(config),
            tied=bool_field(config, "tie_word_embeddings"),
            qkv_bias=attention_bias or _BIASES[kind] == "qkv",
            output_bias=attention_bias and _BIASES[kind] != "qkv",
            mlp_bias=bool_field(config, "mlp_bias"),
        )


def _check_settings(config: Mapping[str, Any]) -> None:
    """Refuse each setting that would change the logits in a way that this decoder does not know."""
    int_field("num_hidden_layers", config.get("num_hidden_layers", 1), most=_MOST_LAYERS)
    if bool_field(config, "use_sliding_window"):
        raise ValueError("use_sliding_window is True: this decoder knows only False")
    off = {"sliding_window"} if config.get("use_sliding_window") is False else set()  # as Qwen2 writes it
    for name, known in _SETTINGS.items():
        value = config.get(name, known[0])
        if name not in off and (value not in known or isinstance(value, bool)):
            raise ValueError(f"{name} is {bounded(value)}: this decoder knows only {known[0]!r}")


def _size(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    if config.get(name, default) is None:
        raise ValueError(f"the config has no {name}: it does not look like a decoder's config.json")
    return int_field(name, config.get(name, default))


def _rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """Theta and scaling, from either of the two places in which they are written."""
    rope: dict[str, Any] = {}
    for name in ("rope_scaling", "rope_parameters"):
        found = config.get(name)
        if found is not None and not isinstance(found, Mapping):
            raise ValueError(f"{name} is {bounded(found)}: expected an object or null")
        rope.update(found or {})
    theta = float_field("rope_theta", rope.get("rope_theta", config.get("rope_theta", 10000.0)), least=1)
    kind, part = rope.get("rope_type", rope.get("type", "default")), rope.get("partial_rotary_factor", 1.0)
    if isinstance(part, bool) or part not in (None, 1.0):
        raise ValueError(f"partial_rotary_factor is {bounded(part)}: this decoder turns whole heads")
    if kind == "default":
        return {"rope_theta": theta, "rope_scaling": None}
    if not isinstance(kind, str) or kind not in _SCALING:
        raise ValueError(f"rope_type is {bounded(kind)}: expected default, linear or llama3")
    least = {"low_freq_factor": 1e-6, "high_freq_factor": 1e-6}
    scaling = {
        name: float_field(f"{name} of RoPE type {kind}", rope.get(name), least.get(name, 1)) for name in _SCALING[kind]
    }
    if kind == "llama3" and not scaling["low_freq_factor"] < scaling["high_freq_factor"]:
        raise ValueError(f"low_freq_factor is {scaling['low_freq_factor']:g}: expected less than high_freq_factor")
    return {"rope_theta": theta, "rope_scaling": {"rope_type": kind, **scaling}}


def read_llama_config(folder: FileName) -> LlamaConfig:
    """The config of a checkpoint folder; the end tokens are those of its `generation_config.json`, if that names any.

    `FileNotFoundError` where there is no `config.json`.

    >>> from minikv.files import asset
    >>> sorted(read_llama_config(asset("model")).eos)
    [256]
    """
    folder = Path(folder)
    path, generation = inside(folder, "config.json"), inside(folder, "generation_config.json")
    if not path.exists():
        raise FileNotFoundError(f"{folder} has no config.json: expected the folder of a checkpoint")
    settings = read_json(path)
    ends = read_json(generation).get("eos_token_id") if generation.exists() else None
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
    if scaling is None:
        return plain
    if scaling["rope_type"] == "linear":
        return [turn / scaling["factor"] for turn in plain]
    names = "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"
    low, high, context = (scaling[name] for name in names)
    turns = [turn * context / (2 * pi) for turn in plain]  # in the original context
    kept = [min(1.0, max(0.0, (many - low) / (high - low))) for many in turns]
    return [turn * (share + (1 - share) / scaling["factor"]) for turn, share in zip(plain, kept)]


# -- weights ----------------------------------------------------------------------------------------------------------


def read_weights(folder: FileName) -> dict[str, Tensor]:
    """All tensors of a checkpoint folder: `model.safetensors`, or the shards that its index lists.

    `FileNotFoundError` says what was looked for; `ValueError` names a file that is not what it says it is, or that is
    not in the folder.

    >>> from minikv.files import asset
    >>> read_weights(asset("model"))["model.norm.weight"].dtype
    torch.float16
    """
    folder = Path(folder)
    whole, index = inside(folder, "model.safetensors"), inside(folder, "model.safetensors.index.json")
    if whole.exists():
        return read_safetensors(whole)
    if not index.exists():
        raise FileNotFoundError(f"{folder} has neither {whole.name} nor {index.name}")
    homes = read_json(index).get("weight_map")
    if not isinstance(homes, dict) or not homes:
        raise ValueError(f"{index} has the weight_map {bounded(homes)}: expected the file of each weight")
    for home in homes.values():
        inside(folder, home)
    shards = {home: read_safetensors(folder / home) for home in sorted(set(homes.values()))}
    for name, home in homes.items():
        if name not in shards[home]:
            raise ValueError(f"{index} says that {bounded(name)} is in {bounded(home)}: it is not")
    return {name: shards[home][name] for name, home in homes.items()}


def read_safetensors(path: FileName) -> dict[str, Tensor]:
    """The tensors of one file, by name; they share its pages in memory until they are changed.

    `ValueError` names the file and what is wrong with it.

    >>> from minikv.files import asset
    >>> read_safetensors(asset("model/model.safetensors"))["model.norm.weight"].shape
    torch.Size([192])
    """
    path = Path(path)
    require_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            _refuse_repeated_names(path)
            for name in file.keys():  # noqa: SIM118 - it is no dictionary
                if (dtype := file.get_slice(name).get_dtype()) not in _DTYPES:
                    raise ValueError(f"{bounded(name)} in {path} is {dtype}: expected one of {', '.join(_DTYPES)}")
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise refusal(f"{path} is not a safetensors file", error) from None
    except (RuntimeError, MemoryError) as error:  # what torch raises where it cannot map the file
        size = path.stat().st_size
        raise refusal(f"{path} has {size} bytes: expected what fits into memory", error, between="; ") from None


def _refuse_repeated_names(path: Path) -> None:
    """The library takes the last tensor of a name; the file, which it has opened, is sound otherwise."""
    with path.open("rb") as file:
        json_object(file.read(int.from_bytes(file.read(8), "little")), f"the header of {path}")


def weight_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Every weight that a checkpoint of this config has, by Hugging Face's name, and its shape.

    >>> from minikv.files import asset
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


def check_weights(config: LlamaConfig, weights: Mapping[str, Tensor]) -> None:
    """Raise the `ValueError` that names a weight that is missing, unknown, or of another shape than by the config."""
    shapes = weight_shapes(config)
    for name, shape in shapes.items():
        if name not in weights:
            raise ValueError(f"the checkpoint has no {name}, which its config asks for")
        if tuple(weights[name].shape) != shape:
            raise ValueError(f"{name} is {bounded(tuple(weights[name].shape))}: by the config it is {shape}")
    for name in weights:
        if name not in shapes:
            raise ValueError(f"the checkpoint has {shown(name)}, of which its config says nothing")
