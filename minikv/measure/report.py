"""What `minikv bench` prints: the races as a table of ratios, how costs grow, and what the project promises of both."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

from minikv.measure.bench import INDEX, INDEX_16, OURS, OURS_16, TEXTBOOK, Figures
from minikv.measure.results import Race


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
    return [] if figures.quick else [*_race_promises(figures.races), *_growth_promises(figures)]


_TO_LIMIT = (
    # name, workload, share, published, contender, bar: median requests, as multiples of the limit's
    ("chat, a request against the limit", "W1", 10, False, OURS, 7.5),
    ("chat, a request with its prompt published, against the limit", "W1", 10, True, OURS, 10.5),
    ("chat, the bare index against the limit", "W1", 10, False, INDEX, 5),
    ("chat, the bare index with prompts published, against the limit", "W1", 10, True, INDEX, 8),
    ("long documents, the bare index against the limit", "W2", 50, False, INDEX, 2),
    ("Mooncake, the bare index against the limit", "W6", 10, False, INDEX, 4),
)


def _race_promises(races: list[Race]) -> Iterator[Promise]:
    raced = {(race.workload, race.share, race.publish): race for race in races}
    for name, workload, share, publish, contender, bar in _TO_LIMIT:
        if race := raced.get((workload, share, publish)):
            yield Promise(name, race.to_limit(contender).median, bar)
    if chat := raced.get(("W1", 10, False)):
        name = "chat, the textbook tree with zip against the bare index"
        yield Promise(name, chat.between(TEXTBOOK, INDEX).median, 25, at_most=False)
    for name, large, small in (("a request", OURS_16, OURS), ("the bare index", INDEX_16, INDEX)):
        if races:
            worst = max(races, key=lambda race: race.between(large, small).median)
            where = f"{worst.workload} at {worst.share} %{', published' * worst.publish}"
            found = worst.between(large, small).median
            yield Promise(f"{name} with pages of 16 against pages of 1, at its slowest ({where})", found, 1)


def _growth_promises(figures: Figures) -> Iterator[Promise]:
    if run := figures.long_run:
        yield Promise(
            "long run, its last thousand requests against the first", run["last thousand"] / run["first thousand"], 1.3
        )
        yield Promise("long run, a match against a tree built afresh", run["match"] / run["match, built afresh"], 1.3)
        yield Promise("long run, nodes against a tree built afresh", run["nodes"] / run["nodes, built afresh"], 1.1)
    if figures.evict:
        yield Promise("evict one leaf, of a million against of a thousand", _growth(figures.evict["minikv"], 0), 2)
    if figures.match:
        yield Promise("match 100,000 tokens against 1,000", _growth(figures.match["minikv"], 1), 10)
    if figures.extend:
        yield Promise("extend a context of 50,000 tokens against one of 100", _growth(figures.extend["minikv"], 0), 1.5)
    if figures.memory:
        for page, bars in ((1, {"long": 9, "chat": 14}), (16, {"long": 5, "chat": 9})):
            for kind, bar in bars.items():
                taken = figures.memory[kind][figures.memory["page size"].index(page)]
                yield Promise(f"bytes a cached token, {kind}, pages of {page}", taken, bar)
    if figures.pool:
        yield Promise(
            "take and give back 64 pages, of ten million against of a thousand",
            _growth(figures.pool["FreeListPool"], 0),
            2,
        )


def _growth(values: list[float], first: int) -> float:
    """The last of some costs, as a multiple of an earlier one."""
    return values[-1] / values[first]


_DEFINITION = (
    "a request reads its row of slots once; the limit compares the hit tokens with a tree's edges, copies their slots, "
    "takes new ones off a stack, and keeps a copy of the new tokens and slots"
)


def report(figures: Figures) -> str:
    """Everything as text; ratios first, since they are what travels from one machine to another.

    >>> print(report(Figures("CPython 3.11, 2 cores", "2026-11-21", 1, True)).splitlines()[0])
    2026-11-21, CPython 3.11, 2 cores; medians of 1 rounds (smallest to largest)
    """
    lines = [f"{figures.date}, {figures.machine}; medians of {figures.rounds} rounds (smallest to largest)"]
    lines += [_DEFINITION] if figures.races else []
    for race in figures.races:
        lines += ["", *_race_lines(race)]
    if figures.long_run:
        lines += ["", *_long_run_lines(figures.long_run)]
    if figures.evict:
        lines += ["", *_table("evict one leaf, us", "leaves", figures.evict)]
        lines += ["", *_table("match a cached prompt, us", "tokens", figures.match)]
        lines += ["", *_table("extend by one token, us", "tokens", figures.extend)]
        lines += ["", *_table("memory for each cached token, bytes", "page size", figures.memory)]
        lines += ["", *_table("take and give back 64 pages, us", "slots", figures.pool)]
        lines += ["", *_pause_lines(figures.pauses)]
    if kept := promises(figures):
        lines += ["", "promised:", *(f"  {promise}" for promise in kept)]
    return "\n".join(lines)


def _race_lines(race: Race) -> Iterator[str]:
    published = ", prompts published after prefill" if race.publish else ""
    yield f"{race.workload} {race.title}, {race.requests} requests, room for {race.room}% of all they cache{published}"
    yield f"  {'':<24}{'median us':>10}  {'to the limit':<26}{'mean us':>10}  {'to the limit':<26}{'to minikv':<24}hits"
    yield (f"  the limit takes {race.limit_p50:,.1f} us in the median, {race.limit_mean:,.1f} on average")
    first = race.results[0].name
    for result in race.results:
        p50, mean, name = statistics.median(result.p50), statistics.median(result.mean), result.name
        yield (
            f"  {name:<24}{p50:>10,.1f}  x {race.to_limit(name)!s:<24}{mean:>10,.1f}  "
            f"x {race.to_limit_mean(name)!s:<24}x {race.between(name, first)!s:<22}{result.hit_rate:.3f}"
        )


def _long_run_lines(run: dict[str, Any]) -> Iterator[str]:
    yield f"long run, {run['requests']:,} requests that leave hot prompts at random places, us of the median"
    first, second, last = run["first thousand"], run["second thousand"], run["last thousand"]
    yield f"  requests    first thousand {first:>8,.2f}    last thousand {last:>8,.2f}    second {second:>8,.2f}"
    yield f"  a match     at the end     {run['match']:>8,.2f}    built afresh  {run['match, built afresh']:>8,.2f}"
    yield f"  nodes       at the end     {run['nodes']:>8,}    built afresh  {run['nodes, built afresh']:>8,}"


def _pause_lines(pauses: dict[str, Any]) -> Iterator[str]:
    yield f"a full garbage collection with {pauses['nodes']:,} leaves in the tree, ms"
    for name in ("as it is", "after gc.freeze", "when half is new"):
        yield f"  {name:<18}{pauses[name]:>10,.2f}"


def _table(title: str, name: str, table: dict[str, list[float | None]]) -> Iterator[str]:
    yield f"{title}, by {name}"
    for row, values in table.items():
        if row == name:
            cells = [f"{value:>12,}" for value in values]
        else:
            cells = [f"{'-' if value is None else format(value, ',.2f'):>12}" for value in values]
        yield f"  {row:<14}" + "".join(cells)
