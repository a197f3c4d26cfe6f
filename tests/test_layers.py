"""What the layers of published models keep, to the byte; what is not known is refused by name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_shapes import REFUSED, SHAPES, delta

from minikv import KVLayers, KVShape, asset, bytes_per_token

pytestmark = pytest.mark.core

MIB = 2**20


@pytest.mark.parametrize("name", SHAPES)
def test_a_published_shape_worked_by_hand(name, tmp_path):
    shape = SHAPES[name]
    source = shape.config
    if shape.beside:
        (tmp_path / "config.json").write_text(asset(f"configs/{shape.config}.json").read_text("utf-8"), "utf-8")
        (tmp_path / "hf_quant_config.json").write_text(json.dumps(shape.beside), "utf-8")
        source = tmp_path
    layers = KVLayers.from_config(source)
    assert (layers.bytes_per_token, layers.bytes_per_sequence) == (shape.per_token, shape.per_sequence)
    assert layers.dtype == shape.dtype


def test_there_are_enough_shapes_and_few_are_refused():
    assert len(SHAPES) >= 25
    assert len(REFUSED) <= 5


@pytest.mark.parametrize(
    ("name", "per_token", "per_sequence"),
    [
        ("qwen3-next-80b-a3b", 24_576, 36 * (2 * MIB + 48 * 1024)),
        ("gemma-3-12b", 65_536, 320 * MIB),
        ("gpt-oss-120b", 36_864, 9 * MIB // 2),
        ("deepseek-v3", 70_272, 0),
        ("nemotron-nano-9b-v2", 16_384, 27 * (128 * 80 * 128 * 4 + 3 * 12_288 * 2)),
        ("llama-4-scout", 49_152, 1152 * MIB),
    ],
)
def test_the_figures_that_were_wrong(name, per_token, per_sequence):
    layers = KVLayers.from_config(name)
    assert (layers.bytes_per_token, layers.bytes_per_sequence) == (per_token, per_sequence)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused_by_name(name):
    said, config = REFUSED[name]
    with pytest.raises(ValueError, match=f"{said}.* does not know"):
        KVLayers.from_config(config)


def config(name, **fields):
    return json.loads(asset(f"configs/{name}.json").read_text("utf-8")) | fields


@pytest.mark.parametrize(
    "fields",
    [{"sliding_window_pattern": 6}, {"sliding_window": 1024}, {"index_topk": 2048}, {"num_kv_shared_layers": 15},
     {"hybrid_override_pattern": "M-M*"}, {"compress_ratios": [4]}, {"memory_tokens": 8},
     {"local_attention": 128}, {"recurrent_width": 5}, {"my_cache_layout": "x"}],
    ids=str,
)  # fmt: skip
def test_a_field_that_its_type_has_not_and_that_could_matter_is_refused(fields):
    with pytest.raises(ValueError, match=f"^{next(iter(fields))} in the config is .* does not know what llama keeps"):
        KVLayers.from_config(config("llama-3.1-8b", **fields))


@pytest.mark.parametrize(
    "fields",
    [{"sliding_window": None}, {"use_sliding_window": False, "sliding_window": 32768, "max_window_layers": 28},
     {"layer_types": ["full_attention"] * 36}, {"num_kv_shared_layers": 0}, {"kv_cache_quant_algo": None},
     {"quantization_config": {"quant_method": "awq", "bits": 4, "kv_cache_scheme": None}}, {"mtp_layers": 2},
     {"attention_bias": True, "num_nextn_predict_layers": 1}, {"rope_theta": 1e6}],
    ids=str,
)  # fmt: skip
def test_a_field_that_is_not_in_force_or_keeps_nothing_changes_nothing(fields):
    assert KVLayers.from_config(config("qwen3-8b", **fields)) == KVLayers.from_config("qwen3-8b")


def test_a_window_can_begin_at_a_layer():
    layers = KVLayers.from_config(config("qwen3-8b", use_sliding_window=True, sliding_window=64, max_window_layers=30))
    assert [(group.keeps, group.layers, group.window) for group in layers.groups] == [
        ("full attention", 30, None),
        ("window", 6, 64),
    ]


def test_a_missing_field_is_the_default_of_its_class_and_not_of_a_formula():
    """Gemma 3's config has no head_dim: 3,840 / 16 heads is 240, and its class says 256."""
    assert (
        KVLayers.from_config({"model_type": "gemma3", "text_config": {"hidden_size": 2560}}).bytes_per_token
        == 4 * 2 * 4 * 256 * 2
    )
    with pytest.raises(ValueError, match=r"gemma-3-12b.json has layers .* use KVLayers"):
        KVShape.from_config("gemma-3-12b")


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


@pytest.mark.parametrize(
    ("said", "dtype"),
    [
        ({"kv_cache_dtype": "fp8"}, "fp8"),
        ({"kv_cache_dtype": "auto"}, "bf16"),
        ({"kv_cache_quant_algo": "none"}, "bf16"),
        ({"kv_cache_quant_algo": "fp8"}, "fp8"),
        (quark(), "bf16"),
        (quark(layer_quant_config={"*k_proj": FP8}), "bf16"),
        (quark(kv_cache_quant_config={"*k_proj": FP8, "*v_proj": FP8}), "fp8"),
        (quark(["*k_proj", "*v_proj"], layer_quant_config={"*k_proj": FP8, "*v_proj": FP8, "*q_proj": {}}), "fp8"),
        ({"kv_cache_dtype": "int8"}, "kv_cache_dtype of the config is 'int8'"),
        ({"kv_cache_bits": 4}, "kv_cache_bits of the config is 4"),
        (quark(kv_cache_quant_config={"*k_proj": FP8, "*v_proj": NVFP4}), "kv_cache_quant_config of the config is {"),
        (quark(kv_cache_quant_config={"*k_proj": {}}), "kv_cache_quant_config of the config is {"),
        (quark(["*k_proj"], layer_quant_config={"*k_proj": NVFP4}), "layer_quant_config of the config is {"),
        (quark(["*k_proj"]), "layer_quant_config of the config is {}"),
    ],
    ids=str,
)
def test_what_a_checkpoint_quantizes_its_keys_to_is_counted_or_refused_by_name(said, dtype):
    source = config("llama-3.1-8b", quantization_config=said)
    if dtype in ("fp8", "bf16"):
        layers = KVLayers.from_config(source)
        assert (layers.dtype, layers.bytes_per_token) == (dtype, 131_072 if dtype == "bf16" else 65_536)
        return
    with pytest.raises(ValueError, match=f"^{dtype}.*: only the size of FP8 is known"):
        KVLayers.from_config(source)
    assert KVLayers.from_config(source, "fp8").bytes_per_token == 65_536  # whoever says it needs no config for it


GEMMA_4 = SHAPES["Gemma 4 26B"].config


@pytest.mark.parametrize("layer", ["05", "5"])
def test_gemma_4_as_transformers_writes_it(layer):
    """It leaves the global fields out, and says the same of each layer with full attention."""
    fields = {key: value for key, value in GEMMA_4.items() if "global" not in key}
    own = {str(at): {"head_dim": 512, "num_key_value_heads": 2} for at in (11, 17, 23, 29)}
    own[layer] = own["11"]
    assert KVLayers.from_config(fields | {"per_layer_config": own}) == KVLayers.from_config(GEMMA_4)
    own["11"] = {"head_dim": 256}
    more = KVLayers.from_config(fields | {"per_layer_config": own}).bytes_per_token
    assert more == KVLayers.from_config(GEMMA_4).bytes_per_token + 2 * 2 * (8 * 256 - 2 * 512)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"0": {"sliding_window": 7}}, "sliding_window in .* is 7: minikv does not know what gemma4_text keeps"),
        ({"x": {}}, "per_layer_config in the config is {'x': {}}: expected the fields of layers by their numbers"),
        ({"0": 1}, "per_layer_config in the config is {'0': 1}: expected"),
        ([1], r"per_layer_config in the config is \[1\]: expected"),
    ],
)
def test_what_a_config_says_of_a_single_layer_is_known_or_refused(own, said):
    with pytest.raises(ValueError, match=said):
        KVLayers.from_config(GEMMA_4 | {"per_layer_config": own})
    with pytest.raises(ValueError, match=r"per_layer_config in the config is .* does not know what llama keeps"):
        KVLayers.from_config(config("llama-3.1-8b", per_layer_config={"0": {"head_dim": 512}}))


def test_a_number_of_layers_is_bounded():
    """The kinds of all layers are listed, and the file may be anybody's."""
    for name, fields in ("llama-3.1-8b", {}), ("qwen3-next-80b-a3b", {"layer_types": None}):
        for many in 10_001, 10**9:
            with pytest.raises(ValueError, match=f"num_hidden_layers in the config is {many}: expected at most 10000"):
                KVLayers.from_config(config(name, num_hidden_layers=many, **fields))
        assert KVLayers.from_config(config(name, num_hidden_layers=10_000, **fields)).bytes_per_token > 0


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-next-80b-a3b"])
@pytest.mark.parametrize("dtype", ["fp64", "int4", 7])
def test_the_type_of_a_state_is_one_that_states_have(name, dtype):
    with pytest.raises(ValueError, match=f"state_dtype is {dtype!r}: expected one of fp32, bf16, fp16"):
        KVLayers.from_config(name, state_dtype=dtype)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gemma-3-12b", "lfm2_moe"])
def test_the_type_of_a_state_is_refused_where_no_layer_sums(name):
    """LFM2's states are the last inputs of convolutions, of the model's own type."""
    conv = {"model_type": name, "layer_types": ["conv", "full_attention"] * 16}
    source, file = (conv, "the config") if name == "lfm2_moe" else (name, f"{name}.json")
    assert KVLayers.from_config(source).bytes_per_token
    with pytest.raises(ValueError, match=f"state_dtype is 'fp16', but no layer of {file} keeps a state's sums"):
        KVLayers.from_config(source, state_dtype="fp16")


def test_published_mamba_says_its_number_of_layers_twice():
    """130M: 24 layers of 1,536 channels, each with 16 sums and the last 3 inputs of its convolution."""
    made = {
        "model_type": "mamba",
        "hidden_size": 768,
        "num_hidden_layers": 24,
        "n_layer": 24,
        "intermediate_size": 1536,
    }
    size = 24 * 1536 * (16 * 4 + 3 * 2)
    assert KVLayers.from_config(made).bytes_per_sequence == size


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("bamba", {"attn_layer_indices": [9, 32]}, r"attn_layer_indices .* is \[9, 32\]: there are 32 layers"),
        ("bamba", {"attn_layer_indices": [-1]}, r"attn_layer_indices .* is \[-1\]: there are 32 layers"),
        (
            "kimi_linear",
            {"linear_attn_config": {"full_attn_layers": [0]}},
            r"full_attn_layers .* is \[0\]: there",
        ),
        ("jamba", {"attn_layer_offset": 8}, "attn_layer_offset .* is 8: it must be less than attn_layer_period, 8"),
        ("jamba", {"attn_layer_offset": "4"}, "attn_layer_offset .* is '4'"),
        ("jamba", {"attn_layer_period": 0}, "attn_layer_period .* is 0: a size is at least 1"),
        ("qwen3_next", {"full_attention_interval": 0}, "full_attention_interval .* is 0: a size is at least 1"),
        ("gemma3_text", {"sliding_window_pattern": 0}, "sliding_window_pattern .* is 0: a size is at least 1"),
        ("gemma3n_text", {"num_kv_shared_layers": 35}, "num_kv_shared_layers .* is 35: it has 35 layers"),
        ("deepseek_v3", {"kv_lora_rank": None}, "no kv_lora_rank, which its model_type needs"),
        ("glm_moe_dsa", {"indexer_types": ["full"]}, r"indexer_types .* is \['full'\]: expected one for each of 78"),
        ("glm_moe_dsa", {"indexer_types": []}, r"indexer_types .* is \[\]: expected one for each of 78"),
        ("llama", {"layer_types": [7] * 32}, "layer_types .* has 7: minikv does not know such layers"),
    ],
)
def test_what_would_count_too_few_layers_or_others_is_refused(kind, fields, said):
    """None of these is known to transformers: they would raise there, or be another model."""
    right = {"linear_attn_config": {"full_attn_layers": [1]}} if kind == "kimi_linear" else {}
    assert KVLayers.from_config({"model_type": kind, **right})
    with pytest.raises(ValueError, match=said):
        KVLayers.from_config({"model_type": kind, **fields})


def test_qwen_vl_has_its_text_fields_outside_as_published():
    flat = {"model_type": "qwen2_5_vl", "vision_config": {"depth": 32}, "hidden_size": 3584, "num_hidden_layers": 28,
            "num_attention_heads": 28, "num_key_value_heads": 4, "max_window_layers": 28, "sliding_window": 32768,
            "use_sliding_window": False}  # fmt: skip
    assert KVLayers.from_config(flat).bytes_per_token == 28 * 2 * 4 * 128 * 2


@pytest.mark.parametrize("name", ["llama-3.1-8b", "qwen3-8b", "mistral-7b-v0.3", "gemma-2b", "deepseek-v3"])
@pytest.mark.parametrize("tp", [1, 2, 8, 16])
def test_where_all_layers_keep_all_tokens_it_is_the_shape(name, tp):
    shape = KVShape.from_config(name)
    if shape.num_heads % tp == 0:
        for dtype in ("bf16", "fp8", "int4"):
            layers = KVLayers.from_config(name, dtype, tp)
            assert layers.bytes_per_token == bytes_per_token(shape, dtype, tp)
            assert (layers.bytes_per_sequence, layers.smallest_prefix) == (0, 1)


def test_a_state_is_divided_by_heads_and_an_indexer_is_on_every_rank():
    one, two = (KVLayers.from_config("qwen3-next-80b-a3b", tp=tp) for tp in (1, 2))
    assert two.bytes_per_sequence * 2 == one.bytes_per_sequence == delta(36, 32)
    with pytest.raises(ValueError, match="16 query heads do not divide among 64 ranks"):
        KVLayers.from_config("qwen3-next-80b-a3b", tp=64)
    assert KVLayers.from_config("deepseek-v3.2", tp=8) == KVLayers.from_config("deepseek-v3.2")
    # Granite has one group of B and C: each of two ranks keeps it, as in vLLM
    granite = SHAPES["Granite 4.0 H Small"].config
    assert KVLayers.from_config(granite, tp=2).groups[1].state == 36 * (64 * 64 * 128 * 4 + 3 * (64 * 64 + 256) * 2)


def test_what_engines_do_not_agree_on_is_named():
    said = [group.convention for group in KVLayers.from_config("qwen3-next-80b-a3b").groups]
    assert said == ["", "sums in fp32, as in SGLang; vLLM takes the type of the model"]
    assert KVLayers.from_config("qwen3-next-80b-a3b", state_dtype="bf16").bytes_per_sequence == 36 * (2**20 + 49_152)
    assert "as its config says" in KVLayers.from_config(SHAPES["Qwen3.5 27B"].config).groups[1].convention
    assert "656 bytes" in KVLayers.from_config("deepseek-v3.2", "fp8").groups[0].convention


QWEN_9B = SHAPES["Qwen3.5 27B"].config["text_config"] | {
    "num_hidden_layers": 32, "layer_types": None, "num_attention_heads": 16, "linear_num_value_heads": 32,
}  # fmt: skip


@pytest.mark.parametrize(
    ("source", "state_dtype", "block"),
    [(SHAPES["Qwen3.5 27B"].config, None, 784), (SHAPES["Qwen3.6 27B NVFP4"].config, None, 1568),
     (QWEN_9B, None, 528), (SHAPES["Granite 4.0 H Small"].config, "bf16", 528), ("qwen3-next-80b-a3b", "bf16", 544),
     ("gemma-3-12b", None, 1)],
)  # fmt: skip
def test_the_smallest_prefix_is_the_block_in_vllm_s_log(source, state_dtype, block):
    """Seen as "Setting attention block size to 784 tokens" in logs of Qwen3.6 27B, and 1,568 with FP8 keys; 528 of
    Qwen3.5 9B and of Granite 4.0 H Small. 544 of Qwen3-Next is computed."""
    assert KVLayers.from_config(source, state_dtype=state_dtype).smallest_prefix == block


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model_type": None}, "has no model_type"),
        ({"model_type": "t5"}, "model_type in the config is 't5'"),
        ({"head_dim": None, "hidden_size": None}, "the config has no hidden_size, which its model_type needs"),
        ({"model_type": ["llama"]}, "model_type in the config is"),
        (
            {"layer_types": ["full_attention", "window_attention"] * 16},
            "layer_types in the config has 'window_attention'",
        ),
        ({"layer_types": ["full_attention"] * 5}, "for 5 layers, num_hidden_layers is 32"),
        ({"layer_types": ["linear_attention"] * 32}, "a layer with a state, which its model_type does not have"),
        ({"layer_types": ["sliding_attention"] * 32}, "has no sliding_window"),
        ({"layer_types": [7] * 32}, "layer_types in the config has "),
        ({"num_hidden_layers": "32"}, "num_hidden_layers in the config is '32'"),
        ({"kv_cache_quant_algo": "NVFP4"}, "kv_cache_quant_algo of the config is 'NVFP4': only the size of FP8"),
    ],
)
def test_a_config_that_makes_no_sense_is_named(fields, said):
    with pytest.raises(ValueError, match=said):
        KVLayers.from_config(config("llama-3.1-8b", **fields))


def test_lists_in_a_config_are_checked():
    with pytest.raises(ValueError, match="hybrid_layer_pattern in the config is 'x': expected a list"):
        KVLayers.from_config(SHAPES["MiMo V2 Flash"].config | {"hybrid_layer_pattern": "x"})
    with pytest.raises(ValueError, match="hybrid_override_pattern in the config has 'Z': minikv does not know such"):
        KVLayers.from_config(config("nemotron-nano-9b-v2", hybrid_override_pattern="M" * 55 + "Z"))


ODD = st.sampled_from([None, "x", -1, 0, 1, 7, 1.5, True, [], [1], ["x"], {}, {"a": 1}, 2**31, 10**30])


@given(st.sampled_from(sorted(SHAPES)), st.data())
def test_whatever_a_config_says_it_is_counted_or_refused_in_one_line(name, data):
    shape = SHAPES[name].config
    fields = config(shape) if isinstance(shape, str) else shape
    text = fields.get("text_config", fields)
    chosen = data.draw(st.lists(st.sampled_from(sorted(text)), min_size=1, max_size=3))
    changed = text | {field: data.draw(ODD) for field in chosen}
    said = ""
    try:
        assert KVLayers.from_config(changed).bytes_per_token >= 0
    except ValueError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 300


def test_an_infinite_number_of_transformers_is_read(tmp_path):
    text = json.dumps(config("nemotron-nano-9b-v2", time_step_limit=[0.0, float("inf")]))
    (tmp_path / "config.json").write_text(text, "utf-8")
    assert KVLayers.from_config(tmp_path).bytes_per_token == 16_384


# -- against transformers, by night: its import takes seconds ---------------------------------------------------------

WAYS = [  # fields that rules read, changed
    {}, {"num_hidden_layers": 19}, {"sliding_window_pattern": 3}, {"full_attention_interval": 3},
    {"no_rope_layer_interval": 3}, {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2},
    {"attn_layer_period": 5, "attn_layer_offset": 2}, {"attn_layer_indices": [2, 5]}, {"full_attn_idxs": [0, 3]},
    {"sliding_window": 64}, {"sliding_window": None},
]  # fmt: skip


@pytest.mark.nightly
def test_the_table_is_what_transformers_says():
    pytest.importorskip("transformers")
    import model_types

    found = json.loads(model_types.TABLE.read_text("utf-8"))
    assert json.loads(json.dumps(model_types.table()))["types"] == found["types"], "python tests/model_types.py"


@pytest.mark.nightly
def test_layers_are_of_the_kinds_that_transformers_gives_them():
    transformers = pytest.importorskip("transformers")
    import model_types

    from minikv.model_types import model_of

    compared = 0
    for name in sorted(model_types.RULES.keys() - {"kimi_linear", "mimo_v2_flash", "nemotron_h", "lfm2_moe"}):
        for fields in WAYS:
            known, also = model_types.class_of(name), model_types.row(name)["also"]
            breaks = ("qwen2_moe", "use_sliding_window"), ("smollm3", "use_sliding_window")
            if not fields.keys() <= known.keys() | set(also) or any((name, field) in breaks for field in fields):
                continue
            try:
                theirs = transformers.CONFIG_MAPPING[name](**fields)
            except Exception:  # it refuses these fields itself
                continue
            kinds = getattr(theirs, "layer_types", None)
            if kinds is None:
                window = getattr(theirs, "sliding_window", None)
                kinds = ["sliding_attention" if window else "full_attention"] * theirs.num_hidden_layers
            ours = model_of({"model_type": name, **fields})
            count = len(kinds) - (getattr(theirs, "num_kv_shared_layers", 0) or 0)
            assert list(ours.kinds) == kinds[:count], (name, fields)
            compared += 1
    assert compared > 150


@pytest.mark.nightly
@pytest.mark.parametrize("diff", [False, True])
@pytest.mark.parametrize(
    ("class_name", "fields", "each"),
    [
        ("MambaConfig", {}, 1536 * (16 * 4 + 3 * 2)),
        (
            "Mamba2Config",
            {"num_heads": 24, "n_groups": 1, "state_size": 128},
            24 * 64 * 128 * 4 + 3 * (1536 + 2 * 128) * 2,
        ),
    ],
)
def test_mamba_is_counted_as_transformers_writes_it(class_name, fields, each, diff):
    """130M: 1,536 channels of 16 sums; or 24 heads of 64 x 128, and a convolution over x, and B and C of one group."""
    made = getattr(pytest.importorskip("transformers"), class_name)(hidden_size=768, num_hidden_layers=24, **fields)
    layers = KVLayers.from_config(json.loads(made.to_json_string(use_diff=diff)))
    assert (layers.bytes_per_token, layers.bytes_per_sequence) == (0, 24 * each)
