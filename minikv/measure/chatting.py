"""`minikv bench --engine`: the same chats served with and without the prefix cache, side by side in one process.

A few users talk to one assistant: all prompts begin with its instructions, and every turn of a user begins with all
that was said before. Two engines differ in one object, a prefix cache or `NoCache`, and take turns request by request,
so that whatever else the machine does falls on both. The output must be the same, token by token. On a CPU both
compute on one thread: steps as small as these gain nothing from more, and lose much where the cores are busy.

It imports torch, with the model, and `minikv.measure` does not import it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from minikv.errors import InvariantError, whole_number
from minikv.files import asset
from minikv.manager import CacheManager
from minikv.measure.copying import device_here, one_thread, where
from minikv.measure.race import ROUNDS
from minikv.measure.results import Measured, Promise, Spread, today
from minikv.prefix import NoCache, PrefixCache, index_named
from minikv.progress_bar import Tick, quiet
from minikv.serving import Engine, SamplingParams
from minikv.serving.chat_format import INSTRUCTIONS
from minikv.serving.llama import Llama
from minikv.store import KVStore

QUESTIONS = (
    "What is a page?", "What is a slot?", "Why do prompts share a prefix?", "What is evicted first?",
    "What is a radix tree?", "What does a lock protect?", "How many tokens fit?", "What is a page table?",
    "What is a namespace?", "What is prefill?", "What is a duplicate?", "When is a page freed?",
)  # fmt: skip
USERS, TURNS, NEW_TOKENS = 6, 4, 24
QUICK = (3, 2, 4)  # the same of a quick run
NUM_SLOTS, PAGE = 8192, 16
ONE = "a random Llama in float32, one thread"


class Answer(NamedTuple):
    """An engine's answers to prompts that it is given at once, and their cost.

    The `tokens` for each prompt, the seconds until each of them has its first one, the seconds in all, how many tokens
    the prompts have, and how many of those were computed.
    """

    tokens: list[list[int]]
    first: float
    seconds: float
    prompted: int
    computed: int


def answer(engine: Engine, prompts: Sequence[Sequence[int]], new: int) -> Answer:
    """Let `engine` generate `new` tokens for each of `prompts`, greedily."""
    begin = time.perf_counter()
    requests = [engine.submit(prompt, SamplingParams(max_new_tokens=new)) for prompt in prompts]
    while not all(request.output for request in requests):
        engine.step()
    first, computed = time.perf_counter(), sum(request.computed_tokens for request in requests)
    while not all(request.is_over for request in requests):
        engine.step()
    end, prompted = time.perf_counter(), sum(map(len, prompts))
    return Answer([request.output for request in requests], first - begin, end - begin, prompted, computed)


@dataclass
class Duel:
    """A workload that a peer runs as well: our seconds, theirs divided by ours, and what is promised of that ratio."""

    workload: str
    peer: str
    seconds: Spread
    ratio: Spread
    promised: float


@dataclass
class EngineFigures(Measured):
    """Everything that `minikv bench --engine` measures.

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
        first = "time to first token"
        for name, without, cached in (
            ("", "without", "with the cache"),
            ("prompt tokens computed", f"{self.computed_without:,}", f"{self.computed_with:,}"),
            (f"{first}, ms", self.first_token_without, self.first_token_with),
            (first, f"x {self.first_token_ratio}", ""),
            ("whole request", f"x {self.whole_ratio}", ""),
        ):
            yield f"  {name:<34}{without!s:<26}{cached!s:<26}".rstrip()
        if self.duels:
            yield from ("", f"beside a peer with the same weights and the same tokens: its time divided by ours, {ONE}")
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
    model: Any = None, rounds: int = ROUNDS, quick: bool = False, tick: Tick = quiet, index: str = "radix"
) -> EngineFigures:
    """Serve the chats with and without the cache, `rounds` times from a cold start, with `model` where it lies.

    By default it is our own, on the CPU; the cache is the design `index` of `INDEXES`. `InvariantError` when one token
    differs.
    """
    rounds = whole_number("rounds", rounds, 1, "at least 1 round is measured")
    model = small_model("cpu") if model is None else model
    talk = users, turns, _ = QUICK if quick else (USERS, TURNS, NEW_TOKENS)
    device, laps = model.device.type, []
    for number in range(rounds):
        tick(f"round {number + 1}")
        engines = [_engine(model, cache) for cache in (NoCache(PAGE), index_named(index, PAGE))]
        with one_thread():
            laps.append(_served(engines, *talk, first=number % 2))
    without, cached = zip(*laps)
    counts = [sum(each.prompted for each in cached[0])]
    counts += [sum(each.computed for each in lap) for lap in (without[0], cached[0])]
    first = [[1000 * sum(each.first for each in lap) / (users * turns) for lap in laps] for laps in (without, cached)]
    whole = [[sum(each.seconds for each in lap) for lap in laps] for laps in (without, cached)]
    return EngineFigures(
        *today(rounds, quick, where(device)), device, repr(model), users * turns, *counts,
        *map(Spread.of, first), *(Spread.of([slow / fast for slow, fast in zip(*times)]) for times in (first, whole)),
    )  # fmt: skip


def small_model(device: str) -> Llama:
    """Our own model on `device`, in float32 everywhere: with fewer digits a cache may change a token.

    >>> small_model("cpu").dtype
    torch.float32
    """
    return Llama.from_folder(asset("model"), device_here(device), torch.float32)


def _served(engines: Sequence[Engine], users: int, turns: int, new: int, first: int) -> list[list[Answer]]:
    """Yield both engines' answers to each turn of each user, the `first` of them first in every other turn."""
    said, answers = [list(INSTRUCTIONS.encode()) for _ in range(users)], [list[Answer](), list[Answer]()]
    for turn, user in itertools.product(range(turns), range(users)):
        question = QUESTIONS[(user * turns + turn) % len(QUESTIONS)]
        said[user] += f"User: {question}\nAssistant:".encode()
        for which in (0, 1) if (first + turn) % 2 == 0 else (1, 0):
            answers[which].append(answer(engines[which], [said[user]], new))
        slow, fast = (found[-1].tokens[0] for found in answers)
        if slow != fast:
            raise InvariantError(f"without the cache the answer is {slow}, with it {fast}")
        said[user] += bytes(slow) + b"\n"
    return answers


def _engine(model: Any, cache: PrefixCache) -> Engine:
    pages = NUM_SLOTS // PAGE
    store = KVStore(model.shape, pages, PAGE, dtype=model.dtype, device=model.device)
    return Engine(model, CacheManager(pages, PAGE, prefix_cache=cache, store=store))
