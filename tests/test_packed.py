"""Packed linear layers: the same numbers as plain ones, few numbers of rows, and never those of weights of before."""

from __future__ import annotations

import pytest
import torch
from llamas import llama, store_for
from torch.nn import functional

from minikv.serving import llama as decoder
from minikv.serving.llama import MOST_ROWS, STEP_ROWS, PackedLinear, can_pack
from minikv.serving.model import Chunk

needs_packing = pytest.mark.skipif(not can_pack([torch.zeros(1)]), reason="needs a CPU with AVX and torch with oneDNN")
TOKENS = [*range(20)] * 4


def logits_of(model, count=20):
    return model.forward([Chunk(TOKENS[:count], 0, range(count))], store_for(model))


class Products(torch.utils._python_dispatch.TorchDispatchMode):
    """How many rows each packed product has."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "_linear_pointwise" in str(func):
            self.rows.append(len(args[0]))
        return func(*args, **(kwargs or {}))


@needs_packing
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 63, 64, 65])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("outputs", [40, 7])
def test_a_packed_layer_gives_what_a_plain_one_gives(rows, with_bias, outputs):
    generator = torch.Generator().manual_seed(rows)
    weight, x = (torch.randn(count, 24, generator=generator) for count in (outputs, rows))
    bias = torch.randn(outputs, generator=generator) if with_bias else None
    assert (PackedLinear(weight)(x, bias) - functional.linear(x, weight, bias)).abs().max() < 1e-4


@needs_packing
def test_there_are_only_a_few_numbers_of_rows_however_many_a_step_has():
    layer, products = PackedLinear(torch.ones(3, 4)), Products()
    with products:
        for rows in range(STEP_ROWS, MOST_ROWS + 1):
            layer(torch.ones(rows, 4), None)
    assert {*products.rows} == {*range(STEP_ROWS, MOST_ROWS + 1, STEP_ROWS)}


@needs_packing
def test_a_step_of_some_tokens_uses_packed_weights_and_a_smaller_or_larger_one_plain_weights():
    model = llama()
    for count, is_packed in ((STEP_ROWS - 1, False), (STEP_ROWS, True), (MOST_ROWS, True), (MOST_ROWS + 1, False)):
        with Products() as products:
            logits_of(model, count)
        assert bool(products.rows) is is_packed, count


@needs_packing
def test_a_weight_that_is_changed_in_place_is_packed_again():
    model, other = llama(seed=1), llama(seed=2)
    before = logits_of(model)
    for name, weight in model.weights.items():
        weight.copy_(other.weights[name])
    assert (logits_of(model) - logits_of(other)).abs().max() < 1e-5
    assert (logits_of(model) - before).abs().max() > 1e-2


@needs_packing
def test_a_bias_that_is_changed_in_place_is_packed_again():
    model = llama(attention_bias=True)
    before = logits_of(model)
    model.weights["model.layers.0.self_attn.v_proj.bias"].add_(1)
    assert (logits_of(model) - before).abs().max() > 1e-2


def test_gradients_in_float32_reach_every_weight():
    model = llama()
    weights = [weight.requires_grad_() for weight in model.weights.values()]
    logits = model.logits([Chunk(TOKENS[:20], 0, range(20))], store_for(model))
    grads = torch.autograd.grad(logits.sum(), weights, allow_unused=True)
    assert all(grad is not None and bool(grad.any()) for grad in grads)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_dtypes_stay_as_they_are(dtype):
    assert not can_pack([torch.zeros(1, dtype=torch.float32), torch.zeros(1, dtype=dtype)])


def test_weights_whose_changes_are_not_counted_stay_as_they_are():
    with torch.inference_mode():
        weight = torch.zeros(1)
    assert not can_pack([weight])


@needs_packing
def test_a_model_too_large_to_be_in_memory_twice_stays_as_it_is(monkeypatch):
    weights = [torch.zeros(4), torch.zeros(6)]
    monkeypatch.setattr(decoder, "MOST_BYTES", 40)
    assert can_pack(weights)
    monkeypatch.setattr(decoder, "MOST_BYTES", 39)
    assert not can_pack(weights)


def test_a_processor_without_avx_multiplies_plain_weights(monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    assert not can_pack([torch.zeros(1)])


@needs_packing
def test_a_torch_without_these_operations_multiplies_plain_weights(monkeypatch):
    monkeypatch.setattr("minikv.serving.llama._OPERATIONS", ("_linear_pointwise", "_not_there"))
    assert not can_pack([torch.zeros(1)])
