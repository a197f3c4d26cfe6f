"""The plan for a trace: hits and time at each size of the cache, and the report that says so.

Here are the terms that a plan is made for, and every figure of it. `planning` makes one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minikv.errors import bounded, whole_number
from minikv.layers import KVLayers, LayerGroup
from minikv.model_types import ConfigSource, model_of
from minikv.sizing import DTYPE_BITS, kv_budget, size_text
from minikv.traffic.reuse import Tails
from minikv.traffic.trace_tree import Column
from minikv.traffic.traces import Traffic
from minikv.untrusted import float_field
from minikv_tools.plans.prefill_cost import PrefillCost
from minikv_tools.plans.prefixes import PrefixWorth
from minikv_tools.plans.tiering import Tier, TierHours, TierPoint, memory_size, read_tiers

_UNKNOWN = KVLayers(())


@dataclass(frozen=True)
class Terms:
    """The input of a plan: blocks of `block_size` tokens, each of which takes `bytes_per_token` of the cache.

    `memory` is what the cache may use, in bytes; `cost` is what the model computes; either may be unknown. `lifetimes`
    are times to live in seconds. The first `warm_up` of the requests fills the cache without being counted. With
    several `gpus` all bytes are those of one of them. A trace may count another `unit` than tokens. `layers` says where
    the bytes of a token come from, and what every prompt keeps for itself. `tiers` begin with the memory itself.
    `context` is the longest prompt that the model's config allows, in tokens, or 0 if it is not known.
    """

    block_size: int
    bytes_per_token: int | None = None
    memory: int | None = None
    cost: PrefillCost | None = None
    lifetimes: tuple[float, ...] = ()
    warm_up: float = 0.0
    gpus: int = 1
    unit: str = "tokens"
    layers: KVLayers = _UNKNOWN
    tiers: tuple[Tier, ...] = ()
    context: int = 0

    def tails(self, inputs: Column, continued: Column) -> Tails | None:
        """The bytes that prompts of so many tokens, which continue others, keep besides: states, and new in windows.

        >>> layers = KVLayers((LayerGroup("window", 2, per_token=10, window=8),))
        >>> Terms(16, bytes_per_token=1, layers=layers).tails(np.array([50, 52]), np.array([0, 50])).sizes.tolist()
        [80, 20]
        """
        if not self.layers.bytes_per_sequence or not self.bytes_per_token:
            return None
        sizes, new = np.zeros_like(inputs), np.maximum(inputs - continued, 0)
        for group in self.layers.groups:
            sizes += group.state if group.window is None else group.per_token * np.minimum(new, group.window)
        return Tails(sizes, self.bytes_per_token * self.block_size)

    @classmethod
    def for_model(
        cls, model: ConfigSource | None = None, memory: int | str | None = None, dtype: str | None = None,
        state_dtype: str | None = None, tp: int = 1, weights: str | None = None, ttl: Sequence[float] = (),
        warm_up: float = 0.0, tiers: str | None = None, bytes_per_token: int | str | None = None,
        bytes_per_sequence: int | str | None = None,
    ) -> Terms:  # fmt: skip
        """The terms for a model, without the size of a block; the arguments are those of `planning.plan`.

        >>> Terms.for_model("llama-3.1-8b", "1GiB").bytes_per_token
        131072
        >>> Terms.for_model(memory="1GiB", bytes_per_token="72KiB").bytes_per_token
        73728
        """
        lifetimes = tuple(float_field("ttl", seconds, 0, 1e9) for seconds in ttl)
        warm_up = float_field("warm_up", warm_up, 0, 1 - 2**-53)
        levels, cost, context = read_tiers(tiers) if tiers is not None else (), None, 0
        own = {"dtype": dtype, "state_dtype": state_dtype, "weights": weights, "tp": None if tp == 1 else tp}
        sizes = {"bytes_per_token": bytes_per_token, "bytes_per_sequence": bytes_per_sequence}
        if model is None:
            _require_none(own, "needs a model, which is not given")
            layers = _as_given(sizes, {"tiers": tiers, "memory": memory})
        else:
            _require_none(sizes, "is for a model that is not known: leave out either it or the model")
            layers = _layers_of(model, dtype, tp, state_dtype)
        memory = _memory_in_bytes(memory, levels, layers)
        if model is not None:
            memory, cost = _of_cache(model, memory, tp, weights)
            context = model_of(model).count("max_position_embeddings")
        if levels:
            levels = (replace(levels[0], bytes=memory or 0), *levels[1:])
        return cls(1, layers.bytes_per_token or None, memory, cost, lifetimes, warm_up, tp, layers=layers, tiers=levels,
                   context=context)  # fmt: skip

    def on(self, traffic: Traffic) -> Terms:
        """The terms for a trace; `ValueError` where there is no such plan for it."""
        if self.bytes_per_token and traffic.unit == "bytes":
            how = "add" if traffic.format == "log" else "make it again with minikv trace"
            estimate = "for an estimate, add --text-bytes-per-token 4"
            raise ValueError(
                f"{traffic.name} is counted in bytes, a model in tokens: {how} --tokenizer FOLDER; {estimate}"
            )
        if self.lifetimes and not traffic.timed:
            raise ValueError(f"{traffic.name} has no times, which a time to live needs")
        made = replace(self, block_size=traffic.block_size, unit=traffic.unit)
        if made.capacity == 0:
            raise ValueError(f"the memory is too small for a block of {traffic.block_size} tokens")
        return made

    @property
    def capacity(self) -> int | None:
        """Return how many whole blocks fit in the memory, if it is known."""
        if self.memory is None or self.bytes_per_token is None:
            return None
        return self.memory // (self.bytes_per_token * self.block_size)

    @property
    def tier_blocks(self) -> list[int]:
        """Return how many whole blocks fit in each tier."""
        block = self.block_size * (self.bytes_per_token or 1)
        return [tier.bytes // block for tier in self.tiers]


def _require_none(given: Mapping[str, Any], why: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} {why}")


def _as_given(sizes: Mapping[str, int | str | None], uses: Mapping[str, Any]) -> KVLayers:
    """The bytes that an unknown model keeps per token and, in addition, per prompt, if there are `uses` for them."""
    token, sequence = sizes.values()
    if token is None:
        _require_none({**uses, **sizes}, "needs a model or bytes_per_token, and neither is given")
        return _UNKNOWN
    state = _bytes("bytes_per_sequence", sequence) if sequence else 0
    return KVLayers((LayerGroup("as given", 1, _bytes("bytes_per_token", token), state=state),), "")


def _layers_of(model: ConfigSource, dtype: str | None, tp: int, state_dtype: str | None) -> KVLayers:
    try:
        model_of(model)
    except ValueError as error:
        raise ValueError(f"{error}. In place of the model, give --bytes-per-token, such as 72KiB") from None
    layers = KVLayers.from_config(model, dtype, tp, state_dtype)
    if not layers.bytes_per_token:
        held = size_text(layers.bytes_per_sequence)
        raise ValueError(f"no layer of {bounded(model)} keeps every token, only {held} per prompt: there is no curve")
    return layers


def _memory_in_bytes(memory: int | str | None, tiers: Sequence[Tier], layers: KVLayers) -> int | None:
    """The memory of a GPU, which the first of `tiers` says where they are given."""
    if tiers and memory is not None:
        raise ValueError("memory is given twice: tiers has a gpu, too")
    if tiers and layers.bytes_per_sequence:
        raise ValueError(
            "tiers counts only blocks, not windows or states. To ignore those, which overestimates the hits, give "
            f"bytes_per_token {layers.bytes_per_token} in place of the model"
        )
    if memory is None:
        return tiers[0].bytes if tiers else None
    return _bytes("memory", memory)


def _bytes(name: str, size: int | str) -> int:
    size = memory_size(size) if isinstance(size, str) else size
    return whole_number(name, size, 1, "a number of bytes, or a text such as 60GiB")


def _of_cache(
    model: ConfigSource, memory: int | None, tp: int, weights: str | None
) -> tuple[int | None, PrefillCost | None]:
    """The memory without the weights, on each GPU, and what the model computes, where that is known."""
    try:
        cost = PrefillCost.from_config(model)
    except ValueError:
        if weights:
            raise
        return memory, None  # FLOPs are left out
    if weights is None:
        return memory, cost
    if memory is None:
        raise ValueError("weights are subtracted from memory, which is not given")
    if weights not in DTYPE_BITS:
        raise ValueError(f"weights is {bounded(weights)}: expected one of {', '.join(DTYPE_BITS)}")
    return kv_budget(memory, -(-cost.total * DTYPE_BITS[weights] // (8 * tp)), utilization=1), cost


@dataclass(frozen=True)
class PlanPoint:
    """The hits of a cache of `blocks` blocks: `hits` of the counted blocks, and `bound` if it knew the future.

    Where each prompt keeps windows or states besides its blocks, no number of `tokens` fits. `own_conversation_hits`
    are blocks that the conversation itself had sent before (`None`: not known). The hits save `tokens_saved` tokens of
    prefill and `flops_saved` FLOPs. Too large requests were served without the cache. `grid_hit_rate` counts only
    multiples of the plan's `smallest_prefix`, as vLLM does for layers with states (`None`: there are none).
    """

    blocks: int
    tokens: int | None
    bytes: int | None
    hits: int
    hit_rate: float
    grid_hit_rate: float | None
    bound: int
    bound_rate: float
    own_conversation_hits: int | None
    tokens_saved: int
    flops_saved: int | None
    requests_too_large: int


@dataclass(frozen=True)
class Lifetime:
    """The hits if a block is forgotten `seconds` after its last use: with unlimited memory, and at the size."""

    seconds: float
    hits: int
    hit_rate: float
    hits_at_memory: int | None


@dataclass(frozen=True, repr=False)
class Plan:
    """A plan for the traffic of a trace; sizes and hits are in blocks, of the requests that are counted.

    Its repr is the report, and its fields are those of the JSON object, but for `longest_prompt` and `cost`. Prompts
    are counted in what blocks are made of, as a prompt's last block may not be full. A long prompt keeps
    `bytes_per_sequence` besides its blocks.

    `points` are in the order of their size; three of them are at the size of the memory, at the knee, and where LRU
    finds as much as unlimited memory, which is `ceiling`. The requests that continue a whole earlier prompt account
    for so many hits. `tiers` says what each tier buys, and `hours` what all of them take, at each of the `points`; both
    are empty where no tiers were given.

    >>> from minikv_tools import plan
    >>> print(str(plan("synthetic:chat?requests=100"))[:12])
    100 requests
    """

    requests: int
    seconds: float
    warm_up: float
    blocks: int
    block_size: int
    unit: str
    prompt_tokens: int
    prefill_flops: int | None
    distinct_blocks: int
    longest_request_blocks: int
    bytes_per_token: int | None
    bytes_per_sequence: int
    smallest_prefix: int
    layers: tuple[LayerGroup, ...]
    memory: int | None
    points: tuple[PlanPoint, ...]
    at_memory: PlanPoint | None
    knee: PlanPoint
    ceiling: PlanPoint
    lru_reaches_ceiling_at_blocks: int
    time_to_live: tuple[Lifetime, ...]
    conversations: int | None
    continuing_requests: int
    hits_of_continuing_requests: int
    shared_prefixes: int
    prefixes: tuple[PrefixWorth, ...]
    longest_prompt: int
    context: int
    prompts_beyond_context: int
    gpus: int
    cost: PrefillCost | None
    tiers: tuple[TierPoint, ...] = ()
    hours: tuple[TierHours, ...] = ()

    def __repr__(self) -> str:
        from minikv_tools.plans.plan_words import plan_text

        return plan_text(self)

    @property
    def hours_without_cache(self) -> float:
        """Return the hours that the GPUs of the tiers would take to prefill all prompts; 0 without tiers."""
        return (self.prefill_flops or 0) / (self.tiers[0].rate * self.gpus) / 3600 if self.tiers else 0.0

    def rate(self, hits: int) -> float:
        """`hits` as a share of the counted blocks."""
        return hits / self.blocks if self.blocks else 0.0
