"""The plan for a trace: hits and time at each size of the cache, the policies, and the report that says so.

Here are the terms that a plan is made for, and every figure of it. `planning` makes one.
"""

from __future__ import annotations

from dataclasses import dataclass

from minikv.traffic.plan.prefill_cost import PrefillCost
from minikv.traffic.plan.prefixes import PrefixWorth


@dataclass(frozen=True)
class Terms:
    """What a plan is made for: blocks of `block_size` tokens, each of which takes `token_bytes` bytes of the cache.

    `memory` is what the cache may use, in bytes; `cost` is what the model computes; either may be unknown. `lifetimes`
    are times to live in seconds. The first `warm_up` of the requests fills the cache without being counted. With
    several `gpus` all bytes are those of one of them.
    """

    block_size: int
    token_bytes: int | None = None
    memory: int | None = None
    cost: PrefillCost | None = None
    lifetimes: tuple[float, ...] = ()
    warm_up: float = 0.0
    gpus: int = 1

    @property
    def capacity(self) -> int | None:
        """How many whole blocks fit in the memory, if it is known."""
        if self.memory is None or self.token_bytes is None:
            return None
        return self.memory // (self.token_bytes * self.block_size)


@dataclass(frozen=True)
class PlanPoint:
    """What a cache of `blocks` blocks finds: `hits` of the counted blocks, and `bound` if it knew the future.

    `own` of the hits are blocks that the conversation itself had sent before (`None`: not known). The hits save
    `tokens_saved` tokens of prefill and `flops_saved` FLOPs. `too_large` requests were served without the cache.
    """

    blocks: int
    hits: int
    bound: int
    own: int | None
    tokens_saved: int
    flops_saved: int | None
    too_large: int


@dataclass(frozen=True)
class Lifetime:
    """What is found when a block is forgotten `seconds` after its last use: with unlimited memory, and at the size."""

    seconds: float
    hits: int
    hits_at_capacity: int | None


@dataclass(frozen=True)
class Plan:
    """A plan for the traffic of a trace; sizes and hits are in blocks, of the requests that are counted.

    `tokens` and `longest_prompt` count what blocks are made of, as a prompt's last block may not be full.

    `points` are in the order of their size; three of them are at `terms.capacity`, at `knee`, and at `reach`, from
    which size on LRU finds as much as unlimited memory, which is `ceiling`. `continued` of the requests continue a
    whole earlier prompt, which accounts for `continued_hits`.
    """

    terms: Terms
    requests: int
    blocks: int
    tokens: int
    flops: int | None
    distinct: int
    longest: int
    longest_prompt: int
    seconds: float
    points: tuple[PlanPoint, ...]
    ceiling: PlanPoint
    knee: int
    reach: int
    lifetimes: tuple[Lifetime, ...]
    conversations: int
    continued: int
    continued_hits: int
    shared: int
    prefixes: tuple[PrefixWorth, ...]

    def at(self, blocks: int | None) -> PlanPoint | None:
        """The point at a size, if there is one."""
        return next((point for point in self.points if point.blocks == blocks), None)

    @property
    def at_memory(self) -> PlanPoint | None:
        """The point at the size of the memory, if that is known."""
        return self.at(self.terms.capacity)

    @property
    def bend(self) -> PlanPoint:
        """The point at the knee."""
        return self.at(self.knee) or self.ceiling

    def rate(self, hits: int) -> float:
        """`hits` as a share of the counted blocks."""
        return hits / self.blocks if self.blocks else 0.0
