"""`minikv bench`: how fast the tree is, always as a ratio to something measured beside it in the same process.

Beside it run the textbook tree, which chapters 03 to 05 build, and the physical limit: one memcmp of the prompt and
one copy of its row. Rounds take turns, so that whatever else the machine does falls on all of them alike; a figure is
the median over the rounds, with the smallest and the largest beside it.
"""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from minikv.errors import whole_number
from minikv.measure.race import IN_FLIGHT, Contender, Lap, Limit, prepare, run
from minikv.measure.scaling import evict_one, match_by_length, memory_per_token, pool_by_size
from minikv.measure.textbook import TextbookCache, ZippedTextbookCache
from minikv.measure.traces import TraceRequest
from minikv.measure.workloads import WORKLOADS, Workload, mooncake
from minikv.pools import FreeListPool
from minikv.prefix import RadixCache

SHARES = {"W1": (10, 50), "W2": (10, 50), "W3": (10,), "W4": (10, 50), "W5": (100,), "W6": (10, 50)}
QUICK = {"W1": 512, "W2": 96, "W3": 300, "W4": 320, "W5": 150, "W6": 120}  # requests of a quick run
ROUNDS = 5

OURS = "minikv"
CONTENDERS = (
    Contender(OURS, RadixCache),
    Contender("minikv, pages of 16", lambda: RadixCache(16), page_size=16),
    Contender("minikv, guarded pool", RadixCache, pool=FreeListPool),
    Contender("minikv, from lists", RadixCache, tokens=lambda packed: packed.tolist()),
    Contender("textbook, with zip", ZippedTextbookCache, tokens=lambda packed: packed.tolist()),
    Contender("textbook", TextbookCache, tokens=lambda packed: packed.tolist()),
)


@dataclass
class Spread:
    """A figure over the rounds: its median, the smallest and the largest.

    >>> print(Spread.of([3.0, 1.0, 2.0]))
    2.0 (1.0 to 3.0)
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of some measurements."""
        return cls(*(round(value, 3) for value in (statistics.median(values), min(values), max(values))))

    def __str__(self) -> str:
        return f"{self.median:.1f} ({self.low:.1f} to {self.high:.1f})"


@dataclass
class Result:
    """How one contender did: microseconds a request, the ratio to the limit (mean and median request), its hits."""

    name: str
    microseconds: Spread
    to_limit: Spread
    to_limit_p50: Spread
    to_ours: Spread
    hit_rate: float


@dataclass
class Race:
    """One workload at one capacity, with or without publishing.

    `share` is what was asked for, in per cent of the working set, and `room` what was given: never less than the
    requests in flight need.
    """

    workload: str
    title: str
    share: int
    room: int
    publish: bool
    requests: int
    results: list[Result] = field(default_factory=list)

    def of(self, name: str) -> Result:
        """The result of the contender of that name; `KeyError` if nobody of that name took part."""
        return {result.name: result for result in self.results}[name]


Tick = Callable[[str], Any]


def race(
    workload: Workload,
    contenders: Sequence[Contender],
    share: int = 10,
    publish: bool = False,
    rounds: int = ROUNDS,
    tick: Tick = lambda what: None,
) -> Race:
    """Race `contenders` against each other and the limit on one workload; the first of them is what others compare to.

    `share` is the capacity in per cent of the working set. A reader's own index takes part as a `Contender`.

    >>> from minikv.measure.workloads import chat
    >>> found = race(chat(48), [Contender("mine", RadixCache)], share=100, rounds=1)
    >>> found.of("mine").to_limit.median > 1, found.of("mine").hit_rate
    (True, 0.569)
    """
    names = [contender.name for contender in contenders]
    if len(set(names)) < len(names):
        raise ValueError(f"contenders are {', '.join(names)}: each needs a name of its own")
    if not workload.requests:
        raise ValueError(f"workload {workload.name} has no requests to race with")
    rounds = whole_number("rounds", rounds, 1, "a race has at least 1 round")
    everything = working_set(workload)
    room_to_start = IN_FLIGHT * max(len(request.full) + 16 for request in workload.requests)
    capacity = max(everything * share // 100, room_to_start)
    limit, fields = Limit(workload), [(contender, prepare(contender, workload)) for contender in contenders]
    laps: dict[str, list[Lap]] = {name: [] for name in names}
    floors = [limit.run()]
    for turn in range(rounds):
        for contender, requests in fields[turn % len(fields) :] + fields[: turn % len(fields)]:
            tick(f"{workload.name} {share}% {contender.name}")
            laps[contender.name].append(run(contender, requests, capacity, publish))
            floors.append(limit.run())
    floor = usual(floors)
    room = round(100 * capacity / everything)
    found = Race(workload.name, workload.title, share, room, publish, len(workload.requests))
    for name, own in laps.items():
        found.results.append(_result(name, own, laps[names[0]], floor, workload.num_tokens))
    return found


def _result(name: str, own: list[Lap], first: list[Lap], floor: Lap, tokens: int) -> Result:
    return Result(
        name,
        Spread.of([lap.mean for lap in own]),
        Spread.of([lap.mean / floor.mean for lap in own]),
        Spread.of([lap.median / floor.median for lap in own]),
        Spread.of([lap.mean / other.mean for lap, other in zip(own, first)]),
        round(own[0].hits / tokens, 3),
    )


def usual(laps: Sequence[Lap]) -> Lap:
    """For each request the median of all laps: a lap of the limit is so short that a disturbance fills half of it.

    >>> usual([Lap([5, 2]), Lap([3, 4]), Lap([4, 90])]).times
    [4, 4]
    """
    return Lap([int(statistics.median(times)) for times in zip(*(lap.times for lap in laps))])


def working_set(workload: Workload) -> int:
    """How many tokens the workload would cache if nothing were ever evicted.

    >>> from minikv.measure.workloads import strangers
    >>> working_set(strangers(3))
    3150
    """
    cache = RadixCache()
    for request in workload.requests:
        cache.insert(request.full, range(len(request.full)))
    return cache.total_size


@dataclass
class Figures:
    """Everything that `minikv bench` measures; `dataclasses.asdict` makes it JSON."""

    machine: str
    date: str
    rounds: int
    quick: bool
    races: list[Race] = field(default_factory=list)
    evict: dict[str, Any] = field(default_factory=dict)
    match: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    pool: dict[str, Any] = field(default_factory=dict)


def bench(
    trace: Iterable[TraceRequest] | None = None,
    only: Sequence[str] = (),
    rounds: int = ROUNDS,
    quick: bool = False,
    guests: Sequence[Contender] = (),
    tick: Tick = lambda what: None,
) -> Figures:
    """Measure everything: the races (`only` some workloads, W6 when there is a `trace`), scaling and memory."""
    found = Figures(machine(), date.today().isoformat(), rounds, quick)
    for name in only:
        if name not in SHARES:
            raise ValueError(f"workload is {name!r}: expected one of {', '.join(SHARES)}")
    for name, make in {**WORKLOADS, "W6": None}.items():
        if (only and name not in only) or (make is None and trace is None):
            continue
        count = {"count": QUICK[name]} if quick else {}
        workload = make(**count) if make else mooncake(trace or (), **count)
        for share in SHARES[name][: 1 if quick else None]:
            for publish in (False, True):
                # With publishing, the variants of both trees say nothing new: ours and the textbook's race alone.
                field_of = [*CONTENDERS, *guests] if not publish else [CONTENDERS[0], CONTENDERS[-1], *guests]
                found.races.append(race(workload, field_of, share, publish, rounds, tick))
    if not only:
        scale(found, rounds, quick, tick)
    return found


def scale(found: Figures, rounds: int, quick: bool, tick: Tick) -> None:
    """Measure how costs grow: with nodes, with the prompt, with the pool; and what a token takes in memory."""
    most = 100_000 if quick else 1_000_000
    found.evict = evict_one([n for n in (1000, 10_000, 100_000, 1_000_000) if n <= most], rounds, tick)
    found.match = match_by_length([100, 1000, 10_000, 100_000], rounds, tick)
    found.memory = memory_per_token([1, 16], 2 ** (16 if quick else 20), tick)
    found.pool = pool_by_size([1000, 10_000, 100_000, 1_000_000, 10_000_000], rounds, tick)


def machine() -> str:
    """What was measured on, as far as it matters: the interpreter, the processor's kind, its cores."""
    return (
        f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores"
    )
