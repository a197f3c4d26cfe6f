"""The sub-commands of `minikv` and how one is run: its options, what it prints, its exit status."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from minikv import __version__
from minikv.cli.bench import add_bench
from minikv.cli.chat import add_chat
from minikv.cli.console import OutputError, complain, one_line, writing
from minikv.cli.lab import add_doctor, add_lab
from minikv.cli.plan import add_plan
from minikv.cli.replay import add_replay
from minikv.cli.sweep import add_sweep
from minikv.cli.trace import add_trace
from minikv.cli.verify import add_verify
from minikv.cli.why import add_why


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; Ctrl-C is for the caller.

    >>> run(["replay", "no_such_file.jsonl"])
    2
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console that has no ✓ shows a ? instead
    parser = _parser()
    options, rest = parser.parse_known_args(argv)
    if rest and options.command != "lab":
        parser.error(f"unknown arguments: {' '.join(rest)}")
    options.rest = rest
    if sys.stdout is None and options.command != "lab":
        return complain("cannot write the result: standard output is closed", 1)
    try:
        status = int(options.run(options))
        if sys.stdout is not None:
            with writing():
                sys.stdout.flush()
    except OutputError as error:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1 if isinstance(error.__cause__, BrokenPipeError) else complain(str(error), 1)
    except OSError as error:  # of a file or a folder that the command needs
        return complain(f"{options.command} cannot go on: {error}", 1)
    return status


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are lines that a terminal can show, whatever was typed."""

    def error(self, message: str) -> NoReturn:
        super().error(one_line(message))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="minikv", description="How LLM serving engines manage their KV cache.")
    parser.add_argument("--version", action="version", version=f"minikv {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    every = (add_lab, add_doctor, add_plan, add_why, add_replay, add_sweep, add_trace, add_bench, add_verify, add_chat)
    for add in every:
        add(commands)
    return parser
