"""The plan for a trace: hits and time at each size of the cache, the policies, and the report that says so.

Here are the terms that a plan is made for, and every figure of it. `planning` makes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from minikv.layers import KVLayers, LayerGroup
from minikv.traffic.plan.prefill_cost import PrefillCost
from minikv.traffic.reuse import Tails
from minikv.traffic.trace_tree import Column, PrefixWorth

_UNKNOWN = KVLayers(())


@dataclass(frozen=True)
class Terms:
    """The input of a plan: blocks of `block_size` tokens, each of which takes `bytes_per_token` of the cache.

    `memory` is what the cache may use, in bytes; `cost` is what the model computes; either may be unknown. `lifetimes`
    are times to live in seconds. The first `warm_up` of the requests fills the cache without being counted. With
    several `gpus` all bytes are those of one of them. A trace may count another `unit` than tokens. `layers` says where
    the bytes of a token come from, and what every prompt keeps for itself.
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

    @property
    def capacity(self) -> int | None:
        """Return how many whole blocks fit in the memory, if it is known."""
        if self.memory is None or self.bytes_per_token is None:
            return None
        return self.memory // (self.bytes_per_token * self.block_size)


@dataclass(frozen=True)
class PlanPoint:
    """The hits of a cache of `blocks` blocks: `hits` of the counted blocks, and `bound` if it knew the future.

    `own_conversation_hits` are blocks that the conversation itself had sent before (`None`: not known). The hits save
    `tokens_saved` tokens of prefill and `flops_saved` FLOPs. Too large requests were served without the cache.
    """

    blocks: int
    tokens: int
    bytes: int | None
    hits: int
    hit_rate: float
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


@dataclass(frozen=True)
class Plan:
    """A plan for the traffic of a trace; sizes and hits are in blocks, of the requests that are counted.

    Its fields are those of the JSON object, but for `longest_prompt` and `cost`. Prompts are counted in what blocks are
    made of, as a prompt's last block may not be full. A long prompt keeps `bytes_per_sequence` besides its blocks.

    `points` are in the order of their size; three of them are at the size of the memory, at the knee, and where LRU
    finds as much as unlimited memory, which is `ceiling`. The requests that continue a whole earlier prompt account
    for so many hits. `policies` has the hits of other orders of eviction at some sizes.
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
    gpus: int
    cost: PrefillCost | None
    policies: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def rate(self, hits: int) -> float:
        """`hits` as a share of the counted blocks."""
        return hits / self.blocks if self.blocks else 0.0
