"""What the layers of published models keep, to the byte; what is not known is refused by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_shapes import REFUSED, SHAPES, Shape, delta, gqa, mamba2
from refusals import said

from minikv import KVLayers, KVShape, asset, bytes_per_token
from minikv.model_types import model_of

LAYERS = KVLayers.from_config


def config(source, **fields):
    """A config, or that of a name, with other fields."""
    if isinstance(source, str):
        source = json.loads(asset(f"configs/{source}.json").read_text("utf-8"))
    return source | fields


WINDOW = {"sliding_window": 64, "max_window_layers": 28}
NAMES = "Gemma 4 26B", "MiMo V2 Flash", "Qwen3.5 27B", "Granite 4.0 H Small", "Kimi Linear 48B"
GEMMA_4, MIMO, QWEN, GRANITE, KIMI = (SHAPES[name].config for name in NAMES)
NEMOTRON = config("nemotron-nano-9b-v2")
QWEN_VL = {"model_type": "qwen2_5_vl", "vision_config": {"depth": 32}, "hidden_size": 3584, "num_hidden_layers": 28,
           "num_attention_heads": 28, "num_key_value_heads": 4, "max_window_layers": 28, "sliding_window": 32768,
           "use_sliding_window": False}  # fmt: skip
HALF_SUMS = mamba2(27, 128, 80, 128, 8) - 27 * 128 * 80 * 128 * 2
MORE = {
    "a window that begins at a layer": Shape(
        config("qwen3-8b", **{**WINDOW, "max_window_layers": 30}, use_sliding_window=True),
        gqa(30, 8, 128), gqa(6, 8, 128) * 64),
    "a head size of its class, not 2,560 / 8": Shape(
        {"model_type": "gemma3", "text_config": {"hidden_size": 2560}}, gqa(4, 4, 256), gqa(22, 4, 256) * 4096),
    "full attention at the end, whatever is said of it": Shape(
        config(GEMMA_4, layer_types=["sliding_attention"] * 30), gqa(1, 2, 512), gqa(29, 8, 256) * 1024),
    "indexers that are counted, not listed": Shape(
        config(SHAPES["GLM-5.2"].config, indexer_types=None), SHAPES["GLM-5.2"].per_token),
    "text fields outside, as published": Shape(QWEN_VL, gqa(28, 4, 128)),
    "sums of the type that is said": Shape(
        config(NEMOTRON, mamba_ssm_cache_dtype="bfloat16"), gqa(4, 8, 128), HALF_SUMS),
    "sums of the type that is said first": Shape(
        config(NEMOTRON, mamba_ssm_dtype="float16", mamba_ssm_cache_dtype="float32"), gqa(4, 8, 128), HALF_SUMS),
}  # fmt: skip


@pytest.mark.parametrize("name", [*SHAPES, *MORE])
def test_a_published_shape_worked_by_hand(name, tmp_path):
    shape = {**SHAPES, **MORE}[name]
    source = shape.config
    if shape.beside:
        (tmp_path / "config.json").write_text(json.dumps(config(source)), "utf-8")
        (tmp_path / "hf_quant_config.json").write_text(json.dumps(shape.beside), "utf-8")
        source = tmp_path
    layers = LAYERS(source)
    assert (layers.bytes_per_token, layers.bytes_per_sequence) == (shape.per_token, shape.per_sequence)
    assert layers.dtype == shape.dtype


@pytest.mark.parametrize("tp", [1, 2, 8])
@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-8b", "mistral-7b-v0.3", "gemma-2b", "deepseek-v3"])
def test_where_all_layers_keep_all_tokens_it_is_the_shape(name, tp):
    shape = KVShape.from_config(name)
    for dtype in "bf16", "fp8", "int4":
        layers = LAYERS(name, dtype, tp)
        assert layers.bytes_per_token == bytes_per_token(shape, dtype, tp)
        assert (layers.bytes_per_sequence, layers.smallest_prefix) == (0, 1)


# -- what a config says -----------------------------------------------------------------------------------------------

NOTHING_NEW = [
    ("qwen3-8b", {"sliding_window": None}),
    ("qwen3-8b", {**WINDOW, "use_sliding_window": False}),
    ("llama-3.1-8b", {**WINDOW, "use_sliding_window": False}),  # whose type has no windows
    ("qwen3-8b", {"layer_types": ["full_attention"] * 36}),
    ("qwen3-8b", {"num_kv_shared_layers": 0}),
    ("qwen3-8b", {"kv_cache_quant_algo": None}),
    ("qwen3-8b", {"quantization_config": {"quant_method": "awq", "bits": 4, "kv_cache_scheme": None}}),
    ("qwen3-8b", {"mtp_layers": 2, "attention_bias": True, "num_nextn_predict_layers": 1, "rope_theta": 1e6}),
    ("nemotron-nano-9b-v2", {"time_step_limit": [0.0, float("inf")]}),
]


@pytest.mark.parametrize(("name", "fields"), NOTHING_NEW)
def test_a_field_that_is_not_in_force_or_keeps_nothing_changes_nothing(name, fields, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config(name, **fields)), "utf-8")
    assert LAYERS(tmp_path) == LAYERS(name)


@pytest.mark.parametrize("layer", ["05", "5"])
def test_gemma_4_as_transformers_writes_it(layer):
    """It leaves the global fields out, and says the same of each layer with full attention."""
    fields = {key: value for key, value in GEMMA_4.items() if "global" not in key}
    own = {at: {"head_dim": 512, "num_key_value_heads": 2} for at in (layer, "11", "17", "23", "29")}
    assert LAYERS({**fields, "per_layer_config": own}) == LAYERS(GEMMA_4)
    own["11"] = {"head_dim": 256}
    more = LAYERS({**fields, "per_layer_config": own}).bytes_per_token - LAYERS(GEMMA_4).bytes_per_token
    assert more == 2 * 2 * (8 * 256 - 2 * 512)


def test_a_state_is_divided_by_heads_and_an_indexer_is_on_every_rank():
    assert LAYERS("qwen3-next-80b-a3b", tp=2).bytes_per_sequence == delta(36, 32) // 2
    assert said(LAYERS, "qwen3-next-80b-a3b", tp=64) == "ValueError: 16 query heads do not divide among 64 ranks"
    assert "heads of a recurrent layer do not divide" in said(LAYERS, config(QWEN_9B, linear_num_value_heads=33), tp=2)
    assert LAYERS("deepseek-v3.2", tp=8) == LAYERS("deepseek-v3.2")
    # Granite has one group of B and C: each of two ranks keeps it, as in vLLM
    assert LAYERS(GRANITE, tp=2).groups[1].state == 36 * (64 * 64 * 128 * 4 + 3 * (64 * 64 + 256) * 2)


def test_what_engines_do_not_agree_on_is_named():
    states = [LAYERS("qwen3-next-80b-a3b", state_dtype=dtype).groups[1] for dtype in (None, "bf16")]
    assert states[0].convention == "sums in fp32, as in SGLang; vLLM takes the type of the model"
    assert (states[1].convention, states[1].state) == ("sums in bf16, as asked", 36 * (2**20 + 49_152))
    assert LAYERS(QWEN).groups[1].convention == "sums in fp32, as its config says"
    said_of = [LAYERS("deepseek-v3.2", dtype).groups for dtype in ("fp8", "bf16")]
    assert [groups[0].convention for groups in said_of] == ["vLLM packs them in 656 bytes", ""]
    assert said_of[0][1].convention == "fp8 and an fp32 scale, as in vLLM and SGLang"


QWEN_9B = QWEN["text_config"] | {
    "num_hidden_layers": 32, "layer_types": None, "num_attention_heads": 16, "linear_num_value_heads": 32,
}  # fmt: skip


@pytest.mark.parametrize(
    ("source", "state_dtype", "block"),
    [
        (QWEN, None, 784),
        (SHAPES["Qwen3.6 27B NVFP4"].config, None, 1568),
        (QWEN_9B, None, 528),
        (GRANITE, "bf16", 528),
        ("gemma-3-12b", None, 1),
    ],
)
def test_the_smallest_prefix_is_the_block_in_vllm_s_log(source, state_dtype, block):
    """Seen as "Setting attention block size to 784 tokens" in logs of Qwen3.6 27B, and 1,568 with FP8 keys; 528 of
    Qwen3.5 9B and of Granite 4.0 H Small."""
    assert LAYERS(source, state_dtype=state_dtype).smallest_prefix == block


# -- what its keys are quantized to -----------------------------------------------------------------------------------

FP8, NVFP4 = ({"output_tensors": {"dtype": kind}} for kind in ("fp8_e4m3", "fp4"))


def quark(group=(), **fields):
    """A `quantization_config` as AMD's Quark writes it, and vLLM's `QuarkConfig` reads it."""
    export = {"kv_cache_group": list(group), "min_kv_scale": 0.0}
    return {
        "quant_method": "quark",
        "export": export,
        "kv_cache_quant_config": {},
        "kv_cache_post_rope": True,
        **fields,
    }


QUANTIZED = [
    ({"kv_cache_dtype": "fp8"}, "fp8"),
    ({"kv_cache_dtype": "auto"}, "bf16"),
    ({"kv_cache_quant_algo": "none"}, "bf16"),
    (quark(), "bf16"),
    (quark(layer_quant_config={"*k_proj": FP8}), "bf16"),
    (quark(kv_cache_quant_config={"*k_proj": FP8, "*v_proj": FP8}), "fp8"),
    (quark(["*k_proj", "*v_proj"], layer_quant_config={"*k_proj": FP8, "*v_proj": FP8, "*q_proj": {}}), "fp8"),
    ({"kv_cache_dtype": "int8"}, "kv_cache_dtype of the config is 'int8'"),
    ({"kv_cache_bits": 4}, "kv_cache_bits of the config is 4"),
    ({"kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "kv_cache_scheme of the config is {"),
    (quark(kv_cache_quant_config={"*k_proj": FP8, "*v_proj": NVFP4}), "kv_cache_quant_config of the config is {"),
    (quark(kv_cache_quant_config={"*k_proj": {}}), "kv_cache_quant_config of the config is {"),
    (quark(["*k_proj"], layer_quant_config={"*k_proj": NVFP4}), "layer_quant_config of the config is {"),
    (quark(["*k_proj"]), "layer_quant_config of the config is {}"),
]


@pytest.mark.parametrize(("field", "dtype"), QUANTIZED, ids=str)
def test_what_a_checkpoint_quantizes_its_keys_to_is_counted_or_refused_by_name(field, dtype):
    source = config("llama-3.1-8b", quantization_config=field)
    if dtype in ("fp8", "bf16"):
        assert LAYERS(source) == LAYERS("llama-3.1-8b", dtype)
        return
    assert said(LAYERS, source).startswith(f"ValueError: {dtype}")
    assert said(LAYERS, source).endswith(": only the size of FP8 is known")
    assert LAYERS(source, "fp8").bytes_per_token == 65_536  # whoever says it needs no config for it


# -- what is not known ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused_by_name(name):
    words, source = REFUSED[name]
    says = said(LAYERS, source)
    assert words in says
    assert "minikv does not know" in says


LLAMA = config("llama-3.1-8b")
# A model or its type, a field, and what is said of it after its value. None of these is known to transformers: they
# would raise there, or be another model.
NONSENSE = [
    (LLAMA, "model_type", "t5", "minikv does not know its layers"),
    (LLAMA, "model_type", ["llama"], "minikv does not know its layers"),
    (LLAMA, "num_hidden_layers", "32", "a size is at least 1"),
    ("qwen3_next", "num_hidden_layers", 10_001, "expected at most 10000"),
    (GEMMA_4, "per_layer_config", {"x": {}}, "expected the fields of layers by their numbers"),
    (GEMMA_4, "per_layer_config", {"0": 1}, "expected the fields of layers by their numbers"),
    (MIMO, "hybrid_layer_pattern", "x", "expected a list of whole numbers"),
    (MIMO, "hybrid_layer_pattern", [True], "expected a list of whole numbers"),
    ("lfm2_moe", "layer_types", 5, "expected a list of kinds of layers"),
    ("bamba", "attn_layer_indices", [9, 32], "there are 32 layers"),
    ("bamba", "attn_layer_indices", [-1], "there are 32 layers"),
    ("jamba", "attn_layer_offset", 8, "it must be less than attn_layer_period, 8"),
    ("jamba", "attn_layer_offset", "4", "0 or more"),
    ("jamba", "attn_layer_period", 0, "a size is at least 1"),
    ("qwen3_next", "full_attention_interval", 0, "a size is at least 1"),
    ("gemma3_text", "sliding_window_pattern", 0, "a size is at least 1"),
    ("gemma3n_text", "num_kv_shared_layers", 35, "it has 35 layers"),
    ("glm_moe_dsa", "indexer_types", ["full"], "expected one for each of 78 layers"),
    ("glm_moe_dsa", "indexer_types", 7, "expected one for each of 78 layers"),
    *((LLAMA, field, value, "minikv does not know what llama keeps then") for field, value in {
        "sliding_window": 1024, "hybrid_override_pattern": "M-M*", "my_cache_layout": "x",
        "per_layer_config": {"0": {"head_dim": 512}},
    }.items()),  # fields that a type has not
]  # fmt: skip


@pytest.mark.parametrize(("source", "field", "value", "words"), NONSENSE)
def test_a_value_that_makes_no_sense_or_could_matter_is_named(source, field, value, words):
    says = said(LAYERS, {"model_type": source, field: value} if isinstance(source, str) else source | {field: value})
    assert says.startswith(f"ValueError: {field} in the config is {value!r}")
    assert says.endswith(f": {words}")


MISMATCHED = [
    (LLAMA, {"model_type": None}, "the config has no model_type: "),
    (LLAMA, {"head_dim": None, "hidden_size": None}, "the config has no hidden_size, which its model_type needs"),
    ({"model_type": "deepseek_v3"}, {"kv_lora_rank": None}, "the config has no kv_lora_rank, which its model_type"),
    (LLAMA, {"layer_types": ["window_attention"] * 32}, "layer_types in the config has 'window_attention'"),
    (LLAMA, {"layer_types": [7] * 32}, "layer_types in the config has 7: minikv does not know such layers"),
    (LLAMA, {"layer_types": ["full_attention"] * 5}, "layer_types in the config is for 5 layers, num_hidden_layers"),
    (LLAMA, {"layer_types": ["linear_attention"] * 32}, "the config has a layer with a state, which its model"),
    (LLAMA, {"layer_types": ["sliding_attention"] * 32}, "the config has no sliding_window"),
    (LLAMA, {"kv_cache_quant_algo": "NVFP4"}, "kv_cache_quant_algo of the config is 'NVFP4': only the size"),
    (GEMMA_4, {"per_layer_config": {"0": {"sliding_window": 7}}}, "sliding_window in the config is 7: minikv does"),
    (NEMOTRON, {"hybrid_override_pattern": "M" * 55 + "Z"}, "hybrid_override_pattern in the config has 'Z'"),
    (KIMI, {"linear_attn_config": {"full_attn_layers": [0]}}, "full_attn_layers in the config is [0]: there are"),
]


@pytest.mark.parametrize(("source", "fields", "words"), MISMATCHED)
def test_a_config_that_makes_no_sense_is_named(source, fields, words):
    assert LAYERS(source)
    assert said(LAYERS, source | fields).startswith(f"ValueError: {words}")


def test_as_many_layers_as_are_listed_are_counted():
    for name in "llama-3.1-8b", "qwen3-next-80b-a3b":
        assert len(model_of(config(name, num_hidden_layers=10_000, layer_types=None)).kinds) == 10_000


CONVOLUTIONS = {"model_type": "lfm2_moe", "layer_types": ["conv", "full_attention"] * 16}


@pytest.mark.parametrize(
    ("source", "dtype", "words"),
    [
        *((name, odd, f"state_dtype is {odd!r}: expected one of fp32, bf16, fp16")
          for name in ("llama-3.1-8b", "qwen3-next-80b-a3b") for odd in ("fp64", "int4", 7)),
        ("gemma-3-12b", "fp16", "state_dtype is 'fp16', but no layer of gemma-3-12b.json keeps a state's sums"),
        # whose states are the last inputs of convolutions, of the model's own type
        (CONVOLUTIONS, "fp16", "state_dtype is 'fp16', but no layer of the config keeps a state's sums"),
    ],
)  # fmt: skip
def test_the_type_of_a_state_is_one_that_states_have_where_there_are_any(source, dtype, words):
    assert LAYERS(source).bytes_per_token
    assert said(LAYERS, source, state_dtype=dtype) == f"ValueError: {words}"


ODD = st.sampled_from([None, "x", -1, 0, 1, 7, 1.5, True, [], [1], ["x"], {}, {"a": 1}, 2**31, 10**30])


@given(st.sampled_from(sorted(SHAPES)), st.data())
def test_whatever_a_config_says_it_is_counted_or_refused_in_one_line(name, data):
    fields = config(SHAPES[name].config)
    text = fields.get("text_config", fields)
    chosen = data.draw(st.lists(st.sampled_from(sorted(text)), min_size=1, max_size=3))
    says = said(LAYERS, text | {field: data.draw(ODD) for field in chosen})
    assert says.startswith("ValueError: ") or not says
    assert "\n" not in says
    assert len(says) < 300
