"""The sub-commands of `minikv` and how one is run: its options, what it prints, its exit status."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from minikv import __version__
from minikv.cli.console import OutputError, complain, writing
from minikv.errors import one_line

COMMANDS = {
    "lab": "open the course in JupyterLab (further options go to JupyterLab)",
    "doctor": "what is installed, what is missing, what to do",
    "plan": "say how much cache a trace needs: hits over memory, the bound, the ceiling, the knee",
    "why": "why a prompt missed the cache: where it parts from another one, and what to do",
    "replay": "send a trace through a prefix cache",
    "sweep": "replay traces through many caches, on all cores or a cluster",
    "trace": "make an anonymous trace, in Mooncake's format, out of a log of requests",
    "bench": "race the cache against the textbook tree and the physical limit",
    "verify": "say which rules of the contract a cache or a manager keeps",
    "chat": "talk to a small model, and see what the cache serves",
}


def run(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status; Ctrl-C is for the caller.

    >>> run(["replay", "no_such_file.jsonl"])
    2
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console that has no ✓ shows a ? instead
    parser = _parser(sys.argv[1:] if argv is None else argv)
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


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """All commands with their one line of help; only the module of the one that is called is imported."""
    parser = _Parser(prog="minikv", description="How LLM serving engines manage their KV cache.")
    parser.add_argument("--version", action="version", version=f"minikv {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    called = next((word for word in arguments if not word.startswith("-")), None)
    for name, says in COMMANDS.items():
        lines = argparse.RawDescriptionHelpFormatter
        command = commands.add_parser(name, help=says, description=says, formatter_class=lines)
        if name == called:
            module = importlib.import_module("minikv.cli.lab" if name == "doctor" else f"minikv.cli.{name}")
            getattr(module, f"add_{name}")(command)
    return parser
