"""The command `minikv replay`: send a trace through a prefix cache and say what the cache saved."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from minikv.cli.console import complain, positive, say
from minikv.cli.traffic import add_traffic, with_traffic
from minikv.measure.replay import Replay, replay
from minikv.measure.traces import Traffic
from minikv.prefix.eviction import POLICIES
from minikv.prefix.indexes import INDEXES, index_named
from minikv.prefix.radix import EVICT_BY

_EXAMPLES = """examples:
  minikv replay day.jsonl                             an unlimited cache: what could be saved at most
  minikv replay day.jsonl --capacity 20000            room for 20,000 blocks, whole nodes evicted
  minikv replay sessions.jsonl.gz --span 24           sessions of agents that begin within 24 hours
  cat day.jsonl | minikv replay - --json              from a pipe, as one JSON object"""


def add_replay(commands: Any) -> None:
    """Add `replay` to the sub-commands of a parser.

    >>> parser = argparse.ArgumentParser(); add_replay(parser.add_subparsers())
    >>> parser.parse_args(["replay", "day.jsonl", "--capacity", "20000"]).capacity
    20000
    """
    says = "send a trace through a prefix cache"
    lines = argparse.RawDescriptionHelpFormatter
    run = commands.add_parser("replay", help=says, description=says, epilog=_EXAMPLES, formatter_class=lines)
    add_traffic(run)
    run.add_argument("--capacity", type=positive, metavar="N", help="blocks to hold; without it nothing is evicted")
    run.add_argument("--page-size", type=positive, default=1, metavar="P", help="blocks in a page (default 1)")
    run.add_argument("--index", choices=INDEXES, default="radix", help="the design that serves it (default radix)")
    run.add_argument("--evict-by", choices=EVICT_BY, help="radix: evict whole nodes (default), or pages off their end")
    run.add_argument("--policy", choices=sorted(POLICIES), help="radix: what is evicted first (default lru)")
    run.add_argument("--json", action="store_true", help="print one JSON object")
    run.set_defaults(run=run_replay)


def run_replay(options: argparse.Namespace) -> int:
    """Replay the trace as `options` say and print what was found; returns the exit status."""
    try:
        cache = index_named(options.index, options.page_size, options.policy, options.evict_by)
        replay((), cache, options.capacity)  # what is wrong with the options is said before the trace is opened
    except ValueError as error:
        return complain(str(error), 2)
    start = time.perf_counter()

    def use(traffic: Traffic) -> int:
        result = replay(traffic.requests, cache, options.capacity)
        if not result.requests:
            return complain(f"{traffic.name} is empty: it has no request", 1)
        _report(result, time.perf_counter() - start, as_json=options.json)
        return 0

    return with_traffic(options, use)


def _report(result: Replay, seconds: float, as_json: bool) -> None:
    row = {
        "requests": result.requests,
        "blocks": result.blocks,
        "hits": result.hits,
        "hit_rate": round(result.hit_rate, 6),
        "evicted": result.evicted,
        "peak_size": result.peak_size,
        "uncached_requests": result.uncached_requests,
        "requests_per_second": round(result.requests / seconds, 1),
    }
    if as_json:
        say(json.dumps(row))
        return
    shown_row = {**row, "hit_rate": f"{result.hit_rate:.6f}", "requests_per_second": round(result.requests / seconds)}
    for key, value in shown_row.items():
        cell = f"{value:,}" if isinstance(value, int) else value
        say(f"{key.replace('_', ' '):<20} {cell:>12}")
