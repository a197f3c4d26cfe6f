"""The command `minikv replay`: send a trace through a prefix cache and say what the cache saved."""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from minikv.cli.console import complain, positive, say, shown
from minikv.measure.replay import Replay, replay
from minikv.measure.traces import TraceError, read_trace, trace_lines
from minikv.prefix.eviction import POLICIES
from minikv.prefix.indexes import INDEXES, index_named
from minikv.prefix.radix import EVICT_BY

_EXAMPLES = """examples:
  minikv replay day.jsonl                             an unlimited cache: what could be saved at most
  minikv replay day.jsonl --capacity 20000            room for 20,000 blocks, whole nodes evicted
  zcat day.jsonl.gz | minikv replay - --json          from a pipe, as one JSON object"""


def add_replay(commands: Any) -> None:
    """Add `replay` to the sub-commands of a parser.

    >>> parser = argparse.ArgumentParser(); add_replay(parser.add_subparsers())
    >>> parser.parse_args(["replay", "day.jsonl", "--capacity", "20000"]).capacity
    20000
    """
    says = "send a Mooncake trace through a prefix cache"
    lines = argparse.RawDescriptionHelpFormatter
    run = commands.add_parser("replay", help=says, description=says, epilog=_EXAMPLES, formatter_class=lines)
    run.add_argument("trace", help="a .jsonl file, or - for standard input")
    run.add_argument("--capacity", type=positive, metavar="N", help="blocks to hold; without it nothing is evicted")
    run.add_argument("--page-size", type=positive, default=1, metavar="P", help="blocks in a page (default 1)")
    run.add_argument("--index", choices=INDEXES, default="radix", help="the design that serves it (default radix)")
    run.add_argument("--evict-by", choices=EVICT_BY, help="radix: evict whole nodes (default), or pages off their end")
    run.add_argument("--policy", choices=sorted(POLICIES), help="radix: what is evicted first (default lru)")
    run.add_argument("--json", action="store_true", help="print one JSON object")
    run.set_defaults(run=run_replay)


def run_replay(options: argparse.Namespace) -> int:
    """Replay the trace as `options` say and print what was found; returns the exit status."""
    name = "standard input" if options.trace == "-" else shown(options.trace)
    start = time.perf_counter()
    try:
        cache = index_named(options.index, options.page_size, options.policy, options.evict_by)
        replay((), cache, options.capacity)  # what is wrong with the options is said before the trace is opened
    except ValueError as error:
        return complain(str(error), 2)
    try:
        with open_trace(options.trace) as lines, _progress(options.trace) as bar:
            result = replay(read_trace(_counted(lines, bar), name), cache, options.capacity)
    except OSError as error:
        return complain(f"cannot read {name}: {error.strerror}", 2)
    except TraceError as error:
        return complain(str(error), 1)
    if not result.requests:
        return complain(f"{name} is empty: a trace has one request a line", 1)
    _report(result, time.perf_counter() - start, as_json=options.json)
    return 0


@contextlib.contextmanager
def open_trace(path: str) -> Iterator[Iterator[bytes]]:
    """The lines of a trace, as bytes: the file of that name, or standard input for `-`; `OSError` says what is wrong.

    >>> with open_trace("no such file"):
    ...     pass
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no such file'
    """
    if "\0" in path:
        raise OSError(errno.EINVAL, "a path holds no NUL character")
    if path != "-":
        with open(path, "rb") as file:
            yield trace_lines(file)
    elif sys.stdin is None:
        raise OSError(errno.EBADF, "it is closed")
    else:
        yield trace_lines(sys.stdin.buffer)


def _progress(path: str) -> Any:
    """A progress bar over the bytes of the file, on a terminal only; one without an end for standard input."""
    from tqdm import tqdm

    total = os.path.getsize(path) if os.path.isfile(path) else None
    return tqdm(total=total, unit="B", unit_scale=True, disable=None, leave=False)


def _counted(lines: Iterable[bytes], bar: Any) -> Iterator[bytes]:
    for line in lines:
        yield line
        bar.update(len(line))


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
