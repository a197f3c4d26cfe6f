"""Our decoder against `transformers`: the same folder, the same logits to 1e-4, the same greedy tokens.

Whatever way the tokens take through it: all at once, one by one, in chunks, many sequences in a batch; and wherever
their slots lie.
"""

import random
from itertools import pairwise

import pytest
import torch
from llamas import LLAMA3, SIZES, everywhere, scattered, store_for

from minikv.serving.batch import Batch
from minikv.serving.llama import Llama
from minikv.serving.model import Chunk

transformers = pytest.importorskip(
    "transformers", reason="the oracle is the transformers library, which is not installed"
)

KINDS = {
    "MHA": ("Llama", {"num_key_value_heads": 4}),
    "GQA, tied": ("Llama", {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    "MQA, wide heads": ("Llama", {"num_key_value_heads": 1, "head_dim": 12}),
    "biases": ("Llama", {"num_key_value_heads": 2, "attention_bias": True, "mlp_bias": True}),
    "llama3 RoPE": ("Llama", {"num_key_value_heads": 2, "rope_parameters": {**LLAMA3, "rope_theta": 500.0}}),
    "linear RoPE": ("Llama", {"num_key_value_heads": 2, "rope_parameters": {"rope_type": "linear", "factor": 4.0,
                                                                           "rope_theta": 100.0}}),
    "Mistral": ("Mistral", {"num_key_value_heads": 2, "sliding_window": None}),
    "Qwen2": ("Qwen2", {"num_key_value_heads": 2}),
}  # fmt: skip
LENGTH = 48


def written(kind, folder, seed):
    """Their model of one kind, with weights large enough that logits spread and greedy tokens are no close calls."""
    family, changed = KINDS[kind]
    config = getattr(transformers, f"{family}Config")(**SIZES, **changed, initializer_range=0.4, bos_token_id=None)
    torch.manual_seed(seed)
    theirs = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, weight in theirs.named_parameters():  # zeros and ones would hide a bias or a norm that is left out
            if name.endswith("bias") or "norm" in name:
                weight.add_(0.3 * torch.randn(weight.shape))
    theirs.save_pretrained(folder)
    return theirs


@pytest.fixture(params=KINDS, scope="module")
def pair(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    seed = list(KINDS).index(request.param)
    return written(request.param, folder, seed), Llama.from_folder(folder)


each_page_size = pytest.mark.parametrize("page_size", [1, 2, 16])


def prompt(seed, length=LENGTH):
    return random.Random(seed).choices(range(SIZES["vocab_size"]), k=length)


def logits_of(theirs, tokens):
    with torch.no_grad():
        return theirs(torch.tensor([tokens])).logits[0]


def assert_same(ours, theirs):
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() < 1e-4
    assert ours.argmax(-1).equal(theirs.argmax(-1))


@each_page_size
def test_prefill_gives_the_logits_of_every_position(pair, page_size):
    theirs, ours = pair
    tokens, slots = prompt(1), scattered(LENGTH, page_size)
    got = ours.forward(everywhere([Chunk(tokens, 0, slots)]), store_for(ours, page_size=page_size))
    assert_same(got, logits_of(theirs, tokens))


@each_page_size
def test_a_prompt_may_be_computed_in_any_pieces(pair, page_size):
    theirs, ours = pair
    tokens, slots, store = prompt(2), scattered(LENGTH, page_size, seed=2), store_for(ours, page_size=page_size)
    cuts = [0, *sorted(random.Random(page_size).sample(range(1, LENGTH), 5)), LENGTH]
    got = [ours.forward(everywhere([Chunk(tokens[a:b], a, slots[:b])]), store) for a, b in pairwise(cuts)]
    assert_same(torch.cat(got), logits_of(theirs, tokens))


@each_page_size
def test_greedy_decoding_says_the_same(pair, page_size):
    theirs, ours = pair
    tokens, slots, store = prompt(3, 12), scattered(32, page_size, seed=3), store_for(ours, page_size=page_size)
    said = list(tokens)
    while len(said) < 32:
        said.append(int(logits_of(theirs, said)[-1].argmax()))
    done = 0
    while len(tokens) < 32:
        logits = ours.forward([Chunk(tokens[done:], done, slots[: len(tokens)])], store)
        done = len(tokens)
        tokens.append(int(logits[0].argmax()))
    assert tokens == said


def test_prefill_chunks_and_decoding_of_many_sequences_share_a_step(pair):
    theirs, ours = pair
    rng, store, spare = random.Random(7), store_for(ours), scattered(256)
    sequences = [prompt(10 + i, length) for i, length in enumerate((3, 48, 20, 21, 5, 48, 9))]
    rows = [[spare.pop() for _ in tokens] for tokens in sequences]
    done, heard = [0] * len(sequences), [[] for _ in sequences]
    while any(at < len(tokens) for at, tokens in zip(done, sequences)):
        active = [i for i, tokens in enumerate(sequences) if done[i] < len(tokens) and rng.random() < 0.8]
        ends = {i: min(len(sequences[i]), done[i] + rng.choice((1, 1, 1, 4, 17))) for i in active}
        if active:
            chunks = [Chunk(sequences[i][done[i] : ends[i]], done[i], rows[i][: ends[i]]) for i in active]
            logits = ours.forward(everywhere(chunks), store)
            parts = logits.split([len(chunk.tokens) for chunk in chunks])
            for i, part in zip(active, parts):
                heard[i].append(part)
                done[i] = ends[i]
    for tokens, parts in zip(sequences, heard):
        assert_same(torch.cat(parts), logits_of(theirs, tokens))


def test_what_several_requests_share_is_read_once_and_nothing_changes(pair):
    """Prefixes nested in each other, decoding and prefill in one step: all of it as if each were alone."""
    theirs, ours = pair
    whole, slots = [*prompt(20, 60), *prompt(21, 40)], scattered(256, seed=4)
    store, spare, starts = store_for(ours), slots[100:], [60, 100] * 4
    sequences, rows = [], []
    for i, shared in enumerate(starts):
        own = prompt(40 + i, 1 + i % 3)
        sequences.append(whole[:shared] + own)
        rows.append([*slots[:shared], *(spare.pop() for _ in own)])
    ours.forward([Chunk(whole, 0, slots[:100])], store)
    chunks = [Chunk(tokens[at:], at, row) for tokens, row, at in zip(sequences, rows, starts)]
    batch = Batch(chunks, SIZES["vocab_size"], torch.zeros(1))
    assert len(batch.parts) - batch.num_own > 1
    got = ours.forward(everywhere(chunks), store).split([len(chunk.tokens) for chunk in chunks])
    for tokens, at, part in zip(sequences, starts, got):
        assert_same(part, logits_of(theirs, tokens)[at:])


def test_a_checkpoint_in_shards_is_the_same_checkpoint(tmp_path):
    theirs = written("biases", tmp_path / "one", seed=5)
    theirs.save_pretrained(tmp_path / "many", max_shard_size="20KB")
    assert len([*(tmp_path / "many").glob("*.safetensors")]) > 2
    one, many = Llama.from_folder(tmp_path / "one"), Llama.from_folder(tmp_path / "many")
    assert all(many.weights[name].equal(weight) for name, weight in one.weights.items())


def test_the_small_model_is_a_checkpoint_that_transformers_reads():
    from minikv import asset

    theirs = transformers.LlamaForCausalLM.from_pretrained(asset("model"), dtype=torch.float32).eval()
    ours, tokens = Llama.from_folder(asset("model")), list(b"User: What is a page?\nAssistant:")
    got = ours.forward(everywhere([Chunk(tokens, 0, range(len(tokens)))]), store_for(ours))
    assert_same(got, logits_of(theirs, tokens))
