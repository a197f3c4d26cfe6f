"""What a race found: microseconds of each contender in each round, and the ratios that follow from them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


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
    """One contender's rounds: microseconds of the median request and of a request on average; and its share of hits."""

    name: str
    p50: list[float]
    mean: list[float]
    hit_rate: float


@dataclass
class Race:
    """One workload at one capacity, with or without prompts published after their prefill.

    `share` is the capacity that was asked for, in per cent of the working set, and `room` what was given: never less
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
        return Spread.of([p50 / self.limit_p50 for p50 in self.of(name).p50])

    def to_limit_mean(self, name: str) -> Spread:
        """The contender's mean, as a multiple of the limit's mean."""
        return Spread.of([mean / self.limit_mean for mean in self.of(name).mean])

    def between(self, name: str, other: str) -> Spread:
        """The median request of `name`, as a multiple of that of `other`, round by round."""
        return Spread.of([mine / theirs for mine, theirs in zip(self.of(name).p50, self.of(other).p50)])
