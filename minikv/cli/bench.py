"""The command `minikv bench`: its options, and what runs when it is called."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import itertools
import json
import os
import sys
from typing import Any

from minikv.cli.command import complain, lacking, option, positive, say
from minikv.errors import bounded, shown
from minikv.files import destination, locked, read_object, replace
from minikv.measure.bench import SHARES, bench, designs
from minikv.measure.lap import Contender
from minikv.measure.race import ROUNDS
from minikv.measure.results import Measured
from minikv.measure.workloads import BLOCK
from minikv.prefix import INDEXES
from minikv.progress_bar import Progress
from minikv.traffic.traces import TraceError, TraceRequest, open_traffic
from minikv.untrusted import refusal

_EXAMPLES = """examples:
  minikv bench --quick                                a first look
  minikv bench --trace day.jsonl --only W6            your own trace, without the made-up workloads
  minikv bench --index hash --index trie --only W1    two other designs beside the radix tree
  minikv bench --race my_index:MyIndex --only W1      your own index, in my_index.py in this folder
  minikv bench --copy --save copy.json                copies of keys and values, on the GPU where there is one"""


def add_bench(bench: argparse.ArgumentParser) -> None:
    """Add the options of `minikv bench` to its parser.

    >>> parser = argparse.ArgumentParser(); add_bench(parser)
    >>> parser.parse_args(["--only", "W1,W2"]).only
    ('W1', 'W2')
    """
    bench.epilog = _EXAMPLES
    bench.add_argument("--trace", metavar="FILE", help="a Mooncake trace (.jsonl) for the workload W6")
    bench.add_argument("--only", type=workloads, default=(), metavar="W1,W2", help="only these workloads")
    bench.add_argument("--rounds", type=positive, default=ROUNDS, metavar="N", help=f"rounds (default {ROUNDS})")
    bench.add_argument("--quick", action="store_true", help="small workloads: under a minute, for a first look")
    bench.add_argument("--race", type=guest, action="append", default=[], metavar="MODULE:CLASS",
                       help="your own index: a class with the five verbs that takes lists of tokens")  # fmt: skip
    bench.add_argument("--index", choices=INDEXES, action="append", default=[],
                       help="race this design too; with --engine, serve with it (default radix)")  # fmt: skip
    bench.add_argument(
        "--copy", action="store_true", help="measure copies of keys and values instead, against a memcpy"
    )
    bench.add_argument("--engine", action="store_true", help="serve chats instead, and race transformers")
    bench.add_argument("--device", choices=("cpu", "cuda"),
                       help="of --copy (default: the GPU where there is one) or --engine (default: cpu)")  # fmt: skip
    bench.add_argument("--save", metavar="FILE", help="of --copy or --engine: put the figures into this JSON file too")
    bench.add_argument("--json", action="store_true", help="print one JSON object")


def run_bench(options: argparse.Namespace) -> int:
    """Run the bench as `options` say and print what it found; the exit status."""
    if wrong := _wrong(options):
        return complain(wrong, 2)
    try:
        with Progress() as tick:
            figures = _measured(options, tick)
    except ValueError as error:
        return complain(str(error), 2 if isinstance(error, TraceError) else 1)
    except OSError as error:
        if not options.trace:
            raise
        return complain(f"cannot read {shown(options.trace)}: {error.strerror}", 2)
    try:
        if options.save:
            save_figures(figures, options.save, _field(options))
        status = 0
    except OSError as error:
        status = complain(f"cannot save the figures: {error}", 1)
    say(json.dumps(dataclasses.asdict(figures)) if options.json else figures.report())
    return status


def _wrong(options: argparse.Namespace) -> str | None:
    """Return the first problem that would stop the command: with options, packages or files."""
    what = "--copy" if options.copy else "--engine" if options.engine else ""
    if options.copy and options.engine:
        return "--copy and --engine are two benches: name one of them"
    if (options.device or options.save) and not what:
        return "--device and --save go with --copy or --engine"
    if what and (missing := lacking(what, "torch", *(["safetensors"] if options.engine else []))):
        return missing
    if what and (options.trace or options.only or options.race):
        return f"--trace, --only and --race do not go with {what}"
    if options.copy and options.index:
        return "--index does not go with --copy"
    if options.engine and len(options.index) > 1:
        return "--engine serves with one --index: name one of them"
    if options.only and ("W6" in options.only) != bool(options.trace):
        return "W6 is the workload of --trace: name both of them, or neither"
    try:
        if options.save:
            saved_figures(options.save, _field(options))
    except (OSError, ValueError) as error:
        return f"cannot save the figures: {error}"
    return None


def _field(options: argparse.Namespace) -> str:
    """A field that the figures of every device have."""
    return "memcpy" if options.copy else "first_token_ratio"


def _trace_of(path: str) -> list[TraceRequest]:
    """The first 1,000 requests of a trace whose blocks W6 can write out."""
    with open_traffic(path) as traffic:
        if (traffic.block_size, traffic.unit) != (BLOCK, "tokens"):
            raise TraceError(f"{traffic}: W6 needs blocks of {BLOCK} tokens")
        return list(itertools.islice(traffic.requests, 1000))


def _measured(options: argparse.Namespace, tick: Progress) -> Measured:
    """The figures of the bench that was chosen."""
    if options.copy:
        from minikv.measure.copying import bench_copy

        return bench_copy(options.device, options.rounds, options.quick, tick=tick)
    if not options.engine:
        trace = _trace_of(options.trace) if options.trace else None
        guests = [*designs(options.index), *options.race]
        return bench(trace, options.only, options.rounds, options.quick, guests, tick, tick.expect)
    from minikv.measure.chatting import bench_engine, small_model

    device = options.device or "cpu"
    index = (options.index or ["radix"])[0]
    figures = bench_engine(small_model(device), options.rounds, options.quick, tick, index)
    if device == "cpu" and importlib.util.find_spec("transformers") is not None:
        from minikv.measure.generating import race_transformers

        figures.duels = race_transformers(options.rounds, options.quick, tick)
    return figures


def saved_figures(path: str, field: str) -> dict[str, Any]:
    """The figures in a JSON file, by device; none where there is no file yet.

    `field` is one that all figures of this kind have. `OSError` where no file can be written, `ValueError` where there
    is another one: ask before a long measurement.

    >>> saved_figures("no_such_file.json", "memcpy")
    {}
    """
    known = read_object(destination(path))
    for device, figures in known.items():
        if not isinstance(figures, dict) or field not in figures:
            raise ValueError(f"{path!r} holds {bounded(device)}, which is not the figures of a device")
    return known


def save_figures(figures: Any, path: str, field: str) -> None:
    """Put figures into a JSON file beside those of other devices, in place of older ones of the same device."""
    with locked(path):
        known = {**saved_figures(path, field), figures.device: dataclasses.asdict(figures)}
        replace(path, json.dumps(dict(sorted(known.items())), indent=1) + "\n")


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
    path, problem = sys.path[:], f"{bounded(text)} cannot be raced"
    try:
        sys.path.insert(0, os.getcwd())
        made = getattr(importlib.import_module(module), name)
        index = made()
    except Exception as error:  # whatever a guest's own module does when it is imported, and its class when it is made
        raise refusal(problem, error) from None
    finally:
        sys.path[:] = path
    for verb in ("match_prefix", "lock", "unlock", "insert", "evict"):
        if not callable(getattr(index, verb, None)):
            raise ValueError(f"{problem}: it has no {verb}")
    return Contender(text, made)
