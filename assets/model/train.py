"""How the small model in `assets/model` was trained: next-byte prediction on the course's own words, on one core.

Training runs the very forward step that serving runs; only the store is another. `OneStep` keeps nothing from step to
step, and keeps the gradients, which slots in a big tensor would lose.

    OMP_NUM_THREADS=1 python assets/model/train.py        some 20 minutes; writes model.safetensors
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from minikv.assets import asset
from minikv.files import destination
from minikv.serving.checkpoint import write_safetensors
from minikv.serving.config import LlamaConfig
from minikv.serving.contract import Chunk
from minikv.serving.model import Llama
from minikv.untrusted import read_json

END = 256
_LEARN, _READ = True, False  # whether a byte is to be predicted, or only read


class OneStep:
    """A store that keeps nothing, for a single step of whole sequences: they attend to themselves, gradients and all.

    >>> store = OneStep()
    >>> store.write(0, torch.arange(2), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    """

    dtype = torch.float32

    def slots(self, slots: Any) -> torch.Tensor:
        """`slots` as an index."""
        return torch.as_tensor(slots)

    def write(self, layer: int, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        """Nobody will read `k` and `v`."""


# -- what is read ---------------------------------------------------------------------------------------------------

Text = list[tuple[list[int], bool]]  # runs of ids, and whether they are to be predicted


def turn(question: str, answer: str) -> Text:
    """One turn of a chat, as `minikv chat` writes it; only the answer and its end are to be predicted.

    >>> [(len(ids), learn) for ids, learn in turn("What is a lock?", "A claim.")]
    [(32, False), (10, True), (1, False)]
    """
    asked = f"User: {question}\nAssistant:"
    return [([*asked.encode()], _READ), ([*f" {answer}".encode(), END], _LEARN), ([*b"\n"], _READ)]


def reworded(question: str, chance: random.Random) -> str:
    """The question as people type it: without capitals, without its end, behind a word, or with a letter missing.

    >>> reworded("What is a lock?", random.Random(2))
    'And what is a lock?'
    """
    if chance.random() < 0.25:
        question = question.rstrip("?!.")
    if chance.random() < 0.25:
        question = question[0].lower() + question[1:]
    if chance.random() < 0.1:
        question = chance.choice(("And ", "So ", "OK, ", "Please: ", "Tell me: ")) + question[0].lower() + question[1:]
    if chance.random() < 0.1:
        at = chance.randrange(len(question))
        question = question[:at] + question[at + 1 :]
    return question


def texts(corpus: Mapping[str, Any], chance: random.Random) -> Iterator[Text]:
    """Texts without end, drawn from the corpus: of ten, seven are turns of a chat, and three are prose."""
    prose, desk = corpus["prose"], corpus["desk"]
    pairs = [(question, pair["answer"]) for pair in corpus["pairs"] for question in pair["questions"]]
    while True:
        draw = chance.random()
        if draw < 0.3:
            yield [([*chance.choice(prose).encode(), END], _LEARN), ([*b"\n"], _READ)]
        elif draw < 0.33:
            turns = [turn(question, answer) for question, answer in chance.choice(desk["chats"])]
            yield [([*f"{desk['system']}\n".encode()], _LEARN), *(run for runs in turns for run in runs)]
        else:
            question, answer = chance.choice(pairs)
            yield turn(reworded(question, chance), answer)


def rows(corpus: Mapping[str, Any], chance: random.Random, length: int) -> Iterator[tuple[list[int], list[bool]]]:
    """Rows of `length` token ids without end, and for each id whether it is to be predicted; texts follow texts.

    Half of the rows begin with a new text, as a conversation does, the others where the row before was cut.
    """
    ids: list[int] = []
    wanted: list[bool] = []
    for text in texts(corpus, chance):
        for run, learn in text:
            ids += run
            wanted += [learn] * len(run)
        while len(ids) >= length:
            yield ids[:length], wanted[:length]
            ids, wanted = (ids[length:], wanted[length:]) if chance.random() < 0.5 else ([], [])


# -- training -------------------------------------------------------------------------------------------------------


def loss(model: Llama, batch: Sequence[tuple[list[int], list[bool]]]) -> torch.Tensor:
    """The mean loss, in nats, over the tokens that are to be predicted; all rows have one length."""
    width = len(batch[0][0]) - 1
    chunks = [Chunk(ids[:-1], 0, range(i * width, (i + 1) * width)) for i, (ids, _) in enumerate(batch)]
    logits = model.logits(chunks, OneStep(), all_positions=True)
    targets = torch.tensor(
        [token if learn else -100 for ids, wanted in batch for token, learn in zip(ids[1:], wanted[1:])]
    )
    return functional.cross_entropy(logits, targets)


def train(
    model: Llama, corpus: Mapping[str, Any], steps: int, tokens: int = 4096, seed: int = 0, peak: float = 3e-3
) -> Iterator[float]:
    """Change `model`'s weights in `steps` steps of `tokens` tokens, and tell the loss of each.

    Three of four steps read rows of 512 tokens, the fourth rows of 2,048 (or as long as the model can): short ones are
    quicker, and without long ones it would not know what to make of far positions. The rate rises to `peak` and falls
    along half a cosine.
    """
    chance = random.Random(seed)
    weights = [weight.requires_grad_() for weight in model.weights.values()]
    optimizer = torch.optim.AdamW(weights, betas=(0.9, 0.95), weight_decay=0.1)
    short, long = (min(size, model.config.max_length, tokens) for size in (512, 2048))
    feeds = {size: rows(corpus, chance, size + 1) for size in {short, long}}
    warm = max(1, steps // 50)
    for step in range(steps):
        size = long if step % 4 == 3 else short
        share = min((step + 1) / warm, 0.02 + 0.49 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = peak * share
        now = loss(model, [next(feeds[size]) for _ in range(tokens // size)])
        optimizer.zero_grad()
        torch.autograd.backward(now)
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        yield now.item()
    for weight in weights:
        weight.requires_grad_(False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the model of a folder from its corpus, and write its weights, in half precision, there or elsewhere."""
    parser = argparse.ArgumentParser(prog="python assets/model/train.py", description=main.__doc__)
    parser.add_argument("--folder", type=Path, help="with config.json and corpus.json (default: the small model's)")
    parser.add_argument("--steps", type=int, default=1100)
    parser.add_argument("--tokens", type=int, default=4096, help="in a step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a safetensors file (default: model.safetensors in the folder)")
    options = parser.parse_args(arguments)
    folder = options.folder or asset("model")
    out = destination(options.out or folder / "model.safetensors")  # an error now, not after hours of training
    torch.set_num_threads(1)  # sums in one order, so that the same seed gives the same weights
    model = Llama.random(LlamaConfig.read(read_json(folder / "config.json")), options.seed)
    corpus = json.loads((folder / "corpus.json").read_text("utf-8"))
    for step, now in enumerate(train(model, corpus, options.steps, options.tokens, options.seed)):
        if step % 10 == 0 or step == options.steps - 1:
            print(f"step {step:>5}  loss {now:.4f}", flush=True)
    halves = {name: weight.half() for name, weight in model.weights.items()}
    write_safetensors(out, halves)


if __name__ == "__main__":
    main()
