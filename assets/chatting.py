"""The same chats served with and without the prefix cache, side by side in one process.

    python assets/chatting.py     a few minutes; where transformers is installed, it races our engine as well

A few users talk to one assistant: all prompts begin with its instructions, and every turn of a user begins with all
that was said before. Two engines differ in one object, a prefix cache or `NoCache`, and take turns request by request,
so that whatever else the machine does falls on both. The output must be the same, token by token. On a CPU both
compute on one thread: steps as small as these gain nothing from more, and lose much where the cores are busy.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from copying import device_here, where
from figures import for_a_device, tell
from generating import Duel, answer, race_transformers

from minikv.cli.command import option
from minikv.errors import InvariantError
from minikv.files import asset
from minikv.manager import CacheManager
from minikv.measure.race import ROUNDS
from minikv.measure.results import Measured, Promise, Spread, today
from minikv.prefix import NoCache, PrefixCache, index_named
from minikv.progress_bar import Progress, Tick, quiet
from minikv.serving import Engine
from minikv.serving.chat_format import INSTRUCTIONS
from minikv.serving.llama import Llama
from minikv.store import KVStore

QUESTIONS = (
    "What is a page?", "What is a slot?", "Why do prompts share a prefix?", "What is evicted first?",
    "What is a radix tree?", "What does a lock protect?", "How many tokens fit?", "What is a page table?",
    "What is a namespace?", "What is prefill?", "What is a duplicate?", "When is a page freed?",
)  # fmt: skip
FULL, QUICK = (6, 4, 24), (3, 2, 4)  # users, turns of each, and new tokens in a turn
NUM_SLOTS, PAGE = 8192, 16


@dataclass
class EngineFigures(Measured):
    """Everything that is measured on one device.

    `prompt_tokens` are those of all prompts, `computed_without` and `computed_with` how many of them were computed; the
    first token's times are means in milliseconds, `first_token_ratio` and `whole_ratio` without the cache to with it.
    `device` is "cpu" or "cuda". `duels` are with `transformers`, on a CPU where it is installed
    (`generating.race_transformers`).
    """

    device: str
    model: str
    requests: int
    prompt_tokens: int
    computed_without: int
    computed_with: int
    first_token_without: Spread
    first_token_with: Spread
    first_token_ratio: Spread
    whole_ratio: Spread
    duels: list[Duel] = field(default_factory=list)

    @property
    def saved(self) -> float:
        """The share of the prompts' tokens that the cache saved from being computed."""
        return 1 - self.computed_with / self.computed_without

    def lines(self) -> Iterator[str]:
        """Chats without the cache and with it, and races with a peer."""
        yield from ("", f"{self.requests} requests of a chat, one at a time, {self.prompt_tokens:,} prompt tokens")
        yield f"  {self.model}"
        for name, without, cached in (
            ("", "without", "with the cache"),
            ("prompt tokens computed", f"{self.computed_without:,}", f"{self.computed_with:,}"),
            ("time to first token, ms", self.first_token_without, self.first_token_with),
            ("time to first token", f"x {self.first_token_ratio}", ""),
            ("whole request", f"x {self.whole_ratio}", ""),
        ):
            yield f"  {name:<34}{without!s:<26}{cached!s:<26}".rstrip()
        if self.duels:
            yield from ("", "beside a peer with the same weights and the same tokens: its time divided by ours,")
            yield "  a random Llama in float32, one thread"
        for duel in self.duels:
            ratio = duel.ratio
            fine = f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
            yield f"  {duel.workload:<54}{duel.peer:<36}x {fine}"

    def promises(self) -> Iterator[Promise]:
        """The savings of the cache, and times on a CPU: a model this small leaves a GPU waiting."""
        yield Promise("prompt tokens that the cache saved, as a share", self.saved, 0.8, at_most=False)
        if self.device == "cpu":
            ratio = self.first_token_ratio.median
            yield Promise("time to the first token, without the cache against with it", ratio, 3, at_most=False)
            for duel in self.duels:
                yield Promise(f"{duel.workload}, against {duel.peer}", duel.ratio.median, duel.promised, at_most=False)


def bench_engine(
    model: Any, rounds: int = ROUNDS, quick: bool = False, tick: Tick = quiet, index: str = "radix"
) -> EngineFigures:
    """Serve the chats with and without the cache, `rounds` times from a cold start, with `model` on its device.

    The cache is the design `index` of `INDEXES`. `InvariantError` when one token differs.
    """
    talk = QUICK if quick else FULL
    requests = talk[0] * talk[1]
    laps = []
    for number in range(rounds):
        tick(f"round {number + 1}")
        engines = [_engine(model, cache) for cache in (NoCache(PAGE), index_named(index, PAGE))]
        laps.append(_served(engines, *talk, first=number % 2))
    (first, whole, prompted, computed), (sooner, shorter, _, left) = np.array(laps).transpose(1, 2, 0)
    found: list[Any] = [int(each[0]) for each in (prompted, computed, left)]
    times = first * 1000 / requests, sooner * 1000 / requests, first / sooner, whole / shorter
    found += [Spread.of(each.tolist()) for each in times]
    device = model.device.type
    return EngineFigures(*today(rounds, quick, where(device)), device, repr(model), requests, *found)


def small_model(device: str) -> Llama:
    """Our own model on `device`, in float32 everywhere: with fewer digits a cache may change a token.

    >>> small_model("cpu").dtype
    torch.float32
    """
    return Llama.from_folder(asset("model"), device, torch.float32)


def _served(engines: Sequence[Engine], users: int, turns: int, new: int, first: int) -> npt.NDArray[np.float64]:
    """For both engines the sums of what their answers cost; the `first` answers first in every other turn."""
    said = [list(INSTRUCTIONS.encode()) for _ in range(users)]
    costs, tokens = np.zeros((2, 4)), [list[int](), list[int]()]
    for turn, user in itertools.product(range(turns), range(users)):
        question = QUESTIONS[(user * turns + turn) % len(QUESTIONS)]
        said[user] += f"User: {question}\nAssistant:".encode()
        for which in (0, 1) if (first + turn) % 2 == 0 else (1, 0):
            (tokens[which],), *cost = answer(engines[which], [said[user]], new)
            costs[which] += cost
        slow, fast = tokens
        if slow != fast:
            raise InvariantError(f"without the cache the answer is {slow}, with it {fast}")
        said[user] += bytes(slow) + b"\n"
    return costs


def _engine(model: Any, cache: PrefixCache) -> Engine:
    pages = NUM_SLOTS // PAGE
    store = KVStore(model.shape, pages, PAGE, dtype=model.dtype, device=model.device)
    return Engine(model, CacheManager(pages, PAGE, prefix_cache=cache, store=store))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what `arguments` say, print it, and save it where they name a file."""
    parser = for_a_device(__doc__, "first_token_ratio")
    parser.add_argument("--device", type=option(device_here), default="cpu", help="cpu (default) or cuda")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with Progress(command="chatting") as tick:
        model = small_model(options.device)
        found = bench_engine(model, options.rounds, options.quick, tick)
        if options.device == "cpu" and importlib.util.find_spec("transformers") is not None:
            found.duels = race_transformers(options.rounds, options.quick, tick)
    tell(found, options)


if __name__ == "__main__":
    main()
