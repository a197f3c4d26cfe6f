"""Packed linear layers: the same numbers as plain ones, few numbers of rows, and never those of weights of before."""

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
@pytest.mark.parametrize("bias", [None, torch.arange(40.0)])
def test_a_packed_layer_gives_what_a_plain_one_gives(rows, bias):
    weight, x = (torch.randn(count, 24, generator=torch.Generator().manual_seed(rows)) for count in (40, rows))
    assert torch.allclose(PackedLinear(weight)(x, bias), functional.linear(x, weight, bias), atol=1e-4)


@needs_packing
def test_there_are_only_a_few_numbers_of_rows_however_many_a_step_has():
    layer, products = PackedLinear(torch.ones(3, 4)), Products()
    with products:
        for rows in range(STEP_ROWS, MOST_ROWS + 1):
            layer(torch.ones(rows, 4), None)
    assert {*products.rows} == {*range(STEP_ROWS, MOST_ROWS + 1, STEP_ROWS)}


@needs_packing
def test_a_step_of_some_tokens_uses_packed_weights_and_others_plain_ones():
    model = llama()
    for count, is_packed in ((STEP_ROWS - 1, False), (STEP_ROWS, True), (MOST_ROWS, True), (MOST_ROWS + 1, False)):
        with Products() as products:
            logits_of(model, count)
        assert bool(products.rows) is is_packed, count


@needs_packing
def test_weights_and_biases_that_are_changed_in_place_are_used_as_they_are_then():
    model, other = (llama(seed=seed, attention_bias=True) for seed in (1, 2))
    logits_of(model)
    for name, weight in model.weights.items():
        weight.copy_(other.weights[name])
    model.weights["model.layers.0.self_attn.v_proj.bias"].add_(1)
    assert (logits_of(model) - logits_of(other)).abs().max() > 1e-2
    other.weights["model.layers.0.self_attn.v_proj.bias"].add_(1)
    assert torch.allclose(logits_of(model), logits_of(other), atol=1e-5)


def test_gradients_in_float32_reach_every_weight():
    model = llama()
    weights = [weight.requires_grad_() for weight in model.weights.values()]
    logits = model.logits([Chunk(TOKENS[:20], 0, range(20))], store_for(model))
    grads = torch.autograd.grad(logits.sum(), weights, allow_unused=True)
    assert all(grad is not None and bool(grad.any()) for grad in grads)


def inference():
    with torch.inference_mode():
        return torch.zeros(1)


@pytest.mark.parametrize("weight", [
    *(torch.zeros(1, dtype=dtype) for dtype in (torch.float64, torch.bfloat16, torch.float16)),
    inference(),  # its changes are not counted
])  # fmt: skip
def test_other_weights_stay_as_they_are(weight):
    assert not can_pack([torch.zeros(1), weight])


@needs_packing
@pytest.mark.parametrize(("where", "name", "enough", "lacking"), [
    (decoder, "MOST_BYTES", 40, 39),  # in memory twice
    (torch.backends.cpu, "get_cpu_capability", lambda: "AVX2", lambda: "DEFAULT"),
    (decoder, "_OPERATIONS", ("_linear_pointwise",), ("_linear_pointwise", "_not_there")),
])  # fmt: skip
def test_without_the_memory_the_processor_or_the_operations_weights_stay_plain(
    where, name, enough, lacking, monkeypatch
):
    for value, packs in ((enough, True), (lacking, False)):
        monkeypatch.setattr(where, name, value)
        assert can_pack([torch.zeros(4), torch.zeros(6)]) is packs
