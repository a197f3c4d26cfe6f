"""The command `minikv trace`, which makes an anonymous trace out of a log, and what commands that read a trace share.

Shared are its options, what is said of it, a bar, and one line for what is wrong.
"""

from __future__ import annotations

import argparse
import os
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from minikv import files
from minikv.cli.command import complain, mention, option, positive, say
from minikv.errors import shown
from minikv.traffic.logs import anonymous
from minikv.traffic.mooncake import write_trace
from minikv.traffic.trace_file import TraceRequest
from minikv.traffic.traces import SPAN_HOURS, TraceError, Traffic, open_traffic

_Item = TypeVar("_Item")


@option
def hours(text: str) -> float:
    """`text` as a number of hours from 0 to 1,000,000.

    >>> hours("1.5")
    1.5
    """
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1e6:
        raise ValueError(f"{text[:60]!r} is not a number of hours from 0 to 1,000,000")
    return number


def cannot_read(path: str, error: OSError) -> int:
    """Say why a trace cannot be opened; returns the exit status.

    >>> cannot_read("-", OSError(9, "it is closed"))
    2
    """
    return complain(f"cannot read {'standard input' if path == '-' else shown(path)}: {error.strerror}", 2)


def add_traffic(command: argparse.ArgumentParser) -> None:
    """Add the trace to the arguments of a command, and the options that say how it is read.

    >>> parser = argparse.ArgumentParser(); add_traffic(parser)
    >>> parser.parse_args(["day.jsonl.gz", "--span", "24"]).span
    24.0
    """
    command.add_argument("trace", help="a trace or a log of requests, packed with gzip or not; - for standard input; "
                         "or made-up traffic: synthetic:chat, few-shot, documents, agents, tree-search")  # fmt: skip
    command.add_argument("--span", type=hours, default=SPAN_HOURS, metavar="HOURS",
                         help="sessions without start times begin evenly over these hours (default 8)")  # fmt: skip
    command.add_argument("--block-size", type=positive, metavar="B",
                         help="tokens (of a log: bytes) in a block, where the trace does not say so")  # fmt: skip
    command.add_argument("--tokenizer", metavar="FOLDER",
                         help="cut a log of requests into the tokens of this checkpoint, not into bytes")  # fmt: skip


def with_traffic(options: argparse.Namespace, use: Callable[[Traffic], int], salt: bytes | None = None) -> int:
    """Open the trace that `options` name, say on standard error what it is, and `use` it; returns the exit status.

    `salt` is that of the block ids of a log (`None`: a random one). A trace that cannot be opened or read is one line
    on standard error. On a terminal a bar shows what has been read.
    """
    with ExitStack() as stack:
        try:
            opened = open_traffic(options.trace, options.span, options.block_size, options.tokenizer, salt)
            traffic = stack.enter_context(opened)
        except OSError as error:
            return cannot_read(options.trace, error)
        except TraceError as error:
            return complain(str(error), 1)
        except (ValueError, ModuleNotFoundError) as error:
            return complain(str(error), 2)
        mention(str(traffic))
        try:
            return use(replace(traffic, requests=behind_bar(traffic.requests, traffic.total)))
        except TraceError as error:
            return complain(str(error), 1)


def behind_bar(items: Iterable[_Item], total: int | None = None) -> Iterator[_Item]:
    """The items, behind a bar on a terminal, which ends where their number is known.

    >>> list(behind_bar([1, 2]))
    [1, 2]
    """
    from tqdm import tqdm

    yield from tqdm(items, total=total, unit=" requests", disable=None, leave=False)


_EXAMPLES = """examples:
  minikv trace log.jsonl -o trace.jsonl               a trace that can be shown to others
  minikv trace log.jsonl -o trace.jsonl.gz --tokenizer checkpoints/qwen3-8b
  minikv trace synthetic:chat -o chat.jsonl           made-up traffic, the same every time"""
_GZIP = 31  # what zlib calls the format of gzip, without a time and a name in it
_MORE = """The trace has times, lengths and block ids. An id numbers the blocks as they first appear: it is the same
where everything up to the end of the block is the same, and nothing of a prompt can be told from it."""


def add_trace(trace: argparse.ArgumentParser) -> None:
    """Add the options of `minikv trace` to its parser.

    >>> parser = argparse.ArgumentParser(); add_trace(parser)
    >>> parser.parse_args(["log.jsonl", "-o", "trace.jsonl"]).output
    'trace.jsonl'
    """
    trace.description, trace.epilog = f"{trace.description}\n\n{_MORE}", _EXAMPLES
    add_traffic(trace)
    trace.add_argument("-o", "--output", metavar="FILE",
                     help="write the trace to this file, packed with gzip if its name ends in .gz")  # fmt: skip
    trace.add_argument("--salt", metavar="TEXT", help="of the hashes behind the ids (default: a random one)")


def run_trace(options: argparse.Namespace) -> int:
    """Write the trace as `options` say; returns the exit status."""
    output = options.output
    try:
        if output is not None:
            files.destination(output)
            if os.path.exists(output) and os.path.exists(options.trace) and os.path.samefile(output, options.trace):
                return complain(f"{shown(output)} is the log itself: name another file for the trace", 2)
    except (OSError, ValueError) as error:
        return complain(f"cannot write {shown(output)}: {getattr(error, 'strerror', None) or error}", 2)

    def use(traffic: Traffic) -> int:
        sizes = array("q")  # the blocks of each request
        lines = write_trace(_counted(traffic.requests, sizes), traffic.block_size, traffic.unit, traffic.timed)
        if output is None:
            for line in lines:
                say(line.decode().rstrip("\n"))
            return 0
        try:
            files.replace(output, _packed(lines) if output.endswith(".gz") else lines)
        except OSError as error:
            return complain(f"cannot write {shown(output)}: {error.strerror}", 1)
        blocks = f"{sum(sizes):,} blocks of {traffic.block_size} {traffic.unit}"
        say(f"{shown(output)}: {len(sizes):,} requests, {blocks}")
        return 0

    salt = None if options.salt is None else options.salt.encode(errors="surrogateescape")
    return with_traffic(options, use, salt)


def _counted(requests: Iterable[TraceRequest], sizes: array[int]) -> Iterator[TraceRequest]:
    """The anonymous requests; `sizes` gets the blocks of each when it comes."""
    for request in anonymous(requests):
        sizes.append(len(request.blocks))
        yield request


def _packed(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, packed as gzip does; the same for the same lines."""
    packer = zlib.compressobj(wbits=_GZIP)
    for line in lines:
        yield packer.compress(line)
    yield packer.flush()
