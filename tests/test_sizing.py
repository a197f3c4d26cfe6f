"""Sizes against a formula, the tensor-parallel rule, budgets, waste, and configs that are read or refused.

That the sizes are those of torch's tensors is in test_store; that those of published models are right, in test_layers;
that no number is below its least one, in test_arguments.
"""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import said

from minikv import KVShape, asset, bytes_per_page, bytes_per_token, kv_budget, kv_tensors, page_waste, pages_that_fit
from minikv.sizing import DTYPE_BITS, SCALE_BYTES, size_text

EVEN = st.integers(1, 16).map(lambda n: 2 * n)
SHAPES = st.one_of(
    st.builds(KVShape, st.integers(1, 4), st.integers(1, 8), EVEN, st.none() | EVEN),
    st.builds(KVShape, st.integers(1, 4), latent_dim=EVEN),
)


@given(SHAPES, st.sampled_from(sorted(DTYPE_BITS)), st.integers(0, 4), st.integers(1, 8), st.sampled_from([1, 2, 3, 8]))
def test_a_token_has_its_vectors_in_every_layer_and_a_rank_its_heads(shape, dtype, num_pages, page_size, tp):
    """Heads are dealt out or copied, never cut. N4: the notebook divides 8 heads by 16 ranks."""
    heads = shape.num_kv_heads
    if heads and heads % tp and tp % heads:
        words = f"ValueError: {heads} KV heads do not divide among {tp} ranks: one must be a multiple of the other"
        assert said(bytes_per_page, shape, page_size, dtype, tp) == words
        return
    sizes = {"latent": shape.latent_dim}
    if heads:
        sizes = {"k": shape.head_dim, "v": shape.v_head_dim or shape.head_dim}
    rows = shape.num_layers * max(1, heads // tp)
    size = sum(rows * (numbers * DTYPE_BITS[dtype] // 8 + SCALE_BYTES.get(dtype, 0)) for numbers in sizes.values())
    assert bytes_per_token(shape, dtype, tp) == size
    assert json.dumps(bytes_per_page(shape, page_size, dtype, tp)) == str(page_size * size)
    plans = kv_tensors(shape, num_pages, page_size, dtype, tp)
    assert {plan.shape[:3] for plan in plans} == {(num_pages * page_size, shape.num_layers, max(1, heads // tp))}
    scales = [f"{name}_scale" for name in sizes] if dtype in SCALE_BYTES else []
    assert [plan.name for plan in plans] == [*sizes, *scales]


def test_numpy_sizes_do_not_overflow():
    shape = KVShape(np.int32(80), np.int32(64), np.int32(128))
    assert bytes_per_page(shape, 4096) == 80 * 2 * 64 * 128 * 2 * 4096
    assert kv_tensors(shape, 3) == kv_tensors(shape, 3, 1)


@pytest.mark.parametrize(("kv_heads", "name"), [(1, "MQA"), (2, "GQA"), (4, "GQA"), (8, "MHA")])
def test_attention_is_named_by_how_many_heads_share_their_keys(kv_heads, name):
    assert KVShape(2, num_kv_heads=kv_heads, head_dim=4, num_heads=8).attention == name


# -- configs ----------------------------------------------------------------------------------------------------------


def test_a_config_is_read_from_a_folder_a_file_a_dict_and_inside_a_multimodal_one(tmp_path):
    path = asset("configs/qwen3-8b.json")
    config = json.loads(path.read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps({"text_config": config}), "utf-8")
    for source in ("qwen3-8b", path, str(path), config, tmp_path, tmp_path / "config.json"):
        assert KVShape.from_config(source) == KVShape(36, 8, 128, num_heads=32)


TWO = {"num_hidden_layers": 2, "num_attention_heads": 4}


def test_fewer_kv_heads_by_default_means_as_many_as_query_heads():
    assert KVShape.from_config({**TWO, "hidden_size": 64, "head_dim": None}) == KVShape(2, 4, 16, num_heads=4)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "ValueError: the config has no num_hidden_layers"),
        ({**TWO, "num_attention_heads": 3, "hidden_size": 64}, "ValueError: hidden_size 64 in the config is not a m"),
        (TWO, "ValueError: the config has no hidden_size"),
        ({**TWO, "kv_lora_rank": 8}, "ValueError: the config has no qk_rope_head_dim"),
        ({**TWO, "num_key_value_heads": 3, "head_dim": 8}, "ValueError: num_heads is 4: it must be a multiple of"),
        ({**TWO, "hidden_size": 64, "multi_query": True}, "ValueError: the config names its KV heads differently"),
        ({"text_config": "x"}, "ValueError: text_config in the config is 'x'"),
        (None, "TypeError: the config is a NoneType"),
        ("gpt-9", "FileNotFoundError: 'gpt-9' is not a config.json, "),
        ("gemma-3-12b", "ValueError: gemma-3-12b.json has layers that keep something other than K and V"),
    ],
)
def test_a_config_that_makes_no_sense_is_named(config, words):
    assert said(KVShape.from_config, config).startswith(words)


@pytest.mark.parametrize(("text", "words"), [("{", "config.json is not JSON"), ("[]", "holds a list")])
def test_a_config_that_cannot_be_read_is_named(text, words, tmp_path):
    (tmp_path / "config.json").write_text(text, "utf-8")
    assert words in said(KVShape.from_config, tmp_path)
    assert "deepseek-v3, " in said(KVShape.from_config, "gpt-9")


# -- what cannot be ---------------------------------------------------------------------------------------------------

SMALL = KVShape(1, 1, 4)
WRONG = [
    (KVShape, (1, 2, 2, 0), "ValueError: v_head_dim is 0"),
    (KVShape, (1, 2, 2, None, 4), "ValueError: latent_dim is 4, so num_kv_heads, head_dim and v_head_dim stay unset"),
    (KVShape, (1, 0, 0, 3, 4), "ValueError: latent_dim is 4, so"),
    (KVShape, (1, 0, 0, None, 0), "ValueError: latent_dim is 0"),
    (KVShape, (1, 1, 4, None, None, 0), "ValueError: num_heads is 0"),
    (bytes_per_token, (SMALL, "fp64"), "ValueError: dtype is 'fp64'"),
    (bytes_per_token, (KVShape(1, 1, 3), "int4"), "ValueError: 3 numbers of int4 are not whole bytes"),
    (bytes_per_token, (KVShape(1, 4, 64, num_heads=8), "bf16", 16), "ValueError: 8 query heads do not divide among 16"),
    (kv_budget, (100, 95), "ValueError: the weights take 95 bytes, but only 90 bytes may be used"),
    (kv_budget, (100, 101, 1), "ValueError: the weights take 101 bytes, but only 100 bytes may be used"),
    *(
        (kv_budget, (100, 0, odd), "ValueError: utilization is ")
        for odd in (1.5, "0.9", None, True, 0, -1, float("nan"))
    ),
    (page_waste, ([3, -1], 4), "ValueError: lengths[1] is -1"),
    (page_waste, ([2.5], 4), "TypeError: lengths[0] is 2.5"),
]


@pytest.mark.parametrize(("act", "arguments", "words"), WRONG)
def test_bad_sizes_are_named(act, arguments, words):
    assert said(act, *arguments).startswith(words)


# -- budgets ----------------------------------------------------------------------------------------------------------


def test_a_share_of_the_memory_is_meant_as_it_is_written():
    assert kv_budget(100, 0, 0.29) == 29
    assert kv_budget(2**60 + 1, 0, 1.0) == 2**60 + 1
    assert kv_budget(100, 100, 1) == 0


@given(st.integers(0, 2**60), st.integers(1, 2**30))
def test_pages_that_fit_are_whole_and_one_more_would_not(budget, page_bytes):
    pages = pages_that_fit(budget, page_bytes)
    assert pages * page_bytes <= budget < (pages + 1) * page_bytes


@given(st.lists(st.integers(0, 500)), st.integers(1, 64))
def test_waste_is_what_the_pages_hold_beyond_the_tokens(lengths, page_size):
    waste = page_waste(lengths, page_size)
    assert waste.pages * page_size == waste.tokens + waste.wasted
    assert waste.tokens == sum(lengths)
    assert waste.wasted <= len(lengths) * (page_size - 1)
    assert waste.fraction == (waste.wasted / (waste.pages * page_size) if waste.pages else 0)


@given(st.integers(0, 2**50))
def test_a_number_of_bytes_is_read_back_within_a_thousandth(size):
    number, unit = size_text(size).replace(",", "").split()
    power = ("bytes", "KiB", "MiB", "GiB", "TiB").index(unit)
    assert abs(float(number) * 1024**power - size) <= size / 1000
    assert float(number) <= 1024
