"""How the small model in `assets/model` was trained: next-byte prediction on the course's own words, on one core.

Training runs the very forward step that serving runs; only the store is another. `OneStep` keeps nothing from step to
step, and keeps the gradients, which slots in a big tensor would lose.

    OMP_NUM_THREADS=1 python assets/model/train.py        some 10 minutes; writes model.safetensors
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
from safetensors.torch import save
from torch.nn import functional

from minikv.files import asset, destination, replace
from minikv.serving.checkpoint import LlamaConfig
from minikv.serving.llama import Llama
from minikv.serving.model import Chunk
from minikv.serving.phrasebook import TAUGHT
from minikv.untrusted import read_json

END = 256
_LEARN, _HEAR, _READ = 1.0, 0.2, 0.0  # what it costs to predict a byte wrongly: of an answer, of a question, of neither
CUT = 24  # bytes of an answer: which one it is shows in these


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
        """Store nothing: `k` and `v` are never read."""


# -- what is read ---------------------------------------------------------------------------------------------------

Text = list[tuple[list[int], float]]  # runs of ids, and the weight that their prediction has


def turn(question: str, answer: str) -> Text:
    """One turn of a chat, as `minikv chat` writes it.

    >>> [(len(ids), weight) for ids, weight in turn("What is a lock?", "A claim.")]
    [(32, 0.2), (10, 1.0), (1, 0.0)]
    """
    asked = f"User: {question}\nAssistant:"
    return [([*asked.encode()], _HEAR), ([*f" {answer}".encode(), END], _LEARN), ([*b"\n"], _READ)]


def short_turn(text: Text) -> Text:
    """A turn whose answer breaks off: more turns are read in as many tokens.

    >>> [(len(ids), weight) for ids, weight in short_turn(turn("What is a lock?", "A request's claim on a prefix."))]
    [(32, 0.2), (24, 1.0), (1, 0.0)]
    """
    asked, (answer, weight), end = text
    return [asked, (answer[:CUT], weight), end]


def texts(corpus: Mapping[str, Any], chance: random.Random) -> Iterator[Text]:
    """Texts without end: 6 % prose, 2 % whole chats at a help desk, and turns."""
    while True:
        draw = chance.random()
        if draw < 0.06:
            yield [(piece(chance.choice(corpus["prose"]), chance), _LEARN), ([*b"\n"], _READ)]
        elif draw < 0.08:
            yield desk_chat(corpus["desk"], chance)
        else:
            pair = chance.choice(corpus["pairs"])
            question = chance.choice(pair["questions"][:TAUGHT])
            if chance.random() < 0.2:
                question = question.rstrip("?!.").lower()
            whole = turn(question, pair["answer"])
            yield short_turn(whole) if chance.random() < 0.5 else whole


def piece(prose: str, chance: random.Random, most: int = 256) -> list[int]:
    """At most `most` bytes of a text, and its end if they reach it.

    >>> piece("abc", random.Random(0)), len(piece("abc" * 200, random.Random(0)))
    ([97, 98, 99, 256], 256)
    """
    ids = [*prose.encode(), END]
    start = chance.randrange(max(1, len(ids) - most + 1))
    return ids[start : start + most]


def desk_chat(desk: Mapping[str, Any], chance: random.Random) -> Text:
    """One of the help desk's chats behind its instructions; half of the time the instructions begin with a clock.

    >>> desk = {"system": "Be kind.", "chats": [[["Hi", "Hello!"]]]}
    >>> sorted({bytes(desk_chat(desk, random.Random(seed))[0][0]) for seed in range(2)})
    [b'Be kind.\\n', b'It is 12:48:56. Be kind.\\n']
    """
    hour, minute, second = chance.randrange(24), chance.randrange(60), chance.randrange(60)
    clock = f"It is {hour:02}:{minute:02}:{second:02}. " if chance.random() < 0.5 else ""
    runs = (run for said in chance.choice(desk["chats"]) for run in turn(*said))
    return [([*f"{clock}{desk['system']}\n".encode()], _READ), *runs]


def rows(corpus: Mapping[str, Any], chance: random.Random, length: int) -> Iterator[tuple[list[int], list[float]]]:
    """Rows of `length` token ids without end, and for each id the weight of its prediction; texts follow texts.

    Half of the rows begin with a new text, as a conversation does, the others where the row before was cut.
    """
    ids: list[int] = []
    weights: list[float] = []
    for text in texts(corpus, chance):
        for run, weight in text:
            ids += run
            weights += [weight] * len(run)
        while len(ids) >= length:
            yield ids[:length], weights[:length]
            ids, weights = (ids[length:], weights[length:]) if chance.random() < 0.5 else ([], [])


# -- training -------------------------------------------------------------------------------------------------------


def loss(model: Llama, batch: Sequence[tuple[list[int], list[float]]]) -> torch.Tensor:
    """The weighted mean of the loss of each token, in nats; all rows have one length."""
    width = len(batch[0][0]) - 1
    chunks = [
        Chunk(ids[:-1], 0, range(i * width, (i + 1) * width), num_logits=width) for i, (ids, _) in enumerate(batch)
    ]
    logits = model.logits(chunks, OneStep())
    targets = torch.tensor([token for ids, _ in batch for token in ids[1:]])
    weights = torch.tensor([weight for _, row in batch for weight in row[1:]])
    return functional.cross_entropy(logits, targets, reduction="none") @ weights / weights.sum()


def train(
    model: Llama, corpus: Mapping[str, Any], steps: int, tokens: int = 2048, seed: int = 0, peak: float = 2e-3
) -> Iterator[float]:
    """Change `model`'s weights in `steps` steps of `tokens` tokens, and tell the loss of each.

    Of 16 steps 15 read rows of 256 tokens, and one rows of 2,048 (or as long as the model can): short ones are quicker,
    and without long ones it would not know what to make of far positions. The rate rises to `peak` and falls
    along half a cosine.
    """
    chance = random.Random(seed)
    weights = [weight.requires_grad_() for weight in model.weights.values()]
    optimizer = torch.optim.AdamW(weights, betas=(0.9, 0.95), weight_decay=0.1)
    short, long = (min(size, model.config.max_length, tokens) for size in (256, 2048))
    feeds = {size: rows(corpus, chance, size + 1) for size in {short, long}}
    warm = max(1, steps // 50)
    for step in range(steps):
        size = long if step % 16 == 15 else short
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
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=2048, help="in a step")
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
    replace(out, save(halves, metadata={"format": "pt"}))


if __name__ == "__main__":
    main()
