"""`minikv bench --engine`: the same chats served with and without the prefix cache, side by side in one process.

A few users talk to one assistant: all prompts begin with its instructions, and every turn of a user begins with all
that was said before. Two engines differ in one object, a prefix cache or `NoCache`, and take turns request by request,
so that whatever else the machine does falls on both. What comes out must be the same, token by token. On a CPU both
compute on one thread: steps as small as these gain nothing from more, and lose much where the cores are busy.

It imports torch, with the model, and `minikv.measure` does not import it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import torch

from minikv.assets import asset
from minikv.errors import InvariantError, whole_number
from minikv.manager import CacheManager
from minikv.measure.copying import device_here, one_thread, where
from minikv.measure.race import ROUNDS
from minikv.measure.results import Measured, Promise, Spread
from minikv.prefix import NoCache, PrefixCache
from minikv.prefix.indexes import index_named
from minikv.progress_bar import Tick
from minikv.serving import Engine, Request
from minikv.serving.llama import Llama
from minikv.store import KVStore

INSTRUCTIONS = (
    "You are the assistant of a course on KV caches. Answer in one or two short sentences, in plain words, and use the "
    "field's own terms: token, slot, page, page table, prefix, radix tree, lock, eviction. If somebody asks for code, "
    "say in which chapter it is built. If you do not know something, say so, and name the chapter that comes nearest "
    "to it. Never invent a number: every number of this course comes out of a cell that the reader can run.\n"
)
QUESTIONS = (
    "What is a page?", "What is a slot?", "Why do prompts share a prefix?", "What is evicted first?",
    "What is a radix tree?", "What does a lock protect?", "How many tokens fit?", "What is a page table?",
    "What is a namespace?", "What is prefill?", "What is a duplicate?", "When is a page freed?",
)  # fmt: skip
USERS, TURNS, NEW_TOKENS = 6, 4, 24
QUICK = (3, 2, 4)  # the same of a quick run
NUM_SLOTS, PAGE = 8192, 16
ONE = "a random Llama in float32, one thread"


@dataclass
class Side:
    """One engine over all requests of a round: tokens computed in prefill, and milliseconds, summed up."""

    prefilled: int = 0
    first_token: float = 0.0
    whole: float = 0.0


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
    prompt_tokens: int = 0
    computed_without: int = 0
    computed_with: int = 0
    first_token_without: Spread = field(default_factory=lambda: Spread(0, 0, 0))
    first_token_with: Spread = field(default_factory=lambda: Spread(0, 0, 0))
    first_token_ratio: Spread = field(default_factory=lambda: Spread(0, 0, 0))
    whole_ratio: Spread = field(default_factory=lambda: Spread(0, 0, 0))
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
        """What the cache saves, and times on a CPU: a model this small leaves a GPU waiting."""
        yield Promise("prompt tokens that the cache saved, as a share", self.saved, 0.8, at_most=False)
        if self.device == "cpu":
            ratio = self.first_token_ratio.median
            yield Promise("time to the first token, without the cache against with it", ratio, 3, at_most=False)
            for duel in self.duels:
                yield Promise(f"{duel.workload}, against {duel.peer}", duel.ratio.median, duel.promised, at_most=False)


def bench_engine(
    model: Any = None, rounds: int = ROUNDS, quick: bool = False, tick: Tick = lambda what: None, index: str = "radix"
) -> EngineFigures:
    """Serve the chats with and without the cache, `rounds` times from a cold start, with `model` where it lies.

    By default it is our own, on the CPU; the cache is the design `index` of `INDEXES`. `InvariantError` when one token
    differs.
    """
    rounds = whole_number("rounds", rounds, 1, "at least 1 round is measured")
    model = small_model("cpu") if model is None else model
    users, turns, new = QUICK if quick else (USERS, TURNS, NEW_TOKENS)
    device = model.device.type
    found = EngineFigures(where(device), date.today().isoformat(), rounds, quick, device, repr(model), users * turns)
    laps: list[tuple[Side, Side]] = []  # without the cache, and with it
    for lap in range(rounds):
        tick(f"round {lap + 1}")
        talk = _Talk(model, index, users, turns, new, swap=bool(lap % 2))
        with one_thread():
            laps.append(talk.run())
        found.prompt_tokens = talk.prompt_tokens
    found.computed_without, found.computed_with = laps[0][0].prefilled, laps[0][1].prefilled
    requests = users * turns
    found.first_token_without = Spread.of([without.first_token / requests for without, _ in laps])
    found.first_token_with = Spread.of([cached.first_token / requests for _, cached in laps])
    found.first_token_ratio = Spread.of([without.first_token / cached.first_token for without, cached in laps])
    found.whole_ratio = Spread.of([without.whole / cached.whole for without, cached in laps])
    return found


def small_model(device: str) -> Llama:
    """Our own model on `device`, in float32 everywhere: with fewer digits a cache may change a token.

    >>> small_model("cpu").dtype
    torch.float32
    """
    return Llama.from_folder(asset("model"), device_here(device), torch.float32)


class _Talk:
    """One round: every user's turns, each request to both engines, one right after the other."""

    def __init__(self, model: Any, index: str, users: int, turns: int, new: int, swap: bool):
        self.new, self.turns, self.swap = new, turns, swap
        self.said = [list(INSTRUCTIONS.encode()) for _ in range(users)]
        self.engines = [_engine(model, cache) for cache in (NoCache(PAGE), index_named(index, PAGE))]
        self.sides = Side(), Side()
        self.prompt_tokens = 0

    def run(self) -> tuple[Side, Side]:
        for turn in range(self.turns):
            for user, said in enumerate(self.said):
                question = QUESTIONS[(user * self.turns + turn) % len(QUESTIONS)]
                said += f"User: {question}\nAssistant:".encode()
                self.prompt_tokens += len(said)
                said += self._ask_both(said, swap=self.swap ^ bool(turn % 2))
                said += b"\n"
        return self.sides

    def _ask_both(self, prompt: Sequence[int], swap: bool) -> list[int]:
        order = (1, 0) if swap else (0, 1)
        answers = {which: _ask(self.engines[which], prompt, self.new, self.sides[which]) for which in order}
        if answers[0] != answers[1]:
            raise InvariantError(f"without the cache the answer is {answers[0]}, with it {answers[1]}")
        return answers[0]


def _engine(model: Any, cache: PrefixCache) -> Engine:
    pages = NUM_SLOTS // PAGE
    store = KVStore(model.shape, pages, PAGE, dtype=model.dtype, device=model.device)
    return Engine(model, CacheManager(pages, PAGE, prefix_cache=cache, store=store))


def _ask(engine: Engine, prompt: Sequence[int], new: int, side: Side) -> list[int]:
    """Let `engine` answer and add to `side` what it took."""
    start = time.perf_counter()
    request: Request = engine.submit(prompt, new)
    while not request.output:
        engine.step()
    side.first_token += (time.perf_counter() - start) * 1000
    side.prefilled += request.computed_tokens
    while not request.is_over:
        engine.step()
    side.whole += (time.perf_counter() - start) * 1000
    return request.output
