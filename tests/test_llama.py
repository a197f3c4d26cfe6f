"""The decoder by itself: what a step depends on, and what it refuses. Its numbers are test_llama_oracle's business."""

from __future__ import annotations

import dataclasses
import json
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from llamas import LLAMA3, everywhere, llama, scattered, settings, store_for
from safetensors.torch import save_file

from minikv import CacheManager, Engine
from minikv.serving.batch import Batch
from minikv.serving.checkpoint import (
    LlamaConfig,
    read_llama_config,
    read_weights,
    rope_frequencies,
    weight_shapes,
)
from minikv.serving.llama import Llama
from minikv.serving.model import Chunk, Model

EXACT = llama(dtype=torch.float64)  # rounding is 1e-15 here, so what differs by 1e-9 differs for a reason
TOKENS = random.Random(0).choices(range(EXACT.vocab_size), k=40)


def whole(model, tokens, slots=None, store=None):
    store = store or store_for(model)
    return model.forward(everywhere([Chunk(tokens, 0, slots or range(len(tokens)))]), store)


def close(a, b):
    return a.shape == b.shape and bool((a - b).abs().max() < 1e-9)


def test_it_is_what_an_engine_asks_for():
    assert isinstance(EXACT, Model)
    assert (EXACT.vocab_size, EXACT.eos, EXACT.shape.attention) == (23, frozenset(), "GQA")


# -- what a step depends on -----------------------------------------------------------------------------------------


@given(st.data())
def test_no_cut_no_batch_and_no_place_changes_the_logits(data):
    """Sequences in any pieces, any of them in a step, on any slots of pages of any size: the same logits."""
    page_size = data.draw(st.sampled_from([1, 2, 16]), "page size")
    sequences = data.draw(
        st.lists(st.lists(st.integers(0, 22), min_size=1, max_size=24), min_size=1, max_size=4), "tokens"
    )
    layout = data.draw(st.sampled_from(["page", "layer"]), "layout")
    store = store_for(EXACT, page_size=page_size, layout=layout)
    spare = data.draw(st.permutations(range(256 // page_size)), "pages")
    rows = [
        [p * page_size + i for p in (spare.pop() for _ in tokens[::page_size]) for i in range(page_size)]
        for tokens in sequences
    ]
    done, heard = [0] * len(sequences), [[] for _ in sequences]
    while left := [i for i, tokens in enumerate(sequences) if done[i] < len(tokens)]:
        batch = data.draw(st.lists(st.sampled_from(left), min_size=1, unique=True), "who")
        ends = [data.draw(st.integers(done[i] + 1, len(sequences[i])), "up to") for i in batch]
        chunks = [Chunk(sequences[i][done[i] : end], done[i], rows[i][:end]) for i, end in zip(batch, ends)]
        logits = EXACT.forward(everywhere(chunks), store).split([len(chunk.tokens) for chunk in chunks])
        for i, end, part in zip(batch, ends, logits):
            heard[i].append(part)
            done[i] = end
    for tokens, parts in zip(sequences, heard):
        assert close(torch.cat(parts), whole(EXACT, tokens))


def test_it_answers_for_the_last_token_of_each_chunk_in_the_order_given():
    store, longer, shorter = store_for(EXACT), Chunk(TOKENS, 0, range(40)), Chunk(TOKENS[:3], 0, range(40, 43))
    expected = whole(EXACT, TOKENS)[[39, 2]]
    assert close(EXACT.forward([longer, shorter], store), expected)
    assert close(EXACT.forward([shorter, longer], store), expected.flip(0))


def test_a_chunk_has_as_many_logits_as_it_asks_for():
    """The next token and a draft of three in one chunk, beside a prompt of which the last token alone is asked for."""
    store, expected = store_for(EXACT), whole(EXACT, TOKENS)
    EXACT.forward([Chunk(TOKENS[:20], 0, range(20))], store)
    drafted, prompt = Chunk(TOKENS[20:24], 20, range(24), num_logits=4), Chunk(TOKENS[:9], 0, range(40, 49))
    assert close(EXACT.forward([drafted, prompt], store), expected[[20, 21, 22, 23, 8]])
    assert close(EXACT.forward([prompt, drafted._replace(num_logits=2)], store), expected[[8, 22, 23]])


@pytest.mark.parametrize("wanted", [list, everywhere])
def test_gradients_reach_every_weight_and_are_right(wanted):
    """By the difference quotient along a direction drawn at random for each weight; chunks of several lengths."""
    model = llama(seed=2, dtype=torch.float64)
    chunks = [Chunk(TOKENS[:4], 0, range(4)), Chunk(TOKENS[4:6], 0, [9, 7]), Chunk(TOKENS[6:13], 0, range(20, 27))]

    def loss():
        logits = model.logits(wanted(chunks), store_for(model))
        return (logits[[3, 5, 12]] if wanted is everywhere else logits).square().sum()

    weights = [weight.requires_grad_() for weight in model.weights.values()]
    grads = torch.autograd.grad(loss(), weights, allow_unused=True)
    generator, step = torch.Generator().manual_seed(0), 1e-6
    for name, grad in zip(model.weights, grads):
        assert grad is not None, name
        weight = model.weights[name].detach()  # of the same memory
        way = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        ends = []
        for side in (1, -1):
            weight += side * step * way
            ends.append(loss().item())
            weight -= side * step * way
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx((grad * way).sum().item(), rel=1e-5), name


def test_a_cached_prefix_is_read_and_not_computed():
    """The second request finds the first 30 tokens in the first one's slots, wherever it is itself."""
    store = store_for(EXACT)
    whole(EXACT, TOKENS[:35], range(35), store)
    row = [*range(30), *scattered(10, num_slots=100)]
    row[30:] = [slot + 100 for slot in row[30:]]
    got = EXACT.forward(everywhere([Chunk(TOKENS[30:], 30, row)]), store)
    assert close(got, whole(EXACT, TOKENS)[30:])


def test_what_lies_in_the_slots_is_all_that_it_remembers():
    """Another prefix in the slots gives other logits: nothing is remembered beside them."""
    store = store_for(EXACT)
    whole(EXACT, TOKENS[::-1][:30], range(30), store)
    got = EXACT.forward(everywhere([Chunk(TOKENS[30:], 30, range(40))]), store)
    assert (got - whole(EXACT, TOKENS)[30:]).abs().min() > 1e-6


def test_an_engine_whose_manager_has_no_store_says_so_and_loses_no_slot():
    manager = CacheManager(8)
    engine = Engine(EXACT, manager)
    with pytest.raises(ValueError, match=r"store is None: keys and values need one, as in CacheManager\("):
        engine.generate([TOKENS[:3]], 2)
    assert manager.pool.num_free == 8


def test_slots_of_others_are_neither_read_nor_written():
    store, mine = store_for(EXACT), scattered(40)
    others = [slot for slot in range(256) if slot not in mine]
    nan = torch.full((len(others), 2, 8), float("nan"), dtype=torch.float64)
    for layer in range(2):
        store.write(layer, others, nan, nan)
    assert close(whole(EXACT, TOKENS, mine, store), whole(EXACT, TOKENS))
    assert all(side.isnan().all() for layer in range(2) for side in store.read(layer, others))


def shapes(batch):
    """Of each part how many groups it has, and how many slots each of them reads."""
    return [(part.size, (part.slots.stop - part.slots.start) // part.size) for part in batch.parts]


def test_a_short_sequence_beside_a_long_one_sees_neither_padding_nor_anybody_elses_slots():
    """Lengths 17 and 31 share a part, and all other slots hold NaN, which spreads even if it is masked."""
    store = store_for(EXACT)
    nan = torch.full((256, 2, 8), float("nan"), dtype=torch.float64)
    for layer in range(2):
        store.write(layer, range(256), nan, nan)
    for base, length in ((50, 16), (100, 30)):
        whole(EXACT, TOKENS[:length], range(base, base + length), store)
    chunks = [Chunk(TOKENS[16:17], 16, range(50, 67)), Chunk(TOKENS[30:31], 30, range(100, 131))]
    assert shapes(Batch(chunks, 23, torch.zeros(1))) == [(2, 31)]
    assert close(EXACT.forward(chunks, store), whole(EXACT, TOKENS)[[16, 30]])


def test_one_long_conversation_does_not_make_short_ones_look_back_as_far():
    chunks = [Chunk([1], 2000, range(2001)), *(Chunk([1], 9, range(3000 + 10 * i, 3010 + 10 * i)) for i in range(5))]
    batch = Batch(chunks, 23, torch.zeros(1))
    assert shapes(batch) == [(5, 10), (1, 2001)]


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor, lambda row: np.array(row, np.int32)])
def test_tokens_and_slots_may_be_any_row_of_integers(kind):
    got = EXACT.forward(everywhere([Chunk(kind(TOKENS), 0, kind(scattered(40)))]), store_for(EXACT))
    assert close(got, whole(EXACT, TOKENS))


def test_a_store_of_half_precision_holds_what_a_wider_model_computes():
    model = llama()
    got = whole(model, TOKENS, store=store_for(model))
    from minikv.store import KVStore

    rough = whole(model, TOKENS, store=KVStore(model.shape, 256, dtype="fp16"))
    assert 0 < (got - rough).abs().max() < 0.02


def test_a_model_that_knows_nothing_has_no_biases_and_plain_norms():
    weights = llama(seed=1, attention_bias=True).weights
    biases = [weight for name, weight in weights.items() if name.endswith("bias")]
    norms = [weight for name, weight in weights.items() if name.endswith("norm.weight")]
    assert biases
    assert norms
    assert all(not bias.any() for bias in biases)
    assert all(bool((norm == 1).all()) for norm in norms)


def test_the_same_seed_draws_the_same_model():
    one, same, other = llama(seed=1), llama(seed=1), llama(seed=2)
    assert all(same.weights[name].equal(weight) for name, weight in one.weights.items())
    assert not other.weights["model.embed_tokens.weight"].equal(one.weights["model.embed_tokens.weight"])


# -- what a step refuses --------------------------------------------------------------------------------------------

WRONG = {
    r"chunks\[0\]\.num_logits is 3: a chunk returns logits for 1 to 2 of its tokens": [
        Chunk([1, 2], 0, [0, 1], num_logits=3)
    ],
    r"chunks\[0\]\.num_logits is 0: a chunk returns logits for 1 to 1": [Chunk([1], 0, [0], num_logits=0)],
    "there are no chunks: a forward step computes at least 1": [],
    r"chunks\[0\]\.num_logits is 1: a chunk returns logits for 1 to 0 of its tokens": [Chunk([], 0, [])],
    r"chunks\[1\] has 2 slots: it needs one for each of 2 \+ 1 tokens": [Chunk([1], 0, [9]), Chunk([1], 2, [0, 1])],
    r"chunks\[0\]\.tokens\[1\] is 23: the vocabulary has ids 0 to 22": [Chunk([1, 23], 0, [0, 1])],
    r"chunks\[0\]\.tokens\[0\] is -1: the vocabulary has ids 0 to 22": [Chunk([-1], 0, [0])],
    r"chunks\[0\]\.tokens\[0\] is 4294967296: the vocabulary has ids 0 to 22": [Chunk([2**32], 0, [0])],
    r"chunks\[0\]\.start is -1: no token comes before the first": [Chunk([1], -1, [])],
    r"chunks\[0\]\.slots\[0\] is 2147483648: a slot is an integer": [Chunk([1], 0, [2**31])],
    r"slots\[1\] is 7: it appears twice": [Chunk([1], 0, [7]), Chunk([2], 0, [7])],
    r"slots\[0\] is 256: this store has slots 0 to 255": [Chunk([1], 0, [256])],
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_chunk_is_named_and_nothing_is_written(message):
    store = store_for(EXACT)
    with pytest.raises(ValueError, match=message):
        EXACT.forward(WRONG[message], store)
    assert not any(side.any() for layer in range(2) for side in store.read(layer, range(256)))


# -- configs --------------------------------------------------------------------------------------------------------

UNKNOWN = {
    "model_type is 'gpt2': expected one of llama, mistral, qwen2": {"model_type": "gpt2"},
    "hidden_act is 'gelu': this decoder knows only 'silu'": {"hidden_act": "gelu"},
    "sliding_window in the config is 4096: minikv does not know what llama keeps": {"sliding_window": 4096},
    "use_sliding_window in the config is True: minikv does not know what llama keeps": {"use_sliding_window": True},
    "quantization_config is {'bits': 4}": {"quantization_config": {"bits": 4}},
    "partial_rotary_factor is 0.5": {"partial_rotary_factor": 0.5},
    "partial_rotary_factor is 0.25": {"rope_parameters": {"partial_rotary_factor": 0.25}},
    "rope_type is 'yarn': expected one of default, linear, llama3": {"rope_scaling": {"type": "yarn", "factor": 2.0}},
    "high_freq_factor of RoPE type llama3 is None": {"rope_scaling": {**LLAMA3, "high_freq_factor": None}},
    "factor of RoPE type linear is 0: expected a number from 1": {"rope_scaling": {"type": "linear", "factor": 0}},
    "head_dim is 7: RoPE turns pairs of numbers": {"head_dim": 7},
    "vocab_size is None .*: a size is at least 1": {"vocab_size": None},
    "intermediate_size is 0: a size is at least 1": {"intermediate_size": 0},
    "eos_token_id is -1: a token id is 0 or more": {"eos_token_id": [2, -1]},
    "eos_token_id is 23: expected at most 22": {"eos_token_id": 23},
    "rms_norm_eps is nan: expected a number from 1e-30 to 1": {"rms_norm_eps": float("nan")},
    "rms_norm_eps is 0: expected": {"rms_norm_eps": 0},
    "rope_theta is 0: expected a number from 1": {"rope_theta": 0},
    "rope_theta is None: expected a number": {"rope_parameters": {"rope_theta": None}},
    "low_freq_factor is 4: expected less than high_freq_factor": {"rope_scaling": {**LLAMA3, "low_freq_factor": 4.0}},
    "tie_word_embeddings is 'no': expected true or false": {"tie_word_embeddings": "no"},
    "num_hidden_layers in the config is 1000000000: expected at most 10000": {"num_hidden_layers": 10**9},
    "max_position_embeddings is 1000000000000000: expected at most": {"max_position_embeddings": 10**15},
    "kv_lora_rank in the config is 8: minikv does not know what llama keeps": {"kv_lora_rank": 8},
    "model_type is \\['llama'\\]: expected one of": {"model_type": ["llama"]},
}


@pytest.mark.parametrize("message", UNKNOWN)
def test_a_setting_that_it_does_not_have_is_an_error_and_not_wrong_logits(message):
    with pytest.raises(ValueError, match=message):
        LlamaConfig.read(settings(**UNKNOWN[message]))


def test_a_window_that_is_switched_off_is_none():
    assert LlamaConfig.read(settings(model_type="qwen2", use_sliding_window=False, sliding_window=4096)).biased


def test_rope_is_read_from_either_place():
    old = LlamaConfig.read(settings(rope_theta=500.0, rope_scaling=LLAMA3))
    new = LlamaConfig.read(settings(rope_parameters={**LLAMA3, "rope_theta": 500.0}))
    assert old == new
    assert old.rope_theta == 500.0


def test_llama_3_leaves_fast_pairs_and_stretches_slow_ones():
    """head_dim 8, theta 500: the pairs turn 1, 0.211, 0.0447 and 0.00946 a position, in 32 positions 5.1, 1.08, 0.23
    and 0.05 times; so the first is left, the second blended, the last two are slowed by 8."""
    plain = rope_frequencies(LlamaConfig.read(settings(rope_theta=500.0)))
    scaled = rope_frequencies(LlamaConfig.read(settings(rope_theta=500.0, rope_scaling=LLAMA3)))
    ratios = [round(b / a, 3) for a, b in zip(plain, scaled)]
    assert ratios[0] == 1
    assert 0.125 < ratios[1] < 1
    assert ratios[2:] == [0.125, 0.125]


def test_end_tokens_may_be_one_many_or_none():
    assert [LlamaConfig.read(settings(eos_token_id=ids)).eos for ids in (None, 2, [2, 5])] == [set(), {2}, {2, 5}]


def test_a_checkpoints_generation_config_knows_more_ends(tmp_path):
    """As Llama 3's chat models have it: a turn's end beside the text's."""
    (tmp_path / "config.json").write_text(json.dumps(settings(eos_token_id=2)))
    assert read_llama_config(tmp_path).eos == {2}
    (tmp_path / "generation_config.json").write_text(json.dumps({"temperature": 0.6}))
    assert read_llama_config(tmp_path).eos == {2}
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 9]}))
    assert read_llama_config(tmp_path).eos == {2, 9}


# -- checkpoints ----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(settings(eos_token_id=2)))
    save_file(llama(dtype=torch.float16).weights, tmp_path / "model.safetensors")
    return tmp_path


def rewrite(folder, **changed):
    weights = {**read_weights(folder)}
    for name, weight in changed.items():
        weights.pop(name, None)
        if weight is not None:
            weights[name] = weight
    weights = {name: weight.clone() for name, weight in weights.items()}
    save_file(weights, folder / "model.safetensors")


def test_what_is_written_is_read(folder):
    model = Llama.from_folder(folder)
    assert model.eos == {2}
    assert model.dtype == torch.float32
    assert all(model.weights[name].equal(weight.float()) for name, weight in llama(dtype=torch.float16).weights.items())
    assert Llama.from_folder(folder, dtype=torch.float64).dtype == torch.float64


def test_a_second_copy_of_tied_weights_and_old_buffers_are_no_weights(folder):
    (folder / "config.json").write_text(json.dumps(settings(tie_word_embeddings=True)))
    rewrite(folder, **{"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)})
    assert "lm_head.weight" in read_weights(folder)
    assert set(Llama.from_folder(folder).weights) == set(
        weight_shapes(LlamaConfig.read(settings(tie_word_embeddings=True)))
    )


@pytest.mark.parametrize(("name", "weight", "message"), [
    ("model.norm.weight", None, "has no model.norm.weight, which its config asks for"),
    ("model.norm.weight", torch.ones(31), r"model.norm.weight of .* is \(31,\): its config asks for \(32,\)"),
    ("model.norm.bias", torch.ones(32), "has model.norm.bias, which its config does not mention"),
])  # fmt: skip
def test_a_weight_that_is_missing_unknown_or_of_another_shape_is_named(folder, name, weight, message):
    rewrite(folder, **{name: weight})
    with pytest.raises(ValueError, match=message):
        Llama.from_folder(folder)


def test_a_folder_that_is_no_checkpoint_says_what_is_missing(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"has neither model\.safetensors nor shards model-\*\.safetensors"):
        Llama.from_folder(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json is not JSON"):
        Llama.from_folder(folder)
    (folder / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no config\.json"):
        Llama.from_folder(folder)


def test_shards_are_read_together_and_only_where_there_is_no_single_file(folder):
    found = read_weights(folder)
    for number, part in enumerate((slice(0, 5), slice(5, None))):
        weights = {name: weight.clone() for name, weight in [*found.items()][part]}
        save_file(weights, folder / f"model-0000{number + 1}-of-00002.safetensors")
    save_file({"other": torch.ones(1)}, folder / "other.safetensors")
    assert read_weights(folder).keys() == found.keys()
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert len(read_weights(folder)) == len(found)
    (folder / "model.safetensors").unlink()
    assert [*read_weights(folder)] == [*found][:5]


@given(
    st.dictionaries(
        st.text("abc.", min_size=1),
        st.tuples(
            st.sampled_from([torch.float16, torch.float32, torch.bfloat16, torch.float64]),
            st.lists(st.integers(0, 3), max_size=3),
        ),
        max_size=5,
    )
)
def test_any_tensors_survive_a_file(tmp_path_factory, kinds):
    path = tmp_path_factory.mktemp("weights")
    tensors = {name: torch.randn(shape).to(dtype) for name, (dtype, shape) in kinds.items()}
    save_file(tensors, path / "model.safetensors")
    back = read_weights(path)
    assert set(back) == set(tensors)
    assert all(back[name].dtype == tensor.dtype and back[name].equal(tensor) for name, tensor in tensors.items())


def test_changing_what_was_read_leaves_the_file_as_it_is(folder):
    before = (folder / "model.safetensors").read_bytes()
    read_weights(folder)["model.norm.weight"].zero_()
    assert (folder / "model.safetensors").read_bytes() == before


def test_the_numbers_of_a_rope_are_found_by_their_names():
    config = LlamaConfig.read(settings(rope_scaling=LLAMA3))
    backwards = dict(reversed(config.rope_scaling.items()))
    assert rope_frequencies(dataclasses.replace(config, rope_scaling=backwards)) == rope_frequencies(config)
