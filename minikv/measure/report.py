"""What `minikv bench` prints: the races as a table of ratios, how costs grow, and what the project promises of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from minikv.measure.bench import OURS, Figures, Race


class Promise(NamedTuple):
    """A figure that the project promises to hold: its name, what was measured, and the bar on which side."""

    name: str
    found: float
    bar: float
    at_most: bool = True

    @property
    def kept(self) -> bool:
        """Whether what was measured is on the right side of the bar."""
        return self.found <= self.bar if self.at_most else self.found >= self.bar

    def __str__(self) -> str:
        return (
            f"{'✓' if self.kept else '✗'} {self.name}: {self.found:.2f} ({'<=' if self.at_most else '>='} {self.bar:g})"
        )


def promises(figures: Figures) -> list[Promise]:
    """The promises that these figures are enough to judge; a quick run is too short for most."""
    return [] if figures.quick else list(_promises(figures))


def _promises(figures: Figures) -> Iterator[Promise]:
    races = {(race.workload, race.share, race.publish): race for race in figures.races}
    if chat := races.get(("W1", 10, False)):
        yield Promise("chat, whole life cycle against the limit", chat.of(OURS).to_limit.median, 5)
        yield Promise(
            "chat, the textbook tree of the chapters against ours",
            chat.of("textbook").to_ours.median,
            25,
            at_most=False,
        )
    if papers := races.get(("W2", 50, False)):
        yield Promise("long documents against the limit", papers.of(OURS).to_limit.median, 3)
    if trace := races.get(("W6", 10, False)):
        yield Promise("Mooncake, median request against the limit", trace.of(OURS).to_limit_p50.median, 4)
    if figures.evict:
        took = figures.evict["minikv"]
        yield Promise("evict one leaf, of a million against of a thousand", took[-1] / took[0], 2)
    if figures.match:
        took = figures.match["minikv"]
        yield Promise("match 100,000 tokens against 1,000", took[-1] / took[1], 10)
    if figures.memory:
        for page, bar in ((1, 24), (16, 12)):
            taken = figures.memory["minikv"][figures.memory["page size"].index(page)]
            yield Promise(f"bytes a cached token, pages of {page}", taken, bar)
    if figures.pool:
        took = figures.pool["FreeListPool"]
        yield Promise("take and give back 64 slots, of ten million against of a thousand", took[-1] / took[0], 2)


def report(figures: Figures) -> str:
    """Everything as text; ratios first, since they are what travels from one machine to another.

    >>> print(report(Figures("CPython 3.11, 2 cores", "2026-11-21", 1, True)).splitlines()[0])
    2026-11-21, CPython 3.11, 2 cores; medians of 1 rounds (smallest to largest)
    """
    lines = [f"{figures.date}, {figures.machine}; medians of {figures.rounds} rounds (smallest to largest)"]
    for race in figures.races:
        lines += ["", *_race_lines(race)]
    if figures.evict:
        lines += ["", *_growth("evict one leaf, us", "leaves", figures.evict)]
        lines += ["", *_growth("match a cached prompt, us", "tokens", figures.match)]
        lines += ["", *_growth("memory for each cached token, bytes", "page size", figures.memory)]
        lines += ["", *_growth("take and give back 64 slots, us", "slots", figures.pool)]
    if kept := promises(figures):
        lines += ["", "promised:", *(f"  {promise}" for promise in kept)]
    return "\n".join(lines)


def _race_lines(race: Race) -> Iterator[str]:
    published = ", prompts published after prefill" if race.publish else ""
    yield f"{race.workload} {race.title}, {race.requests} requests, room for {race.room}% of all they cache{published}"
    yield f"  {'':<22}{'us a request':>14}  {'to the limit':<27}{'median request':<27}{'to ours':<25}hits"
    for result in race.results:
        yield (
            f"  {result.name:<22}{result.microseconds.median:>14,.1f}  x {result.to_limit!s:<25}"
            f"x {result.to_limit_p50!s:<25}x {result.to_ours!s:<23}{result.hit_rate:.3f}"
        )


def _growth(title: str, name: str, table: dict[str, list[float | None]]) -> Iterator[str]:
    yield f"{title}, by {name}"
    for row, values in table.items():
        if row == name:
            cells = [f"{value:>12,}" for value in values]
        else:
            cells = [f"{'-' if value is None else format(value, ',.2f'):>12}" for value in values]
        yield f"  {row:<14}" + "".join(cells)
