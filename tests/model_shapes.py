"""Published shapes of models: the fields that decide what their layers keep, and the bytes worked out by hand.

AIC: the config.json as it is copied in ai-dynamo/aiconfigurator at 095f58a (21 August 2026), in the folder
`aic-core/src/aiconfigurator_core/model_configs`; comments name other sources. The shapes that come with minikv
(`assets/configs`) are named only.
"""

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


def every(period, layers, other):
    return ["full_attention" if (layer + 1) % period == 0 else other for layer in range(layers)]


FP8_KV = {"quantization_config": {"quant_algo": "NVFP4", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}}
BESIDE = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
QWEN_3_5 = {"linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "head_dim": 256,
            "linear_num_key_heads": 16, "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1,
            "attn_output_gate": True}  # fmt: skip
GEMMA_4 = {"model_type": "gemma4_text", "global_head_dim": 512, "head_dim": 256, "sliding_window": 1024,
           "attention_k_eq_v": True, "num_kv_shared_layers": 0, "use_bidirectional_attention": "vision"}  # fmt: skip
GLM_5 = {"model_type": "glm_moe_dsa", "num_hidden_layers": 78, "num_attention_heads": 64, "num_key_value_heads": 64,
         "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 192, "v_head_dim": 256, "q_lora_rank": 2048,
         "index_head_dim": 128, "index_n_heads": 32, "index_topk": 2048, "num_nextn_predict_layers": 1}  # fmt: skip
NEMOTRON = {"model_type": "nemotron_h", "conv_kernel": 4, "n_groups": 8, "mamba_head_dim": 64, "expand": 2,
            "use_mamba_kernels": True, "chunk_size": 128}  # fmt: skip

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
    "Qwen3.5 27B": Shape(
        {"model_type": "qwen3_5", "text_config": {**QWEN_3_5, "model_type": "qwen3_5_text", "num_hidden_layers": 64,
         "layer_types": every(4, 64, "linear_attention"), "num_attention_heads": 24, "num_key_value_heads": 4,
         "hidden_size": 5120, "linear_num_value_heads": 48, "full_attention_interval": 4}},
        gqa(16, 4, 256), delta(48, 48)),
    "Qwen3.6 27B NVFP4": Shape(
        {"model_type": "qwen3_5", **FP8_KV, "text_config": {**QWEN_3_5, "model_type": "qwen3_5_text",
         "num_hidden_layers": 64, "num_attention_heads": 24, "num_key_value_heads": 4, "hidden_size": 5120,
         "linear_num_value_heads": 48}},
        gqa(16, 4, 256, each=1), delta(48, 48), "fp8"),
    "Qwen3 30B A3B": Shape(
        {"model_type": "qwen3_moe", "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
         "head_dim": 128, "hidden_size": 2048, "max_window_layers": 48, "sliding_window": None,
         "use_sliding_window": False, "decoder_sparse_step": 1},
        gqa(48, 4, 128)),
    "Gemma 4 26B": Shape(
        {**GEMMA_4, "num_hidden_layers": 30, "num_attention_heads": 16, "num_key_value_heads": 8,
         "num_global_key_value_heads": 2, "layer_types": every(6, 30, "sliding_attention")},
        gqa(5, 2, 512), gqa(25, 8, 256) * 1024),
    "MiMo V2 Flash": Shape(  # values are of 128 numbers, keys of 192
        {"model_type": "mimo_v2_flash", "num_hidden_layers": 48, "num_attention_heads": 64, "num_key_value_heads": 4,
         "head_dim": 192, "v_head_dim": 128, "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8,
         "swa_head_dim": 192, "swa_v_head_dim": 128, "sliding_window": 128, "sliding_window_size": 128,
         "attention_chunk_size": 128, "hybrid_layer_pattern": [0, *[1, 1, 1, 1, 0, 1] * 7, 1, 1, 1, 1, 0]},
        9 * 4 * (192 + 128) * BF16, 39 * 8 * (192 + 128) * BF16 * 128),
    "MiniMax M2.5": Shape(
        {"model_type": "minimax_m2", "num_hidden_layers": 62, "num_attention_heads": 48, "num_key_value_heads": 8,
         "head_dim": 128, "hidden_size": 3072, "attn_type_list": [1] * 62, "mtp_transformer_layers": 1},
        gqa(62, 8, 128)),
    "Kimi K2": Shape(
        {"model_type": "kimi_k2", **MLA, "num_hidden_layers": 61, "num_attention_heads": 64, "num_key_value_heads": 64,
         "q_lora_rank": 1536, "hidden_size": 7168},
        61 * (512 + 64) * BF16),
    "GLM-5.2": Shape(  # 21 of 78 layers have an indexer of their own
        {**GLM_5, "index_topk_freq": 4, "index_skip_topk_offset": 3,
         "indexer_types": ["full"] * 3 + ["shared", "shared", "shared", "full"] * 18 + ["shared"] * 3},
        78 * (512 + 64) * BF16 + 21 * 132),
    "Nemotron 3 Nano 30B": Shape(
        {**NEMOTRON, "num_hidden_layers": 52, "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
         "hidden_size": 2688, "mamba_num_heads": 64, "ssm_state_size": 128, "moe_intermediate_size": 1856,
         "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"},
        gqa(6, 2, 128), mamba2(23, 64, 64, 128, 8)),
    "Nemotron 3 Ultra 550B": Shape(  # says no number of layers
        {**NEMOTRON, "layers_block_type": ["mamba", "moe"] * 48 + ["attention"] * 12, "num_attention_heads": 64,
         "num_key_value_heads": 2, "head_dim": 128, "hidden_size": 8192, "mamba_num_heads": 256,
         "ssm_state_size": 128, "mamba_ssm_cache_dtype": "float32"},
        gqa(12, 2, 128), mamba2(48, 256, 64, 128, 8)),
    "Granite 4.0 H Small": Shape(  # fields quoted from ibm-granite/granite-4.0-h-small; 128 heads, of 64, by its class
        {"model_type": "granitemoehybrid", "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8,
         "hidden_size": 4096, "mamba_d_state": 128, "mamba_d_conv": 4, "mamba_expand": 2, "num_local_experts": 72,
         "layer_types": ["mamba"] * 36 + ["attention"] * 4},
        gqa(4, 8, 128), mamba2(36, 128, 64, 128, 1)),
    "Falcon-H1": Shape(  # fields of a test of AgileRL: attention and a state in every layer
        {"model_type": "falcon_h1", "num_hidden_layers": 24, "hidden_size": 2048, "num_attention_heads": 8,
         "num_key_value_heads": 2, "head_dim": 128, "mamba_d_state": 256, "mamba_d_conv": 4, "mamba_n_groups": 1,
         "mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_ssm": 3072},
        gqa(24, 2, 128), mamba2(24, 48, 64, 256, 1)),
    "Jamba v0.1": Shape(  # "ai21labs/Jamba-v0.1, trimmed"; Mamba 1: 16 sums for each of 2 x 4,096 channels
        {"model_type": "jamba", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
         "hidden_size": 4096, "attn_layer_offset": 4, "attn_layer_period": 8, "mamba_d_conv": 4, "mamba_d_state": 16,
         "mamba_expand": 2, "expert_layer_period": 2, "expert_layer_offset": 1},
        gqa(4, 8, 128), 28 * 8192 * (16 * FP32 + 3 * BF16)),
    # fields of a test of chuk-lazarus, and those that are there twice; 16 sums, the last 3 inputs of 2 x 2,560 channels
    "Mamba 2.8B": Shape(
        {"model_type": "mamba", "hidden_size": 2560, "num_hidden_layers": 64, "n_layer": 64,
         "intermediate_size": 5120},
        0, 64 * 5120 * (16 * FP32 + 3 * BF16)),
    # of its class in transformers 5.23.0, as the next two
    "Mamba 2": Shape({"model_type": "mamba2"}, 0, mamba2(64, 128, 64, 128, 8)),
    "Gemma 3n E4B": Shape(  # of its class; 15 of 35 layers use the keys and values of another
        {"model_type": "gemma3n", "text_config": {"model_type": "gemma3n_text"}},
        gqa(4, 2, 256), gqa(16, 2, 256) * 512),
    "Kimi Linear 48B": Shape(  # of its class, with the layers that it says are the checkpoint's
        {"model_type": "kimi_linear", "num_hidden_layers": 27, "linear_attn_config": {"full_attn_layers":
         [4, 8, 12, 16, 20, 24, 27], "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4}},
        7 * (512 + 64) * BF16, delta(20, 32, keys=32)),
}  # fmt: skip
