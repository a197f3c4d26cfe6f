"""Sizes against the tensors that would be allocated, the tensor-parallel rule, budgets, waste, and real configs."""

from __future__ import annotations

import json
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import (
    KVShape,
    asset,
    bytes_per_page,
    bytes_per_token,
    kv_budget,
    kv_heads_per_rank,
    kv_tensors,
    page_waste,
    pages_that_fit,
)
from minikv.sizing import DTYPE_BITS, size_text

pytestmark = pytest.mark.core

EVEN = st.integers(1, 16).map(lambda n: 2 * n)
SHAPES = st.one_of(
    st.builds(KVShape, st.integers(1, 4), st.integers(1, 8), EVEN, st.none() | EVEN),
    st.builds(KVShape, st.integers(1, 4), latent_dim=EVEN),
)


@given(SHAPES, st.sampled_from(sorted(DTYPE_BITS)), st.integers(0, 4), st.integers(1, 8), st.sampled_from([1, 2, 3, 8]))
def test_sizes_are_what_torch_allocates(shape, dtype, num_pages, page_size, tp):
    torch = pytest.importorskip("torch")
    heads = shape.num_kv_heads
    if heads and heads % tp and tp % heads:
        with pytest.raises(ValueError, match=f"{heads} KV heads do not divide among {tp} ranks"):
            bytes_per_page(shape, page_size, dtype, tp)
        return
    plans = kv_tensors(shape, num_pages, page_size, dtype, tp)
    allocated = sum(torch.empty(plan.shape, dtype=getattr(torch, plan.dtype)).nbytes for plan in plans)
    assert allocated == num_pages * bytes_per_page(shape, page_size, dtype, tp)
    assert bytes_per_page(shape, page_size, dtype, tp) == page_size * bytes_per_token(shape, dtype, tp)
    assert isinstance(bytes_per_page(shape, page_size, dtype, tp), int)


@pytest.mark.parametrize(
    ("name", "attention", "size"),
    [
        ("llama-2-7b", "MHA", 32 * 2 * 32 * 128 * 2),
        ("llama-3.1-8b", "GQA", 32 * 2 * 8 * 128 * 2),
        ("qwen3-8b", "GQA", 36 * 2 * 8 * 128 * 2),
        ("mistral-7b-v0.3", "GQA", 32 * 2 * 8 * 128 * 2),
        ("gemma-2b", "MQA", 18 * 2 * 1 * 256 * 2),
        ("deepseek-v3", "MLA", 61 * (512 + 64) * 2),
    ],
)
def test_shipped_configs_worked_by_hand(name, attention, size):
    """Layers x (K and V) x KV heads x head size x 2 bytes, or layers x latent vector x 2 bytes."""
    shape = KVShape.from_config(name)
    assert (shape.attention, bytes_per_token(shape)) == (attention, size)


def test_a_config_is_read_from_a_folder_a_file_a_dict_and_inside_a_multimodal_one(tmp_path):
    path = asset("configs/qwen3-8b.json")
    config = json.loads(path.read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps({"text_config": config}), "utf-8")
    expected = KVShape.from_config("qwen3-8b")
    for source in (path, str(path), config, tmp_path, tmp_path / "config.json"):
        assert KVShape.from_config(source) == expected


def test_fewer_kv_heads_by_default_means_as_many_as_query_heads():
    config = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "head_dim": None}
    assert KVShape.from_config(config) == KVShape(2, 4, 16, num_heads=4)


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({}, "no num_hidden_layers"),
        ({"num_hidden_layers": 2}, "no num_attention_heads"),
        ({"num_hidden_layers": 2, "num_attention_heads": 3, "hidden_size": 64}, "hidden_size 64 .* 3 heads"),
        ({"num_hidden_layers": 2, "num_attention_heads": 4}, "no hidden_size"),
        ({"num_hidden_layers": 0, "num_attention_heads": 4}, "num_hidden_layers in the config is 0"),
        ({"num_hidden_layers": 2, "num_attention_heads": 4, "kv_lora_rank": 8}, "no qk_rope_head_dim"),
        ({"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 3, "head_dim": 8}, "multiple"),
    ],
)
def test_a_config_that_makes_no_sense_is_named(config, names):
    with pytest.raises(ValueError, match=names):
        KVShape.from_config(config)


def test_a_config_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{", "utf-8")
    with pytest.raises(ValueError, match=r"config.json is not JSON"):
        KVShape.from_config(tmp_path)
    (tmp_path / "config.json").write_text("[]", "utf-8")
    with pytest.raises(ValueError, match="holds a list"):
        KVShape.from_config(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"'gpt-9' is not a config.json, .* deepseek-v3, .*Download your"):
        KVShape.from_config("gpt-9")
    with pytest.raises(FileNotFoundError):
        KVShape.from_config("folder/config.json")


def test_heads_are_dealt_out_or_copied_never_cut():
    """N4: the notebook divides 8 heads by 16 ranks and sizes for 256 bytes a token; each rank holds 512."""
    assert [kv_heads_per_rank(8, tp) for tp in (1, 2, 4, 8, 16, 64)] == [8, 4, 2, 1, 1, 1]
    shape = KVShape(num_layers=1, num_kv_heads=8, head_dim=128)
    assert bytes_per_token(shape, tp=16) == bytes_per_token(shape, tp=8) == 512
    for tp in (3, 5, 12):
        with pytest.raises(ValueError, match=f"among {tp} ranks"):
            bytes_per_token(shape, tp=tp)


def test_query_heads_must_divide_too():
    with pytest.raises(ValueError, match="8 query heads do not divide among 16 ranks"):
        bytes_per_token(KVShape(1, 4, 64, num_heads=8), tp=16)


def test_a_latent_vector_is_whole_on_every_rank():
    shape = KVShape.from_config("deepseek-v3")
    assert bytes_per_token(shape, tp=8) == bytes_per_token(shape)


def test_scales_count_only_where_they_exist():
    shape = KVShape(num_layers=3, num_kv_heads=2, head_dim=64)
    vectors = 3 * 2 * 2
    assert bytes_per_token(shape, "fp8") == vectors * 64
    assert bytes_per_token(shape, "int8") == vectors * (64 + 4)
    assert bytes_per_token(shape, "int4") == vectors * (32 + 4)


@pytest.mark.parametrize(
    ("wrong", "error", "names"),
    [
        (lambda: KVShape(0, 1, 1), ValueError, "num_layers is 0"),
        (lambda: KVShape(1), ValueError, "num_kv_heads is 0"),
        (lambda: KVShape(1, 2, 2.0), TypeError, "head_dim is 2.0"),
        (lambda: KVShape(1, 2, 2, latent_dim=4), ValueError, "latent_dim is 4"),
        (lambda: bytes_per_token(KVShape(1, 1, 4), "fp64"), ValueError, "dtype is 'fp64'"),
        (lambda: bytes_per_token(KVShape(1, 1, 3), "int4"), ValueError, "3 numbers of int4 are not whole bytes"),
        (lambda: bytes_per_token(KVShape(1, 1, 4), tp=0), ValueError, "tp is 0"),
        (lambda: bytes_per_page(KVShape(1, 1, 4), 0), ValueError, "page_size is 0"),
        (lambda: pages_that_fit(-1, 8), ValueError, "budget_bytes is -1"),
        (lambda: pages_that_fit(1e9, 8), TypeError, "budget_bytes is 1000000000.0"),
        (lambda: pages_that_fit(8, 0), ValueError, "page_bytes is 0"),
        (lambda: kv_budget(100, 95), ValueError, "the weights take 95 bytes, but only 90"),
        (lambda: kv_budget(100, 0, 1.5), ValueError, "utilization is 1.5"),
        (lambda: page_waste([3, -1], 4), ValueError, r"lengths\[1\] is -1"),
        (lambda: page_waste([2.5], 4), TypeError, r"lengths\[0\] is 2.5"),
    ],
)
def test_bad_sizes_are_named(wrong, error, names):
    with pytest.raises(error, match=names):
        wrong()


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
    assert 0 <= waste.fraction < 1


def test_the_plan_has_one_row_a_slot():
    plans = kv_tensors(KVShape(2, 4, 8, v_head_dim=16), num_pages=3, page_size=5)
    assert [(plan.name, plan.shape, plan.dtype) for plan in plans] == [
        ("k", (15, 2, 4, 8), "bfloat16"),
        ("v", (15, 2, 4, 16), "bfloat16"),
    ]
    assert sum(2 * prod(plan.shape) for plan in plans) == 3 * bytes_per_page(KVShape(2, 4, 8, v_head_dim=16), 5)


def test_numpy_sizes_do_not_overflow():
    np = pytest.importorskip("numpy")
    shape = KVShape(np.int32(80), np.int32(64), np.int32(128))
    assert bytes_per_page(shape, 4096) == 80 * 2 * 64 * 128 * 2 * 4096
    assert json.dumps(bytes_per_page(shape)) == str(80 * 2 * 64 * 128 * 2)


def test_a_share_of_the_memory_is_meant_as_it_is_written():
    assert kv_budget(100, 0, 0.29) == 29
    assert kv_budget(2**60 + 1, 0, 1.0) == 2**60 + 1
    for wrong in ("0.9", None, True, 0, -1, float("nan")):
        with pytest.raises(ValueError, match="utilization is"):
            kv_budget(100, 0, wrong)


def test_configs_that_name_their_heads_otherwise_are_refused():
    falcon = {"num_hidden_layers": 32, "num_attention_heads": 71, "hidden_size": 4544, "multi_query": True}
    with pytest.raises(ValueError, match="names its KV heads differently"):
        KVShape.from_config(falcon)
    with pytest.raises(ValueError, match="text_config in the config is 'x'"):
        KVShape.from_config({"text_config": "x"})
    with pytest.raises(TypeError, match="the config is a NoneType"):
        KVShape.from_config(None)


def test_weights_that_take_all_that_may_be_used_leave_nothing():
    assert kv_budget(100, 100, utilization=1) == 0
    with pytest.raises(ValueError, match="the weights take 101 bytes, but only 100 bytes may be used"):
        kv_budget(100, 101, utilization=1)


@given(st.integers(0, 2**50))
def test_a_number_of_bytes_is_read_back_within_a_thousandth(size):
    number, unit = size_text(size).replace(",", "").split()
    power = ("bytes", "KiB", "MiB", "GiB", "TiB").index(unit)
    assert abs(float(number) * 1024**power - size) <= size / 1000
    assert float(number) <= 1024


@pytest.mark.parametrize(("kv_heads", "name"), [(1, "MQA"), (2, "GQA"), (4, "GQA"), (8, "MHA")])
def test_attention_is_named_by_how_many_heads_share_their_keys(kv_heads, name):
    assert KVShape(2, num_kv_heads=kv_heads, head_dim=4, num_heads=8).attention == name
