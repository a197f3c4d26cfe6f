"""Our engine beside `generate` of `transformers`, on the same weights: `chatting.py` runs it where that is installed.

Three workloads: many prompts at once; many requests that share one long prefix, which both sides have computed already;
and one long prompt. A random Llama of about 30 million parameters in float32, one thread, one process; the sides take
turns round by round, and must say the same greedy tokens, unless two have the same logits but for rounding.
"""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

from minikv.errors import InvariantError
from minikv.manager import CacheManager
from minikv.measure.race import ROUNDS
from minikv.measure.results import Spread
from minikv.progress_bar import Tick, quiet
from minikv.serving import Engine, SamplingParams
from minikv.serving.checkpoint import LlamaConfig
from minikv.serving.llama import Llama
from minikv.store import KVStore


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
    """A workload that a peer runs as well: its seconds divided by ours, and what is promised of that ratio."""

    workload: str
    peer: str
    ratio: Spread
    promised: float


class Peer:
    """The Llama model of `transformers`, eager, with the weights of `model`; `settings` are its `config.json`.

    Prompts that are generated together are equally long, so nothing is padded. Everything is greedy.
    """

    def __init__(self, model: Llama, settings: Mapping[str, Any]):
        transformers: Any = importlib.import_module("transformers")
        config = transformers.LlamaConfig(**settings, bos_token_id=None, eos_token_id=None, pad_token_id=0)
        self.name = f"transformers {transformers.__version__}"
        self._made_of, self._model = transformers, transformers.LlamaForCausalLM(config).eval()
        self._model.load_state_dict(dict(model.weights))
        self._model.generation_config.eos_token_id = None  # ours ends at no token either

    @torch.inference_mode()
    def generate(self, prompts: Sequence[Sequence[int]], new: int, cache: Any = None, **options: Any) -> Answer:
        """Generate `new` tokens after each of `prompts`, the first of them perhaps in `cache` already."""
        ids, times = torch.tensor(prompts), list[float]()

        def clock(ids: Any, logits: Any) -> Any:
            times.append(time.perf_counter())
            return logits

        options |= {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "past_key_values": cache}
        begin = time.perf_counter()
        out = self._model.generate(ids, attention_mask=torch.ones_like(ids), logits_processor=[clock], **options)
        end = time.perf_counter()
        return Answer(out[:, ids.shape[1] :].tolist(), times[0] - begin, end - begin, ids.numel(), ids.numel())

    @torch.inference_mode()
    def is_tie(self, tokens: Sequence[int], one: int, other: int) -> bool:
        """Whether rounding decides which of two tokens follows `tokens`: their logits differ by less than 1e-4."""
        logits = self._model(torch.tensor([tokens]), logits_to_keep=1).logits[0, -1]
        return bool((logits[one] - logits[other]).abs() < 1e-4)

    @torch.inference_mode()
    def prefilled(self, prefix: Sequence[int], times: int, room: int, static: bool) -> Any:
        """A cache in which `prefix` is computed for `times` requests, with room for `room` tokens more."""
        cache: Any = self._made_of.DynamicCache(config=self._model.config)
        self._model(torch.tensor([prefix]), past_key_values=cache, logits_to_keep=1)
        cache.batch_repeat_interleave(times)
        if not static:
            return cache
        fixed = self._made_of.StaticCache(config=self._model.config, max_cache_len=len(prefix) + room)
        for number, layer in enumerate(cache.layers):
            fixed.update(layer.keys, layer.values, number, {"cache_position": torch.arange(len(prefix))})
        return fixed


class Load(NamedTuple):
    """Requests that both sides answer, and how much faster ours is promised to be; all lengths are in tokens.

    With a static cache and nothing to share both sides are level, since three quarters of either's time are the same
    products of matrices: 0.9 leaves room for noise. Where the requests share a `prefix`, both sides have computed it
    already, and only decoding is timed: there a static cache is 1.6 times as slow as ours at least, on two machines.
    `static` is the kind of cache that the peer has.

    >>> print(Load(0.9, requests=32, prefix=0, own=128, new=64, static=True))
    32 prompts of 128, 64 new tokens
    """

    promised: float
    requests: int
    prefix: int
    own: int
    new: int
    static: bool

    def __str__(self) -> str:
        if self.prefix:
            return f"{self.requests} requests after {self.prefix:,} shared tokens, decoding"
        one = f"prefill of {self.own:,} tokens"
        return one if self.requests == 1 else f"{self.requests} prompts of {self.own}, {self.new} new tokens"


FULL = (
    Load(0.9, 32, 0, 128, 64, True), Load(2, 16, 2000, 8, 24, False), Load(1.6, 16, 2000, 8, 24, True),
    Load(1.1, 1, 0, 3900, 1, False),
)  # fmt: skip
QUICK = tuple(
    load._replace(requests=min(load.requests, 4), prefix=load.prefix // 16, own=load.own // 8, new=min(load.new, 4))
    for load in FULL
)


def race_transformers(rounds: int = ROUNDS, quick: bool = False, tick: Tick = quiet) -> list[Duel]:
    """Run each load `rounds` times after a lap that is not measured; `InvariantError` when one token differs."""
    sides, duels = Sides(quick), []
    for load in QUICK if quick else FULL:
        cache, ratios = f"{'static' if load.static else 'dynamic'} cache", []
        for number in range(rounds + 1):
            tick(f"{load}, {cache}")
            ratios.append(sides.lap(load, swap=bool(number % 2)))
        duels.append(Duel(str(load), f"{sides.peer.name}, {cache}", Spread.of(ratios[1:]), load.promised))
    return duels


class Sides:
    """Our engine and the peer, with one set of weights, and a store that is used again and again."""

    def __init__(self, quick: bool):
        hidden, layers, vocabulary = (64, 2, 64) if quick else (512, 8, 4096)
        settings = {
            "model_type": "llama", "vocab_size": vocabulary, "hidden_size": hidden, "num_hidden_layers": layers,
            "intermediate_size": hidden * 7 // 2, "num_attention_heads": 8, "num_key_value_heads": 2,
            "max_position_embeddings": 8192, "tie_word_embeddings": False,
        }  # fmt: skip
        self.tokens, self.chance = range(vocabulary), random.Random(0)
        self.model = Llama.random(LlamaConfig.read(settings))
        self.peer = Peer(self.model, settings)
        loads = QUICK if quick else FULL
        self.slots = max(load.prefix + load.requests * (load.own + load.new + 1) for load in loads)
        self.store = KVStore(self.model.shape, self.slots, layout="layer", dtype=self.model.dtype)

    def lap(self, load: Load, swap: bool) -> float:
        """The peer's seconds divided by ours; it goes first with `swap`; up to a tie the tokens must be the same."""
        prefix = self.chance.choices(self.tokens, k=load.prefix)
        prompts = [[*prefix, *self.chance.choices(self.tokens, k=load.own)] for _ in range(load.requests)]
        engine, cache = Engine(self.model, CacheManager(self.slots, store=self.store)), None
        if prefix:
            engine.generate([prefix], 1)
            cache = self.peer.prefilled(prefix, load.requests, load.own + load.new, load.static)
        options = {"cache_implementation": "static"} if load.static and not prefix else {}
        answers: dict[bool, Answer] = {}
        for peer in (swap, not swap):
            by_peer = partial(self.peer.generate, prompts, load.new, cache, **options)
            answers[peer] = by_peer() if peer else answer(engine, prompts, load.new)
        self._compare(prompts, answers[False].tokens, answers[True].tokens)
        ours, theirs = (each.seconds - each.first * bool(prefix) for each in (answers[False], answers[True]))
        return theirs / ours

    def _compare(self, prompts: list[list[int]], ours: list[list[int]], theirs: list[list[int]]) -> None:
        for prompt, own, other in zip(prompts, ours, theirs):
            at = next((i for i, (a, b) in enumerate(zip(own, other)) if a != b), None)
            if at is not None and not self.peer.is_tie([*prompt, *own[:at]], own[at], other[at]):
                raise InvariantError("the engine and transformers say different tokens")
