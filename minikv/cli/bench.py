"""The command `minikv bench`: its options, and what runs when it is called."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json

from minikv.cli.command import CommandError, RefusedError, add_json, option, positive, refusing, say, using
from minikv.errors import bounded
from minikv.measure.bench import SHARES, bench, designs
from minikv.measure.lap import Contender
from minikv.measure.race import ROUNDS
from minikv.measure.workloads import BLOCK
from minikv.prefix import INDEXES
from minikv.progress_bar import Progress
from minikv.testing.apart import load_module
from minikv.traffic.traces import TraceError, TraceRequest, open_traffic
from minikv.untrusted import refusal

_EXAMPLES = """examples:
  minikv bench --quick                                a first look
  minikv bench --trace day.jsonl --only W6            your own trace, without the made-up workloads
  minikv bench --index hash --index trie --only W1    two other designs beside the radix tree
  minikv bench --race my_index:MyIndex --only W1      your own index, in my_index.py in this folder"""


def add_bench(bench: argparse.ArgumentParser) -> None:
    """Add the options of `minikv bench` to its parser.

    >>> parser = argparse.ArgumentParser(); add_bench(parser)
    >>> parser.parse_args(["--only", "W1,W2"]).only
    ('W1', 'W2')
    """
    bench.epilog = _EXAMPLES
    bench.add_argument("--trace", metavar="FILE", help="a Mooncake trace (.jsonl) for the workload W6")
    bench.add_argument("--only", type=workloads, default=(), metavar="W1,W2", help="run only these workloads")
    bench.add_argument("--rounds", type=positive, default=ROUNDS, metavar="N", help=f"rounds (default {ROUNDS})")
    bench.add_argument("--quick", action="store_true", help="small workloads: under a minute, for a first look")
    bench.add_argument("--race", type=guest, action="append", default=[], metavar="MODULE:CLASS",
                       help="your own index: a class with the five verbs, for lists of tokens")  # fmt: skip
    bench.add_argument("--index", choices=INDEXES, action="append", default=[],
                       help="race this design too")  # fmt: skip
    add_json(bench)


def run_bench(options: argparse.Namespace) -> int:
    """Run the bench as `options` say and print what it found; the exit status."""
    if options.only and ("W6" in options.only) != bool(options.trace):
        raise RefusedError("W6 is the workload of --trace: pass both of them, or neither")
    with Progress() as tick, refusing(ValueError, error=CommandError), refusing(TraceError):
        trace = _trace_of(options.trace) if options.trace else None
        guests = [*designs(options.index), *options.race]
        figures = bench(trace, options.only, options.rounds, options.quick, guests, tick, tick.expect)
    say(json.dumps(dataclasses.asdict(figures)) if options.json else figures.report())
    return 0


def _trace_of(path: str) -> list[TraceRequest]:
    """The first 1,000 requests of a trace whose blocks W6 can write out."""
    with using(path), open_traffic(path) as traffic:
        if (traffic.block_size, traffic.unit) != (BLOCK, "tokens"):
            raise TraceError(f"{traffic}: W6 needs blocks of {BLOCK} tokens")
        return list(itertools.islice(traffic.requests, 1000))


@option
def workloads(text: str) -> tuple[str, ...]:
    """The names of workloads in `text`, separated by commas.

    >>> workloads("w1,W2")
    ('W1', 'W2')
    """
    names = tuple(text.upper().split(","))
    for name in names:
        if name not in SHARES:
            raise ValueError(f"{bounded(name)} is not a workload: expected some of {', '.join(SHARES)}")
    return names


@option
def guest(text: str) -> Contender:
    """The contender that `MODULE:CLASS` names, imported from the current folder too.

    >>> guest("minikv.prefix:RadixCache").name
    'minikv.prefix:RadixCache'
    """
    module, _, name = text.partition(":")
    problem = f"{bounded(text)} cannot be raced"
    try:
        made = getattr(load_module(module), name)
        index = made()
    except Exception as error:  # whatever a guest's own module does when it is imported, and its class when it is made
        raise refusal(problem, error) from None
    for verb in ("match_prefix", "lock", "unlock", "insert", "evict"):
        if not callable(getattr(index, verb, None)):
            raise ValueError(f"{problem}: it has no {verb}")
    return Contender(text, made)
