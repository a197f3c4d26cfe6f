"""What the layers of published models keep, to the byte; what is not known is refused by name."""

import json

import pytest
from golden_text import replay, sections
from hypothesis import given
from hypothesis import strategies as st
from model_shapes import SHAPES, Shape, delta, gqa, mamba2
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
NAMES = "Gemma 4 26B", "Qwen3.5 27B", "Granite 4.0 H Small"
GEMMA_4, QWEN, GRANITE = (SHAPES[name].config for name in NAMES)
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


GOLDEN = "layers.txt"
KNOWN = {"nothing": {}, **{name: shape.config for name, shape in SHAPES.items()}}


@pytest.mark.parametrize("title", sections(GOLDEN))
def test_what_is_counted_or_refused_is_what_the_golden_file_says(title, tmp_path):
    """Of a config, or a known one with other fields, as it is read with these options."""

    def act(words):
        name, *parts = words.split(" | ")
        fields, options = (*map(json.loads, parts), {}, {})[:2]
        source = config(KNOWN.get(name, name)) | fields
        (tmp_path / "config.json").write_text(json.dumps(source), "utf-8")
        says = said(LAYERS, tmp_path, **options)
        if says:
            return [says.removeprefix("ValueError: ")]
        layers = LAYERS(tmp_path, **options)
        told = [group.convention for group in layers.groups if group.convention]
        token, sequence = layers.bytes_per_token, layers.bytes_per_sequence
        return [f"{layers.dtype}: {token} a token, {sequence} a sequence", *told]

    replay(GOLDEN, title, act)


@pytest.mark.parametrize("layer", ["05", "5"])
def test_gemma_4_as_transformers_writes_it(layer):
    """It leaves the global fields out, and says the same of each layer with full attention."""
    fields = {key: value for key, value in GEMMA_4.items() if "global" not in key}
    own = {at: {"head_dim": 512, "num_key_value_heads": 2} for at in (layer, "11", "17", "23", "29")}
    assert LAYERS({**fields, "per_layer_config": own}) == LAYERS(GEMMA_4)
    own["11"] = {"head_dim": 256}
    more = LAYERS({**fields, "per_layer_config": own}).bytes_per_token - LAYERS(GEMMA_4).bytes_per_token
    assert more == 2 * 2 * (8 * 256 - 2 * 512)


def test_a_state_is_divided_by_heads():
    assert LAYERS("qwen3-next-80b-a3b", tp=2).bytes_per_sequence == delta(36, 32) // 2
    assert "heads of a recurrent layer do not divide" in said(LAYERS, config(QWEN_9B, linear_num_value_heads=33), tp=2)
    # Granite has one group of B and C: each of two ranks keeps it, as in vLLM
    assert LAYERS(GRANITE, tp=2).groups[1].state == 36 * (64 * 64 * 128 * 4 + 3 * (64 * 64 + 256) * 2)


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


def test_as_many_layers_as_are_listed_are_counted():
    for name in "llama-3.1-8b", "qwen3-next-80b-a3b":
        assert len(model_of(config(name, num_hidden_layers=10_000, layer_types=None)).kinds) == 10_000


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
