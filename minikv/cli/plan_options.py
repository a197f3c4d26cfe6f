"""The options of `minikv plan`, read and checked before the trace is opened."""

from __future__ import annotations

import argparse
import math
import os
import re
from dataclasses import dataclass
from decimal import Decimal

from minikv.errors import bounded
from minikv.files import destination
from minikv.prefix.eviction import POLICIES
from minikv.sizing import DTYPE_BITS, KVShape, bytes_per_token, kv_budget
from minikv.traffic.plan.plan import Terms
from minikv.traffic.plan.prefill_cost import PrefillCost
from minikv.traffic.plan.quantities import gib
from minikv.traffic.traces import Traffic

_MOST_LIFETIMES = 20
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([KMGTP]?)(i?)B", re.ASCII)
_POWERS = {letter: power for power, letter in enumerate(("", "K", "M", "G", "T", "P"))}


@dataclass(frozen=True)
class PlanOptions:
    """What the plan is made for, and which policies are replayed besides."""

    model: str | None
    dtype: str
    tp: int
    token_bytes: int | None
    memory: int | None
    cost: PrefillCost | None
    lifetimes: tuple[float, ...]
    warm_up: float
    policies: tuple[str, ...]

    def terms(self, block_size: int) -> Terms:
        """The terms of a plan over blocks of `block_size` tokens."""
        return Terms(block_size, self.token_bytes, self.memory, self.cost, self.lifetimes, self.warm_up)

    def refusal(self, traffic: Traffic) -> str | None:
        """Why there is no such plan for this trace, or `None`."""
        if self.model and traffic.unit != "tokens":
            return f"{traffic.name} is counted in {traffic.unit}, a model in tokens: --tokenizer FOLDER counts tokens"
        if self.lifetimes and not traffic.timed:
            return f"{traffic.name} says nothing of time, which --ttl needs"
        if self.memory is not None and not self.terms(traffic.block_size).capacity:
            return f"--memory is less than a block of {traffic.block_size} tokens takes"
        return None

    def about(self) -> str:
        """The model and its memory, in a sentence."""
        if self.token_bytes is None:
            return "No model was given, so sizes are in the units of the trace."
        each = f" on each of {self.tp} GPUs" if self.tp > 1 else ""
        held = (
            ""
            if self.memory is None
            else (f"; the cache may use {gib(self.memory)}{each}: {self.memory // self.token_bytes:,} tokens")
        )
        return f"{self.model}: {self.token_bytes / 1024:g} KiB of {self.dtype} a token{each}{held}."


def read_options(options: argparse.Namespace) -> PlanOptions:
    """The options, or an `OSError` or a `ValueError` that says in one line what is wrong with them.

    >>> given = dict(trace="t.jsonl", model=None, memory=None, dtype="bf16", tp=1, weights=None, ttl="60,300",
    ...              warm_up="0", policies="lru", journal=None, csv=None, png=None, html=None)
    >>> read_options(argparse.Namespace(**given)).lifetimes
    (60.0, 300.0)
    """
    if options.memory is not None and options.model is None:
        raise ValueError("--memory needs --model: how many tokens fit depends on the model")
    for path in filter(None, (options.csv, options.png, options.html, options.journal)):
        target = destination(path)
        if os.path.exists(options.trace) and target.exists() and os.path.samefile(target, options.trace):
            raise ValueError(f"{bounded(path)} is the trace, which would be overwritten")
    cost, token_bytes = None, None
    if options.model is not None:
        token_bytes = bytes_per_token(KVShape.from_config(options.model), options.dtype, options.tp)
        cost = PrefillCost.from_config(options.model)
    lifetimes = _numbers("--ttl", options.ttl) if options.ttl else ()
    if (warm_up := _numbers("--warm-up", options.warm_up)[0]) >= 1:
        raise ValueError(f"--warm-up is {bounded(options.warm_up)}: it is a share of the requests, less than 1")
    return PlanOptions(
        options.model and str(options.model), options.dtype, options.tp, token_bytes, _memory(options, cost), cost,
        lifetimes, warm_up, _policies(options, warm_up),
    )  # fmt: skip


def _memory(options: argparse.Namespace, cost: PrefillCost | None) -> int | None:
    """What the cache may use, in bytes on each GPU: less the weights, if that is asked for."""
    if options.memory is None or cost is None:
        if options.weights:
            raise ValueError("--weights are taken off --memory, which is not given")
        return None
    memory = read_memory("--memory", options.memory)
    if not options.weights:
        return memory
    return kv_budget(memory, -(-cost.total * DTYPE_BITS[options.weights] // (8 * options.tp)), utilization=1)


def _numbers(name: str, text: str) -> tuple[float, ...]:
    parts = text.split(",")
    try:
        found = tuple(float(part) for part in parts)
    except ValueError:
        found = (math.nan,)
    if len(parts) > _MOST_LIFETIMES or not all(0 <= number <= 1e9 for number in found):
        raise ValueError(f"{name} is {bounded(text)}: expected numbers from 0 to 1e9, such as 60,300,3600")
    return found


def _policies(options: argparse.Namespace, warm_up: float) -> tuple[str, ...]:
    if not options.policies:
        return ()
    names = tuple(POLICIES) if options.policies == "all" else tuple(dict.fromkeys(options.policies.split(",")))
    for name in names:
        if name not in POLICIES:
            raise ValueError(f"--policies has {bounded(name)}: expected all, or some of {', '.join(POLICIES)}")
    if options.trace == "-":
        raise ValueError("--policies reads the trace once for each replay, which standard input does not allow")
    if warm_up:
        raise ValueError("--policies counts every request: leave --warm-up out")
    return names


def read_memory(name: str, text: str) -> int:
    """A number of bytes, of at least 1; KiB, MiB, GiB and TiB count by 1024, kB, MB, GB and TB by 1000.

    `ValueError` begins with `name` and says what was expected.

    >>> read_memory("--memory", "80GiB") == 80 * 2**30, read_memory("--memory", "1.5 TB")
    (True, 1500000000000)
    >>> read_memory("--memory", "80")
    Traceback (most recent call last):
    ValueError: --memory is '80': expected a number and its unit, such as 80GiB, 1.5TB or 500MiB
    """
    found = _SIZE.fullmatch(text.strip().replace("k", "K", 1))
    size = int(Decimal(found[1]) * (1024 if found[3] else 1000) ** _POWERS[found[2]]) if found else 0
    if not 1 <= size < 2**63:
        raise ValueError(f"{name} is {bounded(text)}: expected a number and its unit, such as 80GiB, 1.5TB or 500MiB")
    return size
