"""The table `minikv/model_types.json`: how each type of model lays out its layers, and what its class takes by default.

The rules are written here by hand, after the configuration classes of transformers; the defaults are read from them.
`python tests/model_types.py` writes the table; test_layers compares it with the transformers that is installed.
"""

from __future__ import annotations

import dataclasses
import json

from project import ROOT

TABLE = ROOT / "minikv" / "model_types.json"

FULL = (
    "llama gemma olmo olmo2 olmoe granite granitemoe cohere glm glm4 glm4_moe glm4_moe_lite nemotron seed_oss ernie4_5 "
    "ernie4_5_moe hunyuan_v1_dense hunyuan_v1_moe arcee apertus deepseek_v2 deepseek_v3 smollm3 qwen2_moe "
    "qwen3_vl_text qwen3_vl_moe_text phi gpt_neox youtu"
)
WINDOWED = "mistral mixtral ministral ministral3 phi3 phimoe starcoder2"
UP_TO = "qwen2 qwen3 qwen2_vl_text qwen2_5_vl_text dots1"
SLIDING, CHUNKED, LINEAR = "sliding_attention", "chunked_attention", "linear_attention"


def rule(full: str, other: str = SLIDING, **more: object) -> dict[str, object]:
    """Where full attention is, and the kind of the other layers; `n` and `at` are numbers, `field` may say them."""
    return {"full": full, "other": other, **more}


# heads, numbers of a head, sums for each of them, groups, and tokens that a convolution sees
DELTA = ["linear_num_value_heads", "linear_value_head_dim", "linear_key_head_dim", "linear_num_key_heads",
         "linear_conv_kernel_dim"]  # fmt: skip
MAMBA_2 = ["mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups", "mamba_d_conv"]
MAMBA_1 = {"layers": [rule("every", LINEAR, n=1, at=1)],
           "state": ["expand*hidden_size", 1, "state_size", 0, "conv_kernel"]}  # fmt: skip
SHORT_CONV = ["hidden_size", 1, 0, 0, "conv_L_cache"]
FLAGGED = rule("flags", LINEAR, n=1, field="attn_type_list")
QWEN_NEXT = {"layers": [rule("every", LINEAR, n=4, field="full_attention_interval")], "state": DELTA}

# Of several rules the first is taken whose field the config has, or else the last; a field alone lists the kinds.
RULES: dict[str, dict[str, object]] = {
    **{name: {} for name in FULL.split()},
    **{name: {"layers": [rule("first")]} for name in WINDOWED.split()},
    **{name: {"layers": [rule("first", field="max_window_layers")]} for name in UP_TO.split()},
    "qwen3_moe": {"layers": [rule("first")], "also": ["max_window_layers"]},
    "minimax_m2": {"layers": [FLAGGED, rule("every", n=1)]},
    "minimax": {"layers": [FLAGGED, rule("every", LINEAR, n=2, at=0)],
                "state": ["num_attention_heads", "head_dim", "head_dim", 0, 1]},
    "gemma2": {"layers": [rule("every", n=2)]},
    "gemma3_text": {"layers": [rule("every", n=6, field="sliding_window_pattern")],
                    "also": ["_sliding_window_pattern"]},
    "gemma3n_text": {"layers": [rule("every", n=5)]},
    "gemma4_text": {
        "layers": [rule("every", n=6)],
        "full": {"head_dim": ["global_head_dim"],
                 "num_key_value_heads": ["num_global_key_value_heads", "attention_k_eq_v"]},
        "defaults": {"global_head_dim": 512},
        "last": "full_attention",  # whatever a config says of it
        "also": ["use_bidirectional_attention", "per_layer_config"],
    },
    "gpt_oss": {"layers": [rule("every", n=2)]},
    "cohere2": {"layers": [rule("every", n=4, field="sliding_window_pattern")]},
    "exaone4": {"layers": [rule("every", n=4, field="sliding_window_pattern")]},
    "olmo3": {"layers": [rule("every", n=4)]},
    "llama4_text": {"layers": [rule("flags", CHUNKED, n=0, field="no_rope_layers"),
                               rule("every", CHUNKED, n=4, field="no_rope_layer_interval")]},
    "mimo_v2_flash": {
        "layers": [rule("flags", n=0, field="hybrid_layer_pattern")],
        "window": {"head_dim": ["swa_head_dim"], "v_head_dim": ["swa_v_head_dim"],
                   "num_key_value_heads": ["swa_num_key_value_heads"],
                   "num_attention_heads": ["swa_num_attention_heads"]},
        "also": ["attention_chunk_size", "sliding_window_size", "add_swa_attention_sink_bias"],
    },
    "deepseek_v32": {"layers": [rule("every", "indexed_attention", n=1, at=1)]},
    "glm_moe_dsa": {"layers": [rule("every", "indexed_attention", n=1, at=1)], "also": ["index_topk_freq"],
                    "defaults": {"index_skip_topk_offset": 2}},
    "qwen3_next": QWEN_NEXT,
    "qwen3_5_text": QWEN_NEXT,
    "qwen3_5_moe_text": QWEN_NEXT,
    "kimi_linear": {
        "layers": [rule("listed", LINEAR, n=1, field="full_attn_layers")],
        "state": ["linear_num_heads", "linear_head_dim", "linear_head_dim", "linear_num_heads",
                  "linear_conv_kernel_dim"],
        "renamed": {"linear_attn_config.head_dim": "linear_head_dim",
                    "linear_attn_config.num_heads": "linear_num_heads",
                    "linear_attn_config.short_conv_kernel_size": "linear_conv_kernel_dim",
                    "linear_attn_config.full_attn_layers": "full_attn_layers"},
    },
    "nemotron_h": {
        "layers": [{"field": "hybrid_override_pattern"}],
        "state": ["mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel"],
        "renamed": {"attention_head_dim": "head_dim", "mamba_num_groups": "n_groups", "mamba_n_groups": "n_groups",
                    "mamba_d_conv": "conv_kernel"},
    },
    "bamba": {"layers": [rule("listed", LINEAR, n=0, field="attn_layer_indices"), rule("every", LINEAR, n=1, at=1)],
              "state": MAMBA_2},
    "granitemoehybrid": {"layers": [rule("every", LINEAR, n=1, at=1)], "state": MAMBA_2},
    "falcon_h1": {"layers": [rule("every", "hybrid", n=1, at=1)], "state": MAMBA_2, "also": ["mamba_d_ssm"]},
    "jamba": {"layers": [rule("every", LINEAR, n=8, field="attn_layer_period", at="attn_layer_offset")],
              "state": ["mamba_expand*hidden_size", 1, "mamba_d_state", 0, "mamba_d_conv"]},
    "lfm2": {"layers": [rule("listed", "conv", n=0, field="full_attn_idxs"), rule("every", n=1)], "state": SHORT_CONV},
    "lfm2_moe": {"layers": [{"field": "layer_types"}], "state": SHORT_CONV},
    "mamba2": {"layers": [rule("every", LINEAR, n=1, at=1)],
               "state": ["num_heads", "head_dim", "state_size", "n_groups", "conv_kernel"]},
    "falcon_mamba": MAMBA_1,
    "mamba": {**MAMBA_1, "also": ["n_layer"]},  # which the published configs have besides num_hidden_layers
}  # fmt: skip
# Models whose own code is the class of another type: their configs say every field, so nothing is taken by default.
ALIKE = {"kimi_k2": "deepseek_v3", "mimo": "qwen2", "minimax_text_01": "minimax", "minimax_m1": "minimax"}

# The fields of these that decide what layers keep, and those by which `PrefillCost` counts parameters.
READ = (
    "num_hidden_layers num_attention_heads num_key_value_heads head_dim hidden_size v_head_dim kv_lora_rank "
    "qk_rope_head_dim layer_types layers_block_type sliding_window use_sliding_window max_window_layers "
    "sliding_window_pattern attention_chunk_size no_rope_layer_interval index_head_dim index_topk index_n_heads "
    "indexer_types num_kv_shared_layers attn_layer_offset attn_layer_period attention_k_eq_v mamba_ssm_cache_dtype "
    "mamba_expand mamba_n_heads mamba_d_head mamba_d_state mamba_n_groups mamba_d_conv mamba_num_heads mamba_head_dim "
    "ssm_state_size n_groups conv_kernel conv_L_cache expand state_size num_heads linear_num_value_heads "
    "linear_value_head_dim linear_key_head_dim linear_num_key_heads linear_conv_kernel_dim linear_num_heads "
    "linear_head_dim no_rope_layers attn_layer_indices full_attn_idxs"
)
COUNTED = (
    "intermediate_size vocab_size tie_word_embeddings moe_intermediate_size shared_expert_intermediate_size "
    "q_lora_rank qk_nope_head_dim n_routed_experts n_shared_experts num_local_experts num_experts num_experts_per_tok "
    "first_k_dense_replace decoder_sparse_step interleave_moe_layer_step intermediate_size_mlp"
)
# Fields of such a name that change nothing that is kept: of the classes above, and of published configs.
HARMLESS = (
    "num_hidden_layers num_attention_heads num_key_value_heads head_dim layer_types layers_block_type mamba_ssm_dtype "
    "kv_cache_scheme kv_cache_quant_algo "
    "attention_bias attention_dropout attention_in_multiplier attention_multiplier attention_out_bias "
    "attention_out_multiplier attention_output_gate attention_value_scale attn_logit_softcapping attn_output_gate "
    "attn_scale attn_temperature_tuning attn_implementation _attn_implementation _attn_implementation_autoset "
    "activation_sparsity_pattern activation_situ_linear_beta block_auto_adjust_ff_dim block_ffn_dim_multiplier "
    "block_multiple_of block_size cache_implementation chunk_size clip_qkv conv_bias decoder_sparse_step "
    "enable_moe_block full_attn_alpha_factor full_attn_beta_factor head_bias hidden_size_per_layer_input "
    "index_share_for_mtp_iteration index_skip_topk_offset indexer_rope_interleave interleave_moe_layer_step "
    "latent_moe_use_norm layer_norm_eps layer_norm_epsilon layernorm_epsilon linear_attn_alpha_factor "
    "linear_attn_beta_factor lm_head_bias lm_head_multiplier mamba_chunk_size mamba_conv_bias mamba_dt_rank "
    "mamba_hidden_act mamba_norm_before_gate mamba_proj_bias mamba_rms_norm mamba_use_mlp mlp_layer_types "
    "mlp_only_layers n_shared_experts num_dense_layers num_local_experts num_mtp_layers num_nextn_predict_layers "
    "num_shared_experts q_lora_rank qk_head_dim qk_nope_head_dim qkv_bias query_pre_attn_scalar rope_local_base_freq "
    "routed_expert_hidden_size shared_expert_intermediate_size shared_intermediate_size ssm_in_multiplier "
    "ssm_multipliers ssm_out_multiplier swa_rope_theta use_attention_bias use_cache use_conv_bias use_mamba_kernels "
    "use_mambapy vocab_size_per_layer_input"
)


def class_of(name: str) -> dict[str, object]:
    """The defaults of the fields of a model type's class, as its source states them."""
    from transformers import CONFIG_MAPPING

    return {field.name: field.default for field in dataclasses.fields(CONFIG_MAPPING[name])}


def row(name: str) -> dict[str, object]:
    """The rules of a model type, the defaults of what is read of it, and the other fields that are known."""
    rules, fields = RULES[name], class_of(name)
    stated = {"use_sliding_window"}  # also where it is false
    defaults = {
        key: fields[key]
        for key in sorted({*READ.split(), *COUNTED.split()})
        if fields.get(key) or key in stated & fields.keys()
    }
    defaults |= rules.get("defaults", {})
    named = [one["field"] for one in rules.get("layers", []) if "field" in one]
    named += [field for kind in ("full", "window") for fields in rules.get(kind, {}).values() for field in fields]
    named = [field.split(".")[0] for field in [*named, *rules.get("renamed", {})]]
    also = {*rules.get("also", ()), *named, *(fields.keys() & READ.split())} - defaults.keys() - set(HARMLESS.split())
    return {**{key: rules[key] for key in rules if key != "also"}, "defaults": defaults, "also": sorted(also)}


def table() -> dict[str, object]:
    """The table, with the defaults of the transformers that is installed."""
    import transformers

    source = f"the configuration classes of transformers {transformers.__version__}"
    types = {name: row(name) for name in RULES}
    types |= {
        name: {**types[other], "defaults": dict.fromkeys(types[other]["defaults"])} for name, other in ALIKE.items()
    }
    return {"source": source, "harmless": HARMLESS, "types": dict(sorted(types.items()))}


def written(found: dict[str, object]) -> str:
    """The table as JSON, a line for each type of model."""
    types = found["types"]
    assert isinstance(types, dict)
    head = json.dumps({key: value for key, value in found.items() if key != "types"}, indent=1)[:-2]
    rows = ",\n".join(f'"{name}":{json.dumps(rules, separators=(",", ":"))}' for name, rules in types.items())
    return f'{head},\n "types": {{\n{rows}\n }}\n}}\n'


if __name__ == "__main__":
    TABLE.write_text(written(table()), "utf-8")
