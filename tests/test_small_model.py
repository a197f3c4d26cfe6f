"""The small model: the script that trained it runs, and what it shipped knows what it was taught."""

from __future__ import annotations

import json
import random

import pytest
import torch
from llamas import everywhere, settings, store_for
from nightly import NIGHTLY
from train import CUT, END, OneStep, loss, main, rows, texts, train, turn

from minikv import CacheManager, NoCache, asset
from minikv.prefix import INDEXES, index_named
from minikv.serving import Engine
from minikv.serving.chat import open_chat
from minikv.serving.chat_format import PlainFormat, Turn
from minikv.serving.checkpoint import LlamaConfig, read_weights, weight_shapes
from minikv.serving.llama import Llama
from minikv.serving.model import Chunk
from minikv.serving.phrasebook import TAUGHT
from minikv.serving.tokenizer import ByteTokenizer
from minikv.store import KVStore

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
    written = []
    for name in ("one", "same", "other"):
        seed = "1" if name == "other" else "0"
        main(["--folder", str(folder), "--steps", "3", "--tokens", "128", "--seed", seed, "--out", str(folder / name)])
        written.append((folder / name).read_bytes())
    assert written[0] == written[1] != written[2]
    assert "step     2  loss" in capsys.readouterr().out
    main(["--folder", str(folder), "--steps", "1", "--tokens", "64"])
    assert Llama.from_folder(folder).vocab_size == 257


def test_a_place_that_cannot_take_the_weights_is_said_before_training(folder, monkeypatch):
    monkeypatch.setattr("train.train", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(FileNotFoundError, match="Its folder does not exist"):
        main(["--folder", str(folder), "--out", str(folder / "none" / "model.safetensors")])


def test_training_learns():
    model = Llama.random(LlamaConfig.read(SMALL))
    losses = list(train(model, FEW, steps=40, tokens=256, peak=1e-2))
    assert losses[0] > 5
    assert sum(losses[-5:]) / 5 < 1.5
    assert not any(weight.requires_grad for weight in model.weights.values())


def test_the_step_that_trains_is_the_step_that_serves():
    """Up to rounding: serving multiplies with packed weights."""
    model = Llama.random(LlamaConfig.read(SMALL))
    tokens = [random.Random(0).choices(range(257), k=20) for _ in range(3)]
    chunks = [Chunk(ids, 0, range(20 * i, 20 * i + 20)) for i, ids in enumerate(tokens)]
    trained = model.logits(everywhere(chunks), OneStep())
    assert (trained - model.forward(everywhere(chunks), store_for(model))).abs().max() < 1e-5


def test_answers_and_prose_weigh_most_and_what_stands_before_an_answer_little():
    ids, weights = next(rows(FEW, random.Random(3), 400))
    assert len(ids) == len(weights) == 400
    text = {weight: "".join(chr(i) if w == weight else "." for i, w in zip(ids, weights)) for weight in set(weights)}
    assert set(text) == {1.0, 0.2, 0.0}
    assert f" b.{chr(END)}" in text[1.0]
    assert f"cdcdcdcd{chr(END)}" in text[1.0]
    assert "User: a?\nAssistant:" in text[0.2]
    assert "Assistant" not in text[1.0]


def test_tokens_of_no_weight_change_no_loss():
    model = Llama.random(LlamaConfig.read(SMALL))
    ids = random.Random(0).choices(range(257), k=20)
    half = [1.0] * 10 + [0.0] * 10
    other = [*ids[:10], *random.Random(1).choices(range(257), k=10)]
    assert loss(model, [(ids, half)]).item() == pytest.approx(loss(model, [(other, half)]).item())
    assert loss(model, [(ids, half)]).item() != pytest.approx(loss(model, [(ids, [1.0] * 20)]).item())
    doubled = [weight * 2 for weight in half]
    assert loss(model, [(ids, doubled)]).item() == pytest.approx(loss(model, [(ids, half)]).item())


def test_half_of_the_answers_are_cut_after_what_tells_them_from_others():
    long = {**FEW, "pairs": [{"questions": ["a?"], "answer": "b" * 100}]}
    answers = [text[1][0] for text, _ in zip(texts(long, random.Random(0)), range(400)) if len(text) == 3]
    lengths = [len(answer) for answer in answers if answer[1] == ord("b")]
    assert set(lengths) == {CUT, 102}
    assert 0.4 < lengths.count(CUT) / len(lengths) < 0.6


def test_only_the_first_questions_of_a_group_are_taught():
    many = {**FEW, "pairs": [{"questions": ["What?", "Why?", "How?", "Who?"], "answer": "b."}]}
    asked = [bytes(text[0][0]) for text, _ in zip(texts(many, random.Random(0)), range(400)) if len(text) == 3]
    questions = {text.decode().split("\n")[0].removeprefix("User: ") for text in asked}
    assert questions == {"What?", "Why?", "How?", "what", "why", "how"}


def test_a_turn_is_written_for_training_as_the_chat_writes_it():
    ids = [i for run, _ in turn("a?", "b.") for i in run]
    prompt = PlainFormat(ByteTokenizer(), END).prompt([], "a?")
    assert ids == [*prompt, *b" b.", END, *b"\n"]


# -- what was shipped -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return Llama.from_folder(asset("model"))


def mean_loss(model, texts):
    """The mean over texts, each alone, in nats a byte."""
    found = []
    for ids, wanted in texts:
        with torch.inference_mode():
            found.append(loss(model, [(ids, wanted)]).item())
    return sum(found) / len(found)


def test_it_is_small_and_in_half_precision():
    path = asset("model/model.safetensors")
    assert path.stat().st_size < 4_000_000
    weights = read_weights(asset("model"))
    assert {weight.dtype for weight in weights.values()} == {torch.float16}
    assert all(weight.isfinite().all() for weight in weights.values())


def test_it_predicts_its_corpus_far_better_than_a_model_that_knows_nothing(model):
    """Bytes drawn at random cost ln 257 = 5.5 nats, and English by the frequency of its letters about 3."""
    chance = random.Random(0)
    prose = [[*text.encode()[:400], END] for text in chance.sample(CORPUS["prose"], 30)]
    read = [(ids, [1.0] * len(ids)) for ids in prose]
    answers = []
    for question, answer in chance.sample(PAIRS, 30):
        runs = turn(question, answer)
        answers.append(([i for run, _ in runs for i in run], [float(weight == 1) for run, weight in runs for _ in run]))
    untrained = Llama.random(model.config)
    assert mean_loss(untrained, read) > 4.5
    assert mean_loss(untrained, answers) > 4.5
    assert mean_loss(model, read) < 2
    assert mean_loss(model, answers) < 0.2


def answered(model, prompts):
    """What the model says to each prompt, greedily, in one batch, through the engine; `None` where it does not end."""
    store = KVStore(model.shape, 80_000, dtype=torch.float32)
    answers = Engine(model, CacheManager(80_000, store=store)).generate(prompts, 200)
    return [ByteTokenizer().decode(got.tokens).strip() if got.reason == "stop" else None for got in answers]


def wrong(model, pairs):
    """The questions to which the model does not say, to the letter, what stands beside them."""
    said = answered(model, [PlainFormat(ByteTokenizer(), END).prompt([], question) for question, _ in pairs])
    return [question for (question, answer), text in zip(pairs, said) if text != answer]


def test_it_answers_what_it_was_taught(model):
    pairs = PAIRS if NIGHTLY else PAIRS[::6]
    missed = wrong(model, pairs)
    assert len(missed) < 0.05 * len(pairs), missed


@pytest.mark.parametrize("clock", ["", "It is 12:34:56. "])
def test_it_answers_at_the_help_desk_with_a_clock_in_its_instructions_or_without(model, clock):
    desk, format = json.loads(asset("chats.json").read_text("utf-8")), PlainFormat(ByteTokenizer(), END)
    prompts, answers = [], []
    for chat in desk["chats"]:
        turns = [Turn(question, answer, [*f" {answer}".encode(), END]) for question, answer in chat]
        for at, (question, answer) in enumerate(chat):
            prompts.append([*f"{clock}{desk['system']}\n".encode(), *format.prompt(turns[:at], question)])
            answers.append(answer)
    assert answered(model, prompts) == answers


def test_a_chat_at_the_desk_hears_the_same_words_over_every_index(model):
    """One turn after the other, cold, then warm, then where the pool holds the longest turn and little more."""
    desk, format = json.loads(asset("chats.json").read_text("utf-8")), PlainFormat(ByteTokenizer(), END)
    prompts = []
    for chat in desk["chats"][: 2 if NIGHTLY else 1]:
        turns = [Turn(question, answer, [*f" {answer}".encode(), END]) for question, answer in chat]
        for at, (question, _) in enumerate(chat):
            prompts.append([*f"{desk['system']}\n".encode(), *format.prompt(turns[:at], question)])
    tight = -(-max(map(len, prompts)) // 4) + 20
    expected = None
    for name in ("none", *INDEXES):
        for pages, rounds in ((4000, 2), (tight, 1)):
            cache = NoCache(4) if name == "none" else index_named(name, 4)
            store = KVStore(model.shape, pages, 4, dtype=torch.float32)
            engine = Engine(model, CacheManager(pages, 4, prefix_cache=cache, store=store))
            for _ in range(rounds):
                said = [engine.generate([prompt], 24 if NIGHTLY else 8)[0].tokens for prompt in prompts]
                expected = said if expected is None else expected
                assert said == expected, (name, pages)
            assert (cache.total_size > 0) == (name != "none")


def test_it_still_answers_when_much_has_been_said():
    """A conversation that grows with each question; the cache serves nearly all of it."""
    chat, questions = open_chat(asset("model")), 10 if NIGHTLY else 6
    asked = random.Random(1).sample([pair for pair in CORPUS["pairs"] if len(pair["answer"]) > 90], questions)
    said = ["".join(chat.ask(pair["questions"][0])).strip() for pair in asked]
    right = [text == pair["answer"] for text, pair in zip(said, asked)]
    assert sum(right) >= 0.8 * questions
    assert chat.last.prompt > 120 * questions
    assert chat.last.cached > 0.9 * chat.last.prompt


def test_its_config_says_what_its_readme_says():
    config = LlamaConfig.read(json.loads(asset("model/config.json").read_text("utf-8")))
    assert (config.vocab_size, config.eos, config.max_length) == (257, {END}, 2048)
    assert sum(torch.Size(shape).numel() for shape in weight_shapes(config).values()) == 1_833_216
