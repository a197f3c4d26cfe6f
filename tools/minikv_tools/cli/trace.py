"""The command `minikv trace`, which makes an anonymous trace out of a log."""

from __future__ import annotations

import argparse
import zlib
from array import array
from collections.abc import Iterable, Iterator

from minikv.cli.command import say
from minikv.cli.traffic import add_traffic, with_traffic
from minikv.errors import shown
from minikv.files import replace
from minikv.traffic.mooncake import write_trace
from minikv.traffic.trace_file import TraceRequest
from minikv.traffic.traces import Traffic
from minikv_tools.cli.extras import add_options, help_texts, require_apart
from minikv_tools.logs import anonymous
from minikv_tools.report import many

_GZIP = 31  # what zlib calls the format of gzip, without a time and a name in it


def add_trace(trace: argparse.ArgumentParser) -> None:
    """Add the options of `minikv trace` to its parser.

    >>> parser = argparse.ArgumentParser(); add_trace(parser)
    >>> parser.parse_args(["log.jsonl", "-o", "trace.jsonl"]).output
    'trace.jsonl'
    """
    more, trace.epilog = help_texts("trace")
    trace.description = f"{trace.description}\n\n{more}"
    add_traffic(trace)
    add_options(trace, "trace")


def run_trace(options: argparse.Namespace) -> int:
    """Write the trace as `options` say; returns the exit status."""
    output = options.output
    require_apart(options.trace, output)

    def use(traffic: Traffic) -> int:
        sizes = array("q")  # the blocks of each request
        lines = write_trace(_counted(traffic.requests, sizes), traffic.block_size, traffic.unit, traffic.timed)
        if output is None:
            for line in lines:
                say(line.decode().rstrip("\n"))
            return 0
        replace(output, _packed(lines) if output.endswith(".gz") else lines)
        say(
            f"{shown(output)}: {many(len(sizes), 'request')}, {many(sum(sizes), 'block')} of "
            f"{many(traffic.block_size, traffic.unit[:-1])}"
        )
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
