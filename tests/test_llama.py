"""The decoder by itself: what a step depends on, and what it refuses. Its numbers are test_llama_oracle's business."""

import dataclasses
import json
import random

import pytest
import torch
from llamas import LLAMA3, everywhere, llama, settings, store_for
from safetensors.torch import save_file

from minikv import CacheManager, Engine, KVStore
from minikv.serving.batch import Batch
from minikv.serving.checkpoint import LlamaConfig, read_llama_config, read_weights, rope_frequencies
from minikv.serving.llama import Llama
from minikv.serving.model import Chunk

EXACT = llama(dtype=torch.float64)  # rounding is 1e-15: what differs by 1e-9 differs for a reason
TOKENS = random.Random(0).choices(range(EXACT.vocab_size), k=40)


def whole(model, tokens, slots=None, store=None):
    chunk = Chunk(tokens, 0, slots or range(len(tokens)))
    return model.forward(everywhere([chunk]), store or store_for(model))


def close(a, b):
    return a.shape == b.shape and bool((a - b).abs().max() < 1e-9)


# -- what a step depends on: no cut, batch, order or place, say the oracle and test_attention -------


@pytest.mark.parametrize("wanted", [list, everywhere])
def test_gradients_reach_every_weight_and_are_right(wanted):
    """By difference quotients along a random direction of each weight; chunks of several lengths."""
    model = llama(seed=2, dtype=torch.float64)
    places = [(slice(0, 4), range(4)), (slice(4, 6), [9, 7]), (slice(6, 13), range(20, 27))]
    chunks = wanted([Chunk(TOKENS[at], 0, slots) for at, slots in places])

    def logits(*weights):
        changed = Llama(model.config, dict(zip(model.weights, weights)))
        return changed.logits(chunks, store_for(model))

    weights = [weight.requires_grad_() for weight in model.weights.values()]
    assert torch.autograd.gradcheck(logits, weights, fast_mode=True)
    grads = torch.autograd.grad(logits(*weights).square().sum(), weights, allow_unused=True)
    assert all(grad is not None and bool(grad.any()) for grad in grads)


def test_an_engine_whose_manager_has_no_store_says_so_and_loses_no_slot():
    manager = CacheManager(8)
    with pytest.raises(ValueError, match=r"store is None: .* need one, as in CacheManager\("):
        Engine(EXACT, manager).generate([TOKENS[:3]], 2)
    assert manager.pool.num_free == 8


def shapes(batch):
    """Of each part how many groups it has, and how many slots each of them reads."""
    slots = [(part.size, part.slots.stop - part.slots.start) for part in batch.parts]
    return [(size, count // size) for size, count in slots]


def test_a_short_sequence_beside_a_long_one_sees_neither_padding_nor_anybody_elses_slots():
    """Lengths 17 and 31 share a part; all other slots hold NaN, which would spread, and keep it."""
    store, nan = store_for(EXACT), torch.full((256, 2, 8), float("nan"), dtype=torch.float64)
    for layer in range(2):
        store.write(layer, range(256), nan, nan)
    rows = {16: range(50, 67), 30: range(100, 131)}
    for at, row in rows.items():
        whole(EXACT, TOKENS[:at], row[:at], store)
    chunks = [Chunk([TOKENS[at]], at, row) for at, row in rows.items()]
    assert shapes(Batch(chunks, 23, torch.zeros(1))) == [(2, 31)]
    assert close(EXACT.forward(chunks, store), whole(EXACT, TOKENS)[[16, 30]])
    others = [*range(50), *range(67, 100), *range(131, 256)]
    assert all(side.isnan().all() for layer in range(2) for side in store.read(layer, others))


def test_one_long_conversation_does_not_make_short_ones_look_back_as_far():
    chunks = [Chunk([1], 2000, range(2001)), *(Chunk([1], 9, range(at, at + 10)) for at in range(3000, 3050, 10))]
    assert shapes(Batch(chunks, 23, torch.zeros(1))) == [(5, 10), (1, 2001)]


def test_a_store_of_half_precision_holds_what_a_wider_model_computes():
    model = llama()
    rough = whole(model, TOKENS, store=KVStore(model.shape, 256, dtype="fp16"))
    assert 0 < (whole(model, TOKENS) - rough).abs().max() < 0.02


def test_a_model_that_knows_nothing_has_no_biases_and_plain_norms_and_its_seed_draws_the_rest():
    one, same, other = (llama(seed=seed, attention_bias=True).weights for seed in (1, 1, 2))
    assert any(name.endswith("bias") for name in one)
    for name, weight in one.items():
        plain = 0.0 if name.endswith("bias") else 1.0 if "norm" in name else None
        assert weight.equal(same[name])
        assert weight.equal(other[name]) == (plain is not None), name
        assert plain is None or bool((weight == plain).all()), name


# -- what a step refuses ------------------------------------------------------------------------

WRONG = {
    r"num_logits is 3: a chunk returns logits for 1 to 2 of its tokens": [Chunk([1, 2], 0, [0, 1], None, 3)],
    r"chunks\[0\]\.num_logits is 0: a chunk returns": [Chunk([1], 0, [0], None, 0)],
    "there are no chunks: a forward step computes at least 1": [],
    r"chunks\[0\]\.num_logits is 1: a chunk returns logits for 1 to 0": [Chunk([], 0, [])],
    r"chunks\[1\] has 2 slots: it needs one for each of 2 \+ 1": [Chunk([1], 0, [9]), Chunk([1], 2, [0, 1])],
    r"chunks\[0\]\.tokens\[1\] is 23: the vocabulary has ids 0 to 22": [Chunk([1, 23], 0, [0, 1])],
    r"chunks\[0\]\.start is -1: no token comes before the first": [Chunk([1], -1, [])],
    r"chunks\[0\]\.slots\[0\] is 2147483648: a slot is an integer": [Chunk([1], 0, [2**31])],
    r"slots\[1\] is 7: it appears twice": [Chunk([1], 0, [7]), Chunk([2], 0, [7])],
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_chunk_is_named_and_nothing_is_written(message):
    store = store_for(EXACT)
    with pytest.raises(ValueError, match=message):
        EXACT.forward(WRONG[message], store)
    assert not any(side.any() for layer in range(2) for side in store.read(layer, range(256)))


# -- configs ------------------------------------------------------------------------------------

UNKNOWN = {
    "sliding_window in the config is 4096: minikv does not know": {"sliding_window": 4096},
    "quantization_config is {'bits': 4}": {"quantization_config": {"bits": 4}},
    "partial_rotary_factor is 0.25: this decoder knows only 1.0": {"rope_parameters": {"partial_rotary_factor": 0.25}},
    "high_freq_factor of RoPE type llama3 is None": {"rope_scaling": {**LLAMA3, "high_freq_factor": None}},
    "factor of RoPE type linear is 0: expected a number from 1": {"rope_scaling": {"type": "linear", "factor": 0}},
    "head_dim is 7: RoPE turns pairs of numbers": {"head_dim": 7},
    "vocab_size is None .*: a size is at least 1": {"vocab_size": None},
    "intermediate_size is -1: a size is at least 1": {"intermediate_size": -1},
    "eos_token_id is -1: a token id is 0 or more": {"eos_token_id": [2, -1]},
    "rms_norm_eps is 0: expected a number from 1e-30 to 1": {"rms_norm_eps": 0},
    "rms_norm_eps is 2: expected": {"rms_norm_eps": 2},
    "rope_theta is 0: expected a number from 1": {"rope_theta": 0},
    "low_freq_factor is 4: expected less than high_freq_factor": {"rope_scaling": {**LLAMA3, "low_freq_factor": 4.0}},
    "tie_word_embeddings is 'no': expected true or false": {"tie_word_embeddings": "no"},
    "max_position_embeddings is 1000000000000000: expected at most": {"max_position_embeddings": 10**15},
    "model_type is \\['llama'\\]: expected one of": {"model_type": ["llama"]},
}


@pytest.mark.parametrize("message", UNKNOWN)
def test_a_setting_that_it_does_not_have_is_an_error_and_not_wrong_logits(message):
    with pytest.raises(ValueError, match=message):
        LlamaConfig.read(settings(**UNKNOWN[message]))


def test_a_window_that_is_switched_off_is_none_and_qwen2_has_three_biases_whatever_is_said():
    off = settings(model_type="qwen2", use_sliding_window=False, sliding_window=4096, attention_bias=True)
    assert LlamaConfig.read(off).biased == {f"self_attn.{name}_proj" for name in "qkv"}


def test_rope_is_read_from_either_place_by_the_names_of_its_numbers():
    old = LlamaConfig.read(settings(rope_theta=500.0, rope_scaling=LLAMA3))
    assert old == LlamaConfig.read(settings(rope_parameters={**LLAMA3, "rope_theta": 500.0}))
    assert old.rope_theta == 500.0
    backwards = dataclasses.replace(old, rope_scaling=dict(reversed(old.rope_scaling.items())))
    assert rope_frequencies(backwards) == rope_frequencies(old)


def test_end_tokens_may_be_one_many_or_none_and_a_generation_config_knows_more(folder):
    """As Llama 3's chat models have it: a turn's end beside the text's."""
    ends = [LlamaConfig.read(settings(eos_token_id=ids)).eos for ids in (None, 2, [2, 5])]
    assert ends == [set(), {2}, {2, 5}]
    assert read_llama_config(folder).eos == {2}
    for entry, eos in (({"temperature": 0.6}, {2}), ({"eos_token_id": [2, 9]}, {2, 9})):
        (folder / "generation_config.json").write_text(json.dumps(entry))
        assert read_llama_config(folder).eos == eos


# -- checkpoints: what cannot be loaded is in test_broken_checkpoints ----------------------------

HALF = llama(dtype=torch.float16).weights


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(settings(eos_token_id=2)))
    save_file(HALF, tmp_path / "model.safetensors")
    return tmp_path


def test_what_is_written_is_read(folder):
    model = Llama.from_folder(folder)
    assert (model.eos, model.dtype) == ({2}, torch.float32)
    assert all(model.weights[name].equal(weight.float()) for name, weight in HALF.items())
    assert Llama.from_folder(folder, dtype=torch.float64).dtype == torch.float64


def test_a_second_copy_of_tied_weights_and_old_buffers_are_no_weights(folder):
    (folder / "config.json").write_text(json.dumps(settings(tie_word_embeddings=True)))
    buffer = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}
    save_file({**HALF, **buffer}, folder / "model.safetensors")
    assert {*Llama.from_folder(folder).weights} == {*HALF} - {"lm_head.weight"}


def test_shards_are_read_only_where_there_is_no_single_file(folder):
    for name in ("model-1", "model-2", "other"):
        save_file({name: torch.ones(1)}, folder / f"{name}.safetensors")
    assert read_weights(folder).keys() == HALF.keys()
    (folder / "model.safetensors").unlink()
    assert [*read_weights(folder)] == ["model-1", "model-2"]


def test_changing_what_was_read_leaves_the_file_as_it_is(folder):
    before = (folder / "model.safetensors").read_bytes()
    read_weights(folder)["model.norm.weight"].zero_()
    assert (folder / "model.safetensors").read_bytes() == before
