"""`minikv bench --engine`, where `transformers` is installed: our engine beside its `generate`, on the same weights.

Three workloads: many prompts at once; many requests behind one long prefix that is computed already, for both sides;
and one long prompt. A random Llama of about 30 million parameters in float32, one thread, one process; the sides take
turns round by round, and must say the same greedy tokens, unless two have the same logits but for rounding.

It imports torch, and `minikv.measure` does not import it.
"""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from minikv.errors import InvariantError, whole_number
from minikv.manager import CacheManager
from minikv.measure.chatting import Duel
from minikv.measure.copying import one_thread
from minikv.measure.race import ROUNDS
from minikv.measure.results import Spread
from minikv.progress_bar import Tick
from minikv.serving import Engine, SamplingParams
from minikv.serving.config import LlamaConfig
from minikv.serving.llama import Llama
from minikv.store import KVStore


class Answer(NamedTuple):
    """What came out for each prompt, in how many seconds, and in how many of them after the first token of each."""

    tokens: list[list[int]]
    seconds: float
    decoding: float


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
        """Generate `new` tokens behind each of `prompts`, the first of them perhaps in `cache` already."""
        ids, clock = torch.tensor(prompts), _Clock()
        options |= {"max_new_tokens": new, "min_new_tokens": new, "do_sample": False, "past_key_values": cache}
        begin = time.perf_counter()
        out = self._model.generate(ids, attention_mask=torch.ones_like(ids), logits_processor=[clock], **options)
        end = time.perf_counter()
        return Answer(out[:, ids.shape[1] :].tolist(), end - begin, end - clock.first)

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


class _Clock:
    """A logits processor that remembers when the first logits came."""

    def __init__(self) -> None:
        self.first = 0.0

    def __call__(self, ids: Any, logits: Any) -> Any:
        self.first = self.first or time.perf_counter()
        return logits


class Sizes(NamedTuple):
    """How large the model and the three workloads are, in tokens but for the counts of layers and requests."""

    hidden: int
    layers: int
    vocabulary: int
    prompts: int
    prompt: int
    new: int
    sharing: int
    prefix: int
    own: int
    decoded: int
    prefilled: int


FULL = Sizes(512, 8, 4096, prompts=32, prompt=128, new=64, sharing=16, prefix=2000, own=8, decoded=24, prefilled=3900)
QUICK = Sizes(64, 2, 64, prompts=4, prompt=16, new=4, sharing=4, prefix=128, own=4, decoded=4, prefilled=200)


def race_transformers(rounds: int = ROUNDS, quick: bool = False, tick: Tick = lambda what: None) -> list[Duel]:
    """Run the workloads `rounds` times after a lap that is not measured; `InvariantError` when one token differs."""
    rounds = whole_number("rounds", rounds, 1, "at least 1 round is measured")
    sizes = QUICK if quick else FULL
    with one_thread():
        sides = _Sides(sizes)
        duels = []
        for workload, cache, promised, lap in sides.workloads():
            laps = []
            for number in range(rounds + 1):
                tick(f"{workload}, {cache}")
                laps.append(lap(bool(number % 2)))
            ours, theirs = zip(*laps[1:])
            ratios = [peer / own for own, peer in zip(ours, theirs)]
            name = f"{sides.peer.name}, {cache}"
            duels.append(Duel(workload, name, Spread.of(list(ours)), Spread.of(ratios), promised))
    return duels


Timing = Callable[[bool], tuple[float, float]]


class _Sides:
    """Our engine and the peer, with one set of weights, and a store that is used again and again."""

    def __init__(self, sizes: Sizes):
        settings = {
            "model_type": "llama", "vocab_size": sizes.vocabulary, "hidden_size": sizes.hidden,
            "intermediate_size": sizes.hidden * 7 // 2, "num_hidden_layers": sizes.layers, "num_attention_heads": 8,
            "num_key_value_heads": 2, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "tie_word_embeddings": False,
        }  # fmt: skip
        self.sizes, self.chance = sizes, random.Random(0)
        self.model = Llama.random(LlamaConfig.read(settings))
        self.peer = Peer(self.model, settings)
        requests = (
            sizes.prompts * (sizes.prompt + sizes.new),
            sizes.prefix + sizes.sharing * (sizes.own + sizes.decoded),
        )
        self.slots = max(*requests, sizes.prefilled) + sizes.prompts
        self.store = KVStore(self.model.shape, self.slots, layout="layer", dtype=self.model.dtype)

    def workloads(self) -> list[tuple[str, str, float, Timing]]:
        """Each workload's name, the peer's cache, the promised ratio, and what runs a lap of it."""
        s = self.sizes
        many = f"{s.prompts} prompts of {s.prompt}, {s.new} new tokens"
        shared = f"{s.sharing} requests behind {s.prefix:,} shared tokens, decoding"
        return [
            (many, "static cache", 1.0, self._many),
            (shared, "dynamic cache", 2.0, lambda swap: self._shared(swap, static=False)),
            (shared, "static cache", 2.0, lambda swap: self._shared(swap, static=True)),
            (f"prefill of {s.prefilled:,} tokens", "dynamic cache", 1.0, self._prefill),
        ]

    def _many(self, swap: bool) -> tuple[float, float]:
        prompts, new = self._prompts(self.sizes.prompts, self.sizes.prompt), self.sizes.new

        def theirs() -> Answer:
            return self.peer.generate(prompts, new, cache_implementation="static")

        ours, peer = self._both(prompts, lambda: _generate(self._engine(), prompts, new), theirs, swap)
        return ours.seconds, peer.seconds

    def _shared(self, swap: bool, static: bool) -> tuple[float, float]:
        s = self.sizes
        (prefix,), engine = self._prompts(1, s.prefix), self._engine()
        prompts = [[*prefix, *own] for own in self._prompts(s.sharing, s.own)]
        engine.generate([prefix], 1)
        cache = self.peer.prefilled(prefix, s.sharing, s.own + s.decoded, static)
        sides = lambda: _generate(engine, prompts, s.decoded), lambda: self.peer.generate(prompts, s.decoded, cache)
        ours, peer = self._both(prompts, *sides, swap)
        return ours.decoding, peer.decoding

    def _prefill(self, swap: bool) -> tuple[float, float]:
        prompts = self._prompts(1, self.sizes.prefilled)
        sides = lambda: _generate(self._engine(), prompts, 1), lambda: self.peer.generate(prompts, 1)
        ours, peer = self._both(prompts, *sides, swap)
        return ours.seconds, peer.seconds

    def _both(
        self, prompts: Sequence[Sequence[int]], ours: Callable[[], Answer], theirs: Callable[[], Answer], swap: bool
    ) -> tuple[Answer, Answer]:
        """Both answers, theirs first with `swap`; up to a tie the tokens must be the same."""
        answers: dict[bool, Answer] = {}
        for peer in (swap, not swap):
            answers[peer] = theirs() if peer else ours()
        for prompt, own, other in zip(prompts, answers[False].tokens, answers[True].tokens):
            at = next((i for i, (a, b) in enumerate(zip(own, other)) if a != b), None)
            if at is not None and not self.peer.is_tie([*prompt, *own[:at]], own[at], other[at]):
                raise InvariantError("the engine and transformers say different tokens")
        return answers[False], answers[True]

    def _prompts(self, count: int, length: int) -> list[list[int]]:
        return [self.chance.choices(range(self.sizes.vocabulary), k=length) for _ in range(count)]

    def _engine(self) -> Engine:
        return Engine(self.model, CacheManager(self.slots, store=self.store))


def _generate(engine: Engine, prompts: Sequence[Sequence[int]], new: int) -> Answer:
    """As `Peer.generate`, by our engine."""
    begin = time.perf_counter()
    requests = [engine.submit(prompt, SamplingParams(max_new_tokens=new)) for prompt in prompts]
    while not all(request.output for request in requests):
        engine.step()
    first = time.perf_counter()
    while not all(request.is_over for request in requests):
        engine.step()
    end = time.perf_counter()
    return Answer([request.output for request in requests], end - begin, end - first)
