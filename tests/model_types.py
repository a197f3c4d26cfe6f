"""The table `minikv/model_types.json`: how each type of model lays out its layers, and what its class takes by default.

The rules in it are written by hand, after the configuration classes of transformers; the defaults are read from them.
`python tests/model_types.py` reads them again and writes the table; test_layers_oracle compares it with the one that
is installed. For a new type, write a row with its rules, empty `defaults` and `also`, and run the program. A row has

    layers      rules that say where full attention is, and the kind of the `other` layers; `n` and `at` are numbers, or
                a `field` of the config says them. Of several the first is taken whose field the config has, or else
                the last; a field alone lists the kinds. A model without rules has full attention in all layers.
    state       heads, numbers of a head, sums for each of them, groups, and tokens that a convolution sees
    full        the fields that layers with full attention have instead, and those on which that depends; `window` alike
    last        the kind of the last layer, whatever a config says of it
    renamed     fields with another name in the config
    defaults    what the class takes for a field that a config leaves out
    also        other fields that are known, and change nothing that the rules do not say

`harmless` are fields that change nothing that is kept: of the classes, and of published configs.
"""

import dataclasses
import json

from project import ROOT

TABLE = ROOT / "minikv/model_types.json"
WRITTEN = json.loads(TABLE.read_text("utf-8"))
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


def class_of(name):
    """The defaults of the fields of a model type's class, as its source states them."""
    from transformers import CONFIG_MAPPING

    return {field.name: field.default for field in dataclasses.fields(CONFIG_MAPPING[name])}


def row(name):
    """The rules of a model type, the defaults of what is read of it, and the other fields that are known."""
    rules = WRITTEN["types"][name]
    if name in ALIKE:
        return {**rules, "defaults": dict.fromkeys(row(ALIKE[name])["defaults"])}
    fields, read = class_of(name), {*READ.split(), *COUNTED.split()}
    stated = {"use_sliding_window"} & fields.keys()  # also where it is false
    defaults = {key: fields[key] for key in sorted(read) if fields.get(key) or key in stated}
    defaults |= {key: value for key, value in rules["defaults"].items() if key not in read}
    also = {*rules["also"], *(fields.keys() & READ.split())} - defaults.keys() - {*WRITTEN["harmless"].split()}
    return {**rules, "defaults": defaults, "also": sorted(also)}


def table():
    """The table, with the defaults of the transformers that is installed."""
    import transformers

    source = f"the configuration classes of transformers {transformers.__version__}"
    types = {name: row(name) for name in sorted(WRITTEN["types"])}
    return {"source": source, "harmless": WRITTEN["harmless"], "types": types}


def written(found):
    """The table as JSON, a line for each type of model."""
    types = found["types"]
    assert isinstance(types, dict)
    head = json.dumps({**found, "types": None}, indent=1)
    rows = ",\n".join(f'"{name}":{json.dumps(rules, separators=(",", ":"))}' for name, rules in types.items())
    return head.replace("null\n}", f"{{\n{rows}\n }}\n}}\n")


if __name__ == "__main__":
    TABLE.write_text(written(table()), "utf-8")
