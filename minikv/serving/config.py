"""What a checkpoint's `config.json` says about a decoder of the Llama architecture, checked before it is believed.

A setting that would change the logits, and that this decoder does not have, is an error: wrong logits look like
right ones, and a cache cannot be blamed for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import pi
from os import PathLike
from pathlib import Path
from typing import Any

from minikv.errors import bounded, whole_number
from minikv.sizing import KVShape

_BIASES = {"llama": "", "mistral": "", "qwen2": "qkv"}  # model_type: projections that always have one
_SETTINGS = {  # what must be so; a setting that is absent is so
    "hidden_act": ("silu",),
    "quantization_config": (None,),
    "partial_rotary_factor": (None, 1, 1.0),
    "sliding_window": (None,),
    "use_sliding_window": (None, False),
}
_LLAMA3 = ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


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
        if kind not in _BIASES:
            raise ValueError(f"model_type is {bounded(kind)}: expected one of {', '.join(_BIASES)}")
        off = {"sliding_window"} if config.get("use_sliding_window") is False else set()  # as Qwen2 writes it
        for name, known in _SETTINGS.items():
            if name in config and name not in off and config[name] not in known:
                raise ValueError(f"{name} is {bounded(config[name])}: this decoder knows only {known[0]!r}")
        shape = KVShape.from_config(config)
        if shape.head_dim % 2:
            raise ValueError(f"head_dim is {shape.head_dim}: RoPE turns pairs of numbers, so it must be even")
        theta, scaling = _rope(config)
        attention_bias = bool(config.get("attention_bias", False))
        return cls(
            shape=shape,
            num_heads=shape.num_heads or shape.num_kv_heads,
            hidden_size=_size(config, "hidden_size"),
            intermediate_size=_size(config, "intermediate_size"),
            vocab_size=_size(config, "vocab_size"),
            max_length=_size(config, "max_position_embeddings", 2048),
            eos=_eos(config.get("eos_token_id")),
            norm_eps=float(config.get("rms_norm_eps", 1e-6)),
            rope_theta=theta,
            rope_scaling=scaling,
            tied=bool(config.get("tie_word_embeddings", False)),
            qkv_bias=attention_bias or _BIASES[kind] == "qkv",
            output_bias=attention_bias and _BIASES[kind] != "qkv",
            mlp_bias=bool(config.get("mlp_bias", False)),
        )


def _size(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    if config.get(name, default) is None:
        raise ValueError(f"the config has no {name}: it does not look like a decoder's config.json")
    return whole_number(name, config.get(name, default), 1, "a size is at least 1")


def _eos(ids: Any) -> frozenset[int]:
    if ids is None:
        return frozenset()
    return frozenset(
        whole_number("eos_token_id", i, 0, "a token id is 0 or more") for i in (ids if isinstance(ids, list) else [ids])
    )


def _rope(config: Mapping[str, Any]) -> tuple[float, Mapping[str, Any] | None]:
    """Theta and scaling, from either of the two places in which they are written."""
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    theta = rope.get("rope_theta", config.get("rope_theta", 10000.0))
    kind = rope.get("rope_type", rope.get("type", "default"))
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise ValueError(f"partial_rotary_factor is {rope['partial_rotary_factor']}: this decoder turns whole heads")
    if kind == "default":
        return float(theta), None
    needs = {"linear": ("factor",), "llama3": ("factor", *_LLAMA3)}.get(kind)
    if needs is None:
        raise ValueError(f"rope_type is {bounded(kind)}: expected default, linear or llama3")
    for name in needs:
        if not isinstance(rope.get(name), (int, float)) or not rope[name] > 0:
            raise ValueError(f"RoPE of type {kind} has {name} {bounded(rope.get(name))}: expected a number above 0")
    return float(theta), {"rope_type": kind, **{name: rope[name] for name in needs}}


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; `ValueError` names the file where there is none.

    >>> from minikv.assets import asset
    >>> read_json(asset("configs/llama-3.1-8b.json"))["model_type"]
    'llama'
    """
    try:
        found = json.loads(path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds {bounded(found)}: expected an object")
    return found


def read_config(folder: str | PathLike[str]) -> LlamaConfig:
    """The config of a checkpoint folder; the end tokens are those of its `generation_config.json`, if that names any.

    `FileNotFoundError` where there is no `config.json`.

    >>> from minikv.assets import asset
    >>> sorted(read_config(asset("model")).eos)
    [256]
    """
    folder = Path(folder)
    if not (folder / "config.json").exists():
        raise FileNotFoundError(f"{folder} has no config.json: expected the folder of a checkpoint")
    settings, generation = read_json(folder / "config.json"), folder / "generation_config.json"
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
    low, high, context = (scaling[name] for name in _LLAMA3)
    turns = [turn * context / (2 * pi) for turn in plain]  # in the original context
    kept = [min(1.0, max(0.0, (many - low) / (high - low))) for many in turns]
    return [turn * (share + (1 - share) / scaling["factor"]) for turn, share in zip(plain, kept)]
