"""The command `minikv sweep`: replay traces through many caches, on all cores, and continue where it was stopped."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from minikv.cli.command import CommandError, RefusedError, mention, refusing, say
from minikv.errors import shown
from minikv.files import replace
from minikv.progress_bar import Progress
from minikv.traffic.replay import Replay
from minikv.traffic.tables import replay_csv
from minikv.traffic.traces import TraceError
from minikv_tools.cli.extras import add_options, help_texts, need, require_apart
from minikv_tools.journal import JournalError
from minikv_tools.sweep import Sweep, sweep_rows, sweep_table
from minikv_tools.sweep.sweep_config import read_sweep_config
from minikv_tools.sweep.workers import WorkerError


def add_sweep(sweep: argparse.ArgumentParser) -> None:
    """Add the options of `minikv sweep` to its parser.

    >>> parser = argparse.ArgumentParser(); add_sweep(parser)
    >>> parser.parse_args(["day.toml", "--jobs", "4"]).jobs
    4
    """
    (sweep.epilog,) = help_texts("sweep")
    add_options(sweep, "sweep")


def run_sweep(options: argparse.Namespace) -> int:
    """Do the runs of the config that are not done yet, and print what all of them found; returns the exit status."""
    if sys.version_info < (3, 11):
        need(options.prog, "tomli")
    try:
        with refusing(ValueError):
            config = read_sweep_config(options.config)
            config = dataclasses.replace(config, jobs=options.jobs or config.jobs)
            if config.jobs != 1:
                need("a sweep without --jobs 1", "joblib")
            require_apart(options.config, options.csv)
            sweep = Sweep(config)
    except OSError as error:
        raise RefusedError(f"cannot use {shown(str(error.filename))}: {error.strerror}") from error
    for note in sweep.notes:
        mention(note)
    try:
        with refusing(TraceError), refusing(WorkerError, error=CommandError):
            found = _results_of(sweep, options)
    except JournalError as error:
        raise RefusedError(f"{error}; delete it, or name another with --journal") from error
    return _report(sweep, found, options)


def _results_of(sweep: Sweep, options: argparse.Namespace) -> list[Replay]:
    journal = options.journal or f"{options.config}.journal"
    try:
        with Progress(command=options.prog) as progress:
            return sweep.run(journal, progress)
    except KeyboardInterrupt:
        mention(f"stopped; finished runs are in {shown(journal)}, and the same command continues from there")
        raise


def _report(sweep: Sweep, found: list[Replay], options: argparse.Namespace) -> int:
    rows = sweep_rows(sweep.runs, found)
    if options.csv:
        replace(options.csv, replay_csv(rows))
    say(json.dumps(rows) if options.json else sweep_table(sweep.runs, found))
    return 0
