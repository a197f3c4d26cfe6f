"""Published shapes of models: the fields that decide what their layers keep, and the bytes worked out by hand.

AIC: the config.json as it is copied in ai-dynamo/aiconfigurator at 095f58a (21 August 2026), in the folder
`aic-core/src/aiconfigurator_core/model_configs`; comments name other sources. These configs are in `model_shapes.json`.
The shapes that come with minikv (`assets/configs`) are named only.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

K, V, BF16, FP32 = 1, 1, 2, 4


class Shape(NamedTuple):
    """A config, the bytes of a token and of a long text, and the type of its keys."""

    config: str | dict[str, Any]
    per_token: int
    per_sequence: int = 0
    dtype: str = "bf16"
    beside: dict[str, Any] | None = None  # its hf_quant_config.json


def gqa(layers, heads, size, each=BF16):
    """Bytes of a token: K and V of so many layers and KV heads."""
    return layers * (K + V) * heads * size * each


def delta(layers, heads, keys=16, size=128):
    """Bytes of gated delta nets: a matrix for each head, and the last 3 inputs of queries, keys and values."""
    return layers * (heads * size * size * FP32 + 3 * (2 * keys * size + heads * size) * BF16)


def mamba2(layers, heads, size, state, groups):
    """Bytes of Mamba 2: a matrix for each head, and the last 3 inputs of x, B and C."""
    return layers * (heads * size * state * FP32 + 3 * (heads * size + 2 * groups * state) * BF16)


CONFIGS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
BESIDE = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}

SHAPES = {
    "Llama 2 7B": Shape("llama-2-7b", gqa(32, 32, 128)),
    "Llama 3.1 8B": Shape("llama-3.1-8b", gqa(32, 8, 128)),
    "Llama 3.1 70B FP8": Shape("llama-3.1-70b", gqa(80, 8, 128, each=1), dtype="fp8", beside=BESIDE),
    "Qwen3 8B": Shape("qwen3-8b", gqa(36, 8, 128)),
    "Qwen3 32B": Shape("qwen3-32b", gqa(64, 8, 128)),
    "Mistral 7B v0.3": Shape("mistral-7b-v0.3", gqa(32, 8, 128)),
    "Gemma 2B": Shape("gemma-2b", gqa(18, 1, 256)),
    "DeepSeek V3": Shape("deepseek-v3", 61 * (512 + 64) * BF16),
    "DeepSeek V3.2": Shape("deepseek-v3.2", 61 * ((512 + 64) * BF16 + 128 + 4)),
    "Qwen3-Next 80B": Shape("qwen3-next-80b-a3b", gqa(12, 2, 256), delta(36, 32)),
    # its dict in a converter's source, "Source: google/gemma-3-12b-it config.json"
    "Gemma 3 12B": Shape("gemma-3-12b", gqa(8, 8, 256), gqa(40, 8, 256) * 1024),
    "gpt-oss 120B": Shape("gpt-oss-120b", gqa(18, 8, 64), gqa(18, 8, 64) * 128),
    "Llama 4 Scout": Shape("llama-4-scout", gqa(12, 8, 128), gqa(36, 8, 128) * 8192),
    # its figures in a llama.cpp design note, "fetched live from" the hub
    "Nemotron Nano 9B v2": Shape("nemotron-nano-9b-v2", gqa(4, 8, 128), mamba2(27, 128, 80, 128, 8)),
}
# The bytes of each of the `CONFIGS`, a token and a long text, and the type of its keys.
OF_CONFIGS = {
    "Qwen3.5 27B": (gqa(16, 4, 256), delta(48, 48)),
    "Qwen3.6 27B NVFP4": (gqa(16, 4, 256, each=1), delta(48, 48), "fp8"),
    "Qwen3 30B A3B": (gqa(48, 4, 128),),
    "Gemma 4 26B": (gqa(5, 2, 512), gqa(25, 8, 256) * 1024),
    "MiMo V2 Flash": (  # values are of 128 numbers, keys of 192
        9 * 4 * (192 + 128) * BF16, 39 * 8 * (192 + 128) * BF16 * 128),
    "MiniMax M2.5": (gqa(62, 8, 128),),
    "Kimi K2": (61 * (512 + 64) * BF16,),
    "GLM-5.2": (  # 21 of 78 layers have an indexer of their own
        78 * (512 + 64) * BF16 + 21 * 132,),
    "Nemotron 3 Nano 30B": (gqa(6, 2, 128), mamba2(23, 64, 64, 128, 8)),
    "Nemotron 3 Ultra 550B": (  # says no number of layers
        gqa(12, 2, 128), mamba2(48, 256, 64, 128, 8)),
    # fields quoted from ibm-granite/granite-4.0-h-small; 128 heads, of 64, by its class
    "Granite 4.0 H Small": (
        gqa(4, 8, 128), mamba2(36, 128, 64, 128, 1)),
    "Falcon-H1": (  # fields of a test of AgileRL: attention and a state in every layer
        gqa(24, 2, 128), mamba2(24, 48, 64, 256, 1)),
    # "ai21labs/Jamba-v0.1, trimmed"; Mamba 1: 16 sums for each of 2 x 4,096 channels
    "Jamba v0.1": (
        gqa(4, 8, 128), 28 * 8192 * (16 * FP32 + 3 * BF16)),
    # fields of a test of chuk-lazarus, and those that are there twice; 16 sums, the last 3 inputs of 2 x 2,560 channels
    "Mamba 2.8B": (0, 64 * 5120 * (16 * FP32 + 3 * BF16)),
    # of its class in transformers 5.23.0, as the next two
    "Mamba 2": (0, mamba2(64, 128, 64, 128, 8)),
    "Gemma 3n E4B": (  # of its class; 15 of 35 layers use the keys and values of another
        gqa(4, 2, 256), gqa(16, 2, 256) * 512),
    "Kimi Linear 48B": (  # of its class, with the layers that it says are the checkpoint's
        7 * (512 + 64) * BF16, delta(20, 32, keys=32)),
}  # fmt: skip
SHAPES |= {name: Shape(CONFIGS[name], *row) for name, row in OF_CONFIGS.items()}
