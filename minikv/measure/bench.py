"""`minikv bench`: how fast the cache is, always as a ratio to something measured beside it in the same process.

"minikv" is the whole life of a request in the cache manager, as the engine runs it: start, advance, one read of its row
of slots, extend by the answer, advance, finish; "published" adds a checkpoint after the prefill. "bare index" is only
the index and the pool. They race against the textbook tree, which chapters 03 to 05 build, and against what no engine
can beat (`Limit`). Rounds are interleaved, so that a disturbance of the machine falls on all alike; a figure is the
median over the rounds, with the smallest and the largest beside it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Any

from minikv.errors import bounded
from minikv.measure.lap import Contender
from minikv.measure.lives import IndexLife, ManagerLife
from minikv.measure.long_run import long_run
from minikv.measure.memory import memory_per_token, pauses
from minikv.measure.race import ROUNDS, race
from minikv.measure.results import Race
from minikv.measure.scaling import evict_one, extend_by_context, match_by_length, pool_by_size
from minikv.measure.textbook import TextbookCache, ZippedTextbookCache
from minikv.measure.workloads import WORKLOADS, TracedRequest, Workload, mooncake
from minikv.prefix import RadixCache
from minikv.prefix.indexes import index_named
from minikv.progress_bar import Tick, quiet
from minikv.tokens import pack

SHARES = {"W1": (10, 50), "W2": (10, 50), "W3": (10,), "W4": (10, 50), "W5": (100,), "W6": (10, 50)}
QUICK = {"W1": 512, "W2": 96, "W3": 300, "W4": 320, "W5": 150, "W6": 120}  # requests of a quick run

OURS, INDEX, TEXTBOOK = "minikv", "bare index", "textbook, with zip"
OURS_16, INDEX_16 = "minikv, pages of 16", "bare index, pages of 16"
CONTENDERS = (
    Contender(OURS, RadixCache, ManagerLife, pack),
    Contender(OURS_16, partial(RadixCache, 16), ManagerLife, pack),
    Contender("minikv, from lists", RadixCache, ManagerLife),
    Contender(INDEX, RadixCache, IndexLife, pack),
    Contender(INDEX_16, partial(RadixCache, 16), IndexLife, pack),
    Contender(TEXTBOOK, ZippedTextbookCache),
    Contender("textbook", TextbookCache),
)
_PUBLISHING = (OURS, OURS_16, INDEX, INDEX_16, TEXTBOOK)  # the others say nothing new there


@dataclass(frozen=True)
class Scales:
    """How large the bench measures: requests of the long run, leaves, prompts, contexts, pages, tokens, pools, nodes.

    >>> Scales(long_run=2000, leaves=(10,), prompts=(5,), contexts=(5,), pages=(1,), pools=(8,)).steps
    10
    """

    long_run: int = 60_000
    leaves: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000)
    prompts: tuple[int, ...] = (100, 1000, 10_000, 100_000)
    contexts: tuple[int, ...] = (100, 1000, 10_000, 50_000)
    pages: tuple[int, ...] = (1, 16)
    cached: int = 2**20
    pools: tuple[int, ...] = (1000, 10_000, 100_000, 1_000_000, 10_000_000)
    nodes: int = 1_000_000

    @property
    def steps(self) -> int:
        """How often `grow` ticks: once a thousand requests, once a size, and three times for the pauses."""
        sizes = (self.leaves, self.prompts, self.contexts, self.pages, self.pools)
        return -(-self.long_run // 1000) + sum(map(len, sizes)) + 3


QUICK_SCALES = Scales(6000, leaves=(1000, 10_000, 100_000), cached=2**16, nodes=100_000)


@dataclass
class Figures:
    """Everything that `minikv bench` measures; `dataclasses.asdict` makes it JSON."""

    machine: str
    date: str
    rounds: int
    quick: bool
    races: list[Race] = field(default_factory=list)
    long_run: dict[str, Any] = field(default_factory=dict)
    evict: dict[str, Any] = field(default_factory=dict)
    match: dict[str, Any] = field(default_factory=dict)
    extend: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    pool: dict[str, Any] = field(default_factory=dict)
    pauses: dict[str, Any] = field(default_factory=dict)


def bench(
    trace: Sequence[TracedRequest] | None = None,
    only: Sequence[str] = (),
    rounds: int = ROUNDS,
    quick: bool = False,
    guests: Sequence[Contender] = (),
    tick: Tick = quiet,
    expect: Callable[[int], None] = lambda steps: None,
) -> Figures:
    """Measure everything: the races (`only` some workloads, W6 when there is a `trace`), the long run and growth.

    `expect` is told how many ticks there will be. A trace that cannot be raced is a `ValueError` before any race.
    """
    found = Figures(machine(), date.today().isoformat(), rounds, quick)
    workloads = _workloads(_names(only, trace), trace or (), quick)
    scales = None if only else QUICK_SCALES if quick else Scales()
    fields = {publish: _contenders(publish, guests) for publish in (False, True)}
    ticks_a_share = sum(1 + rounds * len(contenders) for contenders in fields.values())
    shares = sum(len(_shares(workload.name, quick)) for workload in workloads)
    expect(shares * ticks_a_share + (scales.steps if scales else 0))
    while workloads:
        workload = workloads.pop(0)
        for share in _shares(workload.name, quick):
            for publish, contenders in fields.items():
                found.races.append(race(workload, contenders, share, publish, rounds, tick))
    if scales:
        grow(found, scales, tick)
    return found


def designs(names: Sequence[str]) -> list[Contender]:
    """The other designs of `INDEXES` by their `names`, each in the manager and bare, to race beside the radix tree.

    They have pages of one token, but hashed blocks have pages of 16, as in vLLM: each page costs them a hash. "radix"
    races anyway. `ValueError` names an unknown one.

    >>> [contender.name for contender in designs(["radix", "trie", "hash", "hash"])]
    ['trie', 'bare trie', 'hash, pages of 16', 'bare hash, pages of 16']
    """
    found = []
    for name in dict.fromkeys(names):
        if name == "radix":
            continue
        size, pages = (16, ", pages of 16") if name == "hash" else (1, "")
        make = partial(index_named, name, size)
        make()  # says what is wrong with the name
        found.append(Contender(f"{name}{pages}", make, ManagerLife, pack))
        found.append(Contender(f"bare {name}{pages}", make, IndexLife, pack))
    return found


def _names(only: Sequence[str], trace: Sequence[TracedRequest] | None) -> list[str]:
    """The workloads to race, each once: those of `only`, or all for which there is something."""
    if not isinstance(only, Sequence):
        raise TypeError(f"only is {bounded(only)}: expected names of workloads")
    for name in only:
        if name not in SHARES:
            raise ValueError(f"workload is {bounded(name)}: expected one of {', '.join(SHARES)}")
    if only and ("W6" in only) != (trace is not None):
        raise ValueError("W6 is a trace: expected both of them, or neither")
    return list(dict.fromkeys(only)) or [name for name in SHARES if name != "W6" or trace is not None]


def _workloads(names: Sequence[str], trace: Sequence[TracedRequest], quick: bool) -> list[Workload]:
    """All workloads, made before the first race, so that a bad trace costs no figures."""
    found = []
    for name in names:
        count = {"count": QUICK[name]} if quick else {}
        found.append(mooncake(trace, **count) if name == "W6" else WORKLOADS[name](**count))
        if not found[-1].exchanges:
            raise ValueError(f"workload {name} has no requests to race with")
    return found


def _shares(name: str, quick: bool) -> tuple[int, ...]:
    return SHARES[name][: 1 if quick else None]


def _contenders(publish: bool, guests: Sequence[Contender]) -> list[Contender]:
    return [*(contender for contender in CONTENDERS if not publish or contender.name in _PUBLISHING), *guests]


def grow(found: Figures, scales: Scales, tick: Tick = quiet) -> None:
    """Measure what could grow: with age, with nodes, with the prompt, the context and the pool; and the memory."""
    found.long_run = long_run(scales.long_run, tick)
    found.evict = evict_one(scales.leaves, found.rounds, tick)
    found.match = match_by_length(scales.prompts, found.rounds, tick)
    found.extend = extend_by_context(scales.contexts, found.rounds, tick)
    found.memory = memory_per_token(scales.pages, scales.cached, tick)
    found.pool = pool_by_size(scales.pools, found.rounds, tick)
    found.pauses = pauses(scales.nodes, found.rounds, tick)


def machine() -> str:
    """What was measured on, as far as it matters: the interpreter, the processor's kind, its cores.

    >>> machine().endswith("cores")
    True
    """
    return (
        f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    )
