"""The peer of `minikv bench --engine`: `transformers`, with the same weights, so that both must say the same tokens.

It imports torch, and `transformers` when a peer is made; `minikv.measure` does not import it.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from minikv.serving.model import Llama


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
