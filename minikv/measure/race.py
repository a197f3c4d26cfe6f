"""A race: contenders and the limit take turns on one workload, and every figure is a ratio.

Rounds are interleaved, so that a disturbance of the machine falls on all alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minikv.errors import bounded, whole_number
from minikv.measure.lap import IN_FLIGHT, Contender, Lap, Limit, collecting, run_lap
from minikv.measure.results import Spread, turns
from minikv.measure.workloads import Workload
from minikv.prefix import RadixCache
from minikv.progress_bar import Tick, quiet
from minikv.untrusted import refusal

ROUNDS = 5


@dataclass
class Result:
    """One contender's rounds: microseconds of the median request and of a request on average; and its share of hits."""

    name: str
    p50: list[float]
    mean: list[float]
    hit_rate: float


@dataclass
class Race:
    """One workload at one capacity, with or without prompts published after their prefill.

    `share` is the capacity that was asked for, in percent of the working set, and `room` what was given: never less
    than the requests in flight need. `limit_p50` and `limit_mean` are the microseconds of the `Limit`.

    >>> slow, fast = Result("slow", [8.0, 9.0], [9.0, 9.0], 0.5), Result("fast", [4.0, 3.0], [5.0, 5.0], 0.5)
    >>> race = Race("W1", "chat", 10, 12, False, 2, 2.0, 2.5, [slow, fast])
    >>> print(race.to_limit("fast"), "and", race.between("slow", "fast"))
    1.8 (1.5 to 2.0) and 2.5 (2.0 to 3.0)
    """

    workload: str
    title: str
    share: int
    room: int
    publish: bool
    requests: int
    limit_p50: float
    limit_mean: float
    results: list[Result] = field(default_factory=list)

    def of(self, name: str) -> Result:
        """The result of the contender of that name; `KeyError` if none of that name took part."""
        return {result.name: result for result in self.results}[name]

    def to_limit(self, name: str) -> Spread:
        """The contender's median request, as a multiple of the limit's."""
        return Spread.of(np.divide(self.of(name).p50, self.limit_p50))

    def to_limit_mean(self, name: str) -> Spread:
        """The contender's mean, as a multiple of the limit's mean."""
        return Spread.of(np.divide(self.of(name).mean, self.limit_mean))

    def between(self, name: str, other: str) -> Spread:
        """The median request of `name`, as a multiple of that of `other`, round by round."""
        return Spread.of(np.divide(self.of(name).p50, self.of(other).p50))


def race(
    workload: Workload,
    contenders: Sequence[Contender],
    share: int = 10,
    publish: bool = False,
    rounds: int = ROUNDS,
    tick: Tick = quiet,
) -> Race:
    """Race `contenders` against each other and the limit on one workload; your own index is a `Contender`.

    `share` is the capacity in percent of the working set. What a contender raises becomes a `ValueError` that names
    it.

    >>> from minikv.measure.workloads import w1_chat
    >>> found = race(w1_chat(48), [Contender("mine", RadixCache)], share=100, rounds=1)
    >>> found.to_limit("mine").median > 1, found.of("mine").hit_rate
    (True, 0.569)
    """
    _require(workload, contenders, rounds)
    (capacity, room), where = _capacity(workload, share), f"{workload.name} at {share} %"
    tick(f"{where}, warming up")
    limit = Limit(workload, capacity, publish)
    floors = [limit.run()]
    laps: dict[str, list[Lap]] = {contender.name: [] for contender in contenders}
    with collecting():
        for turn, contender in turns(contenders, rounds):
            tick(f"{where}, round {turn + 1}, {contender.name}")
            laps[contender.name].append(_lap(contender, workload, capacity, publish))
            floors.append(limit.run())
    floor, exchanges = usual(floors), workload.exchanges
    found = Race(workload.name, workload.title, share, room, publish, len(exchanges), floor.p50, floor.mean)
    for name, own in laps.items():
        hit_rate = round(sum(own[0].hits) / sum(len(exchange.prompt) for exchange in exchanges), 3)
        found.results.append(Result(name, [lap.p50 for lap in own], [lap.mean for lap in own], hit_rate))
    return found


def _require(workload: Any, contenders: Any, rounds: Any) -> None:
    """That there is something to race with, some to race, and a round."""
    if not isinstance(workload, Workload):
        raise TypeError(f"workload is {bounded(workload)}: expected a Workload")
    if not isinstance(contenders, Sequence) or not all(isinstance(each, Contender) for each in contenders):
        raise TypeError(f"contenders are {bounded(contenders)}: expected a sequence of Contender")
    names = [contender.name for contender in contenders]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"contenders are {', '.join(names) or 'none'}: expected some, each with a name of its own")
    if not workload.exchanges:
        raise ValueError(f"workload {workload.name} has no requests to race with")
    whole_number("rounds", rounds, 1, "a race has at least 1 round")


def _lap(contender: Contender, workload: Workload, capacity: int, publish: bool) -> Lap:
    try:
        return run_lap(contender, workload, capacity, publish)
    except Exception as error:  # somebody's own index may raise anything
        raise refusal(f"{contender.name} failed: {type(error).__name__}", error) from error


def _capacity(workload: Workload, share: int) -> tuple[int, int]:
    """Tokens: `share` percent of the working set, but enough for all in flight; and how many percent that makes."""
    share = whole_number("share", share, 1, "the capacity is at least 1 percent of the working set")
    everything = working_set(workload)
    capacity = max(everything * share // 100, IN_FLIGHT * (max(workload.lengths) + 16))
    return capacity, round(100 * capacity / everything)


def usual(laps: Sequence[Lap]) -> Lap:
    """For each request the median of all laps: a lap of the limit is so short that a disturbance fills half of it.

    >>> usual([Lap([5, 2]), Lap([3, 4]), Lap([4, 90])]).times
    [4, 4]
    """
    return Lap(np.median([lap.times for lap in laps], axis=0).astype(int).tolist())


def working_set(workload: Workload) -> int:
    """Return how many tokens the workload would cache if nothing were ever evicted.

    >>> from minikv.measure.workloads import w3_strangers
    >>> working_set(w3_strangers(3))
    3150
    """
    cache = RadixCache()
    for exchange in workload.exchanges:
        cache.insert(exchange.full, np.arange(len(exchange.full), dtype=np.int32))
    return cache.total_size
