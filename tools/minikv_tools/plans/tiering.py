"""Memory beyond the device: the hits of each tier, how long they take to load, and how much prefill is left.

Each tier evicts pages, the least recently used first, and everything that is computed is written to all tiers. Then
each tier holds the first blocks of one list, as many as fit (`reuse` says why), including all that the tiers before it
hold. So no tier has to be replayed: its hits are a difference between two points of one curve.

    gpu     the hits at the size of the gpu
    host    the hits at the size of host memory, less those of the gpu
    disk    the hits at the size of the disk, less those at the size of host memory

A request finds a part of its prompt in each tier. A part is loaded if that takes less time than computing it
(`BreakEven`); otherwise it is computed. Times are calculated, not measured: no load waits for another, or runs while
the model computes. A request that is larger than the gpu is served without any tier.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from minikv.break_even import BreakEven
from minikv.errors import bounded
from minikv.sizing import size_text
from minikv.traffic.curve import HitCurve
from minikv.traffic.trace_tree import Column
from minikv_tools.plans.prefill_cost import PrefillCost

TIERS = ("gpu", "host", "disk")
SPEED = 400e12  # FLOPs per second of one GPU if no rate is given, as in chapter 06
_POWERS = ("", "K", "M", "G", "T", "P")
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,6})?) ?([KMGTP]?)(i?)B", re.ASCII)

_TIER = re.compile(r"((gpu)|host|disk)=([^@]+)(?:@(.+)(?(2)FLOP|B)/s)?")
_EXAMPLES = "gpu=60GiB@400TFLOP/s, host=1TiB@50GB/s or disk=4TiB@7GB/s"


def memory_size(text: str) -> int:
    """Return `text` as a number of bytes, at least 1; KiB, MiB, GiB and TiB count by 1024, kB, MB, GB and TB by 1000.

    >>> memory_size("80GiB") == 80 * 2**30, memory_size("1.5 TB")
    (True, 1500000000000)
    """
    found = _SIZE.fullmatch(text.strip().replace("k", "K", 1))
    size = int(Decimal(found[1]) * (1024 if found[3] else 1000) ** _POWERS.index(found[2])) if found else 0
    if not 1 <= size < 2**63:
        raise ValueError(f"{bounded(text)}: expected a number and its unit, such as 80GiB, 1.5TB or 500MiB")
    return size


@dataclass(frozen=True)
class Tier:
    """A tier: its `name`, one of `TIERS`, its size in `bytes`, and its `rate`; with several GPUs, the share of one.

    The rate is in bytes per second, and for the gpu in FLOPs per second.

    >>> Tier("host", 2**40, 50e9).bytes == memory_size("1TiB")
    True
    """

    name: str
    bytes: int
    rate: float


def read_tiers(tiers: str) -> tuple[Tier, ...]:
    """Return the tiers that a text names: the gpu, then host memory, a disk or both, each larger than the last.

    `ValueError` names the tier, what is wrong with it, and what is expected. The rate of the gpu may be left out.

    >>> read_tiers("gpu=60GB,disk=2TB@7GB/s")[1]
    Tier(name='disk', bytes=2000000000000, rate=7000000000.0)
    >>> read_tiers("gpu=60GB,ssd=1TB")
    Traceback (most recent call last):
    ValueError: 'ssd=1TB' is not a tier: expected one such as gpu=60GiB@400TFLOP/s, host=1TiB@50GB/s or disk=4TiB@7GB/s
    """
    if not isinstance(tiers, str):
        raise TypeError(f"tiers is {bounded(tiers)}: expected a text, such as gpu=60GiB,host=1TiB@50GB/s")
    found = tuple(map(_from_text, tiers.split(",")))
    names = [tier.name for tier in found]
    if names[:1] != ["gpu"] or names != [name for name in TIERS if name in names]:
        raise ValueError(f"tiers are {', '.join(names)}: expected gpu, then host or disk or both, each once")
    for before, tier in itertools.pairwise(found):
        if tier.bytes <= before.bytes:
            more = f"expected more than {before.name}, {size_text(before.bytes)}, which it holds, too"
            raise ValueError(f"{tier.name} is {size_text(tier.bytes)}: {more}")
    return found


def _from_text(text: str) -> Tier:
    found = _TIER.fullmatch(text.strip())
    name, gpu, size, rate = found.groups() if found else ("", "", "", "")
    if not (gpu or rate):
        raise ValueError(f"{bounded(text)} is not a tier: expected one such as {_EXAMPLES}")
    try:
        return Tier(name, memory_size(size), float(memory_size(f"{rate}B")) if rate else SPEED)
    except ValueError as error:
        raise ValueError(f"{name} is {error}") from None


@dataclass(frozen=True)
class TierPoint:
    """The effect of a tier: `hits` counts the blocks that it finds and no tier before it does.

    Of their tokens, `tokens_loaded` are worth loading, which takes `load_hours`. `prefill_hours` are left with this
    tier and those before it. At the beginning of a prompt, `break_even_tokens` tokens or more are worth loading
    (`None`: never). At `break_even_rate` bytes per second, loading one token takes as long as computing it. `rate` is
    that of `Tier`. If the cost of computing is not known, everything found is loaded, and the other figures are `None`.
    """

    name: str
    blocks: int
    bytes: int
    rate: float
    break_even_rate: float | None
    break_even_tokens: int | None
    hits: int
    hit_rate: float
    tokens_loaded: int
    load_hours: float
    prefill_hours: float | None


@dataclass(frozen=True)
class TierHours:
    """The hours with `blocks` blocks of memory, which fill one tier after the other; the last tier has the rest.

    `loaded_hours` is the time that computing the loaded tokens would take. Loading is worth it while it takes less.
    """

    blocks: int
    prefill_hours: float
    load_hours: float
    loaded_hours: float


@dataclass(frozen=True)
class Tiering:
    """The tiers of a plan, each with its number of `blocks`, over the curve of a trace.

    `inputs` are the lengths of all prompts, and `prefill_flops` is the cost of those that the curve counts. The other
    fields are those of `Terms`.

    >>> from minikv.tokens import pack
    >>> from minikv.traffic import TraceRequest
    >>> from minikv.traffic.trace_tree import TraceTree
    >>> tree = TraceTree(TraceRequest(0, 10 * len(ids), 1, pack(ids)) for ids in ([1, 2], [3], [4], [1, 2], [3]))
    >>> tiers, inputs = read_tiers("gpu=3B@1FLOP/s,host=5B@1B/s"), np.array(tree.inputs)
    >>> tiering = Tiering(tiers, [3, 5], 10, 1, PrefillCost(20, 20, 0), 1, HitCurve(tree), inputs, 70 * 40)
    >>> [(tier.hits, tier.tokens_loaded, round(tier.prefill_hours * 3600 / 40)) for tier in tiering.points()]
    [(1, 0, 60), (2, 20, 40)]
    """

    tiers: Sequence[Tier]
    blocks: Sequence[int]
    block_size: int
    bytes_per_token: int
    cost: PrefillCost | None
    gpus: int
    curve: HitCurve
    inputs: Column
    prefill_flops: int

    def break_even(self, tier: Tier) -> BreakEven | None:
        """The break-even of a tier's link: a token that is computed meets half of each pair of positions."""
        if self.cost is None:
            return None
        half = self.cost.per_pair / 2
        flops = 2 * self.cost.active + half
        return BreakEven(self.bytes_per_token, tier.rate, flops, self.flops_per_second, attention_flops=half)

    @property
    def flops_per_second(self) -> float:
        """Return what all GPUs compute together."""
        return self.tiers[0].rate * self.gpus

    def points(self) -> Iterator[TierPoint]:
        """Return the effect of each tier."""
        for number, (tier, blocks) in enumerate(zip(self.tiers, self.blocks)):
            parts = self._parts(blocks)
            hits, loaded, _ = parts[number]
            even = self.break_even(tier) if number else None
            rate = self.bytes_per_token * self.flops_per_second / self.cost.flops(1) if even and self.cost else None
            share = round(hits / max(1, self.curve.blocks), 6)
            yield TierPoint(tier.name, blocks, tier.bytes, tier.rate, rate,
                            even.tokens() if even else None, hits, share, loaded, self._loading(tier, loaded),
                            self._prefill(parts) if self.cost else None)  # fmt: skip

    def hours(self, blocks: int) -> TierHours:
        """Return the hours with this many blocks in all: the gpu first, then host memory, then the disk."""
        parts = self._parts(blocks)
        load = sum(self._loading(tier, loaded) for tier, (_, loaded, _) in zip(self.tiers, parts))
        return TierHours(blocks, self._prefill(parts), load, self._computing(sum(flops for *_, flops in parts[1:])))

    def _parts(self, size: int) -> list[tuple[int, int, int]]:
        """Of each tier, with `size` blocks in all: its hits, the tokens loaded from it, and the FLOPs that it saves."""
        ends = [*(min(size, blocks) for blocks in self.blocks[:-1]), size]
        reuse, counts, parts = self.curve.by_size.at(ends[0]), self.curve.counts, []
        inputs = self.inputs[counts]
        blocks = tokens = np.zeros_like(inputs)
        for tier, end in zip(self.tiers, ends):
            found = reuse.found(end)[counts]
            upto = np.minimum(found * self.block_size, inputs)
            parts.append((int((found - blocks).sum()), *self._saved(tier, tokens, upto)))
            blocks, tokens = found, upto
        return parts

    def _saved(self, tier: Tier, past: Column, upto: Column) -> tuple[int, int]:
        """The tokens that are loaded from a tier, from `past` to `upto` of each prompt, and the FLOPs saved."""
        loaded = flops = 0
        cost, is_link = self.cost, tier is not self.tiers[0]
        even = self.break_even(tier) if is_link else None
        for before, end in zip(past.tolist(), upto.tolist()):
            if end > before and (even is None or even.worth_loading(end - before, before)):
                loaded += is_link * (end - before)
                flops += cost.flops(end) - cost.flops(before) if cost else 0
        return loaded, flops

    def _prefill(self, parts: list[tuple[int, int, int]]) -> float:
        return self._computing(self.prefill_flops - sum(flops for *_, flops in parts))

    def _computing(self, flops: int) -> float:
        return round(flops / self.flops_per_second / 3600, 6)

    def _loading(self, tier: Tier, tokens: int) -> float:
        return round(tokens * self.bytes_per_token / tier.rate / 3600, 6)
