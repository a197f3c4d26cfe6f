"""`minikv bench`: how fast the cache is, always as a ratio to something measured beside it in the same process.

"minikv" is the whole life of a request in the cache manager, as the engine runs it: start, advance, one read of its row
of slots, extend by the answer, advance, finish; "published" adds a checkpoint after the prefill. "bare index" is only
the index and the pool. They race against the textbook tree, which chapters 03 to 05 build, and against what no engine
can beat (`Limit`). A figure is the median over the rounds, with the smallest and the largest beside it.

A row of pages of 16 is read as slots, too, since that is what the engine here reads: 16 numbers are written out for
each page, which costs more than the shorter row saves. What larger pages save is memory. All ratios to the limit are
larger on a machine whose memory is fast for its Python: the limit is memory alone, and a request is mostly Python.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from minikv.errors import bounded
from minikv.measure.lap import Contender
from minikv.measure.lives import IndexLife, ManagerLife
from minikv.measure.race import ROUNDS, Race, race
from minikv.measure.results import Measured, Promise, today
from minikv.measure.textbook import TextbookCache
from minikv.measure.workloads import WORKLOADS, Workload, w6_mooncake
from minikv.prefix import RadixCache, index_named
from minikv.progress_bar import Tick, quiet
from minikv.tokens import pack

SHARES = {"W1": (10, 50), "W2": (10, 50), "W3": (10,), "W4": (10, 50), "W5": (100,), "W6": (10, 50)}
QUICK = {"W1": 512, "W2": 96, "W3": 300, "W4": 320, "W5": 150, "W6": 120}  # requests of a quick run

OURS, INDEX, OURS_16 = "minikv", "bare index", "minikv, pages of 16"
CONTENDERS = (
    Contender(OURS, RadixCache, ManagerLife, pack),
    Contender(OURS_16, partial(RadixCache, 16), ManagerLife, pack),
    Contender("minikv, from lists", RadixCache, ManagerLife),
    Contender(INDEX, RadixCache, IndexLife, pack),
    Contender("bare index, pages of 16", partial(RadixCache, 16), IndexLife, pack),
    Contender("textbook", TextbookCache),
)


_DEFINITION = (
    "a request reads its row of slots once; the limit compares the hit tokens with a tree's edges, copies their slots, "
    "takes new ones off a stack, and keeps a copy of the new tokens and slots"
)
_TO_LIMIT = (
    # name; workload, share, published; contender, bar: median requests, as multiples of the limit's
    ("chat, a request against the limit", ("W1", 10, False), OURS, 7.5),
    ("chat, a request with its prompt published, against the limit", ("W1", 10, True), OURS, 10.5),
    ("long documents, the bare index against the limit", ("W2", 50, False), INDEX, 2),
)


@dataclass
class Figures(Measured):
    """Everything that `minikv bench` measures."""

    races: list[Race] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """A table for each race."""
        yield _DEFINITION
        for found in self.races:
            yield from ("", *_race_lines(found))

    def promises(self) -> Iterator[Promise]:
        """Median requests against the limit, and pages of 16 against pages of 1 where they are slowest."""
        raced = {(one.workload, one.share, one.publish): one for one in self.races}
        for name, where, contender, bar in _TO_LIMIT:
            if where in raced:
                yield Promise(name, raced[where].to_limit(contender).median, bar)
        if self.races:
            worst = max(self.races, key=lambda one: one.between(OURS_16, OURS).median)
            at = f"{worst.workload} at {worst.share} %{', published' * worst.publish}"
            name = f"a request with pages of 16 against pages of 1, at its slowest ({at})"
            yield Promise(name, worst.between(OURS_16, OURS).median, 1.25)


def _race_lines(found: Race) -> Iterator[str]:
    published = ", prompts published after prefill" * found.publish
    room = f"room for {found.room}% of all they cache{published}"
    yield f"{found.workload} {found.title}, {found.requests} requests, {room}"
    yield f"  {'':<24} {'median us':>9}  {'to the limit':<28}{'mean us':>9}  {'to the limit':<28}{'to minikv':<25}hits"
    yield f"  the limit takes {found.limit_p50:,.1f} us at the median, {found.limit_mean:,.1f} on average"
    first = found.results[0].name
    for result in found.results:
        name = result.name
        p50 = statistics.median(result.p50)
        mean = statistics.median(result.mean)
        yield (
            f"  {name:<24} {p50:>9,.1f}  x {found.to_limit(name)!s:<25} {mean:>9,.1f}  "
            f"x {found.to_limit_mean(name)!s:<25} x {found.between(name, first)!s:<22} {result.hit_rate:.3f}"
        )


def bench(
    trace: Sequence[Any] | None = None,
    only: Sequence[str] = (),
    rounds: int = ROUNDS,
    quick: bool = False,
    guests: Sequence[Contender] = (),
    tick: Tick = quiet,
    expect: Callable[[int], None] = lambda steps: None,
) -> Figures:
    """Run all races, or those on `only` some workloads; on W6 when there is a `trace`.

    `expect` gets the number of ticks to come. A trace that cannot be raced is a `ValueError` before any race.
    """
    found = Figures(*today(rounds, quick))
    workloads = _workloads(_names(only, trace), trace or (), quick)
    contenders = [*CONTENDERS, *guests]
    expect(2 * (1 + rounds * len(contenders)) * sum(len(shares) for _, shares in workloads))
    while workloads:
        workload, shares = workloads.pop(0)
        for share in shares:
            for publish in (False, True):
                found.races.append(race(workload, contenders, share, publish, rounds, tick))
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
        for called, life in (name, ManagerLife), (f"bare {name}", IndexLife):
            found.append(Contender(f"{called}{pages}", make, life, pack))
    return found


def _names(only: Any, trace: Sequence[Any] | None) -> list[str]:
    """The workloads to race, each once: those of `only`, or all for which there is something."""
    if not isinstance(only, Sequence) or isinstance(only, str):
        raise TypeError(f"only is {bounded(only)}: expected a sequence of names of workloads")
    for name in only:
        if name not in SHARES:
            raise ValueError(f"workload is {bounded(name)}: expected one of {', '.join(SHARES)}")
    if only and ("W6" in only) != (trace is not None):
        raise ValueError("W6 is a trace: expected both of them, or neither")
    return list(dict.fromkeys(only)) or [name for name in SHARES if name != "W6" or trace is not None]


def _workloads(names: Sequence[str], trace: Sequence[Any], quick: bool) -> list[tuple[Workload, tuple[int, ...]]]:
    """All workloads with the shares to race at, made before the first race, so that a bad trace costs no figures."""
    found = []
    for name in names:
        count = {"count": QUICK[name]} if quick else {}
        workload = w6_mooncake(trace, **count) if name == "W6" else WORKLOADS[name](**count)
        if not workload.exchanges:
            raise ValueError(f"workload {name} has no requests to race with")
        found.append((workload, SHARES[name][: 1 if quick else None]))
    return found
