"""A sweep: a trace replayed through every combination of index, policy, page size and capacity, on many cores.

Each run is one `replay`, in a worker of its own (`workers`). What is done is in a journal, so a sweep that was
stopped or killed continues where it was. The results come in the order of the config, whatever ran where and when.

A worker reads a trace once and keeps it, at 4 bytes per block, while it works on runs of that trace.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from minikv import __version__
from minikv.errors import shown
from minikv.prefix import BY_POLICY, index_named
from minikv.progress_bar import Progress, Tick, quiet
from minikv.traffic.replay import Replay, capacity_text, replay
from minikv.traffic.synthetic import SYNTHETIC
from minikv.traffic.tables import aligned
from minikv.traffic.traces import TraceError, TraceRequest, open_traffic
from minikv.untrusted import require_regular
from minikv_tools.journal import Journal, open_journal
from minikv_tools.report import many
from minikv_tools.sweep.sweep_config import SweepConfig
from minikv_tools.sweep.workers import spread

MOST_RUNS = 100_000
_ELSEWHERE = {"folder", "jobs"}  # where a sweep runs, which changes no result
_OWN = "its own"
_CHUNK = 2**20  # bytes
_SALT = b""  # of the block ids of a log, which never leave this process


@dataclass(frozen=True)
class SweepRun:
    """One replay of a sweep; `policy` and `evict_by` are `None` for an index that has one order of eviction."""

    trace: str
    page_size: int
    index: str
    policy: str | None
    evict_by: str | None
    capacity: int | None


class Source(NamedTuple):
    """A trace as a worker finds it: where it is, a checksum of its content, and how it is read."""

    path: str
    content: str
    span_hours: float
    block_size: int | None


def sweep_runs(config: SweepConfig) -> tuple[list[SweepRun], list[str]]:
    """The runs of a sweep, in the order of its table, and a line on each kind of combination that does not exist.

    `ValueError` where an index cannot be made as the config says, where no run is left, or where there are too many.

    >>> config = SweepConfig(Path(), ("day.jsonl",), (10, 100), page_sizes=(16,), indexes=("radix", "hash"))
    >>> runs, left_out = sweep_runs(config)
    >>> [(run.index, run.policy, run.capacity) for run in runs], left_out
    ([('radix', 'lru', 100), ('hash', None, 100)], ['left out: 2 combinations with a capacity that holds no page'])
    """
    runs, left_out, too_small = list[SweepRun](), list[str](), 0
    designs = itertools.product(config.traces, config.page_sizes, _designs(config), config.capacities)
    for trace, size, (index, policy, evict_by), capacity in designs:
        index_named(index, size, policy, evict_by)
        if capacity is not None and capacity < size:
            too_small += 1
            continue
        runs.append(SweepRun(trace, size, index, policy, evict_by, capacity))
        if len(runs) > MOST_RUNS:
            raise ValueError(f"there are more than {MOST_RUNS:,} combinations, the most that a sweep may have")
    others = [index for index in config.indexes if index not in BY_POLICY]
    if others and (config.policies or config.evict_by):
        what = f"policies and evict_by of {', '.join(others)}"
        left_out.append(f"left out: {what}: each has one order of eviction, its own")
    if too_small:
        left_out.append(f"left out: {many(too_small, 'combination')} with a capacity that holds no page")
    if not runs:
        raise ValueError(f"no combination is left: {left_out[-1]}")
    return runs, left_out


def _designs(config: SweepConfig) -> Iterator[tuple[str, str | None, str | None]]:
    for index in config.indexes:
        if index in BY_POLICY:
            ways = itertools.product(config.evict_by or ("node",), config.policies or ("lru",))
            yield from ((index, policy, evict_by) for evict_by, policy in ways)
        else:
            yield index, None, None


class Sweep:
    """A sweep whose config and traces have been looked at: `runs` are what is to be done, in the order of the table.

    `notes` are lines for people: the format of each trace, and combinations that do not exist. `ValueError` names what
    is wrong with the config or with the first request of a trace, `OSError` which trace cannot be read; the rest of a
    trace is read when it is replayed.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> line = '{"timestamp": 0, "input_length": 900, "output_length": 20, "hash_ids": [0, 1]}'
    >>> _ = (folder / "day.jsonl").write_text(line + "\\n" + line)
    >>> sweep = Sweep(SweepConfig(folder, ("day.jsonl",), (1, 2), jobs=1))
    >>> sweep.notes
    ['day.jsonl: format mooncake, blocks of 512 tokens (as the number of ids says)']
    >>> [found.hits for found in sweep.run(folder / "journal")]
    [0, 2]
    """

    def __init__(self, config: SweepConfig):
        self.config = config
        self.runs, left_out = sweep_runs(config)
        self._sources = {trace: _source(trace, config) for trace in config.traces}
        self.notes = [_first_look(trace, source) for trace, source in self._sources.items()] + left_out

    def work(self) -> dict[str, Any]:
        """The inputs that decide the results, for the head of a journal: version, combinations, traces."""
        decides = {key: value for key, value in asdict(self.config).items() if key not in _ELSEWHERE}
        contents = {f"content of {trace}": source.content for trace, source in self._sources.items()}
        return {"minikv": __version__, **decides, **contents}

    def run(self, journal: str | Path, progress: Progress | None = None) -> list[Replay]:
        """Do the runs that are not in the file `journal` yet, and return what each of `runs` found.

        Each is in the journal as soon as it is done. The errors are those of `open_journal`, of the traces
        (`TraceError`, `OSError`) and of `spread`.
        """
        with open_journal(journal, self.work()) as kept:
            missing = [run for run in self.runs if kept.found(asdict(run)) is None]
            self._do(missing, kept, progress)
            return [Replay(**kept.found(asdict(run))) for run in self.runs]

    def _do(self, runs: list[SweepRun], kept: Journal, progress: Progress | None) -> None:
        tell: Tick = progress or quiet
        if progress:
            progress.expect(len(self.runs), done=len(self.runs) - len(runs))
        waiting = dict.fromkeys(runs)
        tasks = [(run, self._sources[run.trace]) for run in runs]
        with closing(spread(_serve, tasks, self.config.jobs)) as found:
            while waiting:
                tell(_label(next(iter(waiting))))
                run, result = next(found)
                kept.add(asdict(run), asdict(result))
                del waiting[run]


def _source(trace: str, config: SweepConfig) -> Source:
    path = trace if trace.startswith(SYNTHETIC) else str(config.folder / trace)
    return Source(path, _content(path), config.span_hours, config.block_size)


def _content(path: str) -> str:
    """A checksum of a file, or the name of traffic that no file holds."""
    if path.startswith(SYNTHETIC):
        return path
    require_regular(Path(path))
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _first_look(trace: str, source: Source) -> str:
    """Return the description of a trace's format; `ValueError` if it has none, or its first request is wrong."""
    with open_traffic(source.path, source.span_hours, source.block_size, salt=_SALT) as traffic:
        said = str(replace(traffic, name=shown(trace)))
        next(traffic.requests, None)
    return said


# -- in a worker ------------------------------------------------------------------------------------------------------


def _serve(task: tuple[SweepRun, Source]) -> tuple[SweepRun, Replay]:
    run, source = task
    cache = index_named(run.index, run.page_size, run.policy, run.evict_by)
    return run, replay(_requests(source), cache, run.capacity)


@functools.lru_cache(maxsize=1)
def _requests(source: Source) -> list[TraceRequest]:
    if _content(source.path) != source.content:
        raise TraceError(f"{shown(source.path)} has changed since the sweep began")
    with open_traffic(source.path, source.span_hours, source.block_size, salt=_SALT) as traffic:
        return list(traffic.requests)


# -- what was found ---------------------------------------------------------------------------------------------------


def sweep_rows(runs: Sequence[SweepRun], found: Sequence[Replay]) -> list[dict[str, Any]]:
    """One JSON object for each run, in their order: what was replayed, then what was found.

    >>> rows = sweep_rows([SweepRun("day.jsonl", 1, "radix", "lru", "node", None)], [Replay(2, 4, hits=2, peak_size=2)])
    >>> rows[0]["capacity"], rows[0]["hit_rate"]
    (None, 0.5)
    """
    return [{**asdict(run), **result.row()} for run, result in zip(runs, found)]


def sweep_table(runs: Sequence[SweepRun], found: Sequence[Replay]) -> str:
    """Hit rates in per cent: a table for each trace and page size, a line for each design, a column for each capacity.

    >>> runs = [SweepRun("day.jsonl", 16, "radix", "lru", "node", capacity) for capacity in (1000, None)]
    >>> print(sweep_table(runs, [Replay(2, 40, hits=20), Replay(2, 40, hits=30)]))
    day.jsonl: 2 requests, 40 blocks; pages of 16; % of blocks hit, by capacity in blocks
    index  policy  evict by  1,000  unlimited
    radix  lru     node       50.0       75.0
    """
    tables = []
    pairs = itertools.groupby(zip(runs, found), key=lambda pair: (pair[0].trace, pair[0].page_size))
    for (trace, page_size), group in pairs:
        cells, capacities = defaultdict[tuple[str, ...], list[str]](list), dict[str, None]()
        for run, result in group:
            cells[run.index, run.policy or _OWN, run.evict_by or _OWN].append(f"{100 * result.hit_rate:.1f}")
            capacities[capacity_text(run.capacity)] = None
        sizes = f"{many(result.requests, 'request')}, {many(result.blocks, 'block')}; pages of {page_size}"
        rows = [("index", "policy", "evict by", *capacities), *((*design, *rates) for design, rates in cells.items())]
        tables.append("\n".join([
            f"{shown(trace)}: {sizes}; % of blocks hit, by capacity in blocks", *aligned(rows, left=range(3))
        ]))  # fmt: skip
    return "\n\n".join(tables)


def _label(run: SweepRun) -> str:
    which = " ".join(part for part in (run.index, run.policy, run.evict_by) if part)
    return f"{shown(run.trace)}, pages of {run.page_size}, {which}, capacity {capacity_text(run.capacity)}"
