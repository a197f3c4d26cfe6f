"""The shared part of the commands that read a trace: its options, its summary, a bar, and one line for an error."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from minikv.cli.command import mention, positive, refusing, using
from minikv.traffic.trace_file import behind_bar
from minikv.traffic.traces import SPAN_HOURS, Traffic, open_traffic


def add_traffic(command: argparse.ArgumentParser) -> None:
    """Add the trace to the arguments of a command, and the options that say how it is read.

    >>> parser = argparse.ArgumentParser(); add_traffic(parser)
    >>> parser.parse_args(["day.jsonl.gz", "--span", "24"]).span
    24.0
    """
    command.add_argument("trace", help="a trace or a log of requests, plain or gzipped; - for standard input; "
                         "or generated traffic: synthetic:chat, few-shot, documents, agents, tree-search")  # fmt: skip
    command.add_argument("--span", type=float, default=SPAN_HOURS, metavar="HOURS",
                         help="space sessions without start times evenly over these hours (default 8)")  # fmt: skip
    command.add_argument("--block-size", type=positive, metavar="B",
                         help="tokens (of a log: bytes) in a block, if the trace does not say")  # fmt: skip
    command.add_argument("--tokenizer", metavar="FOLDER",
                         help="cut a log of requests into the tokens of this checkpoint, not into bytes")  # fmt: skip


def with_traffic(options: argparse.Namespace, use: Callable[[Traffic], int], salt: bytes | None = None) -> int:
    """Open the trace that `options` name, say on standard error what it is, and `use` it; returns the exit status.

    `salt` is that of the block ids of a log (`None`: a random one). A trace that cannot be opened or read is one line
    on standard error, and so is a trace that `use` refuses. On a terminal a bar shows what has been read.
    """
    with ExitStack() as stack:
        with using(options.trace), refusing(ValueError, ModuleNotFoundError):
            opened = open_traffic(options.trace, options.span, options.block_size, options.tokenizer, salt)
            traffic = stack.enter_context(opened)
        mention(str(traffic))
        with refusing(ValueError):
            return use(replace(traffic, requests=behind_bar(traffic.requests, traffic.total, traffic.file)))
