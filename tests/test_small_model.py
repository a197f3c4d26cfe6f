"""The small model: the script that trained it runs, and what it shipped knows what it was taught."""

import json
import random
from itertools import groupby, islice
from operator import itemgetter

import pytest
import torch
from golden_text import compare
from llamas import everywhere, settings, store_for
from nightly import NIGHTLY
from train import END, OneStep, loss, main, rows, texts, train, turn

from minikv import CacheManager, asset
from minikv.serving import Engine
from minikv.serving.chat import open_chat
from minikv.serving.chat_format import PlainFormat, Turn
from minikv.serving.checkpoint import LlamaConfig, read_weights
from minikv.serving.llama import Llama
from minikv.serving.model import Chunk
from minikv.serving.phrasebook import TAUGHT
from minikv.serving.tokenizer import ByteTokenizer
from minikv.store import KVStore

FORMAT = PlainFormat(ByteTokenizer(), END)
CORPUS = json.loads((asset("model") / "corpus.json").read_text("utf-8"))
PAIRS = [(question, pair["answer"]) for pair in CORPUS["pairs"] for question in pair["questions"][:TAUGHT]]
SMALL = {**settings(), "vocab_size": 257, "hidden_size": 16, "num_hidden_layers": 1, "max_position_embeddings": 64}
FEW = {
    "pairs": [{"questions": ["a?"], "answer": "b."}],
    "prose": ["cdcdcdcd"],
    "desk": {"system": "e", "chats": [[["f", "g"]]]},
}


# -- training -------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    (tmp_path / "corpus.json").write_text(json.dumps(FEW))
    return tmp_path


def test_the_script_writes_a_checkpoint_and_the_same_one_again(folder, capsys):
    command = ["--folder", str(folder), "--steps", "3", "--tokens", "128"]
    written = []
    for seed in ("0", "0", "1"):
        main([*command, "--seed", seed, "--out", str(folder / "one")])
        written.append((folder / "one").read_bytes())
    assert written[0] == written[1] != written[2]
    assert "step     2  loss" in capsys.readouterr().out
    main(command)
    assert (folder / "model.safetensors").read_bytes() == written[0]
    assert Llama.from_folder(folder).vocab_size == 257


def test_a_place_that_cannot_take_the_weights_is_said_before_training(folder, monkeypatch):
    monkeypatch.setattr("train.train", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(FileNotFoundError, match="Its folder does not exist"):
        main(["--folder", str(folder), "--out", str(folder / "none/model.safetensors")])


def test_training_learns():
    model = Llama.random(LlamaConfig.read(SMALL))
    losses = list(train(model, FEW, steps=40, tokens=256, peak=1e-2))
    assert losses[0] > 5
    assert sum(losses[-5:]) / 5 < 1.5
    assert not any(weight.requires_grad for weight in model.weights.values())


def test_the_step_that_trains_is_the_step_that_serves():
    """Up to rounding: serving multiplies with packed weights."""
    model, ids = Llama.random(LlamaConfig.read(SMALL)), random.Random(0).choices(range(257), k=60)
    chunks = everywhere([Chunk(ids[at : at + 20], 0, range(at, at + 20)) for at in (0, 20, 40)])
    assert (model.logits(chunks, OneStep()) - model.forward(chunks, store_for(model))).abs().max() < 1e-5


MANY = {**FEW, "pairs": [{"questions": ["What?", "Why?", "How?", "Who?"], "answer": "b" * 25}]}


def spelled(runs):
    """Each run of ids, behind the weight of its prediction."""
    return " | ".join(f"{weight} {''.join(map(chr, ids))!r}" for ids, weight in runs)


def test_what_is_read_is_what_the_golden_file_says():
    """Of a group the first questions; half of the answers are cut after what tells them apart."""
    compare("training.txt", "texts", list(map(spelled, islice(texts(MANY, random.Random(7)), 9))))
    lines = []
    for ids, weights in islice(rows(MANY, random.Random(3), 80), 3):
        parts = groupby(zip(ids, weights), itemgetter(1))
        lines.append(spelled(([i for i, _ in part], weight) for weight, part in parts))
    compare("training.txt", "rows", lines)


def test_tokens_of_no_weight_change_no_loss_and_only_the_shares_of_weights_count():
    model = Llama.random(LlamaConfig.read(SMALL))

    def cost(rest, first, last):
        return loss(model, [([*b"the first." + rest], [first] * 10 + [last] * 10)]).item()

    half = cost(b"and so on.", 1.0, 0.0)
    assert half == pytest.approx(cost(b"what else?", 1.0, 0.0)) == pytest.approx(cost(b"and so on.", 2.0, 0.0))
    assert half != pytest.approx(cost(b"and so on.", 1.0, 1.0))


def test_a_turn_is_written_for_training_as_the_chat_writes_it():
    ids = [i for run, _ in turn("a?", "b.") for i in run]
    assert ids == [*FORMAT.prompt([], "a?"), *b" b.", END, *b"\n"]


# -- what was shipped ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return Llama.from_folder(asset("model"))


def test_it_is_small_and_in_half_precision():
    assert asset("model/model.safetensors").stat().st_size < 4_000_000
    weights = read_weights(asset("model")).values()
    assert {weight.dtype for weight in weights} == {torch.float16}
    assert all(weight.isfinite().all() for weight in weights)


def answered(model, prompts):
    """The greedy answers to `prompts`, in one batch, through the engine; `None` for one that does not end."""
    store = KVStore(model.shape, 80_000, dtype=torch.float32)
    answers = Engine(model, CacheManager(80_000, store=store)).generate(prompts, 200)
    return [ByteTokenizer().decode(got.tokens).strip() if got.reason == "stop" else None for got in answers]


def test_it_answers_what_it_was_taught(model):
    pairs = PAIRS if NIGHTLY else PAIRS[::12]
    said = answered(model, [FORMAT.prompt([], question) for question, _ in pairs])
    missed = [question for (question, answer), text in zip(pairs, said) if text != answer]
    assert len(missed) < 0.05 * len(pairs), missed


@pytest.mark.parametrize("clock", ["", "It is 12:34:56. "])
def test_it_answers_at_the_help_desk_with_a_clock_in_its_instructions_or_without(model, clock):
    desk, prompts, answers = json.loads(asset("chats.json").read_text("utf-8")), [], []
    for chat in desk["chats"]:
        turns = [Turn(question, answer, [*f" {answer}".encode(), END]) for question, answer in chat]
        for at, (question, answer) in enumerate(chat):
            prompts.append([*f"{clock}{desk['system']}\n".encode(), *FORMAT.prompt(turns[:at], question)])
            answers.append(answer)
    assert answered(model, prompts) == answers


def test_it_still_answers_when_much_has_been_said():
    """A conversation that grows with each question; the cache serves nearly all of it."""
    chat, questions = open_chat(asset("model")), 10 if NIGHTLY else 4
    asked = random.Random(1).sample([pair for pair in CORPUS["pairs"] if len(pair["answer"]) > 90], questions)
    said = ["".join(chat.ask(pair["questions"][0])).strip() for pair in asked]
    right = [text == pair["answer"] for text, pair in zip(said, asked)]
    assert sum(right) >= 0.8 * questions
    assert chat.last.prompt > 100 * questions
    assert chat.last.cached > 0.9 * chat.last.prompt
