"""Parameters and FLOPs counted by hand, for each kind of model, and configs that cannot be counted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import asset
from minikv_tools.plans.prefill_cost import PrefillCost

MIXTRAL = {
    "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
    "num_key_value_heads": 8, "num_hidden_layers": 32, "num_local_experts": 8, "num_experts_per_tok": 2,
    "vocab_size": 32000, "tie_word_embeddings": False,
}  # fmt: skip
QWEN3_MOE = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_hidden_layers": 48, "num_experts": 128,
    "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936,
    "tie_word_embeddings": False,
}  # fmt: skip


def test_llama_counted_by_hand():
    """Queries and output 4096 x 4096, keys and values 4096 x 1024, three MLP matrices of 4096 x 14336, 32 layers."""
    cost = PrefillCost.from_config("llama-3.1-8b")
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    assert cost.active == 32 * layer == 6_979_321_856
    assert cost.total == 32 * layer + 2 * 128256 * 4096 + 65 * 4096 == 8_030_261_248
    assert cost.per_pair == 4 * 32 * 32 * 128


def test_a_prefix_counted_token_by_token():
    cost = PrefillCost.from_config("llama-3.1-8b")
    assert cost.flops(100) == sum(2 * cost.active + 4 * 32 * 32 * 128 * position for position in range(1, 101))
    assert cost.flops(0) == 0


def test_of_eight_experts_two_compute_a_token():
    """Mixtral 8x7B: 46.7 billion parameters, of which 12.9 billion are active with both embeddings, 12.6 without."""
    cost = PrefillCost.from_config(MIXTRAL)
    attention, expert, router = 2 * 4096 * 4096 + 2 * 4096 * 1024, 3 * 4096 * 14336, 4096 * 8
    assert cost.active == 32 * (attention + 2 * expert + router)
    assert cost.total == 32 * (attention + 8 * expert + router) + 2 * 32000 * 4096 + 65 * 4096
    assert round(cost.total / 1e9, 1) == 46.7


def test_experts_have_a_width_of_their_own():
    """Qwen3 30B-A3B: 30.5 billion parameters, and heads that are wider together than the hidden size."""
    cost = PrefillCost.from_config(QWEN3_MOE)
    attention = 2048 * 128 * (32 + 4 + 4 + 32)
    assert cost.active == 48 * (attention + 8 * 3 * 2048 * 768 + 2048 * 128)
    assert round(cost.total / 1e9, 1) == 30.5
    assert cost.per_pair == 4 * 48 * 32 * 128


@pytest.mark.parametrize(
    ("changes", "sparse"),
    [
        ({"decoder_sparse_step": 2}, 24), ({"decoder_sparse_step": 5}, 9), ({"moe_layer_freq": 5}, 10),
        ({"mlp_only_layers": [0, 5]}, 46), ({"mlp_only_layers": [47, 99]}, 47), ({"first_k_dense_replace": 3}, 45),
    ],
)  # fmt: skip
def test_some_layers_have_no_experts(changes, sparse):
    cost = PrefillCost.from_config({**QWEN3_MOE, **changes})
    attention, dense = 2048 * 128 * 72, 3 * 2048 * 6144
    experts = 8 * 3 * 2048 * 768 + 2048 * 128
    assert cost.active == 48 * attention + sparse * experts + (48 - sparse) * dense


def test_latent_attention_counted_by_hand():
    """DeepSeek-V3: 671 billion parameters; 3 dense layers, then 58 with 8 of 256 experts and a shared one."""
    cost = PrefillCost.from_config("deepseek-v3")
    queries = 7168 * 1536 + 1536 * 128 * 192
    keys_and_values = 7168 * (512 + 64) + 512 * 128 * (128 + 128)
    attention = queries + keys_and_values + 128 * 128 * 7168
    expert = 3 * 7168 * 2048
    assert cost.active == 61 * attention + 3 * (3 * 7168 * 18432) + 58 * (9 * expert + 7168 * 256)
    assert cost.per_pair == 2 * 61 * 128 * (192 + 128)
    assert round(cost.total / 1e9) == 671


def test_latent_attention_may_have_whole_queries():
    """DeepSeek-V2-Lite makes queries without a short vector."""
    config = json.loads(asset("configs/deepseek-v3.json").read_text("utf-8"))
    short, whole = (PrefillCost.from_config({**config, "q_lora_rank": rank}) for rank in (1536, None))
    assert whole.active - short.active == 61 * (7168 * 128 * 192 - 7168 * 1536 - 1536 * 128 * 192)


def test_llama_4_adds_an_expert_for_every_token():
    config = {**MIXTRAL, "interleave_moe_layer_step": 2, "intermediate_size_mlp": 16384, "num_experts_per_tok": 1,
              "model_type": "llama4_text"}  # fmt: skip
    attention, expert = 2 * 4096 * 4096 + 2 * 4096 * 1024, 3 * 4096 * 14336
    expected = 32 * attention + 16 * (2 * expert + 4096 * 8) + 16 * 3 * 4096 * 16384
    assert PrefillCost.from_config(config).active == expected


@pytest.mark.parametrize(("tied", "copies"), [({"tie_word_embeddings": True}, 1), ({"tie_word_embeddings": False}, 2),
                                               ({}, 1)])  # fmt: skip
def test_tied_embeddings_are_counted_once(tied, copies):
    """Where the config does not say it, the class of Gemma does: they are tied."""
    config = json.loads(asset("configs/gemma-2b.json").read_text("utf-8"))
    del config["tie_word_embeddings"]
    cost = PrefillCost.from_config({**config, **tied})
    assert cost.total - cost.active == copies * 256000 * 2048 + 37 * 2048


def test_a_multimodal_config_says_outside_whether_they_are_tied():
    text = {field: value for field, value in QWEN3_MOE.items() if field != "tie_word_embeddings"}
    text["model_type"] = "qwen3_vl_moe_text"
    tied, untied = (PrefillCost.from_config({"model_type": "qwen3_vl_moe", "tie_word_embeddings": said,
                                             "text_config": text}) for said in (True, False))  # fmt: skip
    assert untied.total - tied.total == 151936 * 2048


def test_an_mlp_may_have_no_gate():
    gated, plain = (PrefillCost.from_config({**MIXTRAL, "num_local_experts": 0, "model_type": kind})
                    for kind in ("mistral", "starcoder2"))  # fmt: skip
    assert gated.active - plain.active == 32 * 4096 * 14336


@pytest.mark.parametrize("key", ["vocab_size", "intermediate_size", "num_experts_per_tok"])
def test_what_cannot_be_counted_is_refused(key):
    with pytest.raises(ValueError, match=f"the config has no {key}, which its model_type needs"):
        PrefillCost.from_config({**MIXTRAL, key: None})
    with pytest.raises(ValueError, match=f"{key} in the config is 'many'"):
        PrefillCost.from_config({**MIXTRAL, key: "many"})


@pytest.mark.parametrize(
    ("name", "billions", "windows"),
    [
        ("gpt-oss-120b", 116.8, ((128, 4 * 18 * 64 * 64, False),)),
        ("gemma-3-12b", 11.8, ((1024, 4 * 40 * 16 * 256, False),)),
        ("llama-4-scout", 107.8, ((8192, 4 * 36 * 40 * 128, True),)),
    ],
)
def test_layers_that_see_a_window_or_a_chunk_counted_by_hand(name, billions, windows):
    cost = PrefillCost.from_config(name)
    assert round(cost.total / 1e9, 1) == billions
    assert cost.windows == windows


@given(st.integers(0, 60), st.integers(1, 20))
def test_what_a_query_meets_in_a_window_and_in_a_chunk_position_by_position(tokens, window):
    sliding, chunks = (PrefillCost(0, 0, 0, ((window, 1, chunked),)) for chunked in (False, True))
    assert sliding.flops(tokens) == sum(min(position, window) for position in range(1, tokens + 1))
    assert chunks.flops(tokens) == sum((position - 1) % window + 1 for position in range(1, tokens + 1))


@pytest.mark.parametrize("name", ["qwen3-next-80b-a3b", "nemotron-nano-9b-v2", "deepseek-v3.2"])
def test_layers_that_are_no_plain_attention_are_not_counted(name):
    with pytest.raises(ValueError, match="whose parameters and FLOPs are not counted"):
        PrefillCost.from_config(name)
