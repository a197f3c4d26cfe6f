"""The command `minikv replay`: send a trace through a prefix cache and say what the cache saved."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence

from minikv import files
from minikv.cli.command import RefusedError, option, positive, refusing, require_packages, say, using
from minikv.cli.traffic import add_traffic, with_traffic
from minikv.errors import shown
from minikv.prefix import INDEXES, index_named
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix import EVICT_BY
from minikv.traffic.replay import Replay, Replayer, read_capacities, replay_each
from minikv.traffic.tables import replay_csv, replay_lines
from minikv.traffic.traces import Traffic

_EXAMPLES = """minikv plan has all capacities at once for LRU evicting pages, and their bound.

examples:
  minikv replay day.jsonl                             an unlimited cache: the most that could be saved
  minikv replay day.jsonl --capacity 20k              room for 20,000 blocks, whole nodes evicted
  minikv replay day.jsonl --capacity 5k,10k,20k,1e6   a row for each capacity, in one pass over the trace
  minikv replay day.jsonl --capacity 5k,10k,20k --curve hits.png
  minikv replay sessions.jsonl.gz --span 24           sessions of agents that begin within 24 hours
  minikv replay log.jsonl --tokenizer qwen3-8b        a log of requests, in the tokens of that checkpoint
  minikv replay "synthetic:agents?requests=500"       generated traffic, the same every time
  cat day.jsonl | minikv replay - --json              from a pipe, as one JSON object"""
_DECADES = 100  # from the smallest capacity to the largest: then the axis counts powers


def add_replay(replay: argparse.ArgumentParser) -> None:
    """Add the options of `minikv replay` to its parser.

    >>> parser = argparse.ArgumentParser(); add_replay(parser)
    >>> parser.parse_args(["day.jsonl", "--capacity", "20k,unlimited"]).capacity
    [20000, None]
    """
    replay.epilog = _EXAMPLES
    add_traffic(replay)
    replay.add_argument("--capacity", type=option(read_capacities), default=[None], metavar="N,N",
                     help="size in blocks, one number or several (20k,1e6); without it, unlimited")  # fmt: skip
    replay.add_argument("--page-size", type=positive, default=1, metavar="P", help="blocks in a page (default 1)")
    replay.add_argument("--index", choices=INDEXES, default="radix", help="the design of the cache (default radix)")
    replay.add_argument("--evict-by", choices=EVICT_BY, help="radix, window: evict whole nodes (default), or pages")
    replay.add_argument("--policy", choices=sorted(POLICIES), help="radix, window: the eviction order (default lru)")
    form = replay.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="print a JSON object, or a list of them for several capacities"
    )
    form.add_argument("--csv", action="store_true", help="print comma-separated values, a row for each capacity")
    replay.add_argument("--curve", metavar="FILE", help="plot the hit rate by capacity in this .png or .svg")


def run_replay(options: argparse.Namespace) -> int:
    """Replay the trace as `options` say and print what was found; returns the exit status."""
    with refusing(ValueError):  # what is wrong with the options is said before the trace is opened
        if options.curve is not None:
            _require_curve(options)
        design = options.index, options.page_size, options.policy, options.evict_by
        replayers = [Replayer(index_named(*design), capacity) for capacity in options.capacity]
    start = time.perf_counter()

    def use(traffic: Traffic) -> int:
        results = replay_each(traffic.requests, replayers)
        if not results[0].requests:
            raise RefusedError(f"{traffic.name} has no requests")
        _report(options, results, time.perf_counter() - start)
        if options.curve is not None:
            _draw(options, results, traffic)
        return 0

    return with_traffic(options, use)


def _report(options: argparse.Namespace, results: Sequence[Replay], seconds: float) -> None:
    rows = [{"capacity": capacity, **result.row()} for capacity, result in zip(options.capacity, results)]
    if options.csv:
        say(replay_csv(rows).rstrip("\n"))
        return
    if len(rows) == 1:
        del rows[0]["capacity"]
    if options.json or len(rows) == 1:
        rows = [{**row, "requests_per_second": round(results[0].requests / seconds)} for row in rows]
    if options.json:
        say(json.dumps(rows if len(rows) > 1 else rows[0]))
        return
    for line in replay_lines(rows):
        say(line)


def _require_curve(options: argparse.Namespace) -> None:
    """Raise the error that says what prevents the picture, before the trace is read."""
    if not options.curve.endswith((".png", ".svg")):
        raise ValueError(f"--curve is {shown(options.curve)}: expected the name of a .png or an .svg")
    if len(set(options.capacity) - {None}) < 2:
        raise ValueError("--curve plots the hit rate by --capacity: name at least two, such as 5k,10k,20k")
    if options.curve.endswith(".png"):
        require_packages("--curve", "resvg_py")
    with using(options.curve, "write"):
        files.destination(options.curve)


def _draw(options: argparse.Namespace, results: Sequence[Replay], traffic: Traffic) -> None:
    """Draw the hit rate over the capacities; that of an unlimited cache is a line across."""
    from minikv.course.pictures.picture import plot

    rates = {capacity: result.hit_rate for capacity, result in zip(options.capacity, results)}
    unlimited = rates.pop(None, None)
    sizes = sorted(rates)
    how = filter(None, (options.index, options.policy, options.evict_by))
    series = {" ".join(how): [rates[size] for size in sizes]}
    if unlimited is not None:
        series["unlimited"] = [unlimited] * len(sizes)
    log = "x" if sizes[-1] >= _DECADES * sizes[0] else ""
    over = f"capacity, in blocks of {traffic.block_size} {traffic.unit}"
    picture = plot(f"Hits of {traffic.name.rpartition('/')[2]}", {over: sizes}, series, "hit rate", log)
    content = picture.png if options.curve.endswith(".png") else picture.svg
    files.replace(options.curve, content or b"")
